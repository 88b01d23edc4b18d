// init.c - initial values of parameters.

#include "init.h"

#include <math.h>
#include <string.h>

#include "numbers.h"
#include "philox.h"

// Four words for elements 4 block .. 4 block + 3.
static void
draw(uint32_t out[4], uint64_t seed, uint64_t name, uint64_t block)
{
    uint64_t mixed = name + (block >> 32) * 0x9e3779b97f4a7c15u;
    uint32_t c[4] = {(uint32_t)block, 0x696e6974u, (uint32_t)mixed,
                     (uint32_t)(mixed >> 32)};
    uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    pcvr_philox(out, c, k);
}

// In (0, 1): never an end, so that the logarithm below is finite.
static double
unit(uint32_t word)
{
    return ((double)word + 0.5) * 0x1p-32;
}

static void
fill_uniform(float *out, int64_t n, uint64_t seed, uint64_t name, double bound)
{
    uint32_t w[4];
    for (int64_t i = 0; i < n; i++) {
        if (i % 4 == 0)
            draw(w, seed, name, (uint64_t)i / 4);
        out[i] = (float)(bound * (2.0 * unit(w[i % 4]) - 1.0));
    }
}

// Box, Muller 1958: two uniform numbers make two normal ones.
static void
fill_normal(float *out, int64_t n, uint64_t seed, uint64_t name, double std)
{
    uint32_t w[4];
    for (int64_t i = 0; i < n; i++) {
        if (i % 4 == 0)
            draw(w, seed, name, (uint64_t)i / 4);
        const uint32_t *pair = w + (i % 4 & 2);
        double radius = sqrt(-2.0 * log(unit(pair[0])));
        double angle = 6.28318530717958647692 * unit(pair[1]);
        out[i] = (float)(std * radius * (i % 2 ? sin(angle) : cos(angle)));
    }
}

static double
fan_sum(const pcvr_param *p)
{
    double field = 1.0;
    if (p->rank < 2)
        return 2.0 * (p->rank == 1 ? (double)p->shape[0] : 1.0);
    for (int i = 2; i < p->rank; i++)
        field *= (double)p->shape[i];
    return ((double)p->shape[0] + (double)p->shape[1]) * field;
}

static void
fill_constant(float *out, int64_t n, double value)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)value;
}

void
pcvr_init_fill(float *out, const pcvr_param *p, uint64_t seed)
{
    uint64_t name = pcvr_name_hash(p->name);
    double v = p->init_value;
    switch (p->init) {
    case PCVR_INIT_ZEROS:
        fill_constant(out, p->size, 0.0);
        break;
    case PCVR_INIT_ONES:
        fill_constant(out, p->size, 1.0);
        break;
    case PCVR_INIT_CONSTANT:
        fill_constant(out, p->size, v);
        break;
    case PCVR_INIT_UNIFORM:
        fill_uniform(out, p->size, seed, name, v);
        break;
    case PCVR_INIT_NORMAL:
        fill_normal(out, p->size, seed, name, v);
        break;
    case PCVR_INIT_XAVIER_NORMAL:
        fill_normal(out, p->size, seed, name, sqrt(2.0 / fan_sum(p)));
        break;
    case PCVR_INIT_XAVIER_UNIFORM:
        fill_uniform(out, p->size, seed, name, sqrt(6.0 / fan_sum(p)));
        break;
    }
    if (p->flags & PCVR_PARAM_PADDING && p->rank > 0 && p->shape[0] > 0)
        memset(out, 0, (size_t)(p->size / p->shape[0]) * sizeof *out);
}

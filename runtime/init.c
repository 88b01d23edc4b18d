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

// Elements [first, end) of a parameter are filled; first is a multiple of 4.
static void
fill_uniform(float *out, int64_t first, int64_t end, uint64_t seed, uint64_t name,
             double bound)
{
    uint32_t w[4];
    for (int64_t i = first; i < end; i++) {
        if (i % 4 == 0)
            draw(w, seed, name, (uint64_t)i / 4);
        out[i] = (float)(bound * (2.0 * unit(w[i % 4]) - 1.0));
    }
}

// Box, Muller 1958: two uniform numbers make two normal ones.
static void
fill_normal(float *out, int64_t first, int64_t end, uint64_t seed, uint64_t name,
            double std)
{
    for (int64_t at = first; at < end; at += 4) {
        uint32_t w[4];
        float four[4];
        draw(w, seed, name, (uint64_t)at / 4);
        for (int k = 0; k < 4; k += 2) {
            double radius = sqrt(-2.0 * log(unit(w[k])));
            double angle = 6.28318530717958647692 * unit(w[k + 1]);
            four[k] = (float)(std * radius * cos(angle));
            four[k + 1] = (float)(std * radius * sin(angle));
        }
        memcpy(out + at, four, (size_t)(end - at < 4 ? end - at : 4) * sizeof *out);
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
fill_constant(float *out, int64_t first, int64_t end, double value)
{
    for (int64_t i = first; i < end; i++)
        out[i] = (float)value;
}

// Elements [first, end) of a parameter, first a multiple of 4.
static void
fill_range(float *out, const pcvr_param *p, uint64_t seed, int64_t first, int64_t end)
{
    uint64_t name = pcvr_name_hash(p->name);
    double v = p->init_value;
    switch (p->init) {
    case PCVR_INIT_ZEROS:
        fill_constant(out, first, end, 0.0);
        break;
    case PCVR_INIT_ONES:
        fill_constant(out, first, end, 1.0);
        break;
    case PCVR_INIT_CONSTANT:
        fill_constant(out, first, end, v);
        break;
    case PCVR_INIT_UNIFORM:
        fill_uniform(out, first, end, seed, name, v);
        break;
    case PCVR_INIT_NORMAL:
        fill_normal(out, first, end, seed, name, v);
        break;
    case PCVR_INIT_XAVIER_NORMAL:
        fill_normal(out, first, end, seed, name, sqrt(2.0 / fan_sum(p)));
        break;
    case PCVR_INIT_XAVIER_UNIFORM:
        fill_uniform(out, first, end, seed, name, sqrt(6.0 / fan_sum(p)));
        break;
    }
}

static void
clear_padding(float *out, const pcvr_param *p)
{
    if (p->flags & PCVR_PARAM_PADDING && p->rank > 0 && p->shape[0] > 0)
        memset(out, 0, (size_t)(p->size / p->shape[0]) * sizeof *out);
}

void
pcvr_init_fill(float *out, const pcvr_param *p, uint64_t seed)
{
    fill_range(out, p, seed, 0, p->size);
    clear_padding(out, p);
}

typedef struct Job {
    pcvr_runner *r;
    const pcvr_module *m;
    uint64_t seed;
    int64_t threads;
} Job;

enum { UNIT = 1024 }; // elements that one thread takes together: a page

static void
init_thread(void *arg, int thread)
{
    const Job *j = arg;
    for (int i = 0; i < j->m->n_params; i++) {
        const pcvr_param *p = &j->m->params[i];
        int64_t units = (p->size + UNIT - 1) / UNIT;
        int64_t first = units * thread / j->threads * UNIT;
        int64_t end = units * (thread + 1) / j->threads * UNIT;
        fill_range(pcvr_runner_param(j->r, i), p, j->seed, first,
                   end < p->size ? end : p->size);
    }
}

void
pcvr_init_params(pcvr_runner *r, const pcvr_module *m, uint64_t seed)
{
    Job job = {r, m, seed, pcvr_runner_plan(r)->threads};
    pcvr_runner_run(r, init_thread, &job);
    for (int i = 0; i < m->n_params; i++)
        clear_padding(pcvr_runner_param(r, i), &m->params[i]);
}

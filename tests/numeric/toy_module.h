// toy_module.h - a module written by hand, for tests of what runs modules.
//
// logit(s) = w . tanh(sum of rows of a table at the sample's ids) + v . dense + b + b * b
// The bias has two uses. The kept value is h = tanh(sum). The ids are the first feature of
// the first domain. A test that reads files defines TOY_LAYOUT and the sizes of its schema.

#ifndef TOY_MODULE_H
#define TOY_MODULE_H

#include <math.h>
#include <string.h>

#include "pcvr.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#ifndef TOY_LAYOUT
enum { TOY_V = 50, TOY_F = 1, TOY_L = 5, TOY_U = 3 };
static const pcvr_domain_info toy_domains[] = {
    {.name = "seq",
     .features = TOY_F,
     .length = TOY_L,
     .reads = PCVR_READ_EVENTS | PCVR_READ_LENGTHS},
};
#define TOY_LAYOUT                                                                       \
    {                                                                                    \
        .user_dense = TOY_U, .reads = PCVR_READ_USER_DENSE, .n_domains = 1,              \
        .domains = toy_domains                                                           \
    }
#endif
enum { TOY_D = 4, TOY_BAD_ID = 777 };

enum { TOY_INPUT = 4 * (1 + TOY_L + TOY_U) }; // bytes of a record in use

typedef struct ToyInput {
    int32_t n, ids[TOY_L];
    float dense[TOY_U];
    char rest[(TOY_INPUT + 63) / 64 * 64 - TOY_INPUT];
} ToyInput;

typedef struct ToyKept {
    float h[TOY_D];
    float logit, rest[11];
} ToyKept;

static int
toy_gather(const pcvr_ctx *c)
{
    const pcvr_batch *b = c->batch;
    for (int64_t k = 0; k < c->count; k++) {
        ToyInput *in = (ToyInput *)c->inputs + k;
        int64_t s = c->first + k;
        in->n = (int32_t)b->domains[0].lengths[s];
        for (int j = 0; j < TOY_L; j++) {
            int64_t id = j < in->n ? b->domains[0].values[s * TOY_F * TOY_L + j] : 0;
            if (id < 0 || id == TOY_BAD_ID)
                return PCVR_EINVAL;
            in->ids[j] = (int32_t)id;
        }
        memcpy(in->dense, b->user_dense + s * TOY_U, sizeof in->dense);
    }
    return PCVR_OK;
}

static float
toy_logit(const pcvr_ctx *c, const ToyInput *in, float *h)
{
    const float *w = c->params[0], *v = c->params[1], *b = c->params[2],
                *e = c->params[3];
    float *sum = (float *)c->scratch, z = 0.0f;
    memset(sum, 0, 128);
    for (int j = 0; j < in->n; j++)
        for (int d = 0; d < TOY_D; d++)
            sum[d] += e[in->ids[j] * TOY_D + d];
    sum[31] = 1.0f; // the last line of the scratch is used
    for (int d = 0; d < TOY_D; d++) {
        h[d] = tanhf(sum[d]);
        z += w[d] * h[d];
    }
    for (int u = 0; u < TOY_U; u++)
        z += v[u] * in->dense[u];
    return z + b[0] + b[0] * b[0];
}

static void
toy_forward(const pcvr_ctx *c)
{
    for (int64_t k = 0; k < c->count; k++) {
        float h[TOY_D];
        c->logits[c->first + k] = toy_logit(c, (const ToyInput *)c->inputs + k, h);
    }
}

static void
toy_keep(const pcvr_ctx *c)
{
    for (int64_t k = 0; k < c->count; k++) {
        ToyKept *kept = (ToyKept *)c->kept + k;
        kept->logit = toy_logit(c, (const ToyInput *)c->inputs + k, kept->h);
        c->logits[c->first + k] = kept->logit;
    }
}

static void
toy_backward(const pcvr_ctx *c)
{
    const float *w = c->params[0], *b = c->params[2];
    double from = c->clock != NULL ? pcvr_now() : 0.0;
    for (int64_t k = 0; k < c->count; k++) {
        const ToyInput *in = (const ToyInput *)c->inputs + k;
        const ToyKept *kept = (const ToyKept *)c->kept + k;
        float g = c->dlogits[c->first + k];
        for (int d = 0; d < TOY_D; d++)
            c->acc[d] += g * kept->h[d];
        for (int u = 0; u < TOY_U; u++)
            c->acc[16 + u] += g * in->dense[u];
        c->acc[32] += g;
        c->acc[48] += g * 2.0f * b[0];
        for (int j = 0; j < in->n; j++) {
            float *row = pcvr_rows_get(&c->stores[0], in->ids[j]);
            for (int d = 0; d < TOY_D; d++) {
                float dx = g * w[d] * (1.0f - kept->h[d] * kept->h[d]);
                row[d] += dx;
                c->stores[0].squares += (double)dx * (double)dx;
            }
        }
    }
    if (c->clock != NULL)
        c->clock[0] += pcvr_now() - from;
}

static const pcvr_param toy_params[] = {
    {.name = "w",
     .rank = 1,
     .shape = {TOY_D},
     .size = TOY_D,
     .init = PCVR_INIT_UNIFORM,
     .init_value = 0.1},
    {.name = "v", .rank = 1, .shape = {TOY_U}, .size = TOY_U},
    {.name = "b", .rank = 1, .shape = {1}, .size = 1},
    {.name = "table",
     .rank = 2,
     .shape = {TOY_V, TOY_D},
     .size = TOY_V * TOY_D,
     .init = PCVR_INIT_NORMAL,
     .init_value = 0.1,
     .flags = PCVR_PARAM_TABLE | PCVR_PARAM_PADDING},
    {.name = "unused", .rank = 1, .shape = {20}, .size = 20, .flags = PCVR_PARAM_UNUSED},
};
static const pcvr_use toy_uses[] = {
    {.param = 0, .size = TOY_D, .offset = 0},
    {.param = 1, .size = TOY_U, .offset = 16},
    {.param = 2, .size = 1, .offset = 32},
    {.param = 2, .size = 1, .offset = 48},
};
static const pcvr_store_info toy_stores[] = {{.param = 3, .ids_per_sample = TOY_L}};
static const pcvr_region toy_regions[] = {{.name = "all", .flops = 40, .kept_bytes = 64}};

static const pcvr_module toy_module = {
    .abi = PCVR_ABI,
    .name = "toy",
    .isa = "scalar",
    .checkpoint = "none",
    .config = "{}",
    .compiler = "by hand",
    .actions = 1,
    .n_params = 5,
    .n_uses = 4,
    .n_stores = 1,
    .n_regions = 1,
    .params = toy_params,
    .uses = toy_uses,
    .stores = toy_stores,
    .regions = toy_regions,
    .layout = TOY_LAYOUT,
    .acc_floats = 64,
    .input_bytes = sizeof(ToyInput),
    .kept_bytes = sizeof(ToyKept),
    .scratch_bytes = 128,
    .forward_scratch_bytes = 128,
    .default_chunk = 8,
    .gather_inputs = toy_gather,
    .forward = toy_forward,
    .forward_keep = toy_keep,
    .backward = toy_backward,
};

#endif

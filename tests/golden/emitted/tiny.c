// tiny.c - tiny.pcvr, compiled by pcvrc 0.1.0.
//
// configuration: {"d":8,"heads":2,"gradient_checkpointing":false}
// checkpoint: *
// batch hint: 256
//
// A sample's inputs, kept values and temporaries are records of floats, 64-bit integers and
// bytes at fixed places: in, ini, inb the inputs; k, ki, kb kept; g, gi, gb temporaries of
// the sample; t, ti, tb of the thread. p: parameters, w: packed weights, a: accumulators.

#include "pcvr.h"
#include "pcvr_kernels.h"
#include "pcvr_tiles.h"

enum {
    INPUT_BYTES = 256,
    KEPT_BYTES = 64,
};

enum { ACTIONS = 1, EMBEDDING = 0 };

// Scratch of a thread: records of the GROUP samples that pass a phase together, then what
// one sample needs within a phase. Where nothing goes backward the kept records of the
// UNKEPT_GROUP samples are there too.
enum {
    GROUP = 8,
    UNKEPT_GROUP = 8,
    FORWARD_RECORD = 1024,
    BACKWARD_RECORD = 576,
};

static inline unsigned char *
kept_of(const pcvr_ctx *x, int64_t s)
{
    return x->kept ? x->kept + s * KEPT_BYTES
            : x->scratch + s % UNKEPT_GROUP * KEPT_BYTES;
}

static inline unsigned char *
scratch_of(const pcvr_ctx *x)
{
    return x->kept ? x->scratch : x->scratch + UNKEPT_GROUP * KEPT_BYTES;
}

static const int64_t const_i[16] = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static void
inputs_1(const pcvr_ctx *x, int64_t s, int slot)
{
    float *const in = (float *)(void *)(x->inputs + s * INPUT_BYTES);
    int64_t *const ini = (int64_t *)(void *)(x->inputs + s * INPUT_BYTES);
    uint8_t *const inb = x->inputs + s * INPUT_BYTES;
    const pcvr_batch *const b = x->batch;
    const int64_t n = x->first + s;

    // tiny.pcvr:27  reshape  i64[16]
    memcpy(ini, b->domains[0].values + n * 16, 16 * sizeof(int64_t));
    // tiny.pcvr:28  pad = le  bool[16]
    for (int i0 = 0; i0 < 16; i0++) {
        inb[128 + i0] = (uint8_t)(b->domains[0].lengths[n * 1] <= const_i[i0]);
    }
    // tiny.pcvr:30  div  f32[]
    in[48] = (1.0f / 16.0f);
    (void)x, (void)s, (void)slot;
}

static void
outer_0_forward_1(const pcvr_ctx *x, int64_t s, int slot)
{
    float *const g = (float *)(void *)(scratch_of(x) + slot * FORWARD_RECORD);
    const int64_t *const ini =
            (const int64_t *)(const void *)(x->inputs + s * INPUT_BYTES);
    const float *const *const p = x->params;

    // tiny.pcvr:27  x = embed  f32[16, 8]
    k_embed(16, 8, 21, p[0], ini, 1, g, 8);
    (void)x, (void)s, (void)slot;
}

static void
outer_0_forward(const pcvr_ctx *x, int64_t s, int count)
{
    for (int i = 0; i < count; i++)
        outer_0_forward_1(x, s + i, i);
    (void)x, (void)s, (void)count;
}

// forward pass of: blocks.0
static void
blocks_0_forward_1(const pcvr_ctx *x, int64_t s, int slot)
{
    float *const t = (float *)(void *)(scratch_of(x) + GROUP * FORWARD_RECORD);
    uint8_t *const tb = scratch_of(x) + GROUP * FORWARD_RECORD;
    float *const g = (float *)(void *)(scratch_of(x) + slot * FORWARD_RECORD);
    const uint8_t *const inb = x->inputs + s * INPUT_BYTES;
    const float *const *const p = x->params;
    const float *const w = x->packed;

    // tiny.pcvr:16  normalize  f32[16, 8]
    k_normalize(16, 8, 0, 1e-06f, g, 8, t, 8);
    // tiny.pcvr:16  mul  f32[16, 8]
    for (int i0 = 0; i0 < 16; i0++) {
        K_EACH(c, n, 8, {
            v_store_n(t + 128 + 8 * i0 + c, n,
                    v_mul(v_load_n(t + 8 * i0 + c, n), v_load_n(p[2] + c, n)));
        });
    }
    {
        for (int m = 0; m < 3; m++) {
            // tiny.pcvr:8  matmul  f32[16, 8]
            k_gemm_nn(16, 8, 8, t + 128, 8, w + 64 * m, 8, p[4] + 8 * m, 0,
                    t + 4880 + 128 * m, 8);
        }
    }
    // tiny.pcvr:17  attend  f32[16, 8]
    {
        static const int32_t lo[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
        static const int32_t hi[] =
                {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
        uint8_t *const mask = tb + 21568;
        for (int j0 = 0; j0 < 16; j0++) {
            for (int i0 = 0; i0 < 16; i0++) {
                const int64_t i = i0 + 0, j = j0 + 0;
                mask[j0 * 16 + i0] = (uint8_t)((j <= i) && !inb[128 + (j)]);
                (void)i, (void)j;
            }
        }
        {
        const k_attend attend = {
            .T = 16, .S = 16, .H = 2, .W = 4,
            .q = t + 4880, .ldq = 8,
            .k = t + 5008, .ldk = 8,
            .v = t + 5136, .ldv = 8,
            .lo = lo, .hi = hi,
            .mask = mask, .ldm = 16,
            .T0 = 16, .S0 = 16, .q_first = (int)(0), .k_first = 0,
            .scratch = t,
        };
        k_attention(&attend, t + 5264, 8, NULL);
        }
    }
    // tiny.pcvr:8  matmul  f32[16, 8]
    k_gemm_nn(16, 8, 8, t + 5264, 8, w + 192, 8, p[6], 0, t, 8);
    // tiny.pcvr:17  dropout  f32[16, 8]
    k_dropout_rows(x, k_site(x, s, 1, 6554, 1.1111112f), 16, 8, 0, 8, NULL, 0, t, 8, t,
            8);
    // tiny.pcvr:17  x = add  f32[16, 8]
    K_EACH(c, n, 128, {
        v_store_n(g + 128 + c, n, v_add(v_load_n(g + c, n), v_load_n(t + c, n)));
    });
    (void)x, (void)s, (void)slot;
}

static void
blocks_0_forward(const pcvr_ctx *x, int64_t s, int count)
{
    for (int i = 0; i < count; i++)
        blocks_0_forward_1(x, s + i, i);
    (void)x, (void)s, (void)count;
}

static void
outer_1_forward_1(const pcvr_ctx *x, int64_t s, int slot)
{
    float *const t = (float *)(void *)(scratch_of(x) + GROUP * FORWARD_RECORD);
    float *const k = (float *)(void *)kept_of(x, s);
    float *const g = (float *)(void *)(scratch_of(x) + slot * FORWARD_RECORD);
    const float *const *const p = x->params;
    float *const logits = x->logits + (x->first + s) * ACTIONS;

    // tiny.pcvr:30  sum  f32[8]
    K_EACH(c, n, 8, {
        v_f32 r = v_zero();
        for (int i0 = 0; i0 < 16; i0++) {
            r = v_add(r, v_load_n(g + 128 + 8 * i0 + c, n));
        }
        v_store_n(t + c, n, r);
    });
    // tiny.pcvr:30  div  f32[8]
    K_EACH(c, n, 8, {
        v_store_n(k + c, n, v_div(v_load_n(t + c, n), v_set1(16.0f)));
    });
    // tiny.pcvr:30  sum  f32[]
    {
        v_f32 r = v_zero();
        K_EACH(c, n, 8, {
            r = v_add(v_blend(vm_first(n),
                    v_mul(v_load_n(k + c, n), v_load_n(p[1] + c, n)), v_zero()), r);
        });
        t[0] = v_hsum(r);
    }
    // tiny.pcvr:30  reshape  f32[1]
    logits[0] = t[0];
    (void)x, (void)s, (void)slot;
}

static void
outer_1_forward(const pcvr_ctx *x, int64_t s, int count)
{
    for (int i = 0; i < count; i++)
        outer_1_forward_1(x, s + i, i);
    (void)x, (void)s, (void)count;
}

static void
outer_0_backward_1(const pcvr_ctx *x, int64_t s, int slot)
{
    float *const k = (float *)(void *)kept_of(x, s);
    float *const g = (float *)(void *)(scratch_of(x) + slot * BACKWARD_RECORD);
    const float *const in = (const float *)(const void *)(x->inputs + s * INPUT_BYTES);
    const float *const *const p = x->params;
    float *const a = x->acc;
    const float *const dlogits = x->dlogits + (x->first + s) * ACTIONS;

    // tiny.pcvr:30  acc  f32[8]
    {
        const v_f32 x0 = v_set1(dlogits[0]);
        K_EACH(c, n, 8, {
            v_store_n(a + c, n, v_add(v_load_n(a + c, n),
                    v_blend(v_eq(x0, v_zero()), v_zero(),
                    v_mul(x0, v_load_n(k + c, n)))));
        });
    }
    // tiny.pcvr:30  zmul  f32[8]
    {
        const v_f32 x0 = v_set1(dlogits[0]);
        const v_f32 x2 = v_set1(in[48]);
        K_EACH(c, n, 8, {
            const v_f32 y0 = v_blend(v_eq(x0, v_zero()), v_zero(),
                    v_mul(x0, v_load_n(p[1] + c, n)));
            v_store_n(g + 128 + c, n,
                    v_blend(v_eq(y0, v_zero()), v_zero(), v_mul(y0, x2)));
        });
    }
    (void)x, (void)s, (void)slot;
}

static void
outer_0_backward(const pcvr_ctx *x, int64_t s, int count)
{
    for (int i = 0; i < count; i++)
        outer_0_backward_1(x, s + i, i);
    (void)x, (void)s, (void)count;
}

// backward pass of: blocks.0
static void
blocks_0_recompute_backward_1(const pcvr_ctx *x, int64_t s, int slot)
{
    float *const t = (float *)(void *)(scratch_of(x) + GROUP * BACKWARD_RECORD);
    uint8_t *const tb = scratch_of(x) + GROUP * BACKWARD_RECORD;
    float *const g = (float *)(void *)(scratch_of(x) + slot * BACKWARD_RECORD);
    const int64_t *const ini =
            (const int64_t *)(const void *)(x->inputs + s * INPUT_BYTES);
    const uint8_t *const inb = x->inputs + s * INPUT_BYTES;
    const float *const *const p = x->params;
    const float *const w = x->packed;
    float *const a = x->acc;

    // tiny.pcvr:17  dropout  f32[16, 8]
    k_dropout_rows(x, k_site(x, s, 1, 6554, 1.1111112f), 16, 8, 0, 8, NULL, 0, g + 128,
            0, t + 4880, 8);
    // tiny.pcvr:8  sum  f32[8]
    K_EACH(c, n, 8, {
        v_f32 r = v_load_n(a + 16 + c, n);
        for (int i0 = 0; i0 < 16; i0++) {
            r = v_add(r, v_load_n(t + 4880 + 8 * i0 + c, n));
        }
        v_store_n(a + 16 + c, n, r);
    });
    // tiny.pcvr:8  matmul  f32[16, 8]
    k_gemm_nn(16, 8, 8, t + 4880, 8, p[5], 8, NULL, 0, t + 8336, 8);
    // tiny.pcvr:27  x = embed  f32[16, 8]
    k_embed(16, 8, 21, p[0], ini, 1, t + 7440, 8);
    // tiny.pcvr:16  normalize  f32[16, 8]
    k_normalize(16, 8, 0, 1e-06f, t + 7440, 8, t, 8);
    // tiny.pcvr:16  normalize  f32[16, 8]
    k_normalize(16, 8, 0, 1e-06f, t + 7440, 8, t + 8080, 8);
    // tiny.pcvr:16  mul  f32[16, 8]
    for (int i0 = 0; i0 < 16; i0++) {
        K_EACH(c, n, 8, {
            const v_f32 x0 = v_load_n(t + 8 * i0 + c, n);
            const v_f32 x1 = v_load_n(p[2] + c, n);
            const v_f32 x2 = v_load_n(t + 8080 + 8 * i0 + c, n);
            const v_f32 y0 = v_mul(x0, x1);
            const v_f32 y1 = v_mul(x2, x1);
            v_store_n(t + 128 + 8 * i0 + c, n, y0);
            v_store_n(t + 8208 + 8 * i0 + c, n, y1);
        });
    }
    {
        for (int m = 0; m < 3; m++) {
            // tiny.pcvr:8  matmul  f32[16, 8]
            k_gemm_nn(16, 8, 8, t + 128, 8, w + 64 * m, 8, p[4] + 8 * m, 0,
                    t + 7568 + 128 * m, 8);
        }
    }
    // tiny.pcvr:17  attend  f32[16, 8]
    {
        static const int32_t lo[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
        static const int32_t hi[] =
                {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
        uint8_t *const mask = tb + 20032;
        for (int j0 = 0; j0 < 16; j0++) {
            for (int i0 = 0; i0 < 16; i0++) {
                const int64_t i = i0 + 0, j = j0 + 0;
                mask[j0 * 16 + i0] = (uint8_t)((j <= i) && !inb[128 + (j)]);
                (void)i, (void)j;
            }
        }
        {
        const k_attend attend = {
            .T = 16, .S = 16, .H = 2, .W = 4,
            .q = t + 7568, .ldq = 8,
            .k = t + 7696, .ldk = 8,
            .v = t + 7824, .ldv = 8,
            .lo = lo, .hi = hi,
            .mask = mask, .ldm = 16,
            .T0 = 16, .S0 = 16, .q_first = (int)(0), .k_first = 0,
            .scratch = t,
        };
        k_attention(&attend, t + 7952, 8, t + 8848);
        }
    }
    // tiny.pcvr:8  matmul  f32[8, 8]
    k_gemm_tn(8, 8, 16, t + 4880, 8, t + 7952, 8, a + 32, 8, a + 32, 8);
    // tiny.pcvr:17  attend_back  f32[384]
    {
        static const int32_t lo[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
        static const int32_t hi[] =
                {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
        uint8_t *const mask = tb + 35648;
        for (int j0 = 0; j0 < 16; j0++) {
            for (int i0 = 0; i0 < 16; i0++) {
                const int64_t i = i0 + 0, j = j0 + 0;
                mask[j0 * 16 + i0] = (uint8_t)((j <= i) && !inb[128 + (j)]);
                (void)i, (void)j;
            }
        }
        {
        const k_attend attend = {
            .T = 16, .S = 16, .H = 2, .W = 4,
            .q = t + 7568, .ldq = 8,
            .k = t + 7696, .ldk = 8,
            .v = t + 7824, .ldv = 8,
            .lo = lo, .hi = hi,
            .mask = mask, .ldm = 16,
            .T0 = 16, .S0 = 16, .q_first = (int)(0), .k_first = 0,
            .scratch = t,
        };
        const k_attend_result result = {
            .dout = t + 8336, .lddo = 8,
            .out = t + 7952, .ldo = 8,
            .stats = t + 8848,
        };
        k_attention_back(&attend, &result, t + 8464, 8, t + 8592, 8, t + 8720, 8);
        }
    }
    {
        for (int m = 0; m < 3; m++) {
            // tiny.pcvr:8  sum  f32[8]
            K_EACH(c, n, 8, {
                v_f32 r = v_load_n(a + 96 + 80 * m + c, n);
                for (int i0 = 0; i0 < 16; i0++) {
                    r = v_add(r, v_load_n(t + 8720 - 128 * m + 8 * i0 + c, n));
                }
                v_store_n(a + 96 + 80 * m + c, n, r);
            });
            // tiny.pcvr:8  matmul  f32[16, 8]
            k_gemm_nn(16, 8, 8, t + 8720 - 128 * m, 8, p[3] + 128 - 64 * m, 8, NULL, 0,
                    t + 128 * m, 8);
            // tiny.pcvr:8  matmul  f32[8, 8]
            k_gemm_tn(8, 8, 16, t + 8720 - 128 * m, 8, t + 8208, 8, a + 112 + 80 * m, 8,
                    a + 112 + 80 * m, 8);
        }
    }
    // tiny.pcvr:16  zmul  f32[16, 8]
    for (int i0 = 0; i0 < 16; i0++) {
        K_EACH(c, n, 8, {
            const v_f32 x0 = v_load_n(t + 8 * i0 + c, n);
            const v_f32 x1 = v_load_n(t + 128 + 8 * i0 + c, n);
            const v_f32 x2 = v_load_n(t + 256 + 8 * i0 + c, n);
            const v_f32 x3 = v_load_n(p[2] + c, n);
            const v_f32 y1 = v_add(v_add(x0, x1), x2);
            const v_f32 y2 = v_blend(v_eq(y1, v_zero()), v_zero(), v_mul(y1, x3));
            v_store_n(t + 384 + 8 * i0 + c, n, y1);
            v_store_n(t + 512 + 8 * i0 + c, n, y2);
        });
    }
    // tiny.pcvr:16  sum  f32[8]
    K_EACH(c, n, 8, {
        v_f32 r = v_load_n(a + 336 + c, n);
        for (int i0 = 0; i0 < 16; i0++) {
            const v_f32 x0 = v_load_n(t + 384 + 8 * i0 + c, n);
            r = v_add(r, v_blend(v_eq(x0, v_zero()), v_zero(),
                    v_mul(x0, v_load_n(t + 8080 + 8 * i0 + c, n))));
        }
        v_store_n(a + 336 + c, n, r);
    });
    // tiny.pcvr:16  normalize_back  f32[16, 8]
    k_normalize_back(16, 8, 0, 1e-06f, t + 7440, 8, t + 512, 8, g, 8);
    (void)x, (void)s, (void)slot;
}

static void
blocks_0_recompute_backward(const pcvr_ctx *x, int64_t s, int count)
{
    for (int i = 0; i < count; i++)
        blocks_0_recompute_backward_1(x, s + i, i);
    (void)x, (void)s, (void)count;
}

static void
outer_1_backward_1(const pcvr_ctx *x, int64_t s, int slot)
{
    float *const t = (float *)(void *)(scratch_of(x) + GROUP * BACKWARD_RECORD);
    float *const g = (float *)(void *)(scratch_of(x) + slot * BACKWARD_RECORD);
    const int64_t *const ini =
            (const int64_t *)(const void *)(x->inputs + s * INPUT_BYTES);

    // tiny.pcvr:27  add  f32[16, 8]
    for (int i0 = 0; i0 < 16; i0++) {
        K_EACH(c, n, 8, {
            v_store_n(t + 8 * i0 + c, n,
                    v_add(v_load_n(g + 128 + c, n), v_load_n(g + 8 * i0 + c, n)));
        });
    }
    // tiny.pcvr:27  acc_rows  f32[16, 8]
    k_store_rows(16, 8, 21, 1, t, 8, ini, 1, &x->stores[0]);
    (void)x, (void)s, (void)slot;
}

static void
outer_1_backward(const pcvr_ctx *x, int64_t s, int count)
{
    for (int i = 0; i < count; i++)
        outer_1_backward_1(x, s + i, i);
    (void)x, (void)s, (void)count;
}

// Weights that products read transposed, as [K][N].
static void
prepare(const pcvr_ctx *x)
{
    float *const w = x->packed;

    {
        static const int32_t at[4][2] = {{3, 0}, {3, 64}, {3, 128}, {5, 0}};
        for (int m = 0; m < 4; m++) {
            k_pack_share(x, 8, 8, x->params[at[m][0]] + at[m][1], 8, w + 64 * m);
        }
    }
}

static int
gather_inputs(const pcvr_ctx *x)
{
    (void)x;
    for (int64_t s = 0; s < x->count; s++)
        inputs_1(x, s, 0);
    return PCVR_OK;
}

// One region of a group of samples, timed where the caller has a clock.
static inline void
run(const pcvr_ctx *x, int64_t s, int count, int region,
    void (*f)(const pcvr_ctx *, int64_t, int))
{
    const double start = x->clock ? k_now() : 0.0;
    f(x, s, count);
    if (x->clock)
        x->clock[region] += k_now() - start;
}

static void
forward(const pcvr_ctx *x)
{
    const int group = x->kept ? GROUP : UNKEPT_GROUP;
    for (int64_t s = 0; s < x->count; s += group) {
        const int count = (int)(x->count - s < group ? x->count - s : group);
        run(x, s, count, 1, outer_0_forward);
        run(x, s, count, 2, blocks_0_forward);
        run(x, s, count, 3, outer_1_forward);
    }
}

static void
backward(const pcvr_ctx *x)
{
    for (int64_t s = 0; s < x->count; s += GROUP) {
        const int count = (int)(x->count - s < GROUP ? x->count - s : GROUP);
        run(x, s, count, 4, outer_0_backward);
        run(x, s, count, 5, blocks_0_recompute_backward);
        run(x, s, count, 6, outer_1_backward);
    }
}

static const pcvr_param params[] = {
    {"events", 2, {21, 8}, 168, 3, 20, PCVR_INIT_NORMAL, 0.02},
    {"score", 1, {8}, 8, 0, 0, PCVR_INIT_NORMAL, 0.10000000000000001},
    {"blocks.0.norm", 1, {8}, 8, 0, 0, PCVR_INIT_ONES, 0},
    {"blocks.0.qkv.weight", 2, {24, 8}, 192, 0, 0, PCVR_INIT_XAVIER_UNIFORM, 0},
    {"blocks.0.qkv.bias", 1, {24}, 24, 0, 0, PCVR_INIT_ZEROS, 0},
    {"blocks.0.out.weight", 2, {8, 8}, 64, 0, 0, PCVR_INIT_XAVIER_UNIFORM, 0},
    {"blocks.0.out.bias", 1, {8}, 8, 0, 0, PCVR_INIT_ZEROS, 0},
};

static const pcvr_use uses[] = {
    {1, 0, 8, 0, 1, 0, 0},
    {6, 0, 8, 16, 1, 0, 0},
    {5, 0, 64, 32, 1, 0, 0},
    {4, 16, 8, 96, 1, 0, 0},
    {3, 128, 64, 112, 1, 0, 0},
    {4, 8, 8, 176, 1, 0, 0},
    {3, 64, 64, 192, 1, 0, 0},
    {4, 0, 8, 256, 1, 0, 0},
    {3, 0, 64, 272, 1, 0, 0},
    {2, 0, 8, 336, 1, 0, 0},
};

static const pcvr_store_info stores[] = {
    {0, 16, 0},
};

static const pcvr_region regions[] = {
    {"inputs", 0, 0, 0, 0},
    {"outer_0_forward", 0, 0, 0, 0},
    {"blocks_0_forward", 15184, 0, 0, 21824},
    {"outer_1_forward", 152, 0, 64, 64},
    {"outer_0_backward", 32, 0, 0, 0},
    {"blocks_0_recompute_backward", 31784, 13264, 0, 35904},
    {"outer_1_backward", 256, 0, 0, 512},
};

static const pcvr_kept kept[] = {
    {3, "div (tiny.pcvr:30)", 32},
};

static const pcvr_domain_info domains[] = {
    {"seq_a", 1, 16, 5632},
};

#if defined(PCVR_ISA_AVX512)
#define MODULE pcvr_tiny_avx512
#elif defined(PCVR_ISA_AVX2)
#define MODULE pcvr_tiny_avx2
#else
#define MODULE pcvr_tiny_scalar
#endif

extern const pcvr_module MODULE;
const pcvr_module MODULE = {
    .abi = PCVR_ABI,
    .name = "tiny",
    .isa = PCVR_ISA_NAME,
    .checkpoint = "*",
    .config = "{\"d\":8,\"heads\":2,\"gradient_checkpointing\":false}",
    .compiler = "0.1.0",
    .hash = 0xe05af29ab9603a9bu,
    .actions = ACTIONS,
    .embedding = EMBEDDING,
    .n_params = 7,
    .n_uses = 10,
    .n_stores = 1,
    .n_regions = 7,
    .n_kept = 1,
    .params = params,
    .uses = uses,
    .stores = stores,
    .regions = regions,
    .kept = kept,
    .layout = {1, 0, 1, 0, 4096, 1, domains},
    .acc_floats = 352,
    .acc_fresh = 0,
    .packed_floats = 256,
    .input_bytes = INPUT_BYTES,
    .kept_bytes = KEPT_BYTES,
    .scratch_bytes = 40512,
    .forward_scratch_bytes = 30528,
    .default_chunk = 8,
    .prepare = prepare,
    .gather_inputs = gather_inputs,
    .forward = forward,
    .forward_keep = forward,
    .backward = backward,
};

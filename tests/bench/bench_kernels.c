// bench_kernels.c - rates of the CPU kernels against the peak of a loop of fused multiply-adds.
//
// Compiled once an instruction set (make bench-kernels); prints GF/s (2 a multiply-add), the best of
// several rounds on one thread, operands in cache.  Not a test: nothing depends on time.

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "pcvr_kernels.h"

static double
seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// At the beginning of a line, as the planner places them.
static float *
numbers(ptrdiff_t n)
{
    float *x = aligned_alloc(64, ((size_t)n * sizeof *x + 63) / 64 * 64);
    if (!x)
        exit(70);
    for (ptrdiff_t i = 0; i < n; i++)
        x[i] = (float)((i * 2654435761u >> 8) % 2001) * 1e-3f - 1.0f;
    return x;
}

static float sink;

// Twelve chains, so that latency does not show.
static double
peak(void)
{
    double best = 0;
    for (int round = 0; round < 20; round++) {
        v_f32 c[12];
        const v_f32 a = v_set1(1.0f - 1e-6f), b = v_set1(1e-7f);
        for (int i = 0; i < 12; i++)
            c[i] = v_set1((float)i);
        const int n = 200000;
        const double t = seconds();
        v_f32 c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3], c4 = c[4], c5 = c[5];
        v_f32 c6 = c[6], c7 = c[7], c8 = c[8], c9 = c[9], d0 = c[10], d1 = c[11];
        for (int i = 0; i < n; i++) {
            c0 = v_fma(c0, a, b), c1 = v_fma(c1, a, b), c2 = v_fma(c2, a, b);
            c3 = v_fma(c3, a, b), c4 = v_fma(c4, a, b), c5 = v_fma(c5, a, b);
            c6 = v_fma(c6, a, b), c7 = v_fma(c7, a, b), c8 = v_fma(c8, a, b);
            c9 = v_fma(c9, a, b), d0 = v_fma(d0, a, b), d1 = v_fma(d1, a, b);
        }
        const double gf = 2e-9 * 12 * PCVR_VL * n / (seconds() - t);
        c0 = v_add(v_add(v_add(c0, c1), v_add(c2, c3)),
                   v_add(v_add(c4, c5), v_add(c6, c7)));
        sink += v_hsum(v_add(c0, v_add(v_add(c8, c9), v_add(d0, d1))));
        best = gf > best ? gf : best;
    }
    return best;
}

#define RATE(flops, statement)                                                           \
    do {                                                                                 \
        double best_ = 0;                                                                \
        for (int round_ = 0; round_ < 15; round_++) {                                    \
            int times_ = 0;                                                              \
            const double t_ = seconds();                                                 \
            double dt_;                                                                  \
            do {                                                                         \
                statement;                                                               \
                times_++;                                                                \
                dt_ = seconds() - t_;                                                    \
            } while (dt_ < 1e-3);                                                        \
            const double r_ = (flops)*1e-9 * times_ / dt_;                               \
            best_ = r_ > best_ ? r_ : best_;                                             \
        }                                                                                \
        rate = best_;                                                                    \
    } while (0)

static void
products(double top)
{
    static const int shapes[][3] = {
        {203, 192, 64}, {212, 64, 64},   {102, 256, 64},   {102, 64, 256}, {64, 256, 102},
        {52, 64, 64},   {18, 64, 64},    {32, 64, 64},     {116, 32, 16},  {16, 32, 116},
        {116, 16, 32},  {128, 192, 192}, {256, 256, 1024}, {4, 256, 256},  {1, 256, 256},
        {1, 64, 64},    {33, 100, 77},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const int M = shapes[s][0], N = shapes[s][1], K = shapes[s][2];
        float *A = numbers((ptrdiff_t)M * K), *B = numbers((ptrdiff_t)N * K);
        float *C = numbers((ptrdiff_t)M * N);
        double rate, all[3];
        RATE(2.0 * M * N * K, k_gemm_nn(M, N, K, A, K, B, N, NULL, 0, C, N));
        all[0] = rate;
        RATE(2.0 * M * N * K, k_gemm_tn(M, N, K, A, M, B, N, NULL, 0, C, N));
        all[1] = rate;
        RATE(2.0 * M * N * K, k_gemm_nt(M, N, K, A, K, B, K, NULL, 0, C, N));
        all[2] = rate;
        printf("%4d x %4d x %4d  nn %6.1f (%3.0f %%)  tn %6.1f (%3.0f %%)  nt %6.1f "
               "(%3.0f %%)\n",
               M, N, K, all[0], 100 * all[0] / top, all[1], 100 * all[1] / top, all[2],
               100 * all[2] / top);
        free(A), free(B), free(C);
    }
}

static void
attention(double top)
{
    static const int shapes[][4] = {
        {212, 212, 4, 16}, {52, 212, 4, 16}, {18, 52, 4, 16}, {512, 512, 4, 16},
        {128, 128, 4, 32}, {1, 512, 4, 32},  {4, 512, 4, 32},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int drop = 0; drop < 2; drop++) {
            const int T = shapes[s][0], S = shapes[s][1], H = shapes[s][2],
                      W = shapes[s][3];
            const int D = H * W;
            const k_drop d = {1, 2, 3, 4, 6554, 1.0f / 0.9f};
            float *q = numbers(T * D), *k = numbers(S * D), *v = numbers(S * D);
            float *o = numbers(T * D), *dq = numbers(T * D), *dk = numbers(S * D);
            float *dv = numbers(S * D),
                  *scratch =
                      numbers(K_ATTEND_SCRATCH(S, S, W) + K_ATTEND_BACK_SCRATCH(S, S, W)),
                  *stats = numbers(2 * H * T);
            const k_attend_result y = {q, o, D, D, stats};
            const k_attend a = {.T = T,
                                .S = S,
                                .H = H,
                                .W = W,
                                .q = q,
                                .k = k,
                                .v = v,
                                .ldq = D,
                                .ldk = D,
                                .ldv = D,
                                .drop = drop ? &d : NULL,
                                .T0 = T,
                                .S0 = S,
                                .scratch = scratch};
            double rate, forward;
            RATE(4.0 * T * S * D, k_attention(&a, o, D, stats));
            forward = rate;
            RATE(10.0 * T * S * D, k_attention_back(&a, &y, dq, D, dk, D, dv, D));
            printf("attention %3d on %3d, %d heads of %d%s: forward %6.1f (%3.0f %%) "
                   "%6.1f us, backward %6.1f (%3.0f %%) %6.1f us\n",
                   T, S, H, W, drop ? ", dropout" : "", forward, 100 * forward / top,
                   4e-3 * T * S * D / forward, rate, 100 * rate / top,
                   10e-3 * T * S * D / rate);
            free(q), free(k), free(v), free(o), free(dq), free(dk), free(dv),
                free(scratch), free(stats);
        }
}

static void
elementwise(void)
{
    enum { N = 4096, C = 64, R = N / C };
    float *x = numbers(N), *y = numbers(N), *z = numbers(N);
    const k_drop d = {1, 2, 3, 4, 6554, 1.0f / 0.9f};
    double rate;
#define ONE(name, body)                                                                  \
    RATE(N,                                                                              \
         K_EACH(i, lanes, N, v_store_n(y + i, lanes, body(v_load_n(x + i, lanes)));));   \
    printf("%-12s %6.2f G/s\n", name, rate)
    ONE("exp", v_exp);
    ONE("log1p", v_log1p);
    ONE("tanh", v_tanh);
    ONE("silu", v_silu);
    ONE("silu_grad", v_silu_grad);
    ONE("gelu", v_gelu);
    ONE("gelu_grad", v_gelu_grad);
    RATE(N, k_dropout(N, 5, &d, x, y));
    printf("%-12s %6.2f G/s\n", "dropout", rate);
    RATE(N, k_layer_norm(R, C, x, C, y, C, z));
    printf("%-12s %6.2f G/s\n", "layer_norm", rate);
    RATE(N, k_rms_norm(R, C, x, C, y, C, z));
    printf("%-12s %6.2f G/s\n", "rms_norm", rate);
    RATE(N, k_softmax(R, C, x, C, NULL, 0, y, C));
    printf("%-12s %6.2f G/s\n", "softmax", rate);
    RATE(N, k_transpose(R, C, x, C, y, R));
    printf("%-12s %6.2f G/s\n", "transpose", rate);
    free(x), free(y), free(z);
}

int
main(void)
{
    const double top = peak();
    printf("%s: peak %.1f GF/s\n", PCVR_ISA_NAME, top);
    products(top);
    attention(top);
    elementwise();
    return sink > 1e30f; // keeps the peak loop alive
}

// fma_peak.c - how many multiply-adds this machine does when nothing else is asked of it.

#include "fma_peak.h"

#include <stdint.h>
#include <string.h>

#include "pcvr.h"
#include "pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    CHAINS = 12,
    ROUNDS = 400000
}; // 12 chains cover a latency of 4 on two units, and more

typedef struct Peak {
    const char *isa;
    volatile float sink[64];
} Peak;

// Each gives the sum of its chains, so that no chain is dropped.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) static float
loop_avx512(void)
{
    __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f), c[CHAINS];
    for (int k = 0; k < CHAINS; k++)
        c[k] = _mm512_set1_ps((float)k);
    for (int r = 0; r < ROUNDS; r++) {
#pragma GCC unroll 12
        for (int k = 0; k < CHAINS; k++)
            c[k] = _mm512_fmadd_ps(c[k], x, y);
    }
    for (int k = 1; k < CHAINS; k++)
        c[0] = _mm512_add_ps(c[0], c[k]);
    return _mm512_reduce_add_ps(c[0]);
}

__attribute__((target("avx2,fma"))) static float
loop_avx2(void)
{
    __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f), c[CHAINS];
    for (int k = 0; k < CHAINS; k++)
        c[k] = _mm256_set1_ps((float)k);
    for (int r = 0; r < ROUNDS; r++) {
#pragma GCC unroll 12
        for (int k = 0; k < CHAINS; k++)
            c[k] = _mm256_fmadd_ps(c[k], x, y);
    }
    for (int k = 1; k < CHAINS; k++)
        c[0] = _mm256_add_ps(c[0], c[k]);
    return _mm256_cvtss_f32(c[0]);
}
#endif

static float
loop_scalar(void)
{
    float c[CHAINS], x = 0.999f, y = 1e-3f;
    for (int k = 0; k < CHAINS; k++)
        c[k] = (float)k;
    for (int r = 0; r < ROUNDS; r++) {
#pragma GCC unroll 12
        for (int k = 0; k < CHAINS; k++)
            c[k] = c[k] * x + y;
    }
    for (int k = 1; k < CHAINS; k++)
        c[0] += c[k];
    return c[0];
}

static void
run(void *arg, int thread)
{
    Peak *p = arg;
    float got;
#if defined(__x86_64__)
    if (strcmp(p->isa, "avx512") == 0)
        got = loop_avx512();
    else if (strcmp(p->isa, "avx2") == 0)
        got = loop_avx2();
    else
#endif
        got = loop_scalar();
    p->sink[thread % 64] = got;
}

double
fma_peak_gflops(const char *isa, int threads)
{
    Peak p = {.isa = isa};
    PcvrPool *pool = pcvr_pool_new(threads);
    double lanes = strcmp(isa, "avx512") == 0 ? 16 : strcmp(isa, "avx2") == 0 ? 8 : 1;
    double best = 0.0;
    if (pool == NULL)
        return 0.0;
    for (int k = 0; k < 4; k++) { // the first warms the clock up
        double from = pcvr_now();
        pcvr_pool_run(pool, run, &p);
        double s = pcvr_now() - from;
        double rate = 2.0 * lanes * CHAINS * ROUNDS * threads / s * 1e-9;
        best = rate > best ? rate : best;
    }
    pcvr_pool_free(pool);
    return best;
}

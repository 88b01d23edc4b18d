// kernel_test.h - what the bodies of the kernel tests share; compiled once an instruction set.
//
// A body defines  int KERNEL_GROUP(name)(void)  that runs its group of tests; the program
// test_kernels_<name>.c calls it for every instruction set the machine has.
#ifndef KERNEL_TEST_H
#define KERNEL_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "pcvr_kernels.h"

#if defined(PCVR_ISA_AVX512)
#define KERNEL_GROUP(name) name##_avx512
#elif defined(PCVR_ISA_AVX2)
#define KERNEL_GROUP(name) name##_avx2
#else
#define KERNEL_GROUP(name) name##_scalar
#endif

static uint64_t kt_state = 88172645463325252u;

// xorshift64
static inline uint64_t
kt_random(void)
{
    kt_state ^= kt_state << 13;
    kt_state ^= kt_state >> 7;
    kt_state ^= kt_state << 17;
    return kt_state;
}

// low..high, both included
static inline int
kt_int(int low, int high)
{
    return low + (int)(kt_random() % (uint64_t)(high - low + 1));
}

// uniform in [-1, 1)
static inline float
kt_float(void)
{
    return (float)((double)(kt_random() >> 40) * 0x1p-23 - 1.0);
}

// Exactly n floats, so that a sanitizer sees the first step too far.
static inline float *
kt_floats(ptrdiff_t n)
{
    float *x = malloc((size_t)(n > 0 ? n : 1) * sizeof *x);
    assert_non_null(x);
    for (ptrdiff_t i = 0; i < n; i++)
        x[i] = kt_float();
    return x;
}

// Floats of a matrix whose last row ends without padding.
static inline ptrdiff_t
kt_extent(int R, int C, ptrdiff_t ld)
{
    return R > 0 && C > 0 ? (R - 1) * ld + C : 0;
}

static inline int
kt_same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

// |a - b| <= tolerance; false for NaN.
static inline int
kt_close(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance;
}

// How far a is from the true value, in units of the last place of a float there.
static inline double
kt_ulps(float a, double truth)
{
    if (isnan(truth))
        return isnan(a) ? 0.0 : 1e9;
    if (fabs(truth) > (double)FLT_MAX)
        return isinf(a) && (a > 0) == (truth > 0) ? 0.0 : 1e9;
    if (isnan(a) || isinf(a))
        return 1e9;
    int e;
    frexp(truth, &e);
    const double unit = ldexp(1.0, e - 24 < -149 ? -149 : e - 24);
    return fabs((double)a - truth) / unit;
}

int KERNEL_GROUP(gemm)(void);
int KERNEL_GROUP(vmath)(void);
int KERNEL_GROUP(rows)(void);
int KERNEL_GROUP(random_bits)(void);
int KERNEL_GROUP(attend)(void);

#endif

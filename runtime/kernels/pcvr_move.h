// pcvr_move.h - copies, sums and transposes of row-major matrices with row strides.
//
// ld... are distances between rows in floats.  Source and destination do not overlap, except
// that a destination which is read (k_add, k_axpy) may be the source itself.
#ifndef PCVR_MOVE_H
#define PCVR_MOVE_H

#include "pcvr_isa.h"

// y[R, C] = x[R, C]
static inline void
k_copy(int R, int C, const float *x, ptrdiff_t ldx, float *y, ptrdiff_t ldy)
{
    for (int r = 0; r < R; r++)
        memcpy(y + r * ldy, x + r * ldx, (size_t)C * sizeof(float));
}

// y[R, C] = value
static inline void
k_fill(int R, int C, float value, float *y, ptrdiff_t ldy)
{
    for (int r = 0; r < R; r++)
        K_EACH(i, lanes, C, v_store_n(y + r * ldy + i, lanes, v_set1(value)););
}

// y[R, C] += x[R, C]
static inline void
k_add(int R, int C, const float *x, ptrdiff_t ldx, float *y, ptrdiff_t ldy)
{
    for (int r = 0; r < R; r++) {
        const float *xr = x + r * ldx;
        float *yr = y + r * ldy;
        K_EACH(i, lanes, C, {
            const v_f32 sum = v_add(v_load_n(yr + i, lanes), v_load_n(xr + i, lanes));
            v_store_n(yr + i, lanes, sum);
        });
    }
}

// y[n] += a x[n], each element one fused multiply-add
static inline void
k_axpy(int n, float a, const float *x, float *y)
{
    const v_f32 va = v_set1(a);
    K_EACH(i, lanes, n, {
        const v_f32 sum = v_fma(va, v_load_n(x + i, lanes), v_load_n(y + i, lanes));
        v_store_n(y + i, lanes, sum);
    });
}

#if PCVR_VL >= 8
// y[C, R] = x[R, C]' for one full 8 x 8 block, in registers.
static inline void
k_transpose_8x8(const float *x, ptrdiff_t ldx, float *y, ptrdiff_t ldy)
{
    const __m256 r0 = _mm256_loadu_ps(x), r1 = _mm256_loadu_ps(x + ldx);
    const __m256 r2 = _mm256_loadu_ps(x + 2 * ldx), r3 = _mm256_loadu_ps(x + 3 * ldx);
    const __m256 r4 = _mm256_loadu_ps(x + 4 * ldx), r5 = _mm256_loadu_ps(x + 5 * ldx);
    const __m256 r6 = _mm256_loadu_ps(x + 6 * ldx), r7 = _mm256_loadu_ps(x + 7 * ldx);
    const __m256 a0 = _mm256_unpacklo_ps(r0, r1), a1 = _mm256_unpackhi_ps(r0, r1);
    const __m256 a2 = _mm256_unpacklo_ps(r2, r3), a3 = _mm256_unpackhi_ps(r2, r3);
    const __m256 a4 = _mm256_unpacklo_ps(r4, r5), a5 = _mm256_unpackhi_ps(r4, r5);
    const __m256 a6 = _mm256_unpacklo_ps(r6, r7), a7 = _mm256_unpackhi_ps(r6, r7);
    const __m256 b0 = _mm256_shuffle_ps(a0, a2, 0x44),
                 b1 = _mm256_shuffle_ps(a0, a2, 0xee);
    const __m256 b2 = _mm256_shuffle_ps(a1, a3, 0x44),
                 b3 = _mm256_shuffle_ps(a1, a3, 0xee);
    const __m256 b4 = _mm256_shuffle_ps(a4, a6, 0x44),
                 b5 = _mm256_shuffle_ps(a4, a6, 0xee);
    const __m256 b6 = _mm256_shuffle_ps(a5, a7, 0x44),
                 b7 = _mm256_shuffle_ps(a5, a7, 0xee);
    _mm256_storeu_ps(y, _mm256_permute2f128_ps(b0, b4, 0x20));
    _mm256_storeu_ps(y + ldy, _mm256_permute2f128_ps(b1, b5, 0x20));
    _mm256_storeu_ps(y + 2 * ldy, _mm256_permute2f128_ps(b2, b6, 0x20));
    _mm256_storeu_ps(y + 3 * ldy, _mm256_permute2f128_ps(b3, b7, 0x20));
    _mm256_storeu_ps(y + 4 * ldy, _mm256_permute2f128_ps(b0, b4, 0x31));
    _mm256_storeu_ps(y + 5 * ldy, _mm256_permute2f128_ps(b1, b5, 0x31));
    _mm256_storeu_ps(y + 6 * ldy, _mm256_permute2f128_ps(b2, b6, 0x31));
    _mm256_storeu_ps(y + 7 * ldy, _mm256_permute2f128_ps(b3, b7, 0x31));
}
#endif

// y[C, R] = x[R, C]'
K_FN void
k_transpose(int R, int C, const float *x, ptrdiff_t ldx, float *y, ptrdiff_t ldy)
{
    int r0 = 0;
#if PCVR_VL >= 8
    for (; r0 + 8 <= R; r0 += 8) {
        int c = 0;
        for (; c + 8 <= C; c += 8)
            k_transpose_8x8(x + r0 * ldx + c, ldx, y + c * ldy + r0, ldy);
        for (; c < C; c++)
            for (int r = r0; r < r0 + 8; r++)
                y[c * ldy + r] = x[r * ldx + c];
    }
#endif
    for (; r0 < R; r0++)
        for (int c = 0; c < C; c++)
            y[c * ldy + r0] = x[r0 * ldx + c];
}

#endif

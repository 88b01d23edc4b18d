// pcvr_rows.h - kernels that work row by row on matrices [R, C] with row strides.
//
// ld... are distances between rows in floats.  A sum along a row is kept in PCVR_VL partial
// sums over ascending vectors, then v_hsum: fixed by the row's length.  A sum down the rows is
// one chain an element in ascending rows.  "add" flags: 0 overwrites, 1 adds to what is there.
#ifndef PCVR_ROWS_H
#define PCVR_ROWS_H

#include "pcvr_move.h"
#include "pcvr_vmath.h"

#define K_LAYER_NORM_EPS 1e-5f
#define K_RMS_NORM_EPS   1e-6f

// ---- Sums, largest, smallest -------------------------------------------------------------

// The sum of x[C].
static inline float
k_sum(int C, const float *x)
{
    v_f32 s = v_zero();
    K_EACH(i, lanes, C, s = v_add(s, v_load_n(x + i, lanes)););
    return v_hsum(s);
}

// The sum of x[i] * y[i], partial sums of fused multiply-adds.
static inline float
k_dot(int C, const float *x, const float *y)
{
    v_f32 s = v_zero();
    K_EACH(i, lanes, C, s = v_fma(v_load_n(x + i, lanes), v_load_n(y + i, lanes), s););
    return v_hsum(s);
}

// The largest of x[C], C >= 1.
static inline float
k_largest(int C, const float *x)
{
    const v_f32 low = v_set1(-HUGE_VALF);
    v_f32 m = low;
    K_EACH(i, lanes, C, {
        const v_f32 v = v_load_n(x + i, lanes);
        m = v_max(v_blend(vm_first(lanes), v, low), m);
    });
    return v_hmax(m);
}

// The smallest of x[C], C >= 1.
static inline float
k_smallest(int C, const float *x)
{
    const v_f32 high = v_set1(HUGE_VALF);
    v_f32 m = high;
    K_EACH(i, lanes, C, {
        const v_f32 v = v_load_n(x + i, lanes);
        m = v_min(v_blend(vm_first(lanes), v, high), m);
    });
    return v_hmin(m);
}

// y[R] = sums along the rows of x[R, C]
static inline void
k_row_sum(int R, int C, const float *x, ptrdiff_t ldx, float *y)
{
    for (int r = 0; r < R; r++)
        y[r] = k_sum(C, x + r * ldx);
}

// y[C] = or += the sum down the rows of x[R, C]; with add the chain starts from y
static inline void
k_col_sum(int R, int C, const float *x, ptrdiff_t ldx, float *y, int add)
{
    K_EACH(i, lanes, C, {
        v_f32 s = add ? v_load_n(y + i, lanes) : v_zero();
        for (int r = 0; r < R; r++)
            s = v_add(s, v_load_n(x + r * ldx + i, lanes));
        v_store_n(y + i, lanes, s);
    });
}

// y[C] = the largest down the rows of x[R, C], R >= 1
static inline void
k_col_max(int R, int C, const float *x, ptrdiff_t ldx, float *y)
{
    K_EACH(i, lanes, C, {
        v_f32 m = v_load_n(x + i, lanes);
        for (int r = 1; r < R; r++)
            m = v_max(v_load_n(x + r * ldx + i, lanes), m);
        v_store_n(y + i, lanes, m);
    });
}

// ---- Normalisation -----------------------------------------------------------------------

// Layer norm without its affine part (Ba, Kiros, Hinton 2016): y = (x - mean) * rstd with
// rstd = 1 / sqrt(var + 1e-5), the variance from a second pass.  rstd[R] may be NULL.
K_FN void
k_layer_norm(int R, int C, const float *x, ptrdiff_t ldx, float *y, ptrdiff_t ldy,
             float *rstd)
{
    for (int r = 0; r < R; r++) {
        const float *xr = x + r * ldx;
        float *yr = y + r * ldy;
        const float mean = k_sum(C, xr) / (float)C;
        const v_f32 vm = v_set1(mean);
        v_f32 s = v_zero();
        K_EACH(i, lanes, C, {
            const v_f32 d = v_sub(v_load_n(xr + i, lanes), vm);
            s = v_fma(d, v_blend(vm_first(lanes), d, v_zero()), s);
        });
        const float inv = 1.0f / sqrtf(v_hsum(s) / (float)C + K_LAYER_NORM_EPS);
        const v_f32 vi = v_set1(inv);
        K_EACH(i, lanes, C, {
            const v_f32 d = v_sub(v_load_n(xr + i, lanes), vm);
            v_store_n(yr + i, lanes, v_mul(d, vi));
        });
        if (rstd)
            rstd[r] = inv;
    }
}

// From y = layer_norm(x) and rstd: dx = or += rstd * (dy - mean(dy) - y * mean(dy * y)).
K_FN void
k_layer_norm_back(int R, int C, const float *y, ptrdiff_t ldy, const float *rstd,
                  const float *dy, ptrdiff_t lddy, float *dx, ptrdiff_t lddx, int add)
{
    for (int r = 0; r < R; r++) {
        const float *yr = y + r * ldy, *gr = dy + r * lddy;
        float *dr = dx + r * lddx;
        const v_f32 m0 = v_set1(k_sum(C, gr) / (float)C);
        const v_f32 m1 = v_set1(k_dot(C, gr, yr) / (float)C);
        const v_f32 inv = v_set1(rstd[r]);
        K_EACH(i, lanes, C, {
            v_f32 d = v_sub(v_load_n(gr + i, lanes), m0);
            d = v_mul(v_fnma(v_load_n(yr + i, lanes), m1, d), inv);
            v_store_n(dr + i, lanes, add ? v_add(v_load_n(dr + i, lanes), d) : d);
        });
    }
}

// RMS norm without its weight (Zhang, Sennrich 2019): y = x * rstd with
// rstd = 1 / sqrt(mean(x^2) + 1e-6).  rstd[R] may be NULL.
K_FN void
k_rms_norm(int R, int C, const float *x, ptrdiff_t ldx, float *y, ptrdiff_t ldy,
           float *rstd)
{
    for (int r = 0; r < R; r++) {
        const float *xr = x + r * ldx;
        float *yr = y + r * ldy;
        const float mean = k_dot(C, xr, xr) / (float)C;
        const float inv = 1.0f / sqrtf(mean + K_RMS_NORM_EPS);
        const v_f32 vi = v_set1(inv);
        K_EACH(i, lanes, C,
               v_store_n(yr + i, lanes, v_mul(v_load_n(xr + i, lanes), vi)););
        if (rstd)
            rstd[r] = inv;
    }
}

// From y = rms_norm(x) and rstd: dx = or += rstd * (dy - y * mean(dy * y)).
K_FN void
k_rms_norm_back(int R, int C, const float *y, ptrdiff_t ldy, const float *rstd,
                const float *dy, ptrdiff_t lddy, float *dx, ptrdiff_t lddx, int add)
{
    for (int r = 0; r < R; r++) {
        const float *yr = y + r * ldy, *gr = dy + r * lddy;
        float *dr = dx + r * lddx;
        const v_f32 m1 = v_set1(k_dot(C, gr, yr) / (float)C);
        const v_f32 inv = v_set1(rstd[r]);
        K_EACH(i, lanes, C, {
            v_f32 d = v_load_n(gr + i, lanes);
            d = v_mul(v_fnma(v_load_n(yr + i, lanes), m1, d), inv);
            v_store_n(dr + i, lanes, add ? v_add(v_load_n(dr + i, lanes), d) : d);
        });
    }
}

// ---- Softmax -----------------------------------------------------------------------------

// The lanes of a row that take part: those below `lanes`, and of them the allowed ones.
K_INLINE v_mask
k_allowed(const uint8_t *mask, ptrdiff_t i, int lanes)
{
    return mask ? vm_bytes(mask + i, lanes) : vm_first(lanes);
}

// y = softmax along the rows of x[R, C] over the allowed entries, zeros elsewhere; a row
// with nothing allowed is all zeros.  mask[R, C] bytes, 1 allowed, or NULL: everything.
K_FN void
k_softmax(int R, int C, const float *x, ptrdiff_t ldx, const uint8_t *mask, ptrdiff_t ldm,
          float *y, ptrdiff_t ldy)
{
    const v_f32 low = v_set1(-HUGE_VALF);
    for (int r = 0; r < R; r++) {
        const float *xr = x + r * ldx;
        const uint8_t *mr = mask ? mask + r * ldm : NULL;
        float *yr = y + r * ldy;
        v_f32 vm = low;
        uint32_t any = 0;
        K_EACH(i, lanes, C, {
            const v_mask ok = k_allowed(mr, i, lanes);
            any |= vm_to_bits(ok);
            vm = v_max(v_blend(ok, v_load_n(xr + i, lanes), low), vm);
        });
        const v_f32 top = v_set1(v_hmax(vm));
        v_f32 s = v_zero();
        K_EACH(i, lanes, C, {
            const v_f32 e = v_exp(v_sub(v_load_n(xr + i, lanes), top));
            const v_f32 p = v_blend(k_allowed(mr, i, lanes), e, v_zero());
            s = v_add(s, p);
            v_store_n(yr + i, lanes, p);
        });
        const v_f32 inv = v_set1(any ? 1.0f / v_hsum(s) : 0.0f);
        K_EACH(i, lanes, C,
               v_store_n(yr + i, lanes, v_mul(v_load_n(yr + i, lanes), inv)););
    }
}

// From y = softmax(x): dx = or += y * (dy - sum(y * dy)); entries with y = 0 get exactly 0.
K_FN void
k_softmax_back(int R, int C, const float *y, ptrdiff_t ldy, const float *dy,
               ptrdiff_t lddy, float *dx, ptrdiff_t lddx, int add)
{
    for (int r = 0; r < R; r++) {
        const float *yr = y + r * ldy, *gr = dy + r * lddy;
        float *dr = dx + r * lddx;
        v_f32 s = v_zero();
        K_EACH(i, lanes, C, {
            const v_f32 p = v_load_n(yr + i, lanes);
            const v_f32 g = v_blend(v_eq(p, v_zero()), v_zero(), v_load_n(gr + i, lanes));
            s = v_fma(p, g, s);
        });
        const v_f32 sum = v_set1(v_hsum(s));
        K_EACH(i, lanes, C, {
            const v_f32 p = v_load_n(yr + i, lanes);
            v_f32 d = v_mul(p, v_sub(v_load_n(gr + i, lanes), sum));
            d = v_blend(v_eq(p, v_zero()), v_zero(), d);
            v_store_n(dr + i, lanes, add ? v_add(v_load_n(dr + i, lanes), d) : d);
        });
    }
}

#endif

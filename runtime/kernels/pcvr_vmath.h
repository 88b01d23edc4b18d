// pcvr_vmath.h - elementary functions on vectors of floats.
//
// Every function works lane by lane: a lane's bits depend on that lane's argument alone.
// NaN gives NaN.  Subnormal arguments and results are kept, unless the caller's thread
// flushes them (FTZ, DAZ); then they count as zero.  The polynomials are minimax fits in
// float (Lawson's iteration in 40 digits, coefficients rounded one by one from the lowest).
// The stated errors are what the tests hold over the whole range, in units of the last place.
#ifndef PCVR_VMATH_H
#define PCVR_VMATH_H

#include "pcvr_isa.h"

#include <float.h>

// e^x for x <= 89, 1.5 ulp.  Cody and Waite: x = n ln 2 + r, |r| <= ln 2 / 2, e^r by a
// polynomial.
static inline v_f32
v_exp_below(v_f32 x)
{
    x = v_max(v_set1(-104.5f), x);
    const v_f32 n = v_round(v_mul(x, v_set1(1.44269504f)));
    v_f32 r = v_fnma(n, v_set1(0.693147182f), x);
    r = v_fnma(n, v_set1(-1.90465421e-9f), r);
    v_f32 q = v_set1(0.0013820742f);
    q = v_fma(q, r, v_set1(0.0083686756f));
    q = v_fma(q, r, v_set1(0.0416682661f));
    q = v_fma(q, r, v_set1(0.166665211f));
    q = v_fma(q, r, v_set1(0.49999994f));
    const v_f32 p = v_add(v_fma(v_mul(r, r), q, r), v_set1(1.0f));
    return v_scale(p, n);
}

// e^x, 1.5 ulp.
static inline v_f32
v_exp(v_f32 x)
{
    return v_exp_below(v_min(v_set1(89.0f), x));
}

// 2^x for x <= 0, 2 ulp.  The softmax of attention: no multiplication by log2 e, no step for the upper
// end of the range.  With 16 lanes it becomes subnormal (0 where the thread flushes) and 0 at the lower
// end, else it stays at 2^-125.
static inline v_f32
v_exp2_down(v_f32 x)
{
#if PCVR_VL == 16
    const v_f32 r = v_off_integer(x);
    const v_f32 n = v_sub(x, r);
#else
    x = v_max(v_set1(-125.0f), x);
    const v_f32 magic =
        v_set1(12582912.0f); // 1.5 * 2^23: the sum's last bits are round(x)
    const v_f32 t = v_add(x, magic);
    const v_f32 n = v_sub(t, magic);
    const v_f32 r = v_sub(x, n);
#endif
    v_f32 q = v_set1(0.00132708973f);
    q = v_fma(q, r, v_set1(0.00967136119f));
    q = v_fma(q, r, v_set1(0.0555070788f));
    q = v_fma(q, r, v_set1(0.240222454f));
    q = v_fma(q, r, v_set1(0.693147004f));
    q = v_fma(q, r, v_set1(1.0f));
#if PCVR_VL == 16
    return v_scale(q, n);
#else
    return vi_float(vi_add(v_bits(q), vi_shl(v_bits(t), 23)));
#endif
}

// ln x, 1.5 ulp; 0 gives -inf, a negative number NaN.
static inline v_f32
v_log(v_f32 x)
{
    const v_mask tiny = v_lt(x, v_set1(FLT_MIN));
    const v_f32 y = v_blend(tiny, v_mul(x, v_set1(33554432.0f)), x); // 2^25
    // y = m 2^e with m in [sqrt(1/2), sqrt(2))
    const v_i32 bits = v_bits(y);
    const v_i32 ei = vi_sar(vi_sub(bits, vi_set1(0x3f3504f3)), 23);
    v_f32 e = vi_to_f32(ei);
    e = v_blend(tiny, v_sub(e, v_set1(25.0f)), e);
    const v_f32 f = v_sub(vi_float(vi_sub(bits, vi_shl(ei, 23))), v_set1(1.0f));
    const v_f32 s = v_mul(f, f);
    v_f32 q = v_set1(0.0674971491f);
    q = v_fma(q, f, v_set1(-0.116708957f));
    q = v_fma(q, f, v_set1(0.118837424f));
    q = v_fma(q, f, v_set1(-0.124061145f));
    q = v_fma(q, f, v_set1(0.142203212f));
    q = v_fma(q, f, v_set1(-0.166679934f));
    q = v_fma(q, f, v_set1(0.20002073f));
    q = v_fma(q, f, v_set1(-0.250000089f));
    q = v_fma(q, f, v_set1(0.333333135f));
    v_f32 t = v_mul(e, v_set1(-1.90465421e-9f));
    t = v_fma(v_mul(f, s), q, t);
    t = v_fnma(v_set1(0.5f), s, t);
    v_f32 r = v_fma(e, v_set1(0.693147182f), v_add(f, t));
    r = v_blend(v_eq(x, v_set1(HUGE_VALF)), x, r);
    r = v_blend(v_eq(x, v_zero()), v_set1(-HUGE_VALF), r);
    return v_blend(v_ge(x, v_zero()), r, v_set1(NAN));
}

// ln(1 + x), 2 ulp: the rounding of 1 + x is put back to first order.
static inline v_f32
v_log1p(v_f32 x)
{
    const v_f32 one = v_set1(1.0f);
    const v_f32 u = v_add(one, x);
    v_f32 c = v_div(v_sub(x, v_sub(u, one)), u);
    const v_mask edge = vm_or(v_eq(u, v_zero()), v_eq(u, v_set1(HUGE_VALF)));
    c = v_blend(edge, v_zero(), c);
    return v_blend(v_eq(u, one), x, v_add(v_log(u), c));
}

// |mag| with the sign of s.
static inline v_f32
v_copysign(v_f32 mag, v_f32 s)
{
    const v_i32 sign = vi_set1(INT32_MIN);
    return vi_float(vi_or(vi_and(v_bits(s), sign), v_bits(v_abs(mag))));
}

// tanh x, 2 ulp: an odd polynomial below 0.625, 1 - 2 / (e^2x + 1) above.
static inline v_f32
v_tanh(v_f32 x)
{
    const v_f32 one = v_set1(1.0f);
    const v_f32 t = v_abs(x);
    const v_f32 s = v_mul(x, x);
    v_f32 q = v_set1(-0.0056974832f);
    q = v_fma(q, s, v_set1(0.0206319783f));
    q = v_fma(q, s, v_set1(-0.0537373833f));
    q = v_fma(q, s, v_set1(0.133314118f));
    q = v_fma(q, s, v_set1(-0.333332807f));
    const v_f32 near = v_fma(v_mul(q, s), x, x);
    const v_f32 e = v_exp(v_add(t, t));
    const v_f32 far = v_sub(one, v_div(v_set1(2.0f), v_add(e, one)));
    return v_copysign(v_blend(v_lt(t, v_set1(0.625f)), near, far), x);
}

// 1 / (1 + e^-x), 3 ulp, the subnormal tail included.
static inline v_f32
v_sigmoid(v_f32 x)
{
    const v_f32 one = v_set1(1.0f);
    const v_f32 e = v_exp_below(v_neg(v_abs(x)));
    return v_div(v_blend(v_lt(x, v_zero()), e, one), v_add(one, e));
}

// x sigmoid(x), 4 ulp; -inf gives -0.
static inline v_f32
v_silu(v_f32 x)
{
    return v_mul(v_max(v_set1(-FLT_MAX), x), v_sigmoid(x));
}

// The derivative of silu, s (1 + x (1 - s)) with s = sigmoid(x); error below 4e-7.
static inline v_f32
v_silu_grad(v_f32 x)
{
    const v_f32 one = v_set1(1.0f);
    const v_f32 e = v_exp_below(v_neg(v_abs(x)));
    const v_mask below = v_lt(x, v_zero());
    const v_f32 d = v_add(one, e);
    const v_f32 s = v_div(v_blend(below, e, one), d);
    const v_f32 t = v_div(v_blend(below, one, e), d);
    const v_f32 y = v_min(v_set1(FLT_MAX), v_max(v_set1(-FLT_MAX), x));
    return v_mul(s, v_fma(y, t, one));
}

// ln(1 + e^x), 3 ulp.  Its derivative is sigmoid(x).
static inline v_f32
v_softplus(v_f32 x)
{
    return v_add(v_max(v_zero(), x), v_log1p(v_exp_below(v_neg(v_abs(x)))));
}

// erf x, 2 ulp: an odd polynomial below 0.925, 1 - exp(polynomial) above.
static inline v_f32
v_erf(v_f32 x)
{
    const v_f32 t = v_min(v_set1(4.0f), v_abs(x));
    const v_f32 s = v_mul(t, t);
    v_f32 q = v_set1(-0.000595958962f);
    q = v_fma(q, s, v_set1(0.00498735299f));
    q = v_fma(q, s, v_set1(-0.0267629661f));
    q = v_fma(q, s, v_set1(0.11281731f));
    q = v_fma(q, s, v_set1(-0.376124889f));
    q = v_fma(q, s, v_set1(0.128379151f));
    const v_f32 near = v_fma(q, x, x);
    v_f32 w = v_set1(-1.1230014e-5f);
    w = v_fma(w, t, v_set1(0.000322794018f));
    w = v_fma(w, t, v_set1(-0.0036424296f));
    w = v_fma(w, t, v_set1(0.0237620194f));
    w = v_fma(w, t, v_set1(-0.106236845f));
    w = v_fma(w, t, v_set1(-0.635151327f));
    w = v_fma(w, t, v_set1(-0.12864849f));
    w = v_sub(v_mul(w, t), t);
    const v_f32 far = v_copysign(v_sub(v_set1(1.0f), v_exp_below(w)), x);
    return v_blend(v_lt(t, v_set1(0.925f)), near, far);
}

// The tail 1 - Phi(t) of the normal distribution, 0 <= t <= 40, absolute error 1e-7, with
// e = exp(-t^2 / 2): e y p(y), y = 1 / (1 + t / 4), the form of Abramowitz and Stegun 26.2.17.
static inline v_f32
v_normal_tail(v_f32 t, v_f32 e)
{
    const v_f32 one = v_set1(1.0f);
    const v_f32 y = v_div(one, v_fma(v_set1(0.25f), t, one));
    v_f32 p = v_set1(-0.0889033675f);
    p = v_fma(p, y, v_set1(0.327592134f));
    p = v_fma(p, y, v_set1(-0.236820877f));
    p = v_fma(p, y, v_set1(0.246743411f));
    p = v_fma(p, y, v_set1(0.0467413664f));
    p = v_fma(p, y, v_set1(0.104798235f));
    p = v_fma(p, y, v_set1(0.0998490974f));
    return v_mul(v_mul(e, y), p);
}

// exp(-t^2 / 2), 0 from 13 on.
static inline v_f32
v_normal_bell(v_f32 t)
{
    const v_f32 e = v_exp2_down(v_mul(v_mul(t, t), v_set1(-0.72134752f)));
    return v_blend(v_lt(t, v_set1(13.0f)), e, v_zero());
}

// x Phi(x) = max(x, 0) - |x| (1 - Phi(|x|)), Phi the normal distribution; error below 1.5e-7
// max(|x|, 1) on the negative side, 5 ulp on the positive; -inf gives 0.
static inline v_f32
v_gelu(v_f32 x)
{
    const v_f32 t = v_min(v_set1(40.0f), v_abs(x));
    const v_f32 tail = v_normal_tail(t, v_normal_bell(t));
    return v_fnma(t, tail, v_max(v_zero(), x));
}

// The derivative of gelu, Phi(x) + x phi(x); error below 5e-7.
static inline v_f32
v_gelu_grad(v_f32 x)
{
    const v_f32 t = v_min(v_set1(40.0f), v_abs(x));
    const v_f32 e = v_normal_bell(t);
    const v_f32 tail = v_normal_tail(t, e);
    const v_f32 cdf = v_blend(v_lt(x, v_zero()), tail, v_sub(v_set1(1.0f), tail));
    return v_fma(v_copysign(t, x), v_mul(e, v_set1(0.39894228f)), cdf);
}

static inline v_f32
v_relu(v_f32 x)
{
    return v_max(v_zero(), x);
}

// -1, 0 or 1; 0 for NaN.
static inline v_f32
v_sign(v_f32 x)
{
    const v_f32 pos = v_blend(v_gt(x, v_zero()), v_set1(1.0f), v_zero());
    return v_blend(v_lt(x, v_zero()), v_set1(-1.0f), pos);
}

static inline v_mask
v_is_finite(v_f32 x)
{
    return v_le(v_abs(x), v_set1(FLT_MAX));
}

// sin x for |x| <= pi / 4, 1 ulp.
static inline v_f32
v_sin_near(v_f32 x)
{
    const v_f32 s = v_mul(x, x);
    v_f32 q = v_set1(-0.000195152956f);
    q = v_fma(q, s, v_set1(0.00833216087f));
    q = v_fma(q, s, v_set1(-0.166666546f));
    return v_fma(v_mul(s, x), q, x);
}

// cos x for |x| <= pi / 4, 1 ulp.
static inline v_f32
v_cos_near(v_f32 x)
{
    const v_f32 s = v_mul(x, x);
    v_f32 q = v_set1(2.44331571e-5f);
    q = v_fma(q, s, v_set1(-0.00138873162f));
    q = v_fma(q, s, v_set1(0.0416666456f));
    q = v_fma(q, s, v_set1(-0.5f));
    return v_fma(q, s, v_set1(1.0f));
}

// cos and sin of a turn by x + n pi / 2, |x| <= pi / 4, n one of -2, -1, 0, 1, 2.
static inline void
v_turn(v_f32 x, v_f32 n, v_f32 *c, v_f32 *s)
{
    const v_f32 near_c = v_cos_near(x), near_s = v_sin_near(x);
    const v_mask odd = v_eq(v_abs(n), v_set1(1.0f)), half = v_eq(v_abs(n), v_set1(2.0f));
    *c = v_blend(odd, v_neg(v_mul(n, near_s)), v_blend(half, v_neg(near_c), near_c));
    *s = v_blend(odd, v_mul(n, near_c), v_blend(half, v_neg(near_s), near_s));
}

// Functions of libm, lane by lane: rare in models, and accurate to 1 ulp.
static inline v_f32
v_sin(v_f32 x)
{
    float a[PCVR_VL];
    v_store(a, x);
    for (int l = 0; l < PCVR_VL; l++)
        a[l] = sinf(a[l]);
    return v_load(a);
}

static inline v_f32
v_cos(v_f32 x)
{
    float a[PCVR_VL];
    v_store(a, x);
    for (int l = 0; l < PCVR_VL; l++)
        a[l] = cosf(a[l]);
    return v_load(a);
}

static inline v_f32
v_pow(v_f32 x, v_f32 y)
{
    float a[PCVR_VL], b[PCVR_VL];
    v_store(a, x);
    v_store(b, y);
    for (int l = 0; l < PCVR_VL; l++)
        a[l] = powf(a[l], b[l]);
    return v_load(a);
}

#endif

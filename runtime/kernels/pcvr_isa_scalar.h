// pcvr_isa_scalar.h - the vector of one float; fma is rounded once, like the others.
#ifndef PCVR_ISA_SCALAR_H
#define PCVR_ISA_SCALAR_H

#define PCVR_VL       1
#define PCVR_ISA_NAME "scalar"

typedef float v_f32;
typedef uint32_t v_i32;
typedef int v_mask;

// a * b + c rounded once, without a call of fmaf in all but rare cases.  The product is exact in
// double; the sum, rounded to double and again to float, is right unless it lies half-way
// between two floats (its last 29 bits are 1000...) or below the normal floats.
static inline float
v_fma_one(float a, float b, float c)
{
    const double sum = (double)a * (double)b + (double)c;
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    const uint32_t exponent = (uint32_t)(bits >> 52) & 0x7ffu;
    if ((bits & 0x1fffffffu) != 0x10000000u && (exponent - 897u < 254u || bits << 1 == 0))
        return (float)sum;
    return fmaf(a, b, c);
}

// To the nearest integer, ties to even: adding 1.5 * 2^23 leaves no fraction.
static inline float
v_round(float a)
{
    const float magic = 12582912.0f;
    return fabsf(a) < 4194304.0f ? copysignf((a + magic) - magic, a) : rintf(a);
}

// clang-format off
static inline v_f32 v_zero(void) { return 0.0f; }
static inline v_f32 v_set1(float x) { return x; }
static inline v_f32 v_load(const float *p) { return *p; }
static inline void v_store(float *p, v_f32 v) { *p = v; }
static inline v_f32 v_load_n(const float *p, int n) { return n > 0 ? *p : 0.0f; }
static inline void v_store_n(float *p, int n, v_f32 v) { if (n > 0) *p = v; }

static inline v_f32 v_add(v_f32 a, v_f32 b) { return a + b; }
static inline v_f32 v_sub(v_f32 a, v_f32 b) { return a - b; }
static inline v_f32 v_mul(v_f32 a, v_f32 b) { return a * b; }
static inline v_f32 v_div(v_f32 a, v_f32 b) { return a / b; }
static inline v_f32 v_sqrt(v_f32 a) { return sqrtf(a); }
static inline v_f32 v_neg(v_f32 a) { return -a; }
static inline v_f32 v_abs(v_f32 a) { return fabsf(a); }
static inline v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return v_fma_one(a, b, c); }
static inline v_f32 v_fnma(v_f32 a, v_f32 b, v_f32 c) { return v_fma_one(-a, b, c); }
static inline v_f32 v_max(v_f32 a, v_f32 b) { return a > b ? a : b; }
static inline v_f32 v_min(v_f32 a, v_f32 b) { return a < b ? a : b; }

static inline v_mask v_lt(v_f32 a, v_f32 b) { return a < b; }
static inline v_mask v_le(v_f32 a, v_f32 b) { return a <= b; }
static inline v_mask v_gt(v_f32 a, v_f32 b) { return a > b; }
static inline v_mask v_ge(v_f32 a, v_f32 b) { return a >= b; }
static inline v_mask v_eq(v_f32 a, v_f32 b) { return a == b; }
static inline v_mask v_ne(v_f32 a, v_f32 b) { return a != b; }
static inline v_f32 v_blend(v_mask m, v_f32 a, v_f32 b) { return m ? a : b; }

static inline v_mask vm_first(int n) { return n > 0; }
static inline v_mask vm_and(v_mask a, v_mask b) { return a & b; }
static inline v_mask vm_or(v_mask a, v_mask b) { return a | b; }
static inline v_mask vm_andnot(v_mask a, v_mask b) { return a & !b; }
static inline v_mask vm_bits(uint32_t bits) { return (int)(bits & 1u); }
static inline uint32_t vm_to_bits(v_mask m) { return m ? 1u : 0u; }
static inline int vm_any(v_mask m) { return m; }
static inline v_mask vm_bytes(const uint8_t *p, int n) { return n > 0 && *p != 0; }

static inline float v_hsum(v_f32 a) { return a; }
static inline float v_hmax(v_f32 a) { return a; }
static inline float v_hmin(v_f32 a) { return a; }

static inline v_i32 vi_set1(int32_t x) { return (uint32_t)x; }
static inline v_i32 vi_load_n(const int32_t *p, int n) { return n > 0 ? (uint32_t)*p : 0u; }
static inline void vi_store(int32_t *p, v_i32 v) { *p = (int32_t)v; }
static inline v_i32 vi_add(v_i32 a, v_i32 b) { return a + b; }
static inline v_i32 vi_sub(v_i32 a, v_i32 b) { return a - b; }
static inline v_i32 vi_and(v_i32 a, v_i32 b) { return a & b; }
static inline v_i32 vi_or(v_i32 a, v_i32 b) { return a | b; }
static inline v_i32 vi_xor(v_i32 a, v_i32 b) { return a ^ b; }
static inline v_i32 vi_xor3(v_i32 a, v_i32 b, v_i32 c) { return vi_xor(vi_xor(a, b), c); }
static inline v_i32 vi_shl(v_i32 a, int n) { return a << n; }
static inline v_i32 vi_shr(v_i32 a, int n) { return a >> n; }
static inline v_i32 vi_sar(v_i32 a, int n) { return (uint32_t)((int32_t)a >> n); }
static inline v_mask vi_lt(v_i32 a, v_i32 b) { return (int32_t)a < (int32_t)b; }
static inline v_mask vi_eq(v_i32 a, v_i32 b) { return a == b; }
static inline v_mask vi_has(v_i32 a, v_i32 bit) { return (a & bit) != 0; }
static inline v_i32 vi_iota(void) { return 0u; }
static inline v_f32 vi_to_f32(v_i32 a) { return (float)(int32_t)a; }
// clang-format on

static inline v_i32
v_bits(v_f32 a)
{
    v_i32 i;
    memcpy(&i, &a, sizeof i);
    return i;
}

static inline v_f32
vi_float(v_i32 i)
{
    v_f32 a;
    memcpy(&a, &i, sizeof a);
    return a;
}

// Out of range and NaN give INT32_MIN, as the vector instructions do.
static inline v_i32
v_to_i32(v_f32 a)
{
    const float r = v_round(a);
    if (!(r >= -2147483648.0f && r < 2147483648.0f))
        return 0x80000000u;
    return (uint32_t)(int32_t)r;
}

// a * 2^n for integral n in [-252, 252]; rounded once where the result is subnormal.
static inline v_f32
v_scale(v_f32 a, v_f32 n)
{
    const v_i32 i = v_to_i32(n);
    const v_i32 half = vi_sar(i, 1);
    const v_i32 bias = vi_set1(127);
    const v_i32 rest = vi_add(vi_sub(i, half), bias);
    a = v_mul(a, vi_float(vi_shl(vi_add(half, bias), 23)));
    return v_mul(a, vi_float(vi_shl(rest, 23)));
}

#endif

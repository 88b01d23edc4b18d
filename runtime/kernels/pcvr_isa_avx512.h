// pcvr_isa_avx512.h - the vector of 16 floats: AVX-512 F, BW, DQ and VL.
#ifndef PCVR_ISA_AVX512_H
#define PCVR_ISA_AVX512_H

#include <immintrin.h>

#define PCVR_VL       16
#define PCVR_ISA_NAME "avx512"

typedef __m512 v_f32;
typedef __m512i v_i32;
typedef __mmask16 v_mask;

// clang-format off
static inline v_f32 v_zero(void) { return _mm512_setzero_ps(); }
static inline v_f32 v_set1(float x) { return _mm512_set1_ps(x); }
static inline v_f32 v_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, v_f32 v) { _mm512_storeu_ps(p, v); }

static inline v_f32 v_add(v_f32 a, v_f32 b) { return _mm512_add_ps(a, b); }
static inline v_f32 v_sub(v_f32 a, v_f32 b) { return _mm512_sub_ps(a, b); }
static inline v_f32 v_mul(v_f32 a, v_f32 b) { return _mm512_mul_ps(a, b); }
static inline v_f32 v_div(v_f32 a, v_f32 b) { return _mm512_div_ps(a, b); }
static inline v_f32 v_sqrt(v_f32 a) { return _mm512_sqrt_ps(a); }
static inline v_f32 v_neg(v_f32 a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
static inline v_f32 v_abs(v_f32 a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
static inline v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return _mm512_fmadd_ps(a, b, c); }
static inline v_f32 v_fnma(v_f32 a, v_f32 b, v_f32 c) { return _mm512_fnmadd_ps(a, b, c); }
static inline v_f32 v_max(v_f32 a, v_f32 b) { return _mm512_max_ps(a, b); }
static inline v_f32 v_min(v_f32 a, v_f32 b) { return _mm512_min_ps(a, b); }
static inline v_f32 v_round(v_f32 a) { return _mm512_roundscale_ps(a, 8); }

static inline v_mask v_lt(v_f32 a, v_f32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline v_mask v_le(v_f32 a, v_f32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
static inline v_mask v_gt(v_f32 a, v_f32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
static inline v_mask v_ge(v_f32 a, v_f32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
static inline v_mask v_eq(v_f32 a, v_f32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline v_mask v_ne(v_f32 a, v_f32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
static inline v_f32 v_blend(v_mask m, v_f32 a, v_f32 b) { return _mm512_mask_blend_ps(m, b, a); }

static inline v_mask vm_first(int n) { return (v_mask)((1u << n) - 1u); }
static inline v_mask vm_and(v_mask a, v_mask b) { return (v_mask)(a & b); }
static inline v_mask vm_or(v_mask a, v_mask b) { return (v_mask)(a | b); }
static inline v_mask vm_andnot(v_mask a, v_mask b) { return (v_mask)(a & ~b); }
static inline v_mask vm_bits(uint32_t bits) { return (v_mask)bits; }
static inline uint32_t vm_to_bits(v_mask m) { return m; }
static inline int vm_any(v_mask m) { return m != 0; }

static inline v_i32 vi_set1(int32_t x) { return _mm512_set1_epi32(x); }
static inline void vi_store(int32_t *p, v_i32 v) { _mm512_storeu_si512(p, v); }
static inline v_i32 vi_add(v_i32 a, v_i32 b) { return _mm512_add_epi32(a, b); }
static inline v_i32 vi_sub(v_i32 a, v_i32 b) { return _mm512_sub_epi32(a, b); }
static inline v_i32 vi_and(v_i32 a, v_i32 b) { return _mm512_and_si512(a, b); }
static inline v_i32 vi_or(v_i32 a, v_i32 b) { return _mm512_or_si512(a, b); }
static inline v_i32 vi_xor(v_i32 a, v_i32 b) { return _mm512_xor_si512(a, b); }
static inline v_i32 vi_xor3(v_i32 a, v_i32 b, v_i32 c) { return _mm512_ternarylogic_epi32(a, b, c, 0x96); }
static inline v_i32 vi_shl(v_i32 a, int n) { return _mm512_slli_epi32(a, (unsigned)n); }
static inline v_i32 vi_shr(v_i32 a, int n) { return _mm512_srli_epi32(a, (unsigned)n); }
static inline v_i32 vi_sar(v_i32 a, int n) { return _mm512_srai_epi32(a, (unsigned)n); }
static inline v_f32 vi_to_f32(v_i32 a) { return _mm512_cvtepi32_ps(a); }
static inline v_i32 v_to_i32(v_f32 a) { return _mm512_cvtps_epi32(a); }
static inline v_i32 v_bits(v_f32 a) { return _mm512_castps_si512(a); }
static inline v_f32 vi_float(v_i32 a) { return _mm512_castsi512_ps(a); }
static inline v_mask vi_eq(v_i32 a, v_i32 b) { return _mm512_cmpeq_epi32_mask(a, b); }
static inline v_mask vi_has(v_i32 a, v_i32 bit) { return _mm512_test_epi32_mask(a, bit); }
static inline v_mask vi_lt(v_i32 a, v_i32 b) { return _mm512_cmplt_epi32_mask(a, b); }
// clang-format on

// a * 2^n for integral n; rounded once where the result is subnormal.
static inline v_f32
v_scale(v_f32 a, v_f32 n)
{
    return _mm512_scalef_ps(a, n);
}

// a - round(a); 0 where a is infinite.
static inline v_f32
v_off_integer(v_f32 a)
{
    return _mm512_reduce_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline v_i32
vi_iota(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

K_PARTIAL v_f32
v_load_n(const float *p, int n)
{
    if (__builtin_constant_p(n) && n == PCVR_VL)
        return v_load(p);
    return _mm512_maskz_loadu_ps(vm_first(n), p);
}

K_PARTIAL void
v_store_n(float *p, int n, v_f32 v)
{
    if (__builtin_constant_p(n) && n == PCVR_VL)
        v_store(p, v);
    else
        _mm512_mask_storeu_ps(p, vm_first(n), v);
}

K_PARTIAL v_i32
vi_load_n(const int32_t *p, int n)
{
    if (__builtin_constant_p(n) && n == PCVR_VL)
        return _mm512_loadu_si512(p);
    return _mm512_maskz_loadu_epi32(vm_first(n), p);
}

static inline v_mask
vm_bytes(const uint8_t *p, int n)
{
    const __m128i bytes = _mm_maskz_loadu_epi8(vm_first(n), p);
    return _mm_test_epi8_mask(bytes, bytes);
}

// Neighbours exchanged: 1 0 3 2 ...; and 8 floats, each twice.
static inline v_f32
v_swap(v_f32 a)
{
    return _mm512_permute_ps(a, 0xb1);
}

static inline v_f32
v_load_twice(const float *p)
{
    const __m512i at = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(at, _mm512_castps256_ps512(_mm256_loadu_ps(p)));
}

static inline float
v_hsum(v_f32 a)
{
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

static inline float
v_hmax(v_f32 a)
{
    const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

static inline float
v_hmin(v_f32 a)
{
    const __m256 h = _mm256_min_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 s = _mm_min_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_min_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_min_ss(s, _mm_movehdup_ps(s)));
}

// The products of the even lanes, 64 bits wide; odd lanes moved to even places; the even lanes
// of a and, between them, those of b.
static inline v_i32
vi_mul_even(v_i32 a, v_i32 b)
{
    return _mm512_mul_epu32(a, b);
}

static inline v_i32
vi_odd_to_even(v_i32 a)
{
    return _mm512_srli_epi64(a, 32);
}

static inline v_i32
vi_zip_even(v_i32 a, v_i32 b)
{
    return _mm512_mask_blend_epi32(0xaaaa, a, _mm512_slli_epi64(b, 32));
}

// The place of each lane's byte in what vi_draws_below writes.
static inline v_i32
vi_draw_order(void)
{
    return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

// Eight 16-bit draws a lane, words 0 to 3, low half first: a bit each, set when draw < limit.
static inline void
vi_draws_below(v_i32 w0, v_i32 w1, v_i32 w2, v_i32 w3, uint16_t limit, uint8_t *bits)
{
    const __m512i high = _mm512_set1_epi16((short)limit);
    const __m512i t0 = _mm512_unpacklo_epi32(w0, w1), t1 = _mm512_unpackhi_epi32(w0, w1);
    const __m512i t2 = _mm512_unpacklo_epi32(w2, w3), t3 = _mm512_unpackhi_epi32(w2, w3);
    const uint32_t below[4] = {
        _mm512_cmplt_epu16_mask(_mm512_unpacklo_epi64(t0, t2), high),
        _mm512_cmplt_epu16_mask(_mm512_unpackhi_epi64(t0, t2), high),
        _mm512_cmplt_epu16_mask(_mm512_unpacklo_epi64(t1, t3), high),
        _mm512_cmplt_epu16_mask(_mm512_unpackhi_epi64(t1, t3), high),
    };
    memcpy(bits, below, sizeof below);
}

#endif

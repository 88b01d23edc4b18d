// pcvr_isa_avx2.h - the vector of 8 floats: AVX2 and FMA.
#ifndef PCVR_ISA_AVX2_H
#define PCVR_ISA_AVX2_H

#include <immintrin.h>

#define PCVR_VL       8
#define PCVR_ISA_NAME "avx2"

typedef __m256 v_f32;
typedef __m256i v_i32;
typedef __m256 v_mask; // all bits of a true lane are set

// clang-format off
static inline v_f32 v_zero(void) { return _mm256_setzero_ps(); }
static inline v_f32 v_set1(float x) { return _mm256_set1_ps(x); }
static inline v_f32 v_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void v_store(float *p, v_f32 v) { _mm256_storeu_ps(p, v); }

static inline v_f32 v_add(v_f32 a, v_f32 b) { return _mm256_add_ps(a, b); }
static inline v_f32 v_sub(v_f32 a, v_f32 b) { return _mm256_sub_ps(a, b); }
static inline v_f32 v_mul(v_f32 a, v_f32 b) { return _mm256_mul_ps(a, b); }
static inline v_f32 v_div(v_f32 a, v_f32 b) { return _mm256_div_ps(a, b); }
static inline v_f32 v_sqrt(v_f32 a) { return _mm256_sqrt_ps(a); }
static inline v_f32 v_neg(v_f32 a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
static inline v_f32 v_abs(v_f32 a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline v_f32 v_fma(v_f32 a, v_f32 b, v_f32 c) { return _mm256_fmadd_ps(a, b, c); }
static inline v_f32 v_fnma(v_f32 a, v_f32 b, v_f32 c) { return _mm256_fnmadd_ps(a, b, c); }
static inline v_f32 v_max(v_f32 a, v_f32 b) { return _mm256_max_ps(a, b); }
static inline v_f32 v_min(v_f32 a, v_f32 b) { return _mm256_min_ps(a, b); }
static inline v_f32 v_round(v_f32 a) { return _mm256_round_ps(a, 8); }

static inline v_mask v_lt(v_f32 a, v_f32 b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
static inline v_mask v_le(v_f32 a, v_f32 b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
static inline v_mask v_gt(v_f32 a, v_f32 b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
static inline v_mask v_ge(v_f32 a, v_f32 b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
static inline v_mask v_eq(v_f32 a, v_f32 b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
static inline v_mask v_ne(v_f32 a, v_f32 b) { return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ); }
static inline v_f32 v_blend(v_mask m, v_f32 a, v_f32 b) { return _mm256_blendv_ps(b, a, m); }

static inline v_mask vm_and(v_mask a, v_mask b) { return _mm256_and_ps(a, b); }
static inline v_mask vm_or(v_mask a, v_mask b) { return _mm256_or_ps(a, b); }
static inline v_mask vm_andnot(v_mask a, v_mask b) { return _mm256_andnot_ps(b, a); }
static inline uint32_t vm_to_bits(v_mask m) { return (uint32_t)_mm256_movemask_ps(m); }
static inline int vm_any(v_mask m) { return _mm256_movemask_ps(m) != 0; }

static inline v_i32 vi_set1(int32_t x) { return _mm256_set1_epi32(x); }
static inline void vi_store(int32_t *p, v_i32 v) { _mm256_storeu_si256((__m256i *)p, v); }
static inline v_i32 vi_add(v_i32 a, v_i32 b) { return _mm256_add_epi32(a, b); }
static inline v_i32 vi_sub(v_i32 a, v_i32 b) { return _mm256_sub_epi32(a, b); }
static inline v_i32 vi_and(v_i32 a, v_i32 b) { return _mm256_and_si256(a, b); }
static inline v_i32 vi_or(v_i32 a, v_i32 b) { return _mm256_or_si256(a, b); }
static inline v_i32 vi_xor(v_i32 a, v_i32 b) { return _mm256_xor_si256(a, b); }
static inline v_i32 vi_xor3(v_i32 a, v_i32 b, v_i32 c) { return vi_xor(vi_xor(a, b), c); }
static inline v_i32 vi_shl(v_i32 a, int n) { return _mm256_slli_epi32(a, n); }
static inline v_i32 vi_shr(v_i32 a, int n) { return _mm256_srli_epi32(a, n); }
static inline v_i32 vi_sar(v_i32 a, int n) { return _mm256_srai_epi32(a, n); }
static inline v_i32 vi_iota(void) { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
static inline v_f32 vi_to_f32(v_i32 a) { return _mm256_cvtepi32_ps(a); }
static inline v_i32 v_to_i32(v_f32 a) { return _mm256_cvtps_epi32(a); }
static inline v_i32 v_bits(v_f32 a) { return _mm256_castps_si256(a); }
static inline v_f32 vi_float(v_i32 a) { return _mm256_castsi256_ps(a); }
static inline v_mask vi_eq(v_i32 a, v_i32 b) { return vi_float(_mm256_cmpeq_epi32(a, b)); }
static inline v_mask vi_has(v_i32 a, v_i32 bit) { return vi_eq(vi_and(a, bit), bit); }
static inline v_mask vi_lt(v_i32 a, v_i32 b) { return vi_float(_mm256_cmpgt_epi32(b, a)); }
// clang-format on

static inline v_mask
vm_first(int n)
{
    return vi_lt(vi_iota(), vi_set1(n));
}

static inline v_mask
vm_bits(uint32_t bits)
{
    const __m256i one = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return vi_eq(vi_and(vi_set1((int32_t)bits), one), one);
}

K_PARTIAL v_f32
v_load_n(const float *p, int n)
{
    if (__builtin_constant_p(n) && n == PCVR_VL)
        return v_load(p);
    return _mm256_maskload_ps(p, v_bits(vm_first(n)));
}

K_PARTIAL v_i32
vi_load_n(const int32_t *p, int n)
{
    if (__builtin_constant_p(n) && n == PCVR_VL)
        return _mm256_loadu_si256((const __m256i *)p);
    return _mm256_maskload_epi32(p, v_bits(vm_first(n)));
}

// Pieces of 4, 2 and 1 lanes: a masked store is slow on several processors.
K_PARTIAL void
v_store_n(float *p, int n, v_f32 v)
{
    if (n >= PCVR_VL) {
        v_store(p, v);
        return;
    }
    __m128 part = _mm256_castps256_ps128(v);
    if (n & 4) {
        _mm_storeu_ps(p, part);
        part = _mm256_extractf128_ps(v, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)p, part);
        part = _mm_movehl_ps(part, part);
        p += 2;
    }
    if (n & 1)
        _mm_store_ss(p, part);
}

static inline v_mask
vm_bytes(const uint8_t *p, int n)
{
    uint64_t bytes = 0;
    if (n >= PCVR_VL)
        memcpy(&bytes, p, 8);
    else
        for (int l = 0; l < n; l++)
            bytes |= (uint64_t)p[l] << (8 * l);
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
    return vi_lt(_mm256_setzero_si256(), wide);
}

// Neighbours exchanged: 1 0 3 2 ...; and 4 floats, each twice.
static inline v_f32
v_swap(v_f32 a)
{
    return _mm256_permute_ps(a, 0xb1);
}

static inline v_f32
v_load_twice(const float *p)
{
    const __m256i at = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), at);
}

static inline float
v_hsum(v_f32 a)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

static inline float
v_hmax(v_f32 a)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

static inline float
v_hmin(v_f32 a)
{
    __m128 s = _mm_min_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_min_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_min_ss(s, _mm_movehdup_ps(s)));
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

// The products of the even lanes, 64 bits wide; odd lanes moved to even places; the even lanes
// of a and, between them, those of b.
static inline v_i32
vi_mul_even(v_i32 a, v_i32 b)
{
    return _mm256_mul_epu32(a, b);
}

static inline v_i32
vi_odd_to_even(v_i32 a)
{
    return _mm256_srli_epi64(a, 32);
}

static inline v_i32
vi_zip_even(v_i32 a, v_i32 b)
{
    return _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xaa);
}

// The place of each lane's byte in what vi_draws_below writes.
static inline v_i32
vi_draw_order(void)
{
    return _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7);
}

// Eight 16-bit draws a lane, words 0 to 3, low half first: a bit each, set when draw < limit.
static inline void
vi_draws_below(v_i32 w0, v_i32 w1, v_i32 w2, v_i32 w3, uint16_t limit, uint8_t *bits)
{
    const __m256i low = _mm256_set1_epi16((short)limit);
    const __m256i t0 = _mm256_unpacklo_epi32(w0, w1), t1 = _mm256_unpackhi_epi32(w0, w1);
    const __m256i t2 = _mm256_unpacklo_epi32(w2, w3), t3 = _mm256_unpackhi_epi32(w2, w3);
    const __m256i x0 = _mm256_unpacklo_epi64(t0, t2), x1 = _mm256_unpackhi_epi64(t0, t2);
    const __m256i x2 = _mm256_unpacklo_epi64(t1, t3), x3 = _mm256_unpackhi_epi64(t1, t3);
    const __m256i k0 = _mm256_cmpeq_epi16(_mm256_max_epu16(x0, low), x0); // draw >= limit
    const __m256i k1 = _mm256_cmpeq_epi16(_mm256_max_epu16(x1, low), x1);
    const __m256i k2 = _mm256_cmpeq_epi16(_mm256_max_epu16(x2, low), x2);
    const __m256i k3 = _mm256_cmpeq_epi16(_mm256_max_epu16(x3, low), x3);
    const uint32_t kept[2] = {(uint32_t)_mm256_movemask_epi8(_mm256_packs_epi16(k0, k1)),
                              (uint32_t)_mm256_movemask_epi8(_mm256_packs_epi16(k2, k3))};
    const uint32_t below[2] = {~kept[0], ~kept[1]};
    memcpy(bits, below, sizeof below);
}

#endif

// pcvr_isa.h - one vector of floats, the same names for every instruction set.
//
// A file that includes this is compiled once for each instruction set, with one of
//     -DPCVR_ISA_SCALAR
//     -DPCVR_ISA_AVX2     -mavx2 -mfma
//     -DPCVR_ISA_AVX512   -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma
//                         -mprefer-vector-width=512
// and gets v_f32, a vector of PCVR_VL floats (1, 8 or 16), v_i32, as many 32-bit integers,
// and v_mask, one truth value a lane.  An elementwise operation gives a lane the same bits
// wherever it stands and whether the vector is full or partial.  The v_h... reductions add
// (or compare) halves of the vector, then halves of the half: one fixed order.
//
//     v_zero() v_set1(x) v_load(p) v_store(p, v)
//     v_load_n(p, n) v_store_n(p, n, v)  the first n lanes, 0 <= n <= PCVR_VL; the other
//                                        lanes are loaded as 0; no memory past n is touched
//     v_add v_sub v_mul v_div v_sqrt v_neg v_abs
//     v_fma(a, b, c) a * b + c, v_fnma(a, b, c) c - a * b: rounded once
//     v_max(a, b) a > b ? a : b, v_min(a, b) a < b ? a : b: so b if either is NaN
//     v_round(a) to the nearest integer, ties to even; v_scale(a, n) a * 2^n, n integral
//     v_lt v_le v_gt v_ge v_eq v_ne(a, b) -> v_mask (false on NaN, v_ne true)
//     v_blend(m, a, b) m ? a : b     vm_first(n) vm_and vm_or vm_andnot(a, b) a and not b,
//     vm_bits(bits) lane l is bit l, vm_bytes(p, n) lane l is p[l] != 0 (false from n on),
//     vm_to_bits(m), vm_any(m)
//     v_hsum v_hmax v_hmin
//     v_bits(f) vi_float(i) the same bits as the other type; v_to_i32 nearest, vi_to_f32
//     vi_set1 vi_load_n vi_store vi_add vi_sub vi_and vi_or vi_xor vi_shl(a, n) vi_shr
//     (logical) vi_sar (arithmetic) vi_lt vi_eq -> v_mask, vi_xor3(a, b, c),
//     vi_has(a, bit) -> v_mask: the lanes of a with that one bit, vi_iota() lane numbers
#ifndef PCVR_ISA_H
#define PCVR_ISA_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// A kernel: private to the file that includes it, not inlined, no warning when unused.
#define K_FN static __attribute__((unused, noinline))

// A small helper that must be inlined for its constants to fold.
#define K_INLINE static inline __attribute__((always_inline))

// A partial load or store: inlined, so that a full vector costs no mask.
#define K_PARTIAL static inline __attribute__((always_inline))

#if defined(PCVR_ISA_AVX512)
#include "pcvr_isa_avx512.h"
#elif defined(PCVR_ISA_AVX2)
#include "pcvr_isa_avx2.h"
#elif defined(PCVR_ISA_SCALAR)
#include "pcvr_isa_scalar.h"
#else
#error "define PCVR_ISA_SCALAR, PCVR_ISA_AVX2 or PCVR_ISA_AVX512"
#endif

static inline int
k_min(int a, int b)
{
    return a < b ? a : b;
}

static inline int
k_max(int a, int b)
{
    return a > b ? a : b;
}

// Evaluates a body for n contiguous floats: `i` is the place, `lanes` how many are live.
// Full vectors first, then at most one partial vector.  In the body read and write with
// v_load_n(p + i, lanes) and v_store_n(p + i, lanes, v).
//
//     K_EACH(i, lanes, n,
//            v_store_n(y + i, lanes, v_silu(v_load_n(x + i, lanes)));)
#define K_EACH(i, lanes, n, ...)                                                         \
    do {                                                                                 \
        const ptrdiff_t i##_end = (n);                                                   \
        ptrdiff_t i = 0;                                                                 \
        for (; i + PCVR_VL <= i##_end; i += PCVR_VL) {                                   \
            enum { lanes = PCVR_VL };                                                    \
            __VA_ARGS__                                                                  \
        }                                                                                \
        if (PCVR_VL > 1 && i < i##_end) {                                                \
            const int lanes = (int)(i##_end - i);                                        \
            __VA_ARGS__                                                                  \
        }                                                                                \
    } while (0)

#endif

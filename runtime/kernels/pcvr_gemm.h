// pcvr_gemm.h - matrix products on row-major float matrices with run-time strides.
//
//     k_gemm_nn   C[M, N] = S + A[M, K]  B[K, N]
//     k_gemm_tn   C[M, N] = S + A[K, M]' B[K, N]
//     k_gemm_nt   C[M, N] = S + A[M, K]  B[N, K]'    transposes blocks of B as it goes
//     k_pack_bt   B[N, K] -> P[K, N] once, then k_gemm_nn: faster when B is used often
//
// Every element of C is one chain of fused multiply-adds in ascending k that begins with the
// start value S: c = fma(a[k], b[k], c).  So its bits depend on nothing but its operands:
// not on M, N, tiles or tails.  Where the chain pauses at a block of k it passes through C
// as a float, which changes nothing.  The start:
//
//     S NULL              +0.0
//     S = C, lds = ldc    accumulates into C
//     S a row, lds = 0    a bias
//     S any [M, N]        a residual, stride lds
//
// ld... are the distances between rows in floats.  K = 0 copies the start.  C overlaps
// neither A nor B, and overlaps S only when S = C.
#ifndef PCVR_GEMM_H
#define PCVR_GEMM_H

#include "pcvr_ukernel.h"
#include "pcvr_move.h"

// A panel of B, some steps of k by K_GEMM_WIDE columns, is used for all rows of A while it is in
// the first cache.  Rows of B a multiple of eight lines apart fall on each other there, and a
// deep B goes by once a panel: these are copied, if rows enough follow the first tile.
enum {
    K_GEMM_WIDE = K_MAX_NV * PCVR_VL, // columns of a panel
    K_GEMM_DEPTH = 256,               // steps of k a pass, at most; of a copied panel:
    K_GEMM_COPIED_DEPTH = PCVR_VL == 16 ? 128 : 256,
    K_GEMM_COPIED_ROWS = 24,
    K_GEMM_COPIED_STRIDE = 128,
    K_GEMM_NT_DEPTH = 128,
};

// Columns of the next panel: wider when few rows leave registers free.
static inline int
k_panel_width(int M, int N)
{
    const int nv = (N + PCVR_VL - 1) / PCVR_VL;
    const int most = M == 1 && nv >= 8 ? 8 : M <= 3 ? 4 : K_MAX_NV;
    return k_min(N, most * PCVR_VL);
}

// All rows of one panel of at most K_GEMM_WIDE columns; copied to `panel` unless that is NULL.
static inline void
k_gemm_panel(int M, int N, const k_tile *whole, float *panel)
{
    k_tile t = *whole;
    const int nv = (N + PCVR_VL - 1) / PCVR_VL;
    t.last = N - (nv - 1) * PCVR_VL;
#if PCVR_VL > 1
    if (panel && nv == K_MAX_NV)
        M = k_ukernel_first(M, &t, panel);
    else if (t.next && nv == K_MAX_NV && t.last == PCVR_VL && M >= 4 &&
             M < K_GEMM_COPIED_ROWS)
        M = k_ukernel_passing(M, &t);
#endif
    (void)panel;
    k_ukernel(nv, M, &t);
}

// Steps of k a pass: even shares of K, at most `most`.
static inline int
k_gemm_depth(int K, int most)
{
    const int passes = (K + most - 1) / most;
    return passes < 2 ? most : k_min(most, ((K + passes - 1) / passes + 7) / 8 * 8);
}

// A's element (i, k) is a[i * ars + k * acs].
K_FN void
k_gemm_strided(int M, int N, int K, const float *A, ptrdiff_t ars, ptrdiff_t acs,
               const float *B, ptrdiff_t ldb, const float *S, ptrdiff_t lds, float *C,
               ptrdiff_t ldc)
{
    _Alignas(64) float panel[PCVR_VL > 1 ? K_GEMM_COPIED_DEPTH * K_GEMM_WIDE : 1];
    const int copied = PCVR_VL > 1 && M >= K_GEMM_COPIED_ROWS &&
                       (K > K_GEMM_DEPTH || ldb % K_GEMM_COPIED_STRIDE == 0);
    const int depth = k_gemm_depth(K, copied ? K_GEMM_COPIED_DEPTH : K_GEMM_DEPTH);
    for (int k0 = 0; k0 == 0 || k0 < K; k0 += depth) {
        int wide;
        for (int j = 0; j < N; j += wide) {
            wide = k_panel_width(M, N - j);
            k_tile t = {.K = k_min(depth, K - k0),
                        .ars = ars,
                        .acs = acs,
                        .ldb = ldb,
                        .ldc = ldc};
            t.a = A + k0 * acs;
            t.b = B + k0 * ldb + j;
            t.c = C + j;
            t.s = k0 ? C + j : S ? S + j : NULL;
            t.lds = k0 ? ldc : lds;
            t.next = j + wide < N     ? t.b + wide
                     : k0 + depth < K ? B + (k0 + depth) * ldb
                                      : NULL;
            t.ldnext = ldb;
            k_gemm_panel(M, wide, &t, copied ? panel : NULL);
        }
    }
}

// Products of four steps, C[M, N] = S + A[4, M]' B[4, N]: the elements of A stay in registers while
// a few rows of C go by in the order in which they lie.
#define K_FOUR_A(i, k)   const v_f32 a##i##_##k = v_set1(a[i + k * lda]);
#define K_FOUR_ROW(i)    K_FOUR_A(i, 0) K_FOUR_A(i, 1) K_FOUR_A(i, 2) K_FOUR_A(i, 3)
#define K_FOUR_PUT(i)                                                                    \
    {                                                                                    \
        v_f32 r = s ? v_load_n(s + i * lds + j, lanes) : v_zero();                       \
        r = v_fma(a##i##_0, b0, r);                                                      \
        r = v_fma(a##i##_1, b1, r);                                                      \
        r = v_fma(a##i##_2, b2, r);                                                      \
        r = v_fma(a##i##_3, b3, r);                                                      \
        v_store_n(c + i * ldc + j, lanes, r);                                            \
    }
#define K_FOUR_FN(name, ROWS, PUTS)                                                      \
    static inline void name(int N, const float *a, ptrdiff_t lda, const float *B,        \
                            ptrdiff_t ldb, const float *s, ptrdiff_t lds, float *c,      \
                            ptrdiff_t ldc)                                               \
    {                                                                                    \
        ROWS K_EACH(j, lanes, N, {                                                       \
            const v_f32 b0 = v_load_n(B + j, lanes);                                     \
            const v_f32 b1 = v_load_n(B + ldb + j, lanes);                               \
            const v_f32 b2 = v_load_n(B + 2 * ldb + j, lanes);                           \
            const v_f32 b3 = v_load_n(B + 3 * ldb + j, lanes);                           \
            PUTS                                                                         \
        });                                                                              \
        (void)lds, (void)ldc;                                                            \
    }
enum { K_FOUR_ROWS = PCVR_VL == 16 ? 4 : 2 };
#if PCVR_VL == 16
K_FOUR_FN(k_gemm_four_rows, K_FOUR_ROW(0) K_FOUR_ROW(1) K_FOUR_ROW(2) K_FOUR_ROW(3),
          K_FOUR_PUT(0) K_FOUR_PUT(1) K_FOUR_PUT(2) K_FOUR_PUT(3))
#else
K_FOUR_FN(k_gemm_four_rows, K_FOUR_ROW(0) K_FOUR_ROW(1), K_FOUR_PUT(0) K_FOUR_PUT(1))
#endif
K_FOUR_FN(k_gemm_four_row, K_FOUR_ROW(0), K_FOUR_PUT(0))

K_FN void
k_gemm_four(int M, int N, const float *A, ptrdiff_t lda, const float *B, ptrdiff_t ldb,
            const float *S, ptrdiff_t lds, float *C, ptrdiff_t ldc)
{
    int i = 0;
    for (; i + K_FOUR_ROWS <= M; i += K_FOUR_ROWS)
        k_gemm_four_rows(N, A + i, lda, B, ldb, S ? S + i * lds : NULL, lds, C + i * ldc, ldc);
    for (; i < M; i++)
        k_gemm_four_row(N, A + i, lda, B, ldb, S ? S + i * lds : NULL, lds, C + i * ldc, ldc);
}

// With few steps of k and a C that is far away the product is bound by C's way from memory and
// back: a few rows at a time, in the order in which they lie.
enum { K_GEMM_SHALLOW = 16, K_GEMM_SHALLOW_ROWS = 6, K_GEMM_FAR = 1 << 17 };

K_FN void
k_gemm_shallow(int M, int N, int K, const float *A, ptrdiff_t ars, ptrdiff_t acs,
               const float *B, ptrdiff_t ldb, const float *S, ptrdiff_t lds, float *C,
               ptrdiff_t ldc)
{
    for (int i = 0; i < M; i += K_GEMM_SHALLOW_ROWS)
        k_gemm_strided(k_min(K_GEMM_SHALLOW_ROWS, M - i), N, K, A + i * ars, ars, acs, B,
                       ldb, S ? S + i * lds : NULL, lds, C + i * ldc, ldc);
}

static inline void
k_gemm_nn(int M, int N, int K, const float *A, ptrdiff_t lda, const float *B,
          ptrdiff_t ldb, const float *S, ptrdiff_t lds, float *C, ptrdiff_t ldc)
{
    k_gemm_strided(M, N, K, A, lda, 1, B, ldb, S, lds, C, ldc);
}

static inline void
k_gemm_tn(int M, int N, int K, const float *A, ptrdiff_t lda, const float *B,
          ptrdiff_t ldb, const float *S, ptrdiff_t lds, float *C, ptrdiff_t ldc)
{
    if (K == 4)
        k_gemm_four(M, N, A, lda, B, ldb, S, lds, C, ldc);
    else if (K <= K_GEMM_SHALLOW && (ptrdiff_t)M * N >= K_GEMM_FAR)
        k_gemm_shallow(M, N, K, A, 1, lda, B, ldb, S, lds, C, ldc);
    else
        k_gemm_strided(M, N, K, A, 1, lda, B, ldb, S, lds, C, ldc);
}

// Transposes blocks of B into a buffer on the stack (at most 32 KiB), each used for all rows.
K_FN void
k_gemm_nt(int M, int N, int K, const float *A, ptrdiff_t lda, const float *B,
          ptrdiff_t ldb, const float *S, ptrdiff_t lds, float *C, ptrdiff_t ldc)
{
    _Alignas(64) float panel[K_GEMM_NT_DEPTH * K_GEMM_WIDE];
    for (int k0 = 0; k0 == 0 || k0 < K; k0 += K_GEMM_NT_DEPTH) {
        for (int j = 0; j < N; j += K_GEMM_WIDE) {
            const int depth = k_min(K_GEMM_NT_DEPTH, K - k0);
            const int n = k_min(K_GEMM_WIDE, N - j);
            k_tile t = {.K = depth, .ars = lda, .acs = 1, .ldb = K_GEMM_WIDE, .ldc = ldc};
            k_transpose(n, depth, B + j * ldb + k0, ldb, panel, K_GEMM_WIDE);
            t.a = A + k0;
            t.b = panel;
            t.c = C + j;
            t.s = k0 ? C + j : S ? S + j : NULL;
            t.lds = k0 ? ldc : lds;
            k_gemm_panel(M, n, &t, NULL);
        }
    }
}

// Floats of a packed copy of B[N, K]; its row stride is N.
static inline ptrdiff_t
k_pack_bt_size(int N, int K)
{
    return (ptrdiff_t)N * K;
}

// B[N, K] -> P[K, N], P contiguous: k_gemm_nn(M, N, K, A, lda, P, N, ...) is then A B'.
static inline void
k_pack_bt(int N, int K, const float *B, ptrdiff_t ldb, float *P)
{
    k_transpose(N, K, B, ldb, P, N);
}

#endif

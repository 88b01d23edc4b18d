// pcvr_ukernel.h - the inner loops of the matrix products.
//
// A micro-kernel holds a tile of C, some rows by some vectors, in registers and walks k once:
// a broadcast of A's element times vectors of B.  The bodies are written with macros, a row
// and a vector of the tile at a time, so that each accumulator is a variable of its own.
#ifndef PCVR_UKERNEL_H
#define PCVR_UKERNEL_H

#include "pcvr_isa.h"

typedef struct k_tile {
    int K;               // steps of the chain
    int last;            // live lanes of the last vector, 1 to PCVR_VL
    const float *a;      // element (i, k) at a[i * ars + k * acs]
    ptrdiff_t ars, acs;
    const float *b;      // row k at b + k * ldb
    ptrdiff_t ldb;
    const float *s;      // start of row i at s + i * lds; NULL: zero
    ptrdiff_t lds;
    float *c;            // row i at c + i * ldc
    ptrdiff_t ldc;
} k_tile;

// Vectors of a panel of many rows: as many as the registers carry.
enum { K_MAX_NV = PCVR_VL == 8 ? 2 : 4 };

// Rows 0..n-1 and vectors 0..n-1 of a tile.  Vector j of nv is partial if it is the last.
#define K_LANES(j, nv)   ((j) == (nv)-1 ? last : PCVR_VL)
#define K_R1(X, nv)      X(0, nv)
#define K_R2(X, nv)      K_R1(X, nv) X(1, nv)
#define K_R3(X, nv)      K_R2(X, nv) X(2, nv)
#define K_R4(X, nv)      K_R3(X, nv) X(3, nv)
#define K_R6(X, nv)      K_R4(X, nv) X(4, nv) X(5, nv)
#define K_R8(X, nv)      K_R6(X, nv) X(6, nv) X(7, nv)
#define K_R12(X, nv)     K_R8(X, nv) X(8, nv) X(9, nv) X(10, nv) X(11, nv)
#define K_V1(X, i, nv)   X(i, 0, nv)
#define K_V2(X, i, nv)   K_V1(X, i, nv) X(i, 1, nv)
#define K_V3(X, i, nv)   K_V2(X, i, nv) X(i, 2, nv)
#define K_V4(X, i, nv)   K_V3(X, i, nv) X(i, 3, nv)
#define K_V8(X, i, nv)   K_V4(X, i, nv) X(i, 4, nv) X(i, 5, nv) X(i, 6, nv) X(i, 7, nv)

#define K_ZERO(i, j, nv) v_f32 c##i##_##j = v_zero();
#define K_TAKE(i, j, nv) c##i##_##j = v_load_n(s + i * t->lds + j * PCVR_VL, K_LANES(j, nv));
#define K_LOADB(i, j, nv) const v_f32 b##j = v_load_n(b + j * PCVR_VL, K_LANES(j, nv));
#define K_FMA(i, j, nv)  c##i##_##j = v_fma(a##i, b##j, c##i##_##j);
#define K_PUT(i, j, nv)  v_store_n(c + i * t->ldc + j * PCVR_VL, K_LANES(j, nv), c##i##_##j);

#define K_ZERO_ROW(i, nv) K_V##nv(K_ZERO, i, nv)
#define K_TAKE_ROW(i, nv) K_V##nv(K_TAKE, i, nv)
#define K_PUT_ROW(i, nv)  K_V##nv(K_PUT, i, nv)
#define K_FMA_ROW(i, nv)                                                                 \
    {                                                                                    \
        const v_f32 a##i = v_set1(a[i * ars]);                                           \
        K_V##nv(K_FMA, i, nv)                                                            \
    }

// One tile of `rows` rows by `nv` vectors, the last with `lanes` live lanes.
#define K_UKERNEL(name, rows, nv, lanes)                                                 \
    K_FN void name##_##rows##x##nv(const k_tile *t)                                      \
    {                                                                                    \
        const int last = lanes;                                                          \
        const ptrdiff_t ars = t->ars, acs = t->acs, ldb = t->ldb;                        \
        const float *a = t->a, *b = t->b, *s = t->s;                                     \
        float *c = t->c;                                                                 \
        K_R##rows(K_ZERO_ROW, nv) if (s)                                                 \
        {                                                                                \
            K_R##rows(K_TAKE_ROW, nv)                                                    \
        }                                                                                \
        for (int k = t->K; k > 0; k--, a += acs, b += ldb) {                             \
            K_V##nv(K_LOADB, 0, nv) K_R##rows(K_FMA_ROW, nv)                             \
        }                                                                                \
        K_R##rows(K_PUT_ROW, nv)                                                         \
    }

// clang-format off
#define K_UKERNELS(name, lanes)                                                          \
    K_UKERNEL(name, 1, 1, lanes) K_UKERNEL(name, 2, 1, lanes) K_UKERNEL(name, 4, 1, lanes) \
    K_UKERNEL(name, 8, 1, lanes) K_UKERNEL(name, 12, 1, lanes)                           \
    K_UKERNEL(name, 1, 2, lanes) K_UKERNEL(name, 2, 2, lanes) K_UKERNEL(name, 3, 2, lanes) \
    K_UKERNEL(name, 4, 2, lanes) K_UKERNEL(name, 6, 2, lanes) K_UKERNEL(name, 12, 2, lanes) \
    K_UKERNEL(name, 1, 3, lanes) K_UKERNEL(name, 2, 3, lanes) K_UKERNEL(name, 4, 3, lanes) \
    K_UKERNEL(name, 8, 3, lanes)                                                         \
    K_UKERNEL(name, 1, 4, lanes) K_UKERNEL(name, 2, 4, lanes) K_UKERNEL(name, 3, 4, lanes) \
    K_UKERNEL(name, 4, 4, lanes) K_UKERNEL(name, 6, 4, lanes)                            \
    K_UKERNEL(name, 1, 8, lanes)
// clang-format on

typedef struct k_ukernel_entry {
    int rows;
    void (*run)(const k_tile *);
} k_ukernel_entry;

// Tiles of nv vectors, most rows first; more rows where one vector leaves registers free.
#if PCVR_VL == 16
#define K_TWO_WIDE(name) {12, name##_12x2}, {6, name##_6x2}, {4, name##_4x2}
#else
#define K_TWO_WIDE(name) {6, name##_6x2}, {4, name##_4x2}, {3, name##_3x2}
#endif
#define K_UKERNEL_TABLE(name)                                                            \
    {                                                                                    \
        {{12, name##_12x1}, {8, name##_8x1}, {4, name##_4x1}, {2, name##_2x1},           \
         {1, name##_1x1}},                                                               \
        {K_TWO_WIDE(name), {2, name##_2x2}, {1, name##_1x2}},                            \
        {{8, name##_8x3}, {4, name##_4x3}, {2, name##_2x3}, {1, name##_1x3}},            \
        {{6, name##_6x4}, {4, name##_4x4}, {3, name##_3x4}, {2, name##_2x4},             \
         {1, name##_1x4}},                                                               \
        {{0, NULL}}, {{0, NULL}}, {{0, NULL}}, {{1, name##_1x8}},                        \
    }

// Full tiles apart from those whose last vector is partial: a tenth faster.
K_UKERNELS(k_full, PCVR_VL)
#if PCVR_VL > 1
K_UKERNELS(k_part, t->last)
#endif

// Computes the largest tile of nv vectors (1 to 4, or 8) with at most `rows` rows; returns
// its rows.
static inline int
k_ukernel(int nv, int rows, const k_tile *t)
{
    static const k_ukernel_entry full[8][5] = K_UKERNEL_TABLE(k_full);
    const k_ukernel_entry *e = full[nv - 1];
#if PCVR_VL > 1
    static const k_ukernel_entry part[8][5] = K_UKERNEL_TABLE(k_part);
    if (t->last < PCVR_VL)
        e = part[nv - 1];
#endif
    while (e->rows > rows)
        e++;
    e->run(t);
    return e->rows;
}

#endif

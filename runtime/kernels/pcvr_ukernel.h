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

// One tile of `rows` rows by `nv` vectors, the last with t->last live lanes.
#define K_UKERNEL(rows, nv)                                                              \
    K_FN void k_tile_##rows##x##nv(const k_tile *t)                                      \
    {                                                                                    \
        const int last = t->last;                                                        \
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
K_UKERNEL(1, 1) K_UKERNEL(2, 1) K_UKERNEL(4, 1) K_UKERNEL(8, 1) K_UKERNEL(12, 1)
K_UKERNEL(1, 2) K_UKERNEL(2, 2) K_UKERNEL(3, 2) K_UKERNEL(4, 2) K_UKERNEL(6, 2)
K_UKERNEL(12, 2)
K_UKERNEL(1, 3) K_UKERNEL(2, 3) K_UKERNEL(4, 3) K_UKERNEL(8, 3)
K_UKERNEL(1, 4) K_UKERNEL(2, 4) K_UKERNEL(3, 4) K_UKERNEL(4, 4) K_UKERNEL(6, 4)
K_UKERNEL(1, 8)
// clang-format on

typedef struct k_ukernel_entry {
    int rows;
    void (*run)(const k_tile *);
} k_ukernel_entry;

// Computes the largest tile of nv vectors with at most `rows` rows; returns its rows.
static inline int
k_ukernel(int nv, int rows, const k_tile *t)
{
    static const k_ukernel_entry by_width[5][6] = {
        {{0, NULL}},
        {{12, k_tile_12x1}, {8, k_tile_8x1}, {4, k_tile_4x1}, {2, k_tile_2x1}, {1, k_tile_1x1}},
#if PCVR_VL == 16
        {{12, k_tile_12x2}, {6, k_tile_6x2}, {4, k_tile_4x2}, {3, k_tile_3x2}, {2, k_tile_2x2},
         {1, k_tile_1x2}},
#else
        {{6, k_tile_6x2}, {4, k_tile_4x2}, {3, k_tile_3x2}, {2, k_tile_2x2}, {1, k_tile_1x2}},
#endif
        {{8, k_tile_8x3}, {4, k_tile_4x3}, {2, k_tile_2x3}, {1, k_tile_1x3}},
        {{6, k_tile_6x4}, {4, k_tile_4x4}, {3, k_tile_3x4}, {2, k_tile_2x4}, {1, k_tile_1x4}},
    };
    if (nv > 4) {
        k_tile_1x8(t);
        return 1;
    }
    const k_ukernel_entry *e = by_width[nv];
    while (e->rows > rows)
        e++;
    e->run(t);
    return e->rows;
}

#endif

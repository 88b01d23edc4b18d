// pcvr_ukernel.h - the inner loops of the matrix products.
//
// A micro-kernel holds a tile of C, some rows by some vectors, in registers and walks k once:
// a broadcast of A's element times vectors of B.  The bodies are written with macros, a row
// and a vector of the tile at a time, so that each accumulator is a variable of its own.  One
// call does all the tiles of one height that lie below each other.
#ifndef PCVR_UKERNEL_H
#define PCVR_UKERNEL_H

#include "pcvr_isa.h"

typedef struct k_tile {
    int K;          // steps of the chain
    int last;       // live lanes of the last vector, 1 to PCVR_VL
    int tiles;      // tiles below each other
    int below;      // steps of k in which a row of a tile below is sent for; 0: not
    int ahead;      // how many tiles below
    const float *a; // element (i, k) at a[i * ars + k * acs]
    ptrdiff_t ars, acs;
    const float *b; // row k at b + k * ldb
    ptrdiff_t ldb;
    const float *s; // start of row i at s + i * lds; NULL: zero
    ptrdiff_t lds;
    float *c; // row i at c + i * ldc
    ptrdiff_t ldc;
    // The panel that follows, sent for while one is copied or few rows pass it; or NULL.
    const float *next;
    ptrdiff_t ldnext;
} k_tile;

// Vectors of a panel of many rows: as many as the registers carry.
enum { K_MAX_NV = PCVR_VL == 8 ? 2 : 4, K_LINE = 16 };

// Rows 0..n-1 and vectors 0..n-1 of a tile.  Vector j of nv is partial if it is the last.
#define K_LANES(j, nv) ((j) == (nv)-1 ? last : PCVR_VL)
#define K_R1(X, nv)    X(0, nv)
#define K_R2(X, nv)    K_R1(X, nv) X(1, nv)
#define K_R3(X, nv)    K_R2(X, nv) X(2, nv)
#define K_R4(X, nv)    K_R3(X, nv) X(3, nv)
#define K_R5(X, nv)    K_R4(X, nv) X(4, nv)
#define K_R6(X, nv)    K_R5(X, nv) X(5, nv)
#define K_R8(X, nv)    K_R6(X, nv) X(6, nv) X(7, nv)
#define K_R12(X, nv)   K_R8(X, nv) X(8, nv) X(9, nv) X(10, nv) X(11, nv)
#define K_V1(X, i, nv) X(i, 0, nv)
#define K_V2(X, i, nv) K_V1(X, i, nv) X(i, 1, nv)
#define K_V3(X, i, nv) K_V2(X, i, nv) X(i, 2, nv)
#define K_V4(X, i, nv) K_V3(X, i, nv) X(i, 3, nv)
#define K_V8(X, i, nv) K_V4(X, i, nv) X(i, 4, nv) X(i, 5, nv) X(i, 6, nv) X(i, 7, nv)

#define K_ZERO(i, j, nv)  v_f32 c##i##_##j = v_zero();
#define K_TAKE(i, j, nv)  c##i##_##j = v_load_n(s + i * lds + j * PCVR_VL, K_LANES(j, nv));
#define K_LOADB(i, j, nv) const v_f32 b##j = v_load_n(b + j * PCVR_VL, K_LANES(j, nv));
#define K_FMA(i, j, nv)   c##i##_##j = v_fma(a##i, b##j, c##i##_##j);
#define K_PUT(i, j, nv)   v_store_n(c + i * ldc + j * PCVR_VL, K_LANES(j, nv), c##i##_##j);

#define K_KEEP(i, j, nv) v_store(kept + j * PCVR_VL, b##j);
#define K_AHEAD(i, j, nv)                                                                \
    __builtin_prefetch((const void *)(ahead + j * PCVR_VL * sizeof *b));

#define K_ZERO_ROW(i, nv) K_V##nv(K_ZERO, i, nv)
#define K_TAKE_ROW(i, nv) K_V##nv(K_TAKE, i, nv)
#define K_PUT_ROW(i, nv)  K_V##nv(K_PUT, i, nv)
#define K_FMA_ROW(i, nv)                                                                 \
    {                                                                                    \
        const v_f32 a##i = v_set1((i < 8 ? a : a_8)[(i & 7) * ars]);                     \
        K_V##nv(K_FMA, i, nv)                                                            \
    }

// Row 8 is reached from a pointer of its own, unknown to be a's: a distance for each of twelve rows is
// more than there are registers, and the loop would fetch them from the stack.
#define K_APART(p) __asm__("" : "+r"(p))

// One step of k; WITH_B is done with each row of B.
#define K_STEP(rows, nv, WITH_B)                                                         \
    {                                                                                    \
        K_V##nv(K_LOADB, 0, nv) WITH_B(nv) K_R##rows(K_FMA_ROW, nv) a += acs;            \
        if (rows > 8)                                                                    \
            a_8 += acs;                                                                  \
        b += ldb;                                                                        \
    }

// Sends for row after row of a tile below, of C and, where its rows lie side by side, of A.
#define K_FETCH(i, j, nv)                                                                \
    __builtin_prefetch((const void *)(to + j * PCVR_VL * sizeof *c), 1);
#define K_BELOW(rows, nv, WITH_B)                                                        \
    if (left > t->ahead && t->below > 0) {                                               \
        const ptrdiff_t down = rows * (ptrdiff_t)t->ahead;                               \
        uintptr_t to = (uintptr_t)c + (uintptr_t)(down * ldc) * sizeof *c;               \
        uintptr_t from = (uintptr_t)top + (uintptr_t)(down * ars) * sizeof *a;           \
        k -= rows * t->below;                                                            \
        for (int r = rows; r > 0; r--) {                                                 \
            K_V##nv(K_FETCH, 0, nv) to += (uintptr_t)ldc * sizeof *c;                    \
            for (int x = acs == 1 ? t->K : 0; x > 0;                                     \
                 x -= K_LINE, from += K_LINE * sizeof *a)                                \
                __builtin_prefetch((const void *)from);                                  \
            from +=                                                                      \
                (uintptr_t)(ars - (t->K + K_LINE - 1) / K_LINE * K_LINE) * sizeof *a;    \
            for (int m = t->below; m > 0; m--)                                           \
                K_STEP(rows, nv, WITH_B)                                                 \
        }                                                                                \
    }
#define K_NO_BELOW(rows, nv, WITH_B)

// Tiles of `rows` rows by `nv` vectors, the last with `lanes` live lanes.
#define K_UKERNEL_BODY(rows, nv, lanes, count, WITH_B, BELOW)                            \
    const int last = lanes;                                                              \
    const ptrdiff_t ars = t->ars, acs = t->acs, ldb = t->ldb;                            \
    const ptrdiff_t lds = t->lds, ldc = t->ldc;                                          \
    const float *top = t->a, *s = t->s;                                                  \
    float *c = t->c;                                                                     \
    int left = t->tiles;                                                                 \
    for (int n = count; n > 0; n--, left--, top += rows * ars, c += rows * ldc) {        \
        const float *a = top, *b = t->b;                                                 \
        const float *a_8 = rows > 8 ? a + 8 * ars : a;                                   \
        if (rows > 8)                                                                    \
            K_APART(a_8);                                                                \
        int k = t->K;                                                                    \
        K_R##rows(K_ZERO_ROW, nv) if (s)                                                 \
        {                                                                                \
            K_R##rows(K_TAKE_ROW, nv) s += rows * lds;                                   \
        }                                                                                \
        BELOW(rows, nv, WITH_B)                                                          \
        for (; k > 0; k--)                                                               \
            K_STEP(rows, nv, WITH_B)                                                     \
        K_R##rows(K_PUT_ROW, nv)                                                         \
    }

#define K_NOTHING(nv)
#define K_UKERNEL(name, rows, nv, lanes)                                                 \
    K_FN void name##_##rows##x##nv(const k_tile *t)                                      \
    {                                                                                    \
        K_UKERNEL_BODY(rows, nv, lanes, t->tiles, K_NOTHING, K_NO_BELOW)                 \
    }
#define K_UKERNEL_B(name, rows, nv, lanes)                                               \
    K_FN void name##_##rows##x##nv(const k_tile *t)                                      \
    {                                                                                    \
        K_UKERNEL_BODY(rows, nv, lanes, t->tiles, K_NOTHING, K_BELOW)                    \
    }

// The first tile of a panel of K_MAX_NV vectors: leaves the panel's rows side by side in
// `kept`, where the tiles below find them in the first cache, and asks for those to come.
#define K_KEEP_ROW(nv)                                                                   \
    const uintptr_t ahead = (uintptr_t)b + (uintptr_t)ldb * K_ROWS_AHEAD * sizeof *b;    \
    K_V##nv(K_AHEAD, 0, nv) K_V##nv(K_KEEP, 0, nv) kept += nv * PCVR_VL;
#define K_FIRST(name, rows, nv, lanes)                                                   \
    K_FN void name(const k_tile *t, float *kept)                                         \
    {                                                                                    \
        K_UKERNEL_BODY(rows, nv, lanes, 1, K_KEEP_ROW, K_BELOW)                          \
    }

// A tile below the first: sends for one line of each row of the next panel, as far as the
// second cache.
#define K_NEXT_ROW(nv) __builtin_prefetch((const void *)next, 0, 2), next += step;
#define K_NEXT(name, rows, nv, lanes)                                                    \
    K_FN void name(const k_tile *t, uintptr_t next)                                      \
    {                                                                                    \
        const uintptr_t step = (uintptr_t)t->ldnext * sizeof *t->next;                   \
        K_UKERNEL_BODY(rows, nv, lanes, 1, K_NEXT_ROW, K_BELOW)                          \
    }

// The first tile of few rows, which are done with a panel before it is worth a copy: sends for the panel
// that follows.
#define K_ASK(i, j, nv)                                                                  \
    __builtin_prefetch((const void *)(next + j * PCVR_VL * sizeof *b), 0, 2);
#define K_ASK_ROW(nv) K_V##nv(K_ASK, 0, nv) next += step;
#define K_PASSING(name, rows, nv, lanes)                                                 \
    K_FN void name##_##rows(const k_tile *t)                                             \
    {                                                                                    \
        const uintptr_t step = (uintptr_t)t->ldnext * sizeof *t->next;                   \
        uintptr_t next = (uintptr_t)t->next;                                             \
        K_UKERNEL_BODY(rows, nv, lanes, 1, K_ASK_ROW, K_NO_BELOW)                        \
    }
enum { K_BELOW_LEAST = 24, K_BELOW_NEXT = 96, K_FIRST_ROWS = 6, K_ROWS_AHEAD = 4 };

// Heights of tiles, a list and a table for each set of registers.  One vector leaves
// registers free for more rows; eight lanes take wide panels only of a few rows.
// clang-format off
#if PCVR_VL == 8
#define K_UKERNELS(name, lanes)                                                          \
    K_UKERNEL(name, 1, 1, lanes) K_UKERNEL(name, 2, 1, lanes) K_UKERNEL(name, 4, 1, lanes) \
    K_UKERNEL(name, 8, 1, lanes) K_UKERNEL(name, 12, 1, lanes)                           \
    K_UKERNEL(name, 1, 2, lanes) K_UKERNEL(name, 2, 2, lanes) K_UKERNEL(name, 3, 2, lanes) \
    K_UKERNEL(name, 4, 2, lanes) K_UKERNEL(name, 5, 2, lanes) K_UKERNEL_B(name, 6, 2, lanes) \
    K_UKERNEL(name, 1, 3, lanes) K_UKERNEL(name, 2, 3, lanes) K_UKERNEL(name, 3, 3, lanes) \
    K_UKERNEL(name, 1, 4, lanes) K_UKERNEL(name, 2, 4, lanes) K_UKERNEL(name, 3, 4, lanes) \
    K_UKERNEL(name, 1, 8, lanes)
#define K_UKERNEL_TABLE(name)                                                            \
    {                                                                                    \
        {{12, name##_12x1}, {8, name##_8x1}, {4, name##_4x1}, {2, name##_2x1},           \
         {1, name##_1x1}},                                                               \
        {{6, name##_6x2}, {5, name##_5x2}, {4, name##_4x2}, {3, name##_3x2},             \
         {2, name##_2x2}, {1, name##_1x2}},                                              \
        {{3, name##_3x3}, {2, name##_2x3}, {1, name##_1x3}},                             \
        {{3, name##_3x4}, {2, name##_2x4}, {1, name##_1x4}},                             \
        {{0, NULL}},                                                                     \
        {{0, NULL}},                                                                     \
        {{0, NULL}},                                                                     \
        {{1, name##_1x8}},                                                               \
    }
K_FIRST(k_first_full, 6, 2, PCVR_VL)
K_NEXT(k_next_full, 6, 2, PCVR_VL)
K_PASSING(k_passing, 4, 2, PCVR_VL)
K_PASSING(k_passing, 5, 2, PCVR_VL)
K_PASSING(k_passing, 6, 2, PCVR_VL)
K_FIRST(k_first_part, 6, 2, t->last)
#else
#define K_UKERNELS(name, lanes)                                                          \
    K_UKERNEL(name, 1, 1, lanes) K_UKERNEL(name, 2, 1, lanes) K_UKERNEL(name, 4, 1, lanes) \
    K_UKERNEL(name, 8, 1, lanes) K_UKERNEL(name, 12, 1, lanes)                           \
    K_UKERNEL(name, 1, 2, lanes) K_UKERNEL(name, 2, 2, lanes) K_UKERNEL(name, 3, 2, lanes) \
    K_UKERNEL(name, 4, 2, lanes) K_UKERNEL(name, 6, 2, lanes) K_UKERNEL(name, 8, 2, lanes) \
    K_UKERNEL(name, 12, 2, lanes)                                                        \
    K_UKERNEL(name, 1, 3, lanes) K_UKERNEL(name, 2, 3, lanes) K_UKERNEL(name, 3, 3, lanes) \
    K_UKERNEL(name, 4, 3, lanes) K_UKERNEL(name, 6, 3, lanes) K_UKERNEL(name, 8, 3, lanes) \
    K_UKERNEL(name, 1, 4, lanes) K_UKERNEL(name, 2, 4, lanes) K_UKERNEL(name, 3, 4, lanes) \
    K_UKERNEL(name, 4, 4, lanes) K_UKERNEL(name, 5, 4, lanes) K_UKERNEL_B(name, 6, 4, lanes) \
    K_UKERNEL(name, 1, 8, lanes)
#define K_UKERNEL_TABLE(name)                                                            \
    {                                                                                    \
        {{12, name##_12x1}, {8, name##_8x1}, {4, name##_4x1}, {2, name##_2x1},           \
         {1, name##_1x1}},                                                               \
        {{12, name##_12x2}, {8, name##_8x2}, {6, name##_6x2}, {4, name##_4x2},           \
         {3, name##_3x2}, {2, name##_2x2}, {1, name##_1x2}},                             \
        {{8, name##_8x3}, {6, name##_6x3}, {4, name##_4x3}, {3, name##_3x3},             \
         {2, name##_2x3}, {1, name##_1x3}},                                              \
        {{6, name##_6x4}, {5, name##_5x4}, {4, name##_4x4}, {3, name##_3x4},             \
         {2, name##_2x4}, {1, name##_1x4}},                                              \
        {{0, NULL}},                                                                     \
        {{0, NULL}},                                                                     \
        {{0, NULL}},                                                                     \
        {{1, name##_1x8}},                                                               \
    }
#if PCVR_VL > 1
K_FIRST(k_first_full, 6, 4, PCVR_VL)
K_NEXT(k_next_full, 6, 4, PCVR_VL)
K_PASSING(k_passing, 4, 4, PCVR_VL)
K_PASSING(k_passing, 5, 4, PCVR_VL)
K_PASSING(k_passing, 6, 4, PCVR_VL)
K_FIRST(k_first_part, 6, 4, t->last)
#endif
#endif
// clang-format on

// A number of rows and the tiles of that height.
typedef struct k_ukernel_entry {
    int rows;
    void (*run)(const k_tile *);
} k_ukernel_entry;

// Full tiles apart from those whose last vector is partial: a tenth faster.
K_UKERNELS(k_full, PCVR_VL)
#if PCVR_VL > 1
K_UKERNELS(k_part, t->last)
#endif

// While a tile is computed, one below it comes from beyond the caches: sums of gradients lie there, and
// no hardware follows rows a page apart. A short tile leaves less time than the way takes: the one after.
static inline void
k_tile_ahead(k_tile *t, int rows)
{
    t->below = PCVR_VL > 1 && t->K >= K_BELOW_LEAST ? t->K / rows : 0;
    t->ahead = t->K >= K_BELOW_NEXT ? 1 : 2;
}

static inline void
k_tile_down(k_tile *t, int rows)
{
    t->a += rows * t->ars;
    t->c += rows * t->ldc;
    if (t->s)
        t->s += rows * t->lds;
}

// Computes `rows` rows of nv vectors (1 to 4, or 8), the highest tiles first.  One row or two by
// themselves would wait for their own sums: they share out with the tile above.
static inline void
k_ukernel(int nv, int rows, k_tile *t)
{
    static const k_ukernel_entry full[8][7] = K_UKERNEL_TABLE(k_full);
    const k_ukernel_entry *e = full[nv - 1];
#if PCVR_VL > 1
    static const k_ukernel_entry part[8][7] = K_UKERNEL_TABLE(k_part);
    if (t->last < PCVR_VL)
        e = part[nv - 1];
#endif
    for (; rows > 0; e++) {
        const int left = rows % e->rows;
        t->tiles = rows / e->rows;
        if (nv > 1 && e->rows > 3 && (left == 1 || left == 2))
            t->tiles--;
        if (t->tiles <= 0)
            continue;
        k_tile_ahead(t, e->rows);
        e->run(t);
        k_tile_down(t, t->tiles * e->rows);
        rows -= t->tiles * e->rows;
    }
}

#if PCVR_VL > 1
// The first tiles of a panel of K_MAX_NV vectors, which is copied to `panel`, and K_FIRST_ROWS
// or more rows; returns how many rows are left.
static inline int
k_ukernel_first(int rows, k_tile *t, float *panel)
{
    k_tile_ahead(t, K_FIRST_ROWS);
    t->tiles = rows / K_FIRST_ROWS;
    if (t->last < PCVR_VL)
        k_first_part(t, panel);
    else
        k_first_full(t, panel);
    k_tile_down(t, K_FIRST_ROWS);
    rows -= K_FIRST_ROWS;
    t->b = panel;
    t->ldb = K_MAX_NV * PCVR_VL;
    if (t->next && t->last == PCVR_VL)
        for (int at = 0; at < K_MAX_NV * PCVR_VL && rows >= K_FIRST_ROWS + 3;
             at += K_LINE) {
            t->tiles = rows / K_FIRST_ROWS;
            k_next_full(t, (uintptr_t)(t->next + at));
            k_tile_down(t, K_FIRST_ROWS);
            rows -= K_FIRST_ROWS;
        }
    return rows;
}

// The first tile of few rows of a full panel; returns how many rows are left.
static inline int
k_ukernel_passing(int rows, k_tile *t)
{
    const int first = rows == 5 || rows == 8 ? 5 : rows == 4 || rows == 7 ? 4 : 6;
    if (first == 6)
        k_passing_6(t);
    else if (first == 5)
        k_passing_5(t);
    else
        k_passing_4(t);
    k_tile_down(t, first);
    return rows - first;
}
#endif

#endif

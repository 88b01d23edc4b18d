// pcvr_project.h - projected tables: P = E W once a step, sums of rows of P, the way
// back.
//
// A table E is [V, e], contiguous; its rows of the weight are W [e, D], stored as rows
// first .. first + e of [K, D], or as columns of [D, K] where it is transposed; with C
// columns there are C such weights, and rows 1 + h V' .. (h + 1) V' of E belong to column
// h, V' = (V - 1) / C.
#ifndef PCVR_PROJECT_H
#define PCVR_PROJECT_H

#include "pcvr_gemm.h"
#include "pcvr_rows.h"

#include "../pcvr.h"

#include <math.h>

enum { K_PROJECT_AHEAD = 8, K_PROJECT_LINE = 16, K_PROJECT_TABLES = 16 };

// A projected table and who is looked up.
typedef struct k_projected_rows {
    const float *table; // [V, D]
    int64_t V;
    const int64_t *ids; // a step apart
    ptrdiff_t step;
} k_projected_rows;

static inline const float *
k_projected_row(const k_projected_rows *t, int r, int D)
{
    const int64_t id = t->ids[r * t->step];
    return t->table + (id < 0 ? 0 : id < t->V ? id : t->V - 1) * D;
}

// y[R, D] = S + the rows of n <= K_PROJECT_TABLES tables, added in order. S NULL: zeros.
static inline void
k_projected_few(int R, int D, int n, const k_projected_rows *t, const float *S,
                ptrdiff_t lds, float *y, ptrdiff_t ldy)
{
    const float *row[K_PROJECT_TABLES];
    for (int r = 0; r < R; r++) {
        const int ahead = k_min(r + K_PROJECT_AHEAD, R - 1);
        for (int i = 0; i < n; i++) {
            const float *next = k_projected_row(&t[i], ahead, D);
            for (int c = 0; c < D; c += K_PROJECT_LINE)
                __builtin_prefetch(next + c);
            row[i] = k_projected_row(&t[i], r, D);
        }
        K_EACH(c, lanes, D, {
            v_f32 s = S ? v_load_n(S + r * lds + c, lanes) : v_load_n(row[0] + c, lanes);
            for (int i = S ? 0 : 1; i < n; i++)
                s = v_add(s, v_load_n(row[i] + c, lanes));
            v_store_n(y + r * ldy + c, lanes, s);
        });
    }
}

// The same for any n >= 1.
K_FN void
k_projected(int R, int D, int n, const k_projected_rows *t, const float *S, ptrdiff_t lds,
            float *y, ptrdiff_t ldy)
{
    for (int i = 0; i < n; i += K_PROJECT_TABLES) {
        k_projected_few(R, D, k_min(n - i, K_PROJECT_TABLES), t + i, i ? y : S,
                        i ? ldy : lds, y, ldy);
    }
}

// The weight of a column.
static inline const float *
k_project_weight(const pcvr_projection *p, const float *weight, int64_t column)
{
    const float *w = weight + column * p->pitch * p->width;
    return p->transposed ? w + p->first : w + p->first * p->width;
}

// C[M, D] = A[M, e] W
static inline void
k_project_rows(const pcvr_projection *p, const float *w, int64_t M, const float *a,
               float *c)
{
    const int D = (int)p->width, e = (int)p->depth;
    if (p->transposed)
        k_gemm_nt((int)M, D, e, a, e, w, p->pitch, NULL, 0, c, D);
    else
        k_gemm_nn((int)M, D, e, a, e, w, D, NULL, 0, c, D);
}

// C[M, n] = A[M, D] W', columns from .. from + n of e
static inline void
k_project_rows_back(const pcvr_projection *p, const float *w, int64_t M, const float *a,
                    ptrdiff_t lda, int from, int n, float *c, ptrdiff_t ldc)
{
    const int D = (int)p->width;
    if (p->transposed)
        k_gemm_nn((int)M, n, D, a, lda, w + from, p->pitch, NULL, 0, c, ldc);
    else
        k_gemm_nt((int)M, n, D, a, lda, w + from * D, D, NULL, 0, c, ldc);
}

// Rows of a column: [*first, *end).
static inline void
k_project_span(const pcvr_projection *p, int64_t column, int64_t *first, int64_t *end)
{
    const int64_t each = (p->rows - 1) / p->columns;
    *first = p->columns > 1 ? 1 + column * each : 0;
    *end = p->columns > 1 ? *first + each : p->rows;
}

// Part x->first of x->count of the rows of P.
K_FN void
k_project(const pcvr_ctx *x, const pcvr_projection *p)
{
    const float *table = x->params[p->table];
    float *out = x->packed + p->offset;
    const int64_t from = p->rows * x->first / x->count,
                  to = p->rows * (x->first + 1) / x->count;
    for (int64_t h = 0; h < p->columns; h++) {
        int64_t first, end;
        k_project_span(p, h, &first, &end);
        first = first > from ? first : from;
        end = end < to ? end : to;
        if (first < end)
            k_project_rows(p, k_project_weight(p, x->params[p->weight], h), end - first,
                           table + first * p->depth, out + first * p->width);
    }
    if (p->padding && from == 0 && to > 0)
        for (int64_t c = 0; c < p->width; c++)
            out[c] = 0.0f;
}

enum { K_SQUARE_ROWS = 64, K_SQUARE_COLS = 64 };

// Sum of squares of dy[r] W' over rows whose id is no padding: what these rows would have
// added to the table's own gradient, each by itself. Row r is row first + r of all columns,
// each of which has `each` rows.
K_FN double
k_projected_squares(const pcvr_ctx *x, const pcvr_projection *p, int R, int first,
                    int each, const float *dy, ptrdiff_t ld, const int64_t *ids,
                    ptrdiff_t step)
{
    float dx[K_SQUARE_ROWS * K_SQUARE_COLS];
    double sum = 0.0;
    for (int r = 0, n; r < R; r += n) {
        const int h = (first + r) / each, left = (h + 1) * each - first - r;
        const float *w = k_project_weight(p, x->params[p->weight], h);
        n = k_min(k_min(K_SQUARE_ROWS, R - r), left);
        for (int c = 0; c < p->depth; c += K_SQUARE_COLS) {
            const int wide = k_min(K_SQUARE_COLS, (int)p->depth - c);
            k_project_rows_back(p, w, n, dy + r * ld, ld, c, wide, dx, K_SQUARE_COLS);
            for (int i = 0; i < n; i++) {
                const float *row = dx + i * K_SQUARE_COLS;
                if (ids[(r + i) * step] > 0 || !p->padding)
                    sum += (double)k_dot(wide, row, row);
            }
        }
    }
    return sum;
}

// Adds rows dy[R, D] to the store of P's gradient, in ascending r; padding gets none. For
// first and each see k_projected_squares.
K_FN void
k_store_projected(const pcvr_ctx *x, const pcvr_projection *p, int R, int first, int each,
                  const float *dy, ptrdiff_t ld, const int64_t *ids, ptrdiff_t step,
                  pcvr_rows *store)
{
    const int D = (int)p->width;
    for (int r = 0; r < R; r++) {
        int64_t id = ids[r * step];
        id = id < 0 ? 0 : id < p->rows ? id : p->rows - 1;
        if (id || !p->padding)
            k_add(1, D, dy + r * ld, 0, pcvr_rows_get(store, id), 0);
    }
    store->squares += x->norms
                          ? k_projected_squares(x, p, R, first, each, dy, ld, ids, step)
                          : (double)NAN;
}

// The first of n ascending ids that is at least `least`.
static inline int64_t
k_project_seek(int64_t n, const int64_t *ids, int64_t least)
{
    int64_t low = 0;
    while (low < n) {
        const int64_t mid = (low + n) / 2;
        if (ids[mid] < least)
            low = mid + 1;
        else
            n = mid;
    }
    return low;
}

// dweight += E' dP, a chain of ascending rows an element; then dtable = dP W'. The rows
// of E wait in dtable.
K_FN void
k_project_back(const pcvr_projection *p, const pcvr_back *b)
{
    const int D = (int)p->width, e = (int)p->depth;
    int64_t first, end;
    k_project_span(p, b->column, &first, &end);
    first = k_project_seek(b->n, b->ids, first);
    end = k_project_seek(b->n, b->ids, end);
    const int n = (int)(end - first);
    const float *rows = b->rows + first * D;
    float *dx = b->dtable + first * e;
    if (n == 0)
        return;
    for (int k = 0; k < n; k++)
        k_copy(1, e, b->table + b->ids[first + k] * e, 0, dx + (ptrdiff_t)k * e, 0);
    const ptrdiff_t at = k_project_weight(p, b->weight, b->column) - b->weight;
    float *dw = b->dweight + at;
    if (p->transposed)
        k_gemm_tn(D, e, n, rows, D, dx, e, dw, p->pitch, dw, p->pitch);
    else
        k_gemm_tn(e, D, n, dx, e, rows, D, dw, D, dw, D);
    k_project_rows_back(p, b->weight + at, n, rows, D, 0, e, dx, e);
}

#endif

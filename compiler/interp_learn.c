// interp_learn.c - products, softmax, norms, rotary positions, chance.

#include "interp_eval.h"

#include <math.h>

#include "philox.h"

// ---- products -----------------------------------------------------------------------

// A matrix in row order: x itself, or its transpose in scratch.
static const double *
untransposed(Interp *it, const double *x, int64_t rows, int64_t cols, bool transposed)
{
    if (!transposed)
        return x;
    double *y = arena_array(&it->scratch, double, rows *cols);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            y[r * cols + c] = x[c * rows + r];
    return y;
}

typedef double Vec __attribute__((vector_size(32), aligned(8), may_alias));

enum { ROWS = 4, COLS = 8 }; // of a tile; two Vecs hold a row of it

// A tile of y = a b in registers: rows of a are K apart, rows of b and y N.
static inline __attribute__((always_inline)) void
tile(double *y, const double *a, const double *b, int64_t N, int64_t K)
{
    Vec sum[ROWS][2] = {{{0}}};
    for (int64_t k = 0; k < K; k++) {
        Vec left = *(const Vec *)(b + k * N), right = *(const Vec *)(b + k * N + 4);
        for (int r = 0; r < ROWS; r++) {
            sum[r][0] += a[r * K + k] * left;
            sum[r][1] += a[r * K + k] * right;
        }
    }
    for (int r = 0; r < ROWS; r++) {
        *(Vec *)(y + r * N) = sum[r][0];
        *(Vec *)(y + r * N + 4) = sum[r][1];
    }
}

// Elements of y in rows m .. M, columns c .. N.
static void
edge(double *y, const double *a, const double *b, int64_t m, int64_t M, int64_t c,
     int64_t N, int64_t K)
{
    for (; m < M; m++)
        for (int64_t k = 0; k < K; k++)
            for (int64_t j = c; j < N; j++)
                y[m * N + j] += a[m * K + k] * b[k * N + j];
}

static inline __attribute__((always_inline)) void
product_body(double *y, const double *a, const double *b, int64_t M, int64_t N, int64_t K)
{
    int64_t rows = M - M % ROWS, cols = N - N % COLS;
    for (int64_t c = 0; c < cols; c += COLS)
        for (int64_t m = 0; m < rows; m += ROWS)
            tile(y + m * N + c, a + m * K, b + c, N, K);
    edge(y, a, b, 0, rows, cols, N, K);
    edge(y, a, b, rows, M, 0, N, K);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void
product_avx2(double *y, const double *a, const double *b, int64_t M, int64_t N, int64_t K)
{
    product_body(y, a, b, M, N, K);
}
#endif

// y [M, N] = a [M, K] b [K, N]; y is zero before.
static void
product(double *y, const double *a, const double *b, int64_t M, int64_t N, int64_t K)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        product_avx2(y, a, b, M, N, K);
        return;
    }
#endif
    product_body(y, a, b, M, N, K);
}

void
eval_matmul(Interp *it, const Node *n)
{
    Shape sa = n->in[0]->shape, sb = n->in[1]->shape, s = n->shape;
    int64_t M = s.dim[s.rank - 2], N = s.dim[s.rank - 1];
    int64_t K = sa.dim[sa.rank - (n->a.ta ? 2 : 1)];
    int64_t batch = 1;
    for (int k = 0; k < s.rank - 2; k++)
        batch *= s.dim[k];
    for (int64_t b = 0; b < batch; b++) {
        const double *x = in(it, n, 0)->f + b * M * K;
        const double *w = in(it, n, 1)->f + (sb.rank > 2 ? b * K * N : 0);
        product(out(it, n)->f + b * M * N, untransposed(it, x, M, K, n->a.ta),
                untransposed(it, w, K, N, n->a.tb), M, N, K);
    }
}

// ---- softmax ------------------------------------------------------------------------

// One line of `length` elements `step` apart; allowed NULL: all.
static void
softmax_line(double *y, const double *x, const int64_t *allowed, int64_t length,
             int64_t step)
{
    double top = -HUGE_VAL, sum = 0;
    for (int64_t k = 0; k < length; k++)
        if ((!allowed || allowed[k * step]) && !(x[k * step] <= top))
            top = x[k * step];
    for (int64_t k = 0; k < length; k++)
        if (!allowed || allowed[k * step]) {
            y[k * step] = exp(x[k * step] - top);
            sum += y[k * step];
        }
    for (int64_t k = 0; k < length; k++)
        if (!allowed || allowed[k * step])
            y[k * step] /= sum;
}

void
eval_softmax(Interp *it, const Node *n)
{
    AxisView v = axis_view(n->shape, (int)n->a.axis);
    const int64_t *mask = n->n_in > 1 ? in_as_out(it, n, 1)->i : NULL;
    for (int64_t o = 0; o < v.outer; o++)
        for (int64_t i = 0; i < v.inner; i++) {
            int64_t at = o * v.length * v.inner + i;
            softmax_line(out(it, n)->f + at, in(it, n, 0)->f + at,
                         mask ? mask + at : NULL, v.length, v.inner);
        }
}

// ---- normalisation ------------------------------------------------------------------

typedef struct Moments {
    double mean, scale; // 1 / sqrt(v + p)
} Moments;

static Moments
moments(const Node *n, const double *x, int64_t width)
{
    double sum = 0, squares = 0;
    for (int64_t c = 0; n->a.keep && c < width; c++)
        sum += x[c];
    double mean = sum / (double)width;
    for (int64_t c = 0; c < width; c++)
        squares += (x[c] - mean) * (x[c] - mean);
    return (Moments){mean, 1 / sqrt(squares / (double)width + n->a.p)};
}

void
eval_normalize(Interp *it, const Node *n)
{
    int64_t width = n->shape.dim[n->shape.rank - 1];
    for (int64_t at = 0; width && at < out(it, n)->size; at += width) {
        const double *x = in(it, n, 0)->f + at;
        Moments m = moments(n, x, width);
        for (int64_t c = 0; c < width; c++)
            out(it, n)->f[at + c] = (x[c] - m.mean) * m.scale;
    }
}

// dx = scale (dy - mean(dy) - y mean(dy y)), without mean(dy) for rms.
static void
normalize_back_row(const Node *n, double *dx, const double *x, const double *dy,
                   int64_t width)
{
    Moments m = moments(n, x, width);
    double sum = 0, dot = 0;
    bool any = false;
    for (int64_t c = 0; c < width; c++)
        any = any || dy[c] != 0;
    if (!any)
        return;
    for (int64_t c = 0; c < width; c++) {
        sum += n->a.keep ? dy[c] : 0;
        dot += dy[c] * (x[c] - m.mean) * m.scale;
    }
    for (int64_t c = 0; c < width; c++)
        dx[c] = m.scale * (dy[c] - sum / (double)width -
                           (x[c] - m.mean) * m.scale * dot / (double)width);
}

void
eval_normalize_back(Interp *it, const Node *n)
{
    int64_t width = n->shape.dim[n->shape.rank - 1];
    for (int64_t at = 0; width && at < out(it, n)->size; at += width)
        normalize_back_row(n, out(it, n)->f + at, in(it, n, 0)->f + at,
                           in(it, n, 1)->f + at, width);
}

// ---- rotary positions ---------------------------------------------------------------

// Turns lanes a and b of a head.
static void
turn(double *y, const double *x, int64_t a, int64_t b, double angle)
{
    y[a] = x[a] * cos(angle) - x[b] * sin(angle);
    y[b] = x[b] * cos(angle) + x[a] * sin(angle);
}

void
eval_rope(Interp *it, const Node *n)
{
    int64_t T = n->shape.dim[0], D = n->shape.dim[1], K = D / n->a.heads, pairs = K / 2;
    for (int64_t t = 0; t < T; t++)
        for (int64_t h = 0; h < n->a.heads; h++) {
            const double *x = in(it, n, 0)->f + t * D + h * K;
            double *y = out(it, n)->f + t * D + h * K;
            double position = (double)in(it, n, 1)->i[t] * (n->a.inverse ? -1 : 1);
            if (K % 2)
                y[K - 1] = x[K - 1];
            for (int64_t k = 0; k < pairs; k++) {
                double angle =
                    position * pow(n->a.p, -(double)(2 * k) / (double)(2 * pairs));
                if (n->a.adjacent)
                    turn(y, x, 2 * k, 2 * k + 1, angle);
                else
                    turn(y, x, k, k + pairs, angle);
            }
        }
}

// ---- chance -------------------------------------------------------------------------

// Calls for each element of [R, C] whether it is dropped.
static void
draw(Interp *it, const Node *n, int rows, bool *dropped)
{
    int64_t size = shape_size(n->shape);
    bool given = n->n_in > rows;
    int64_t R = given || n->shape.rank > 1 ? n->shape.dim[0] : 1;
    int64_t C = R ? size / R : 0;
    PcvrSite site = {it->seed, (uint32_t)n->a.site, it->index, it->step};
    uint32_t threshold = pcvr_drop_threshold(n->a.p);
    for (int64_t r = 0; r < R; r++)
        for (int64_t c = 0; c < C; c++) {
            int64_t row = given ? in(it, n, rows)->i[r] : r;
            int64_t element = n->a.first + row * n->a.pitch + c;
            dropped[r * C + c] = !pcvr_keeps(&site, (uint64_t)element, threshold);
        }
}

void
eval_dropout(Interp *it, const Node *n)
{
    Tensor *y = out(it, n);
    bool *dropped = arena_array(&it->scratch, bool, y->size);
    if (it->training)
        draw(it, n, 1, dropped);
    double scale = it->training ? (double)pcvr_drop_scale(n->a.p) : 1;
    for (int64_t k = 0; k < y->size; k++)
        y->f[k] = dropped[k] ? 0 : in(it, n, 0)->f[k] * scale;
}

void
eval_chance(Interp *it, const Node *n)
{
    Tensor *y = out(it, n);
    bool *dropped = arena_array(&it->scratch, bool, y->size);
    if (it->training)
        draw(it, n, 0, dropped);
    for (int64_t k = 0; k < y->size; k++)
        y->i[k] = dropped[k];
}

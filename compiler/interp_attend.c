// interp_attend.c - attention and its gradient: one head at a time, the weights written
// out.

#include "interp_eval.h"

#include <math.h>
#include <string.h>

#include "philox.h"

// One batch entry of an attend or attend_back node.
typedef struct Attention {
    Interp *it;
    const Node *n;
    int extra; // operands between v and the captured ones
    int64_t batch, T, S, D, K;
    double scale;   // of the scores
    bool *allowed;  // [T, S]
    double *weight; // [T, S] softmax of the head
    double *keep;   // [T, S] factor of dropout
} Attention;

static int64_t
captured(void *arg, int64_t operand, int64_t index)
{
    const Attention *a = arg;
    const Tensor *t = in(a->it, a->n, (int)operand + a->extra);
    return t->i[clamp_index(index, t->size)];
}

static Attention
attention_begin(Interp *it, const Node *n, int extra)
{
    Shape q = n->in[0]->shape, k = n->in[1]->shape;
    Attention a = {.it = it, .n = n, .extra = extra, .batch = 1};
    a.T = q.dim[q.rank - 2];
    a.S = k.dim[k.rank - 2];
    a.D = q.dim[q.rank - 1];
    a.K = a.D / n->a.heads;
    a.scale = 1 / sqrt((double)a.K);
    for (int d = 0; d < q.rank - 2; d++)
        a.batch *= q.dim[d];
    a.allowed = arena_array(&it->scratch, bool, a.T *a.S);
    a.weight = arena_array(&it->scratch, double, a.T *a.S);
    a.keep = arena_array(&it->scratch, double, a.T *a.S);
    for (int64_t i = 0; i < a.T; i++)
        for (int64_t j = 0; j < a.S; j++)
            a.allowed[i * a.S + j] =
                !n->a.mask || mask_value(n->a.mask, n->a.q_first + i, n->a.k_first + j,
                                         captured, &a) != 0;
    return a;
}

static double
dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += a[k] * b[k];
    return sum;
}

static void
add_scaled(double *y, double s, const double *x, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        y[k] += s * x[k];
}

// Returns the sum of the exponentials, and their highest score.
static double
weights_of_row(Attention *a, int64_t i, const double *q, const double *keys,
               double *highest)
{
    double *w = a->weight + i * a->S, top = -HUGE_VAL, sum = 0;
    const bool *allowed = a->allowed + i * a->S;
    memset(w, 0, (size_t)a->S * sizeof *w);
    for (int64_t j = 0; j < a->S; j++)
        if (allowed[j]) {
            w[j] = dot(q, keys + j * a->D, a->K) * a->scale;
            top = w[j] <= top ? top : w[j];
        }
    for (int64_t j = 0; j < a->S; j++)
        if (allowed[j]) {
            w[j] = exp(w[j] - top);
            sum += w[j];
        }
    for (int64_t j = 0; j < a->S; j++)
        if (allowed[j])
            w[j] /= sum;
    *highest = top;
    return sum;
}

// Softmax weights and dropout factors of a head; q and keys point at its first lane.
static void
weights(Attention *a, int64_t batch, int64_t head, const double *q, const double *keys)
{
    const Interp *it = a->it;
    const Attr *at = &a->n->a;
    int64_t rows = at->q_rows ? at->q_rows : a->T, cols = at->k_rows ? at->k_rows : a->S;
    PcvrSite site = {it->seed, (uint32_t)at->site, it->index, it->step};
    uint32_t threshold = pcvr_drop_threshold(at->p);
    bool draws = it->training && at->p > 0;
    double kept = draws ? (double)pcvr_drop_scale(at->p) : 1;
    for (int64_t i = 0; i < a->T; i++) {
        double top;
        weights_of_row(a, i, q + i * a->D, keys, &top);
        for (int64_t j = 0; j < a->S; j++) {
            int64_t row = (batch * at->heads + head) * rows + at->q_first + i;
            uint64_t element = (uint64_t)(row * cols + at->k_first + j);
            a->keep[i * a->S + j] =
                draws && !pcvr_keeps(&site, element, threshold) ? 0 : kept;
        }
    }
}

void
eval_attend(Interp *it, const Node *n)
{
    Attention a = attention_begin(it, n, 0);
    for (int64_t b = 0; b < a.batch; b++)
        for (int64_t h = 0; h < n->a.heads; h++) {
            const double *q = in(it, n, 0)->f + b * a.T * a.D + h * a.K;
            const double *k = in(it, n, 1)->f + b * a.S * a.D + h * a.K;
            const double *v = in(it, n, 2)->f + b * a.S * a.D + h * a.K;
            double *y = out(it, n)->f + b * a.T * a.D + h * a.K;
            weights(&a, b, h, q, k);
            for (int64_t i = 0; i < a.T; i++)
                for (int64_t j = 0; j < a.S; j++)
                    if (a.allowed[i * a.S + j])
                        add_scaled(y + i * a.D,
                                   a.weight[i * a.S + j] * a.keep[i * a.S + j],
                                   v + j * a.D, a.K);
        }
}

static bool
all_zero(const double *x, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        if (x[k] != 0)
            return false;
    return true;
}

typedef struct HeadBack {
    const double *q, *k, *v, *dy;
    double *dq, *dk, *dv, *dp; // dp [S]
} HeadBack;

// dv += (w keep)' dy; dp = keep dy v'; ds = w (dp - sum(dp w)); dq = ds k, dk += ds' q,
// scaled.
static void
back_row(const Attention *a, const HeadBack *h, int64_t i)
{
    const double *w = a->weight + i * a->S, *keep = a->keep + i * a->S;
    const bool *allowed = a->allowed + i * a->S;
    const double *dy = h->dy + i * a->D;
    double sum = 0;
    for (int64_t j = 0; j < a->S; j++)
        if (allowed[j]) {
            h->dp[j] = keep[j] * dot(dy, h->v + j * a->D, a->K);
            sum += h->dp[j] * w[j];
            add_scaled(h->dv + j * a->D, w[j] * keep[j], dy, a->K);
        }
    for (int64_t j = 0; j < a->S; j++)
        if (allowed[j]) {
            double ds = w[j] * (h->dp[j] - sum) * a->scale;
            add_scaled(h->dq + i * a->D, ds, h->k + j * a->D, a->K);
            add_scaled(h->dk + j * a->D, ds, h->q + i * a->D, a->K);
        }
}

void
eval_attend_back(Interp *it, const Node *n)
{
    Attention a = attention_begin(it, n, ATTEND_BACK_EXTRA);
    double *dp = arena_array(&it->scratch, double, a.S);
    for (int64_t b = 0; b < a.batch; b++)
        for (int64_t h = 0; h < n->a.heads; h++) {
            int64_t qo = b * a.T * a.D + h * a.K, ko = b * a.S * a.D + h * a.K;
            double *dq = out(it, n)->f, *dk = dq + a.batch * a.T * a.D;
            double *dv = n->a.joined ? dk : dk + a.batch * a.S * a.D;
            HeadBack hb = {in(it, n, 0)->f + qo,
                           in(it, n, 1)->f + ko,
                           in(it, n, 2)->f + ko,
                           in(it, n, 3)->f + qo,
                           dq + qo,
                           dk + ko,
                           dv + ko,
                           dp};
            weights(&a, b, h, hb.q, hb.k);
            for (int64_t i = 0; i < a.T; i++)
                if (!all_zero(hb.dy + i * a.D, a.K))
                    back_row(&a, &hb, i);
        }
}

// Each query's highest score times log2 e, and the inverse of the sum of powers, by heads.
static void
eval_stats(Interp *it, const Node *n)
{
    const Node *x = n->in[0];
    Attention a = attention_begin(it, x, 0);
    int64_t H = x->a.heads;
    for (int64_t b = 0; b < a.batch; b++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t i = 0; i < a.T; i++) {
                const double *q = in(it, x, 0)->f + (b * a.T + i) * a.D + h * a.K;
                const double *k = in(it, x, 1)->f + b * a.S * a.D + h * a.K;
                double *y = out(it, n)->f + (b * 2 * H + h) * a.T + i;
                double top;
                double sum = weights_of_row(&a, i, q, k, &top);
                y[0] = top / log(2);
                y[H * a.T] = sum > 0 ? 1 / sum : 0;
            }
}

void
eval_part(Interp *it, const Node *n)
{
    const Node *back = n->in[0];
    int64_t at = 0;
    if (back->op == OP_ATTEND) {
        eval_stats(it, n);
        return;
    }
    for (int k = 0; k < n->a.index; k++)
        at += shape_size(back->in[k]->shape);
    Tensor *y = out(it, n);
    if (y->size)
        memcpy(y->f, in(it, n, 0)->f + at, (size_t)y->size * sizeof *y->f);
}

// interp_project.c - parts of parameters, and sums of projected rows, without projecting.

#include "interp_eval.h"

// ---- parts ----------------------------------------------------------------------------

// The element of the whole parameter that element k of the part is.
static int64_t
whole_element(const Node *n, Shape whole, int64_t k)
{
    AxisView part = axis_view(n->shape, (int)n->a.axis);
    int64_t inner = k % part.inner, at = k / part.inner % part.length,
            outer = k / part.inner / part.length, r = 0;
    while (at >= n->a.list[r + 1]) {
        at -= n->a.list[r + 1];
        r += 2;
    }
    return (outer * whole.dim[n->a.axis] + n->a.list[r] + at) * part.inner + inner;
}

void
eval_take(Interp *it, const Node *n)
{
    const Tensor *x = in(it, n, 0);
    Tensor *y = out(it, n);
    for (int64_t k = 0; k < y->size; k++)
        y->f[k] = x->f[whole_element(n, n->in[0]->shape, k)];
}

void
eval_acc_take(Interp *it, const Node *n)
{
    Shape whole = it->g->params[n->a.index].shape;
    double *grad = grad_of(it, (int)n->a.index);
    for (int64_t k = 0; k < in(it, n, 0)->size; k++)
        grad[whole_element(n, whole, k)] += in(it, n, 0)->f[k];
}

// ---- projected rows -------------------------------------------------------------------

typedef struct Weight {
    int param;
    int64_t depth, width; // K, D
    int64_t columns;      // positions of axis 0 with a weight each, or 1
    bool tb;
} Weight;

static Weight
weight_of(const Node *w, bool tb)
{
    Shape s = w->shape;
    int64_t rows = s.dim[s.rank - 2], cols = s.dim[s.rank - 1];
    return (Weight){(int)w->a.index, tb ? cols : rows, tb ? rows : cols,
                    s.rank == 3 ? s.dim[0] : 1, tb};
}

// Element (k, c) of the weight of a column.
static int64_t
weight_element(const Weight *w, int64_t column, int64_t k, int64_t c)
{
    int64_t at = w->tb ? c * w->depth + k : k * w->width + c;
    return column * w->depth * w->width + at;
}

static void
add_rows(Interp *it, const Node *n, const Weight *w, int table)
{
    const Node *e = n->in[1 + 2 * table];
    const Tensor *ids = in(it, n, 2 + 2 * table), *y = out(it, n);
    int64_t wide = e->shape.dim[1], each = w->columns ? ids->size / w->columns : 0;
    for (int64_t r = 0; r < ids->size; r++) {
        int64_t row = clamp_index(ids->i[r], e->shape.dim[0]);
        for (int64_t k = 0; k < wide; k++) {
            double x = param_element(it, (int)e->a.index, row * wide + k);
            for (int64_t c = 0; c < w->width; c++)
                y->f[r * w->width + c] +=
                    x *
                    param_element(it, w->param,
                                  weight_element(w, r / each, n->a.list[table] + k, c));
        }
    }
}

void
eval_projected(Interp *it, const Node *n)
{
    Weight w = weight_of(n->in[0], n->a.tb);
    Tensor *y = out(it, n);
    for (int64_t k = 0; n->n_in % 2 == 0 && k < y->size; k++)
        y->f[k] = in(it, n, n->n_in - 1)->f[k];
    for (int k = 0; k < n->a.n_list; k++)
        add_rows(it, n, &w, k);
}

void
eval_acc_projected(Interp *it, const Node *n)
{
    const Node *e = n->in[2];
    const Param *table = &it->g->params[n->a.index];
    Weight w = weight_of(n->in[3], n->a.tb);
    const Tensor *dy = in(it, n, 0), *ids = in(it, n, 1);
    double *de = grad_of(it, (int)n->a.index), *dw = grad_of(it, w.param);
    int64_t wide = e->shape.dim[1], each = w.columns ? ids->size / w.columns : 0;
    for (int64_t r = 0; r < ids->size; r++) {
        int64_t row = clamp_index(ids->i[r], e->shape.dim[0]);
        if (row == 0 && table->padding)
            continue; // reads as zero, and gets none
        for (int64_t k = 0; k < wide; k++) {
            double x = param_element(it, (int)n->a.index, row * wide + k);
            for (int64_t c = 0; c < w.width; c++) {
                int64_t at = weight_element(&w, r / each, n->a.start + k, c);
                double d = dy->f[r * w.width + c];
                de[row * wide + k] += d * param_element(it, w.param, at);
                dw[at] += d * x;
            }
        }
    }
}

// interp_table.c - leaves, lookups and sinks.

#include "interp_eval.h"

#include <string.h>

// ---- leaves -------------------------------------------------------------------------

void
eval_input(Interp *it, const Node *n)
{
    const Tensor *t = &it->input[n->a.index];
    if (t->size)
        memcpy(out(it, n)->u, t->u, (size_t)t->size * sizeof *t->u);
}

double
param_element(const Interp *it, int param, int64_t element)
{
    const Param *p = &it->g->params[param];
    const ParamValue *v = &it->param[param];
    if (!v->f32 && !v->f64)
        die("parameter '%s' has no values", p->name);
    if (p->padding && p->shape.rank && element < shape_size(p->shape) / p->shape.dim[0])
        return 0;
    double x = v->f32 ? (double)v->f32[element] : v->f64[element];
    return it->nudged == param && it->nudged_element == element ? x + it->nudge : x;
}

void
eval_param(Interp *it, const Node *n)
{
    Tensor *y = out(it, n);
    for (int64_t k = 0; k < y->size; k++)
        y->f[k] = param_element(it, (int)n->a.index, k);
}

void
eval_const(Interp *it, const Node *n)
{
    const Const *c = n->a.data;
    Tensor *y = out(it, n);
    for (int64_t k = 0; k < y->size; k++) {
        int64_t at = c->n == 1 ? 0 : k;
        if (c->f)
            y->f[k] = it->exact ? c->f[at] : (double)(float)c->f[at];
        else
            y->i[k] = c->i[at];
    }
}

void
eval_dlogits(Interp *it, const Node *n)
{
    Tensor *y = out(it, n);
    for (int64_t k = 0; k < y->size; k++)
        y->f[k] = it->dlogits.f[k];
}

// ---- lookups ------------------------------------------------------------------------

static void
add_row(const Interp *it, const Node *table, int64_t row, double *y)
{
    int64_t width = table->shape.dim[1];
    for (int64_t c = 0; c < width; c++)
        y[c] += param_element(it, (int)table->a.index, row * width + c);
}

void
eval_embed(Interp *it, const Node *n)
{
    const Node *table = n->in[0];
    const Tensor *ids = in(it, n, 1);
    int64_t width = table->shape.dim[1];
    for (int64_t k = 0; k < ids->size; k++)
        add_row(it, table, clamp_index(ids->i[k], table->shape.dim[0]),
                out(it, n)->f + k * width);
}

// Ids other than 0 among a bag's, after clamping.
static int64_t
bag_count(const int64_t *ids, int64_t n, int64_t rows)
{
    int64_t count = 0;
    for (int64_t k = 0; k < n; k++)
        count += clamp_index(ids[k], rows) != 0;
    return count;
}

void
eval_bag_mean(Interp *it, const Node *n)
{
    const Node *table = n->in[0];
    Shape s = n->in[1]->shape;
    int64_t bag = s.dim[s.rank - 1], width = table->shape.dim[1],
            rows = table->shape.dim[0];
    for (int64_t b = 0; b * width < out(it, n)->size; b++) {
        const int64_t *ids = in(it, n, 1)->i + b * bag;
        double *y = out(it, n)->f + b * width;
        int64_t count = bag_count(ids, bag, rows);
        for (int64_t k = 0; k < bag; k++)
            if (clamp_index(ids[k], rows) != 0)
                add_row(it, table, clamp_index(ids[k], rows), y);
        for (int64_t c = 0; count && c < width; c++)
            y[c] /= (double)count;
    }
}

// ---- sinks --------------------------------------------------------------------------

void
eval_acc(Interp *it, const Node *n)
{
    const Param *p = &it->g->params[n->a.index];
    const Tensor *x = in(it, n, 0);
    int64_t row =
        p->shape.rank && p->shape.dim[0] ? shape_size(p->shape) / p->shape.dim[0] : 1;
    double *grad = grad_of(it, (int)n->a.index) + n->a.start * row;
    int64_t skip = p->padding && n->a.start == 0 ? row : 0; // the padding row gets none
    for (int64_t k = skip; k < x->size; k++)
        grad[k] += x->f[k];
}

static void
add_to_row(Interp *it, const Node *n, int64_t row, const double *x, double count)
{
    const Param *p = &it->g->params[n->a.index];
    int64_t width = p->shape.dim[1];
    if (row == 0 && p->padding)
        return;
    double *grad = grad_of(it, (int)n->a.index) + row * width;
    for (int64_t c = 0; c < width; c++)
        grad[c] += x[c] / count;
}

void
eval_acc_rows(Interp *it, const Node *n)
{
    Shape table = it->g->params[n->a.index].shape;
    const Tensor *ids = in(it, n, 1);
    for (int64_t k = 0; k < ids->size; k++)
        add_to_row(it, n, clamp_index(ids->i[k], table.dim[0]),
                   in(it, n, 0)->f + k * table.dim[1], 1);
}

void
eval_acc_bag(Interp *it, const Node *n)
{
    Shape table = it->g->params[n->a.index].shape, s = n->in[1]->shape;
    int64_t bag = s.dim[s.rank - 1], width = table.dim[1];
    for (int64_t b = 0; b * width < in(it, n, 0)->size; b++) {
        const int64_t *ids = in(it, n, 1)->i + b * bag;
        double count = (double)bag_count(ids, bag, table.dim[0]);
        for (int64_t k = 0; k < bag; k++) {
            int64_t row = clamp_index(ids[k], table.dim[0]);
            if (row != 0)
                add_to_row(it, n, row, in(it, n, 0)->f + b * width, count);
        }
    }
}

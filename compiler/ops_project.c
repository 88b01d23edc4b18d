// ops_project.c - linear layers on looked-up rows, for projected tables (project.c):
// their shapes, gradients and costs.
//
// W below is a weight as a parameter holds it: [K, D], or [D, K] with tb; or C of them,
// one a column, where axis 0 of the ids counts columns. e_k are the widths of the tables.

#include "ops.h"

#include <string.h>

// ---- part of a parameter ------------------------------------------------------------

// The parameter with one axis cut down to ranges: list holds start and count of each.
static bool
taken_shape(Graph *g, const Node *n, Shape s, Shape *out)
{
    int64_t total = 0, axis = n->a.axis;
    bool ok = axis >= 0 && axis < s.rank && n->a.n_list > 0 && n->a.n_list % 2 == 0;
    for (int k = 0; ok && k < n->a.n_list; k += 2) {
        int64_t start = n->a.list[k], count = n->a.list[k + 1];
        ok = start >= 0 && count > 0 && start + count <= s.dim[axis];
        total += count;
    }
    if (!ok)
        return op_error(g, n, "has ranges outside of %s", shape_text(g->mem, DT_F32, s));
    *out = s;
    out->dim[axis] = total;
    return true;
}

bool
infer_take(Graph *g, Node *n)
{
    if (n->in[0]->op != OP_PARAM)
        return op_error(g, n, "needs a parameter, found a computed %s", in_text(g, n, 0));
    n->type = DT_F32;
    return taken_shape(g, n, n->in[0]->shape, &n->shape);
}

void
grad_take(Grad *gr, Node *n, Node *dy)
{
    grad_sink(gr, n, 0, OP_ACC_TAKE, &dy, 1,
              (Attr){.index = n->in[0]->a.index,
                     .axis = n->a.axis,
                     .list = n->a.list,
                     .n_list = n->a.n_list});
}

bool
infer_acc_take(Graph *g, Node *n)
{
    if (n->a.index < 0 || n->a.index >= g->n_params)
        die("sink of parameter %lld of %d", (long long)n->a.index, g->n_params);
    const Param *p = &g->params[n->a.index];
    n->type = DT_F32;
    if (!need_type(g, n, 0, DT_F32) || !taken_shape(g, n, p->shape, &n->shape))
        return false;
    if (shape_equal(n->shape, n->in[0]->shape))
        return true;
    return op_error(g, n, "cannot add %s to part of the gradient of '%s' %s",
                    in_text(g, n, 0), p->name, shape_text(g->mem, DT_F32, p->shape));
}

// ---- sums of projected rows -----------------------------------------------------------

static int64_t
weight_depth(const Node *w, bool tb)
{
    return w->shape.dim[w->shape.rank - (tb ? 1 : 2)];
}

static int64_t
weight_width(const Node *w, bool tb)
{
    return w->shape.dim[w->shape.rank - (tb ? 2 : 1)];
}

static bool
need_weight(Graph *g, const Node *n, int k)
{
    const Node *w = n->in[k];
    if (w->op == OP_PARAM && (w->shape.rank == 2 || w->shape.rank == 3))
        return true;
    return op_error(g, n, "needs a parameter of rank 2 or 3 as weight, found %s%s",
                    w->op == OP_PARAM ? "" : "a computed ", in_text(g, n, k));
}

// Operands: a weight's rows start .. start + width meet a table's row, looked up by ids.
static bool
need_table(Graph *g, const Node *n, const Node *w, int table, int ids, int64_t start)
{
    const Node *t = n->in[table];
    Shape s = n->in[ids]->shape;
    if (t->op != OP_PARAM || t->shape.rank != 2 || t->shape.dim[0] == 0)
        return op_error(g, n, "needs a parameter of rank 2 with rows as table, found %s",
                        in_text(g, n, table));
    if (!need_type(g, n, ids, DT_I64))
        return false;
    if (start < 0 || start + t->shape.dim[1] > weight_depth(w, n->a.tb))
        return op_error(g, n, "has a table %s outside of the weight",
                        in_text(g, n, table));
    if (s.rank == MAX_RANK ||
        (w->shape.rank == 3 && (s.rank == 0 || s.dim[0] != w->shape.dim[0])))
        return op_error(g, n, "needs ids of each column, found %s", in_text(g, n, ids));
    return true;
}

bool
infer_projected(Graph *g, Node *n)
{
    int tables = (n->n_in - 1) / 2;
    const Node *w = n->in[0];
    if (!need_weight(g, n, 0))
        return false;
    if (n->a.n_list != tables)
        die("%d tables at %d places of a weight", tables, n->a.n_list);
    for (int k = 0; k < tables; k++) {
        if (!need_table(g, n, w, 1 + 2 * k, 2 + 2 * k, n->a.list[k]))
            return false;
        if (!shape_equal(n->in[2 + 2 * k]->shape, n->in[2]->shape))
            return op_error(g, n, "needs ids of one shape, found %s and %s",
                            in_text(g, n, 2), in_text(g, n, 2 + 2 * k));
    }
    n->type = DT_F32;
    n->shape = n->in[2]->shape;
    n->shape.dim[n->shape.rank++] = weight_width(w, n->a.tb);
    if (!need_shape(g, n, n->shape))
        return false;
    int last = n->n_in - 1;
    if (n->n_in % 2 == 0 &&
        (!need_type(g, n, last, DT_F32) || !shape_equal(n->in[last]->shape, n->shape)))
        return op_error(g, n, "needs %s to add to, found %s",
                        shape_text(g->mem, DT_F32, n->shape), in_text(g, n, last));
    return true;
}

// One addition a table and element; what is done once a step is counted apart.
double
flops_projected(const Node *n)
{
    return (double)shape_size(n->shape) * (double)((n->n_in - 1) / 2);
}

void
grad_projected(Grad *gr, Node *n, Node *dy)
{
    for (int k = 0; k < n->a.n_list; k++) {
        Node *table = n->in[1 + 2 * k], *in[] = {dy, n->in[2 + 2 * k], table, n->in[0]};
        if (grad_wants(gr, n, 1 + 2 * k))
            grad_sink(
                gr, n, 1 + 2 * k, OP_ACC_PROJECTED, in, 4,
                (Attr){.index = table->a.index, .start = n->a.list[k], .tb = n->a.tb});
    }
    if (n->n_in % 2 == 0)
        grad_add(gr, n, n->n_in - 1, dy);
}

bool
infer_acc_projected(Graph *g, Node *n)
{
    Shape s = n->in[0]->shape, ids = n->in[1]->shape;
    if (!need_type(g, n, 0, DT_F32) || !need_weight(g, n, 3) ||
        !need_table(g, n, n->in[3], 2, 1, n->a.start))
        return false;
    bool ok = s.rank == ids.rank + 1 && row_width(s) == weight_width(n->in[3], n->a.tb);
    for (int k = 0; ok && k < ids.rank; k++)
        ok = s.dim[k] == ids.dim[k];
    if (!ok)
        return op_error(g, n, "cannot add %s to projected rows of %s", in_text(g, n, 0),
                        in_text(g, n, 2));
    n->type = DT_F32;
    n->shape = s;
    return true;
}

double
flops_acc_projected(const Node *n)
{
    return (double)shape_size(n->shape);
}

// ops_table.c - lookups in tables, and the sinks that add to parameters' gradients.

#include "ops.h"

// Operand k is a parameter of rank 2.
static bool
need_table(Graph *g, const Node *n)
{
    if (n->in[0]->op == OP_PARAM && n->in[0]->shape.rank == 2)
        return true;
    return op_error(g, n, "needs a parameter of rank 2 as table, found %s%s",
                    n->in[0]->op == OP_PARAM ? "" : "a computed ", in_text(g, n, 0));
}

// Result: the first `lead` axes of ids, then the table's width.
static bool
lookup(Graph *g, Node *n, int drop)
{
    if (!need_table(g, n) || !need_type(g, n, 1, DT_I64))
        return false;
    Shape table = n->in[0]->shape, s = n->in[1]->shape;
    if (s.rank < drop)
        return op_error(g, n, "needs ids with an axis to average over, found %s",
                        in_text(g, n, 1));
    if (table.dim[0] == 0 && shape_size(s) > 0)
        return op_error(g, n, "reads an empty table %s", in_text(g, n, 0));
    s.rank -= drop;
    if (s.rank == MAX_RANK)
        return op_error(g, n, "needs ids of lower rank, found %s", in_text(g, n, 1));
    s.dim[s.rank++] = table.dim[1];
    n->type = DT_F32;
    n->shape = s;
    for (int k = s.rank; k < MAX_RANK; k++)
        n->shape.dim[k] = 0;
    return need_shape(g, n, n->shape);
}

bool
infer_embed(Graph *g, Node *n)
{
    return lookup(g, n, 0);
}

bool
infer_bag_mean(Graph *g, Node *n)
{
    return lookup(g, n, 1);
}

// One addition an id and lane, one division a lane.
double
flops_bag_mean(const Node *n)
{
    double ids = (double)shape_size(n->in[1]->shape);
    return ids * (double)row_width(n->shape) + (double)shape_size(n->shape);
}

void
grad_embed(Grad *gr, Node *n, Node *dy)
{
    if (grad_wants(gr, n, 0))
        grad_table(gr, n, 0, OP_ACC_ROWS, dy, n->in[1]);
}

void
grad_bag_mean(Grad *gr, Node *n, Node *dy)
{
    if (grad_wants(gr, n, 0))
        grad_table(gr, n, 0, OP_ACC_BAG, dy, n->in[1]);
}

// ---- sinks --------------------------------------------------------------------------

static const Param *
sink_param(Graph *g, const Node *n)
{
    if (n->a.index < 0 || n->a.index >= g->n_params)
        die("sink of parameter %lld of %d", (long long)n->a.index, g->n_params);
    return &g->params[n->a.index];
}

static bool
misfit(Graph *g, const Node *n, const Param *p)
{
    return op_error(g, n, "cannot add %s to the gradient of '%s' %s", in_text(g, n, 0),
                    p->name, shape_text(g->mem, DT_F32, p->shape));
}

bool
infer_acc(Graph *g, Node *n)
{
    const Param *p = sink_param(g, n);
    Shape s = n->in[0]->shape;
    bool ok = n->in[0]->type == DT_F32 && s.rank == p->shape.rank;
    for (int k = 0; ok && k < s.rank; k++)
        ok = k ? s.dim[k] == p->shape.dim[k]
               : n->a.start >= 0 && n->a.start + s.dim[0] <= p->shape.dim[0];
    if (!ok)
        return misfit(g, n, p);
    n->type = DT_F32;
    n->shape = s;
    return true;
}

// dy [.., D] against ids with `drop` axes more than the leading ones.
static bool
acc_ids(Graph *g, Node *n, int drop)
{
    const Param *p = sink_param(g, n);
    Shape s = n->in[0]->shape, ids = n->in[1]->shape;
    bool ok = n->in[0]->type == DT_F32 && p->shape.rank == 2 && s.rank >= 1 &&
              ids.rank == s.rank - 1 + drop && row_width(s) == p->shape.dim[1];
    for (int k = 0; ok && k < s.rank - 1; k++)
        ok = s.dim[k] == ids.dim[k];
    if (!ok || !need_type(g, n, 1, DT_I64))
        return misfit(g, n, p);
    n->type = DT_F32;
    n->shape = s;
    return true;
}

bool
infer_acc_rows(Graph *g, Node *n)
{
    return acc_ids(g, n, 0);
}

bool
infer_acc_bag(Graph *g, Node *n)
{
    return acc_ids(g, n, 1);
}

// One division a lane, one addition an id and lane.
double
flops_acc_bag(const Node *n)
{
    double ids = (double)shape_size(n->in[1]->shape);
    return ids * (double)row_width(n->shape) + (double)shape_size(n->shape);
}

// ops_order.c - sorting, bucketing, the last of equal events.

#include "ops.h"

bool
infer_argsort(Graph *g, Node *n)
{
    if (!is_number(n->in[0]))
        return op_error(g, n, "needs f32 or i64, found %s", in_text(g, n, 0));
    n->type = DT_I64;
    n->shape = n->in[0]->shape;
    return need_rank(g, n, 0, 1);
}

bool
infer_bucketize(Graph *g, Node *n)
{
    const Const *c = n->a.data;
    if (!is_number(n->in[0]))
        return op_error(g, n, "needs f32 or i64, found %s", in_text(g, n, 0));
    if (!c || (c->f != NULL) != (n->in[0]->type == DT_F32))
        return op_error(g, n, "needs bounds of the type of %s", in_text(g, n, 0));
    for (int64_t k = 1; k < c->n; k++)
        if (c->f ? !(c->f[k - 1] <= c->f[k]) : c->i[k - 1] > c->i[k])
            return op_error(g, n,
                            "needs ascending bounds, bound %lld is smaller than the one "
                            "before it",
                            (long long)k);
    n->type = DT_I64;
    n->shape = n->in[0]->shape;
    return true;
}

bool
infer_unique_last(Graph *g, Node *n)
{
    if (!need_type(g, n, 0, DT_I64) || !need_rank(g, n, 0, 2) ||
        !need_type(g, n, 1, DT_BOOL))
        return false;
    Shape active = n->in[1]->shape;
    if (active.rank != 1 || active.dim[0] != n->in[0]->shape.dim[1])
        return op_error(g, n, "needs i64[F, L] and bool[L], found %s and %s",
                        in_text(g, n, 0), in_text(g, n, 1));
    n->type = DT_BOOL;
    n->shape = active;
    return true;
}

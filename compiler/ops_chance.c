// ops_chance.c - dropout and random booleans.

#include "ops.h"

static bool
need_chance(Graph *g, const Node *n, Shape s, int rows)
{
    if (!(n->a.p >= 0 && n->a.p <= 1))
        return op_error(g, n, "needs a probability from 0 to 1, found %g", n->a.p);
    if (n->n_in <= rows)
        return true;
    if (!need_type(g, n, rows, DT_I64))
        return false;
    Shape r = n->in[rows]->shape;
    if (r.rank == 1 && s.rank >= 1 && r.dim[0] == s.dim[0])
        return true;
    return op_error(g, n, "needs a row number for each row of %s, found %s",
                    shape_text(g->mem, n->type, s), in_text(g, n, rows));
}

bool
infer_dropout(Graph *g, Node *n)
{
    if (!need_type(g, n, 0, DT_F32))
        return false;
    n->type = DT_F32;
    n->shape = n->in[0]->shape;
    return need_chance(g, n, n->shape, 1);
}

// The same mask on the adjoint.
void
grad_dropout(Grad *gr, Node *n, Node *dy)
{
    Node *in[] = {dy, n->n_in > 1 ? n->in[1] : NULL};
    grad_add(gr, n, 0,
             graph_add(grad_graph(gr), OP_DROPOUT, in, n->n_in, n->a, n->place));
}

bool
infer_chance(Graph *g, Node *n)
{
    n->type = DT_BOOL;
    n->shape = n->a.shape;
    return need_shape(g, n, n->shape) && need_chance(g, n, n->shape, 0);
}

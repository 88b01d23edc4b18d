// ops_shape.c - operations that move values: reshape, permute, expand, slice, pad,
// concat, gather.

#include "ops.h"

bool
infer_reshape(Graph *g, Node *n)
{
    n->type = n->in[0]->type;
    n->shape = n->a.shape;
    if (!need_shape(g, n, n->shape))
        return false;
    if (shape_size(n->shape) == shape_size(n->in[0]->shape))
        return true;
    return op_error(g, n, "needs equally many elements, found %s for %s",
                    in_text(g, n, 0), shape_text(g->mem, n->type, n->shape));
}

void
grad_reshape(Grad *gr, Node *n, Node *dy)
{
    grad_add(gr, n, 0, graph_reshape(grad_graph(gr), dy, n->in[0]->shape, n->place));
}

bool
infer_permute(Graph *g, Node *n)
{
    Shape s = n->in[0]->shape;
    int seen = 0;
    for (int k = 0; k < n->a.n_list; k++)
        if (n->a.list[k] >= 0 && n->a.list[k] < s.rank)
            seen |= 1 << n->a.list[k];
    if (n->a.n_list != s.rank || seen != (1 << s.rank) - 1)
        return op_error(g, n, "needs each of the %d axes of %s once", s.rank,
                        in_text(g, n, 0));
    n->type = n->in[0]->type;
    n->shape.rank = s.rank;
    for (int k = 0; k < s.rank; k++)
        n->shape.dim[k] = s.dim[n->a.list[k]];
    return true;
}

void
grad_permute(Grad *gr, Node *n, Node *dy)
{
    int64_t back[MAX_RANK] = {0};
    for (int k = 0; k < n->a.n_list; k++)
        back[n->a.list[k]] = k;
    grad_add(gr, n, 0, graph_permute(grad_graph(gr), dy, back, n->place));
}

bool
infer_expand(Graph *g, Node *n)
{
    Shape s;
    n->type = n->in[0]->type;
    n->shape = n->a.shape;
    if (!need_shape(g, n, n->shape))
        return false;
    if (shape_broadcast(n->in[0]->shape, n->shape, &s) && shape_equal(s, n->shape))
        return true;
    return op_error(g, n, "cannot broadcast %s to %s", in_text(g, n, 0),
                    shape_text(g->mem, n->type, n->shape));
}

// grad_add sums down.
void
grad_expand(Grad *gr, Node *n, Node *dy)
{
    grad_add(gr, n, 0, dy);
}

bool
infer_slice(Graph *g, Node *n)
{
    if (!need_axis(g, n, n->in[0]->shape.rank))
        return false;
    n->type = n->in[0]->type;
    n->shape = n->in[0]->shape;
    int64_t *dim = &n->shape.dim[n->a.axis];
    if (n->a.start < 0 || n->a.count < 0 || n->a.start > *dim - n->a.count)
        return op_error(g, n, "[%lld:%lld] lies outside axis %lld of %s",
                        (long long)n->a.start, (long long)(n->a.start + n->a.count),
                        (long long)n->a.axis, in_text(g, n, 0));
    *dim = n->a.count;
    return true;
}

void
grad_slice(Grad *gr, Node *n, Node *dy)
{
    int axis = (int)n->a.axis;
    grad_add(gr, n, 0,
             graph_pad(grad_graph(gr), dy, axis, n->a.start, n->in[0]->shape.dim[axis],
                       n->place));
}

bool
infer_pad(Graph *g, Node *n)
{
    if (!need_axis(g, n, n->in[0]->shape.rank))
        return false;
    n->type = n->in[0]->type;
    n->shape = n->in[0]->shape;
    int64_t *dim = &n->shape.dim[n->a.axis];
    if (n->a.start < 0 || n->a.start > n->a.count - *dim)
        return op_error(g, n, "cannot put %s at %lld of an axis of %lld",
                        in_text(g, n, 0), (long long)n->a.start, (long long)n->a.count);
    *dim = n->a.count;
    return need_shape(g, n, n->shape);
}

void
grad_pad(Grad *gr, Node *n, Node *dy)
{
    int axis = (int)n->a.axis;
    grad_add(gr, n, 0,
             graph_slice(grad_graph(gr), dy, axis, n->a.start, n->in[0]->shape.dim[axis],
                         n->place));
}

bool
infer_concat(Graph *g, Node *n)
{
    Shape s = n->in[0]->shape;
    int axis = (int)n->a.axis;
    if (!need_axis(g, n, s.rank))
        return false;
    for (int k = 1; k < n->n_in; k++) {
        Shape t = n->in[k]->shape;
        bool ok = n->in[k]->type == n->in[0]->type && t.rank == s.rank;
        for (int d = 0; ok && d < s.rank; d++)
            ok = d == axis || t.dim[d] == s.dim[d];
        if (!ok)
            return op_error(g, n,
                            "along axis %d needs equal types and other extents, found %s "
                            "and %s",
                            axis, in_text(g, n, 0), in_text(g, n, k));
        s.dim[axis] += t.dim[axis];
    }
    n->type = n->in[0]->type;
    n->shape = s;
    return need_shape(g, n, s);
}

void
grad_concat(Grad *gr, Node *n, Node *dy)
{
    int64_t at = 0;
    for (int k = 0; k < n->n_in; k++) {
        int64_t count = n->in[k]->shape.dim[n->a.axis];
        if (grad_wants(gr, n, k))
            grad_add(
                gr, n, k,
                graph_slice(grad_graph(gr), dy, (int)n->a.axis, at, count, n->place));
        at += count;
    }
}

// s with its axis replaced by the shape of ids (rank 0: dropped).
static bool
replace_axis(Graph *g, Node *n, Shape s)
{
    if (!need_axis(g, n, s.rank) || !need_type(g, n, 1, DT_I64))
        return false;
    Shape ids = n->in[1]->shape;
    if (ids.rank > 1)
        return op_error(g, n, "needs indices of rank 0 or 1, found %s", in_text(g, n, 1));
    if (s.dim[n->a.axis] == 0 && shape_size(ids) > 0)
        return op_error(g, n, "gathers from an empty axis of %s", in_text(g, n, 0));
    n->shape = (Shape){0};
    for (int k = 0; k < s.rank; k++)
        if (k != n->a.axis)
            n->shape.dim[n->shape.rank++] = s.dim[k];
        else if (ids.rank)
            n->shape.dim[n->shape.rank++] = ids.dim[0];
    return need_shape(g, n, n->shape);
}

bool
infer_gather(Graph *g, Node *n)
{
    n->type = n->in[0]->type;
    return replace_axis(g, n, n->in[0]->shape);
}

void
grad_gather(Grad *gr, Node *n, Node *dy)
{
    Node *in[] = {dy, n->in[1]};
    Attr a = {.axis = n->a.axis, .count = n->in[0]->shape.dim[n->a.axis]};
    grad_add(gr, n, 0, graph_add(grad_graph(gr), OP_SCATTER_ADD, in, 2, a, n->place));
}

bool
infer_scatter_add(Graph *g, Node *n)
{
    Shape dy = n->in[0]->shape;
    if (!need_type(g, n, 0, DT_F32) || !need_type(g, n, 1, DT_I64))
        return false;
    Shape ids = n->in[1]->shape;
    bool ok = ids.rank <= 1 && n->a.axis >= 0 && n->a.axis < dy.rank + 1 - ids.rank &&
              n->a.count >= 0;
    if (ok && ids.rank)
        ok = dy.dim[n->a.axis] == ids.dim[0];
    if (!ok)
        return op_error(g, n, "cannot spread %s over axis %lld by %s", in_text(g, n, 0),
                        (long long)n->a.axis, in_text(g, n, 1));
    int at = (int)n->a.axis;
    n->type = DT_F32;
    n->shape = dy;
    if (!ids.rank) {
        for (int k = dy.rank; k > at && k < MAX_RANK; k--)
            n->shape.dim[k] = dy.dim[k - 1];
        n->shape.rank++;
    }
    if (n->shape.rank <= MAX_RANK)
        n->shape.dim[at] = n->a.count;
    return need_shape(g, n, n->shape);
}

void
grad_scatter_add(Grad *gr, Node *n, Node *dy)
{
    grad_add(gr, n, 0,
             graph_gather(grad_graph(gr), dy, n->in[1], (int)n->a.axis, n->place));
}

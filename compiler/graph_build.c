// graph_build.c - shorthands that add one node.

#include "graph.h"

Node *
graph_unary(Graph *g, Op op, Node *x, Place place)
{
    return graph_add(g, op, &x, 1, (Attr){0}, place);
}

Node *
graph_binary(Graph *g, Op op, Node *a, Node *b, Place place)
{
    Node *in[] = {a, b};
    return graph_add(g, op, in, 2, (Attr){0}, place);
}

Node *
graph_select(Graph *g, Node *c, Node *a, Node *b, Place place)
{
    Node *in[] = {c, a, b};
    return graph_add(g, OP_SELECT, in, 3, (Attr){0}, place);
}

Node *
graph_scalar(Graph *g, double v, Place place)
{
    return graph_const_f(g, (Shape){0}, &v, 1, place);
}

Node *
graph_integer(Graph *g, int64_t v, Place place)
{
    return graph_const_i(g, DT_I64, (Shape){0}, &v, 1, place);
}

Node *
graph_iota(Graph *g, int64_t n, Place place)
{
    int64_t *v = arena_array(&g->mem->perm, int64_t, n);
    for (int64_t k = 0; k < n; k++)
        v[k] = k;
    return graph_const_i(g, DT_I64, shape_of(1, &n), v, n, place);
}

Node *
graph_reshape(Graph *g, Node *x, Shape shape, Place place)
{
    if (!x || shape_equal(x->shape, shape))
        return x;
    return graph_add(g, OP_RESHAPE, &x, 1, (Attr){.shape = shape}, place);
}

Node *
graph_expand(Graph *g, Node *x, Shape shape, Place place)
{
    if (!x || shape_equal(x->shape, shape))
        return x;
    return graph_add(g, OP_EXPAND, &x, 1, (Attr){.shape = shape}, place);
}

Node *
graph_permute(Graph *g, Node *x, const int64_t *axes, Place place)
{
    bool moves = false;
    for (int k = 0; x && k < x->shape.rank; k++)
        moves = moves || axes[k] != k;
    if (!moves)
        return x;
    return graph_add(g, OP_PERMUTE, &x, 1, (Attr){.list = axes, .n_list = x->shape.rank},
                     place);
}

Node *
graph_slice(Graph *g, Node *x, int axis, int64_t start, int64_t count, Place place)
{
    if (!x ||
        (axis >= 0 && axis < x->shape.rank && start == 0 && count == x->shape.dim[axis]))
        return x;
    return graph_add(g, OP_SLICE, &x, 1,
                     (Attr){.axis = axis, .start = start, .count = count}, place);
}

Node *
graph_pad(Graph *g, Node *x, int axis, int64_t start, int64_t count, Place place)
{
    if (!x ||
        (axis >= 0 && axis < x->shape.rank && start == 0 && count == x->shape.dim[axis]))
        return x;
    return graph_add(g, OP_PAD, &x, 1,
                     (Attr){.axis = axis, .start = start, .count = count}, place);
}

Node *
graph_concat(Graph *g, Node *const *parts, int n, int axis, Place place)
{
    if (n == 1)
        return parts[0];
    return graph_add(g, OP_CONCAT, parts, n, (Attr){.axis = axis}, place);
}

Node *
graph_gather(Graph *g, Node *x, Node *ids, int axis, Place place)
{
    Node *in[] = {x, ids};
    return graph_add(g, OP_GATHER, in, 2, (Attr){.axis = axis}, place);
}

Node *
graph_reduce(Graph *g, Op op, Node *x, const int64_t *axes, int n_axes, bool keep,
             Place place)
{
    static const int64_t all[MAX_RANK] = {0, 1, 2, 3, 4};
    if (!x)
        return NULL;
    if (n_axes < 0) {
        axes = all;
        n_axes = x->shape.rank;
    }
    return graph_add(g, op, &x, 1, (Attr){.list = axes, .n_list = n_axes, .keep = keep},
                     place);
}

Node *
graph_matmul(Graph *g, Node *a, Node *b, bool ta, bool tb, Place place)
{
    Node *in[] = {a, b};
    return graph_add(g, OP_MATMUL, in, 2, (Attr){.ta = ta, .tb = tb}, place);
}

// ops_reduce.c - reductions over listed axes.

#include "ops.h"

static bool
reduced(const Node *n, int axis)
{
    for (int k = 0; k < n->a.n_list; k++)
        if (n->a.list[k] == axis)
            return true;
    return false;
}

// The operand's shape with the listed axes as 1.
static Shape
kept_shape(const Node *n)
{
    Shape s = n->in[0]->shape;
    for (int k = 0; k < n->a.n_list; k++)
        s.dim[n->a.list[k]] = 1;
    return s;
}

static bool
reduce(Graph *g, Node *n, DType type)
{
    Shape s = n->in[0]->shape;
    for (int k = 0; k < n->a.n_list; k++)
        if (n->a.list[k] < 0 || n->a.list[k] >= s.rank ||
            (k && n->a.list[k] <= n->a.list[k - 1]))
            return op_error(g, n, "needs ascending axes of %s", in_text(g, n, 0));
    n->type = type;
    if (n->a.keep) {
        n->shape = kept_shape(n);
        return true;
    }
    n->shape = (Shape){0};
    for (int k = 0; k < s.rank; k++)
        if (!reduced(n, k))
            n->shape.dim[n->shape.rank++] = s.dim[k];
    return true;
}

bool
infer_reduce_number(Graph *g, Node *n)
{
    if (!is_number(n->in[0]))
        return op_error(g, n, "needs f32 or i64, found %s", in_text(g, n, 0));
    return reduce(g, n, n->in[0]->type);
}

bool
infer_reduce_nonempty(Graph *g, Node *n)
{
    if (!infer_reduce_number(g, n))
        return false;
    for (int k = 0; k < n->a.n_list; k++)
        if (n->in[0]->shape.dim[n->a.list[k]] == 0)
            return op_error(g, n, "over nothing, axis %lld of %s is empty",
                            (long long)n->a.list[k], in_text(g, n, 0));
    return true;
}

bool
infer_reduce_bool(Graph *g, Node *n)
{
    return need_type(g, n, 0, DT_BOOL) && reduce(g, n, DT_BOOL);
}

bool
infer_count(Graph *g, Node *n)
{
    return need_type(g, n, 0, DT_BOOL) && reduce(g, n, DT_I64);
}

bool
infer_argmax(Graph *g, Node *n)
{
    bool ok = infer_reduce_nonempty(g, n);
    n->type = DT_I64;
    return ok;
}

void
grad_sum(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    Node *kept = graph_reshape(g, dy, kept_shape(n), n->place);
    grad_add(gr, n, 0, graph_expand(g, kept, n->in[0]->shape, n->place));
}

// Positions 0, 1, ... over the listed axes flattened, extent 1 elsewhere.
static Node *
positions(Graph *g, const Node *n)
{
    Shape s = {.rank = n->in[0]->shape.rank};
    int64_t count = 1;
    for (int k = 0; k < s.rank; k++) {
        s.dim[k] = reduced(n, k) ? n->in[0]->shape.dim[k] : 1;
        count *= s.dim[k];
    }
    return graph_reshape(g, graph_iota(g, count, n->place), s, n->place);
}

// The adjoint goes to the first place where key is largest.
static void
to_first(Grad *gr, Node *n, Node *key, Node *dy)
{
    Graph *g = grad_graph(gr);
    Node *at = graph_reduce(g, OP_ARGMAX, key, n->a.list, n->a.n_list, true, n->place);
    Node *here = graph_binary(g, OP_EQ, at, positions(g, n), n->place);
    Node *kept = graph_reshape(g, dy, kept_shape(n), n->place);
    grad_add(gr, n, 0,
             graph_select(g, here, kept, graph_scalar(g, 0, n->place), n->place));
}

void
grad_max(Grad *gr, Node *n, Node *dy)
{
    to_first(gr, n, n->in[0], dy);
}

void
grad_min(Grad *gr, Node *n, Node *dy)
{
    to_first(gr, n, graph_unary(grad_graph(gr), OP_NEG, n->in[0], n->place), dy);
}

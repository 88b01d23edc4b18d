// ops_learn.c - matrix products, softmax, normalisation, rotary positions.

#include "ops.h"

// ---- products -----------------------------------------------------------------------

static int64_t
from_end(Shape s, int k)
{
    return s.dim[s.rank - k];
}

bool
infer_matmul(Graph *g, Node *n)
{
    if (n->in[0]->type != DT_F32 || n->in[1]->type != DT_F32)
        return op_error(g, n, "needs f32, found %s and %s", in_text(g, n, 0),
                        in_text(g, n, 1));
    n->type = DT_F32;
    Shape a = n->in[0]->shape, b = n->in[1]->shape;
    bool ok = a.rank >= 2 && b.rank >= 2 && (b.rank == 2 || b.rank == a.rank);
    for (int k = 0; ok && b.rank > 2 && k < a.rank - 2; k++)
        ok = a.dim[k] == b.dim[k];
    if (!ok)
        return op_error(g, n,
                        "needs matrices with equal leading extents, found %s and %s",
                        in_text(g, n, 0), in_text(g, n, 1));
    int64_t inner_a = from_end(a, n->a.ta ? 2 : 1),
            inner_b = from_end(b, n->a.tb ? 1 : 2);
    if (inner_a != inner_b)
        return op_error(g, n, "needs equal inner sizes, found %s%s and %s%s",
                        in_text(g, n, 0), n->a.ta ? "'" : "", in_text(g, n, 1),
                        n->a.tb ? "'" : "");
    n->shape = a;
    n->shape.dim[a.rank - 2] = from_end(a, n->a.ta ? 1 : 2);
    n->shape.dim[a.rank - 1] = from_end(b, n->a.tb ? 2 : 1);
    return need_shape(g, n, n->shape);
}

double
flops_matmul(const Node *n)
{
    Shape a = n->in[0]->shape;
    return 2.0 * (double)shape_size(n->shape) * (double)from_end(a, n->a.ta ? 2 : 1);
}

static Node *
flat_rows(Graph *g, Node *x, Place place)
{
    int64_t dim[] = {row_count(x->shape), row_width(x->shape)};
    return graph_reshape(g, x, shape_of(2, dim), place);
}

static Node *
swap_last(Graph *g, Node *x, Place place)
{
    int64_t axes[MAX_RANK];
    for (int k = 0; k < x->shape.rank; k++)
        axes[k] = k;
    axes[x->shape.rank - 1] = x->shape.rank - 2;
    axes[x->shape.rank - 2] = x->shape.rank - 1;
    return graph_permute(g, x, axes, place);
}

static void
grad_left(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    Node *b = n->in[1];
    Node *d;
    if (!n->a.ta)
        d = graph_matmul(g, dy, b, false, !n->a.tb, n->place);
    else if (b->shape.rank == dy->shape.rank)
        d = graph_matmul(g, b, dy, n->a.tb, true, n->place);
    else
        d = swap_last(g, graph_matmul(g, dy, b, false, !n->a.tb, n->place), n->place);
    grad_add(gr, n, 0, d);
}

// With one matrix b for all leading axes of a: the rows of all of them form one product,
// unless a is read transposed; then the products are summed.
static void
grad_right(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    Node *a = n->in[0];
    bool shared = n->in[1]->shape.rank == 2 && a->shape.rank > 2;
    if (shared && !n->a.ta) {
        a = flat_rows(g, a, n->place);
        dy = flat_rows(g, dy, n->place);
        shared = false;
    }
    Node *d = n->a.tb ? graph_matmul(g, dy, a, true, n->a.ta, n->place)
                      : graph_matmul(g, a, dy, !n->a.ta, false, n->place);
    if (shared) {
        int64_t axes[MAX_RANK] = {0, 1, 2, 3, 4};
        d = graph_reduce(g, OP_SUM, d, axes, a->shape.rank - 2, false, n->place);
    }
    grad_add(gr, n, 1, d);
}

void
grad_matmul(Grad *gr, Node *n, Node *dy)
{
    if (grad_wants(gr, n, 0))
        grad_left(gr, n, dy);
    if (grad_wants(gr, n, 1))
        grad_right(gr, n, dy);
}

// ---- softmax ------------------------------------------------------------------------

bool
infer_softmax(Graph *g, Node *n)
{
    Shape s;
    if (!need_type(g, n, 0, DT_F32) || !need_axis(g, n, n->in[0]->shape.rank))
        return false;
    n->type = DT_F32;
    n->shape = n->in[0]->shape;
    if (n->n_in == 1)
        return true;
    if (!need_type(g, n, 1, DT_BOOL))
        return false;
    if (!shape_broadcast(n->shape, n->in[1]->shape, &s) || !shape_equal(s, n->shape))
        return op_error(g, n, "needs a mask that broadcasts to %s, found %s",
                        in_text(g, n, 0), in_text(g, n, 1));
    return true;
}

// Largest, difference, exp, sum, quotient.
double
flops_softmax(const Node *n)
{
    return 5.0 * (double)shape_size(n->shape);
}

// dx = (dy - sum(dy y)) y
void
grad_softmax(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    Node *weighted = graph_binary(g, OP_ZMUL, dy, n, n->place);
    Node *sum = graph_reduce(g, OP_SUM, weighted, &n->a.axis, 1, true, n->place);
    Node *centred = graph_binary(g, OP_SUB, dy, sum, n->place);
    grad_add(gr, n, 0, graph_binary(g, OP_ZMUL, centred, n, n->place));
}

// ---- normalisation ------------------------------------------------------------------

bool
infer_normalize(Graph *g, Node *n)
{
    if (!need_type(g, n, 0, DT_F32))
        return false;
    if (n->in[0]->shape.rank < 1)
        return op_error(g, n, "needs at least one axis, found %s", in_text(g, n, 0));
    n->type = DT_F32;
    n->shape = n->in[0]->shape;
    return true;
}

// Mean (layer), squares and their sum, scale: each about one or two operations an
// element.
double
flops_normalize(const Node *n)
{
    double each = n->a.keep ? 5 : 3;
    return each * (n->op == OP_NORMALIZE_BACK ? 2 : 1) * (double)shape_size(n->shape);
}

bool
infer_normalize_back(Graph *g, Node *n)
{
    if (!infer_normalize(g, n) || !need_type(g, n, 1, DT_F32))
        return false;
    if (shape_equal(n->in[0]->shape, n->in[1]->shape))
        return true;
    return op_error(g, n, "needs an adjoint of the shape of x, found %s and %s",
                    in_text(g, n, 0), in_text(g, n, 1));
}

void
grad_normalize(Grad *gr, Node *n, Node *dy)
{
    Node *in[] = {n->in[0], dy};
    Attr a = {.keep = n->a.keep, .p = n->a.p};
    grad_add(gr, n, 0, graph_add(grad_graph(gr), OP_NORMALIZE_BACK, in, 2, a, n->place));
}

// ---- rotary positions ---------------------------------------------------------------

bool
infer_rope(Graph *g, Node *n)
{
    if (!need_type(g, n, 0, DT_F32) || !need_rank(g, n, 0, 2) ||
        !need_type(g, n, 1, DT_I64))
        return false;
    Shape x = n->in[0]->shape, p = n->in[1]->shape;
    if (p.rank != 1 || p.dim[0] != x.dim[0])
        return op_error(g, n, "needs a position for each row, found %s and %s",
                        in_text(g, n, 0), in_text(g, n, 1));
    if (n->a.heads < 1 || x.dim[1] % n->a.heads)
        return op_error(g, n, "cannot cut %s into %lld heads", in_text(g, n, 0),
                        (long long)n->a.heads);
    n->type = DT_F32;
    n->shape = x;
    return true;
}

// Two products and a sum an element.
double
flops_rope(const Node *n)
{
    return 3.0 * (double)shape_size(n->shape);
}

void
grad_rope(Grad *gr, Node *n, Node *dy)
{
    Node *in[] = {dy, n->in[1]};
    Attr a = n->a;
    a.inverse = !a.inverse;
    grad_add(gr, n, 0, graph_add(grad_graph(gr), OP_ROPE, in, 2, a, n->place));
}

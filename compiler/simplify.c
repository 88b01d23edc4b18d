// simplify.c - fold constants, drop moves that move nothing, merge equal nodes, drop dead ones.
//
// Merging happens by itself: graph_add returns an equal node that exists.
//
// Needs: any graph.  Leaves: the same values, at most as many nodes.

#include "passes.h"

static bool
is_const(const Node *n)
{
    return n->op == OP_CONST;
}

static Node *
reshaped(Rewrite *rw, Node *like, Node *x, Shape shape)
{
    if (shape_equal(x->shape, shape))
        return x;
    if (x->op == OP_RESHAPE)
        return reshaped(rw, like, x->in[0], shape);
    return rewrite_add(rw, like, OP_RESHAPE, &x, 1, (Attr){.shape = shape});
}

static Node *
simplify_expand(Rewrite *rw, Node *n, Node **in)
{
    if (shape_equal(in[0]->shape, n->shape))
        return in[0];
    if (in[0]->op == OP_EXPAND)
        return rewrite_add(rw, n, OP_EXPAND, &in[0]->in[0], 1, n->a);
    return NULL;
}

static Node *
simplify_permute(Node *n, Node **in)
{
    for (int k = 0; k < n->a.n_list; k++)
        if (n->a.list[k] != k)
            return NULL;
    return in[0];
}

static Node *
sliced(Rewrite *rw, Node *like, Node *x, int64_t axis, int64_t start, int64_t count)
{
    if (start == 0 && count == x->shape.dim[axis])
        return x;
    Attr a = {.axis = axis, .start = start, .count = count};
    return rewrite_add(rw, like, OP_SLICE, &x, 1, a);
}

// A slice of a slice is one slice; a slice that lies in one part of a concatenation is a slice of the part.
static Node *
simplify_slice(Rewrite *rw, Node *n, Node **in)
{
    Node *x = in[0];
    int64_t start = n->a.start;
    bool changed = false;
    for (bool more = true; more;) {
        more = false;
        if (x->op == OP_SLICE && x->a.axis == n->a.axis) {
            start += x->a.start;
            x = x->in[0];
            more = changed = true;
        } else if (x->op == OP_CONCAT && x->a.axis == n->a.axis) {
            int64_t at = 0;
            for (int k = 0; k < x->n_in && !more; k++) {
                int64_t extent = x->in[k]->shape.dim[n->a.axis];
                if (start >= at && start + n->a.count <= at + extent && n->a.count > 0) {
                    start -= at;
                    x = x->in[k];
                    more = changed = true;
                }
                at += extent;
            }
        }
    }
    if (start == 0 && n->a.count == x->shape.dim[n->a.axis])
        return x;
    return changed ? sliced(rw, n, x, n->a.axis, start, n->a.count) : NULL;
}

// Parts of extent zero go, nested concatenations along the same axis are flattened.
static Node *
simplify_concat(Rewrite *rw, Node *n, Node **in)
{
    Array(Node *) parts = {0};
    Arena *a = &rw->g->mem->scratch;
    for (int k = 0; k < n->n_in; k++) {
        if (in[k]->shape.dim[n->a.axis] == 0)
            continue;
        if (in[k]->op == OP_CONCAT && in[k]->a.axis == n->a.axis) {
            for (int j = 0; j < in[k]->n_in; j++)
                array_push(a, &parts, in[k]->in[j]);
        } else {
            array_push(a, &parts, in[k]);
        }
    }
    if (parts.n == 0)
        return in[0];
    if (parts.n == 1)
        return parts.v[0];
    return rewrite_add(rw, n, OP_CONCAT, parts.v, parts.n, n->a);
}

// A gather by consecutive constants is a slice.
static Node *
simplify_gather(Rewrite *rw, Node *n, Node **in)
{
    const Node *ids = in[1];
    if (!is_const(ids) || ids->shape.rank > 1)
        return NULL;
    int64_t count = shape_size(ids->shape), axis = n->a.axis, extent = in[0]->shape.dim[axis];
    if (count == 0)
        return NULL;
    const int64_t *v = ids->a.data->i;
    int64_t step = ids->a.data->n == 1 ? 0 : 1;
    for (int64_t k = 0; k < count; k++)
        if (v[k * step] != v[0] + k || v[0] < 0 || v[0] + k >= extent)
            return NULL;
    Node *s = sliced(rw, n, in[0], axis, v[0], count);
    return ids->shape.rank == 0 ? reshaped(rw, n, s, n->shape) : s;
}

// A condition that is the same everywhere chooses once.
static Node *
simplify_select(Rewrite *rw, Node *n, Node **in)
{
    if (!is_const(in[0]) || shape_size(in[0]->shape) == 0)
        return NULL;
    const Const *c = in[0]->a.data;
    for (int64_t k = 1; k < c->n; k++)
        if ((c->i[k] != 0) != (c->i[0] != 0))
            return NULL;
    Node *x = c->i[0] != 0 ? in[1] : in[2];
    if (shape_equal(x->shape, n->shape))
        return x;
    return rewrite_add(rw, n, OP_EXPAND, &x, 1, (Attr){.shape = n->shape});
}

// Whether a node only swaps the last two axes.
static bool
is_transpose(const Node *n)
{
    int r = n->shape.rank;
    if (n->op != OP_PERMUTE || r < 2)
        return false;
    for (int k = 0; k < r; k++) {
        int64_t want = k < r - 2 ? k : (k == r - 2 ? r - 1 : r - 2);
        if (n->a.list[k] != want)
            return false;
    }
    return true;
}

static Node *
simplify_matmul(Rewrite *rw, Node *n, Node **in)
{
    bool ta = is_transpose(in[0]), tb = is_transpose(in[1]);
    if (!ta && !tb)
        return NULL;
    Attr a = n->a;
    a.ta ^= ta;
    a.tb ^= tb;
    Node *x[2] = {ta ? in[0]->in[0] : in[0], tb ? in[1]->in[0] : in[1]};
    return rewrite_add(rw, n, OP_MATMUL, x, 2, a);
}

// A sum over axes of extent one moves nothing.
static Node *
simplify_sum(Rewrite *rw, Node *n, Node **in)
{
    for (int k = 0; k < n->a.n_list; k++)
        if (in[0]->shape.dim[n->a.list[k]] != 1)
            return NULL;
    return reshaped(rw, n, in[0], n->shape);
}

static Node *
simplify_node(Rewrite *rw, Node *n, Node **in)
{
    switch (n->op) {
    case OP_RESHAPE:
        return reshaped(rw, n, in[0], n->shape);
    case OP_EXPAND:
        return simplify_expand(rw, n, in);
    case OP_PERMUTE:
        return simplify_permute(n, in);
    case OP_SLICE:
        return simplify_slice(rw, n, in);
    case OP_CONCAT:
        return simplify_concat(rw, n, in);
    case OP_GATHER:
        return simplify_gather(rw, n, in);
    case OP_SELECT:
        return simplify_select(rw, n, in);
    case OP_MATMUL:
        return simplify_matmul(rw, n, in);
    case OP_SUM:
        return simplify_sum(rw, n, in);
    case OP_ATTEND:
        return shape_size(n->shape) == 0 ? in[0] : NULL; // no queries: as empty as they are
    case OP_DROPOUT:
        return n->a.p == 0.0 ? in[0] : NULL;
    default:
        return NULL;
    }
}

bool
simplify(Graph *g)
{
    Rewrite rw = rewrite_begin(g);
    fold_constants(&rw);
    for (int i = 0; i < rw.n_old; i++) {
        Node *n = rw.old[i];
        if (rw.to[i] != NULL)
            continue;
        Node **in = arena_array(&g->mem->scratch, Node *, n->n_in);
        for (int k = 0; k < n->n_in; k++)
            in[k] = rewritten(&rw, n->in[k]);
        Node *to = simplify_node(&rw, n, in);
        rewrite_set(&rw, n, to != NULL ? to : rewrite_again(&rw, n));
    }
    rewrite_end(&rw);
    return true;
}

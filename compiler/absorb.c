// absorb.c - attention of few queries meets the input of its key and value layers, not their results.
//
// Keys K = X Wk' + bk and values V = X Wv' + bv cost two products over all rows of X, and two matrices to keep.
// The scores of head h are q_h K_h' = (q_h Wk_h) X' + q_h bk_h', whose last term is the same for every key and so
// leaves the softmax as it is; and P_h V_h = (P_h X) Wv_h' + (P_h 1) bv_h. With T queries and H heads that is
// attention of H T queries on X, and products of H T rows: less work where H T is well below the width of X.
//
// The queries of head h stand at h T .. h T + T, so that every element of the softmax has the number that its
// dropout is drawn by. Without dropout P_h 1 is 1 for a query that sees a key and else 0; with dropout it is a
// column of ones in the values. Scores are divided by the root of the width of a head, which is now that of X:
// queries are multiplied by the quotient.
//
// Needs: nothing.  Leaves: products with no users, which it drops.

#include "passes.h"

#include <math.h>

enum { ONES = 16 }; // columns for a column of ones: a vector's lanes

// y = x w (w': tb) + bias, each row by itself.
typedef struct Linear {
    Node *x, *weight, *bias; // bias: NULL, or the same in every row
    bool tb;
} Linear;

typedef struct Absorber {
    Graph *g;
    Rewrite rw;
    int *n_users;
} Absorber;

static int64_t
last(Shape s, int k)
{
    return s.dim[s.rank - k];
}

// Whether s has an entry a column of y and, or not, a leading position of it.
static bool
is_row(Shape s, Shape y)
{
    bool flat = true, led = s.rank == y.rank;
    for (int k = 0; k < s.rank - 1; k++)
        flat = flat && s.dim[k] == 1;
    for (int k = 0; led && k < s.rank - 2; k++)
        led = s.dim[k] == y.dim[k];
    return s.rank >= 1 && last(s, 1) == last(y, 1) && (flat || (led && last(s, 2) == 1));
}

// A linear layer that nothing but its one user reads.
static bool
find_linear(const Absorber *b, Node *y, Linear *l)
{
    *l = (Linear){0};
    Node *m = y;
    for (int side = 0; y->op == OP_ADD && side < 2; side++)
        if (y->in[side]->op == OP_MATMUL && is_row(y->in[1 - side]->shape, y->shape)) {
            m = y->in[side];
            l->bias = y->in[1 - side];
        }
    if (m->op != OP_MATMUL || m->a.ta || b->n_users[y->id] != 1 || b->n_users[m->id] != 1 ||
        !shape_equal(m->shape, y->shape))
        return false;
    l->x = m->in[0];
    l->weight = m->in[1];
    l->tb = m->a.tb;
    return l->weight->shape.rank == l->x->shape.rank; // one for each leading position
}

// The layers of an attention's keys and values, if it gains.
static bool
find_layers(const Absorber *b, const Node *n, Linear *key, Linear *value)
{
    if (n->op != OP_ATTEND || n->a.q_first != 0 || n->shape.rank > MAX_RANK - 1)
        return false;
    int64_t T = last(n->shape, 2), D = last(n->shape, 1);
    if ((n->a.q_rows != 0 && n->a.q_rows != T) || !find_linear(b, n->in[1], key) ||
        !find_linear(b, n->in[2], value) || key->x != value->x)
        return false;
    int64_t width = last(key->x->shape, 1), rows = n->a.heads * T;
    // operations for each key: products of rows of X, or more of attention; half as much is worth a change
    return 3 * rows * (width + (n->a.p > 0 ? ONES : 0)) <= 2 * D * (width + T);
}

static Shape
with_last(Shape s, int64_t a, int64_t b, int64_t c)
{
    const int64_t dim[] = {a, b, c};
    s.rank -= 2;
    for (int k = 0; k < 3; k++)
        if (dim[k] > 0)
            s.dim[s.rank++] = dim[k];
    return s;
}

// Swaps the second and third axis from the end.
static Node *
swap_axes(Graph *g, Node *x, Place place)
{
    int64_t axes[MAX_RANK];
    int rank = x->shape.rank;
    for (int k = 0; k < rank; k++)
        axes[k] = k;
    axes[rank - 3] = rank - 2;
    axes[rank - 2] = rank - 3;
    return graph_permute(g, x, axes, place);
}

// The weight's part for each head, [.., H, D / H, width] (rows, *tb false) or [.., H, width, D / H] (*tb true), as
// a right side that makes D / H columns into `width`.
static Node *
head_weights(Graph *g, const Linear *l, Node *weight, int64_t heads, bool *tb, Place place)
{
    Shape s = weight->shape;
    *tb = !l->tb;
    if (l->tb)
        return graph_reshape(g, weight, with_last(s, heads, last(s, 2) / heads, last(s, 1)), place);
    return swap_axes(g, graph_reshape(g, weight, with_last(s, last(s, 2), heads, last(s, 1) / heads), place), place);
}

// The mask for queries that are numbered a head after the other.
static const Mask *
repeated(Graph *g, const Mask *m, int64_t T)
{
    Arena *a = &g->mem->perm;
    if (!m)
        return NULL;
    Mask *c = arena_new(a, Mask);
    *c = *m;
    for (int k = 0; k < m->n_kids; k++)
        c->kid[k] = (Mask *)(uintptr_t)repeated(g, m->kid[k], T);
    if (m->kind != MASK_I)
        return c;
    Mask *count = arena_new(a, Mask), *mod = arena_new(a, Mask);
    *count = (Mask){.kind = MASK_INT, .value = T};
    *mod = (Mask){.kind = MASK_MOD, .n_kids = 2, .kid = {c, count}};
    return mod;
}

// Columns behind x: the first of ones, the others of zeros.
static Node *
with_ones(Graph *g, Node *x, Place place)
{
    double row[ONES] = {1.0};
    int64_t dim[] = {ONES};
    Node *ones = graph_const_f(g, shape_of(1, dim), row, ONES, place);
    Shape s = x->shape;
    s.dim[s.rank - 1] = ONES;
    Node *parts[] = {x, graph_expand(g, ones, s, place)};
    return graph_concat(g, parts, 2, x->shape.rank - 1, place);
}

// Sums of the softmax, [.., H, T, 1].
static Node *
softmax_sums(Graph *g, Node *attend, Shape heads, int64_t width, Place place)
{
    heads.dim[heads.rank - 1] = 1;
    int rank = attend->shape.rank;
    if (attend->a.p > 0)
        return graph_reshape(g, graph_slice(g, attend, rank - 1, width, 1, place), heads, place);
    Node *stats = graph_add(g, OP_PART, &attend, 1, (Attr){0}, place);
    Node *sum = graph_reshape(g, graph_slice(g, stats, rank - 2, 1, 1, place), heads, place);
    Node *sees = graph_binary(g, OP_LT, graph_scalar(g, 0.0, place), sum, place);
    return graph_select(g, sees, graph_scalar(g, 1.0, place), graph_scalar(g, 0.0, place), place);
}

static Node *
absorbed(Absorber *b, const Node *n, const Linear *key, const Linear *value)
{
    Graph *g = b->g;
    Place at = n->place;
    Shape s = n->shape;
    int64_t T = last(s, 2), D = last(s, 1), H = n->a.heads;
    Node *x = rewritten(&b->rw, key->x);
    int64_t width = last(x->shape, 1), all = width + (n->a.p > 0 ? ONES : 0);
    bool tb;

    Node *q = graph_reshape(g, rewritten(&b->rw, n->in[0]), with_last(s, T, H, D / H), at);
    Node *scale = graph_scalar(g, sqrt((double)all * (double)H / (double)D), at);
    q = graph_binary(g, OP_MUL, swap_axes(g, q, at), scale, at);
    Node *w = head_weights(g, key, rewritten(&b->rw, key->weight), H, &tb, at);
    q = graph_reshape(g, graph_matmul(g, q, w, false, tb, at), with_last(s, H * T, width, 0), at);
    if (n->a.p > 0) {
        q = graph_pad(g, q, q->shape.rank - 1, 0, all, at);
        x = with_ones(g, x, at);
    }
    Node **in = arena_array(&g->mem->perm, Node *, n->n_in);
    in[0] = q;
    in[1] = in[2] = x;
    for (int k = 3; k < n->n_in; k++)
        in[k] = rewritten(&b->rw, n->in[k]);
    Attr a = n->a;
    a.heads = 1;
    a.q_rows = 0;
    a.mask = repeated(g, n->a.mask, T);
    Node *attend = graph_add(g, OP_ATTEND, in, n->n_in, a, at);

    Shape heads = with_last(s, H, T, width);
    Node *o = graph_slice(g, attend, attend->shape.rank - 1, 0, width, at);
    w = head_weights(g, value, rewritten(&b->rw, value->weight), H, &tb, at);
    o = graph_matmul(g, graph_reshape(g, o, heads, at), w, false, !tb, at);
    if (value->bias) {
        Node *bias = rewritten(&b->rw, value->bias);
        int64_t dim[] = {H, 1, D / H};
        bool flat = shape_size(bias->shape) == D;
        bias = graph_reshape(g, bias, flat ? shape_of(3, dim) : with_last(s, H, 1, D / H), at);
        Node *sums = softmax_sums(g, attend, heads, width, at);
        o = graph_binary(g, OP_ADD, o, graph_binary(g, OP_MUL, sums, bias, at), at);
    }
    return graph_reshape(g, swap_axes(g, o, at), s, at);
}

bool
absorb(Graph *g)
{
    Absorber b = {.g = g};
    b.n_users = arena_array(&g->mem->scratch, int, g->n_nodes);
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++)
            b.n_users[g->nodes[i]->in[k]->id]++;
    b.n_users[g->logits->id]++; // read from outside
    if (g->embedding)
        b.n_users[g->embedding->id]++;
    b.rw = rewrite_begin(g);
    for (int i = 0; i < b.rw.n_old; i++) {
        Node *n = b.rw.old[i];
        Linear key, value;
        if (!find_layers(&b, n, &key, &value)) {
            rewrite_set(&b.rw, n, rewrite_again(&b.rw, n));
            continue;
        }
        g->part = n->part;
        g->call = n->call;
        g->origin = n->origin;
        Node *y = absorbed(&b, n, &key, &value);
        g->part = PART_FORWARD;
        g->call = NULL;
        g->origin = NULL;
        if (y != NULL && y->name == NULL)
            y->name = n->name;
        rewrite_set(&b.rw, n, y);
    }
    rewrite_end(&b.rw);
    return true;
}

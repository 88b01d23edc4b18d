// fuse.c - what needs no buffer of its own: values inlined into a loop, pieces written in place.
//
// Nothing here changes how an element is computed, with two exceptions that depend on the forward graph
// alone, never on the checkpoint choice: a product with a bias starts its chain from the bias, and a
// product or column sum that goes to an accumulator starts from the accumulator. A sum of padded pieces
// writes each piece where no earlier one stands instead of adding it to zeros.

#include "tile.h"

Buf *
buf_new(Tiles *t, Space space, DType type, int64_t size, Node *n)
{
    Buf *b = arena_new(&t->mem->perm, Buf);
    *b = (Buf){.space = space, .type = type, .size = size, .node = n, .first = -1, .region = -1};
    if (n && n->user)
        b->line = INFO(n)->line;
    array_push(&t->mem->perm, &t->bufs, b);
    return b;
}

View
node_place(Tiles *t, Node *n)
{
    Info *f = INFO(n);
    if (!f->placed) {
        Space space = f->line == TL_GATHER ? (f->exported ? SP_INPUT : SP_SCRATCH)
                      : f->needed_back     ? SP_KEPT
                                           : SP_SCRATCH;
        Buf *b = buf_new(t, space, n->type, shape_size(n->shape), n);
        b->region = f->region;
        f->view = view_whole(b, n->shape);
        f->placed = true;
    }
    return f->view;
}

// ---- pieces written in place -------------------------------------------------------------------

static bool
is_producer(const Node *n)
{
    return n->op == OP_PART || !op_is_alias(n);
}

static bool
unit_last(const View *v)
{
    for (int i = v->rank - 1; i >= 0; i--)
        if (v->dim[i] != 1)
            return v->stride[i] == 1;
    return true;
}

// Whether one node alone reads a value and what it is a view of, and the model does not return it.
static bool
is_read_once(const Graph *g, const Node *n)
{
    for (;; n = n->in[0]) {
        if (INFO(n)->n_users != 1 || n == g->logits || n == g->embedding)
            return false;
        if (n->op != OP_RESHAPE && n->op != OP_DETACH)
            return true;
    }
}

// Lets the producer of a piece write straight into its window of a buffer. Where what stands there is
// `changed` afterwards nobody else may read the piece, nor what in turn is written into it.
static bool
write_in_place(Tiles *t, Node *piece, View window, const Info *whole, bool changed)
{
    changed |= whole->changed;
    if (changed && !is_read_once(t->g, piece))
        return false;
    Node *r = piece;
    while (r->op == OP_RESHAPE || r->op == OP_DETACH)
        r = r->in[0];
    Info *f = INFO(r);
    if (!is_producer(r) || f->placed || f->line != whole->line)
        return false;
    if ((f->needed_back && !whole->needed_back) || (f->exported && !whole->exported))
        return false;
    View v;
    if (!view_reshape(window, r->shape, &v) || !unit_last(&v))
        return false;
    f->view = v;
    f->placed = true;
    f->changed = changed;
    return true;
}

static void
place_concat(Tiles *t, Node *n)
{
    View whole = node_place(t, n);
    int axis = (int)n->a.axis;
    int64_t start = 0;
    for (int k = 0; k < n->n_in; k++) {
        int64_t count = n->in[k]->shape.dim[axis];
        if (count > 0)
            write_in_place(t, n->in[k], view_slice(whole, axis, start, count), INFO(n),
                           false);
        start += count;
    }
}

// What is dropped out is written where the result will be, and dropped out there.
static void
place_dropout(Tiles *t, Node *n)
{
    if (shape_size(n->shape) > 0)
        write_in_place(t, n->in[0], node_place(t, n), INFO(n), true);
}

// ---- sums of padded pieces ---------------------------------------------------------------------

static bool
is_sum_add(const Node *n)
{
    return n->op == OP_ADD && n->part == PART_BACKWARD && n->type == DT_F32 &&
           !INFO(n)->prelude && shape_equal(n->in[0]->shape, n->shape) &&
           shape_equal(n->in[1]->shape, n->shape) && n->in[0] != n->in[1];
}

static bool
is_piece(const Node *n)
{
    return n->op == OP_PAD && n->part == PART_BACKWARD && !INFO(n)->prelude;
}

static bool
continues_sum(const Node *n)
{
    const Info *f = INFO(n);
    return is_sum_add(n) && f->n_users == 1 && is_sum_add(f->users[0]) &&
           f->users[0]->in[0] == n;
}

static void
term_set(Term *term, Node *n, int64_t axis, const Node *whole)
{
    if (is_piece(n) && n->a.axis == axis)
        *term = (Term){n->in[0], n->a.start, n->in[0]->shape.dim[axis],
                       INFO(n)->n_users == 1, false};
    else
        *term = (Term){n, 0, whole->shape.rank ? whole->shape.dim[axis] : 1, true, false};
}

// Finds the terms of a sum that has a padded piece among them, first to last.
static void
find_terms(Tiles *t, Node *n)
{
    Info *f = INFO(n);
    if (n->op == OP_PAD) {
        f->term = arena_array(&t->mem->perm, Term, 1);
        f->n_term = 1;
        f->axis = n->a.axis;
        *f->term =
            (Term){n->in[0], n->a.start, n->in[0]->shape.dim[n->a.axis], true, false};
        return;
    }
    if (!is_sum_add(n) || continues_sum(n))
        return;
    int count = 1;
    const Node *piece = NULL;
    for (Node *a = n;; a = a->in[0]) {
        count++;
        if (is_piece(a->in[1]))
            piece = a->in[1];
        if (!continues_sum(a->in[0])) {
            if (is_piece(a->in[0]))
                piece = a->in[0];
            break;
        }
    }
    if (!piece)
        return;
    f->axis = piece->a.axis;
    f->n_term = count;
    f->term = arena_array(&t->mem->perm, Term, count);
    Node *a = n;
    for (int k = count - 1; k >= 1; k--) {
        term_set(&f->term[k], a->in[1], f->axis, n);
        a = a->in[0];
        if (k > 1)
            INFO(a)->inner = true;
    }
    term_set(&f->term[0], a, f->axis, n);
}

static bool
overlap(const Term *a, const Term *b)
{
    return a->start < b->start + b->count && b->start < a->start + a->count;
}

static void
place_sum(Tiles *t, Node *n)
{
    Info *f = INFO(n);
    View whole = node_place(t, n);
    for (int k = 0; k < f->n_term; k++) {
        Term *term = &f->term[k];
        bool free = term->count > 0 && term->once;
        for (int j = 0; j < k; j++)
            free &= !overlap(term, &f->term[j]);
        if (free)
            term->in_place = write_in_place(
                t, term->node, view_slice(whole, (int)f->axis, term->start, term->count),
                f, true);
    }
}

// A padded piece needs a buffer only for users that are not sums which take it apart.
static void
skip_pieces(Graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        Node *n = g->nodes[i];
        Info *f = INFO(n);
        if (!is_piece(n))
            continue;
        f->virt = f->n_users > 0;
        for (int k = 0; k < f->n_users; k++) {
            Node *u = f->users[k];
            while (INFO(u)->inner)
                u = INFO(u)->users[0];
            bool taken = false;
            for (int j = 0; u->op == OP_ADD && j < INFO(u)->n_term; j++)
                taken |= INFO(u)->term[j].node == n->in[0] && INFO(u)->axis == n->a.axis;
            f->virt &= taken;
        }
    }
}

// ---- products that start from a bias or an accumulator -----------------------------------------

static int
forward_users(const Node *n)
{
    int count = 0;
    for (int k = 0; k < INFO(n)->n_users; k++)
        count += INFO(n)->users[k]->part == PART_FORWARD;
    return count;
}

static bool
is_bias_row(const Node *e, const Node *sum)
{
    int64_t n = sum->shape.rank ? sum->shape.dim[sum->shape.rank - 1] : 0;
    if (e->shape.rank == 0 || e->shape.dim[e->shape.rank - 1] != n || shape_size(e->shape) != n)
        return false;
    while (e->op == OP_RESHAPE || e->op == OP_SLICE)
        e = e->in[0];
    return e->op == OP_PARAM && n > 0;
}

// Through reshapes that keep the last axis.
static const Node *
product_under(const Node *x, int64_t last)
{
    while (x->op == OP_RESHAPE && x->shape.rank > 0 && x->shape.dim[x->shape.rank - 1] == last)
        x = x->in[0];
    bool fits = x->op == OP_MATMUL && x->shape.dim[x->shape.rank - 1] == last;
    return fits ? x : NULL;
}

// The side of an addition that is a product, the other being a bias row; -1 if there is none.
static int
product_side(const Node *add)
{
    if (add->op != OP_ADD || add->type != DT_F32 || add->shape.rank == 0)
        return -1;
    for (int k = 0; k < 2; k++)
        if (shape_equal(add->in[k]->shape, add->shape) && is_bias_row(add->in[1 - k], add) &&
            product_under(add->in[k], add->shape.dim[add->shape.rank - 1]))
            return k;
    return -1;
}

static bool
sole_forward_users(const Node *x)
{
    for (; x->op == OP_RESHAPE; x = x->in[0])
        if (forward_users(x) != 1)
            return false;
    return forward_users(x) == 1;
}

// The rule looks at the forward graph only: a recomputed addition does as its origin.
Node *
bias_product(Tiles *t, const Node *add)
{
    const Node *o = add;
    if (add->op != OP_ADD || add->part == PART_BACKWARD)
        return NULL;
    if (add->part == PART_RECOMPUTE && add->origin && add->origin->id < t->g->n_nodes &&
        t->g->nodes[add->origin->id] == add->origin)
        o = add->origin;
    int side = product_side(o);
    if (side < 0 || (o->part == PART_FORWARD && !sole_forward_users(o->in[side])))
        return NULL;
    side = product_side(add);
    Node *m = side < 0 ? NULL : add->in[side];
    for (; m && m->op == OP_RESHAPE; m = m->in[0])
        if (INFO(m)->n_users != 1)
            die("a recomputed product differs from its origin");
    if (!m || INFO(m)->n_users != 1 || INFO(m)->line != INFO(add)->line)
        die("a recomputed product differs from its origin");
    return m;
}

View
acc_window(View v, const Node *acc, const Node *producer)
{
    for (const Node *r = acc->in[0]; r != producer; r = r->in[0]) {
        View from = v;
        if (r->op == OP_RESHAPE && !view_reshape(from, r->in[0]->shape, &v))
            return (View){0};
        for (int k = 0; r->op == OP_PERMUTE && k < v.rank; k++) {
            v.dim[r->a.list[k]] = from.dim[k];
            v.stride[r->a.list[k]] = from.stride[k];
        }
    }
    return v;
}

// A product may lie in the accumulator with its axes in another order, its rows in one piece.
Node *
acc_producer(const Node *acc)
{
    Node *r = acc->in[0];
    bool moved = false;
    for (; (r->op == OP_RESHAPE || r->op == OP_PERMUTE) && INFO(r)->n_users == 1; r = r->in[0])
        moved |= r->op == OP_PERMUTE;
    View v = acc_window(view_whole(NULL, acc->in[0]->shape), acc, r);
    if (moved && (r->op != OP_MATMUL || v.rank < 2 || v.stride[v.rank - 1] != 1))
        return NULL;
    const Info *f = INFO(r);
    if (f->n_users != 1 || f->line != TL_BACKWARD || f->needed_back)
        return NULL;
    if (r->op == OP_MATMUL && shape_size(r->shape) > 0)
        return r;
    return r->op == OP_SUM && r->type == DT_F32 ? r : NULL;
}

static void
find_products(Tiles *t)
{
    Graph *g = t->g;
    for (int i = 0; i < g->n_nodes; i++) {
        Node *n = g->nodes[i], *m = NULL;
        if (n->op == OP_ADD && !INFO(n)->prelude)
            m = bias_product(t, n);
        else if (n->op == OP_ACC || n->op == OP_ACC_TAKE)
            m = acc_producer(n);
        if (!m)
            continue;
        INFO(m)->virt = true;
        Node *r = n->op != OP_ADD ? n->in[0] : n->in[product_side(n)];
        for (; r != m; r = r->in[0])
            INFO(r)->virt = true;
    }
}

// ---- inlining ----------------------------------------------------------------------------------

bool
op_is_vector(const Node *n)
{
    if (!(op_info[n->op].flags & OPF_POINTWISE) || INFO(n)->line == TL_GATHER ||
        n->type == DT_I64)
        return false;
    bool floats = true;
    for (int k = 0; k < n->n_in; k++) {
        if (n->in[k]->type == DT_I64)
            return false;
        floats &= n->in[k]->type == DT_F32;
    }
    switch (n->op) {
    case OP_FLOORDIV:
    case OP_MOD:
    case OP_BUCKETIZE:
        return false;
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
        return floats;
    default:
        return true;
    }
}

static bool
is_reduction(const Node *n)
{
    switch (n->op) {
    case OP_SUM:
    case OP_MAX:
    case OP_MIN:
    case OP_ANY:
    case OP_ALL:
    case OP_COUNT_TRUE:
    case OP_ARGMAX:
        return true;
    default:
        return false;
    }
}

bool
reduces_vectors(const Node *n)
{
    return n->type == DT_F32 && INFO(n)->line != TL_GATHER &&
           (n->op == OP_SUM || n->op == OP_MAX || n->op == OP_MIN);
}

// Whether the one user of a value can compute it in its own loop.
static bool
inlines(Tiles *t, const Node *n, int *sizes)
{
    const Info *f = INFO(n);
    if (!(op_info[n->op].flags & OPF_POINTWISE) || n->op == OP_DETACH || f->n_users != 1 ||
        f->placed || f->virt || f->inner || f->needed_back || f->exported || f->n_term)
        return false;
    const Node *u = f->users[0];
    const Info *fu = INFO(u);
    if (fu->line != f->line || (fu->region != f->region && !fu->virt))
        return false;
    bool whole = shape_equal(n->shape, u->shape) && sizes[n->id] + sizes[u->id] <= 32;
    if (fu->inner || fu->n_term || bias_product(t, n) || bias_product(t, u))
        return false;
    if (op_info[u->op].flags & OPF_POINTWISE)
        return whole && u->op != OP_DETACH && op_is_vector(n) == op_is_vector(u);
    if (is_reduction(u))
        return op_is_vector(n) == reduces_vectors(u);
    return (u->op == OP_ACC || u->op == OP_ACC_TAKE) && op_is_vector(n);
}

void
schedule_fuse(Tiles *t)
{
    Graph *g = t->g;
    for (int i = 0; i < g->n_nodes; i++)
        find_terms(t, g->nodes[i]);
    skip_pieces(g);
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        Node *n = g->nodes[i];
        if (n->op == OP_CONCAT)
            place_concat(t, n);
        else if (n->op == OP_DROPOUT)
            place_dropout(t, n);
        else if (INFO(n)->n_term && !INFO(n)->virt)
            place_sum(t, n);
    }
    find_products(t);
    int *sizes = arena_array(&t->mem->scratch, int, g->n_nodes);
    for (int i = 0; i < g->n_nodes; i++)
        sizes[i] = 1;
    for (int i = 0; i < g->n_nodes; i++) {
        Node *n = g->nodes[i];
        if (n == g->logits || n == g->embedding || !inlines(t, n, sizes))
            continue;
        INFO(n)->inlined = true;
        sizes[INFO(n)->users[0]->id] += sizes[i];
    }
}

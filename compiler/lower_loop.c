// lower_loop.c - elementwise expressions, reductions, sums of pieces and accumulators as loops.

#include "tile.h"

typedef struct Collect {
    Tiles *t;
    Stmt *s;
    Array(Node *) expr;
    Array(Leaf) leaf;
} Collect;

static void
collect_leaf(Collect *c, Node *n)
{
    for (int i = 0; i < c->leaf.n; i++)
        if (c->leaf.v[i].node == n)
            return;
    View v = {0};
    if (!node_is_scalar_const(n))
        v = view_expand(node_value(c->t, n), c->s->iter);
    array_push(&c->t->mem->perm, &c->leaf, (Leaf){n, v});
}

static void
collect_node(Collect *c, Node *n)
{
    for (int i = 0; i < c->expr.n; i++)
        if (c->expr.v[i] == n)
            return;
    for (int k = 0; k < n->n_in; k++) {
        if (INFO(n->in[k])->inlined)
            collect_node(c, n->in[k]);
        else
            collect_leaf(c, n->in[k]);
    }
    array_push(&c->t->mem->perm, &c->expr, n);
}

static int64_t
last_stride(const View *v, Shape iter)
{
    for (int i = iter.rank - 1; i >= 0; i--)
        if (iter.dim[i] != 1)
            return v->stride[i];
    return 0;
}

// Leaves of a vector loop step by 0 or 1 along the last axis; others are copied first. The copies come
// before the loop in the region.
static void
finish_loop(Collect *c)
{
    Stmt *s = c->s;
    Tiles *t = c->t;
    s->expr = c->expr.v;
    s->n_expr = c->expr.n;
    s->leaf = c->leaf.v;
    s->n_leaf = c->leaf.n;
    Region *r = t->regions.v[t->region];
    if (r->stmts.v[r->stmts.n - 1] != s)
        die("a loop is not the latest statement");
    r->stmts.n--;
    for (int i = 0; i < s->n_leaf && s->vector; i++) {
        Leaf *l = &s->leaf[i];
        if (node_is_scalar_const(l->node))
            continue;
        int64_t step = last_stride(&l->view, s->iter);
        if (step != 0 && step != 1)
            l->view = view_expand(view_unit(t, node_value(t, l->node), l->node), s->iter);
    }
    array_push(&t->mem->perm, &r->stmts, s);
}

// out = or += the value of n, which is inlined or stands somewhere
static void
loop_of(Tiles *t, Node *n, Node *value, View out, Shape iter, bool add, bool vector)
{
    if (shape_size(iter) == 0)
        return;
    Stmt *s = stmt_new(t, ST_LOOP, n, 0);
    s->out[0] = out;
    s->iter = iter;
    s->add = add;
    s->vector = vector;
    Collect c = {.t = t, .s = s};
    if (value == n || INFO(value)->inlined)
        collect_node(&c, value);
    else
        collect_leaf(&c, value);
    finish_loop(&c);
}

void
lower_loop(Tiles *t, Node *n, View out, bool add)
{
    loop_of(t, n, n, out, n->shape, add, op_is_vector(n));
}

// ---- reductions --------------------------------------------------------------------------------

// The place of a reduction's result seen along all axes of its operand: it stands still on the reduced.
static View
reduced_view(const Node *n, View out, bool *axes)
{
    Shape in = n->in[0]->shape;
    View v = {.buf = out.buf, .first = out.first, .rank = in.rank};
    for (int k = 0; k < n->a.n_list; k++)
        axes[n->a.list[k]] = true;
    for (int i = 0, o = 0; i < in.rank; i++) {
        v.dim[i] = in.dim[i];
        if (!axes[i])
            v.stride[i] = out.stride[o++];
        else if (n->a.keep)
            o++;
    }
    return v;
}

void
lower_reduce(Tiles *t, Node *n, View out, bool add)
{
    if (view_size(&out) == 0)
        return;
    Stmt *s = stmt_new(t, ST_LOOP, n, 0);
    s->iter = n->in[0]->shape;
    s->add = add;
    s->reduce = true;
    s->vector = reduces_vectors(n);
    s->out[0] = reduced_view(n, out, s->axes);
    Collect c = {.t = t, .s = s};
    if (INFO(n->in[0])->inlined)
        collect_node(&c, n->in[0]);
    else
        collect_leaf(&c, n->in[0]);
    finish_loop(&c);
}

// ---- sums of padded pieces ---------------------------------------------------------------------

// Adds a term to rows start .. start + count of the sum, or writes it where nothing stands yet.
static void
add_term(Tiles *t, Node *n, Node *value, int64_t skip, View window, bool add)
{
    View v = view_slice(node_value(t, value), (int)INFO(n)->axis, skip,
                        window.dim[INFO(n)->axis]);
    if (view_size(&window) == 0)
        return;
    Stmt *s = stmt_new(t, ST_LOOP, n, 0);
    s->iter = view_shape(&window);
    s->out[0] = window;
    s->add = add;
    int64_t across = last_stride(&window, s->iter);
    s->vector = across == 1 || view_size(&window) == 1;
    s->leaf = arena_array(&t->mem->perm, Leaf, 1);
    s->n_leaf = 1;
    int64_t step = last_stride(&v, s->iter);
    Region *r = t->regions.v[t->region];
    r->stmts.n--;
    if (s->vector && step != 0 && step != 1)
        v = view_unit(t, v, value);
    array_push(&t->mem->perm, &r->stmts, s);
    s->leaf[0] = (Leaf){value, v};
}

// Each position of the axis gets its first term written and the later ones added, in order.
void
lower_sum(Tiles *t, Node *n)
{
    Info *f = INFO(n);
    View whole = node_place(t, n);
    int axis = (int)f->axis;
    int64_t extent = whole.dim[axis];
    bool *set = arena_array(&t->mem->scratch, bool, extent + 1);
    for (int k = 0; k < f->n_term; k++) {
        Term *term = &f->term[k];
        int64_t end = term->start + term->count;
        for (int64_t i = term->start; i < end && !term->in_place;) {
            int64_t j = i;
            while (j < end && set[j] == set[i])
                j++;
            add_term(t, n, term->node, i - term->start, view_slice(whole, axis, i, j - i), set[i]);
            i = j;
        }
        for (int64_t i = term->start; i < end; i++)
            set[i] = true;
    }
    for (int64_t i = 0; i < extent;) {
        int64_t j = i;
        while (j < extent && set[j] == set[i])
            j++;
        if (!set[i] && view_size(&whole) > 0) {
            Stmt *s = stmt_new(t, ST_ZERO, n, 0);
            s->out[0] = view_slice(whole, axis, i, j - i);
        }
        i = j;
    }
}

// ---- accumulators ------------------------------------------------------------------------------

void
lower_acc(Tiles *t, Node *n)
{
    const Param *p = &t->g->params[n->a.index];
    int64_t row = p->shape.rank && p->shape.dim[0] ? shape_size(p->shape) / p->shape.dim[0] : 1;
    Node *x = n->in[0], *m = acc_producer(n);
    int64_t size = shape_size(x->shape);
    if (size == 0)
        return;
    Buf *b = buf_new(t, SP_ACC, DT_F32, size, NULL);
    if (n->op == OP_ACC_TAKE)
        lower_take_uses(t, n, b);
    else
        array_push(&t->mem->perm, &t->uses,
                   ((Use){(int)n->a.index, n->a.start * row, size, b, 1, 0, 0, 0}));
    if (!m) {
        loop_of(t, n, x, view_whole(b, x->shape), x->shape, true, true);
        return;
    }
    View out = acc_window(view_whole(b, x->shape), n, m);
    if (m->op == OP_MATMUL)
        lower_product(t, m, out, NULL, true);
    else
        lower_reduce(t, m, out, true);
}

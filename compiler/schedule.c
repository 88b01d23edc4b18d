// schedule.c - turns the graph into regions of statements, in the order of the graph.
//
// Moves that need no work become views of other buffers. Everything else becomes a statement of the
// region in which its node stands. Needs: the graph after sweep. Leaves: buffers without offsets.

#include "tile.h"

#include <string.h>

Stmt *
stmt_new(Tiles *t, StmtKind kind, Node *n, int n_in)
{
    Stmt *s = arena_new(&t->mem->perm, Stmt);
    s->kind = kind;
    s->node = n;
    s->n_in = n_in;
    s->n_out = 1;
    s->in = arena_array(&t->mem->perm, View, n_in);
    Region *r = t->regions.v[t->region];
    array_push(&t->mem->perm, &r->stmts, s);
    return s;
}

View
temp_new(Tiles *t, DType type, Shape s, Node *n)
{
    Buf *b = buf_new(t, SP_SCRATCH, type, shape_size(s), n);
    b->line = t->regions.v[t->region]->line;
    return view_whole(b, s);
}

void
lower_copy(Tiles *t, View from, View to, Node *n)
{
    if (view_size(&to) == 0)
        return;
    Stmt *s = stmt_new(t, ST_LOOP, n, 0);
    s->out[0] = to;
    s->iter = view_shape(&to);
    s->leaf = arena_array(&t->mem->perm, Leaf, 1);
    s->n_leaf = 1;
    s->leaf[0] = (Leaf){NULL, from};
}

static bool
is_unit(const View *v)
{
    for (int i = v->rank - 1; i >= 0; i--)
        if (v->dim[i] != 1)
            return v->stride[i] == 1;
    return true;
}

View
view_unit(Tiles *t, View v, Node *n)
{
    if (is_unit(&v))
        return v;
    View c = temp_new(t, v.buf->type, view_shape(&v), n);
    lower_copy(t, v, c, n);
    return c;
}

View
view_matrix(Tiles *t, View v, Node *n)
{
    int64_t cols = v.rank ? v.dim[v.rank - 1] : 1;
    int64_t rows = 1;
    for (int i = 0; i + 1 < v.rank; i++)
        rows *= v.dim[i];
    Shape s = {.rank = 2, .dim = {rows, cols}};
    View m;
    if (view_reshape(v, s, &m) && is_unit(&m))
        return m;
    View c = temp_new(t, v.buf->type, view_shape(&v), n);
    lower_copy(t, v, c, n);
    view_reshape(c, s, &m);
    return m;
}

View
node_matrix(Tiles *t, Node *n)
{
    return view_matrix(t, node_value(t, n), n);
}

View
node_vector(Tiles *t, Node *n)
{
    View v = node_value(t, n), r;
    Shape s = {.rank = 1, .dim = {view_size(&v)}};
    if (view_reshape(v, s, &r))
        return r;
    View c = temp_new(t, v.buf->type, view_shape(&v), n);
    lower_copy(t, v, c, n);
    view_reshape(c, s, &r);
    return r;
}

View
out_begin(Tiles *t, Node *n, Shape s)
{
    View v = node_place(t, n), r;
    if (view_reshape(v, s, &r) && is_unit(&r))
        return r;
    return temp_new(t, n->type, s, n);
}

void
out_end(Tiles *t, Node *n, View out)
{
    View v = INFO(n)->view, c;
    if (out.buf == v.buf)
        return;
    view_reshape(out, n->shape, &c);
    lower_copy(t, c, v, n);
}

// ---- leaves and views --------------------------------------------------------------------------

static View
leaf_value(Tiles *t, Node *n)
{
    Buf *b;
    switch (n->op) {
    case OP_INPUT:
        b = buf_new(t, SP_RAW, n->type, shape_size(n->shape), n);
        b->index = (int)n->a.index;
        break;
    case OP_PARAM:
        b = buf_new(t, SP_PARAM, DT_F32, shape_size(n->shape), n);
        b->index = (int)n->a.index;
        break;
    case OP_DLOGITS:
        b = buf_new(t, SP_DLOGITS, DT_F32, shape_size(n->shape), n);
        break;
    default:
        b = buf_new(t, SP_CONST, n->type, n->a.data->n, n);
        array_push(&t->mem->perm, &t->consts, n->a.data);
        array_push(&t->mem->perm, &t->const_bufs, b);
        if (n->a.data->n == 1) {
            View v = view_whole(b, n->shape);
            memset(v.stride, 0, sizeof v.stride);
            return v;
        }
    }
    return view_whole(b, n->shape);
}

// A window of the raw batch that other timelines read goes into the input record, without repeats.
static View
export_raw(Tiles *t, Node *n, View v)
{
    View from = v;
    for (int i = 0; i < v.rank; i++)
        if (v.stride[i] == 0)
            from.dim[i] = 1;
    Shape s = view_shape(&from);
    Buf *b = buf_new(t, SP_INPUT, n->type, shape_size(s), n);
    View to = view_whole(b, s);
    int region = t->region;
    t->region = 0;
    lower_copy(t, from, to, n);
    t->region = region;
    return view_expand(to, view_shape(&v));
}

View
node_value(Tiles *t, Node *n)
{
    Info *f = INFO(n);
    if (f->placed)
        return f->view;
    if (!op_is_alias(n) || n->op == OP_PART)
        die("value of %s is read before it is placed", op_info[n->op].name);
    View v;
    if (n->n_in == 0)
        v = leaf_value(t, n);
    else if (n->op == OP_TAKE)
        v = taken_value(t, n);
    else if (n->op == OP_SLICE)
        v = view_slice(node_value(t, n->in[0]), (int)n->a.axis, n->a.start, n->a.count);
    else if (n->op == OP_PERMUTE)
        v = view_permute(node_value(t, n->in[0]), n->a.list);
    else if (n->op == OP_EXPAND)
        v = view_expand(node_value(t, n->in[0]), n->shape);
    else if (n->op == OP_DETACH)
        v = node_value(t, n->in[0]);
    else if (!view_reshape(node_value(t, n->in[0]), n->shape, &v)) {
        View from = node_value(t, n->in[0]), to;
        v = node_place(t, n);
        if (!view_reshape(v, view_shape(&from), &to))
            die("a reshaped value has no place");
        lower_copy(t, from, to, n);
    }
    if (f->exported && v.buf->space == SP_RAW)
        v = export_raw(t, n, v);
    f->view = v;
    f->placed = true;
    return v;
}

// ---- the whole ---------------------------------------------------------------------------------

static void
final_output(Tiles *t, Node *n, Space space, View *at)
{
    for (int i = 0; i < t->regions.n; i++)
        if (t->regions.v[i]->line == TL_FORWARD)
            t->region = i;
    View from = node_value(t, n);
    Buf *b = buf_new(t, space, DT_F32, shape_size(n->shape), NULL);
    *at = view_whole(b, n->shape);
    lower_copy(t, from, *at, n);
}

Tiles *
schedule(Graph *g)
{
    Tiles *t = arena_new(&g->mem->perm, Tiles);
    t->mem = g->mem;
    t->g = g;
    schedule_analyse(t);
    schedule_fuse(t);
    for (int i = 0; i < g->n_nodes; i++) {
        Node *n = g->nodes[i];
        Info *f = INFO(n);
        t->region = f->region;
        if (f->inlined || f->virt || f->inner)
            continue;
        if (n->op == OP_PART)
            continue;
        if (!op_is_alias(n)) {
            lower_node(t, n);
        } else if (n->n_in > 0 || f->exported) {
            bool in_place = f->placed; // by a larger buffer that holds it
            node_value(t, n);
            if (in_place)
                die("an alias has a place of its own");
        }
    }
    final_output(t, g->logits, SP_LOGITS, &t->logits);
    if (g->embedding)
        final_output(t, g->embedding, SP_EMBEDDING, &t->embedding);
    schedule_phases(t);
    return t;
}

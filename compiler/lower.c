// lower.c - statements of products, norms, tables, chance, order and moves.

#include "tile.h"

#include <string.h>

// ---- products ----------------------------------------------------------------------------------

// The last two axes of v swapped.
static View
swap_last(View v)
{
    int64_t order[MAX_RANK];
    for (int i = 0; i < v.rank; i++)
        order[i] = i;
    order[v.rank - 2] = v.rank - 1;
    order[v.rank - 1] = v.rank - 2;
    return view_permute(v, order);
}

static bool
rows_are_unit(const View *v)
{
    return v->dim[v->rank - 1] == 1 || v->stride[v->rank - 1] == 1;
}

static bool
cols_are_unit(const View *v)
{
    return v->dim[v->rank - 2] == 1 || v->stride[v->rank - 2] == 1;
}

// A contiguous copy of a view.
static View
copy_of(Tiles *t, View v, Node *n)
{
    View c = temp_new(t, DT_F32, view_shape(&v), n);
    lower_copy(t, v, c, n);
    return c;
}

// The [K, N] view of a weight stored [N, K], or of several: packed once a step.
static View
pack(Tiles *t, View b)
{
    for (int i = 0; i < t->packs.n; i++)
        if (view_equal(&t->packs.v[i].from, &b))
            return view_whole(t->packs.v[i].buf, view_shape(&b));
    Pack p = {b, buf_new(t, SP_PACKED, DT_F32, view_size(&b), NULL)};
    array_push(&t->mem->perm, &t->packs, p);
    return view_whole(p.buf, view_shape(&b));
}

// Folds leading axes of the left side into its rows where the right side is the same for all of them.
static void
fold_batch(View *a, View *out, int *batch)
{
    if (*batch == 0)
        return;
    int64_t rows = 1;
    for (int i = 0; i + 1 < a->rank; i++)
        rows *= a->dim[i];
    Shape sa = {.rank = 2, .dim = {rows, a->dim[a->rank - 1]}};
    Shape so = {.rank = 2, .dim = {rows, out->dim[out->rank - 1]}};
    View fa, fo;
    if (view_reshape(*a, sa, &fa) && view_reshape(*out, so, &fo) && rows_are_unit(&fa) &&
        rows_are_unit(&fo)) {
        *a = fa;
        *out = fo;
        *batch = 0;
    }
}

void
lower_product(Tiles *t, Node *m, View out, const View *bias, bool add)
{
    View a = node_value(t, m->in[0]), b = node_value(t, m->in[1]);
    if (m->a.ta)
        a = swap_last(a);
    if (m->a.tb)
        b = swap_last(b);
    int batch = m->shape.rank - 2;
    if (view_size(&out) == 0)
        return;
    if (b.rank == 2)
        fold_batch(&a, &out, &batch);
    if (!rows_are_unit(&a) && !cols_are_unit(&a))
        a = copy_of(t, a, m->in[0]);
    if (!rows_are_unit(&b))
        b = taken_swapped(t, b);
    if (!rows_are_unit(&b)) {
        if (!cols_are_unit(&b))
            b = copy_of(t, b, m->in[1]);
        else if (b.buf->space == SP_PARAM)
            b = pack(t, b);
        else if (!rows_are_unit(&a))
            b = copy_of(t, b, m->in[1]);
    }
    Stmt *s = stmt_new(t, ST_PRODUCT, m, bias ? 3 : 2);
    s->M = a.dim[a.rank - 2];
    s->K = a.dim[a.rank - 1];
    s->N = b.dim[b.rank - 1];
    s->batch = batch;
    s->add = add;
    s->out[0] = out;
    s->in[0] = a;
    s->in[1] = b;
    if (b.rank < batch + 2) {
        Shape e = {.rank = batch + 2};
        for (int i = 0; i < batch; i++)
            e.dim[i] = out.dim[i];
        e.dim[batch] = b.dim[0];
        e.dim[batch + 1] = b.dim[1];
        s->in[1] = view_expand(b, e);
    }
    if (bias) {
        s->start = true;
        s->in[2] = *bias;
    }
}

static void
lower_matmul(Tiles *t, Node *n)
{
    View out = node_place(t, n);
    if (rows_are_unit(&out)) {
        lower_product(t, n, out, NULL, false);
        return;
    }
    View c = temp_new(t, DT_F32, n->shape, n);
    lower_product(t, n, c, NULL, false);
    lower_copy(t, c, out, n);
}

// x @ w + bias: each chain starts from the bias. The sum may be a reshaped product.
static void
lower_biased(Tiles *t, Node *n, Node *m)
{
    bool left = shape_equal(n->in[0]->shape, n->shape) && (n->in[0] == m || n->in[0]->op == OP_RESHAPE) &&
                INFO(n->in[0])->virt;
    Node *e = left ? n->in[1] : n->in[0];
    View bias = view_unit(t, node_vector(t, e), e);
    View place = node_place(t, n), out;
    if (view_reshape(place, m->shape, &out) && rows_are_unit(&out)) {
        lower_product(t, m, out, &bias, false);
        return;
    }
    View c = temp_new(t, DT_F32, m->shape, n), back;
    lower_product(t, m, c, &bias, false);
    view_reshape(c, n->shape, &back);
    lower_copy(t, back, place, n);
}

// ---- statements on rows ------------------------------------------------------------------------

static Shape
matrix_shape(Shape s)
{
    int64_t cols = s.rank ? s.dim[s.rank - 1] : 1, rows = 1;
    for (int i = 0; i + 1 < s.rank; i++)
        rows *= s.dim[i];
    return (Shape){.rank = 2, .dim = {rows, cols}};
}

// A kernel from matrices to a matrix.
static void
lower_rows(Tiles *t, StmtKind kind, Node *n)
{
    if (shape_size(n->shape) == 0)
        return;
    View in[2];
    for (int k = 0; k < n->n_in; k++)
        in[k] = node_matrix(t, n->in[k]);
    View out = out_begin(t, n, matrix_shape(n->shape));
    Stmt *s = stmt_new(t, kind, n, n->n_in);
    for (int k = 0; k < n->n_in; k++)
        s->in[k] = in[k];
    s->out[0] = out;
    out_end(t, n, out);
}

// Along the last axis; another axis is moved there and back.
static void
lower_softmax(Tiles *t, Node *n)
{
    if (shape_size(n->shape) == 0)
        return;
    int axis = (int)n->a.axis, last = n->shape.rank - 1;
    int64_t order[MAX_RANK];
    for (int i = 0; i <= last; i++)
        order[i] = i;
    order[axis] = last;
    order[last] = axis;
    View x = view_permute(node_value(t, n->in[0]), order), mask = {0};
    Shape moved = view_shape(&x), flat = matrix_shape(moved);
    x = view_matrix(t, x, n->in[0]);
    if (n->n_in > 1) {
        mask = view_permute(view_expand(node_value(t, n->in[1]), n->shape), order);
        mask = view_matrix(t, mask, n->in[1]);
    }
    View out = axis == last ? out_begin(t, n, flat) : temp_new(t, DT_F32, flat, n);
    Stmt *s = stmt_new(t, ST_SOFTMAX, n, n->n_in);
    s->in[0] = x;
    if (n->n_in > 1)
        s->in[1] = mask;
    s->out[0] = out;
    if (axis == last) {
        out_end(t, n, out);
        return;
    }
    View back;
    view_reshape(out, moved, &back);
    lower_copy(t, view_permute(back, order), node_place(t, n), n);
}

// The table [2 rows, width / 2] of a rotation's cosines and sines: in the input record where the
// positions are inputs, once for all rotations that want the same.
static View
turns_table(Tiles *t, Node *n, int64_t rows, int64_t width)
{
    bool prelude = INFO(n->in[1])->prelude;
    for (int i = 0; prelude && i < t->turns.n; i++) {
        const Turns *u = &t->turns.v[i];
        if (u->positions == n->in[1] && u->base == n->a.p && u->width == width)
            return u->table;
    }
    Buf *b = buf_new(t, prelude ? SP_INPUT : SP_SCRATCH, DT_F32, rows * (width / 2) * 2, n);
    b->line = prelude ? TL_GATHER : INFO(n)->line;
    Shape s = {.rank = 2, .dim = {rows * 2, width / 2}};
    Turns made = {n->in[1], n->a.p, width, view_whole(b, s)};
    int region = t->region;
    if (prelude)
        t->region = 0;
    View at = node_vector(t, n->in[1]);
    Stmt *make = stmt_new(t, ST_ROPE_TABLE, n, 1);
    make->in[0] = at;
    make->out[0] = made.table;
    t->region = region;
    if (prelude)
        array_push(&t->mem->perm, &t->turns, made);
    return made.table;
}

static void
lower_rope(Tiles *t, Node *n)
{
    if (shape_size(n->shape) == 0)
        return;
    int64_t width = n->shape.dim[n->shape.rank - 1] / n->a.heads, rows = n->in[1]->shape.dim[0];
    View x = node_matrix(t, n->in[0]);
    View table = {0};
    if (width / 2 > 0 && rows > 0)
        table = turns_table(t, n, rows, width);
    View out = out_begin(t, n, matrix_shape(n->shape));
    Stmt *s = stmt_new(t, ST_ROPE, n, 2);
    s->in[0] = x;
    s->in[1] = table;
    s->out[0] = out;
    out_end(t, n, out);
}

// ---- tables ------------------------------------------------------------------------------------

static View
ids_matrix(Tiles *t, Node *ids)
{
    View v = node_value(t, ids), m;
    Shape s = matrix_shape(ids->shape);
    if (view_reshape(v, s, &m))
        return m;
    View c = temp_new(t, DT_I64, ids->shape, ids);
    lower_copy(t, v, c, ids);
    view_reshape(c, s, &m);
    return m;
}

static void
lower_lookup(Tiles *t, Node *n)
{
    if (shape_size(n->shape) == 0)
        return;
    bool bag = n->op == OP_BAG_MEAN;
    View table = node_matrix(t, n->in[0]);
    View ids = bag ? ids_matrix(t, n->in[1]) : node_vector(t, n->in[1]);
    View out = out_begin(t, n, matrix_shape(n->shape));
    Stmt *s = stmt_new(t, bag ? ST_BAG : ST_EMBED, n, 2);
    s->in[0] = table;
    s->in[1] = ids;
    s->out[0] = out;
    out_end(t, n, out);
}

int
store_new(Tiles *t, int param, int64_t ids, int projection)
{
    int64_t rows = t->g->params[param].shape.dim[0];
    array_push(&t->mem->perm, &t->stores, ((Store){param, ids < rows ? ids : rows, projection}));
    return t->stores.n - 1;
}

static void
lower_store(Tiles *t, Node *n)
{
    bool bag = n->op == OP_ACC_BAG;
    if (shape_size(n->in[0]->shape) == 0 || shape_size(n->in[1]->shape) == 0)
        return;
    View dy = node_matrix(t, n->in[0]);
    View ids = bag ? ids_matrix(t, n->in[1]) : node_vector(t, n->in[1]);
    Stmt *s = stmt_new(t, bag ? ST_ROWS_BAG : ST_ROWS, n, 2);
    s->n_out = 0;
    s->in[0] = dy;
    s->in[1] = ids;
    s->store = store_new(t, (int)n->a.index, shape_size(n->in[1]->shape), 0);
}

// ---- moves, order, chance ----------------------------------------------------------------------

static void
lower_concat(Tiles *t, Node *n)
{
    View whole = node_place(t, n);
    int axis = (int)n->a.axis;
    int64_t start = 0;
    for (int k = 0; k < n->n_in; k++) {
        int64_t count = n->in[k]->shape.dim[axis];
        View part = node_value(t, n->in[k]), to = view_slice(whole, axis, start, count);
        bool there = part.buf == to.buf && part.first == to.first;
        if (!there && view_size(&to) > 0)
            lower_copy(t, part, to, n->in[k]);
        start += count;
    }
}

static void
lower_plain(Tiles *t, StmtKind kind, Node *n)
{
    if (shape_size(n->shape) == 0)
        return;
    View in[3];
    for (int k = 0; k < n->n_in; k++)
        in[k] = node_value(t, n->in[k]);
    View out = node_place(t, n);
    Stmt *s = stmt_new(t, kind, n, n->n_in);
    for (int k = 0; k < n->n_in; k++)
        s->in[k] = in[k];
    s->out[0] = out;
}

// The hash of kept events: twice as many slots as positions, a power of two.
static void
lower_unique(Tiles *t, Node *n)
{
    if (shape_size(n->shape) == 0)
        return;
    int64_t slots = 16;
    while (slots < 2 * n->shape.dim[0])
        slots *= 2;
    View events = node_value(t, n->in[0]), active = node_vector(t, n->in[1]);
    View work = temp_new(t, DT_I64, (Shape){.rank = 1, .dim = {slots + n->shape.dim[0]}}, n);
    View out = node_place(t, n);
    Stmt *s = stmt_new(t, ST_UNIQUE_LAST, n, 2);
    s->in[0] = events;
    s->in[1] = active;
    s->n_out = 2;
    s->out[0] = out;
    s->out[1] = work;
}

static void
lower_argsort(Tiles *t, Node *n)
{
    if (shape_size(n->shape) == 0)
        return;
    View x = node_vector(t, n->in[0]);
    View work = temp_new(t, DT_I64, (Shape){.rank = 1, .dim = {2 * n->shape.dim[0]}}, n);
    View out = node_place(t, n);
    Stmt *s = stmt_new(t, ST_ARGSORT, n, 1);
    s->in[0] = x;
    s->n_out = 2;
    s->out[0] = out;
    s->out[1] = work;
}

// x as [rows, the rest], rows being axis 0 (one row for rank 0 and 1 without row numbers).
static void
lower_chance(Tiles *t, Node *n)
{
    bool drop = n->op == OP_DROPOUT;
    int64_t size = shape_size(n->shape);
    if (size == 0)
        return;
    Node *numbers = n->n_in > drop ? n->in[drop] : NULL;
    int64_t rows = n->shape.rank > 1 || numbers ? n->shape.dim[0] : 1;
    Shape flat = {.rank = 2, .dim = {rows, size / rows}};
    View in[2] = {{0}}, v;
    if (drop) {
        v = node_value(t, n->in[0]);
        if (!view_reshape(v, flat, &in[0]) || !rows_are_unit(&in[0])) {
            View c = copy_of(t, v, n->in[0]);
            view_reshape(c, flat, &in[0]);
        }
    }
    if (numbers)
        in[1] = node_vector(t, numbers);
    View out = out_begin(t, n, flat);
    Stmt *s = stmt_new(t, drop ? ST_DROPOUT : ST_CHANCE, n, 2);
    s->in[0] = in[0];
    s->in[1] = in[1];
    s->out[0] = out;
    out_end(t, n, out);
}

static void
lower_pointwise(Tiles *t, Node *n)
{
    Node *m = n->op == OP_ADD ? bias_product(t, n) : NULL;
    if (INFO(n)->n_term)
        lower_sum(t, n);
    else if (m && INFO(m)->virt)
        lower_biased(t, n, m);
    else
        lower_loop(t, n, node_place(t, n), false);
}

void
lower_node(Tiles *t, Node *n)
{
    if (op_info[n->op].flags & OPF_POINTWISE) {
        lower_pointwise(t, n);
        return;
    }
    switch (n->op) {
    case OP_MATMUL:
        lower_matmul(t, n);
        break;
    case OP_NORMALIZE:
        lower_rows(t, ST_NORMALIZE, n);
        break;
    case OP_NORMALIZE_BACK:
        lower_rows(t, ST_NORMALIZE_BACK, n);
        break;
    case OP_SOFTMAX:
        lower_softmax(t, n);
        break;
    case OP_ROPE:
        lower_rope(t, n);
        break;
    case OP_SUM:
    case OP_MAX:
    case OP_MIN:
    case OP_ANY:
    case OP_ALL:
    case OP_COUNT_TRUE:
    case OP_ARGMAX:
        lower_reduce(t, n, node_place(t, n), false);
        break;
    case OP_EMBED:
    case OP_BAG_MEAN:
        lower_lookup(t, n);
        break;
    case OP_CONCAT:
        lower_concat(t, n);
        break;
    case OP_PAD:
        lower_sum(t, n);
        break;
    case OP_GATHER:
        lower_plain(t, ST_GATHER, n);
        break;
    case OP_SCATTER_ADD:
        lower_plain(t, ST_SCATTER_ADD, n);
        break;
    case OP_ARGSORT:
        lower_argsort(t, n);
        break;
    case OP_UNIQUE_LAST:
        lower_unique(t, n);
        break;
    case OP_DROPOUT:
    case OP_CHANCE:
        lower_chance(t, n);
        break;
    case OP_ATTEND:
    case OP_ATTEND_BACK:
        lower_attend(t, n);
        break;
    case OP_ACC:
    case OP_ACC_TAKE:
        lower_acc(t, n);
        break;
    case OP_PROJECTED:
        lower_projected(t, n);
        break;
    case OP_ACC_PROJECTED:
        lower_acc_projected(t, n);
        break;
    case OP_ACC_ROWS:
    case OP_ACC_BAG:
        lower_store(t, n);
        break;
    default:
        die("%s has no statement", op_info[n->op].name);
    }
}

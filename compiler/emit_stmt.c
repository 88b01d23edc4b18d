// emit_stmt.c - statements other than loops and attention as calls of kernels.

#include "emit.h"

// Distance between rows of a matrix.
static int64_t
ld(const View *v)
{
    return v->rank >= 2 ? v->stride[v->rank - 2] : 0;
}

static int64_t
rows(const View *v)
{
    return v->rank >= 2 ? v->dim[v->rank - 2] : 1;
}

static int64_t
cols(const View *v)
{
    return v->dim[v->rank - 1];
}

// ---- products ----------------------------------------------------------------------------------

static bool
row_major(const View *v)
{
    return v->dim[v->rank - 1] == 1 || v->stride[v->rank - 1] == 1;
}

// Distance between rows of an operand of a product; a column's elements stand a row's distance apart.
static int64_t
operand_ld(const View *v, bool transposed)
{
    int r = v->rank;
    int64_t along = v->stride[r - 1], down = v->stride[r - 2];
    if (transposed)
        return along;
    return v->dim[r - 2] > 1 ? down : v->dim[r - 1]; // rows that are one repeated row: 0
}

// Loops over the leading axes of a product; at: their counters. Whether there are any.
static bool
open_product(Emit *e, const Stmt *s, const char **at)
{
    static const char *const index[] = {"i0", "i1", "i2", NULL, NULL};
    const View *c = &s->out[0];
    bool loops = false;
    for (int k = 0; k < s->batch; k++) {
        if (c->dim[k] == 1)
            continue;
        loops = true;
        put(e, "for (int %s = 0; %s < %D; %s++)\n", index[k], index[k], c->dim[k], index[k]);
        at[k] = index[k];
    }
    return loops;
}

static void
emit_product(Emit *e, const Stmt *s)
{
    const char *at[MAX_RANK] = {0};
    const View *c = &s->out[0], *a = &s->in[0], *b = &s->in[1];
    bool ta = !row_major(a), tb = !row_major(b);
    bool loops = open_product(e, s, at);
    put(e, "%sk_gemm_%s(%D, %D, %D, ", loops ? "    " : "", ta ? "tn" : tb ? "nt" : "nn",
        s->M, s->N, s->K);
    put_at(e, a, at, false);
    put(e, ", %D, ", operand_ld(a, ta));
    put_at(e, b, at, false);
    put(e, ", %D, ", operand_ld(b, tb));
    int64_t ldc = operand_ld(c, false);
    if (s->start) {
        put(e, "%p, 0, ", &s->in[2]);
    } else if (s->add) {
        put_at(e, c, at, false);
        put(e, ", %D, ", ldc);
    } else {
        put(e, "NULL, 0, ");
    }
    put_at(e, c, at, false);
    put(e, ", %D);\n", ldc);
}

// A product whose rows are the samples of a group: of their row, or of the pair they add to an accumulator.
static void
emit_batch_product(Emit *e, const Stmt *s)
{
    const char *at[MAX_RANK] = {0};
    const View *a = &s->in[0], *b = &s->in[1], *c = &s->out[0];
    bool sums = c->buf->space == SP_ACC;
    int64_t lda = record_stride(e->t, a->buf, e->line);
    int64_t ldb = sums ? record_stride(e->t, b->buf, e->line) : operand_ld(b, false);
    int64_t ldc = sums ? operand_ld(c, false) : record_stride(e->t, c->buf, e->line);
    put(e, open_product(e, s, at) ? "    " : "");
    if (sums)
        put(e, "k_gemm_tn(%D, %D, count, ", s->M, s->N);
    else
        put(e, "k_gemm_nn(count, %D, %D, ", s->N, s->K);
    put_at(e, a, at, false);
    put(e, ", %D, ", lda);
    put_at(e, b, at, false);
    put(e, ", %D, ", ldb);
    if (s->start) {
        put(e, "%p, 0, ", &s->in[2]);
    } else if (sums || s->add) {
        bool fresh = sums && c->buf->fresh;
        put(e, fresh ? "k_sum_start(x, s, " : "");
        put_at(e, c, at, false);
        put(e, fresh ? "), %D, " : ", %D, ", ldc);
    } else {
        put(e, "NULL, 0, ");
    }
    put_at(e, c, at, false);
    put(e, ", %D);\n", ldc);
}

static void
emit_batch(Emit *e, const Stmt *s)
{
    if (s->kind == ST_PRODUCT) {
        emit_batch_product(e, s);
        return;
    }
    const View *x = &s->leaf[0].view;
    put(e, "k_col_sum(count, %D, %p, %D, %p, %s);\n", s->out[0].buf->size, x,
        record_stride(e->t, x->buf, e->line), &s->out[0],
        s->out[0].buf->fresh ? "k_sum_goes_on(x, s)" : "1");
}

// ---- rows --------------------------------------------------------------------------------------

static void
emit_normalize(Emit *e, const Stmt *s)
{
    const View *x = &s->in[0], *y = &s->out[0];
    put(e, "k_normalize(%D, %D, %d, %f, %p, %D, %p, %D);\n", rows(x), cols(x),
        (int)s->node->a.keep, s->node->a.p, x, ld(x), y, ld(y));
}

static void
emit_normalize_back(Emit *e, const Stmt *s)
{
    const View *x = &s->in[0], *dy = &s->in[1], *dx = &s->out[0];
    put(e, "k_normalize_back(%D, %D, %d, %f, %p, %D, %p, %D, %p, %D);\n", rows(x), cols(x),
        (int)s->node->a.keep, s->node->a.p, x, ld(x), dy, ld(dy), dx, ld(dx));
}

static void
emit_softmax(Emit *e, const Stmt *s)
{
    const View *x = &s->in[0], *y = &s->out[0];
    put(e, "k_softmax(%D, %D, %p, %D, ", rows(x), cols(x), x, ld(x));
    if (s->n_in > 1)
        put(e, "%p, %D, ", &s->in[1], ld(&s->in[1]));
    else
        put(e, "NULL, 0, ");
    put(e, "%p, %D);\n", y, ld(y));
}

static void
emit_rope(Emit *e, const Stmt *s)
{
    const Node *n = s->node;
    const View *x = &s->in[0], *y = &s->out[0], *table = &s->in[1];
    int64_t width = cols(x) / n->a.heads, half = width / 2;
    if (!table->buf) {
        put(e, "k_copy(%D, %D, %p, %D, %p, %D);\n", rows(x), cols(x), x, ld(x), y, ld(y));
        return;
    }
    View sines = *table;
    sines.first += table->dim[0] / 2 * half;
    put(e, "k_rope_%s(%D, %D, %D, %p, %D, %p, %p, %D, %s, %p, %D);\n",
        n->a.adjacent ? "adjacent" : "halves", rows(x), n->a.heads, width, x, ld(x), table, &sines,
        half, n->a.inverse ? "-1.0f" : "1.0f", y, ld(y));
}

static void
emit_rope_table(Emit *e, const Stmt *s)
{
    const Node *n = s->node;
    int64_t width = n->shape.dim[n->shape.rank - 1] / n->a.heads;
    put(e, "k_rope_table(%D, %D, %g, %p, %D, %p);\n", s->in[0].dim[0], width, n->a.p, &s->in[0],
        s->in[0].stride[0], &s->out[0]);
}

// ---- tables ------------------------------------------------------------------------------------

static void
emit_embed(Emit *e, const Stmt *s)
{
    const View *table = &s->in[0], *ids = &s->in[1], *y = &s->out[0];
    put(e, "k_embed(%D, %D, %$, p[%$], %p, %D, %p, %D);\n", rows(y), cols(y), rows(table),
        (int64_t)table->buf->index, ids, ids->stride[0], y, ld(y));
    e->bases |= 1u << BASE_P;
}

static void
emit_bag(Emit *e, const Stmt *s)
{
    const View *table = &s->in[0], *ids = &s->in[1], *y = &s->out[0];
    put(e, "k_bag(%D, %D, %D, %$, p[%$], %p, %D, %D, %p, %D);\n", rows(y), cols(ids), cols(y),
        rows(table), (int64_t)table->buf->index, ids, ld(ids), ids->stride[1], y, ld(y));
    e->bases |= 1u << BASE_P;
}

static void
emit_store(Emit *e, const Stmt *s)
{
    const View *dy = &s->in[0], *ids = &s->in[1];
    const Param *p = &e->t->g->params[s->node->a.index];
    if (s->kind == ST_ROWS)
        put(e, "k_store_rows(%D, %D, %$, %d, %p, %D, %p, %D, &x->stores[%$]);\n", rows(dy), cols(dy),
            p->shape.dim[0], (int)p->padding, dy, ld(dy), ids, ids->stride[0], (int64_t)s->store);
    else
        put(e, "k_store_bags(%D, %D, %D, %$, %p, %D, %p, %D, %D, &x->stores[%$]);\n", rows(dy),
            cols(ids), cols(dy), p->shape.dim[0], dy, ld(dy), ids, ld(ids), ids->stride[1],
            (int64_t)s->store);
}

// ---- moves and order ---------------------------------------------------------------------------

static const char *const loop_index[] = {"i0", "i1", "i2", "i3", "i4"};

static void
open_loops(Emit *e, const View *v, int from, int to, int *depth)
{
    for (int k = from; k < to; k++) {
        if (v->dim[k] == 1)
            continue;
        for (int d = 0; d < *depth; d++)
            put(e, "    ");
        put(e, "for (int %s = 0; %s < %D; %s++) {\n", loop_index[k], loop_index[k], v->dim[k],
            loop_index[k]);
        ++*depth;
    }
}

static void
close_loops(Emit *e, int *depth, int to)
{
    while (*depth > to) {
        --*depth;
        for (int d = 0; d < *depth; d++)
            put(e, "    ");
        put(e, "}\n");
    }
}

// big and small differ along the axis: small's positions there (or the one place where the axis is
// dropped) stand at ids of big.
static void
emit_gather_loops(Emit *e, const View *big, View small, const View *ids, int axis, const char *how)
{
    if (ids->rank == 0) { // the axis is dropped: give it back
        for (int k = small.rank; k > axis; k--) {
            small.dim[k] = small.dim[k - 1];
            small.stride[k] = small.stride[k - 1];
        }
        small.dim[axis] = 1;
        small.stride[axis] = 0;
        small.rank++;
    }
    int depth = 1, rank = small.rank;
    put(e, "{\n");
    open_loops(e, &small, 0, axis + 1, &depth);
    for (int d = 0; d < depth; d++)
        put(e, "    ");
    const char *at[MAX_RANK] = {loop_index[axis]};
    put(e, "const int64_t row = k_clamp(");
    put_at(e, ids, at, true);
    put(e, ", %D);\n", big->dim[axis]);
    const char *inner[MAX_RANK], *outer[MAX_RANK];
    for (int k = 0; k < MAX_RANK; k++)
        inner[k] = outer[k] = loop_index[k];
    outer[axis] = "row";
    open_loops(e, &small, axis + 1, rank, &depth);
    for (int d = 0; d < depth; d++)
        put(e, "    ");
    // extents of 1 are no loops, but the gathered axis is indexed all the same
    View b = *big;
    if (b.dim[axis] == 1)
        b.stride[axis] = 0;
    bool scatter = how[0] == '+';
    put_at(e, scatter ? &b : &small, scatter ? outer : inner, true);
    put(e, " %s ", how);
    put_at(e, scatter ? &small : &b, scatter ? inner : outer, true);
    put(e, ";\n");
    close_loops(e, &depth, 1);
    put(e, "}\n");
}

static void
emit_zero(Emit *e, View v)
{
    View *list[] = {&v};
    view_collapse(list, 1, NULL);
    if (v.rank == 1 && v.stride[0] <= 1) {
        const char *type = v.buf->type == DT_F32   ? "float"
                           : v.buf->type == DT_I64 ? "int64_t"
                                                   : "uint8_t";
        put(e, "memset(%p, 0, %D * sizeof(%s));\n", &v, v.dim[0], type);
        return;
    }
    if (v.rank == 2 && v.stride[1] == 1 && v.buf->type == DT_F32) {
        put(e, "k_fill(%D, %D, 0.0f, %p, %D);\n", v.dim[0], v.dim[1], &v, v.stride[0]);
        return;
    }
    int depth = 0;
    open_loops(e, &v, 0, v.rank, &depth);
    for (int d = 0; d < depth; d++)
        put(e, "    ");
    put_at(e, &v, loop_index, true);
    put(e, " = 0;\n");
    close_loops(e, &depth, 0);
}

static void
emit_gather(Emit *e, const Stmt *s)
{
    int axis = (int)s->node->a.axis;
    if (s->kind == ST_GATHER) {
        emit_gather_loops(e, &s->in[0], s->out[0], &s->in[1], axis, "=");
        return;
    }
    emit_zero(e, s->out[0]);
    emit_gather_loops(e, &s->out[0], s->in[0], &s->in[1], axis, "+=");
}

static void
emit_argsort(Emit *e, const Stmt *s)
{
    const View *x = &s->in[0], *y = &s->out[0];
    put(e, "k_argsort_%s(%D, %p, %D, %p, %D, %p);\n", x->buf->type == DT_F32 ? "f32" : "i64",
        x->dim[0], x, x->stride[0], y, y->stride[0], &s->out[1]);
}

static void
emit_unique(Emit *e, const Stmt *s)
{
    const View *ev = &s->in[0], *on = &s->in[1], *y = &s->out[0];
    int64_t length = y->dim[0];
    put(e, "k_unique_last(%D, %D, %p, %D, %D, %p, %D, %p, %D, %p, %D);\n", ev->dim[0], length, ev,
        ev->stride[0], ev->stride[1], on, on->stride[0], y, y->stride[0], &s->out[1],
        s->out[1].buf->size - length);
}

// ---- chance ------------------------------------------------------------------------------------

static void
emit_chance(Emit *e, const Stmt *s)
{
    const Node *n = s->node;
    const View *y = &s->out[0], *x = &s->in[0], *at = &s->in[1];
    bool drop = s->kind == ST_DROPOUT;
    double p = n->a.p;
    put(e, "k_%s_rows(x, k_site(x, s, %$, %D, %f), %D, %D, %D", drop ? "dropout" : "chance",
        (int64_t)n->a.site, (int64_t)(65536.0 * p + 0.5), p < 1.0 ? 1.0 / (1.0 - p) : 0.0, rows(y),
        cols(y), n->a.first);
    if (e->strip && !at->buf) { // the rows before this strip
        if (e->strip->outer > 1)
            put(e, " + %D * o0", n->a.pitch * e->strip->rows);
        put(e, " + %D * r0", n->a.pitch);
    }
    put(e, ", %D, ", n->a.pitch);
    if (at->buf)
        put(e, "%p, %D, ", at, at->stride[0]);
    else
        put(e, "NULL, 0, ");
    if (drop)
        put(e, "%p, %D, ", x, ld(x));
    put(e, "%p, %D);\n", y, ld(y));
}

void
emit_stmt(Emit *e, const Stmt *s)
{
    if (s->batched) {
        emit_batch(e, s);
        put_end(e, s);
        return;
    }
    bool wanted = s->n_out > 0 && s->out[0].buf->space == SP_EMBEDDING;
    put(e, wanted ? "if (embedding)\n    " : "");
    switch (s->kind) {
    case ST_LOOP: emit_loop(e, s); break;
    case ST_ZERO: emit_zero(e, s->out[0]); break;
    case ST_PRODUCT: emit_product(e, s); break;
    case ST_NORMALIZE: emit_normalize(e, s); break;
    case ST_NORMALIZE_BACK: emit_normalize_back(e, s); break;
    case ST_SOFTMAX: emit_softmax(e, s); break;
    case ST_ROPE: emit_rope(e, s); break;
    case ST_ROPE_TABLE: emit_rope_table(e, s); break;
    case ST_GATHER:
    case ST_SCATTER_ADD: emit_gather(e, s); break;
    case ST_EMBED: emit_embed(e, s); break;
    case ST_BAG: emit_bag(e, s); break;
    case ST_ROWS:
    case ST_ROWS_BAG: emit_store(e, s); break;
    case ST_PROJECTED: emit_projected(e, s); break;
    case ST_ROWS_PROJECTED: emit_rows_projected(e, s); break;
    case ST_ARGSORT: emit_argsort(e, s); break;
    case ST_UNIQUE_LAST: emit_unique(e, s); break;
    case ST_DROPOUT:
    case ST_CHANCE: emit_chance(e, s); break;
    case ST_ATTEND:
    case ST_ATTEND_BACK: emit_attend(e, s); break;
    }
    put_end(e, s);
}

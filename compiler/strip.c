// strip.c - statements that work row by row walk the rows together, a strip at a time.
//
// A chain such as lookup, product, norm, product, with its backward pass, reads and writes matrices of as
// many rows as a sequence has events. Statement by statement those matrices leave the cache; walked in
// strips of some rows, what only the chain sees is as large as a strip and stays in it.
//
// Statements form a strip if all can be cut along the same rows, and each reads of what another writes
// only the row that it works on itself. Cutting changes no bit: a row's values are computed as before;
// a product or sum over rows that adds to an accumulator meets them in the same order, its chain passing
// through the accumulator between two strips; row stores get their rows in the same order.
//
// Needs: what each statement must follow.  Leaves: strips side by side.

#include "phase.h"

#include <string.h>

enum {
    ROWS_LEAST = 96,           // fewer are not worth a loop
    STEP_LEAST = 24,
    STRIP_BYTES = 256 << 10,   // of what lives inside of a strip,
    STRIP_BYTES_MANY = 768 << 10, // and where the weights would not stay beside it:
    WEIGHTS_MANY = 512 << 10,  // fewer strips read them less often
    STRIP_WEIGHTS = 4 << 20,   // weights and accumulators that all strips pass
};

typedef struct Key {
    int64_t outer, rows;
} Key;

// How the views of a strip see a buffer.
typedef struct Layout {
    int touches;
    bool written, whole;       // whole: some view does not move with the rows
    bool first_adds;           // the first touch is not a plain write
    int64_t row, outer;        // distances, where all agree
    int64_t from, to;          // elements of row 0, from inclusive
} Layout;

typedef struct Strips {
    Phaser *p;
    Array(Key) keys;
    Layout *layout;            // [bufs] of the strip being formed
    Array(Layout) saved;       // of the buffers of one statement
    bool *member;              // [n]
    bool *refused;             // [n] must follow one that cannot be in the strip
    bool forming;              // else cut as they were formed
    int64_t weights;           // bytes, which limit what is taken in while forming
    Array(int) members;
} Strips;

enum { WHOLE = -1, VIEWS_MOST = 64 };

// ---- views of a statement ----------------------------------------------------------------------

static int
n_views(const Stmt *s)
{
    return s->n_out + s->n_in + s->n_leaf;
}

static View *
view_of(Stmt *s, int i)
{
    if (i < s->n_out)
        return &s->out[i];
    i -= s->n_out;
    return i < s->n_in ? &s->in[i] : &s->leaf[i - s->n_in].view;
}

// Axes of outer positions: those of a batch of products, or all before the rows.
static int
outer_axes(const Stmt *s, int axis)
{
    return s->kind == ST_PRODUCT && s->batch < axis ? s->batch : axis;
}

// Distance between outer positions of a view, whose axes are its first n; false if it is not even.
static bool
outer_distance(const View *v, int n, int axis, Key key, int64_t *distance)
{
    int last = -1;
    *distance = 0;
    for (int k = n - 1; k >= 0; k--) {
        if (v->dim[k] == 1)
            continue;
        if (last >= 0 && v->stride[k] != v->stride[last] * v->dim[last])
            return false;
        if (last < 0)
            *distance = v->stride[k];
        last = k;
    }
    if (last < 0 && key.outer > 1 && v->dim[axis] == key.outer * key.rows)
        *distance = v->stride[axis] * key.rows;
    else if (last < 0)
        return key.outer == 1;
    return true;
}

// The axis of the rows: behind axes of outer positions, or both in one.
static int
row_axis(Shape s, Key key)
{
    int64_t before = 1;
    for (int k = 0; k < s.rank; k++) {
        if (before == key.outer && s.dim[k] == key.rows)
            return k;
        if (before == 1 && s.dim[k] == key.outer * key.rows)
            return k;
        before *= s.dim[k];
    }
    return WHOLE;
}

// ---- which statements can be cut ---------------------------------------------------------------

static bool
loop_rows(const Stmt *s, Key key, int *axis)
{
    int k = row_axis(s->iter, key);
    if (k == WHOLE || k == s->iter.rank - 1) // columns may be as many as rows
        return false;
    if (s->reduce) {
        bool over = s->axes[k];
        for (int j = 0; j < k; j++) // outer positions are added up with the rows, or not at all
            if (s->iter.dim[j] != 1 && s->axes[j] && !over)
                return false;
        int last = s->iter.rank - 1;
        if (over && (!s->add || !s->vector || last == k || s->axes[last] || s->iter.dim[last] == 1))
            return false;
    }
    for (int i = 0; i < n_views(s); i++)
        axis[i] = k;
    return true;
}

static int64_t
outer_of_product(const Stmt *s)
{
    int64_t outer = 1;
    for (int k = 0; k < s->batch; k++)
        outer *= s->out[0].dim[k];
    return outer;
}

static bool
fits(int64_t outer, int64_t rows, Key key)
{
    return (outer == key.outer && rows == key.rows) || (outer == 1 && rows == key.outer * key.rows);
}

// Rows of the result, or rows that the product adds up in an accumulator.
static bool
product_rows(const Stmt *s, Key key, int *axis)
{
    int64_t outer = outer_of_product(s);
    if (fits(outer, s->M, key) && s->out[0].buf->space != SP_ACC) {
        axis[0] = axis[1] = s->batch;
        axis[2] = s->batch && key.outer > 1 ? s->batch : WHOLE; // moves with the outer position only
        if (s->n_in > 2)
            axis[3] = WHOLE;
        return true;
    }
    if (s->out[0].buf->space == SP_ACC && s->add && fits(outer, s->K, key)) {
        axis[0] = s->batch && key.outer > 1 ? s->batch : WHOLE;
        axis[1] = s->batch + 1;
        axis[2] = s->batch;
        return true;
    }
    return false;
}

// Axis of the rows for each view, or WHOLE; false if the statement cannot be cut along such rows.
static bool
stmt_rows(Stmt *s, Key key, int *axis)
{
    int64_t all = key.outer * key.rows;
    if (n_views(s) > VIEWS_MOST || (s->n_out && s->out[0].buf->space == SP_EMBEDDING))
        return false;
    for (int i = 0; i < n_views(s); i++)
        axis[i] = WHOLE;
    switch (s->kind) {
    case ST_LOOP:
        return loop_rows(s, key, axis);
    case ST_PRODUCT:
        return !stmt_is_batch(s) && product_rows(s, key, axis);
    case ST_NORMALIZE:
    case ST_NORMALIZE_BACK:
    case ST_SOFTMAX:
        for (int i = 0; i < n_views(s); i++)
            axis[i] = 0;
        return s->out[0].rank == 2 && s->out[0].dim[0] == all;
    case ST_ROPE:
        axis[0] = axis[1] = axis[2] = 0;
        return key.outer == 1 && s->out[0].rank == 2 && s->out[0].dim[0] == all && s->in[1].buf;
    case ST_EMBED:
    case ST_BAG:
        axis[0] = axis[2] = 0;
        return s->out[0].rank == 2 && s->out[0].dim[0] == all;
    case ST_GATHER: // from all rows of what is not of the strip
        axis[0] = axis[2] = 0;
        return s->node->a.axis == 0 && s->out[0].rank == 2 && s->in[1].rank == 1 && s->out[0].dim[0] == all;
    case ST_ROWS:
    case ST_ROWS_BAG:
        axis[0] = axis[1] = 0;
        return s->in[0].rank == 2 && s->in[0].dim[0] == all;
    case ST_PROJECTED: // tables, ids, what they are added to
        for (int i = 0; i < n_views(s); i++)
            axis[i] = i == 0 || i > s->node->a.n_list ? 0 : WHOLE;
        return s->out[0].rank == 2 && s->out[0].dim[0] == all;
    case ST_ROWS_PROJECTED:
        axis[0] = axis[1] = 0;
        return s->in[0].rank == 2 && s->in[0].dim[0] == all;
    case ST_DROPOUT:
    case ST_CHANCE:
        for (int i = 0; i < n_views(s); i++)
            axis[i] = 0;
        return s->out[0].rank == 2 && s->out[0].dim[0] == all;
    default:
        return false;
    }
}

// A weight of a product, or an accumulator, moves with the outer position alone.
static bool
moves_with_rows(const Stmt *s, int i)
{
    bool weight = s->kind == ST_PRODUCT &&
                  ((i == 2 && s->out[0].buf->space != SP_ACC) || (i == 0 && s->out[0].buf->space == SP_ACC));
    return !weight;
}

// Distances of view i of a statement; false where outer positions are not even. The table of a rotation holds
// the cosines of all rows, then the sines.
static bool
view_steps(Stmt *s, int i, int axis, Key key, int64_t *row, int64_t *outer)
{
    const View *v = view_of(s, i);
    *row = *outer = 0;
    if (axis == WHOLE)
        return true;
    if (s->kind == ST_ROPE && i == 2) {
        *row = v->dim[1];
        return true;
    }
    if (!outer_distance(v, outer_axes(s, axis), axis, key, outer))
        return false;
    *row = moves_with_rows(s, i) ? v->stride[axis] : 0;
    return true;
}

// ---- forming a strip ---------------------------------------------------------------------------

static bool
is_weight_view(const View *v)
{
    return v->buf->space == SP_PARAM || v->buf->space == SP_PACKED || v->buf->space == SP_ACC;
}

static bool
writes(const Stmt *s, int i)
{
    return i < s->n_out;
}

// Adds a view to the layout of its buffer; whether every statement still meets its own rows only.
static bool
layout_add(Layout *l, const Stmt *s, int i, const View *v, int axis, int64_t row, int64_t outer)
{
    int64_t from = v->first, to = v->first + 1;
    for (int k = axis == WHOLE ? v->rank : outer_axes(s, axis); k < v->rank; k++)
        to += k == axis ? 0 : (v->dim[k] - 1) * v->stride[k];
    if (l->touches++ == 0) {
        *l = (Layout){.touches = 1, .row = row, .outer = outer, .from = from, .to = to};
        l->first_adds = !writes(s, i) || s->add;
    }
    l->written |= writes(s, i);
    l->whole |= axis == WHOLE || row <= 0 || row != l->row || outer != l->outer;
    l->from = from < l->from ? from : l->from;
    l->to = to > l->to ? to : l->to;
    if (!l->written)
        return true;
    if (v->buf->space == SP_ACC)
        return l->touches == 1;
    return !l->whole && l->to - l->from <= l->row;
}

// Rows of different outer positions must not meet either.
static bool
layout_apart(const Layout *l, Key key)
{
    return !l->written || key.outer == 1 || l->outer >= key.rows * l->row;
}

static bool
follows_member(const Strips *f, int at)
{
    const Ints *needs = &f->p->needs[at];
    for (int k = 0; k < needs->n; k++)
        if (f->member[needs->v[k]])
            return true;
    return false;
}

// Takes a statement in, by itself.
static bool
join(Strips *f, int at, Key key)
{
    Phaser *p = f->p;
    Stmt *s = p->stmt[at];
    int axis[VIEWS_MOST];
    if (!stmt_rows(s, key, axis))
        return false;
    int n = n_views(s), done = 0;
    bool ok = true;
    int64_t weights = 0;
    f->saved.n = 0;
    for (; done < n && ok; done++) {
        const View *v = view_of(s, done);
        array_push(p->a, &f->saved, v->buf ? f->layout[v->buf->id] : (Layout){0});
        if (!v->buf)
            continue;
        Layout *l = &f->layout[v->buf->id];
        if (l->touches == 0 && is_weight_view(v) && s->kind == ST_PRODUCT)
            weights += view_size(v) * 4 / (axis[done] == WHOLE ? 1 : key.outer);
        int64_t row, outer;
        ok = view_steps(s, done, axis[done], key, &row, &outer) &&
             layout_add(l, s, done, v, axis[done], row, outer) &&
             (v->buf->space == SP_ACC || layout_apart(l, key));
    }
    if (ok &&
        (!f->forming || f->members.n == 0 || f->weights + weights <= STRIP_WEIGHTS)) {
        f->weights += weights;
        f->member[at] = true;
        array_push(p->a, &f->members, at);
        return true;
    }
    while (done-- > 0)
        if (view_of(s, done)->buf)
            f->layout[view_of(s, done)->buf->id] = f->saved.v[done];
    return false;
}

// Takes a statement in with all it must follow that does not stand before the strip. Unless `alone` it must
// work on what one that is in leaves.
static bool
join_chain(Strips *f, int at, int first, Key key, bool alone)
{
    const Ints *needs = &f->p->needs[at];
    int axis[VIEWS_MOST];
    if (f->p->done[at] || f->refused[at] || !(alone || follows_member(f, at)) ||
        !stmt_rows(f->p->stmt[at], key, axis))
        return false;
    for (int k = 0; k < needs->n; k++) {
        int need = needs->v[k];
        if (need >= first && !f->member[need] && !f->p->done[need] &&
            !join_chain(f, need, first, key, true)) {
            f->refused[at] = true;
            return false;
        }
    }
    return join(f, at, key);
}

static bool
is_local(const Strips *f, const Buf *b)
{
    const Layout *l = &f->layout[b->id];
    return b->space == SP_SCRATCH && l->written && !l->whole && !l->first_adds &&
           l->touches == f->p->touches[b->id];
}

static void
clear_strip(Strips *f)
{
    for (int k = 0; k < f->members.n; k++) {
        Stmt *s = f->p->stmt[f->members.v[k]];
        f->member[f->members.v[k]] = false;
        for (int i = 0; i < n_views(s); i++)
            if (view_of(s, i)->buf)
                f->layout[view_of(s, i)->buf->id] = (Layout){0};
    }
    f->members.n = 0;
    f->weights = 0;
}

// Bytes a row of what lives inside of the strip, where most is alive.
static int64_t
local_bytes(const Strips *f)
{
    Arena *a = f->p->a;
    int n = f->members.n;
    int *first = arena_array(a, int, f->p->t->bufs.n), *last = arena_array(a, int, f->p->t->bufs.n);
    int64_t *change = arena_array(a, int64_t, n + 2), most = 0, now = 0;
    for (int k = 0; k < n; k++) {
        Stmt *s = f->p->stmt[f->members.v[k]];
        for (int i = 0; i < n_views(s); i++) {
            const Buf *b = view_of(s, i)->buf;
            if (!b || !is_local(f, b))
                continue;
            if (!first[b->id])
                first[b->id] = k + 1;
            last[b->id] = k + 1;
        }
    }
    for (int i = 0; i < f->p->t->bufs.n; i++) {
        change[first[i]] += first[i] ? f->layout[i].row * 4 : 0;
        change[last[i] ? last[i] + 1 : 0] -= last[i] ? f->layout[i].row * 4 : 0;
    }
    for (int k = 1; k <= n; k++) {
        now += change[k];
        most = now > most ? now : most;
    }
    return most;
}

// Rows of a strip: the largest divisor for which what lives inside stays in the cache; 0: none.
static int64_t
choose_step(const Graph *g, Key key, int64_t row_bytes, int64_t weights)
{
    int64_t bytes = weights > WEIGHTS_MANY ? STRIP_BYTES_MANY : STRIP_BYTES;
    if (g->strip_bytes)
        bytes = g->strip_bytes;
    int64_t least = g->strip_bytes ? 2 : STEP_LEAST;
    int64_t most = row_bytes ? bytes / row_bytes : 0;
    if (most >= key.rows)
        return key.outer > 1 ? key.rows : 0;
    for (int64_t step = most > least ? most : least; step >= least; step--)
        if (key.rows % step == 0)
            return step;
    for (int64_t step = least; step < key.rows && row_bytes; step++)
        if (key.rows % step == 0)
            return step;
    return 0;
}

static const Strip *
try_strip(Strips *f, int first, Key key)
{
    Phaser *p = f->p;
    clear_strip(f);
    memset(f->refused, 0, (size_t)p->n * sizeof *f->refused);
    if (!join(f, first, key))
        return NULL;
    bool passed = false; // something that stays behind: recomputed values wait there until they are needed
    for (int i = first + 1; i < p->n; i++) {
        bool waits = passed && p->stmt[i]->node && p->stmt[i]->node->part == PART_RECOMPUTE;
        if (!f->member[i] && !p->done[i])
            passed |= waits || !join_chain(f, i, first, key, false);
    }
    int64_t step = f->members.n > 1 ? choose_step(p->t->g, key, local_bytes(f), f->weights) : 0;
    if (step == 0)
        return NULL;
    Strip *strip = arena_new(&p->t->mem->perm, Strip);
    *strip = (Strip){key.outer, key.rows, step};
    return strip;
}

// ---- keys --------------------------------------------------------------------------------------

static void
add_key(Strips *f, int64_t outer, int64_t rows)
{
    const Graph *g = f->p->t->g;
    if (rows < (g->strip_rows ? g->strip_rows : ROWS_LEAST))
        return;
    for (int i = 0; i < f->keys.n; i++)
        if (f->keys.v[i].outer == outer && f->keys.v[i].rows == rows)
            return;
    array_push(f->p->a, &f->keys, (Key){outer, rows});
    for (int i = f->keys.n - 1; i > 0 && f->keys.v[i - 1].outer < outer; i--) {
        f->keys.v[i] = f->keys.v[i - 1];
        f->keys.v[i - 1] = (Key){outer, rows};
    }
}

// Rows are those of products; more outer positions first.
static void
find_keys(Strips *f)
{
    for (int i = 0; i < f->p->n; i++) {
        const Stmt *s = f->p->stmt[i];
        if (s->kind != ST_PRODUCT)
            continue;
        add_key(f, outer_of_product(s), s->out[0].buf->space == SP_ACC ? s->K : s->M);
    }
}

bool
form_strips(Phaser *p)
{
    Strips f = {.p = p, .forming = true};
    f.layout = arena_array(p->a, Layout, p->t->bufs.n);
    f.member = arena_array(p->a, bool, p->n);
    f.refused = arena_array(p->a, bool, p->n);
    find_keys(&f);
    if (f.keys.n == 0)
        return false;
    Array(Stmt *) order = {0};
    memset(p->done, 0, (size_t)p->n * sizeof *p->done);
    bool any = false;
    for (int i = 0; i < p->n; i++) {
        if (p->done[i])
            continue;
        const Strip *strip = NULL;
        for (int k = 0; k < f.keys.n && !strip; k++)
            strip = try_strip(&f, i, f.keys.v[k]);
        any |= strip != NULL;
        if (!strip) {
            p->done[i] = true;
            array_push(p->a, &order, p->stmt[i]);
            continue;
        }
        for (int k = 0; k < f.members.n; k++) {
            Stmt *s = p->stmt[f.members.v[k]];
            s->strip = strip;
            p->done[f.members.v[k]] = true;
            array_push(p->a, &order, s);
        }
    }
    clear_strip(&f);
    memcpy(p->stmt, order.v, (size_t)p->n * sizeof *p->stmt);
    return any;
}

// ---- narrowing ---------------------------------------------------------------------------------

static void
narrow_view(View *v, int n, int axis, int64_t step, int64_t row, int64_t outer, const Layout *local)
{
    for (int k = 0; k < n; k++) {
        v->dim[k] = 1;
        v->stride[k] = 0;
    }
    v->dim[axis] = step;
    if (local) {
        v->first -= local->from / local->row * local->row;
        return;
    }
    v->row_step = row;
    v->outer_step = outer;
}

static void
narrow_stmt(Strips *f, Stmt *s, Key key, int64_t step)
{
    int axis[VIEWS_MOST];
    if (!stmt_rows(s, key, axis))
        die("a statement of a strip cannot be cut");
    bool product = s->kind == ST_PRODUCT, sums = product && s->out[0].buf->space == SP_ACC;
    int64_t row[VIEWS_MOST], outer[VIEWS_MOST];
    for (int i = 0; i < n_views(s); i++)
        if (view_of(s, i)->buf && !view_steps(s, i, axis[i], key, &row[i], &outer[i]))
            die("a view of a strip is not even");
    for (int i = 0; i < n_views(s); i++) {
        View *v = view_of(s, i);
        if (!v->buf || axis[i] == WHOLE)
            continue;
        int n = outer_axes(s, axis[i]);
        if (s->kind == ST_ROPE && i == 2) {
            v->row_step = row[i];
        } else if (!moves_with_rows(s, i)) { // a weight of each outer position
            narrow_view(v, n, axis[i], v->dim[axis[i]], 0, outer[i], NULL);
        } else {
            bool local = is_local(f, v->buf);
            narrow_view(v, n, axis[i], step, row[i], outer[i],
                        local ? &f->layout[v->buf->id] : NULL);
        }
    }
    if (s->kind == ST_LOOP) {
        int k = row_axis(s->iter, key);
        for (int j = 0; j < k; j++)
            s->iter.dim[j] = 1;
        s->iter.dim[k] = step;
    } else if (product) {
        *(sums ? &s->K : &s->M) = step;
    }
}

static void
narrow(Strips *f, int first, int n)
{
    Phaser *p = f->p;
    const Strip *strip = p->stmt[first]->strip;
    Key key = {strip->outer, strip->rows};
    clear_strip(f);
    for (int i = first; i < first + n; i++)
        if (!join(f, i, key))
            die("a strip falls apart");
    for (int i = first; i < first + n; i++)
        narrow_stmt(f, p->stmt[i], key, strip->step);
    for (int i = first; i < first + n; i++)
        for (int k = 0; k < n_views(p->stmt[i]); k++) {
            Buf *b = view_of(p->stmt[i], k)->buf;
            if (!b || b->in_strip || !is_local(f, b))
                continue;
            b->in_strip = true;
            b->size = f->layout[b->id].row * strip->step;
        }
}

void
narrow_strips(Phaser *p)
{
    Strips f = {.p = p};
    f.layout = arena_array(p->a, Layout, p->t->bufs.n);
    f.member = arena_array(p->a, bool, p->n);
    for (int i = 0, n; i < p->n; i += n) {
        n = 1;
        while (p->stmt[i]->strip && i + n < p->n && p->stmt[i + n]->strip == p->stmt[i]->strip)
            n++;
        if (p->stmt[i]->strip)
            narrow(&f, i, n);
    }
}

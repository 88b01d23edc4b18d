// phase.c - cuts regions into phases: loops over the samples of a group, and statements on all of them.
//
// A product of one row by a weight reads the weight for two operations an element. Run for a group of
// samples at once, its rows are the samples, and the weight is read once. So a region becomes an
// alternation of phases: "sample" phases, walked once a sample, and "batch" phases. Sample phases are cut
// where the weights and accumulators they touch outgrow the cache, so that those stay in it while the
// samples of the group pass. None of it changes a bit: each element of a product keeps its chain, each
// accumulator gets its addends sample by sample, whatever the group.
//
// Recomputed values wait until something of a phase needs them; statements of a strip stay together.
//
// Needs: statements in an order that respects what they read.  Leaves: statements grouped by phase and strip.

#include "phase.h"

#include <string.h>

enum { WEIGHT_LIMIT = 448 * 1024 }; // bytes of weights and accumulators of a sample phase

// ---- what can run for many samples at once -----------------------------------------------------

static bool
is_record(const Buf *b)
{
    return b && b->type == DT_F32 &&
           (b->space == SP_SCRATCH || b->space == SP_CHUNK || b->space == SP_KEPT ||
            b->space == SP_INPUT || b->space == SP_DLOGITS);
}

static bool
is_weight(const Buf *b)
{
    return b && (b->space == SP_PARAM || b->space == SP_PACKED);
}

static bool
unit_row(const View *v)
{
    return v->dim[v->rank - 1] == 1 || v->stride[v->rank - 1] == 1;
}

// One row times a weight, or the product of two rows of a sample added to an accumulator; of each column where
// weights and rows have leading axes.
bool
stmt_is_batch(const Stmt *s)
{
    if (s->kind == ST_LOOP && s->add && s->out[0].buf->space == SP_ACC && s->n_expr == 0 &&
        !s->reduce && s->n_leaf == 1 && is_record(s->leaf[0].view.buf))
        return view_contiguous(&s->leaf[0].view) && view_contiguous(&s->out[0]);
    if (s->kind != ST_PRODUCT || s->N < 2)
        return false;
    const View *a = &s->in[0], *b = &s->in[1], *c = &s->out[0];
    if (!is_record(a->buf))
        return false;
    if (s->M == 1 && is_weight(b->buf) && is_record(c->buf))
        return unit_row(a) && unit_row(b) && unit_row(c) && (!s->start || is_weight(s->in[2].buf)) &&
               (s->K == 1 || a->stride[a->rank - 1] == 1);
    return s->K == 1 && s->M > 1 && c->buf->space == SP_ACC && s->add && is_record(b->buf) &&
           a->stride[a->rank - 2] == 1 && unit_row(b);
}

// ---- dependencies ------------------------------------------------------------------------------

// A sum over no rows still writes: axes of stride 0 do not make a view empty.
static bool
is_empty(const View *v)
{
    bool empty = false;
    for (int k = 0; k < v->rank; k++)
        empty |= v->dim[k] == 0 && v->stride[k] != 0;
    return empty;
}

static void
add_touch(Phaser *p, Touches *of, const View *v, int stmt, bool write)
{
    const Buf *b = v->buf;
    if (!b || b->space == SP_PARAM || b->space == SP_PACKED || b->space == SP_CONST ||
        b->space == SP_RAW || is_empty(v))
        return;
    const int64_t to = view_last(v);
    Touches *list = &of[b->id];
    for (int i = 0; i < list->n; i++) {
        const Touch *o = &list->v[i];
        if (o->stmt != stmt && (o->write || write) && o->from <= to && v->first <= o->to)
            array_push(p->a, &p->needs[stmt], o->stmt);
    }
    array_push(p->a, list, (Touch){stmt, v->first, to, write});
}

static void
find_needs(Phaser *p)
{
    Touches *of = arena_array(p->a, Touches, p->t->bufs.n);
    for (int i = 0; i < p->n; i++) {
        Stmt *s = p->stmt[i];
        for (int k = 0; k < s->n_in; k++)
            add_touch(p, of, &s->in[k], i, false);
        for (int k = 0; k < s->n_leaf; k++)
            add_touch(p, of, &s->leaf[k].view, i, false);
        for (int k = 0; k < s->n_out; k++)
            add_touch(p, of, &s->out[k], i, true);
        if (s->kind == ST_ATTEND || s->kind == ST_ATTEND_BACK) // work memory and mask are written
            for (int k = s->n_in - 2; k < s->n_in; k++)
                add_touch(p, of, &s->in[k], i, true);
    }
}

// ---- order -------------------------------------------------------------------------------------

static void
emit_with_needs(Phaser *p, int i)
{
    if (p->done[i])
        return;
    p->done[i] = true;
    for (int k = 0; k < p->needs[i].n; k++)
        emit_with_needs(p, p->needs[i].v[k]);
    array_push(p->a, &p->order, p->stmt[i]);
}

static bool
is_recomputed(const Stmt *s)
{
    return s->node && s->node->part == PART_RECOMPUTE;
}

// What is recomputed stands just before its first use.
static void
sink_recomputed(Phaser *p)
{
    for (int i = 0; i < p->n; i++)
        if (!is_recomputed(p->stmt[i]))
            emit_with_needs(p, i);
    for (int i = 0; i < p->n; i++)
        emit_with_needs(p, i);
    memcpy(p->stmt, p->order.v, (size_t)p->n * sizeof *p->stmt);
}

// Statements of the strip that begins at i, or 1.
static int
unit_size(const Phaser *p, int i)
{
    int n = 1;
    const Strip *strip = p->stmt[i]->strip;
    while (strip && i + n < p->n && p->stmt[i + n]->strip == strip)
        n++;
    return n;
}

static int
unit_first(const Phaser *p, int i)
{
    while (p->stmt[i]->strip && i > 0 && p->stmt[i - 1]->strip == p->stmt[i]->strip)
        i--;
    return i;
}

// What is only recomputed waits until something of the phase needs it.
static bool
unit_waits(const Phaser *p, int first)
{
    int n = unit_size(p, first);
    for (int i = first; i < first + n; i++)
        if (!is_recomputed(p->stmt[i]))
            return false;
    return true;
}

static bool
find_ready(Phaser *p, int first, bool batch);

// Whether a unit can run in a phase of its kind, waiting ones that it needs before it. What was found
// holds until another unit is put: the number of statements in order.
static bool
unit_ready(Phaser *p, int first, bool batch)
{
    int *found = &p->found[first];
    if (*found != p->order.n + 1 && *found != -p->order.n - 1)
        *found = find_ready(p, first, batch) ? p->order.n + 1 : -p->order.n - 1;
    return *found > 0;
}

static bool
find_ready(Phaser *p, int first, bool batch)
{
    int n = unit_size(p, first);
    for (int i = first; i < first + n; i++)
        for (int k = 0; k < p->needs[i].n; k++) {
            int need = p->needs[i].v[k];
            if (p->done[need] || (need >= first && need < first + n))
                continue;
            need = unit_first(p, need);
            if (stmt_is_batch(p->stmt[need]) != batch || !unit_waits(p, need) ||
                !unit_ready(p, need, batch))
                return false;
        }
    return true;
}

static int
put_unit(Phaser *p, int first, bool batch, int phase)
{
    int n = unit_size(p, first), count = n;
    for (int i = first; i < first + n; i++)
        for (int k = 0; k < p->needs[i].n; k++) {
            int need = p->needs[i].v[k];
            if (!p->done[need] && (need < first || need >= first + n))
                count += put_unit(p, unit_first(p, need), batch, phase);
        }
    for (int i = first; i < first + n; i++) {
        p->done[i] = true;
        p->stmt[i]->batched = batch;
        p->stmt[i]->phase = phase;
        array_push(p->a, &p->order, p->stmt[i]);
    }
    return count;
}

// Alternately all statements of one kind that can run, then all of the other. A strip stays together.
static void
alternate(Phaser *p)
{
    int left = p->n;
    bool batch = false;
    memset(p->done, 0, (size_t)p->n * sizeof *p->done);
    p->order.n = 0;
    p->order.v = NULL;
    p->order.cap = 0;
    p->found = arena_array(p->a, int, p->n);
    for (int phase = 0, idle = 0; left > 0; phase++, batch = !batch) {
        int before = left;
        memset(p->found, 0, (size_t)p->n * sizeof *p->found);
        for (int i = 0; i < p->n; i += unit_size(p, i)) {
            bool waits = unit_waits(p, i) && idle < 2;
            if (!p->done[i] && stmt_is_batch(p->stmt[i]) == batch && !waits &&
                unit_ready(p, i, batch))
                left -= put_unit(p, i, batch, phase);
        }
        idle = left < before ? 0 : idle + 1; // twice nothing: what waits goes first
    }
    memcpy(p->stmt, p->order.v, (size_t)p->n * sizeof *p->stmt);
}

// ---- cutting sample phases ---------------------------------------------------------------------

// First and last position of each buffer of the region, then bytes alive between i - 1 and i.
static int64_t *
live_bytes(Phaser *p)
{
    int *first = arena_array(p->a, int, p->t->bufs.n), *last = arena_array(p->a, int, p->t->bufs.n);
    int64_t *live = arena_array(p->a, int64_t, p->n + 1);
    for (int i = 0; i < p->n; i++) {
        Stmt *s = p->stmt[i];
        for (int k = 0; k < s->n_in + s->n_out + s->n_leaf; k++) {
            const View *v = k < s->n_in               ? &s->in[k]
                            : k < s->n_in + s->n_out ? &s->out[k - s->n_in]
                                                     : &s->leaf[k - s->n_in - s->n_out].view;
            if (!v->buf || v->buf->space != SP_SCRATCH)
                continue;
            if (first[v->buf->id] == 0)
                first[v->buf->id] = i + 1;
            last[v->buf->id] = i + 1;
        }
    }
    for (int b = 0; b < p->t->bufs.n; b++)
        for (int i = first[b]; first[b] && i < last[b]; i++)
            live[i] += p->t->bufs.v[b]->size * 4;
    return live;
}

static int64_t
stmt_weight_bytes(const Stmt *s, int *seen, int mark)
{
    int64_t bytes = 0;
    for (int k = 0; k < s->n_in + s->n_out; k++) {
        const View *v = k < s->n_in ? &s->in[k] : &s->out[k - s->n_in];
        bool table = s->kind == ST_EMBED || s->kind == ST_BAG || s->kind == ST_PROJECTED;
        if (!v->buf || table || (!is_weight(v->buf) && v->buf->space != SP_ACC))
            continue;
        if (seen[v->buf->id] == mark)
            continue;
        seen[v->buf->id] = mark;
        bytes += view_size(v) * 4;
    }
    return bytes;
}

static int64_t
new_weight_bytes(const Phaser *p, int first, int n, int *seen, int mark)
{
    int64_t bytes = 0;
    for (int i = first; i < first + n; i++)
        bytes += stmt_weight_bytes(p->stmt[i], seen, mark);
    return bytes;
}

static bool
inside_strip(const Phaser *p, int i)
{
    return i > 0 && p->stmt[i]->strip && p->stmt[i]->strip == p->stmt[i - 1]->strip;
}

// Where a sample phase holds more weights than stay in the cache, it is cut at the point before the
// statement that is too many, and behind the weight before it, where least is alive.
static void
cut_phases(Phaser *p)
{
    int64_t *live = live_bytes(p);
    int *seen = arena_array(p->a, int, p->t->bufs.n);
    bool *cut = arena_array(p->a, bool, p->n + 1);
    int mark = 1, last_weight = 0;
    int64_t bytes = 0;
    for (int i = 0, n; i < p->n; i += n) {
        const Stmt *s = p->stmt[i];
        n = unit_size(p, i);
        if (i == 0 || s->phase != p->stmt[i - 1]->phase) {
            cut[i] = true;
            mark++;
            bytes = 0;
            last_weight = i;
        }
        if (s->batched)
            continue;
        int64_t more = new_weight_bytes(p, i, n, seen, mark);
        if (more == 0)
            continue;
        if (bytes > 0 && bytes + more > WEIGHT_LIMIT) {
            int best = i;
            for (int j = i; j > last_weight; j--)
                if (live[j] < live[best] && !inside_strip(p, j))
                    best = j;
            cut[best] = true;
            mark++;
            bytes = 0;
            more = new_weight_bytes(p, i, n, seen, mark);
        }
        bytes += more;
        last_weight = i;
    }
    int phase = -1;
    for (int i = 0; i < p->n; i++) {
        phase += cut[i];
        p->stmt[i]->phase = phase;
    }
    p->r->n_phases = phase + 1;
}

static void
phase_region(Tiles *t, Region *r, int *touches)
{
    Phaser p = {.t = t, .r = r, .a = &t->mem->scratch, .n = r->stmts.n, .stmt = r->stmts.v,
                .touches = touches};
    if (p.n == 0)
        return;
    p.needs = arena_array(p.a, Ints, p.n);
    p.done = arena_array(p.a, bool, p.n);
    find_needs(&p);
    sink_recomputed(&p);
    memset(p.needs, 0, (size_t)p.n * sizeof *p.needs);
    find_needs(&p);
    if (form_strips(&p)) {
        memset(p.needs, 0, (size_t)p.n * sizeof *p.needs);
        find_needs(&p);
    }
    jam_loops(&p);
    r->plain = arena_array(&t->mem->perm, Stmt *, p.n);
    memcpy(r->plain, p.stmt, (size_t)p.n * sizeof *p.stmt);
    alternate(&p);
    cut_phases(&p);
    narrow_strips(&p);
}

// ---- buffers that cross phases -----------------------------------------------------------------

static void
note_phase(View *v, int phase, bool batched)
{
    Buf *b = v->buf;
    if (!b || b->space != SP_SCRATCH)
        return;
    if (b->first < 0)
        b->first = phase;
    b->crosses = b->crosses || batched || b->first != phase;
}

// A temporary that one phase alone touches, sample by sample, belongs to the thread; any other has a place
// in the record of its sample. Phases are numbered through the timeline.
void
schedule_crossing(Tiles *t)
{
    int at[TL_COUNT] = {0};
    for (int i = 0; i < t->bufs.n; i++) {
        t->bufs.v[i]->first = -1;
        t->bufs.v[i]->crosses = false;
    }
    for (int i = 0; i < t->regions.n; i++) {
        Region *r = t->regions.v[i];
        r->first_phase = at[r->line];
        for (int k = 0; k < r->stmts.n; k++) {
            Stmt *s = r->stmts.v[k];
            int phase = r->first_phase + s->phase;
            for (int j = 0; j < s->n_out; j++)
                note_phase(&s->out[j], phase, s->batched);
            for (int j = 0; j < s->n_in; j++)
                note_phase(&s->in[j], phase, s->batched);
            for (int j = 0; j < s->n_leaf; j++)
                note_phase(&s->leaf[j].view, phase, s->batched);
        }
        at[r->line] += r->n_phases;
    }
    for (int i = 0; i < t->bufs.n; i++) {
        Buf *b = t->bufs.v[i];
        b->first = -1;
        if (b->crosses)
            b->space = SP_CHUNK;
    }
}

// How many views see each buffer.
static int *
count_touches(Tiles *t)
{
    int *count = arena_array(&t->mem->scratch, int, t->bufs.n);
    for (int i = 0; i < t->regions.n; i++) {
        Region *r = t->regions.v[i];
        for (int k = 0; k < r->stmts.n; k++) {
            const Stmt *s = r->stmts.v[k];
            for (int j = 0; j < s->n_out; j++)
                count[s->out[j].buf->id]++;
            for (int j = 0; j < s->n_in; j++)
                if (s->in[j].buf)
                    count[s->in[j].buf->id]++;
            for (int j = 0; j < s->n_leaf; j++)
                if (s->leaf[j].view.buf)
                    count[s->leaf[j].view.buf->id]++;
        }
    }
    return count;
}

void
schedule_phases(Tiles *t)
{
    for (int i = 0; i < t->bufs.n; i++)
        t->bufs.v[i]->id = i;
    int *touches = count_touches(t);
    for (int i = 0; i < t->regions.n; i++) {
        Region *r = t->regions.v[i];
        r->n_phases = r->stmts.n > 0;
        if (r->line != TL_GATHER)
            phase_region(t, r, touches);
    }
    schedule_crossing(t);
}

// plan.c - gives every buffer its place, and every arena its size.
//
// Records (inputs, kept values), packed weights and accumulators are laid out one after the other. Scratch
// is shared: buffers whose lifetimes meet get places apart, the largest first, each as low as it fits. The
// temporaries of a sample share its record in the same way, with lifetimes counted in phases.

#include "tile.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };
enum { GROUP_MOST = 8, GROUP_BYTES = 16 << 20 }; // samples that pass a phase together
enum { CHUNK_MOST = 8, CHUNK_BYTES = 16 << 20 }; // samples kept
enum { THREAD_BYTES = 31 << 20 };                // what is kept and scratch
enum { WIDE_PART = 16 }; // of a group's bytes in one sample: too many

static const int64_t element_bytes[] = {4, 8, 1};

static int64_t
round_up(int64_t n)
{
    return (n + LINE - 1) / LINE * LINE;
}

static int64_t
buf_bytes(const Buf *b)
{
    return round_up(b->size * element_bytes[b->type]);
}

// ---- lifetimes ---------------------------------------------------------------------------------

static void
touch(View *v, Timeline line, int at, int phase, int region)
{
    Buf *b = v->buf;
    if (!b)
        return;
    if ((b->space == SP_SCRATCH || b->space == SP_CHUNK) && b->line != line)
        die("a temporary is used in two timelines");
    if (b->space == SP_CHUNK)
        at = phase;
    if (b->first < 0) {
        b->first = at;
        b->region = region;
    }
    b->last = at;
}

// What a strip touches from outside lives as long as the strip, which passes its statements many times.
static void
touch_stmt(View *v, Timeline line, int now, int first, int last, int phase, int region)
{
    bool inside = v->buf && v->buf->in_strip;
    touch(v, line, inside ? now : first, phase, region);
    touch(v, line, inside ? now : last, phase, region);
}

static void
find_lifetimes(Tiles *t)
{
    int at[TL_COUNT] = {0};
    for (int i = 0; i < t->regions.n; i++) {
        Region *r = t->regions.v[i];
        int first = 0, last = 0; // of the strip
        for (int k = 0; k < r->stmts.n; k++) {
            Stmt *s = r->stmts.v[k];
            int now = at[r->line]++, phase = r->first_phase + s->phase;
            if (!s->strip || k == 0 || s->strip != r->stmts.v[k - 1]->strip) {
                first = last = now;
                for (int j = k + 1; s->strip && j < r->stmts.n && r->stmts.v[j]->strip == s->strip; j++)
                    last++;
            }
            for (int j = 0; j < s->n_out; j++)
                touch_stmt(&s->out[j], r->line, now, first, last, phase, i);
            for (int j = 0; j < s->n_in; j++)
                touch_stmt(&s->in[j], r->line, now, first, last, phase, i);
            for (int j = 0; j < s->n_leaf; j++)
                touch_stmt(&s->leaf[j].view, r->line, now, first, last, phase, i);
        }
    }
}

// ---- scratch -----------------------------------------------------------------------------------

static int
by_size(const void *a, const void *b)
{
    const Buf *x = *(Buf *const *)a, *y = *(Buf *const *)b;
    int64_t sx = buf_bytes(x), sy = buf_bytes(y);
    if (sx != sy)
        return sx < sy ? 1 : -1;
    return x->offset < y->offset ? -1 : 1; // the order in which they were made
}

// Bytes from the start of the space; held here until all are placed.
static int64_t
lowest_fit(Buf **placed, int n, const Buf *b)
{
    int64_t at = 0, size = buf_bytes(b);
    for (int i = 0; i < n; i++) { // placed is sorted by offset
        const Buf *o = placed[i];
        if (o->last < b->first || b->last < o->first)
            continue;
        if (o->offset >= at + size)
            break;
        if (o->offset + buf_bytes(o) > at)
            at = o->offset + buf_bytes(o);
    }
    return at;
}

static int64_t
place_shared(Tiles *t, Space space, Timeline line)
{
    Arena *a = &t->mem->scratch;
    Buf **list = arena_array(a, Buf *, t->bufs.n), **placed = arena_array(a, Buf *, t->bufs.n);
    int n = 0;
    int64_t end = 0;
    for (int i = 0; i < t->bufs.n; i++) {
        Buf *b = t->bufs.v[i];
        if (b->space != space || b->line != line || b->first < 0)
            continue;
        b->offset = i;
        list[n++] = b;
    }
    qsort(list, (size_t)n, sizeof *list, by_size);
    for (int i = 0; i < n; i++) {
        Buf *b = list[i];
        b->offset = lowest_fit(placed, i, b);
        if (b->offset + buf_bytes(b) > end)
            end = b->offset + buf_bytes(b);
        int k = i;
        for (; k > 0 && placed[k - 1]->offset > b->offset; k--)
            placed[k] = placed[k - 1];
        placed[k] = b;
    }
    return end;
}

static void
region_scratch(Tiles *t)
{
    for (int i = 0; i < t->bufs.n; i++) {
        const Buf *b = t->bufs.v[i];
        if (b->space != SP_SCRATCH || b->first < 0)
            continue;
        Region *r = t->regions.v[b->region];
        if (b->offset + buf_bytes(b) > r->scratch_bytes)
            r->scratch_bytes = b->offset + buf_bytes(b);
    }
}

// ---- the rest ----------------------------------------------------------------------------------

static int64_t
place_all(Tiles *t, Space space)
{
    int64_t end = 0;
    for (int i = 0; i < t->bufs.n; i++) {
        Buf *b = t->bufs.v[i];
        if (b->space != space || b->first < 0)
            continue;
        b->offset = end;
        end += buf_bytes(b);
        if (space == SP_KEPT)
            t->regions.v[b->region]->kept_bytes += buf_bytes(b);
    }
    return end;
}

// Accumulators that one statement writes whole, for all samples of a group: the first group of a
// lane starts them, so nobody clears them before.
static void
mark_fresh(Tiles *t)
{
    for (int i = 0; i < t->regions.n; i++) {
        const Region *r = t->regions.v[i];
        for (int k = 0; k < r->stmts.n; k++) {
            const Stmt *s = r->stmts.v[k];
            Buf *b = s->batched && s->n_out ? s->out[0].buf : NULL;
            if (b && b->space == SP_ACC)
                b->fresh = s->kind != ST_PRODUCT || view_size(&s->out[0]) == b->size;
        }
    }
}

// Fresh accumulators lie behind the others.
static void
place_accumulators(Tiles *t)
{
    int64_t end = 0, fresh = 0;
    mark_fresh(t);
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < t->bufs.n; i++) {
            Buf *b = t->bufs.v[i];
            if (b->space != SP_ACC || b->fresh != last)
                continue;
            b->offset = end;
            end += buf_bytes(b);
            fresh += last ? buf_bytes(b) : 0;
        }
    t->acc_floats = end / 4;
    t->acc_fresh = fresh / 4;
}

static bool
starts_with(const Const *big, const Const *small)
{
    size_t n = (size_t)small->n;
    if (small->n > big->n || !small->f != !big->f)
        return false;
    return small->f ? memcmp(small->f, big->f, n * sizeof *small->f) == 0
                    : memcmp(small->i, big->i, n * sizeof *small->i) == 0;
}

// The constant that holds this one at its start: a longer one, or an equal one before it; else itself.
static int
const_holder(const Tiles *t, int i)
{
    int best = i;
    for (int k = 0; k < t->const_bufs.n; k++) {
        const Buf *b = t->const_bufs.v[k], *a = t->const_bufs.v[best];
        bool longer = b->size > a->size || (b->size == a->size && k < best);
        if (b->first >= 0 && b->type == a->type && longer &&
            starts_with(t->consts.v[k], t->consts.v[i]))
            best = k;
    }
    return best;
}

// Constants of one type stand in one array; the start of another is not written again.
static void
place_consts(Tiles *t)
{
    int64_t end[3] = {0};
    for (int i = 0; i < t->const_bufs.n; i++) {
        Buf *b = t->const_bufs.v[i];
        if (b->first < 0 || const_holder(t, i) != i)
            continue;
        b->offset = end[b->type] * element_bytes[b->type];
        end[b->type] += b->size;
    }
    for (int i = 0; i < t->const_bufs.n; i++) {
        Buf *b = t->const_bufs.v[i];
        int holder = b->first < 0 ? i : const_holder(t, i);
        b->offset = t->const_bufs.v[holder]->offset;
        b->shared = holder != i;
    }
}

// Records whose distance is a multiple of a page fall into the same lines of the cache.
static int64_t
spread(int64_t bytes)
{
    return bytes > 0 && bytes % 4096 == 0 ? bytes + LINE : bytes;
}

static int64_t
group_bytes(const Tiles *t)
{
    return t->g->group_bytes ? t->g->group_bytes : GROUP_BYTES;
}

// Samples whose records fit; a power of two, as batches are, and so what a lane has of them.
static int64_t
at_most(int64_t bytes, int64_t record, int64_t most)
{
    int64_t n = record > 0 ? bytes / record : most, two = 1;
    while (2 * two <= n && 2 * two <= most)
        two *= 2;
    return two;
}

static int64_t
thread_scratch(const Tiles *t)
{
    int64_t most = t->line_bytes[TL_GATHER];
    for (Timeline line = TL_FORWARD; line < TL_COUNT; line++) {
        int64_t bytes = t->group * t->chunk_bytes[line] + t->line_bytes[line];
        most = bytes > most ? bytes : most;
    }
    return most;
}

// A forward pass without room for kept values has the records of a group in scratch.
static int64_t
forward_scratch(const Tiles *t)
{
    int64_t record = t->kept_bytes + t->chunk_bytes[TL_FORWARD];
    int64_t bytes = t->unkept_group * record + t->line_bytes[TL_FORWARD];
    return bytes > t->line_bytes[TL_GATHER] ? bytes : t->line_bytes[TL_GATHER];
}

// As many samples are in flight as their kept values fit in CHUNK_BYTES, and as many of them pass a phase
// together as their records fit in a group's bytes; a forward pass that keeps nothing has the kept records
// among them.
static void
choose_group(Tiles *t)
{
    int64_t forward = t->kept_bytes + t->chunk_bytes[TL_FORWARD],
            back = t->chunk_bytes[TL_BACKWARD];
    t->chunk = at_most(CHUNK_BYTES, t->kept_bytes, CHUNK_MOST);
    t->group = at_most(group_bytes(t), forward > back ? forward : back, t->chunk);
    t->unkept_group = t->group;
}

// More samples in flight than CHUNK_BYTES hold, if a thread needs no more than THREAD_BYTES in all: as they
// pass phases together they read the weights less often.
static void
stretch_group(Tiles *t)
{
    int64_t forward = t->chunk_bytes[TL_FORWARD], back = t->chunk_bytes[TL_BACKWARD],
            chunk = t->chunk;
    t->group = at_most(group_bytes(t), forward > back ? forward : back, GROUP_MOST);
    for (; t->group > 1; t->group /= 2) {
        t->chunk = t->group > chunk && t->kept_bytes ? t->group : chunk;
        t->unkept_group = at_most(group_bytes(t), t->kept_bytes + forward, t->group);
        if (t->chunk * t->kept_bytes + thread_scratch(t) <= THREAD_BYTES &&
            forward_scratch(t) <= THREAD_BYTES)
            return;
    }
    t->chunk = chunk;
    t->unkept_group = 1;
}

// Whether a temporary that crosses phases stays inside of a region.
static bool
is_own(const Buf *b, const Region *r, int region)
{
    return b->space == SP_CHUNK && b->first >= 0 && b->region == region &&
           b->line == r->line && b->last < r->first_phase + r->n_phases;
}

// Bytes of a sample's temporaries that cross phases of a region, alive in one of them.
static int64_t
crossing_bytes(const Tiles *t, int region, int phase)
{
    const Region *r = t->regions.v[region];
    int64_t bytes = 0;
    for (int i = 0; i < t->bufs.n; i++) {
        const Buf *b = t->bufs.v[i];
        int at = r->first_phase + phase;
        if (is_own(b, r, region) && b->first <= at && at <= b->last)
            bytes += buf_bytes(b);
    }
    return bytes;
}

// Statements of each phase as they stand where the region is one phase.
static void
sort_phases(const Region *r, Arena *a)
{
    Stmt **sorted = arena_array(a, Stmt *, r->stmts.n);
    int n = 0;
    for (int phase = 0; phase < r->n_phases; phase++)
        for (int k = 0; k < r->stmts.n; k++)
            if (r->plain[k]->phase == phase)
                sorted[n++] = r->plain[k];
    memcpy(r->stmts.v, sorted, (size_t)n * sizeof *sorted);
}

// Neighbouring wide phases become one, which runs sample by sample.
static void
join_phases(Tiles *t, int region, const bool *wide)
{
    Region *r = t->regions.v[region];
    for (int i = 0; i < t->bufs.n; i++)
        if (is_own(t->bufs.v[i], r, region))
            t->bufs.v[i]->space = SP_SCRATCH;
    int phase = -1, before = -1;
    for (int k = 0; k < r->stmts.n; k++) {
        Stmt *s = r->stmts.v[k];
        int now = s->phase;
        phase += k == 0 || (now != before && !(wide[now] && wide[before]));
        before = now;
        s->phase = phase;
        s->batched = s->batched && !wide[now];
    }
    r->n_phases = phase + 1;
    sort_phases(r, &t->mem->scratch);
}

// One phase a region: nothing runs for a group, and a temporary lives no longer than its statements.
static void
drop_phases(Tiles *t)
{
    for (int i = 0; i < t->regions.n; i++) {
        Region *r = t->regions.v[i];
        r->n_phases = r->stmts.n > 0;
        if (r->plain)
            memcpy(r->stmts.v, r->plain, (size_t)r->stmts.n * sizeof *r->plain);
        for (int k = 0; k < r->stmts.n; k++) {
            r->stmts.v[k]->phase = 0;
            r->stmts.v[k]->batched = false;
        }
    }
    for (int i = 0; i < t->bufs.n; i++)
        if (t->bufs.v[i]->space == SP_CHUNK)
            t->bufs.v[i]->space = SP_SCRATCH;
}

static void
place_temporaries(Tiles *t)
{
    for (int i = 0; i < t->bufs.n; i++)
        t->bufs.v[i]->first = -1;
    find_lifetimes(t);
    for (Timeline line = 0; line < TL_COUNT; line++) {
        t->line_bytes[line] = place_shared(t, SP_SCRATCH, line);
        t->chunk_bytes[line] = spread(place_shared(t, SP_CHUNK, line));
    }
}

// Where a region's record leaves no room for a second sample, those of its phases that fill it are joined; the
// others and other regions still run for a group.
static void
join_wide(Tiles *t)
{
    for (int i = 0; i < t->regions.n; i++) {
        const Region *r = t->regions.v[i];
        bool *wide = arena_array(&t->mem->scratch, bool, r->n_phases + 1);
        int64_t most = 0;
        for (int phase = 0; phase < r->n_phases; phase++) {
            int64_t bytes = crossing_bytes(t, i, phase);
            wide[phase] = bytes > group_bytes(t) / WIDE_PART;
            most = bytes > most ? bytes : most;
        }
        if (most > group_bytes(t) / 2)
            join_phases(t, i, wide);
    }
    schedule_crossing(t);
    place_temporaries(t);
}

void
plan(Tiles *t)
{
    place_temporaries(t);
    t->input_bytes = spread(place_all(t, SP_INPUT));
    t->kept_bytes = spread(place_all(t, SP_KEPT));
    choose_group(t);
    if (t->group < 2) {
        join_wide(t);
        stretch_group(t);
    }
    if (t->group < 2) {
        drop_phases(t);
        place_temporaries(t);
    }
    region_scratch(t);
    place_accumulators(t);
    t->packed_floats = place_all(t, SP_PACKED) / 4;
    place_consts(t);
    t->scratch_bytes = thread_scratch(t);
    t->forward_scratch_bytes = forward_scratch(t);
    for (int i = 0; i < t->bufs.n; i++)
        t->bufs.v[i]->offset /= element_bytes[t->bufs.v[i]->type];
}

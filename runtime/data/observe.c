// observe.c - what a range of row groups really holds, in the form of a schema.

#include "data_internal.h"

#include <stdlib.h>
#include <string.h>

// Distinct positive ids: an open hash, 0 is an empty slot. `room` is a power of two.
typedef struct IdSet {
    int64_t *slots, n, room;
} IdSet;

static void
id_put(IdSet *s, int64_t id)
{
    uint64_t mask = (uint64_t)s->room - 1;
    uint64_t at = ((uint64_t)id * 0x9e3779b97f4a7c15u) >> 20 & mask;
    while (s->slots[at] && s->slots[at] != id)
        at = (at + 1) & mask;
    s->n += !s->slots[at];
    s->slots[at] = id;
}

static bool
id_add(IdSet *s, int64_t id)
{
    if (2 * (s->n + 1) > s->room) {
        IdSet more = {.room = s->room ? 2 * s->room : 64};
        more.slots = calloc((size_t)more.room, sizeof *more.slots);
        if (!more.slots)
            return false;
        for (int64_t i = 0; i < s->room; i++)
            if (s->slots[i])
                id_put(&more, s->slots[i]);
        free(s->slots);
        *s = more;
    }
    id_put(s, id);
    return true;
}

// One column, as far as it has been read.
typedef struct Seen {
    SchemaFeature *feature; // where it is noted; NULL: not a feature
    IdSet ids;
    int64_t longest, largest;
} Seen;

typedef struct Observation {
    Seen *seen; // [n_columns]
    int64_t *values, room;
} Observation;

// The feature of each column, in the order in which columns_plan lists them.
static void
find_features(const Columns *c, Schema *s, Seen *seen)
{
    int at_id[2] = {0, 0}, at_dense[2] = {0, 0}, at_event = 0, domain = -1;
    for (int i = 0; i < c->n; i++) {
        const Column *column = &c->columns[i];
        int part = column->part;
        switch (column->role) {
        case COLUMN_ID:
            seen[i].feature =
                &(part ? &s->item_int : &s->user_int)->features[at_id[part]++];
            break;
        case COLUMN_DENSE:
            seen[i].feature =
                &(part ? &s->item_dense : &s->user_dense)->features[at_dense[part]++];
            break;
        case COLUMN_EVENT:
        case COLUMN_EVENT_TIME:
            at_event = part == domain ? at_event + 1 : 0;
            domain = part;
            seen[i].feature = &s->domains[part].features[at_event];
            break;
        default:
            break;
        }
    }
}

static bool
see_row(Observation *o, Seen *seen, const Column *column, const ArrowColumn *c,
        int64_t row)
{
    int64_t first = row, n = 1;
    if (c->type.form != ARROW_SCALAR)
        n = arrow_list(c, row, &first);
    seen->longest = n > seen->longest ? n : seen->longest;
    if (column->role == COLUMN_DENSE || n == 0)
        return true;
    if (n > o->room) {
        int64_t *values = realloc(o->values, (size_t)n * sizeof *values);
        if (!values)
            return false;
        o->values = values;
        o->room = n;
    }
    arrow_ints(c, first, n, o->values);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = o->values[i];
        seen->largest = v > seen->largest ? v : seen->largest;
        if (v > 0 && column->role != COLUMN_EVENT_TIME && !id_add(&seen->ids, v))
            return false;
    }
    return true;
}

static bool
see_group(Observation *o, const Columns *columns, const GroupData *g)
{
    for (int k = 0; k < g->n_chunks; k++) {
        for (int i = 0; i < columns->n; i++) {
            const ArrowColumn *c = &g->columns[k * columns->n + i];
            for (int64_t row = 0; o->seen[i].feature && row < c->rows; row++)
                if (!see_row(o, &o->seen[i], &columns->columns[i], c, row))
                    return false;
        }
    }
    return true;
}

static void
note(const Columns *columns, const Seen *seen)
{
    for (int i = 0; i < columns->n; i++) {
        SchemaFeature *f = seen[i].feature;
        ColumnRole role = columns->columns[i].role;
        if (!f)
            continue;
        if (role == COLUMN_EVENT_TIME)
            f->vocab = seen[i].largest;
        else if (role != COLUMN_DENSE)
            f->vocab = seen[i].ids.n;
        if (role == COLUMN_DENSE || role == COLUMN_ID)
            f->dim = seen[i].longest;
    }
}

Schema *
data_observe(Data *d, int first, int end, DataError *e)
{
    Observation o = {.seen = calloc((size_t)d->columns.n + 1, sizeof *o.seen)};
    Schema *s = schema_copy(d->schema);
    bool ok = o.seen && s;
    if (!ok)
        data_fail(e, "out of memory");
    else
        find_features(&d->columns, s, o.seen);
    for (int group = first; ok && group < end; group++) {
        const GroupData *g = group_acquire(d, group, e);
        if (!g) {
            ok = false;
            break;
        }
        ok = see_group(&o, &d->columns, g) || data_fail(e, "out of memory") == 0;
        group_release(d, group);
    }
    if (ok)
        note(&d->columns, o.seen);
    for (int i = 0; o.seen && i < d->columns.n; i++)
        free(o.seen[i].ids.slots);
    free(o.seen);
    free(o.values);
    if (ok)
        return s;
    schema_free(s);
    return NULL;
}

// batch.c - converts rows of decoded row groups to the tensors of a batch.
//
//   ids     null, ids <= 0 and ids >= the vocabulary become 0, which is what missing
//           means; lists keep their first dim elements
//   dense   lists keep their first dim elements; null, not a number and infinite become 0
//           and are missing
//   events  each side feature keeps its first L elements; the longest of them is the length
//   strict  events keep the last L positions whose time lies before the request
//   label   1 where label_type is 2
//
// Rows may come from anywhere: they are gathered group by group, so that a thread
// holds one group at a time.

#include "data_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- memory
// ----------------------------------------------------------------------------------

// Adds room for n x size bytes, aligned to 64; false when a count overflows.
static bool
reserve(size_t *total, size_t *at, int64_t n, int64_t width, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow((size_t)n, (size_t)width, &bytes) ||
        __builtin_mul_overflow(bytes, size, &bytes) || bytes > SIZE_MAX / 4 - *total)
        return false;
    *at = *total;
    *total += (bytes + 63) / 64 * 64;
    return true;
}

enum { FIXED_PARTS = 15, DOMAIN_PARTS = 3 };

// Offsets of every array in one block: fixed ones, then three a domain.
static bool
lay_out(const Data *d, int64_t n, size_t *at, size_t *total)
{
    const Schema *s = d->schema;
    *total = 0;
    bool ok = reserve(total, &at[0], n, s->user_int.width, sizeof(int64_t)) &&
              reserve(total, &at[1], n, s->item_int.width, sizeof(int64_t)) &&
              reserve(total, &at[2], n, s->user_int.width, 1) &&
              reserve(total, &at[3], n, s->item_int.width, 1) &&
              reserve(total, &at[4], n, s->user_dense.width, sizeof(float)) &&
              reserve(total, &at[5], n, s->item_dense.width, sizeof(float)) &&
              reserve(total, &at[6], n, s->user_dense.width, 1) &&
              reserve(total, &at[7], n, s->item_dense.width, 1) &&
              reserve(total, &at[8], n, 1, sizeof(int64_t)) &&
              reserve(total, &at[9], n, 1, sizeof(int64_t)) &&
              reserve(total, &at[10], n, 1, sizeof(int64_t)) &&
              reserve(total, &at[11], n, 1, sizeof(int64_t)) &&
              reserve(total, &at[12], n, 1, sizeof(RowSource)) &&
              reserve(total, &at[13], n, 1, 1) &&
              reserve(total, &at[14], n, 1, sizeof(char *));
    for (int i = 0; i < s->n_domains && ok; i++) {
        size_t *a = &at[FIXED_PARTS + DOMAIN_PARTS * i];
        int64_t len = s->domains[i].max_len;
        ok = reserve(total, &a[0], n, s->domains[i].n_sides * len, sizeof(int64_t)) &&
             reserve(total, &a[1], n, 1, sizeof(int64_t)) &&
             reserve(total, &a[2], n, len, sizeof(int64_t));
    }
    return ok;
}

static void
point(const Data *d, Batch *b, const size_t *at)
{
    char *m = b->memory;
    for (int i = 0; i < 2; i++) {
        b->ids[i] = (int64_t *)(void *)(m + at[i]);
        b->id_missing[i] = (uint8_t *)(m + at[2 + i]);
        b->dense[i] = (float *)(void *)(m + at[4 + i]);
        b->dense_missing[i] = (uint8_t *)(m + at[6 + i]);
    }
    b->time = (int64_t *)(void *)(m + at[8]);
    b->label = (int64_t *)(void *)(m + at[9]);
    b->rows = (int64_t *)(void *)(m + at[10]);
    b->text_at = (int64_t *)(void *)(m + at[11]);
    b->sources = (RowSource *)(void *)(m + at[12]);
    b->done = (uint8_t *)(m + at[13]);
    b->texts = (const char **)(void *)(m + at[14]);
    for (int i = 0; i < d->schema->n_domains; i++) {
        const size_t *a = &at[FIXED_PARTS + DOMAIN_PARTS * i];
        b->values[i] = (int64_t *)(void *)(m + a[0]);
        b->lengths[i] = (int64_t *)(void *)(m + a[1]);
        b->times[i] = (int64_t *)(void *)(m + a[2]);
        b->domains[i] = (pcvr_domain){b->values[i], b->lengths[i], b->times[i]};
    }
    b->shown.tensors = (pcvr_batch){
        .user_ints = b->ids[0],
        .user_int_missing = b->id_missing[0],
        .user_dense = b->dense[0],
        .user_dense_missing = b->dense_missing[0],
        .item_ints = b->ids[1],
        .item_int_missing = b->id_missing[1],
        .item_dense = b->dense[1],
        .item_dense_missing = b->dense_missing[1],
        .n_domains = d->schema->n_domains,
        .domains = b->domains,
        .request_time = b->time,
        .label = b->label,
    };
    b->shown.rows = b->rows;
    b->shown.user_ids = b->texts;
}

Batch *
batch_new(const Data *d, int64_t capacity, DataError *e)
{
    size_t n = (size_t)d->schema->n_domains, total;
    Batch *b = calloc(1, sizeof *b);
    size_t *at = calloc(FIXED_PARTS + DOMAIN_PARTS * n, sizeof *at);
    if (b) {
        b->domains = calloc(n + 1, sizeof *b->domains);
        b->values = calloc(n + 1, sizeof *b->values);
        b->lengths = calloc(n + 1, sizeof *b->lengths);
        b->times = calloc(n + 1, sizeof *b->times);
        b->oov = calloc((size_t)d->columns.n, sizeof *b->oov);
    }
    if (b && at && lay_out(d, capacity, at, &total))
        b->memory = aligned_alloc(64, total + 64);
    if (!b || !at || !b->memory || !b->domains || !b->values || !b->lengths ||
        !b->times || !b->oov) {
        data_fail(e,
                  "no memory for a batch of %" PRId64 " rows; choose a smaller batch or "
                  "shorter sequences",
                  capacity);
        free(at);
        batch_free(b);
        return NULL;
    }
    b->capacity = capacity;
    b->bytes = (int64_t)total;
    point(d, b, at);
    free(at);
    return b;
}

void
batch_free(Batch *b)
{
    if (!b)
        return;
    free(b->memory);
    free(b->domains);
    free(b->values);
    free(b->lengths);
    free(b->times);
    free(b->oov);
    free(b->kept);
    free(b->text_bytes);
    free(b);
}

// ---- conversion
// ------------------------------------------------------------------------------

// What a column's conversion works with: n rows of one group, wherever they go in the
// batch.
typedef struct Work {
    const Data *d;
    Batch *b;
    const DataGroup *at;
    const GroupData *g;
    const RowSource *sources;
    int64_t n;
    DataError *e;
} Work;

static const ArrowColumn *
column_of(const Work *w, const RowSource *r, int column)
{
    return &w->g->columns[(int64_t)r->chunk * w->d->columns.n + column];
}

static int
fail_at(const Work *w, int column, int64_t row, const char *what)
{
    return data_fail(w->e, "%s: column '%s', row %" PRId64 ": %s",
                     w->d->files[w->at->file].path, w->d->columns.columns[column].name,
                     row - w->at->first + w->at->in_file, what);
}

// Turns n ids into what the model may look up.
static int
apply_vocab(const Work *w, int column, int64_t row, int64_t *v, int64_t n)
{
    int64_t vocab = w->d->columns.columns[column].vocab;
    BatchOov *o = &w->b->oov[column];
    for (int64_t i = 0; i < n; i++) {
        if (v[i] >= vocab && v[i] > 0 && vocab > 0) {
            if (w->d->options.strict_ids) {
                char text[96];
                snprintf(text, sizeof text,
                         "id %" PRId64 " lies outside the vocabulary of %" PRId64, v[i],
                         vocab);
                return fail_at(w, column, row, text);
            }
            if (!o->count++)
                *o = (BatchOov){1, v[i], v[i], row, v[i]};
            o->min = v[i] < o->min ? v[i] : o->min;
            o->max = v[i] > o->max ? v[i] : o->max;
        }
        v[i] = v[i] <= 0 || v[i] >= vocab ? 0 : v[i];
    }
    return 0;
}

static int
convert_ids(const Work *w, int column)
{
    const Column *c = &w->d->columns.columns[column];
    const Schema *s = w->d->schema;
    int64_t width = c->part ? s->item_int.width : s->user_int.width;
    for (int64_t i = 0; i < w->n; i++) {
        const RowSource *r = &w->sources[i];
        const ArrowColumn *a = column_of(w, r, column);
        int64_t *out = w->b->ids[c->part] + r->at * width + c->offset;
        uint8_t *missing = w->b->id_missing[c->part] + r->at * width + c->offset;
        int64_t first, n = arrow_list(a, r->local, &first);
        n = n < c->dim ? n : c->dim;
        arrow_ints(a, first, n, out);
        if (apply_vocab(w, column, r->row, out, n))
            return -1;
        memset(out + n, 0, sizeof *out * (size_t)(c->dim - n));
        for (int64_t k = 0; k < c->dim; k++)
            missing[k] = out[k] == 0;
    }
    return 0;
}

static int
convert_dense(const Work *w, int column)
{
    const Column *c = &w->d->columns.columns[column];
    const Schema *s = w->d->schema;
    int64_t width = c->part ? s->item_dense.width : s->user_dense.width;
    for (int64_t i = 0; i < w->n; i++) {
        const RowSource *r = &w->sources[i];
        const ArrowColumn *a = column_of(w, r, column);
        float *out = w->b->dense[c->part] + r->at * width + c->offset;
        uint8_t *missing = w->b->dense_missing[c->part] + r->at * width + c->offset;
        int64_t first, n = arrow_list(a, r->local, &first);
        n = n < c->dim ? n : c->dim;
        arrow_floats(a, first, n, out, missing);
        for (int64_t k = 0; k < c->dim; k++) {
            if (k < n && !missing[k] && isfinite(out[k]))
                continue;
            out[k] = 0.0f;
            missing[k] = 1;
        }
    }
    return 0;
}

// A side feature or the times of a domain, without a time filter.
static int
convert_events(const Work *w, int column)
{
    const Column *c = &w->d->columns.columns[column];
    const SchemaDomain *domain = &w->d->schema->domains[c->part];
    int64_t len = domain->max_len;
    for (int64_t i = 0; i < w->n; i++) {
        const RowSource *r = &w->sources[i];
        const ArrowColumn *a = column_of(w, r, column);
        int64_t *out =
            c->role == COLUMN_EVENT_TIME
                ? w->b->times[c->part] + r->at * len
                : w->b->values[c->part] + (r->at * domain->n_sides + c->offset) * len;
        int64_t first, n = arrow_list(a, r->local, &first);
        n = n < len ? n : len;
        arrow_ints(a, first, n, out);
        memset(out + n, 0, sizeof *out * (size_t)(len - n));
        if (c->role == COLUMN_EVENT_TIME)
            continue;
        if (apply_vocab(w, column, r->row, out, n))
            return -1;
        int64_t *length = &w->b->lengths[c->part][r->at];
        *length = n > *length ? n : *length;
    }
    return 0;
}

// The last `len` positions with 0 < time < request; their count, or -1 when memory is
// short.
static int64_t
keep_before(Batch *b, const ArrowColumn *times, int64_t row, int64_t request, int64_t len,
            const int64_t **kept)
{
    int64_t first, n = arrow_list(times, row, &first), m = 0;
    if (n > b->n_kept) {
        int64_t *bigger = realloc(b->kept, sizeof *bigger * 2 * (size_t)n);
        if (!bigger)
            return -1;
        b->kept = bigger;
        b->n_kept = n;
    }
    int64_t *values = b->kept + b->n_kept;
    arrow_ints(times, first, n, values);
    for (int64_t i = 0; i < n; i++)
        if (values[i] > 0 && values[i] < request)
            b->kept[m++] = i;
    int64_t skip = m > len ? m - len : 0;
    *kept = b->kept + skip;
    return m - skip;
}

// One row of one column at the kept positions; positions beyond a shorter list stay 0.
static int
gather_kept(const Work *w, int column, const RowSource *r, const int64_t *kept, int64_t m,
            int64_t *out)
{
    const ArrowColumn *a = column_of(w, r, column);
    int64_t first, n = arrow_list(a, r->local, &first);
    for (int64_t k = 0; k < m; k++) {
        out[k] = 0;
        if (kept[k] < n)
            arrow_ints(a, first + kept[k], 1, &out[k]);
    }
    return 0;
}

// A whole domain under the time filter; `column` is its time column.
static int
convert_strict(const Work *w, int column)
{
    const Column *columns = w->d->columns.columns, *c = &columns[column];
    const SchemaDomain *domain = &w->d->schema->domains[c->part];
    int64_t len = domain->max_len;
    int begin = column, end = column;
    while (columns[begin - 1].role >= COLUMN_EVENT && columns[begin - 1].part == c->part)
        begin--;
    while (end < w->d->columns.n && columns[end].role >= COLUMN_EVENT &&
           columns[end].part == c->part)
        end++;
    for (int64_t i = 0; i < w->n; i++) {
        const RowSource *r = &w->sources[i];
        const int64_t *kept;
        int64_t m = keep_before(w->b, column_of(w, r, column), r->local,
                                w->b->time[r->at], len, &kept);
        if (m < 0)
            return fail_at(w, column, r->row, "out of memory");
        w->b->lengths[c->part][r->at] = m;
        for (int k = begin; k < end; k++) {
            int64_t *out = k == column
                               ? w->b->times[c->part] + r->at * len
                               : w->b->values[c->part] +
                                     (r->at * domain->n_sides + columns[k].offset) * len;
            memset(out + m, 0, sizeof *out * (size_t)(len - m));
            if (gather_kept(w, k, r, kept, m, out) ||
                (k != column && apply_vocab(w, k, r->row, out, m)))
                return -1;
        }
    }
    return 0;
}

static int
convert_time(const Work *w, int column)
{
    for (int64_t i = 0; i < w->n; i++) {
        const RowSource *r = &w->sources[i];
        const ArrowColumn *a = column_of(w, r, column);
        if (arrow_is_null(a, r->local))
            return fail_at(w, column, r->row, "null where a time is required");
        arrow_ints(a, r->local, 1, &w->b->time[r->at]);
    }
    return 0;
}

static int
convert_label(const Work *w, int column)
{
    for (int64_t i = 0; i < w->n; i++) {
        const RowSource *r = &w->sources[i];
        const ArrowColumn *a = column_of(w, r, column);
        int64_t type = 0;
        if (!arrow_is_null(a, r->local))
            arrow_ints(a, r->local, 1, &type);
        w->b->label[r->at] = type == 2;
    }
    return 0;
}

static int
convert_user(const Work *w, int column)
{
    Batch *b = w->b;
    for (int64_t i = 0; i < w->n; i++) {
        const RowSource *r = &w->sources[i];
        const ArrowColumn *a = column_of(w, r, column);
        char digits[32];
        const char *text = digits;
        int64_t n = 0, value;
        b->text_at[r->at] = -1;
        if (arrow_is_null(a, r->local))
            continue;
        if (a->type.element >= ARROW_TEXT32) {
            text = arrow_text(a, r->local, &n);
        } else {
            arrow_ints(a, r->local, 1, &value);
            n = snprintf(digits, sizeof digits, "%" PRId64, value);
        }
        if ((size_t)n >= b->text_room - b->n_text) {
            size_t room = 2 * b->text_room + (size_t)n + 256;
            char *bigger = realloc(b->text_bytes, room);
            if (!bigger)
                return fail_at(w, column, r->row, "out of memory");
            b->text_bytes = bigger;
            b->text_room = room;
        }
        b->text_at[r->at] = (int64_t)b->n_text;
        memcpy(b->text_bytes + b->n_text, text, (size_t)n);
        b->text_bytes[b->n_text + (size_t)n] = '\0';
        b->n_text += (size_t)n + 1;
    }
    return 0;
}

static int
convert_column(const Work *w, int column)
{
    bool strict = w->d->options.strict_time;
    switch (w->d->columns.columns[column].role) {
    case COLUMN_TIME:
        return convert_time(w, column);
    case COLUMN_LABEL:
        return convert_label(w, column);
    case COLUMN_USER:
        return convert_user(w, column);
    case COLUMN_ID:
        return convert_ids(w, column);
    case COLUMN_DENSE:
        return convert_dense(w, column);
    case COLUMN_EVENT:
        return strict ? 0 : convert_events(w, column);
    case COLUMN_EVENT_TIME:
        return strict ? convert_strict(w, column) : convert_events(w, column);
    }
    return 0;
}

// Collects the rows of the group that the batch's row `from` lies in, and marks them
// done.
static int64_t
collect(Batch *b, const DataGroup *at, const GroupData *g, int64_t from)
{
    int64_t n = 0;
    int chunk = 0;
    for (int64_t i = from; i < b->n_rows; i++) {
        int64_t local = b->rows[i] - at->first;
        if (b->done[i] || local < 0 || local >= at->rows)
            continue;
        if (local < g->first[chunk])
            chunk = 0;
        while (local >= g->first[chunk + 1])
            chunk++;
        b->sources[n++] = (RowSource){i, b->rows[i], local - g->first[chunk], chunk};
        b->done[i] = 1;
    }
    return n;
}

static int
fill_group(Data *d, Batch *b, int64_t from, DataError *e)
{
    int group = group_of_row(d, b->rows[from]), rc = 0;
    const GroupData *g = group_acquire(d, group, e);
    if (!g)
        return -1;
    Work w = {d, b, &d->groups[group], g, b->sources, 0, e};
    w.n = collect(b, w.at, g, from);
    for (int c = 0; c < d->columns.n && !rc; c++)
        rc = convert_column(&w, c);
    group_release(d, group);
    return rc;
}

int
batch_fill(Data *d, Batch *b, DataError *e)
{
    size_t n = (size_t)b->n_rows;
    b->shown.tensors.size = b->n_rows;
    b->n_text = 0;
    memset(b->oov, 0, sizeof *b->oov * (size_t)d->columns.n);
    memset(b->label, 0, sizeof *b->label * n);
    memset(b->done, 0, n);
    for (int i = 0; i < d->schema->n_domains; i++)
        memset(b->lengths[i], 0, sizeof *b->lengths[i] * n);
    for (int64_t i = 0; i < b->n_rows; i++)
        if (!b->done[i] && fill_group(d, b, i, e))
            return -1;
    for (int64_t i = 0; i < b->n_rows; i++)
        b->texts[i] = b->text_at[i] < 0 ? NULL : b->text_bytes + b->text_at[i];
    return 0;
}

// sampler.c - decides which rows the next batch holds.
//
// Every sampler gives global row numbers, so that reading knows no difference: a scan's
// batch is a run of rows, a shuffled one a permutation, a replayed one whatever its line
// says.

#include "data_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"

int
data_sampler_parse(const char *name, DataSampler *out, DataError *e)
{
    *out = DATA_SCAN;
    if (!strcmp(name, "step_random"))
        *out = DATA_STEP_RANDOM;
    else if (!strcmp(name, "row_group_sweep"))
        *out = DATA_SWEEP;
    else
        return data_fail(e,
                         "sampling strategy '%s' is unknown; there are step_random and "
                         "row_group_sweep",
                         name);
    return 0;
}

static int
init_order(Sampler *s, DataError *e)
{
    int64_t begin = 0;
    s->batches = s->o.order_steps;
    for (int64_t i = 0; i < s->o.order_steps; i++) {
        int64_t end = s->o.order_ends[i];
        if (end <= begin)
            return data_fail(e, "order: step %" PRId64 " has no rows", i);
        for (int64_t k = begin; k < end; k++)
            if (s->o.order[k] < 0 || s->o.order[k] >= s->d->rows)
                return data_fail(e,
                                 "order: step %" PRId64 " names row %" PRId64
                                 ", the data set has rows 0 to %" PRId64,
                                 i, s->o.order[k], s->d->rows - 1);
        s->capacity = end - begin > s->capacity ? end - begin : s->capacity;
        begin = end;
    }
    return 0;
}

static int
init_groups(Sampler *s, DataError *e)
{
    const Data *d = s->d;
    if (s->o.batch_size < 1)
        return data_fail(e, "batch size must be at least 1, found %" PRId64,
                         s->o.batch_size);
    if (s->o.first_group < 0 || s->o.end_group > d->n_groups ||
        s->o.first_group >= s->o.end_group)
        return data_fail(e, "row groups %d to %d do not lie among the data set's %d",
                         s->o.first_group, s->o.end_group, d->n_groups);
    s->group = s->o.first_group;
    s->first_row = d->groups[s->group].first;
    for (int i = s->o.first_group; i < s->o.end_group; i++) {
        int64_t rows = d->groups[i].rows;
        s->rows += rows;
        s->batches += (rows - 1) / s->o.batch_size + 1;
        int64_t largest = rows < s->o.batch_size ? rows : s->o.batch_size;
        s->capacity = largest > s->capacity ? largest : s->capacity;
    }
    return 0;
}

static int
init_buffer(Sampler *s, DataError *e)
{
    int64_t n = s->o.buffer_batches;
    if (s->o.sampler != DATA_SWEEP || n <= 0)
        return 0;
    n = n < s->batches ? n : s->batches;
    size_t bytes = sizeof(int64_t) * (size_t)(n * s->capacity);
    s->buffer = malloc(bytes);
    s->shuffled = malloc(bytes);
    // Batches cut from the buffer are as large as asked for, not as the largest group.
    int64_t largest = s->o.batch_size < s->rows ? s->o.batch_size : s->rows;
    s->capacity = largest > s->capacity ? largest : s->capacity;
    return s->buffer && s->shuffled ? 0
                                    : data_fail(e, "no memory for the shuffle buffer");
}

int
sampler_init(Sampler *s, const Data *d, const DataStreamOptions *o, DataError *e)
{
    *s = (Sampler){.d = d, .o = *o};
    if (o->sampler == DATA_ORDER)
        return init_order(s, e);
    return init_groups(s, e) ? -1 : init_buffer(s, e);
}

void
sampler_free(Sampler *s)
{
    free(s->buffer);
    free(s->shuffled);
    s->buffer = s->shuffled = NULL;
}

static int64_t
put_run(int64_t first, int64_t n, int64_t *rows)
{
    for (int64_t i = 0; i < n; i++)
        rows[i] = first + i;
    return n;
}

// Batch number `index` of a row group.
static int64_t
put_batch(const Sampler *s, int group, int64_t index, int64_t *rows)
{
    const DataGroup *g = &s->d->groups[group];
    int64_t first = index * s->o.batch_size, n = g->rows - first;
    return put_run(g->first + first, n < s->o.batch_size ? n : s->o.batch_size, rows);
}

// The next batch of the scan; 0 at the end of a sweep.
static int64_t
scan_next(Sampler *s, int64_t *rows, int *group, int64_t *index)
{
    if (s->group == s->o.end_group)
        return 0;
    *group = s->group;
    *index = s->index;
    int64_t n = put_batch(s, s->group, s->index++, rows);
    if (s->index * s->o.batch_size >= s->d->groups[s->group].rows) {
        s->group++;
        s->index = 0;
    }
    return n;
}

static uint32_t
file_crc(const Sampler *s, int group)
{
    const char *name = s->d->files[s->d->groups[group].file].name;
    uint32_t crc = 0;
    if (s->o.seed_dir) {
        crc = crc32_bytes(crc, s->o.seed_dir, strlen(s->o.seed_dir));
        crc = crc32_bytes(crc, "/", 1);
    }
    return crc32_bytes(crc, name, strlen(name));
}

// Fills the shuffle buffer and permutes it with the generator of the batch that filled
// it. The number of the sweep stands where the reference has the worker's: sweeps
// differ.
static bool
refill(Sampler *s)
{
    int group = 0;
    int64_t index = 0, n;
    s->n_buffer = s->at_buffer = 0;
    for (int64_t i = 0; i < s->o.buffer_batches; i++) {
        n = scan_next(s, s->buffer + s->n_buffer, &group, &index);
        if (!n)
            break;
        s->n_buffer += n;
    }
    if (!s->n_buffer)
        return false;
    Mt19937 g;
    mt_seed(&g, batch_seed(s->o.seed, (uint64_t)s->sweep, file_crc(s, group),
                           (uint64_t)s->d->groups[group].index, (uint64_t)index));
    mt_permutation(&g, s->n_buffer, s->shuffled);
    for (int64_t i = 0; i < s->n_buffer; i++)
        s->shuffled[i] = s->buffer[s->shuffled[i]];
    return true;
}

static int64_t
shuffled_next(Sampler *s, int64_t *rows)
{
    if (s->at_buffer == s->n_buffer && !refill(s))
        return 0;
    int64_t n = s->n_buffer - s->at_buffer;
    n = n < s->o.batch_size ? n : s->o.batch_size;
    memcpy(rows, s->shuffled + s->at_buffer, sizeof *rows * (size_t)n);
    s->at_buffer += n;
    return n;
}

// Draws one row and gives the batch that holds it.
static int64_t
random_next(const Sampler *s, int64_t *rows)
{
    const uint64_t m = INT64_MAX;
    uint64_t seed = (s->o.seed % m + (uint64_t)s->step * 1000003u % m) % m;
    seed = (seed + (uint64_t)s->batches * 101u % m) % m;
    Pcg64 g;
    pcg_seed(&g, seed);
    int64_t row = s->first_row + (int64_t)pcg_below(&g, (uint64_t)s->rows);
    int group = group_of_row(s->d, row);
    return put_batch(s, group, (row - s->d->groups[group].first) / s->o.batch_size, rows);
}

static int64_t
sweep_next(Sampler *s, int64_t *rows)
{
    int group;
    int64_t index;
    return s->buffer ? shuffled_next(s, rows) : scan_next(s, rows, &group, &index);
}

static int64_t
order_next(const Sampler *s, int64_t *rows)
{
    if (s->step == s->o.order_steps)
        return 0;
    int64_t begin = s->step ? s->o.order_ends[s->step - 1] : 0;
    int64_t n = s->o.order_ends[s->step] - begin;
    memcpy(rows, s->o.order + begin, sizeof *rows * (size_t)n);
    return n;
}

bool
sampler_next(Sampler *s, int64_t *rows, int64_t *n)
{
    *n = 0;
    if (s->o.steps > 0 && s->step == s->o.steps)
        return false;
    if (s->o.sampler == DATA_ORDER) {
        *n = order_next(s, rows);
    } else if (s->o.sampler == DATA_STEP_RANDOM) {
        if (s->o.steps > 0 || s->step < s->batches)
            *n = random_next(s, rows);
    } else {
        *n = sweep_next(s, rows);
        if (!*n && s->o.steps > 0) {
            s->group = s->o.first_group;
            s->sweep++;
            *n = sweep_next(s, rows);
        }
    }
    s->step += *n > 0;
    return *n > 0;
}

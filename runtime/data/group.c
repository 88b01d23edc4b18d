// group.c - decodes row groups and keeps the recently used ones in memory.
//
// Random steps come back to the same row groups again and again; decoding one for each
// step would cost more than the step. The cache is bounded by the bytes of the decoded
// columns; a group in use is never dropped.

#include "data_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void
group_free(GroupData *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n_chunks; i++)
        if (g->arrays[i].release)
            g->arrays[i].release(&g->arrays[i]);
    free(g->arrays);
    free(g->first);
    free(g->columns);
    free(g);
}

// Takes one array into the group. The array belongs to the group then, also on failure.
static bool
add_chunk(const Data *d, const DataFile *f, GroupData *g, struct ArrowArray *array)
{
    size_t n = (size_t)g->n_chunks, width = (size_t)d->columns.n;
    struct ArrowArray *arrays = realloc(g->arrays, sizeof *arrays * (n + 1));
    if (arrays)
        g->arrays = arrays;
    int64_t *first = realloc(g->first, sizeof *first * (n + 2));
    if (first)
        g->first = first;
    ArrowColumn *columns = realloc(g->columns, sizeof *columns * (n + 1) * width);
    if (columns)
        g->columns = columns;
    if (!arrays || !first || !columns) {
        array->release(array);
        return false;
    }
    arrays[n] = *array;
    first[0] = n ? first[0] : 0;
    first[n + 1] = first[n] + array->length;
    g->n_chunks++;
    bool ok = array->n_children == (int64_t)width && array->offset == 0;
    for (size_t c = 0; c < width && ok; c++) {
        ArrowColumn *column = &columns[n * width + c];
        ok = arrow_column_read(array->children[c], &f->columns.types[c], column) &&
             column->rows == array->length;
        g->bytes += ok ? arrow_column_bytes(column) : 0;
    }
    return ok;
}

static int
read_stream(const Data *d, const DataFile *f, const DataGroup *at, GroupData *g,
            struct ArrowArrayStream *stream, DataError *e)
{
    for (;;) {
        struct ArrowArray array = {0};
        if (stream->get_next(stream, &array)) {
            const char *why = stream->get_last_error(stream);
            return data_fail(e, "%s: row group %d: %s", f->path, at->index,
                             why ? why : "cannot be read");
        }
        if (!array.release)
            break;
        if (!add_chunk(d, f, g, &array))
            return data_fail(e, "%s: row group %d: out of memory or damaged columns",
                             f->path, at->index);
    }
    if ((g->n_chunks ? g->first[g->n_chunks] : 0) != at->rows)
        return data_fail(e, "%s: row group %d does not hold the rows that it declares",
                         f->path, at->index);
    return 0;
}

static GroupData *
group_read(const Data *d, int group, DataError *e)
{
    const DataGroup *at = &d->groups[group];
    const DataFile *f = &d->files[at->file];
    struct ArrowArrayStream stream = {0};
    char text[512];
    GroupData *g = calloc(1, sizeof *g);
    if (!g) {
        data_fail(e, "%s: row group %d: out of memory", f->path, at->index);
        return NULL;
    }
    int rc;
    if (d->parquet->read(f->parquet, at->index, f->columns.fields, d->columns.n, &stream,
                         text, sizeof text)) {
        rc = data_fail(e, "%s: row group %d: %s", f->path, at->index, text);
    } else {
        rc = read_stream(d, f, at, g, &stream, e);
        stream.release(&stream);
    }
    if (rc) {
        group_free(g);
        return NULL;
    }
    return g;
}

// Takes the least recently used group out of the cache while it exceeds its bound. Under
// the lock; the caller frees the group outside of it.
static GroupData *
evict_one(Data *d)
{
    int victim = -1;
    if (d->cache_bytes <= d->options.cache_bytes)
        return NULL;
    for (int i = 0; i < d->n_groups; i++) {
        const CacheEntry *c = &d->cache[i];
        if (c->data && !c->pins && (victim < 0 || c->used < d->cache[victim].used))
            victim = i;
    }
    if (victim < 0)
        return NULL;
    GroupData *g = d->cache[victim].data;
    d->cache[victim].data = NULL;
    d->cache_bytes -= g->bytes;
    return g;
}

const GroupData *
group_acquire(Data *d, int group, DataError *e)
{
    CacheEntry *c = &d->cache[group];
    pthread_mutex_lock(&d->lock);
    while (c->loading)
        pthread_cond_wait(&d->loaded, &d->lock);
    c->pins++;
    c->used = ++d->stamp;
    GroupData *g = c->data;
    if (!g) {
        c->loading = true;
        pthread_mutex_unlock(&d->lock);
        g = group_read(d, group, e);
        pthread_mutex_lock(&d->lock);
        c->loading = false;
        c->data = g;
        c->pins -= !g;
        d->cache_bytes += g ? g->bytes : 0;
        pthread_cond_broadcast(&d->loaded);
    }
    pthread_mutex_unlock(&d->lock);
    return g;
}

void
group_release(Data *d, int group)
{
    GroupData *dropped;
    pthread_mutex_lock(&d->lock);
    d->cache[group].pins--;
    while ((dropped = evict_one(d)) != NULL) {
        pthread_mutex_unlock(&d->lock);
        group_free(dropped);
        pthread_mutex_lock(&d->lock);
    }
    pthread_mutex_unlock(&d->lock);
}

int
group_of_row(const Data *d, int64_t row)
{
    int low = 0, high = d->n_groups;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (d->groups[middle].first <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

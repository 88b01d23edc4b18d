// reader.c - reads batches ahead with a few threads.
//
// Batches are numbered by the sampler, which one thread at a time asks; batch t is read
// into slot t mod n. The caller takes the slots in order, so that what it sees does not
// depend on which thread was faster.

#include "data_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct Slot {
    Batch *batch;
    bool ready, failed;
    DataError error;
} Slot;

struct DataStream {
    Data *d;
    pthread_mutex_t lock;
    pthread_cond_t ready, room;
    Sampler sampler;
    Slot *slots;
    int n_slots;
    int64_t taken;    // batches handed to threads
    int64_t given;    // batches handed to the caller
    int64_t released; // batches that the caller is done with
    bool ended, stop;
    pthread_t *threads;
    int n_threads;
    BatchOov *oov; // [n_columns], of the batches given
    DataOov *shown;
};

// Waits for a free slot and takes the next batch's rows into it. False when there is
// none.
static bool
take(DataStream *s, Slot **slot)
{
    while (!s->stop && !s->ended && s->taken - s->released >= s->n_slots)
        pthread_cond_wait(&s->room, &s->lock);
    if (s->stop || s->ended)
        return false;
    *slot = &s->slots[s->taken % s->n_slots];
    Batch *b = (*slot)->batch;
    if (!sampler_next(&s->sampler, b->rows, &b->n_rows)) {
        s->ended = true;
        pthread_cond_broadcast(&s->ready);
        pthread_cond_broadcast(&s->room);
        return false;
    }
    b->shown.index = s->taken++;
    return true;
}

static void *
read_ahead(void *arg)
{
    DataStream *s = arg;
    Slot *slot;
    pthread_mutex_lock(&s->lock);
    while (take(s, &slot)) {
        pthread_mutex_unlock(&s->lock);
        slot->error.text[0] = '\0';
        int rc = batch_fill(s->d, slot->batch, &slot->error);
        pthread_mutex_lock(&s->lock);
        slot->failed = rc != 0;
        slot->ready = true;
        pthread_cond_broadcast(&s->ready);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

// Signals are for the program's own threads.
static int
start_threads(DataStream *s, int n, DataError *e)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = 0;
    while (s->n_threads < n && !rc) {
        rc = pthread_create(&s->threads[s->n_threads], NULL, read_ahead, s);
        s->n_threads += !rc;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    // One thread is enough to go on.
    return s->n_threads ? 0
                        : data_fail(e, "cannot start a reader thread: %s", strerror(rc));
}

static int
open_slots(DataStream *s, int threads, DataError *e)
{
    s->slots = calloc((size_t)s->n_slots, sizeof *s->slots);
    s->threads = calloc((size_t)threads, sizeof *s->threads);
    s->oov = calloc((size_t)s->d->columns.n, sizeof *s->oov);
    s->shown = calloc((size_t)s->d->columns.n, sizeof *s->shown);
    if (!s->slots || !s->threads || !s->oov || !s->shown)
        return data_fail(e, "out of memory");
    for (int i = 0; i < s->n_slots; i++)
        if (!(s->slots[i].batch = batch_new(s->d, s->sampler.capacity, e)))
            return -1;
    return 0;
}

int
data_stream_open(Data *d, const DataStreamOptions *o, DataStream **out, DataError *e)
{
    int threads = o->threads > 0 ? o->threads : 1;
    *out = NULL;
    DataStream *s = calloc(1, sizeof *s);
    if (!s)
        return data_fail(e, "out of memory");
    s->d = d;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->ready, NULL);
    pthread_cond_init(&s->room, NULL);
    s->n_slots = (o->ready > 0 ? o->ready : 2 * threads) + 1;
    if (sampler_init(&s->sampler, d, o, e) || open_slots(s, threads, e) ||
        start_threads(s, threads, e)) {
        data_stream_close(s);
        return -1;
    }
    *out = s;
    return 0;
}

// Adds the batch's out-of-vocabulary ids to those of the stream.
static void
merge_oov(DataStream *s, const Batch *b)
{
    for (int i = 0; i < s->d->columns.n; i++) {
        const BatchOov *from = &b->oov[i];
        BatchOov *to = &s->oov[i];
        if (!from->count)
            continue;
        if (!to->count)
            *to = *from;
        else
            to->count += from->count;
        to->min = from->min < to->min ? from->min : to->min;
        to->max = from->max > to->max ? from->max : to->max;
    }
}

int
data_stream_next(DataStream *s, const DataBatch **out, DataError *e)
{
    *out = NULL;
    pthread_mutex_lock(&s->lock);
    if (s->released < s->given) {
        s->slots[s->released % s->n_slots].ready = false;
        s->released++;
        pthread_cond_broadcast(&s->room);
    }
    Slot *slot = &s->slots[s->given % s->n_slots];
    while (!slot->ready && !(s->ended && s->given == s->taken))
        pthread_cond_wait(&s->ready, &s->lock);
    bool there = slot->ready;
    pthread_mutex_unlock(&s->lock);
    if (!there)
        return 0;
    // A failed batch is never released: the threads run into the end of their slots.
    if (slot->failed)
        return data_fail(e, "%s", slot->error.text);
    s->given++;
    merge_oov(s, slot->batch);
    *out = &slot->batch->shown;
    return 1;
}

int64_t
data_stream_batches(const DataStream *s)
{
    return s->sampler.batches;
}

int64_t
data_stream_bytes(const DataStream *s)
{
    return s->n_slots * s->slots[0].batch->bytes;
}

const DataOov *
data_stream_oov(DataStream *s, int *n)
{
    const Data *d = s->d;
    *n = 0;
    for (int i = 0; i < d->columns.n; i++) {
        const BatchOov *o = &s->oov[i];
        if (!o->count)
            continue;
        const DataGroup *g = &d->groups[group_of_row(d, o->first_row)];
        s->shown[(*n)++] = (DataOov){
            .column = d->columns.columns[i].name,
            .vocab = d->columns.columns[i].vocab,
            .count = o->count,
            .min = o->min,
            .max = o->max,
            .first_file = d->files[g->file].path,
            .first_row = o->first_row - g->first + g->in_file,
            .first_value = o->first_value,
        };
    }
    return s->shown;
}

void
data_stream_close(DataStream *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->room);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->n_threads; i++)
        pthread_join(s->threads[i], NULL);
    for (int i = 0; i < s->n_slots && s->slots; i++)
        batch_free(s->slots[i].batch);
    free(s->slots);
    free(s->threads);
    free(s->oov);
    free(s->shown);
    sampler_free(&s->sampler);
    pthread_cond_destroy(&s->ready);
    pthread_cond_destroy(&s->room);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

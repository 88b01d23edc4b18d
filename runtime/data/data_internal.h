// data_internal.h - what the parts of the reader share: decoded row groups, batches,
// sampling.

#ifndef PCVR_DATA_INTERNAL_H
#define PCVR_DATA_INTERNAL_H

#include <pthread.h>

#include "arrow.h"
#include "columns.h"
#include "data.h"
#include "parquet.h"

typedef struct DataFile {
    char *path;
    const char *name; // the path's last part
    pcvr_parquet_file *parquet;
    FileColumns columns;
} DataFile;

// A decoded row group: arrays that follow one another.
typedef struct GroupData {
    int n_chunks;
    struct ArrowArray *arrays; // [n_chunks], owned
    int64_t *first;            // [n_chunks + 1] row where each begins, then the rows
    ArrowColumn *columns;      // [n_chunks, n_columns]
    int64_t bytes;
} GroupData;

// Where a row group stands in the cache.
typedef struct CacheEntry {
    GroupData *data; // NULL: not decoded
    bool loading;
    int pins;      // threads that use it
    uint64_t used; // stamp of the last use
} CacheEntry;

struct Data {
    Schema *schema;
    DataOptions options;
    const pcvr_parquet *parquet;
    Columns columns;
    DataFile *files;
    int n_files;
    DataGroup *groups;
    int n_groups;
    int64_t rows;
    // The cache; `lock` guards what follows.
    pthread_mutex_t lock;
    pthread_cond_t loaded;
    CacheEntry *cache; // [n_groups]
    int64_t cache_bytes;
    uint64_t stamp;
};

// ---- group.c
// ---------------------------------------------------------------------------------

// The decoded row group, read unless it is in the cache; it stays until released. NULL
// on error.
const GroupData *group_acquire(Data *d, int group, DataError *e);
void group_release(Data *d, int group);
void group_free(GroupData *g);
// The group that holds a global row.
int group_of_row(const Data *d, int64_t row);

// ---- batch.c
// ---------------------------------------------------------------------------------

// Out-of-vocabulary ids of one column in one batch; rows are global.
typedef struct BatchOov {
    int64_t count, min, max, first_row, first_value;
} BatchOov;

// Where a row of a batch comes from.
typedef struct RowSource {
    int64_t at;    // in the batch
    int64_t row;   // global
    int64_t local; // in its chunk
    int chunk;
} RowSource;

typedef struct Batch {
    DataBatch shown;
    int64_t capacity, n_rows;
    void *memory; // everything below that has a fixed size
    int64_t bytes;
    int64_t *rows;
    int64_t *ids[2], *time, *label; // [0] user, [1] item
    uint8_t *id_missing[2], *dense_missing[2];
    float *dense[2];
    pcvr_domain *domains;
    int64_t **values, **lengths, **times; // a domain each
    int64_t *kept;                        // [longest list so far] positions, strict time
    int64_t n_kept;
    RowSource *sources;
    uint8_t *done;
    int64_t *text_at; // offsets in texts, -1 for null
    const char **texts;
    char *text_bytes;
    size_t n_text, text_room;
    BatchOov *oov; // [n_columns]
} Batch;

Batch *batch_new(const Data *d, int64_t capacity, DataError *e);
// Fills the batch with its n_rows rows, whose numbers stand in `rows`.
int batch_fill(Data *d, Batch *b, DataError *e);
void batch_free(Batch *b);

// ---- sampler.c
// -------------------------------------------------------------------------------

typedef struct Sampler {
    const Data *d;
    DataStreamOptions o;
    int64_t first_row, rows, batches; // of one sweep
    int64_t capacity;                 // rows of the largest batch
    int64_t step, sweep;              // batches given out, sweeps begun before
    int group;                        // of a scan: the next batch is
    int64_t index;                    // number `index` of this group
    int64_t *buffer, *shuffled;       // rows waiting in the shuffle buffer
    int64_t n_buffer, at_buffer;
} Sampler;

int sampler_init(Sampler *s, const Data *d, const DataStreamOptions *o, DataError *e);
// The rows of the next batch; false at the end.
bool sampler_next(Sampler *s, int64_t *rows, int64_t *n);
void sampler_free(Sampler *s);

#endif

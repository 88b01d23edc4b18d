// data.h - data sets in the Parquet layout of the reference: open, split, read batches.
//
// A data set is one Parquet file or a directory of *.parquet files (sorted by name, not
// recursive). Rows count from 0 over all files in that order: the global row number. Row
// groups count likewise. Reading goes through build/libpcvr_parquet.so, loaded when a
// set is opened.
//
//     Data *d;
//     data_open(path, schema, NULL, &d, &e);
//     data_split(d, "row_group_tail", 0.1, 1.0, &split, &e);
//     DataStreamOptions o = {.batch_size = 256, .first_group = split.train_first,
//                            .end_group = split.train_end, .sampler = DATA_STEP_RANDOM,
//                            .seed = 42, .threads = 2};
//     data_stream_open(d, &o, &s, &e);
//     while ((rc = data_stream_next(s, &batch, &e)) == 1)
//         use(&batch->tensors);
//     data_stream_close(s);
//     data_close(d);

#ifndef PCVR_DATA_H
#define PCVR_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "data_error.h"
#include "pcvr.h"
#include "schema.h"

typedef struct Data Data;
typedef struct DataStream DataStream;

typedef struct DataOptions {
    bool inference;      // label_type is not read and need not exist; labels are 0
    bool strict_ids;     // an id outside its vocabulary is an error
    bool strict_time;    // sequences keep the last L events with 0 < time < request time
    int64_t cache_bytes; // decoded row groups kept in memory; 0: 512 MiB, negative: none
    const char *shim;    // path of the Parquet library; NULL: $PCVR_PARQUET, else found
} DataOptions;

typedef struct DataGroup {
    int file, index; // the file's number, the row group's number inside it
    int64_t rows;
    int64_t first, in_file; // the first row's number: global, inside the file
} DataGroup;

// Opens every file of the set, checks that it has the columns of the schema in readable
// types, and reads no rows yet. `schema` is copied. 0, or -1 with one line in e.
int data_open(const char *path, const Schema *schema, const DataOptions *o, Data **out,
              DataError *e);
void data_close(Data *d);

const Schema *data_schema(const Data *d);
int64_t data_rows(const Data *d);
int data_n_files(const Data *d);
const char *data_file(const Data *d, int file);
int data_n_groups(const Data *d);
const DataGroup *data_group(const Data *d, int group);

// The path of schema.json inside a data set's directory or beside its file. The caller
// frees it; NULL when memory is short. The file need not exist.
char *data_schema_path(const char *dataset);

// What row groups [first, end) hold, as a schema: in the place of vocabularies the distinct positive
// ids, of time features the largest time, in the place of dims the longest list. The caller frees it;
// NULL on failure.
Schema *data_observe(Data *d, int first, int end, DataError *e);

// Row groups [train_first, train_end) train, [valid_first, valid_end) validate.
typedef struct DataSplit {
    int train_first, train_end, valid_first, valid_end;
    int64_t train_rows, valid_rows;
    bool reused; // a single row group serves both parts
} DataSplit;

// Splits by the named strategy; only row_group_tail is built, others are refused by
// name. valid_ratio lies in (0, 1), train_ratio in (0, 1]. The last max(1, floor(n
// valid_ratio)) row groups validate; a train_ratio below 1 keeps that share of the
// leading row groups, and validation starts right behind them.
int data_split(const Data *d, const char *strategy, double valid_ratio,
               double train_ratio, DataSplit *out, DataError *e);

typedef enum DataSampler {
    DATA_SCAN, // file order, each row group cut into batches, the last of them short
    DATA_STEP_RANDOM, // each step draws one batch of the scan, weighted by its rows
    DATA_SWEEP,       // row_group_sweep: a scan through a shuffle buffer
    DATA_ORDER,       // rows as listed by the caller
} DataSampler;

// step_random or row_group_sweep by name; -1 for another one.
int data_sampler_parse(const char *name, DataSampler *out, DataError *e);

typedef struct DataStreamOptions {
    int64_t batch_size;
    int first_group, end_group; // the row groups that are read (not for DATA_ORDER)
    DataSampler sampler;
    int64_t buffer_batches; // DATA_SWEEP: batches in the shuffle buffer; 0: no shuffling
    uint64_t seed;          // of the sampler
    const char *seed_dir;   // put before file names in seeds; NULL: the name alone counts
    int64_t steps;          // batches until the end; 0: one sweep; over it, sweep again
    const int64_t *order;   // DATA_ORDER: global row numbers, one batch behind the other
    const int64_t *order_ends; // [order_steps]: where each batch ends in `order`
    int64_t order_steps;
    int threads; // reader threads; 0: 1
    int ready;   // batches read ahead; 0: two a thread
} DataStreamOptions;

// A batch stays valid until the next call on its stream.
typedef struct DataBatch {
    pcvr_batch tensors;
    const int64_t *rows;         // [B] global row numbers
    const char *const *user_ids; // [B] as text (integers in decimal); NULL for null
    int64_t index;               // of the batch in its stream
} DataBatch;

// Reads an order file: one line a step, row numbers apart by blanks or commas; lines that are
// empty or begin with '#' are skipped. The caller frees both arrays. Row numbers are checked
// by data_stream_open. -1 names the file and the line.
int data_order_read(const char *path, int64_t **order, int64_t **order_ends,
                    int64_t *order_steps, DataError *e);

// Starts the reader threads. `order` is used until the stream is closed. The order of
// batches and their content depend on the options alone, never on the number of threads.
int data_stream_open(Data *d, const DataStreamOptions *o, DataStream **out, DataError *e);

// The next batch: 1; the end: 0; failure: -1, and again at every later call.
int data_stream_next(DataStream *s, const DataBatch **out, DataError *e);

// Batches of one sweep (row groups cut by the batch size), or of the whole order.
int64_t data_stream_batches(const DataStream *s);

// Bytes that all batches in flight hold.
int64_t data_stream_bytes(const DataStream *s);

// Ids at or above their vocabulary in one column, among the positions that batches keep.
typedef struct DataOov {
    const char *column;
    int64_t vocab, count, min, max;
    const char *first_file; // the first of them in the stream's order: file,
    int64_t first_row;      // row inside the file, from 0,
    int64_t first_value;    // and value
} DataOov;

// The columns that had such ids in the batches delivered so far; n of them. Valid until
// the next call on the stream.
const DataOov *data_stream_oov(DataStream *s, int *n);

// Stops and joins the threads; batches not yet delivered are dropped.
void data_stream_close(DataStream *s);

#endif

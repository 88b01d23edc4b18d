// synth.h - writes a learnable data set in the reference's layout.

#ifndef PCVR_DATA_SYNTH_H
#define PCVR_DATA_SYNTH_H

#include <stdbool.h>
#include <stdint.h>

#include "data_error.h"
#include "schema.h"

typedef struct SynthOptions {
    int64_t rows;       // 0: 16000 (official: 4000)
    int64_t files;      // 0: 4, or one a row
    int64_t group_rows; // rows of a row group; 0: 800 (official: 200)
    int64_t vocab_cap;  // 0: 100 (official: 1000), at least 50
    int64_t max_len;    // longest sequence; 0: 32 (official: 256)
    uint64_t seed;      // of the rows; the truth behind the labels is always the same
    bool official;      // every official column at full width
    const char *shim;   // as in DataOptions
} SynthOptions;

typedef struct SynthReport {
    int64_t rows, positives, files, groups;
    double best_auc;     // of the true probabilities on the labels drawn: what a perfect
    double best_logloss; // model reaches, and its logloss
} SynthReport;

// Writes part-NNNNN.parquet files and schema.json into a directory, which is made
// where it is missing and must not hold Parquet files. All official user_int and
// item_int fids are there, in vocabularies up to vocab_cap; without `official`, lists,
// dense features and domains are narrow. The same options give the same rows. On
// failure what was written is removed.
int synth_write(const char *dir, const SynthOptions *o, SynthReport *out, DataError *e);

// The schema that these options give. NULL when memory is short.
Schema *synth_schema(const SynthOptions *o, DataError *e);

#endif

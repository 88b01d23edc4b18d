// bench_batch.h - a batch made up from a schema: the same numbers everywhere.

#ifndef PCVR_DRIVER_BENCH_BATCH_H
#define PCVR_DRIVER_BENCH_BATCH_H

#include <stdbool.h>

#include "pcvr.h"
#include "schema.h"

typedef struct BenchBatch {
    pcvr_batch batch;
    pcvr_domain *domains;
    void **blocks; // allocations
    int n_blocks;
} BenchBatch;

// B samples from the number recipe on the names "bench.<tensor>", tensors named as in a
// recorded batch: ids uniform in [1, vocabulary], in fields 0 too; lengths full, or with
// `mixed` uniform in [1, L]; times of a sequence ascending within the 30 days before the
// request; dense values in [-1, 1); one missing flag in eight; labels 0 and 1. Positions
// past a length are 0. false when memory is short.
bool bench_batch_new(BenchBatch *b, const Schema *s, int64_t B, bool mixed);
void bench_batch_free(BenchBatch *b);

#endif

// runner.h - the insides of a runner, shared by runner.c, sizes.c, lane.c, step.c,
// finish.c, project.c, poison.c.

#ifndef PCVR_RUNNER_H
#define PCVR_RUNNER_H

#include "arena.h"
#include "pcvr.h"
#include "pool.h"
#include "rowstore.h"

// Options with every default filled in, and the sizes that follow.
typedef struct PcvrSizes {
    pcvr_options
        o; // lanes, threads (at most lanes) and chunk (samples, at most a lane's) are set
    bool whole;       // PCVR_CHUNK_BATCH: inputs and kept values of the whole batch stay
    int64_t batch;    // the largest
    int64_t lane_max; // samples of the largest lane
    int64_t records; // of inputs and kept values in one buffer: a chunk's, or the batch's
    int64_t buffers; // of records: one a thread, or one
    int64_t raw_bytes; // of a raw batch
    int64_t scratch_bytes; // of one thread
    int64_t param_bytes, packed_bytes;
    int64_t grad_bytes, dlogits_bytes, acc_bytes; // acc: one lane
    int64_t store_bytes;                          // row stores of one lane
    int64_t merged_bytes;                         // merged rows of all tables
    int64_t sort_entries; // touched rows of the largest table, all lanes
} PcvrSizes;

// Samples of lane l of n: [*first, *end).
static inline void
pcvr_lane_bounds(int64_t batch, int64_t lanes, int64_t l, int64_t *first, int64_t *end)
{
    *first = l * batch / lanes;
    *end = (l + 1) * batch / lanes;
}

// Floats that n floats take in a buffer: whole lines.
static inline int64_t
pcvr_line_floats(int64_t n)
{
    return (n + 15) / 16 * 16;
}

static inline int64_t
pcvr_table_width(const pcvr_param *p)
{
    return p->shape[0] > 0 ? p->size / p->shape[0] : 0;
}

// The projection of a store, or NULL.
static inline const pcvr_projection *
pcvr_store_projection(const pcvr_module *m, int store)
{
    int k = m->stores[store].projection;
    return k > 0 ? &m->projections[k - 1] : NULL;
}

// The projection of a table, or NULL.
static inline const pcvr_projection *
pcvr_table_projection(const pcvr_module *m, int param)
{
    for (int k = 0; k < m->n_projections; k++)
        if (m->projections[k].table == param)
            return &m->projections[k];
    return NULL;
}

// Floats of a row of a store.
static inline int64_t
pcvr_store_width(const pcvr_module *m, int store)
{
    const pcvr_projection *p = pcvr_store_projection(m, store);
    return p ? p->width : pcvr_table_width(&m->params[m->stores[store].param]);
}

// Most rows that one store of one lane can hold.
int64_t pcvr_store_capacity(const pcvr_module *m, int store, int64_t lane_max);
// Most rows that all lanes together can touch in a table.
int64_t pcvr_table_touched(const pcvr_module *m, int param, const PcvrSizes *z);
// false when options or batch lie outside their domain.
bool pcvr_sizes(const pcvr_module *m, int64_t batch, const pcvr_options *o, PcvrSizes *z);
void pcvr_sizes_plan(const pcvr_module *m, const PcvrSizes *z, pcvr_plan *out);
// Bytes of a raw batch of that size.
int64_t pcvr_raw_bytes(const pcvr_layout *l, int64_t batch);

typedef struct PcvrLane {
    int64_t first, end; // samples, of the current batch
    float *acc;
    pcvr_rows *stores; // [n_stores]
    int status;        // first failure
} PcvrLane;

typedef struct PcvrWorker {
    unsigned char *inputs,
        *kept; // records of a chunk, or of the whole batch (shared by all)
    unsigned char *scratch;
    double *seconds;             // [n_regions]
    double times[PCVR_TIMES];    // of steps
    PcvrTouched *touched, *room; // [sort_entries] each
} PcvrWorker;

// What a walk over the lanes does, in this order.
enum {
    PCVR_WALK_CLEAR = 1, // accumulators and row stores
    PCVR_WALK_GATHER = 2,
    PCVR_WALK_FORWARD = 4,
    PCVR_WALK_KEEP = 8,
    PCVR_WALK_LOSS = 16,
    PCVR_WALK_BACKWARD = 32,
};

typedef struct PcvrWalk {
    unsigned what;
    const pcvr_batch *batch;
    pcvr_loss_fn *loss;
    void *loss_arg;
    float *logits, *embeddings;
    bool training, timed;
    uint64_t seed;
    uint32_t step;
} PcvrWalk;

struct pcvr_runner {
    const pcvr_module *m;
    PcvrSizes z;
    pcvr_plan plan;
    PcvrArena arena;
    PcvrPool *pool;
    PcvrLane *lanes;     // [lanes]
    PcvrWorker *workers; // [threads]
    pcvr_rows *stores;   // [lanes, n_stores]
    float **params;      // [n_params]
    float **grads;       // [n_params], NULL for tables
    pcvr_sparse *rows;   // [n_params]; ids and values are writable for the runner
    float **projected;   // [n_params] merged rows of the table's projection, or NULL
    float *packed, *dlogits;
    double *clocks;      // [threads, n_regions]
    pcvr_batch poisoned; // the copy that poison reads instead
    pcvr_domain *poisoned_domains;
    unsigned char *poison_ids; // room to look for unused ids
    double summing;            // seconds in pcvr_finish
    int64_t raw_high;          // bytes of the largest raw batch seen
    PcvrWalk walk;             // of the call in progress
};

// lane.c: every lane, on all threads; the first lane's failure, or 0.
int pcvr_walk(pcvr_runner *r, const PcvrWalk *w);
// project.c: tables projected, on all threads; their gradients, after lanes are added.
void pcvr_project(pcvr_runner *r);
void pcvr_project_back(pcvr_runner *r);
// NULL, or what is wrong with the projections of a module.
const char *pcvr_projections_fault(const pcvr_module *m);
// finish.c: lanes to parameter gradients, on all threads.
void pcvr_finish(pcvr_runner *r);
// poison.c: allocates the copy; false when memory is short.
bool pcvr_poison_new(pcvr_runner *r);
// The copy of b with other values where nothing may be read.
const pcvr_batch *pcvr_poison_batch(pcvr_runner *r, const pcvr_batch *b);

#endif

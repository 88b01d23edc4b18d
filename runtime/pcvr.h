// pcvr.h - the runtime's public interface: what a compiled module offers and what runs
// it.
//
// A module computes one model, for samples that never meet. The runtime cuts a batch into
// lanes, lanes go to threads, a lane walks its samples in chunks. Module functions are
// pure: they write only where the context points. They return 0 or a negative PCVR_E
// code; only gather_inputs can fail.

#ifndef PCVR_H
#define PCVR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCVR_ABI 5u

enum {
    PCVR_OK = 0,
    PCVR_EINVAL = -1, // an argument outside its domain
    PCVR_ENOMEM = -2,
    PCVR_EIO = -3,
    PCVR_EFORMAT = -4, // malformed input
    PCVR_EABI = -5,    // a module of another ABI
    PCVR_EISA = -6,    // the CPU lacks what the module needs
};

// ---- raw batch ------------------------------------------------------------------------

// One sequence domain: F features (without the timestamp), L positions.
typedef struct pcvr_domain {
    const int64_t *values;     // [B, F, L]
    const int64_t *lengths;    // [B]
    const int64_t *timestamps; // [B, L]
} pcvr_domain;

// A batch as the reader delivers it; a pointer may be NULL where its width is 0. Masks
// hold 0 or 1.
typedef struct pcvr_batch {
    int64_t size;
    const int64_t *user_ints;        // [B, U]
    const uint8_t *user_int_missing; // [B, U]
    const float *user_dense;         // [B, Ud]
    const uint8_t *user_dense_missing;
    const int64_t *item_ints; // [B, I]
    const uint8_t *item_int_missing;
    const float *item_dense; // [B, Id]
    const uint8_t *item_dense_missing;
    int n_domains; // in the order of their names
    const pcvr_domain *domains;
    const int64_t *request_time; // [B]
    const int64_t *label;        // [B], 0 or 1; NULL where not needed
} pcvr_batch;

// ---- module: data ---------------------------------------------------------------------

enum {
    PCVR_PARAM_TABLE = 1,   // looked up by id: row-wise gradient, sparse optimiser
    PCVR_PARAM_PADDING = 2, // row 0 is zero
    PCVR_PARAM_MATRICES = 4,
    PCVR_PARAM_ADAMW = 8,
    PCVR_PARAM_FROZEN = 16,
    PCVR_PARAM_UNUSED = 32, // reaches no logit
};

typedef enum pcvr_init {
    PCVR_INIT_ZEROS,
    PCVR_INIT_ONES,
    PCVR_INIT_CONSTANT,
    PCVR_INIT_UNIFORM,
    PCVR_INIT_NORMAL,
    PCVR_INIT_XAVIER_NORMAL,
    PCVR_INIT_XAVIER_UNIFORM,
} pcvr_init;

typedef struct pcvr_param {
    const char *name;
    int32_t rank;
    int64_t shape[4];
    int64_t size; // elements
    uint32_t flags;
    int64_t table_ids; // ids that count for re-initialisation
    pcvr_init init;
    double init_value; // the constant, bound or standard deviation
} pcvr_param;

// One dense accumulator: a node of the backward pass that adds to a parameter. It is one
// run of floats, or rows of them where it adds to a part of each row.
typedef struct pcvr_use {
    int32_t param;
    int64_t first;  // first element of the parameter's gradient that it adds to
    int64_t size;   // elements of a row
    int64_t offset; // floats from the start of the lane's accumulators
    int64_t rows;   // 0 and 1: one
    int64_t step;   // elements from row to row of the gradient
    int64_t pitch;  // floats from row to row of the accumulator
} pcvr_use;
// Uses of one module lie side by side, no float in two of them: the runtime adds the
// lanes in place.

// One row store: rows of a table's gradient touched by one phase of the program.
typedef struct pcvr_store_info {
    int32_t param;
    int64_t ids_per_sample; // most rows that one sample can touch, row 0 included
    int32_t projection;     // from 1: it holds rows of that projection; 0: of the table
} pcvr_store_info;

// A projected table: P [rows, width], the table's rows times rows first .. first + depth of
// a weight, made once a step. Row 0 of a padding table projects to zero. With several
// columns the weight has as many parts, and row v of the table, from 1 on, meets part
// (v - 1) / ((rows - 1) / columns). All of the table's gradient comes as rows of P's.
typedef struct pcvr_projection {
    int32_t table, weight; // parameters
    int64_t rows, depth;   // of the table
    int64_t first;
    int64_t pitch;   // rows of the weight, or of a part
    int64_t width;   // of the product
    int64_t columns; // 1: the weight is one part
    int64_t offset;  // floats from the start of the packed weights
    int32_t transposed; // a part is stored [width, pitch]
    int32_t padding;
} pcvr_projection;

// For project_back: rows of one column of a projection, ascending.
typedef struct pcvr_back {
    const float *table, *weight; // parameters
    int64_t n;                   // rows touched
    const int64_t *ids;          // [n]
    const float *rows;           // [n, width] gradient of P
    float *dtable;               // [n, depth] gradient of the table's rows, written
    float *dweight;              // the weight's gradient, added to
    int64_t column;
} pcvr_back;

// What gather_inputs reads of a batch: bits of pcvr_layout.reads and
// pcvr_domain_info.reads. A tensor without its bit may be NULL or hold anything. Zero
// means "not said": everything.
enum {
    PCVR_READ_USER_INTS = 1,
    PCVR_READ_USER_INT_MISSING = 2,
    PCVR_READ_USER_DENSE = 4,
    PCVR_READ_USER_DENSE_MISSING = 8,
    PCVR_READ_ITEM_INTS = 16,
    PCVR_READ_ITEM_INT_MISSING = 32,
    PCVR_READ_ITEM_DENSE = 64,
    PCVR_READ_ITEM_DENSE_MISSING = 128,
    PCVR_READ_REQUEST_TIME = 256,
    PCVR_READ_EVENTS = 512, // a domain's values
    PCVR_READ_LENGTHS = 1024,
    PCVR_READ_TIMES = 2048,
    PCVR_READ_NOTHING = 4096, // says that no other bit is set on purpose
};

typedef struct pcvr_domain_info {
    const char *name;
    int64_t features, length;
    uint32_t reads;
} pcvr_domain_info;

typedef struct pcvr_layout {
    int64_t user_ints, user_dense, item_ints, item_dense; // widths
    uint32_t reads;
    int32_t n_domains;
    const pcvr_domain_info *domains;
} pcvr_layout;

typedef struct pcvr_region {
    const char *name;        // "blocks_0_recompute_backward"
    double flops;            // needed, one sample
    double recomputed_flops; // spent again because of the checkpoint choice, one sample
    int64_t kept_bytes;      // written for the backward pass, one sample
    int64_t scratch_bytes;
} pcvr_region;

// One kept value, for reports.
typedef struct pcvr_kept {
    int32_t region; // that writes it
    const char *value;
    int64_t bytes;
} pcvr_kept;

// A packed copy of (part of) a parameter made once a step is the module's own business;
// its size is here.
typedef struct pcvr_ctx pcvr_ctx;

typedef struct pcvr_module {
    uint32_t abi;
    const char *name, *isa, *checkpoint, *config, *compiler; // config: JSON
    uint64_t hash;              // of model, schema, configuration and compiler
    int32_t actions, embedding; // widths; embedding 0: none
    int32_t n_params, n_uses, n_stores, n_regions, n_kept;
    const pcvr_param *params;
    const pcvr_use *uses;
    const pcvr_store_info *stores;
    const pcvr_region *regions;
    const pcvr_kept *kept;
    pcvr_layout layout;
    int64_t acc_floats;    // accumulators of one lane
    int64_t acc_fresh;     // the last of them: the first group of a lane's samples writes them
                           // where the context says fresh, so they are never cleared
    int64_t packed_floats; // packed weights, shared by all
    int64_t
        input_bytes; // gathered inputs of one sample; records are multiples of 64 bytes
    int64_t kept_bytes;    // kept values of one sample
    int64_t scratch_bytes; // of one thread, also gather_inputs'; every function starts
                           // with it undefined
    int64_t forward_scratch_bytes; // the same where there is no room for kept values
    int64_t default_chunk;

    // Which fields of the context each may use: prepare params, packed, and first and count:
    // it is called for first = 0 .. count - 1, at the same time; gather_inputs
    // batch, first, count, inputs, scratch; the others everything but batch and, in
    // forward, acc, stores and dlogits. clock may be used by all but prepare. Calls
    // for different lanes run at the same time.
    void (*prepare)(
        const pcvr_ctx *); // params -> packed, once a step; NULL: nothing to do
    int (*gather_inputs)(
        const pcvr_ctx *);             // batch -> inputs, samples first .. first + count
    void (*forward)(const pcvr_ctx *); // inputs -> logits (and embedding); keeps nothing
    void (*forward_keep)(const pcvr_ctx *); // inputs -> logits, kept
    void (*backward)(
        const pcvr_ctx *); // dlogits, inputs, kept -> accumulators, row stores

    double step_flops; // of project and project_back, all calls of a step together
    int32_t n_projections;
    const pcvr_projection *projections;
    // Once a step, after prepare: part `first` of `count` of params -> packed. NULL: nothing
    // to do. Parts may run at the same time.
    void (*project)(const pcvr_ctx *);
    // Once a step and column, when dense gradients are complete: dtable[k] = rows[k] W',
    // dweight += E[ids[k]]' rows[k] in ascending k. Columns may run at the same time.
    void (*project_back)(const pcvr_projection *, const pcvr_back *);
} pcvr_module;

// ---- row stores -----------------------------------------------------------------------

// Gradient rows of the table rows that a lane touched, in order of first touch. The index
// is an open hash of slots: 0 is empty, else row number + 1.
typedef struct pcvr_rows {
    int64_t n, capacity, width;
    int64_t *ids;    // [capacity]
    float *values;   // [capacity, width]
    uint32_t *slots; // [n_slots], a power of two, at least twice the capacity
    int64_t n_slots;
    double squares; // sum of squares of all that was added, each addition by itself
} pcvr_rows;

// The gradient row of a table row, zero when touched for the first time. [width] floats.
// The capacity suffices by construction (min(rows, ids of the lane's samples)).
static inline float *
pcvr_rows_get(pcvr_rows *s, int64_t id)
{
    uint64_t mask = (uint64_t)s->n_slots - 1;
    uint64_t h = (uint64_t)id * 0x9e3779b97f4a7c15u;
    for (uint64_t k = (h >> 32) & mask;; k = (k + 1) & mask) {
        uint32_t at = s->slots[k];
        if (at != 0 && s->ids[at - 1] == id)
            return s->values + (int64_t)(at - 1) * s->width;
        if (at == 0) {
            float *row = s->values + s->n * s->width;
            s->ids[s->n] = id;
            s->slots[k] = (uint32_t)++s->n;
            for (int64_t c = 0; c < s->width; c++)
                row[c] = 0.0f;
            return row;
        }
    }
}

// ---- context of a call ----------------------------------------------------------------

struct pcvr_ctx {
    const float *const *params; // [n_params], C order
    float *packed;              // prepare writes, the others read
    const pcvr_batch *batch;    // gather_inputs only
    int64_t first, count;  // samples of the chunk, first counts in the batch; count >= 1
    unsigned char *inputs; // [count] records: sample s at (s - first) * input_bytes
    unsigned char *kept;   // [count] records; NULL where nothing goes backward: scratch has
                           // room for them instead
    unsigned char *scratch;
    float *acc;           // the lane's accumulators
    bool fresh;           // the lane's first chunk: the fresh part of acc is undefined
    pcvr_rows *stores;    // [n_stores], the lane's
    float *logits;        // [B, actions]: sample s of the batch at s * actions
    const float *dlogits; // [B, actions]
    float *embeddings;    // [B, embedding] or NULL: not wanted
    uint64_t seed;
    uint32_t step;
    bool training; // chance is drawn; else dropout is the identity
    bool norms;    // squares of row stores are wanted even where they take products
    double *clock; // [n_regions] seconds are added, or NULL
};

// Monotonic seconds.
double pcvr_now(void);

// ---- running a module: step.c ---------------------------------------------------------

typedef struct pcvr_options {
    int lanes;     // 0: 8; 4 to 7 of a batch below 64 samples, if they have gradients
    int threads;   // 0: what affinity and the cgroup quota allow
    int64_t chunk; // samples; 0: the module's default; PCVR_CHUNK_BATCH: every forward,
                   // loss, every backward
    bool forward_only;
    bool norms; // squares of row gradients (pcvr_sparse) are wanted of projected tables, too
    bool clock;  // the regions' clocks run from the start
    bool poison; // before every use fill inputs, kept and scratch with NaN (all bits
                 // set); the batch is copied with other values in padding and in tensors
                 // the module does not read
    int64_t poison_from; // padding at positions below it stays as it is
} pcvr_options;

enum { PCVR_CHUNK_BATCH = -1 };

// Bytes known before anything runs.
typedef struct pcvr_plan {
    int64_t batch, chunk, lanes, threads;
    int64_t parameter_bytes; // with packed weights
    int64_t
        gradient_bytes; // of dense parameters and of logits, with the lanes' accumulators
    int64_t row_store_bytes;  // the lanes' stores, the merged rows and what merging needs
    int64_t input_bytes;      // raw batch (twice with poison) and gathered inputs of the
                              // chunks in flight
    int64_t activation_bytes; // kept values of the chunks in flight and all scratch
    int64_t kept_bytes_per_sample;
    int64_t planned_peak_bytes; // the sum of the five
} pcvr_plan;

int pcvr_plan_bytes(const pcvr_module *m, int64_t batch, const pcvr_options *o,
                    pcvr_plan *out);

// The gradient of one table: each touched row once, rows ascending.
typedef struct pcvr_sparse {
    int64_t n, width;
    const int64_t *ids;  // [n]
    const float *values; // [n, width]
    double squares; // of the entries before rows were merged: what a norm of gradients
                    // counts; NaN for a projected table without pcvr_options.norms
} pcvr_sparse;

typedef struct pcvr_runner pcvr_runner;

// Per-chunk loss: given logits of samples first .. first + count (at [s * actions] of the
// whole arrays) it writes their dlogits, as gradient of the batch's mean. Called by
// several threads on disjoint samples. With a batch-coupled loss (coupled true in step)
// it is called once, for the whole batch.
typedef void pcvr_loss_fn(void *arg, int64_t first, int64_t count, const float *logits,
                          float *dlogits);

// Allocates every buffer for batches up to max_batch. On error *out is NULL and err holds
// one line.
int pcvr_runner_new(const pcvr_module *m, int64_t max_batch, const pcvr_options *o,
                    pcvr_runner **out, char *err, size_t err_size);
void pcvr_runner_free(pcvr_runner *r);

// Parameter storage, zero at first; [params[i].size] floats each. Tables keep row 0 zero
// when marked padding.
float *pcvr_runner_param(pcvr_runner *r, int i);
// Once after parameters changed, before forward or step.
void pcvr_runner_prepare(pcvr_runner *r);
// Logits [B, actions] (and embeddings [B, embedding] unless NULL) without keeping
// anything.
int pcvr_runner_forward(pcvr_runner *r, const pcvr_batch *b, float *logits,
                        float *embeddings);
// One step: gradients of the loss for every parameter. logits [B, actions] is written.
// Chance is drawn when training is true, from (seed, step). The gradients stay valid
// until the next step.
int pcvr_runner_step(pcvr_runner *r, const pcvr_batch *b, pcvr_loss_fn *loss, void *arg,
                     bool coupled, bool training, uint64_t seed, uint32_t step,
                     float *logits);
// Gradient of a dense parameter, [size] floats (zeros when unused); NULL for tables.
const float *pcvr_runner_grad(const pcvr_runner *r, int i);
// Gradient of a table parameter; n is 0 when no row was touched.
pcvr_sparse pcvr_runner_rows(const pcvr_runner *r, int i);
// Sets rows[k] to 1 for each row k of table i that the last step looked up, by padding or
// not; of a table with a padding row, row 0 does not count. [shape[0]] bytes.
void pcvr_runner_looked_up(const pcvr_runner *r, int i, uint8_t *rows);
const pcvr_plan *pcvr_runner_plan(const pcvr_runner *r);
// What was really used: high-water mark of allocations plus the largest raw batch given,
// where arenas of inputs, kept values and scratch count up to the last line of 64 bytes
// of which a byte changed since they were allocated. Means nothing with poison. Not while
// a step runs.
int64_t pcvr_runner_measured(const pcvr_runner *r);
// Whether the bytes behind every buffer are untouched; else the name of a buffer that was
// overrun.
const char *pcvr_runner_overrun(const pcvr_runner *r);
// Threads that affinity and the cgroup's CPU quota allow, at least 1.
int pcvr_default_threads(void);
// Runs fn(arg, thread) once on each of the plan's threads, thread 0 being the caller; returns
// when all are done. They flush subnormal numbers to zero.
void pcvr_runner_run(pcvr_runner *r, void (*fn)(void *arg, int thread), void *arg);

// Where the time of steps goes: gathering inputs, the module's forward and backward, the
// loss, the sums over lanes.
enum {
    PCVR_TIME_INPUTS,
    PCVR_TIME_REGIONS,
    PCVR_TIME_LOSS,
    PCVR_TIME_SUMS,
    PCVR_TIMES
};
// Seconds of all steps so far, [PCVR_TIMES], each a mean over the threads.
void pcvr_runner_times(const pcvr_runner *r, double *seconds);
// Starts or stops the regions' clocks.
void pcvr_runner_clocks(pcvr_runner *r, bool on);
// Seconds a region since the last call, [n_regions], summed over threads.
void pcvr_runner_clock(pcvr_runner *r, double *seconds);

// ---- modules from source or linked in: jit.c, isa.c -----------------------------------

// Whether this CPU (and system) runs "avx512", "avx2" or "scalar"; false for any other
// name.
bool pcvr_isa_supported(const char *isa);
// Of n modules linked in, those of one model for several instruction sets: the one for
// pcvr_isa_choose, or the next lower there is. NULL and a line in err when none runs
// here.
const pcvr_module *pcvr_module_find(const pcvr_module *const *list, int n, char *err,
                                    size_t err_size);
// The best instruction set this CPU runs: "avx512", "avx2" or "scalar"; PCVR_ISA in the
// environment chooses. NULL and a line in err when PCVR_ISA names something unknown or
// unsupported.
const char *pcvr_isa_choose(char *err, size_t err_size);
// Compiles C text with the system compiler (PCVR_CC, else cc; PCVR_CFLAGS is added) for
// an instruction set, or takes it from the cache, and loads it. symbol is the module's
// name (pcvr_<model>), to which
// _<isa> is added. The text may include "pcvr.h" and the kernels' headers by name. The
// module stays loaded until the program ends.
int pcvr_module_build(const char *c_text, const char *symbol, const char *isa,
                      const pcvr_module **out, char *err, size_t err_size);

#endif

// bench.h - what bench and plan share: flags, and a model compiled for one checkpoint choice.

#ifndef PCVR_DRIVER_BENCH_H
#define PCVR_DRIVER_BENCH_H

#include <jansson.h>

#include "model_in.h"
#include "run_flags.h"
#include "schema.h"

typedef struct BenchFlags {
    const char *model, *schema, *checkpoint, *chunk_text, *lengths, *dropout, *against,
        *grads;
    int64_t batch, lanes, threads, vocab_cap, iters, batch_hint;
    int json;
    ModelFlags fields;
    pcvr_options o;       // lanes, threads, chunk
    char *against_choice; // of --against C[:CHUNK]; NULL: none
    int64_t against_chunk;
} BenchFlags;

// bench_flags_free in any case. On false the caller exits with 2.
// `plan` runs no step and refuses the flags of bench alone.
bool bench_flags(BenchFlags *f, int argc, char **argv, bool plan, PcvrError *err);
void bench_flags_free(BenchFlags *f);
extern const char bench_flags_help[]; // of both
extern const char bench_only_help[];  // of bench alone

// Model, configuration, schema and graph up to the passes; model_close in any case. An exit status.
int bench_passes(const BenchFlags *f, const char *choice, ModelIn *m, Schema **schema);
// Reads the schema with lengths and capped vocabularies and compiles the model for a choice. Prints errors;
// the exit status. The caller frees the schema.
int bench_compile(const BenchFlags *f, const char *choice, const pcvr_module **out,
                  Schema **schema);

// Operations of a step of `batch` samples, needed and spent again because of the choice.
void bench_flops_json(json_t *o, const pcvr_module *m, int64_t batch);
// The byte fields of a plan, in the order of the output.
void bench_plan_json(json_t *o, const pcvr_plan *p);
// Prints o with indentation and drops it.
void bench_print(json_t *o);

#endif

// run_flags.h - flags that check, bench and plan share.

#ifndef PCVR_DRIVER_RUN_FLAGS_H
#define PCVR_DRIVER_RUN_FLAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "flags.h"
#include "pcvr.h"

// One "--model.NAME VALUE".
typedef struct ModelFlag {
    const char *flag; // as written, "=value" cut off
    char name[256];   // hyphens count as underscores
    const char *value;
} ModelFlag;

typedef struct ModelFlags {
    ModelFlag *list;
    int n;
    char **rest; // the other arguments
    int n_rest;
    char *memory;
} ModelFlags;

// Parts the configuration's flags from the others. model_flags_free in any case.
bool model_flags_take(ModelFlags *out, int argc, char **argv, PcvrError *err);
void model_flags_free(ModelFlags *f);

// "batch" or a number of samples, at least 1; NULL leaves *chunk at 0, the module's
// default.
bool chunk_parse(const char *text, int64_t *chunk, PcvrError *err);
enum { NOT_GIVEN = -1 };
// Checks --lanes and --threads and puts them into o, 0 for NOT_GIVEN.
bool lanes_take(int64_t lanes, int64_t threads, pcvr_options *o, PcvrError *err);
// Says on stderr, where more threads were asked for than there are lanes, that the others
// idle.
void idle_note(int64_t threads, const pcvr_plan *plan);

#endif

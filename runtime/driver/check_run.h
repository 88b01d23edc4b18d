// check_run.h - runs a case's batch: through a compiled module, or through the
// interpreter.

#ifndef PCVR_DRIVER_CHECK_RUN_H
#define PCVR_DRIVER_CHECK_RUN_H

#include "case.h"
#include "model_in.h"
#include "results.h"

typedef struct CheckRun {
    const char *checkpoint;
    pcvr_options o; // lanes, threads, chunk, poison
    bool interpreter;
    bool logits_only;
    bool
        changed; // the configuration is not the case's: weights that do not fit are drawn
    uint64_t seed;
    // what comes out
    float *logits; // [B, actions]
    double loss;
    int64_t actions;
    TensorList grads;    // empty with logits_only
    char isa[16];        // "" with the interpreter
    pcvr_plan plan;      // zero with the interpreter
    const char *overrun; // a buffer written past its end, or NULL
} CheckRun;

// Runs the elaborated model m. Prints errors; the exit status.
int check_run(CheckRun *r, ModelIn *m, const Case *c);
void check_run_free(CheckRun *r);

#endif

// check_run.h - runs a case's batch: through a compiled module, or through the
// interpreter.

#ifndef PCVR_DRIVER_CHECK_RUN_H
#define PCVR_DRIVER_CHECK_RUN_H

#include "case.h"
#include "loss_step.h"
#include "model_in.h"
#include "results.h"

// What check_poison.c found.
typedef struct PoisonFound {
    int64_t rows;         // of tables that nothing looks up
    int64_t padding_rows; // that only padding looks up
    char reason[500];     // the first difference, "" if none
} PoisonFound;

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
    PoisonFound poison;  // with o.poison
} CheckRun;

// Runs the elaborated model m. Prints errors; the exit status.
int check_run(CheckRun *r, ModelIn *m, const Case *c);
void check_run_free(CheckRun *r);

// The case's weights into a runner, padding rows zero, and prepares it.
bool check_weights(const CheckRun *r, const Case *c, const pcvr_module *mod,
                   pcvr_runner *run, PcvrError *err);
// check_poison.c - the batch as recorded, which fills r's results, and three times with
// poison where nothing may look; r->poison says what changed. 0 or a PCVR_E code.
int check_poison(CheckRun *r, const ModelIn *m, const Case *c, const pcvr_module *mod,
                 PcvrStepLoss *loss, PcvrError *err);

#endif

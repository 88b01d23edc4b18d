// train.h - the state of the training loop, shared by train.c and train_report.c.

#ifndef PCVR_TRAIN_H
#define PCVR_TRAIN_H

#include <stdio.h>

#include "run.h"
#include "telemetry.h"
#include "trainer.h"

typedef struct Loop {
    Trainer trainer;
    Telemetry telemetry;
    PcvrLossTerm *terms;
    int n_terms;
    DataStream *stream;
    DataSplit split;
    int64_t *order, *order_ends, order_steps; // rows of each step, from a file
    int64_t batch_size, total, interval;
    int64_t step, rows;                // done
    double start, waiting, validating; // seconds
    double stepping;                   // seconds of all steps, data wait included
    double window;                     // sum of losses since the last validation
    int64_t window_steps;
    PcvrStopper stopper;
    PcvrValidation last;
    json_t *validations; // [{step, auc, logloss}]
    char *schema_text;   // the training schema, byte for byte
    size_t schema_length;
    FILE *steps_file;
} Loop;

// What a dry run prints: the plan, and whether it fits.
void train_plan(const Loop *l, const Run *r);
// The lines before the first step.
void train_begin(const Loop *l, const Run *r);
// training_summary.json, the printed summary, the closing lines.
bool train_end(Loop *l, Run *r, PcvrError *err);

#endif

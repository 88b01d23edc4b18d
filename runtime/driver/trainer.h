// trainer.h - a model in training: a runner, its loss, the state of its optimisers.

#ifndef PCVR_TRAINER_H
#define PCVR_TRAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "loss_step.h"
#include "metric.h"
#include "optim.h"
#include "pcvr.h"

typedef struct TrainerOptions {
    PcvrLossTerm *terms; // [n_terms]
    int n_terms;
    double lr, sparse_lr, min_lr_ratio;
    PcvrSchedule schedule;
    int64_t warmup, max_steps;
    double clip;   // global norm; 0: no clipping
    uint64_t seed; // of chance
    bool ema;
    double ema_decay;
    int64_t ema_start, ema_every;
} TrainerOptions;

typedef struct Trainer {
    const pcvr_module *m;
    pcvr_runner *runner;
    TrainerOptions o;
    PcvrAdamW adamw;
    PcvrStepLoss loss;
    float **params;  // [n_params], the runner's
    float **first;   // AdamW's first moments of dense parameters, Adagrad's sums of tables
    float **second;  // AdamW's second moments
    float **shadow;  // EMA, or NULL
    float *logits;           // [max_batch, actions]
    int64_t max_batch, step; // step: applied optimiser steps
    int64_t state_bytes;     // moments, sums and shadow
} Trainer;

// What a step did.
typedef struct TrainerStep {
    double loss;  // weighted total
    double norm;  // of all gradients, before clipping
    double lr;    // of dense parameters
    bool applied; // false: the loss or the norm is not finite, nothing changed
} TrainerStep;

// `options` is copied, the terms are kept by reference. On false everything is released.
bool trainer_new(Trainer *t, const pcvr_module *m, int64_t max_batch,
                 const pcvr_options *run, const TrainerOptions *options, PcvrError *err);
void trainer_free(Trainer *t);

// Initial values by the module's initialisers; the shadow follows. Call trainer_changed
// after other changes.
void trainer_init(Trainer *t, uint64_t seed);
void trainer_changed(Trainer *t);

// Forward, loss, backward, clipping, update of a batch; `step` counts from 0 and drives
// chance.
bool trainer_step(Trainer *t, const pcvr_batch *batch, int64_t step, TrainerStep *out,
                  PcvrError *err);
// Unweighted value of term i of the last step.
double trainer_term(const Trainer *t, int i);

// Puts the shadow in the place of the weights, and back; nothing without EMA.
void trainer_swap(Trainer *t);

#endif

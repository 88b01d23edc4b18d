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
    double *squares;         // of the blocks of dense gradients: trainer_blocks
    double updating;         // seconds in norms, updates and packing
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

// ---- trainer_update.c: on all threads of the runner, the same bits for any number of them

// Tables are those with row-wise gradients; still ones are frozen or reach no logit.
bool trainer_is_table(const pcvr_param *p);
bool trainer_is_still(const pcvr_param *p);
// Blocks of PCVR_CLIP_BLOCK elements of all dense gradients.
int64_t trainer_blocks(const pcvr_module *m);
// Global norm of the last step's gradients.
double trainer_norm(Trainer *t);
// One step of the optimisers, and of the shadow; t->step counts it already.
void trainer_update(Trainer *t, double lr, float scale);

// Puts the shadow in the place of the weights, and back; nothing without EMA.
void trainer_swap(Trainer *t);

#endif

// loss_step.h - the losses of a batch as a runner calls them: by chunk, or once for the
// whole batch.

#ifndef PCVR_LOSS_STEP_H
#define PCVR_LOSS_STEP_H

#include <stdint.h>

#include "loss.h"
#include "pcvr.h"

typedef struct PcvrStepLoss {
    const PcvrLossTerm *terms;
    size_t n_terms;
    int64_t actions, room; // samples that fit
    int64_t size;          // samples of the batch
    bool coupled;          // what pcvr_runner_step is to be told
    float *labels;         // [room, actions], the label repeated
    double *losses;        // [n_terms, room, actions] unweighted losses of single samples
    double *values;        // [n_terms]
    double total;          // of a coupled loss
} PcvrStepLoss;

// For batches up to `room`. `terms` is kept by reference. false when memory is short.
bool pcvr_step_loss_new(PcvrStepLoss *l, const PcvrLossTerm *terms, size_t n_terms,
                        int64_t room, int64_t actions);
void pcvr_step_loss_free(PcvrStepLoss *l);
// Takes the labels of a batch of at most `room` samples; before each step.
void pcvr_step_loss_begin(PcvrStepLoss *l, const pcvr_batch *batch);
// A pcvr_loss_fn; arg is the PcvrStepLoss.
void pcvr_step_loss(void *arg, int64_t first, int64_t count, const float *logits,
                    float *dlogits);
// After a step: the weighted sum; values[t] is each term, unweighted. Losses of single
// samples are summed in double in the order of the samples. NaN for an empty batch.
double pcvr_step_loss_value(PcvrStepLoss *l);

#endif

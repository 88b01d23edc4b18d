// optim.h - optimiser updates, learning rate schedules, the running copy of weights.

#ifndef PCVR_OPTIM_H
#define PCVR_OPTIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct PcvrAdamW {
    double beta1, beta2, eps, weight_decay;
} PcvrAdamW;

// betas 0.9 and 0.98, eps 1e-8, decoupled weight decay 0.01.
PcvrAdamW pcvr_adamw_defaults(void);

// Step t (from 1) on n elements; m and v are the moments, zero before step 1 (Loshchilov,
// Hutter 2019):
//   p *= 1 - lr wd;  m += (1 - b1)(g - m);  v = b2 v + (1 - b2) g^2
//   p -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)
// Elements are independent: any split over threads gives the same bits. The gradient is
// scaled by `scale` first (1 for none, else the clipping coefficient).
void pcvr_adamw_step(const PcvrAdamW *h, float *p, const float *g, float *m, float *v,
                     size_t n, double lr, int64_t t, float scale);

// Sparse Adagrad on rows of a table [rows, width] (Duchi, Hazan, Singer 2011), each
// listed once:
//   acc += g^2;  w -= lr g / (sqrt(acc) + 1e-10)
// ids [n] are the rows, values [n, width] their gradients, scaled by `scale` first. A row
// whose gradient is zero throughout stays as it is.
void pcvr_adagrad_rows(float *w, float *acc, int64_t width, const int64_t *ids,
                       const float *values, int64_t n, double lr, float scale);

typedef enum PcvrSchedule {
    PCVR_SCHEDULE_NONE,
    PCVR_SCHEDULE_LINEAR,
    PCVR_SCHEDULE_COSINE
} PcvrSchedule;

// What the base learning rate is multiplied by at optimiser step `step` (the first is 1):
// warm-up, then 1 (no schedule, or max_steps <= 0), linear or cosine decay to min_ratio
// at max_steps.
double pcvr_schedule(PcvrSchedule kind, int64_t step, int64_t warmup, int64_t max_steps,
                     double min_ratio);

// Whether the running copy is averaged at optimiser step s (from 1); before `start` it is
// a plain copy.
typedef enum PcvrEmaAction {
    PCVR_EMA_NOTHING,
    PCVR_EMA_COPY,
    PCVR_EMA_AVERAGE
} PcvrEmaAction;
PcvrEmaAction pcvr_ema_action(int64_t step, int64_t start, int64_t every);
// shadow = decay shadow + (1 - decay) value.
void pcvr_ema_update(float *shadow, const float *value, size_t n, double decay);

// Early stopping on scores: better only when greater than the best so far.
typedef struct PcvrStopper {
    int64_t patience;
    bool any; // a score was seen
    double best;
    int64_t best_step, counter;
    bool stop;
} PcvrStopper;

// Takes the score of a step; true when it is the new best. A NaN never becomes the best.
bool pcvr_stopper_take(PcvrStopper *s, int64_t step, double score);

#endif

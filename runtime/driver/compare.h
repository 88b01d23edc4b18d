// compare.h - results against a recorded case, within the case's limits.

#ifndef PCVR_DRIVER_COMPARE_H
#define PCVR_DRIVER_COMPARE_H

#include "case.h"

// What a model returned for a case's batch.
typedef struct Outcome {
    const float *logits; // [B, actions]
    double loss;
    const NamedTensor *grads; // of every parameter
    int n_grads;
    bool logits_only;
} Outcome;

typedef struct Verdict {
    bool pass;
    bool compared; // false: looked for NaN only
    double loss, loss_error, loss_limit;
    double logits_error, logits_limit;
    const char *worst; // the gradient nearest to or farthest past its limit
    double worst_error, worst_limit;
    int gradients;    // compared
    char reason[512]; // the first fault, "" if none
} Verdict;

// Logits: largest difference. Loss: difference. Gradients: largest difference of an
// entry, or of a digest; each against the limit that the case's float32 noise sets. NaN
// never passes, nor a gradient that is missing, is not expected, or has another shape,
// nor a case without expected values.
void compare_case(const Case *c, const Outcome *o, Verdict *v);
// Only looks for NaN and infinities.
void compare_finite(const Case *c, const Outcome *o, Verdict *v);

#endif

// loss.h - losses over raw logits and their gradients.

#ifndef PCVR_LOSS_H
#define PCVR_LOSS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum PcvrLossKind {
    PCVR_LOSS_BCE,
    PCVR_LOSS_FOCAL,
    PCVR_LOSS_PAIRWISE
} PcvrLossKind;

// One term of the total: weight times the mean over the batch (for pairwise: over all
// pairs).
typedef struct PcvrLossTerm {
    PcvrLossKind kind;
    double weight;
    double alpha, gamma; // focal
    double temperature;  // pairwise
} PcvrLossTerm;

// ln(1 + e^x) without overflow.
double pcvr_softplus(double x);
// 1 / (1 + e^-x) without overflow.
double pcvr_sigmoid(double x);

// A term that is a mean of per-sample losses, for elements of one chunk: losses[i] (if
// not NULL) gets the unweighted loss of element i, dlogits[i] gains weight / total times
// its derivative. `total` counts the elements of the whole batch.
//   bce:   softplus(z) - y z
//   focal: a_y (1 - p_y)^gamma bce, p_y the probability of the label's class,
//          a_y = alpha y + (1 - alpha)(1 - y)
void pcvr_loss_samples(const PcvrLossTerm *term, const float *logits, const float *labels,
                       size_t n, size_t total, double *losses, float *dlogits);

// The pairwise term of a whole batch: mean over positive x negative pairs of
// softplus(-(z+ - z-) / temperature); positive means y > 0.5. 0 without a class. Adds
// weight times the gradient to dlogits (NULL: value only). `scratch` holds n doubles.
double pcvr_loss_pairwise(const PcvrLossTerm *term, const float *logits,
                          const float *labels, size_t n, float *dlogits, double *scratch);

// True when a term needs the whole batch at once.
bool pcvr_loss_coupled(const PcvrLossTerm *terms, size_t n_terms);

// All terms on a whole batch: values[t] is the unweighted term (0, unevaluated, for
// weight 0), the result the weighted sum; dlogits[n] is overwritten. Per-sample losses
// are summed in double in order. `scratch` holds n doubles.
double pcvr_loss_total(const PcvrLossTerm *terms, size_t n_terms, const float *logits,
                       const float *labels, size_t n, double *values, float *dlogits,
                       double *scratch);

#endif

// interp.h - evaluates a graph in double precision, one sample at a time: the oracle for
// every pass.
//
// Checking a model on a batch (borrowed: the values stay the caller's):
//
//     Interp *it = interp_new(g);              // g is not changed while it lives
//     for each parameter k:
//         interp_param_f32(it, k, weights);    // borrowed, in the shape of g->params[k]
//     interp_chance(it, training, seed, step);
//     for each sample s:
//         interp_sample(it, batch, s);         // forgets the last sample's values
//         interp_run(it, &g->logits, 1);
//         logits = interp_value(it, g->logits)->f;    // in the shape of g->logits
//         ... the loss and dlogits, its gradient by these logits (of a mean: over B) ...
//         interp_dlogits(it, dlogits);
//         interp_backward(it);                 // evaluates what the sinks need and adds
//     grad = interp_grad(it, k);               // sum over the samples; NULL: all zero
//     interp_free(it);
//
// A loss that couples samples needs two walks: logits of all, then interp_sample again
// with dlogits. Forward values of a sample are computed once and stay until the next
// interp_sample or interp_param call. Constants are rounded to float where they enter;
// everything else is double, or int64 for i64 and bool.

#ifndef PCVRC_INTERP_H
#define PCVRC_INTERP_H

#include "graph.h"
#include "pcvr.h"

// A value in C order: f for f32, i for i64 and bool (0 or 1).
typedef struct Tensor {
    int64_t size;
    union {
        double *f;
        int64_t *i;
        uint64_t *u; // moved without a look
    };
} Tensor;

typedef struct Interp Interp;

Interp *interp_new(const Graph *g);
void interp_free(Interp *it);

// A parameter's values, borrowed until the next call for it or interp_free. Row 0 of a
// padding table is read as zero whatever stands there.
void interp_param_f32(Interp *it, int param, const float *v);
void interp_param_f64(Interp *it, int param, const double *v);

// Chance: nothing is drawn unless training is set. The counter's index is the sample's,
// from interp_sample.
void interp_chance(Interp *it, bool training, uint64_t seed, uint32_t step);

// Takes the inputs of sample s of a batch; its index in the batch is s.
void interp_sample(Interp *it, const pcvr_batch *b, int64_t s);
// The same without a batch: forgets values; then each input by its index in g->inputs is
// given by values that are copied (double for f32, int64_t for i64 and bool).
void interp_begin(Interp *it, uint32_t index_in_batch);
void interp_input(Interp *it, int input, const void *v);

// The gradient of the loss by this sample's logits, copied. Backward values of an earlier
// call are forgotten.
void interp_dlogits(Interp *it, const double *v);

// Evaluates nodes and what they need. A sink among them adds to its parameter's gradient,
// once a sample and dlogits.
void interp_run(Interp *it, Node *const *nodes, int n);
// A value that was run, or is needed by one that was; NULL otherwise.
const Tensor *interp_value(const Interp *it, const Node *n);
// Runs every sink of the graph.
void interp_backward(Interp *it);

// Constants are not rounded to float from now on: for folding chains of them.
void interp_exact_constants(Interp *it);

// The gradient added up since interp_new or interp_clear, in the parameter's shape; NULL
// when no sink added.
const double *interp_grad(const Interp *it, int param);
void interp_clear(Interp *it);

// Central difference of sum(logits * dlogits) of this sample by one element of a
// parameter, h to each side.
double interp_finite_difference(Interp *it, int param, int64_t element, double h);

#endif

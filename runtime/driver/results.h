// results.h - tensors of a run: parameters, their gradients, and the file of results.

#ifndef PCVR_DRIVER_RESULTS_H
#define PCVR_DRIVER_RESULTS_H

#include "case.h"
#include "pcvr.h"

// A list of tensors with memory of their own, all zero. Names are copied by reference.
typedef struct TensorList {
    NamedTensor *tensors;
    int n;
    float *memory;
} TensorList;

typedef struct TensorShape {
    const char *name;
    int rank;
    const int64_t *shape;
} TensorShape;

bool tensors_new(TensorList *l, const TensorShape *shapes, int n);
void tensors_free(TensorList *l);
// One tensor for each of a module's parameters.
bool tensors_for(TensorList *l, const pcvr_module *m);
// Copies every gradient of the last step; rows of tables land in a dense tensor.
void tensors_take_grads(TensorList *l, const pcvr_module *m, const pcvr_runner *r);

// Writes "logits" [B, actions], "loss" (float64, rank 0) and every gradient under its
// parameter's name, dense.
bool results_write(const char *path, int64_t batch, int64_t actions, const float *logits,
                   double loss, const TensorList *grads, PcvrError *err);
// The same from a runner; gradients of tables are "NAME.rows" [n] and "NAME.values" [n,
// width], touched rows ascending, without rows that are zero everywhere.
bool results_write_runner(const char *path, int64_t batch, const float *logits,
                          double loss, const pcvr_module *m, const pcvr_runner *r,
                          PcvrError *err);

#endif

// case.h - a recorded case: schema, configuration, weights, one batch, and what the model
// must return.

#ifndef PCVR_DRIVER_CASE_H
#define PCVR_DRIVER_CASE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "loss.h"
#include "pcvr.h"
#include "safetensors.h"
#include "schema.h"

// A named tensor of float32: a parameter or its gradient, dense.
typedef struct NamedTensor {
    const char *name;
    int rank;
    int64_t shape[4], size;
    float *values; // [size]
} NamedTensor;

typedef struct Case {
    char *dir;
    const char *name; // the last two parts of the directory: "onetrans/tiny"
    json_t *json;     // case.json
    Schema *schema;   // max_len set
    PcvrTensors data; // batch.safetensors
    pcvr_batch batch;
    pcvr_domain *domains;
    int64_t actions;
    PcvrLossTerm *terms;
    size_t n_terms;
    PcvrTensors weights;         // empty where they come from the generator
    PcvrTensors expected, grads; // empty where the file is not there
    json_t *digests;             // of gradients, or NULL
} Case;

// Reads a case. On false `c` is empty and err names the file.
bool case_load(Case *c, const char *dir, PcvrError *err);
void case_free(Case *c);

// The entry of case.json about a parameter, or NULL.
const json_t *case_param(const Case *c, const char *name);
// Whether that entry has this shape.
bool case_param_shape(const json_t *entry, int rank, const int64_t *shape);
// Fills a parameter from the file or the generator. Shapes must be equal.
bool case_weight(const Case *c, NamedTensor *t, PcvrError *err);

// The number at "a.b" of case.json, or `otherwise`.
double case_number(const Case *c, const char *path, double otherwise);

// A batch over tensors named as in a case's batch.safetensors, checked against the
// schema. `domains` has room for every domain.
bool case_batch(const PcvrTensors *t, const Schema *s, pcvr_batch *out,
                pcvr_domain *domains, PcvrError *err);

#endif

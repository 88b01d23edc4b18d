// results.c - tensors of a run: parameters, their gradients, and the file of results.

#include "results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
tensors_new(TensorList *l, const TensorShape *shapes, int n)
{
    *l = (TensorList){.tensors = calloc((size_t)n + 1, sizeof *l->tensors), .n = n};
    size_t total = 0;
    for (int k = 0; l->tensors != NULL && k < n; k++) {
        NamedTensor *t = &l->tensors[k];
        t->name = shapes[k].name;
        t->rank = shapes[k].rank;
        t->size = 1;
        for (int a = 0; a < t->rank && a < 4; a++) {
            t->shape[a] = shapes[k].shape[a];
            t->size *= t->shape[a];
        }
        total += (size_t)t->size;
    }
    l->memory = calloc(total + 1, sizeof *l->memory);
    if (l->tensors == NULL || l->memory == NULL) {
        tensors_free(l);
        return false;
    }
    float *at = l->memory;
    for (int k = 0; k < n; k++) {
        l->tensors[k].values = at;
        at += l->tensors[k].size;
    }
    return true;
}

void
tensors_free(TensorList *l)
{
    free(l->tensors);
    free(l->memory);
    *l = (TensorList){0};
}

bool
tensors_for(TensorList *l, const pcvr_module *m)
{
    TensorShape *shapes = calloc((size_t)m->n_params + 1, sizeof *shapes);
    if (shapes == NULL)
        return false;
    for (int p = 0; p < m->n_params; p++)
        shapes[p] =
            (TensorShape){m->params[p].name, m->params[p].rank, m->params[p].shape};
    bool ok = tensors_new(l, shapes, m->n_params);
    free(shapes);
    return ok;
}

void
tensors_take_grads(TensorList *l, const pcvr_module *m, const pcvr_runner *r)
{
    for (int p = 0; p < m->n_params; p++) {
        NamedTensor *t = &l->tensors[p];
        const float *dense = pcvr_runner_grad(r, p);
        if (dense != NULL) {
            memcpy(t->values, dense, (size_t)t->size * sizeof *dense);
            continue;
        }
        pcvr_sparse s = pcvr_runner_rows(r, p);
        memset(t->values, 0, (size_t)t->size * sizeof *t->values);
        for (int64_t k = 0; k < s.n; k++)
            memcpy(t->values + s.ids[k] * s.width, s.values + k * s.width,
                   (size_t)s.width * sizeof *s.values);
    }
}

static PcvrTensor
entry(const char *name, PcvrType type, int rank, const int64_t *shape, const void *data)
{
    return (PcvrTensor){
        .name = name, .type = type, .rank = rank, .shape = shape, .data = data};
}

bool
results_write(const char *path, int64_t batch, int64_t actions, const float *logits,
              double loss, const TensorList *grads, PcvrError *err)
{
    PcvrTensor *list = calloc((size_t)grads->n + 2, sizeof *list);
    int64_t shape[2] = {batch, actions};
    if (list == NULL)
        return pcvr_fail(err, "out of memory");
    list[0] = entry("logits", PCVR_T_F32, 2, shape, logits);
    list[1] = entry("loss", PCVR_T_F64, 0, shape, &loss);
    for (int k = 0; k < grads->n; k++) {
        const NamedTensor *t = &grads->tensors[k];
        list[k + 2] = entry(t->name, PCVR_T_F32, t->rank, t->shape, t->values);
    }
    bool ok = pcvr_safetensors_write(path, list, (size_t)grads->n + 2, err);
    free(list);
    return ok;
}

// ---- tables as rows -------------------------------------------------------------------

typedef struct RowTensors {
    char *names[2];
    int64_t *ids, shape[2];
    float *values;
} RowTensors;

static bool
is_zero(const float *x, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        if (x[k] < 0.0f || x[k] > 0.0f || x[k] != x[k])
            return false;
    return true;
}

static bool
row_tensors(RowTensors *t, const char *name, pcvr_sparse s)
{
    size_t n = strlen(name) + 8;
    t->names[0] = malloc(n);
    t->names[1] = malloc(n);
    t->ids = malloc((size_t)s.n * sizeof *t->ids + 1);
    t->values = malloc((size_t)(s.n * s.width) * sizeof *t->values + 1);
    if (!t->names[0] || !t->names[1] || !t->ids || !t->values)
        return false;
    snprintf(t->names[0], n, "%s.rows", name);
    snprintf(t->names[1], n, "%s.values", name);
    t->shape[1] = s.width;
    for (int64_t k = 0; k < s.n; k++) {
        const float *row = s.values + k * s.width;
        if (is_zero(row, s.width))
            continue;
        memcpy(t->values + t->shape[0] * s.width, row, (size_t)s.width * sizeof *row);
        t->ids[t->shape[0]++] = s.ids[k];
    }
    return true;
}

bool
results_write_runner(const char *path, int64_t batch, const float *logits, double loss,
                     const pcvr_module *m, const pcvr_runner *r, PcvrError *err)
{
    size_t n = 0, room = 2 * (size_t)m->n_params + 2;
    PcvrTensor *list = calloc(room, sizeof *list);
    RowTensors *rows = calloc((size_t)m->n_params + 1, sizeof *rows);
    int64_t shape[2] = {batch, m->actions};
    bool ok = list != NULL && rows != NULL;
    for (int p = 0; ok && p < m->n_params; p++) {
        const float *dense = pcvr_runner_grad(r, p);
        const pcvr_param *q = &m->params[p];
        if (dense != NULL) {
            list[n++] = entry(q->name, PCVR_T_F32, q->rank, q->shape, dense);
            continue;
        }
        ok = row_tensors(&rows[p], q->name, pcvr_runner_rows(r, p));
        list[n++] = entry(rows[p].names[0], PCVR_T_I64, 1, rows[p].shape, rows[p].ids);
        list[n++] = entry(rows[p].names[1], PCVR_T_F32, 2, rows[p].shape, rows[p].values);
    }
    if (ok) {
        list[n++] = entry("logits", PCVR_T_F32, 2, shape, logits);
        list[n++] = entry("loss", PCVR_T_F64, 0, shape, &loss);
        ok = pcvr_safetensors_write(path, list, n, err);
    } else {
        pcvr_fail(err, "out of memory");
    }
    for (int p = 0; rows != NULL && p < m->n_params; p++) {
        free(rows[p].names[0]);
        free(rows[p].names[1]);
        free(rows[p].ids);
        free(rows[p].values);
    }
    free(rows);
    free(list);
    return ok;
}

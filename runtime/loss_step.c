// loss_step.c - the losses of a batch as a runner calls them: by chunk, or once for the
// whole batch.

#include "loss_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool
pcvr_step_loss_new(PcvrStepLoss *l, const PcvrLossTerm *terms, size_t n_terms,
                   int64_t room, int64_t actions)
{
    size_t n = (size_t)(room * actions);
    *l = (PcvrStepLoss){
        .terms = terms, .n_terms = n_terms, .actions = actions, .room = room};
    l->coupled = pcvr_loss_coupled(terms, n_terms);
    l->labels = calloc(n + 1, sizeof *l->labels);
    l->losses =
        calloc(n * (n_terms + 1) + 1, sizeof *l->losses); // one more: room to sort
    l->values = calloc(n_terms + 1, sizeof *l->values);
    if (l->labels != NULL && l->losses != NULL && l->values != NULL)
        return true;
    pcvr_step_loss_free(l);
    return false;
}

void
pcvr_step_loss_free(PcvrStepLoss *l)
{
    free(l->labels);
    free(l->losses);
    free(l->values);
    *l = (PcvrStepLoss){0};
}

void
pcvr_step_loss_begin(PcvrStepLoss *l, const pcvr_batch *batch)
{
    l->size = batch->size < l->room ? batch->size : l->room;
    for (int64_t s = 0; s < l->size; s++)
        for (int64_t a = 0; a < l->actions; a++)
            l->labels[s * l->actions + a] = (float)batch->label[s];
}

void
pcvr_step_loss(void *arg, int64_t first, int64_t count, const float *logits,
               float *dlogits)
{
    PcvrStepLoss *l = arg;
    size_t total = (size_t)(l->size * l->actions);
    if (l->coupled) {
        l->total = pcvr_loss_total(l->terms, l->n_terms, logits, l->labels, total,
                                   l->values, dlogits, l->losses);
        return;
    }
    size_t at = (size_t)(first * l->actions), n = (size_t)(count * l->actions);
    memset(dlogits + at, 0, n * sizeof *dlogits);
    for (size_t t = 0; t < l->n_terms; t++)
        pcvr_loss_samples(&l->terms[t], logits + at, l->labels + at, n, total,
                          l->losses + t * (size_t)(l->room * l->actions) + at,
                          dlogits + at);
}

double
pcvr_step_loss_value(PcvrStepLoss *l)
{
    size_t n = (size_t)(l->size * l->actions);
    double total = 0.0;
    if (n == 0)
        return (double)NAN;
    if (l->coupled)
        return l->total;
    for (size_t t = 0; t < l->n_terms; t++) {
        const double *x = l->losses + t * (size_t)(l->room * l->actions);
        double sum = 0.0;
        for (size_t k = 0; k < n; k++)
            sum += x[k];
        l->values[t] = sum / (double)n;
        total += l->terms[t].weight * l->values[t];
    }
    return total;
}

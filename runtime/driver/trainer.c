// trainer.c - a model in training: a runner, its loss, the state of its optimisers.
//
// Tables go to sparse Adagrad over the merged rows of a step, everything else to AdamW.
// Frozen parameters and those that reach no logit stay as they are, weight decay
// included.

#include "trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip.h"
#include "init.h"

static float **
pointers(int n)
{
    return calloc((size_t)n + 1, sizeof(float *));
}

static void
pointers_free(float **p, int n)
{
    for (int i = 0; p && i < n; i++)
        free(p[i]);
    free(p);
}

// n zeroed floats, counted in the state.
static bool
state_new(Trainer *t, float **to, int64_t n)
{
    *to = calloc((size_t)n + 1, sizeof(float));
    t->state_bytes += n * (int64_t)sizeof(float);
    return *to != NULL;
}

static bool
state_allocate(Trainer *t)
{
    int n = t->m->n_params;
    t->params = pointers(n);
    t->first = pointers(n);
    t->second = pointers(n);
    t->shadow = t->o.ema ? pointers(n) : NULL;
    t->logits = calloc((size_t)(t->max_batch * t->m->actions) + 1, sizeof(float));
    t->squares = calloc((size_t)trainer_blocks(t->m) + 1, sizeof(double));
    bool ok = t->squares && t->params && t->first && t->second && t->logits && (t->shadow || !t->o.ema);
    for (int i = 0; ok && i < n; i++) {
        const pcvr_param *p = &t->m->params[i];
        t->params[i] = pcvr_runner_param(t->runner, i);
        if (!trainer_is_still(p))
            ok = state_new(t, &t->first[i], p->size) &&
                 (trainer_is_table(p) || state_new(t, &t->second[i], p->size));
        ok = ok && (!t->shadow || state_new(t, &t->shadow[i], p->size));
    }
    return ok && pcvr_step_loss_new(&t->loss, t->o.terms, (size_t)t->o.n_terms,
                                    t->max_batch, t->m->actions);
}

bool
trainer_new(Trainer *t, const pcvr_module *m, int64_t max_batch, const pcvr_options *run,
            const TrainerOptions *options, PcvrError *err)
{
    char text[512] = "";
    *t = (Trainer){
        .m = m, .o = *options, .max_batch = max_batch, .adamw = pcvr_adamw_defaults()};
    pcvr_options with_norms = run ? *run : (pcvr_options){0};
    with_norms.norms = true;
    if (pcvr_runner_new(m, max_batch, &with_norms, &t->runner, text, sizeof text) != PCVR_OK)
        return pcvr_fail(err, "%s", text);
    if (!state_allocate(t)) {
        pcvr_fail(err, "out of memory for %lld bytes of optimiser state",
                  (long long)t->state_bytes);
        trainer_free(t);
        return false;
    }
    return true;
}

void
trainer_free(Trainer *t)
{
    int n = t->m ? t->m->n_params : 0;
    free(t->params);
    pointers_free(t->first, n);
    pointers_free(t->second, n);
    pointers_free(t->shadow, n);
    free(t->logits);
    free(t->squares);
    pcvr_step_loss_free(&t->loss);
    pcvr_runner_free(t->runner);
    *t = (Trainer){0};
}

void
trainer_changed(Trainer *t)
{
    for (int i = 0; t->shadow && i < t->m->n_params; i++)
        memcpy(t->shadow[i], t->params[i], (size_t)t->m->params[i].size * sizeof(float));
    pcvr_runner_prepare(t->runner);
}

void
trainer_init(Trainer *t, uint64_t seed)
{
    pcvr_init_params(t->runner, t->m, seed);
    trainer_changed(t);
}

bool
trainer_step(Trainer *t, const pcvr_batch *batch, int64_t step, TrainerStep *out,
             PcvrError *err)
{
    float scale = 1.0f;
    out->lr = t->o.lr * pcvr_schedule(t->o.schedule, t->step + 1, t->o.warmup,
                                      t->o.max_steps, t->o.min_lr_ratio);
    pcvr_step_loss_begin(&t->loss, batch);
    int rc = pcvr_runner_step(t->runner, batch, pcvr_step_loss, &t->loss, t->loss.coupled,
                              true, t->o.seed, (uint32_t)step, t->logits);
    if (rc != PCVR_OK)
        return pcvr_fail(err, "step %lld: the module refused the batch (%d)",
                         (long long)step + 1, rc);
    double from = pcvr_now();
    out->loss = pcvr_step_loss_value(&t->loss);
    out->norm = trainer_norm(t);
    out->applied = isfinite(out->loss) && (t->o.clip <= 0.0 || isfinite(out->norm));
    if (!out->applied)
        return true;
    if (t->o.clip > 0.0)
        scale = pcvr_clip_coefficient(out->norm, t->o.clip);
    t->step++;
    trainer_update(t, out->lr, scale);
    pcvr_runner_prepare(t->runner);
    t->updating += pcvr_now() - from;
    return true;
}

double
trainer_term(const Trainer *t, int i)
{
    return t->loss.values[i];
}

void
trainer_swap(Trainer *t)
{
    for (int i = 0; t->shadow && i < t->m->n_params; i++) {
        float *a = t->params[i], *b = t->shadow[i];
        for (int64_t k = 0; k < t->m->params[i].size; k++) {
            float x = a[k];
            a[k] = b[k];
            b[k] = x;
        }
    }
    if (t->shadow)
        pcvr_runner_prepare(t->runner);
}

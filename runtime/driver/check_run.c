// check_run.c - runs a case's batch: through a compiled module, or through the
// interpreter.

#include "check_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "init.h"
#include "interp.h"

static int
fail(const char *text)
{
    fprintf(stderr, "pcvr: error: %s\n", text);
    return 1;
}

// A weight of the case; with a changed configuration one that does not fit is drawn anew.
static bool
weight(const CheckRun *r, const Case *c, NamedTensor *t, const pcvr_param *p,
       PcvrError *err)
{
    PcvrError own = {""};
    if (case_weight(c, t, &own))
        return true;
    if (!r->changed)
        return pcvr_fail(err, "%s", own.text);
    pcvr_init_fill(t->values, p, 1);
    return true;
}

static bool
run_new(CheckRun *r, const Case *c, int64_t actions, PcvrStepLoss *loss)
{
    r->actions = actions;
    r->logits = calloc((size_t)(c->batch.size * actions) + 1, sizeof *r->logits);
    if (r->logits == NULL ||
        !pcvr_step_loss_new(loss, c->terms, c->n_terms, c->batch.size, actions))
        return false;
    pcvr_step_loss_begin(loss, &c->batch);
    return true;
}

// ---- compiled -------------------------------------------------------------------------

bool
check_weights(const CheckRun *r, const Case *c, const pcvr_module *mod, pcvr_runner *run,
              PcvrError *err)
{
    for (int p = 0; p < mod->n_params; p++) {
        const pcvr_param *q = &mod->params[p];
        NamedTensor t = {.name = q->name,
                         .rank = q->rank,
                         .size = q->size,
                         .values = pcvr_runner_param(run, p)};
        memcpy(t.shape, q->shape, sizeof t.shape);
        if (!weight(r, c, &t, q, err))
            return false;
        if ((q->flags & PCVR_PARAM_TABLE) && (q->flags & PCVR_PARAM_PADDING) &&
            q->shape[0] > 0)
            memset(t.values, 0, (size_t)(q->size / q->shape[0]) * sizeof *t.values);
    }
    pcvr_runner_prepare(run);
    return true;
}

static int
step_module(CheckRun *r, const Case *c, const pcvr_module *mod, pcvr_runner *run,
            PcvrStepLoss *loss, PcvrError *err)
{
    if (!check_weights(r, c, mod, run, err))
        return PCVR_EFORMAT;
    if (r->logits_only)
        return pcvr_runner_forward(run, &c->batch, r->logits, NULL);
    if (!tensors_for(&r->grads, mod)) {
        pcvr_fail(err, "out of memory");
        return PCVR_ENOMEM;
    }
    int rc = pcvr_runner_step(run, &c->batch, pcvr_step_loss, loss, loss->coupled, true,
                              r->seed, 0, r->logits);
    if (rc == PCVR_OK) {
        r->loss = pcvr_step_loss_value(loss);
        tensors_take_grads(&r->grads, mod, run);
    }
    return rc;
}

static int
run_plain(CheckRun *r, const Case *c, const pcvr_module *mod, PcvrStepLoss *loss,
          PcvrError *err)
{
    pcvr_runner *run;
    r->o.forward_only = r->logits_only;
    int rc =
        pcvr_runner_new(mod, c->batch.size, &r->o, &run, err->text, sizeof err->text);
    if (rc == PCVR_OK) {
        r->plan = *pcvr_runner_plan(run);
        rc = step_module(r, c, mod, run, loss, err);
        r->overrun = pcvr_runner_overrun(run);
    }
    pcvr_runner_free(run);
    return rc;
}

static int
run_module(CheckRun *r, ModelIn *m, const Case *c)
{
    const pcvr_module *mod;
    PcvrStepLoss loss = {0};
    PcvrError err = {""};
    int status = model_build(m, c->schema, &mod);
    if (status != 0)
        return status;
    snprintf(r->isa, sizeof r->isa, "%s", mod->isa);
    int rc = PCVR_ENOMEM;
    if (!run_new(r, c, mod->actions, &loss))
        pcvr_fail(&err, "out of memory");
    else if (r->o.poison)
        rc = check_poison(r, m, c, mod, &loss, &err);
    else
        rc = run_plain(r, c, mod, &loss, &err);
    pcvr_step_loss_free(&loss);
    if (rc == PCVR_OK)
        return 0;
    pcvr_fail(&err, "the module refused the batch (%d)", rc);
    return fail(err.text);
}

// ---- interpreted ----------------------------------------------------------------------

// A graph's parameter as the runtime describes one, for what fills weights.
static pcvr_param
param_of(const Param *p)
{
    static const pcvr_init inits[] = {
        [INIT_ZEROS] = PCVR_INIT_ZEROS,
        [INIT_ONES] = PCVR_INIT_ONES,
        [INIT_CONSTANT] = PCVR_INIT_CONSTANT,
        [INIT_UNIFORM] = PCVR_INIT_UNIFORM,
        [INIT_NORMAL] = PCVR_INIT_NORMAL,
        [INIT_XAVIER_NORMAL] = PCVR_INIT_XAVIER_NORMAL,
        [INIT_XAVIER_UNIFORM] = PCVR_INIT_XAVIER_UNIFORM,
    };
    pcvr_param q = {.name = p->name,
                    .rank = p->shape.rank,
                    .size = shape_size(p->shape),
                    .init = inits[p->init],
                    .init_value = p->init_value};
    for (int a = 0; a < q.rank && a < 4; a++)
        q.shape[a] = p->shape.dim[a];
    q.flags = (p->table ? PCVR_PARAM_TABLE : 0u) | (p->padding ? PCVR_PARAM_PADDING : 0u);
    return q;
}

static bool
graph_tensors(TensorList *l, const Graph *g)
{
    TensorShape *shapes = calloc((size_t)g->n_params + 1, sizeof *shapes);
    if (shapes == NULL)
        return false;
    for (int p = 0; p < g->n_params; p++)
        shapes[p] = (TensorShape){g->params[p].name, g->params[p].shape.rank,
                                  g->params[p].shape.dim};
    bool ok = tensors_new(l, shapes, g->n_params);
    free(shapes);
    return ok;
}

static void
take_logits(CheckRun *r, Interp *it, const Graph *g, int64_t s)
{
    interp_run(it, (Node *const *)&g->logits, 1);
    const double *z = interp_value(it, g->logits)->f;
    for (int64_t a = 0; a < r->actions; a++)
        r->logits[s * r->actions + a] = (float)z[a];
}

// Forward and backward of every sample. `dlogits` is [B, actions], `wide` [actions].
static void
step_interp(CheckRun *r, Interp *it, const Graph *g, const Case *c, PcvrStepLoss *loss,
            float *dlogits, double *wide)
{
    for (int64_t s = 0; s < c->batch.size; s++) {
        interp_sample(it, &c->batch, s);
        take_logits(r, it, g, s);
    }
    if (r->logits_only)
        return;
    pcvr_step_loss(loss, 0, c->batch.size, r->logits, dlogits);
    r->loss = pcvr_step_loss_value(loss);
    for (int64_t s = 0; s < c->batch.size; s++) {
        interp_sample(it, &c->batch, s);
        for (int64_t a = 0; a < r->actions; a++)
            wide[a] = (double)dlogits[s * r->actions + a];
        interp_dlogits(it, wide);
        interp_backward(it);
    }
    for (int p = 0; p < g->n_params; p++) {
        const double *from = interp_grad(it, p);
        NamedTensor *t = &r->grads.tensors[p];
        for (int64_t k = 0; from != NULL && k < t->size; k++)
            t->values[k] = (float)from[k];
    }
}

static int
run_interp(CheckRun *r, ModelIn *m, const Case *c)
{
    const Graph *g = m->c.graph;
    TensorList weights = {0};
    PcvrStepLoss loss = {0};
    PcvrError err = {""};
    int64_t actions = shape_size(g->logits->shape);
    float *dlogits = calloc((size_t)(c->batch.size * actions) + 1, sizeof *dlogits);
    double *wide = calloc((size_t)actions + 1, sizeof *wide);
    bool ok = dlogits != NULL && wide != NULL && run_new(r, c, actions, &loss) &&
              graph_tensors(&weights, g) &&
              (r->logits_only || graph_tensors(&r->grads, g));
    if (!ok)
        pcvr_fail(&err, "out of memory");
    for (int p = 0; ok && p < g->n_params; p++) {
        pcvr_param q = param_of(&g->params[p]);
        ok = weight(r, c, &weights.tensors[p], &q, &err);
    }
    if (ok) {
        Interp *it = interp_new(g);
        for (int p = 0; p < g->n_params; p++)
            interp_param_f32(it, p, weights.tensors[p].values);
        interp_chance(it, true, r->seed, 0);
        step_interp(r, it, g, c, &loss, dlogits, wide);
        interp_free(it);
    }
    tensors_free(&weights);
    pcvr_step_loss_free(&loss);
    free(dlogits);
    free(wide);
    return ok ? 0 : fail(err.text);
}

int
check_run(CheckRun *r, ModelIn *m, const Case *c)
{
    int status = model_passes(m, r->checkpoint, !(r->interpreter && r->logits_only));
    if (status != 0)
        return status;
    return r->interpreter ? run_interp(r, m, c) : run_module(r, m, c);
}

void
check_run_free(CheckRun *r)
{
    free(r->logits);
    tensors_free(&r->grads);
    r->logits = NULL;
}

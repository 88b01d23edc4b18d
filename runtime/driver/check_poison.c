// check_poison.c - what no result may depend on: padding, and rows that nothing looks up.
//
// A model masks the padding of its sequences, so anything may stand there. Four runs:
//
//   plain   as recorded; notes the rows of tables that samples look up
//   ids     padding holds other ids and times; notes the rows that only padding looks up;
//           inputs, kept values and scratch are NaN before each use, as in the rest
//   rows    those rows are large; rows that nothing looks up, and parameters that reach no
//           logit, are NaN
//   events  the rows of padding are NaN too: so is every padded event
//
// Each must give the logits of the first bit for bit, all but the last its gradients too.
// The gradient of a weight is a sum of products x dy over positions; in padding dy is
// exactly zero, and zero times NaN is NaN though nothing leaked.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_run.h"

enum { LARGE = 64 };

typedef struct Poison {
    CheckRun *r;
    const Case *c;
    const pcvr_module *m;
    const Graph *g;
    PcvrStepLoss *loss;
    PcvrError *err;
    pcvr_runner *run;
    uint8_t **plain, **padded; // [n_params][rows]: looked up in the first runs; by tables
    uint8_t *memory;
    const char *what; // the run, for messages
} Poison;

static bool
is_table(const pcvr_param *p)
{
    return (p->flags & PCVR_PARAM_TABLE) != 0 && p->shape[0] > 0;
}

static bool
notes_new(Poison *p)
{
    size_t n = (size_t)p->m->n_params, total = 0;
    for (size_t k = 0; k < n; k++)
        total += (size_t)p->m->params[k].shape[0];
    p->plain = calloc(2 * n + 1, sizeof *p->plain);
    p->memory = calloc(2 * total + 1, 1);
    if (p->plain == NULL || p->memory == NULL)
        return pcvr_fail(p->err, "out of memory");
    p->padded = p->plain + n;
    uint8_t *at = p->memory;
    for (size_t k = 0; k < n; k++) {
        int64_t rows = is_table(&p->m->params[k]) ? p->m->params[k].shape[0] : 0;
        p->plain[k] = at;
        p->padded[k] = at + rows;
        at += 2 * rows;
    }
    return true;
}

// A runner with the case's weights.
static int
runner_new(Poison *p, bool poison)
{
    pcvr_options o = p->r->o;
    o.poison = poison;
    int rc = pcvr_runner_new(p->m, p->c->batch.size, &o, &p->run, p->err->text,
                             sizeof p->err->text);
    if (rc == PCVR_OK && !check_weights(p->r, p->c, p->m, p->run, p->err))
        rc = PCVR_EFORMAT;
    return rc;
}

static int
step(Poison *p, float *logits)
{
    return pcvr_runner_step(p->run, &p->c->batch, pcvr_step_loss, p->loss,
                            p->loss->coupled, true, p->r->seed, 0, logits);
}

// ---- rows -----------------------------------------------------------------------------

// Whether some node reads a row of table k at an id of 0; a bag steps over those.
static bool
reads_row_0(const Poison *p, int k)
{
    for (int n = 0; n < p->g->n_nodes; n++) {
        const Node *x = p->g->nodes[n];
        for (int i = 0; i < x->n_in; i++)
            if (x->in[i]->op == OP_PARAM && x->in[i]->a.index == k &&
                x->op != OP_BAG_MEAN)
                return true;
    }
    return false;
}

static void
fill(float *x, int64_t n, float value)
{
    for (int64_t k = 0; k < n; k++)
        x[k] = k % 2 == 0 ? value : -value;
}

// Rows that nothing looks up become NaN, rows that only padding looks up `padding`.
static void
poison_table(Poison *p, int k, float padding)
{
    const pcvr_param *q = &p->m->params[k];
    int64_t width = q->size / q->shape[0], first = 0;
    float *x = pcvr_runner_param(p->run, k);
    if ((q->flags & PCVR_PARAM_PADDING) && reads_row_0(p, k))
        first = 1;
    for (int64_t row = first; row < q->shape[0]; row++) {
        if (p->plain[k][row])
            continue;
        bool padded = p->padded[k][row] != 0;
        fill(x + row * width, width, padded ? padding : NAN);
        p->r->poison.rows += !padded;
        p->r->poison.padding_rows += padded;
    }
}

static void
poison_params(Poison *p, float padding)
{
    p->r->poison.rows = p->r->poison.padding_rows = 0;
    for (int k = 0; k < p->m->n_params; k++) {
        const pcvr_param *q = &p->m->params[k];
        if (q->flags & PCVR_PARAM_UNUSED)
            fill(pcvr_runner_param(p->run, k), q->size, NAN);
        else if (is_table(q) && !(q->flags & PCVR_PARAM_FROZEN))
            poison_table(p, k, padding);
    }
    pcvr_runner_prepare(p->run);
}

// ---- comparisons ----------------------------------------------------------------------

// The first difference is told.
static void
compare(Poison *p, const char *name, const float *got, const float *want, int64_t n)
{
    char *reason = p->r->poison.reason;
    for (int64_t k = 0; k < n && reason[0] == '\0'; k++)
        if (memcmp(&got[k], &want[k], sizeof *got) != 0)
            snprintf(reason, sizeof p->r->poison.reason,
                     "%s changes with %s: element %lld is %.9g, before %.9g", name,
                     p->what, (long long)k, (double)got[k], (double)want[k]);
}

static void
compare_logits(Poison *p, const float *logits)
{
    compare(p, "logits", logits, p->r->logits, p->c->batch.size * p->r->actions);
}

static void
compare_grads(Poison *p, const TensorList *grads)
{
    if (p->r->logits_only)
        return;
    for (int k = 0; k < grads->n; k++) {
        const NamedTensor *t = &grads->tensors[k];
        char name[300];
        snprintf(name, sizeof name, "the gradient of '%s'", t->name);
        compare(p, name, t->values, p->r->grads.tensors[k].values, t->size);
    }
}

// One poisoned step against the plain one.
static int
compare_step(Poison *p, const char *what, float *logits, TensorList *grads)
{
    p->what = what;
    int rc = step(p, logits);
    if (rc != PCVR_OK)
        return rc;
    compare_logits(p, logits);
    tensors_take_grads(grads, p->m, p->run);
    compare_grads(p, grads);
    return PCVR_OK;
}

// ---- runs -----------------------------------------------------------------------------

static int
plain_run(Poison *p)
{
    int rc = runner_new(p, false);
    if (rc == PCVR_OK)
        rc = step(p, p->r->logits);
    if (rc == PCVR_OK) {
        p->r->loss = pcvr_step_loss_value(p->loss);
        p->r->plan = *pcvr_runner_plan(p->run);
        tensors_take_grads(&p->r->grads, p->m, p->run);
        for (int k = 0; k < p->m->n_params; k++)
            if (is_table(&p->m->params[k]))
                pcvr_runner_looked_up(p->run, k, p->plain[k]);
    }
    pcvr_runner_free(p->run);
    p->run = NULL;
    return rc;
}

static int
poisoned_runs(Poison *p, float *logits, TensorList *grads)
{
    int rc = runner_new(p, true);
    if (rc == PCVR_OK)
        rc = compare_step(p, "other ids in padding", logits, grads);
    if (rc != PCVR_OK)
        return rc;
    for (int k = 0; k < p->m->n_params; k++)
        if (is_table(&p->m->params[k]))
            pcvr_runner_looked_up(p->run, k, p->padded[k]);
    poison_params(p, LARGE);
    rc = compare_step(p, "NaN in rows of tables that nothing looks up", logits, grads);
    if (rc != PCVR_OK)
        return rc;
    poison_params(p, NAN);
    p->what = "NaN in padded events";
    rc = step(p, logits);
    if (rc == PCVR_OK)
        compare_logits(p, logits);
    p->r->overrun = pcvr_runner_overrun(p->run);
    return rc;
}

int
check_poison(CheckRun *r, const ModelIn *m, const Case *c, const pcvr_module *mod,
             PcvrStepLoss *loss, PcvrError *err)
{
    Poison p = {.r = r, .c = c, .m = mod, .g = m->c.graph, .loss = loss, .err = err};
    TensorList grads = {0};
    float *logits = calloc((size_t)(c->batch.size * r->actions) + 1, sizeof *logits);
    int rc = PCVR_ENOMEM;
    if (logits == NULL || !tensors_for(&grads, mod) || !tensors_for(&r->grads, mod))
        pcvr_fail(err, "out of memory");
    else if (notes_new(&p))
        rc = plain_run(&p);
    if (rc == PCVR_OK)
        rc = poisoned_runs(&p, logits, &grads);
    pcvr_runner_free(p.run);
    tensors_free(&grads);
    free(logits);
    free(p.plain);
    free(p.memory);
    return rc;
}

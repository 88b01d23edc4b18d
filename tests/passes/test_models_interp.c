// test_models_interp.c - every recorded model case in double precision: logits, loss
// and gradients, of the graph as elaborated and after the passes that rewrite it.
//
// PCVR_CASE=onetrans/tiny runs the cases whose name holds that text. Gradients at
// official size take a minute in double precision: without PCVR_SLOW=1 only onetrans
// does them.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>

#include "compare.h"
#include "interp.h"
#include "model_case.h"
#include "passes.h"

// One walk over a case: its values, and the room they need.
typedef struct Run {
    ModelCase *model;
    Case c;
    NamedTensor *params, *grads; // [n_params]
    float *logits, *labels, *dlogits;
    double *room;
    size_t n; // batch * actions
} Run;

static void *
room(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    if (!p)
        abort();
    return p;
}

static void
describe(NamedTensor *t, const Param *p)
{
    *t = (NamedTensor){
        .name = p->name, .rank = p->shape.rank, .size = shape_size(p->shape)};
    memcpy(t->shape, p->shape.dim, sizeof t->shape);
    t->values = room((size_t)t->size, sizeof *t->values);
}

static bool
run_begin(Run *r, ModelCase *m)
{
    PcvrError error = {""};
    memset(r, 0, sizeof *r);
    r->model = m;
    if (!case_load(&r->c, m->dir, &error)) {
        printf("%s: %s\n", m->name, error.text);
        return false;
    }
    const Graph *g = m->graph;
    r->params = room((size_t)g->n_params, sizeof *r->params);
    r->grads = room((size_t)g->n_params, sizeof *r->grads);
    bool ok = true;
    for (int k = 0; k < g->n_params; k++) {
        describe(&r->params[k], &g->params[k]);
        describe(&r->grads[k], &g->params[k]);
        ok = ok && case_weight(&r->c, &r->params[k], &error);
    }
    if (!ok)
        printf("%s: %s\n", m->name, error.text);
    r->n = (size_t)(r->c.batch.size * r->c.actions);
    r->logits = room(r->n, sizeof *r->logits);
    r->labels = room(r->n, sizeof *r->labels);
    r->dlogits = room(r->n, sizeof *r->dlogits);
    r->room = room(r->n, sizeof *r->room);
    for (size_t k = 0; k < r->n; k++)
        r->labels[k] = (float)r->c.batch.label[k / (size_t)r->c.actions];
    return ok;
}

static void
run_end(Run *r)
{
    for (int k = 0; r->params && k < r->model->graph->n_params; k++) {
        free(r->params[k].values);
        free(r->grads[k].values);
    }
    free(r->params);
    free(r->grads);
    free(r->logits);
    free(r->labels);
    free(r->dlogits);
    free(r->room);
    case_free(&r->c);
}

static Interp *
interp_of(const Run *r)
{
    Interp *it = interp_new(r->model->graph);
    for (int k = 0; k < r->model->graph->n_params; k++)
        interp_param_f32(it, k, r->params[k].values);
    return it;
}

static void
forward(Run *r, Interp *it, int64_t s)
{
    Graph *g = r->model->graph;
    interp_sample(it, &r->c.batch, s);
    interp_run(it, &g->logits, 1);
    const double *z = interp_value(it, g->logits)->f;
    for (int64_t a = 0; a < r->c.actions; a++)
        r->logits[s * r->c.actions + a] = (float)z[a];
}

static double
loss(Run *r)
{
    double values[8];
    return r->c.n_terms > 8
               ? (double)NAN
               : pcvr_loss_total(r->c.terms, r->c.n_terms, r->logits, r->labels, r->n,
                                 values, r->dlogits, r->room);
}

static void
backward(Run *r, Interp *it)
{
    double *d = room((size_t)r->c.actions, sizeof *d);
    for (int64_t s = 0; s < r->c.batch.size; s++) {
        forward(r, it, s);
        for (int64_t a = 0; a < r->c.actions; a++)
            d[a] = (double)r->dlogits[s * r->c.actions + a];
        interp_dlogits(it, d);
        interp_backward(it);
    }
    free(d);
    for (int k = 0; k < r->model->graph->n_params; k++) {
        const double *grad = interp_grad(it, k);
        for (int64_t i = 0; grad && i < r->grads[k].size; i++)
            r->grads[k].values[i] = (float)grad[i];
    }
}

static bool
verdict_ok(const Run *r, const Outcome *o, const char *what)
{
    Verdict v;
    compare_case(&r->c, o, &v);
    if (!v.pass)
        printf("%s, %s: %s\n", r->model->name, what, v.reason);
    else if (getenv("PCVR_CASE"))
        printf("%-40s %-12s logits %.1e of %.1e  gradients %.1e of %.1e\n",
               r->model->name, what, v.logits_error, v.logits_limit, v.worst_error,
               v.worst_limit);
    return v.pass;
}

static bool
check_logits(ModelCase *m)
{
    Run r;
    bool ok = run_begin(&r, m);
    if (ok) {
        Interp *it = interp_of(&r);
        for (int64_t s = 0; s < r.c.batch.size; s++)
            forward(&r, it, s);
        interp_free(it);
        ok = verdict_ok(&r, &(Outcome){.logits = r.logits, .logits_only = true},
                        "as written");
    }
    run_end(&r);
    return ok;
}

static bool
run_passes(Graph *g, PassFn *const *passes)
{
    for (; *passes; passes++)
        if (!(*passes)(g))
            return false;
    return true;
}

static bool
is_slow(const ModelCase *m)
{
    return strstr(m->name, "/official") && strcmp(m->name, "onetrans/official") != 0 &&
           !getenv("PCVR_SLOW");
}

static bool
check_gradients_after(ModelCase *m, PassFn *const *passes, const char *what)
{
    Run r;
    if (is_slow(m))
        return true;
    bool ok = run_begin(&r, m);
    if (ok && !run_passes(m->graph, passes)) {
        diag_print(&m->diag, stdout);
        ok = false;
    }
    if (ok) {
        Interp *it = interp_of(&r);
        for (int64_t s = 0; s < r.c.batch.size; s++)
            forward(&r, it, s);
        Outcome o = {.logits = r.logits,
                     .loss = loss(&r),
                     .grads = r.grads,
                     .n_grads = m->graph->n_params};
        backward(&r, it);
        interp_free(it);
        ok = verdict_ok(&r, &o, what);
    }
    run_end(&r);
    return ok;
}

static bool
check_plain_gradients(ModelCase *m)
{
    static PassFn *const passes[] = {differentiate, NULL};
    return check_gradients_after(m, passes, "gradients");
}

static bool
check_pruned_gradients(ModelCase *m)
{
    static PassFn *const passes[] = {simplify, prune, differentiate, sweep, NULL};
    return check_gradients_after(m, passes, "pruned");
}

static void
walk(bool (*check)(ModelCase *))
{
    char text[512];
    bool all;
    int failed;
    const char *root = model_case_root(text, sizeof text, &all);
    int n = model_cases_walk(root, check, &failed);
    printf("%d cases under %s, %d failed\n", n, root, failed);
    assert_int_equal(failed, 0);
    assert_true(n >= (all ? N_MODEL_CASES : 7));
}

static void
test_logits(void **state)
{
    (void)state;
    walk(check_logits);
}

static void
test_gradients(void **state)
{
    (void)state;
    walk(check_plain_gradients);
}

static void
test_pruned(void **state)
{
    (void)state;
    walk(check_pruned_gradients);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_logits),
                                       cmocka_unit_test(test_gradients),
                                       cmocka_unit_test(test_pruned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

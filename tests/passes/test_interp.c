// test_interp.c - the interpreter on every recorded model case: logits, loss and all
// gradients within the limits of the recording, as elaborated and after the passes that
// need no back end.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compare.h"
#include "interp.h"
#include "model_case.h"
#include "passes.h"

typedef struct Run {
    Case c;
    Graph *g;
    Interp *it;
    NamedTensor *weights, *grads;
    float *logits, *labels, *dlogits;
} Run;

static NamedTensor *
tensors(Mem *mem, const Graph *g)
{
    NamedTensor *t = arena_array(&mem->perm, NamedTensor, g->n_params);
    for (int k = 0; k < g->n_params; k++) {
        const Param *p = &g->params[k];
        t[k] = (NamedTensor){
            .name = p->name, .rank = p->shape.rank, .size = shape_size(p->shape)};
        memcpy(t[k].shape, p->shape.dim, (size_t)p->shape.rank * sizeof *t[k].shape);
        t[k].values = arena_array(&mem->perm, float, t[k].size);
    }
    return t;
}

static bool
take_weights(Run *r)
{
    PcvrError err = {{0}};
    for (int k = 0; k < r->g->n_params; k++) {
        if (!case_weight(&r->c, &r->weights[k], &err)) {
            printf("%s\n", err.text);
            return false;
        }
        interp_param_f32(r->it, k, r->weights[k].values);
    }
    return true;
}

static void
forward(Run *r)
{
    for (int64_t s = 0; s < r->c.batch.size; s++) {
        interp_sample(r->it, &r->c.batch, s);
        interp_run(r->it, &r->g->logits, 1);
        const Tensor *y = interp_value(r->it, r->g->logits);
        for (int64_t a = 0; a < y->size; a++) {
            r->logits[s * y->size + a] = (float)y->f[a];
            r->labels[s * y->size + a] = (float)r->c.batch.label[s];
        }
    }
}

static void
backward(Run *r)
{
    int64_t actions = r->c.actions;
    double *dy = calloc((size_t)actions, sizeof *dy);
    for (int64_t s = 0; s < r->c.batch.size; s++) {
        for (int64_t a = 0; a < actions; a++)
            dy[a] = (double)r->dlogits[s * actions + a];
        interp_sample(r->it, &r->c.batch, s);
        interp_dlogits(r->it, dy);
        interp_backward(r->it);
    }
    free(dy);
    for (int k = 0; k < r->g->n_params; k++) {
        const double *grad = interp_grad(r->it, k);
        for (int64_t i = 0; grad && i < r->grads[k].size; i++)
            r->grads[k].values[i] = (float)grad[i];
    }
}

static bool
run_case(ModelCase *m, Run *r)
{
    Arena *a = &m->mem.perm;
    size_t n = (size_t)(r->c.batch.size * r->c.actions);
    r->weights = tensors(&m->mem, r->g);
    r->grads = tensors(&m->mem, r->g);
    r->logits = arena_array(a, float, n);
    r->labels = arena_array(a, float, n);
    r->dlogits = arena_array(a, float, n);
    if (!take_weights(r))
        return false;
    forward(r);
    double *values = arena_array(a, double, r->c.n_terms + 1);
    double *room = arena_array(a, double, n);
    double loss = pcvr_loss_total(r->c.terms, r->c.n_terms, r->logits, r->labels, n,
                                  values, r->dlogits, room);
    backward(r);
    Outcome o = {
        .logits = r->logits, .loss = loss, .grads = r->grads, .n_grads = r->g->n_params};
    Verdict v = {0};
    compare_case(&r->c, &o, &v);
    printf("%-34s %6d nodes, logits %.1e of %.1e, worst %s %.1e of %.1e\n", m->name,
           r->g->n_nodes, v.logits_error, v.logits_limit, v.worst ? v.worst : "-",
           v.worst_error, v.worst_limit);
    if (!v.pass)
        printf("%s: %s\n", m->name, v.reason);
    return v.pass;
}

static bool
with_data(ModelCase *m)
{
    Run r = {.g = m->graph};
    PcvrError err = {{0}};
    if (!case_load(&r.c, m->dir, &err)) {
        printf("%s\n", err.text);
        return false;
    }
    r.it = interp_new(r.g);
    bool ok = run_case(m, &r);
    interp_free(r.it);
    case_free(&r.c);
    return ok;
}

static bool
as_elaborated(ModelCase *m)
{
    return differentiate(m->graph) && with_data(m);
}

static bool
after_passes(ModelCase *m)
{
    Graph *g = m->graph;
    return simplify(g) && prune(g) && differentiate(g) && with_data(m);
}

static void
walk(bool (*check)(ModelCase *))
{
    char room[1024];
    bool all;
    int failed;
    const char *root = model_case_root(room, sizeof room, &all);
    int n = model_cases_walk(root, check, &failed);
    printf("%d cases under %s, %d failed\n", n, root, failed);
    assert_int_equal(failed, 0);
    assert_true(all ? n == N_MODEL_CASES : n > 0);
}

static void
test_as_elaborated(void **state)
{
    (void)state;
    walk(as_elaborated);
}

static void
test_after_passes(void **state)
{
    (void)state;
    walk(after_passes);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_elaborated),
        cmocka_unit_test(test_after_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

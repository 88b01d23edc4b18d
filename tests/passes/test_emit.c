// test_emit.c - compiled modules of every recorded model case against the interpreter, and bit for bit
// over checkpoint choices, chunks and threads.
//
// The small case of onetrans; PCVR_CASE picks others by a part of their name. PCVR_EMIT_DIR keeps the
// emitted C there.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>

#include "emit_case.h"

enum { BATCH = 5 };

// Logits and gradients of one run, tables made dense.
typedef struct Run {
    double *logits;
    double **grad; // [n_params]
    int64_t n_logits;
    int n_params;
} Run;

static Run
run_new(const Graph *g, int64_t actions)
{
    Run r = {.n_logits = BATCH * actions, .n_params = g->n_params};
    r.logits = calloc((size_t)r.n_logits, sizeof *r.logits);
    r.grad = calloc((size_t)g->n_params + 1, sizeof *r.grad);
    for (int p = 0; p < g->n_params; p++)
        r.grad[p] = calloc((size_t)shape_size(g->params[p].shape) + 1, sizeof **r.grad);
    return r;
}

static void
run_free(Run *r)
{
    for (int p = 0; p < r->n_params; p++)
        free(r->grad[p]);
    free(r->grad);
    free(r->logits);
}

typedef struct Weights {
    int64_t actions;
} Weights;

// The gradient of any loss does: a fixed one for each logit.
static double
dlogit(int64_t k)
{
    return pcvr_number(pcvr_name_hash("dlogits"), (uint64_t)k);
}

static void
fixed_loss(void *arg, int64_t first, int64_t count, const float *logits, float *dlogits)
{
    const Weights *w = arg;
    (void)logits;
    for (int64_t k = first * w->actions; k < (first + count) * w->actions; k++)
        dlogits[k] = (float)dlogit(k);
}

static void
interpret(const Graph *g, const pcvr_batch *b, bool training, Run *r)
{
    Interp *it = interp_new(g);
    int64_t actions = shape_size(g->logits->shape);
    float **params = calloc((size_t)g->n_params + 1, sizeof *params);
    for (int p = 0; p < g->n_params; p++) {
        params[p] = calloc((size_t)shape_size(g->params[p].shape) + 1, sizeof **params);
        made_param(params[p], &g->params[p]);
        interp_param_f32(it, p, params[p]);
    }
    interp_chance(it, training, 7, 3);
    for (int64_t s = 0; s < b->size; s++) {
        double d[64];
        interp_sample(it, b, s);
        Node *logits = g->logits;
        interp_run(it, &logits, 1);
        for (int64_t k = 0; k < actions; k++) {
            r->logits[s * actions + k] = interp_value(it, g->logits)->f[k];
            d[k] = (double)(float)dlogit(s * actions + k);
        }
        interp_dlogits(it, d);
        interp_backward(it);
    }
    for (int p = 0; p < g->n_params; p++) {
        const double *grad = interp_grad(it, p);
        if (grad)
            memcpy(r->grad[p], grad, (size_t)shape_size(g->params[p].shape) * sizeof *grad);
        free(params[p]);
    }
    free(params);
    interp_free(it);
}

static bool
execute(const pcvr_module *m, const Graph *g, const pcvr_batch *b, pcvr_options o, bool training,
        Run *r)
{
    char err[1024] = "";
    pcvr_runner *run = NULL;
    if (pcvr_runner_new(m, BATCH, &o, &run, err, sizeof err) != PCVR_OK) {
        printf("%s\n", err);
        return false;
    }
    for (int p = 0; p < g->n_params; p++)
        made_param(pcvr_runner_param(run, p), &g->params[p]);
    pcvr_runner_prepare(run);
    Weights w = {m->actions};
    float logits[BATCH * 64];
    bool ok = true;
    for (int k = 0; k < 2 && ok; k++)
        ok = pcvr_runner_step(run, b, fixed_loss, &w, false, training, 7, 3, logits) == PCVR_OK;
    for (int64_t k = 0; k < r->n_logits; k++)
        r->logits[k] = (double)logits[k];
    for (int p = 0; p < g->n_params && ok; p++) {
        const float *dense = pcvr_runner_grad(run, p);
        pcvr_sparse rows = pcvr_runner_rows(run, p);
        for (int64_t k = 0; dense && k < shape_size(g->params[p].shape); k++)
            r->grad[p][k] = (double)dense[k];
        for (int64_t k = 0; k < rows.n; k++)
            for (int64_t c = 0; c < rows.width; c++)
                r->grad[p][rows.ids[k] * rows.width + c] = (double)rows.values[k * rows.width + c];
    }
    const char *overrun = pcvr_runner_overrun(run);
    if (overrun)
        printf("overrun of %s\n", overrun);
    pcvr_runner_free(run);
    return ok && !overrun;
}

// The largest difference against the largest entry; a NaN counts as infinite.
static double
distance(const double *a, const double *b, int64_t n, double floor)
{
    double worst = 0, top = floor;
    for (int64_t k = 0; k < n; k++) {
        double d = fabs(a[k] - b[k]);
        if (isnan(d))
            return INFINITY;
        worst = d > worst ? d : worst;
        top = fabs(b[k]) > top ? fabs(b[k]) : top;
    }
    return worst / top;
}

static bool
near_enough(const Graph *g, const Run *got, const Run *want)
{
    bool ok = true;
    double peak = 0;
    for (int p = 0; p < got->n_params; p++)
        for (int64_t k = 0; k < shape_size(g->params[p].shape); k++)
            peak = fabs(want->grad[p][k]) > peak ? fabs(want->grad[p][k]) : peak;
    double d = distance(got->logits, want->logits, got->n_logits, 1e-3);
    if (!(d <= 2e-5)) {
        printf("  logits differ by %g\n", d);
        ok = false;
    }
    int shown = 0;
    for (int p = 0; p < got->n_params; p++) {
        d = distance(got->grad[p], want->grad[p], shape_size(g->params[p].shape), 1e-3 * peak);
        if (!(d <= 2e-3) && shown++ < 8)
            printf("  gradient of %s differs by %g\n", g->params[p].name, d);
        ok = ok && d <= 2e-3;
    }
    return ok && peak > 0;
}

static bool
same_bits(const Graph *g, const Run *a, const Run *b)
{
    int shown = 0;
    bool ok = memcmp(a->logits, b->logits, (size_t)a->n_logits * sizeof *a->logits) == 0;
    if (!ok)
        printf("  logits have other bits\n");
    for (int p = 0; p < a->n_params; p++) {
        size_t size = (size_t)shape_size(g->params[p].shape) * sizeof **a->grad;
        if (memcmp(a->grad[p], b->grad[p], size) == 0)
            continue;
        ok = false;
        if (shown++ < 5)
            printf("  gradient of %s has other bits\n", g->params[p].name);
    }
    return ok;
}

static void
keep_text(const char *name, const char *choice, const char *text)
{
    const char *dir = getenv("PCVR_EMIT_DIR");
    char path[1200], flat[200];
    if (!dir || !*dir)
        return;
    snprintf(flat, sizeof flat, "%s_%s", name, choice);
    for (char *c = flat; *c; c++)
        if (*c == '/' || *c == ',' || *c == '*')
            *c = '_';
    snprintf(path, sizeof path, "%s/%s.c", dir, flat);
    FILE *f = fopen(path, "w");
    if (f) {
        fputs(text, f);
        fclose(f);
    }
}

// One choice: compiled, run for two chunks and thread counts.
static bool
check_choice(ModelCase *c, const char *choice, Run *first, bool training)
{
    Graph *g = c->graph;
    const char *isa = pcvr_isa_choose(NULL, 0);
    char err[4096] = "";
    const pcvr_module *m = NULL;
    if (!run_passes(g, choice))
        return false;
    char *text = emit_graph(g, c->schema, "case");
    keep_text(c->name, choice, text);
    if (pcvr_module_build(text, "pcvr_case", isa, &m, err, sizeof err) != PCVR_OK) {
        printf("  %s: %s\n", choice, err);
        return false;
    }
    MadeBatch batch;
    made_batch(&batch, c->schema, BATCH);
    bool ok = true, is_first = first->logits == NULL;
    static const pcvr_options options[] = {{.lanes = 2, .threads = 1, .chunk = 1},
                                           {.lanes = 2, .threads = 2, .chunk = 2},
                                           {.lanes = 2, .threads = 1, .chunk = PCVR_CHUNK_BATCH}};
    if (is_first) {
        Run want = run_new(g, m->actions);
        *first = run_new(g, m->actions);
        interpret(g, &batch.b, training, &want);
        ok = execute(m, g, &batch.b, options[0], training, first) && near_enough(g, first, &want);
        run_free(&want);
    }
    for (int k = is_first; k < (is_first ? 3 : 2) && ok; k++) {
        Run r = run_new(g, m->actions);
        ok = execute(m, g, &batch.b, options[k], training, &r) && same_bits(g, &r, first);
        run_free(&r);
    }
    made_batch_free(&batch);
    if (!ok)
        printf("  choice %s of %s fails\n", choice, c->name);
    return ok;
}

static int n_checked;

static bool
check_case(ModelCase *c)
{
    n_checked++;
    static const char *const choices[] = {"none", "blocks", "*", "sample"};
    Run first = {0};
    char room[512];
    bool all, ok = true;
    const char *root = model_case_root(room, sizeof room, &all);
    char model[64];
    snprintf(model, sizeof model, "%.*s", (int)strcspn(c->name, "/"), c->name);
    for (int k = 0; k < 4 && ok; k++) {
        ModelCase again;
        model_case_load(&again, root, model, strchr(c->name, '/') + 1);
        ok = again.graph && check_choice(&again, choices[k], &first, true);
        if (k == 3 || !ok)
            run_free(&first);
        model_case_free(&again);
    }
    printf("%s %s\n", ok ? "ok  " : "FAIL", c->name);
    fflush(stdout);
    return ok;
}

static void
test_cases(void **state)
{
    (void)state;
    char room[512];
    bool all;
    int failed;
    const char *root = model_case_root(room, sizeof room, &all);
    if (access(root, R_OK) != 0) {
        printf("skip: no model cases at %s\n", root);
        skip();
    }
    setenv("PCVR_CASE", "onetrans/tiny", 0);
    n_checked = 0;
    model_cases_walk(root, check_case, &failed);
    assert_int_equal(failed, 0);
    assert_true(n_checked >= 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test_passes.c - the graph passes on every recorded model case: the interpreter before and after.
//
// Inputs and parameters are pseudo-random; dropout is drawn. Simplify and prune must give the same logits and
// gradients up to rounding in double; checkpoint choices must give the same bits.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>

#include "interp.h"
#include "model_case.h"
#include "passes.h"

static uint64_t
draw(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    uint64_t z = *s ^ (*s >> 29);
    return z * 0xbf58476d1ce4e5b9u >> 20;
}

static double
uniform(uint64_t *s)
{
    return (double)(draw(s) % 2000001) / 1e6 - 1.0;
}

// What a run of a graph leaves: logits and all gradients.
typedef struct Outcome {
    int n_logits, n_params;
    double *logits;
    double **grads; // NULL: none
    int64_t *sizes;
} Outcome;

static void
fill_input(Interp *it, const Graph *g, int k, uint64_t seed)
{
    const Input *in = &g->inputs[k];
    int64_t n = shape_size(in->shape);
    // By kind and domain, so that passes which drop an input do not change the others.
    uint64_t s = seed + (uint64_t)in->kind * 977 + (uint64_t)(in->domain + 1) * 131;
    double *f = calloc((size_t)n + 1, sizeof *f);
    int64_t *v = calloc((size_t)n + 1, sizeof *v);
    for (int64_t e = 0; e < n; e++) {
        f[e] = uniform(&s);
        v[e] = (int64_t)(draw(&s) % 7);
        if (in->kind == IN_TIMES)
            v[e] = 1700000000 - (int64_t)(draw(&s) % 3000000) * (int64_t)(draw(&s) % 3 != 0);
        if (in->kind == IN_REQUEST_TIME)
            v[e] = 1700000100;
        if (in->kind == IN_LENGTH)
            v[e] = (int64_t)(draw(&s) % 9);
        if (in->type == DT_BOOL)
            v[e] = v[e] < 2;
    }
    interp_input(it, k, in->type == DT_F32 ? (void *)f : (void *)v);
    free(f);
    free(v);
}

static double **
make_params(const Graph *g)
{
    double **p = calloc((size_t)g->n_params, sizeof *p);
    for (int k = 0; k < g->n_params; k++) {
        uint64_t s = 77 + (uint64_t)k * 1009;
        int64_t n = shape_size(g->params[k].shape);
        p[k] = calloc((size_t)n + 1, sizeof **p);
        for (int64_t e = 0; e < n; e++)
            p[k][e] = 0.3 * uniform(&s) + (g->params[k].init == INIT_ONES ? 1.0 : 0.0);
    }
    return p;
}

static Outcome
run(const Graph *g, double **params, bool backward)
{
    Outcome o = {.n_logits = (int)shape_size(g->logits->shape), .n_params = g->n_params};
    Interp *it = interp_new(g);
    for (int k = 0; k < g->n_params; k++)
        interp_param_f64(it, k, params[k]);
    interp_exact_constants(it); // folding rounds once, the plain graph would round each
    interp_chance(it, true, 11, 3);
    o.logits = calloc((size_t)o.n_logits + 1, sizeof *o.logits);
    o.grads = calloc((size_t)o.n_params + 1, sizeof *o.grads);
    o.sizes = calloc((size_t)o.n_params + 1, sizeof *o.sizes);
    for (uint32_t sample = 0; sample < 2; sample++) {
        interp_begin(it, sample);
        for (int k = 0; k < g->n_inputs; k++)
            fill_input(it, g, k, 5 + sample);
        interp_run(it, (Node *const *)&g->logits, 1);
        const double *y = interp_value(it, g->logits)->f;
        double d[64];
        assert_true(o.n_logits <= 64);
        for (int k = 0; k < o.n_logits; k++) {
            o.logits[k] += y[k] * (1.0 + sample);
            d[k] = 0.7 - 0.2 * k;
        }
        if (backward) {
            interp_dlogits(it, d);
            interp_backward(it);
        }
    }
    for (int k = 0; k < g->n_params && backward; k++) {
        const double *grad = interp_grad(it, k);
        o.sizes[k] = shape_size(g->params[k].shape);
        if (grad == NULL)
            continue;
        o.grads[k] = malloc((size_t)o.sizes[k] * sizeof **o.grads + 1);
        memcpy(o.grads[k], grad, (size_t)o.sizes[k] * sizeof **o.grads);
    }
    interp_free(it);
    return o;
}

static void
outcome_free(Outcome *o)
{
    for (int k = 0; k < o->n_params; k++)
        free(o->grads[k]);
    free(o->grads);
    free(o->sizes);
    free(o->logits);
}

static bool
near(const double *a, const double *b, int64_t n, double scale, double limit)
{
    for (int64_t k = 0; k < n; k++)
        scale = fmax(scale, fabs(b[k]));
    for (int64_t k = 0; k < n; k++)
        if (!(fabs(a[k] - b[k]) <= limit * scale))
            return false;
    return true;
}

static double
peak(const Outcome *o)
{
    double p = 1e-12;
    for (int k = 0; k < o->n_params; k++)
        for (int64_t e = 0; o->grads[k] != NULL && e < o->sizes[k]; e++)
            p = fmax(p, fabs(o->grads[k][e]));
    return p;
}

// exact: the same bits. A missing gradient equals one of zeros.
static bool
same(const char *what, const Graph *g, const Outcome *a, const Outcome *b, bool exact)
{
    bool ok = exact ? memcmp(a->logits, b->logits, (size_t)a->n_logits * 8) == 0
                    : near(a->logits, b->logits, a->n_logits, 1e-12, 1e-9);
    if (!ok)
        printf("%s: logits differ: %.17g, %.17g\n", what, a->logits[0], b->logits[0]);
    for (int k = 0; k < a->n_params; k++) {
        if (a->grads[k] == NULL && b->grads[k] == NULL)
            continue;
        int64_t n = a->sizes[k];
        double *zero = calloc((size_t)n + 1, sizeof *zero);
        const double *x = a->grads[k] ? a->grads[k] : zero;
        const double *y = b->grads[k] ? b->grads[k] : zero;
        bool equal = exact ? memcmp(x, y, (size_t)n * 8) == 0 : near(x, y, n, 1e-4 * peak(b), 1e-7);
        if (!equal && ok)
            printf("%s: gradient of %s differs: %g, %g\n", what, g->params[k].name, x[0], y[0]);
        ok = ok && equal;
        free(zero);
    }
    return ok;
}

static double
product_flops(const Graph *g)
{
    double sum = 0.0;
    for (int k = 0; k < g->n_nodes; k++)
        if (g->nodes[k]->op == OP_MATMUL)
            sum += op_info[OP_MATMUL].flops(g->nodes[k]);
    return sum;
}

static void
load(ModelCase *c, const char *model, const char *name, const char *root)
{
    model_case_load(c, root, model, name);
    assert_non_null(c->graph);
    // Random sites that draw: passes must keep their element numbers.
    for (int k = 0; k < c->graph->n_nodes; k++)
        if (c->graph->nodes[k]->a.site > 0)
            c->graph->nodes[k]->a.p = 0.3;
}

static int
check_case(const char *root, const char *model, const char *name)
{
    int bad = 0;
    ModelCase plain;
    load(&plain, model, name, root);
    double **params = make_params(plain.graph);
    double before = product_flops(plain.graph);
    assert_true(differentiate(plain.graph));
    Outcome want = run(plain.graph, params, true);

    static const char *const choices[] = {"none", "blocks", "*", "sample"};
    Outcome none = {0};
    for (int c = 0; c < 4; c++) {
        ModelCase mc;
        load(&mc, model, name, root);
        Graph *g = mc.graph;
        g->checkpoint = choices[c];
        assert_true(simplify(g));
        assert_true(prune(g));
        double after = product_flops(g);
        if (c == 0)
            printf("%s/%s: products %.2f -> %.2f MFLOP, %d nodes\n", model, name, before / 1e6,
                   after / 1e6, g->n_nodes);
        assert_true(differentiate(g));
        assert_true(checkpoint(g));
        assert_true(sweep(g));
        Outcome got = run(g, params, true);
        if (c == 0) {
            bad += !same(mc.name, g, &got, &want, false);
            none = got;
        } else {
            bad += !same(choices[c], g, &got, &none, true);
            outcome_free(&got);
        }
        model_case_free(&mc);
    }
    for (int k = 0; k < plain.graph->n_params; k++)
        free(params[k]);
    free(params);
    outcome_free(&want);
    outcome_free(&none);
    model_case_free(&plain);
    return bad;
}

static void
test_cases(void **state)
{
    (void)state;
    char room[512];
    bool all;
    const char *root = model_case_root(room, sizeof room, &all);
    const char *only = getenv("CASE");
    int bad = 0, n = 0;
    for (size_t m = 0; m < sizeof model_names / sizeof *model_names; m++) {
        char path[700];
        snprintf(path, sizeof path, "%s/%s", root, model_names[m]);
        DIR *d = opendir(path);
        for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
            char id[700];
            snprintf(id, sizeof id, "%s/%s", model_names[m], e->d_name);
            if (e->d_name[0] == '.' || (only != NULL && strstr(id, only) == NULL))
                continue;
            // The large cases take long in the interpreter; onetrans stands for them.
            if (strcmp(e->d_name, "official") == 0 && strcmp(model_names[m], "onetrans") != 0)
                continue;
            bad += check_case(root, model_names[m], e->d_name);
            n++;
        }
        if (d != NULL)
            closedir(d);
    }
    assert_int_equal(bad, 0);
    assert_true(only != NULL || n >= (all ? N_MODEL_CASES - 6 : 1));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

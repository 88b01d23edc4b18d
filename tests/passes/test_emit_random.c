// test_emit_random.c - random graphs as compiled modules: near the interpreter, and bit for bit equal over
// checkpoint choices and chunks, with rows in strips or all at once. One seed has products of columns.
//
// PCVR_SEEDS=N runs N graphs (default 2), PCVR_FIRST=K starts at seed K (3); PCVR_EMIT_DIR keeps the emitted C.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_graph.h"
#include "tile_case.h"

// Logits of all samples, then every gradient, tables made dense.
typedef struct Numbers {
    double *v;
    int64_t n, n_logits;
} Numbers;

// Statements: in strips; loops with several results; products of columns for all samples of a group, by a weight and into a sum.
static int in_strips, several, of_columns, column_sums;
static int joined; // programs with a region of one phase beside others

static Numbers
numbers_new(const RandomGraph *r)
{
    Numbers x = {.n_logits = RG_SAMPLES * RG_ACTIONS};
    x.n = x.n_logits;
    for (int p = 0; p < r->g->n_params; p++)
        x.n += shape_size(r->g->params[p].shape);
    x.v = calloc((size_t)x.n + 1, sizeof *x.v);
    return x;
}

static Numbers
interpret(const RandomGraph *r)
{
    Numbers x = numbers_new(r);
    Interp *it = random_interp(r);
    for (int s = 0; s < RG_SAMPLES; s++) {
        interp_sample(it, &r->batch, s);
        interp_run(it, &r->g->logits, 1);
        memcpy(x.v + s * RG_ACTIONS, interp_value(it, r->g->logits)->f, RG_ACTIONS * sizeof *x.v);
        interp_dlogits(it, random_dlogits);
        interp_backward(it);
    }
    double *at = x.v + x.n_logits;
    for (int p = 0; p < r->g->n_params; p++) {
        int64_t n = shape_size(r->g->params[p].shape);
        const double *grad = interp_grad(it, p);
        if (grad)
            memcpy(at, grad, (size_t)n * sizeof *at);
        at += n;
    }
    interp_free(it);
    return x;
}

static void
fixed_loss(void *arg, int64_t first, int64_t count, const float *logits, float *dlogits)
{
    (void)arg, (void)logits;
    for (int64_t k = first * RG_ACTIONS; k < (first + count) * RG_ACTIONS; k++)
        dlogits[k] = (float)random_dlogits[k % RG_ACTIONS];
}

static Numbers
execute(const RandomGraph *r, const pcvr_module *m, int64_t chunk)
{
    Numbers x = numbers_new(r);
    pcvr_options o = {.lanes = 1, .threads = 1, .chunk = chunk};
    pcvr_runner *run = NULL;
    char err[1024] = "";
    float logits[RG_SAMPLES * RG_ACTIONS];
    int rc = pcvr_runner_new(m, RG_SAMPLES, &o, &run, err, sizeof err);
    if (rc != PCVR_OK)
        printf("%s\n", err);
    assert_int_equal(rc, PCVR_OK);
    for (int p = 0; p < r->g->n_params; p++) {
        float *v = pcvr_runner_param(run, p);
        int64_t n = shape_size(r->g->params[p].shape);
        memcpy(v, r->params[p], (size_t)n * sizeof *v);
        if (r->g->params[p].padding && n > 0)
            memset(v, 0, (size_t)(n / r->g->params[p].shape.dim[0]) * sizeof *v);
    }
    pcvr_runner_prepare(run);
    for (int k = 0; k < 2; k++)
        assert_int_equal(pcvr_runner_step(run, &r->batch, fixed_loss, NULL, false, true, 11, 2, logits),
                         PCVR_OK);
    for (int k = 0; k < RG_SAMPLES * RG_ACTIONS; k++)
        x.v[k] = (double)logits[k];
    double *at = x.v + x.n_logits;
    for (int p = 0; p < r->g->n_params; p++) {
        int64_t n = shape_size(r->g->params[p].shape);
        const float *dense = pcvr_runner_grad(run, p);
        pcvr_sparse rows = pcvr_runner_rows(run, p);
        for (int64_t k = 0; dense && k < n; k++)
            at[k] = (double)dense[k];
        for (int64_t k = 0; k < rows.n; k++)
            for (int64_t c = 0; c < rows.width; c++)
                at[rows.ids[k] * rows.width + c] = (double)rows.values[k * rows.width + c];
        at += n;
    }
    assert_null(pcvr_runner_overrun(run));
    pcvr_runner_free(run);
    return x;
}

static bool
passes_run(RandomGraph *r, const char *choice)
{
    static PassFn *const passes[] = {simplify, prune, differentiate, checkpoint, sweep};
    r->g->checkpoint = choice;
    for (size_t k = 0; k < sizeof passes / sizeof *passes; k++)
        if (!passes[k](r->g))
            return false;
    return true;
}

static void
count(const Stmt *s)
{
    bool columns = s->batched && s->kind == ST_PRODUCT && s->batch > 0;
    in_strips += s->strip != NULL;
    several += s->kind == ST_LOOP && s->n_out > 1;
    of_columns += columns && s->out[0].buf->space != SP_ACC;
    column_sums += columns && s->out[0].buf->space == SP_ACC;
}

static const pcvr_module *
build(RandomGraph *r, const char *name)
{
    const char *dir = getenv("PCVR_EMIT_DIR");
    Tiles *t = schedule(r->g);
    plan(t);
    for (int i = 0; i < t->regions.n; i++)
        for (int k = 0; k < t->regions.v[i]->stmts.n; k++)
            count(t->regions.v[i]->stmts.v[k]);
    joined += has_joined(t);
    char domain[] = "seq";
    SchemaDomain d = {.name = domain, .n_sides = RG_F, .max_len = RG_L};
    Schema schema = {.user_int = {.width = RG_INTS},
                     .user_dense = {.width = RG_DENSE},
                     .domains = &d,
                     .n_domains = 1};
    EmitOptions o = {.name = name, .config = "{}", .compiler = "test", .schema = &schema};
    const char *text = emit_c(t, &o), *symbol = module_symbol(&r->mem, name);
    if (dir && *dir) {
        FILE *f = fopen(arena_printf(&r->mem.perm, "%s/%s.c", dir, name), "w");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
    }
    char err[4096] = "";
    const pcvr_module *m = NULL;
    if (pcvr_module_build(text, symbol, pcvr_isa_choose(err, sizeof err), &m, err, sizeof err))
        printf("%s\n", err);
    assert_non_null(m);
    return m;
}

// The largest difference over 1 plus the size of the numbers; infinite for NaN.
static double
distance(const Numbers *a, const Numbers *b)
{
    double worst = 0;
    for (int64_t k = 0; k < a->n; k++) {
        double d = fabs(a->v[k] - b->v[k]) / (1 + fabs(b->v[k]));
        if (isnan(d) && !(isnan(a->v[k]) && isnan(b->v[k])))
            return INFINITY;
        worst = d > worst ? d : worst;
    }
    return worst;
}

static void
show_difference(const RandomGraph *r, const Numbers *got, const Numbers *want, double d)
{
    int64_t at = got->n_logits;
    printf("differs by %g from the interpreter\n", d);
    for (int64_t k = 0; k < at; k++)
        printf("  logit %d: %g, expected %g\n", (int)k, got->v[k], want->v[k]);
    for (int p = 0; p < r->g->n_params; p++) {
        int64_t n = shape_size(r->g->params[p].shape);
        Numbers a = {got->v + at, n, 0}, b = {want->v + at, n, 0};
        if (!(distance(&a, &b) < 1e-3))
            printf("  gradient of %s differs by %g\n", r->g->params[p].name, distance(&a, &b));
        at += n;
    }
}

// Blocks that keep what they have room for, small strips for every other choice, and regions that are one phase beside others.
static void
choose_sizes(Graph *g, int k)
{
    g->dear_flops = 1;
    g->keep_limit = 600;
    g->strip_rows = k % 2 ? 4 : INT64_MAX;
    g->strip_bytes = 64;
    g->group_bytes = k == 2 ? 4500 : 0;
}

static void
check_seed(int seed, int flags)
{
    const char *const choices[] = {"none", "none", seed % 2 ? "blocks" : "*", "sample"};
    static const int64_t chunks[] = {1, 2, PCVR_CHUNK_BATCH};
    Numbers first = {0};
    for (int k = 0; k < 4; k++) {
        RandomGraph r;
        random_graph(&r, (uint64_t)seed, flags);
        choose_sizes(r.g, k);
        assert_true(passes_run(&r, choices[k]));
        char name[64];
        snprintf(name, sizeof name, "random_%d_%d_%s", seed, k, k == 2 && seed % 2 == 0 ? "all" : choices[k]);
        const pcvr_module *m = build(&r, name);
        Numbers want = interpret(&r);
        for (int c = 0; c < 3; c++) {
            Numbers got = execute(&r, m, chunks[c]);
            double d = distance(&got, &want);
            if (!(d < 1e-3))
                show_difference(&r, &got, &want, d);
            assert_true(d < 1e-3);
            if (!first.v) {
                first = got;
                continue;
            }
            if (memcmp(first.v, got.v, (size_t)got.n * sizeof *got.v))
                printf("seed %d, %s, chunk %d: other bits\n", seed, choices[k], (int)chunks[c]);
            assert_memory_equal(first.v, got.v, (size_t)got.n * sizeof *got.v);
            free(got.v);
        }
        free(want.v);
        random_graph_free(&r);
    }
    free(first.v);
}

static int
number(const char *name, int otherwise)
{
    const char *v = getenv(name);
    return v && *v ? atoi(v) : otherwise;
}

static void
test_seeds(void **state)
{
    (void)state;
    int first = number("PCVR_FIRST", 3), n = number("PCVR_SEEDS", 2);
    setenv("PCVR_CFLAGS", "-O1", 0);
    for (int k = 0; k < n; k++)
        check_seed(first + k, 0);
    printf("%d statements in strips, %d loops with several results\n", in_strips,
           several);
    assert_true(n > 0 && in_strips > 0 && several > 0);
}

static void
test_columns(void **state)
{
    (void)state;
    joined = 0;
    check_seed(154, RANDOM_COLUMNS);
    printf("products of columns: %d by weights, %d into sums\n", of_columns, column_sums);
    assert_true(of_columns > 0 && column_sums > 0 && joined > 0);
}

// What others read is not changed where it stands.
static void
test_places(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        check_seed(40 + k, RANDOM_PLACES);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seeds),
                                       cmocka_unit_test(test_columns),
                                       cmocka_unit_test(test_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test_models_random.c - the seven models on seeded random schemas and configurations, in
// double precision.
//
// For each case: elaboration gives a graph or a fault at a place; gradients agree with
// differences of the logits along random directions, dropout on; padding may hold
// anything; the passes keep logits and gradients; none, blocks and sample agree in every
// bit. At the end every listed branch and every value of a listed field must have been
// taken.
//
// PCVR_SEEDS=N runs N seeds a model from PCVR_FIRST (else 1) on, PCVR_CASE=dualq/17 one case.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "model_case.h"
#include "random_model.h"

// Sanitizers make the interpreter slow: with them a few cases must do.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { N_SEEDS = 8, ALL_BRANCHES = 0 };
#else
enum { N_SEEDS = 40, ALL_BRANCHES = 1 };
#endif
enum { MAX_SEEN = 4000, N_DIRECTIONS = 5 };

// ---- what was taken ---------------------------------------------------------------

static struct {
    char *text[MAX_SEEN];
    int n;
} seen;

static bool
is_seen(const char *text)
{
    for (int k = 0; k < seen.n; k++)
        if (strcmp(seen.text[k], text) == 0)
            return true;
    return false;
}

static void
see(const char *model, const char *what, const char *value)
{
    char text[512];
    snprintf(text, sizeof text, "%s %s%s%s", model, what, *value ? " = " : "", value);
    if (!is_seen(text) && seen.n < MAX_SEEN)
        seen.text[seen.n++] = strdup(text);
}

static void
see_fields(const RandomModel *r, const json_t *o, const char *prefix)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)o, key, v)
    {
        char name[128];
        snprintf(name, sizeof name, "%s%s", prefix, key);
        if (json_is_object(v) && !*prefix) {
            snprintf(name, sizeof name, "%s.", key);
            see_fields(r, v, name);
            continue;
        }
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
        see(r->model, name, strlen(text) < 200 ? text : "long");
        free(text);
    }
}

static void
see_case(const RandomModel *r)
{
    json_t *config = config_json(r->c.config);
    see_fields(r, config, "");
    json_decref(config);
    for (int k = 0; k < r->n_labels; k++)
        see(r->model, r->label[k], "");
}

// ---- numbers of a case ------------------------------------------------------------

// Logits of all samples, then the gradients of all parameters.
typedef struct Numbers {
    double *v;
    int64_t n, n_logits;
} Numbers;

static void
add_numbers(Numbers *x, const double *v, int64_t n)
{
    x->v = realloc(x->v, (size_t)(x->n + n + 1) * sizeof *x->v);
    for (int64_t k = 0; k < n; k++)
        x->v[x->n++] = v != NULL ? v[k] : 0.0;
}

static Numbers
evaluate(const RandomModel *r, bool exact)
{
    Numbers x = {0};
    const Graph *g = r->c.graph;
    Interp *it = random_model_interp(r);
    if (exact)
        interp_exact_constants(it);
    for (int64_t s = 0; s < RM_SAMPLES; s++) {
        interp_sample(it, &r->batch, s);
        interp_run(it, (Node *const *)&g->logits, 1);
        add_numbers(&x, interp_value(it, g->logits)->f, r->actions);
        interp_dlogits(it, r->dlogits + s * r->actions);
        interp_backward(it);
    }
    x.n_logits = x.n;
    for (int k = 0; k < g->n_params; k++)
        add_numbers(&x, interp_grad(it, k), shape_size(g->params[k].shape));
    interp_free(it);
    return x;
}

static bool
near(const Numbers *a, const Numbers *b, double limit)
{
    double scale = 1e-6;
    for (int64_t k = b->n_logits; k < b->n; k++)
        scale = fmax(scale, fabs(b->v[k]));
    for (int64_t k = 0; k < a->n; k++) {
        double bound = k < a->n_logits ? fmax(1.0, fabs(b->v[k])) : scale;
        if (!(fabs(a->v[k] - b->v[k]) <= limit * bound))
            return false;
    }
    return a->n == b->n;
}

// ---- gradients against differences ------------------------------------------------

// A direction in the space of one parameter, or of all: each element of it between -1 and
// 1.
typedef struct Direction {
    int only; // -1: all parameters
    double **v;
} Direction;

static double
value_along(const RandomModel *r, Interp *it, const Direction *d, double **room, double h)
{
    const Graph *g = r->c.graph;
    double sum = 0.0;
    for (int p = 0; p < g->n_params; p++) {
        if (d->only >= 0 && p != d->only)
            continue;
        for (int64_t k = 0; k < shape_size(g->params[p].shape); k++)
            room[p][k] = (double)r->params[p][k] + h * d->v[p][k];
        interp_param_f64(it, p, room[p]);
    }
    for (int64_t s = 0; s < RM_SAMPLES; s++) {
        interp_sample(it, &r->batch, s);
        interp_run(it, (Node *const *)&g->logits, 1);
        for (int64_t a = 0; a < r->actions; a++)
            sum += interp_value(it, g->logits)->f[a] * r->dlogits[s * r->actions + a];
    }
    if (d->only >= 0)
        interp_param_f32(it, d->only, r->params[d->only]);
    return sum;
}

// Central differences with two steps; a kink or rounding upsets at most one of them.
static bool
agrees(const RandomModel *r, Interp *it, const Numbers *x, const Direction *d,
       double **room)
{
    const Graph *g = r->c.graph;
    double slope = 0.0, size = 0.0, best = INFINITY, found = 0.0;
    int64_t at = x->n_logits;
    for (int p = 0; p < g->n_params; p++)
        for (int64_t k = 0; k < shape_size(g->params[p].shape); k++, at++)
            if (d->only < 0 || d->only == p) {
                slope += x->v[at] * d->v[p][k];
                size += fabs(x->v[at]);
            }
    for (double h = 1e-4; h > 5e-6; h /= 10.0) {
        double fd = (value_along(r, it, d, room, h) - value_along(r, it, d, room, -h)) /
                    (2.0 * h);
        if (fabs(fd - slope) < best) {
            best = fabs(fd - slope);
            found = fd;
        }
    }
    if (best <= 1e-5 * fmax(size, 1e-3))
        return true;
    printf("%s: expected %.12g, found %.12g\n",
           d->only < 0 ? "all" : g->params[d->only].name, found, slope);
    return false;
}

static bool
check_differences(RandomModel *r, const Numbers *x)
{
    const Graph *g = r->c.graph;
    Interp *it = random_model_interp(r);
    Direction d = {0, arena_array(&r->c.mem.perm, double *, g->n_params + 1)};
    double **room = arena_array(&r->c.mem.perm, double *, g->n_params + 1);
    for (int p = 0; p < g->n_params; p++) {
        int64_t n = shape_size(g->params[p].shape);
        room[p] = arena_array(&r->c.mem.perm, double, n + 1);
        d.v[p] = arena_array(&r->c.mem.perm, double, n + 1);
        for (int64_t k = 0; k < n; k++)
            d.v[p][k] = rm_real(r);
    }
    bool ok = true;
    for (int k = 0; k < N_DIRECTIONS && ok; k++) {
        d.only = (int)rm_int(r, 0, g->n_params - 1);
        ok = agrees(r, it, x, &d, room);
    }
    d.only = -1;
    ok = ok && agrees(r, it, x, &d, room);
    interp_free(it);
    return ok;
}

// ---- the checks of a case ---------------------------------------------------------

static Numbers
after_passes(const char *model, uint64_t seed, const char *choice, bool *ok)
{
    RandomModel r;
    Numbers x = {0};
    random_model(&r, model, seed);
    *ok = r.c.graph != NULL;
    if (*ok) {
        random_model_batch(&r);
        *ok = compile_passes(&r.c, choice, true, NULL, NULL) == 0;
    }
    if (*ok)
        x = evaluate(&r, true);
    else
        diag_print(&r.c.diag, stdout);
    random_model_free(&r);
    return x;
}

static bool
check_passes(const char *model, uint64_t seed, const Numbers *plain)
{
    static const char *const choices[] = {"none", "blocks", "*", "sample"};
    Numbers none = {0};
    bool good = true;
    for (int c = 0; c < 4; c++) {
        bool ok;
        Numbers x = after_passes(model, seed, choices[c], &ok);
        ok = ok && (c == 0 ? near(&x, plain, 1e-9)
                           : x.n == none.n &&
                                 memcmp(x.v, none.v, (size_t)x.n * sizeof *x.v) == 0);
        if (!ok)
            printf("numbers differ with %s\n", choices[c]);
        good = good && ok;
        if (c == 0)
            none = x;
        else
            free(x.v);
    }
    free(none.v);
    return good;
}

// Padding says nothing where the models let none of it through.
static bool
check_padding(RandomModel *r, const Numbers *x)
{
    if (!rm_padding_is_silent(r))
        return true;
    see(r->model, "padding overwritten", "");
    rm_overwrite_padding(r);
    Numbers y = evaluate(r, true);
    bool ok = y.n == x->n && memcmp(y.v, x->v, (size_t)x->n * sizeof *x->v) == 0;
    if (!ok)
        printf("padding changes numbers\n");
    free(y.v);
    return ok;
}

// A refusal is a fault of the configuration, at a place.
static bool
is_refusal(const RandomModel *r)
{
    bool ok = r->c.diag.errors == 1;
    if (!ok || getenv("PCVR_CASE") || getenv("PCVR_SHOW"))
        diag_print(&r->c.diag, stdout);
    return ok;
}

static bool
check_case(const char *model, uint64_t seed, int *refused)
{
    RandomModel r;
    random_model(&r, model, seed);
    bool ok = true;
    if (!r.c.graph) {
        ++*refused;
        ok = is_refusal(&r);
    } else {
        see_case(&r);
        random_model_batch(&r);
        ok = differentiate(r.c.graph);
        Numbers x = ok ? evaluate(&r, false) : (Numbers){0};
        ok = ok && check_differences(&r, &x);
        free(x.v);
        x = evaluate(&r, true);
        ok = ok && check_padding(&r, &x) && check_passes(model, seed, &x);
        free(x.v);
    }
    if (!ok || getenv("PCVR_CASE")) {
        char *schema = json_dumps(r.schema_json, 0),
             *config = json_dumps(r.config_json, 0);
        printf("%s%s/%d\n%s\n%s\n", ok ? "" : "FAIL ", model, (int)seed, schema, config);
        free(schema);
        free(config);
    }
    random_model_free(&r);
    return ok;
}

static void
check_model(const char *model)
{
    const char *only = getenv("PCVR_CASE"), *seeds = getenv("PCVR_SEEDS"),
               *from = getenv("PCVR_FIRST");
    int bad = 0, refused = 0, n = seeds ? atoi(seeds) : N_SEEDS,
        start = from ? atoi(from) : 1;
    for (int seed = start; seed < start + n; seed++) {
        char name[64];
        snprintf(name, sizeof name, "%s/%d", model, seed);
        if (!only || strcmp(only, name) == 0)
            bad += !check_case(model, (uint64_t)seed, &refused);
    }
    printf("%s: %d cases, %d refused, %d bad\n", model, n, refused, bad);
    assert_int_equal(bad, 0);
    assert_true(only || refused * 4 <= n);
}

// ---- what must have been taken ----------------------------------------------------

// Branches that no single field tells, by model; "*" for all seven.
static const struct {
    const char *model, *labels[16];
} wanted[] = {
    {"*",
     {"one domain", "several domains", "max_len 1", "no user dense", "no item dense",
      "dense on both sides", "length above top_k", "length up to top_k",
      "domain without a feature", "padding overwritten"}},
    {"baseline",
     {"longer above top_k", "longer up to top_k, causal", "empty group map",
      "empty group", "token count differs from the groups", "odd head width under RoPE"}},
    {"dualq",
     {"longer above top_k", "pair by softmax", "pair by share", "no pair feature",
      "user dense split", "user dense whole", "fid 129 in two tokens", "fid 129 whole",
      "domains interleaved", "ratio views", "odd head width under RoPE"}},
    {"interformer",
     {"empty group", "empty group map", "token count differs from the groups",
      "heads lowered"}},
    {"onetrans",
     {"empty group", "empty group map", "token count differs from the groups",
      "heads lowered", "no domain"}},
    {"queryformer",
     {"empty group", "empty group map", "token count differs from the groups",
      "heads lowered"}},
    {"symbiosis",
     {"empty group", "empty group map", "heads lowered", "no domain", "memory uniform",
      "memory stratified", "memory by quality", "memory of v2"}},
    {"tokenformer", {"heads lowered", "no domain"}},
};

static int
missing(const char *model, const char *what, const char *value)
{
    char text[512];
    snprintf(text, sizeof text, "%s %s%s%s", model, what, *value ? " = " : "", value);
    if (is_seen(text))
        return 0;
    printf("never taken: %s\n", text);
    return 1;
}

static bool
has_two_values(const char *model, const char *name)
{
    char start[256];
    int n = 0;
    snprintf(start, sizeof start, "%s %s = ", model, name);
    for (int k = 0; k < seen.n; k++)
        n += strncmp(seen.text[k], start, strlen(start)) == 0;
    return n > 1;
}

// Both values of a switch, every word of a list, two values of anything else.
static int
missing_values(const char *model, const Decl *d)
{
    char word[256];
    int n = 0;
    if (d->type->kind == AST_TYPE && strcmp(d->type->text, "bool") == 0)
        return missing(model, d->name, "true") + missing(model, d->name, "false");
    if (d->allowed && d->allowed->kind == AST_LIST) {
        for (int k = 0; k < d->allowed->n; k++) {
            snprintf(word, sizeof word, "\"%s\"", d->allowed->kids[k]->text);
            n += missing(model, d->name, word);
        }
        return n;
    }
    if (has_two_values(model, d->name))
        return 0;
    printf("one value only: %s %s\n", model, d->name);
    return 1;
}

static int
missing_of(const char *model)
{
    Compile c;
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "models/%s.pcvr", model);
    assert_int_equal(compile_open(&c, path, NULL, 0), 0);
    for (int k = 0; k < c.program->decls.n; k++)
        if (c.program->decls.v[k].kind == DECL_CONFIG)
            n += missing_values(model, &c.program->decls.v[k]);
    compile_close(&c);
    for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++)
        for (int k = 0; wanted[w].labels[k]; k++)
            if (strcmp(wanted[w].model, model) == 0 || strcmp(wanted[w].model, "*") == 0)
                n += missing(model, wanted[w].labels[k], "");
    return n;
}

static void
test_branches(void **state)
{
    (void)state;
    int n = 0;
    if (!ALL_BRANCHES || getenv("PCVR_CASE") || getenv("PCVR_SEEDS"))
        skip();
    for (size_t m = 0; m < sizeof model_names / sizeof *model_names; m++)
        n += missing_of(model_names[m]);
    assert_int_equal(n, 0);
}

#define MODEL_TEST(NAME)                                                                 \
    static void test_##NAME(void **state)                                                \
    {                                                                                    \
        (void)state;                                                                     \
        check_model(#NAME);                                                              \
    }
MODEL_TEST(baseline)
MODEL_TEST(dualq)
MODEL_TEST(interformer)
MODEL_TEST(onetrans)
MODEL_TEST(queryformer)
MODEL_TEST(symbiosis)
MODEL_TEST(tokenformer)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_baseline),    cmocka_unit_test(test_dualq),
        cmocka_unit_test(test_interformer), cmocka_unit_test(test_onetrans),
        cmocka_unit_test(test_queryformer), cmocka_unit_test(test_symbiosis),
        cmocka_unit_test(test_tokenformer), cmocka_unit_test(test_branches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

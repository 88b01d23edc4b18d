// test_absorb.c - attention of few queries on the input of its key and value layers: where the pass takes the
// layers in and where not, and that nothing changes but rounding.
//
// Random graphs of one or two attentions (absorb_case.h): the interpreter before and after the pass, logits and
// gradients; then compiled modules, near the interpreter of the graph as it was and bit for bit equal over
// checkpoint choices and chunks.
//
// PCVR_SEEDS=N interprets N graphs (default 1500), PCVR_FIRST=K starts at seed K (1).

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "absorb_case.h"
#include "tile_case.h"
#include "tile.h"

enum { N_GRAPHS = 1500 };

// ---- what the pass did ---------------------------------------------------------------------------------

static const Node *
attention(const Graph *g, int number)
{
    const char *name = number ? "blocks.1" : "blocks.0";
    const Node *found = NULL;
    for (int k = 0; k < g->n_nodes; k++) {
        const Node *n = g->nodes[k];
        if (n->op == OP_ATTEND && n->part == PART_FORWARD && n->call && strcmp(n->call->name, name) == 0) {
            assert_null(found);
            found = n;
        }
    }
    assert_non_null(found);
    return found;
}

static const Node *
rows_of_layer(const Node *y)
{
    for (int k = 0; y->op == OP_ADD && k < 2; k++)
        if (y->in[k]->op == OP_MATMUL)
            return y->in[k]->in[0];
    assert_int_equal(y->op, OP_MATMUL);
    return y->in[0];
}

// Products of all rows of x.
static int
products_of(const Graph *g, const Node *x)
{
    int n = 0;
    for (int k = 0; k < g->n_nodes; k++)
        n += g->nodes[k]->op == OP_MATMUL && g->nodes[k]->in[0] == x;
    return n;
}

// Products that read a parameter as it is.
static int
products_by(const Graph *g, int param)
{
    int n = 0;
    for (int k = 0; k < g->n_nodes; k++) {
        const Node *m = g->nodes[k];
        n += m->op == OP_MATMUL && m->in[1]->op == OP_PARAM && m->in[1]->a.index == param;
    }
    return n;
}

static void
check_absorbed(const Graph *g, const Node *n, const Spec *s, const Built *b)
{
    int64_t columns = s->width + (s->p > 0 ? 16 : 0);
    assert_int_equal(n->a.heads, 1);
    assert_ptr_equal(n->in[1], n->in[2]);
    assert_true(shape_equal(n->shape, led(s, s->H * s->T, columns)));
    assert_true(shape_equal(n->in[1]->shape, led(s, s->S, columns)));
    assert_int_equal(n->a.k_first, s->k_first);
    for (int k = 0; k < 2; k++)
        assert_int_equal(products_by(g, b->weight[k]), 0);
}

static void
check_left(const Graph *g, const Node *n, const Spec *s, const Built *b)
{
    assert_int_equal(n->a.heads, s->H);
    assert_true(shape_equal(n->shape, led(s, s->T, s->D)));
    assert_true((n->in[1] == n->in[2]) == (s->why == SAME));
    for (int k = 0; k < (s->why == SAME ? 1 : 2); k++)
        assert_int_equal(products_by(g, b->weight[k]), 1);
}

static char *
graph_text(const Graph *g)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    graph_print(g, f);
    fclose(f);
    return text;
}

// Runs the pass; each attention is as the rule says.
static void
run_absorb(Case *c)
{
    Graph *g = c->r.g;
    const Node *rows[MOST];
    int products[MOST], absorbed = 0;
    for (int k = 0; k < c->n; k++) {
        rows[k] = rows_of_layer(attention(g, k)->in[1]);
        products[k] = products_of(g, rows[k]);
    }
    char *before = graph_text(g);
    assert_true(absorb(g));
    for (int k = 0; k < c->n; k++) {
        const Node *n = attention(g, k);
        if (!expected(&c->spec[k])) {
            check_left(g, n, &c->spec[k], &c->built[k]);
            continue;
        }
        check_absorbed(g, n, &c->spec[k], &c->built[k]);
        absorbed++;
        for (int m = 0; m < c->n; m++)
            products[k] -= 2 * (expected(&c->spec[m]) && rows[m] == rows[k]);
        assert_int_equal(products_of(g, c->spec[k].p > 0 ? n->in[1]->in[0] : n->in[1]), products[k]);
    }
    char *after = graph_text(g);
    assert_true((strcmp(before, after) == 0) == (absorbed == 0));
    free(before);
    free(after);
}

static void
run_passes(Case *c, const char *choice, bool on)
{
    Graph *g = c->r.g;
    g->checkpoint = choice;
    assert_true(simplify(g) && prune(g));
    if (on)
        run_absorb(c);
    assert_true(differentiate(g) && checkpoint(g) && sweep(g));
}

// ---- values --------------------------------------------------------------------------------------------

// Logits of all samples, then every gradient, tables made dense.
typedef struct Numbers {
    double *v;
    int64_t n;
    int empty[MOST]; // queries that see no key
} Numbers;

enum { N_LOGITS = RG_SAMPLES * RG_ACTIONS };

static Numbers
numbers_new(const RandomGraph *r)
{
    Numbers x = {.n = N_LOGITS};
    for (int p = 0; p < r->g->n_params; p++)
        x.n += shape_size(r->g->params[p].shape);
    x.v = calloc((size_t)x.n, sizeof *x.v);
    assert_non_null(x.v);
    return x;
}

// Of an attention as written, from its stats.
static int
count_empty(Interp *it, const Graph *g, const Node *attend)
{
    int empty = 0;
    for (int k = 0; k < g->n_nodes; k++) {
        Node *n = g->nodes[k];
        if (n->op != OP_PART || n->in[0] != attend)
            continue;
        interp_run(it, &n, 1);
        int64_t each = attend->a.heads * n->shape.dim[n->shape.rank - 1];
        for (int64_t i = 0; i < shape_size(n->shape); i++)
            empty += i / each % 2 == 1 && interp_value(it, n)->f[i] == 0;
    }
    return empty;
}

static Numbers
interpret(const Case *c, bool training, bool exact)
{
    const RandomGraph *r = &c->r;
    Numbers x = numbers_new(r);
    Interp *it = random_interp(r);
    interp_chance(it, training, 11, 2);
    if (exact)
        interp_exact_constants(it);
    for (int s = 0; s < RG_SAMPLES; s++) {
        interp_sample(it, &r->batch, s);
        interp_run(it, &r->g->logits, 1);
        memcpy(x.v + s * RG_ACTIONS, interp_value(it, r->g->logits)->f, RG_ACTIONS * sizeof *x.v);
        interp_dlogits(it, random_dlogits);
        interp_backward(it);
        for (int k = 0; k < c->n; k++)
            x.empty[k] += count_empty(it, r->g, attention(r->g, k));
    }
    double *at = x.v + N_LOGITS;
    for (int p = 0; p < r->g->n_params; p++) {
        int64_t n = shape_size(r->g->params[p].shape);
        if (interp_grad(it, p))
            memcpy(at, interp_grad(it, p), (size_t)n * sizeof *at);
        at += n;
    }
    interp_free(it);
    return x;
}

static double
largest(const double *v, int64_t n)
{
    double most = 0;
    for (int64_t k = 0; k < n; k++)
        most = fabs(v[k]) <= most ? most : fabs(v[k]);
    return most;
}

// Whether the keys of an attention that was taken in have this bias.
static bool
is_key_bias(const Case *c, int param)
{
    bool is = false;
    for (int k = 0; k < c->n; k++)
        is = is || (expected(&c->spec[k]) && c->built[k].bias[KEY] == param);
    return is;
}

static void
check_equal(int seed, const char *name, const double *got, const double *want, int64_t n, double bound)
{
    for (int64_t k = 0; k < n; k++)
        if (!(fabs(got[k] - want[k]) <= bound))
            fail_msg("graph %d: element %d of %s is %.17g, expected %.17g", seed, (int)k, name, got[k], want[k]);
}

// Each tensor to 1e-9 of its largest number, up to what rounding leaves of nothing.
static void
compare(const Case *c, int seed, const Numbers *got, const Numbers *want)
{
    double most = largest(want->v + N_LOGITS, want->n - N_LOGITS);
    const double *g = got->v + N_LOGITS, *w = want->v + N_LOGITS;
    assert_int_equal(got->n, want->n);
    assert_true(most > 0 && isfinite(most));
    check_equal(seed, "logits", got->v, want->v, N_LOGITS, 1e-9 * largest(want->v, N_LOGITS));
    for (int p = 0; p < c->r.g->n_params; p++) {
        const Param *q = &c->r.g->params[p];
        int64_t n = shape_size(q->shape);
        if (is_key_bias(c, p)) { // was rounding, is nothing
            assert_true(largest(w, n) <= 1e-12 * most);
            assert_true(largest(g, n) == 0);
        } else {
            check_equal(seed, q->name, g, w, n, 1e-9 * largest(w, n) + 1e-13 * most);
        }
        g += n;
        w += n;
    }
}

// ---- tests ---------------------------------------------------------------------------------------------

// How often what is absorbed has what it could be wrong about, and how often each reason not to occurs.
typedef struct Tally {
    int absorbed, led[3], tb[2][2], bias[2][N_BIAS], drop, still, with_i, tensors, cut, second;
    int empty[2], bias_empty[2]; // without and with dropout
    int left[N_WHY];             // NOTHING: no gain; others: of those that would gain
} Tally;

static void
count(Tally *t, const Spec *s, const Built *b, int number, int empty, bool training)
{
    if (!expected(s)) {
        t->left[s->why] += s->why == NOTHING || gains(s);
        return;
    }
    bool drops = s->p > 0;
    t->absorbed++;
    t->led[s->n_lead]++;
    for (int k = 0; k < 2; k++) {
        t->tb[k][s->tb[k]]++;
        t->bias[k][s->bias[k]]++;
    }
    t->drop += drops && training;
    t->still += drops && !training;
    t->with_i += b->with_i && s->H > 1 && s->T > 1;
    t->tensors += s->closed == MIXED;
    t->cut += s->k_first > 0;
    t->second += number > 0;
    t->empty[drops] += empty > 0;
    t->bias_empty[drops] += empty > 0 && s->bias[VALUE] != NO_BIAS;
}

static void
check_tally(const Tally *t, int n)
{
    int some = n / 30; // what a graph has by chance
    printf("%d absorbed, %d with dropout, %d with i, %d with empty queries, %d without gain\n", t->absorbed,
           t->drop, t->with_i, t->empty[0] + t->empty[1], t->left[NOTHING]);
    assert_true(t->absorbed > n / 3 && t->left[NOTHING] > n / 8);
    for (int k = 0; k < 3; k++)
        assert_true(t->led[k] > some);
    for (int k = 0; k < 4; k++)
        assert_true(t->tb[k / 2][k % 2] > n / 8);
    for (int k = 0; k < 2 * N_BIAS; k++)
        assert_true(t->bias[k / N_BIAS][k % N_BIAS] > some);
    assert_true(t->drop > some && t->still > n / 100);
    assert_true(t->with_i > some && t->tensors > some && t->cut > some && t->second > some);
    for (int k = 0; k < 2; k++)
        assert_true(t->empty[k] > some && t->bias_empty[k] > some);
    for (int k = 1; k < N_WHY; k++)
        assert_true(t->left[k] >= n / 300);
}

static int
number(const char *name, int otherwise)
{
    const char *v = getenv(name);
    return v && *v ? atoi(v) : otherwise;
}

static void
interpreted(void **state)
{
    (void)state;
    static const char *const choices[] = {"none", "blocks", "*", "sample"};
    Tally tally = {0};
    int n = number("PCVR_SEEDS", N_GRAPHS), first = number("PCVR_FIRST", 1);
    for (int seed = first; seed < first + n; seed++) {
        bool training = seed % 4 != 0;
        Case before, after;
        case_random(&before, (uint64_t)seed);
        case_random(&after, (uint64_t)seed);
        run_passes(&before, "none", false);
        run_passes(&after, choices[seed % 4], true);
        Numbers want = interpret(&before, training, true), got = interpret(&after, training, true);
        compare(&after, seed, &got, &want);
        for (int k = 0; k < after.n; k++)
            count(&tally, &after.spec[k], &after.built[k], k, want.empty[k], training);
        free(want.v);
        free(got.v);
        case_free(&before);
        case_free(&after);
    }
    if (n >= N_GRAPHS)
        check_tally(&tally, n);
}

static void
fixed_loss(void *arg, int64_t first, int64_t n, const float *logits, float *dlogits)
{
    (void)arg, (void)logits;
    for (int64_t k = first * RG_ACTIONS; k < (first + n) * RG_ACTIONS; k++)
        dlogits[k] = (float)random_dlogits[k % RG_ACTIONS];
}

static void
add_gradients(const RandomGraph *r, pcvr_runner *run, double *at)
{
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
}

static Numbers
execute(const RandomGraph *r, const pcvr_module *m, int64_t chunk)
{
    Numbers x = numbers_new(r);
    pcvr_options o = {.lanes = 2, .threads = 1, .chunk = chunk};
    pcvr_runner *run = NULL;
    char err[1024] = "";
    float logits[N_LOGITS];
    if (pcvr_runner_new(m, RG_SAMPLES, &o, &run, err, sizeof err) != PCVR_OK)
        fail_msg("%s", err);
    for (int p = 0; p < r->g->n_params; p++) {
        const Param *q = &r->g->params[p];
        int64_t n = shape_size(q->shape), skip = q->padding ? n / q->shape.dim[0] : 0;
        memset(pcvr_runner_param(run, p), 0, (size_t)skip * sizeof(float));
        memcpy(pcvr_runner_param(run, p) + skip, r->params[p] + skip, (size_t)(n - skip) * sizeof(float));
    }
    pcvr_runner_prepare(run);
    for (int k = 0; k < 2; k++) // the second step finds what the first left
        assert_int_equal(pcvr_runner_step(run, &r->batch, fixed_loss, NULL, false, true, 11, 2, logits), PCVR_OK);
    for (int k = 0; k < N_LOGITS; k++)
        x.v[k] = (double)logits[k];
    add_gradients(r, run, x.v + N_LOGITS);
    assert_null(pcvr_runner_overrun(run));
    pcvr_runner_free(run);
    return x;
}

static const pcvr_module *
compile(RandomGraph *r, const char *name)
{
    Tiles *t = schedule(r->g);
    assert_true(weights_lie_in_rows(t));
    plan(t);
    char domain[] = "seq_a", err[4096] = "";
    SchemaDomain d = {.name = domain, .n_sides = RG_F, .max_len = RG_L};
    Schema schema = {.user_int = {.width = RG_INTS}, .user_dense = {.width = RG_DENSE}, .domains = &d, .n_domains = 1};
    EmitOptions o = {.name = name, .config = "{}", .compiler = "test", .schema = &schema};
    const pcvr_module *m = NULL;
    if (pcvr_module_build(emit_c(t, &o), module_symbol(&r->mem, name), pcvr_isa_choose(err, sizeof err), &m, err,
                          sizeof err))
        fail_msg("%s", err);
    return m;
}

// The largest difference over 1 plus the size of the numbers; infinite for NaN.
static double
distance(const Numbers *a, const Numbers *b)
{
    double worst = 0;
    assert_int_equal(a->n, b->n);
    for (int64_t k = 0; k < a->n; k++) {
        double d = fabs(a->v[k] - b->v[k]) / (1 + fabs(b->v[k]));
        if (!(d <= worst))
            worst = isnan(d) ? (double)INFINITY : d;
    }
    return worst;
}

// Pairs of attentions that gain: the second is of the first's results.
static const Spec compiled_specs[][MOST] = {
    {// matrices; keys that were pruned
     {.width = 24, .S = 7, .T = 2, .H = 4, .D = 48, .tb = {true, false}, .bias = {FLAT_BIAS, FLAT_BIAS},
      .closed = PADDED, .rows = 1, .queries = 1},
     {.width = 24, .S = 9, .T = 2, .H = 2, .D = 48, .tb = {false, true}, .bias = {FLAT_BIAS, ROW_BIAS}, .p = 0.3,
      .closed = MIXED, .k_first = 2, .k_rows = 12}},
    {// a weight for each column, no round width, and then so many queries that masks may be rows of bits
     {.n_lead = 1, .lead = {3}, .width = 13, .S = 5, .T = 4, .H = 2, .D = 64, .tb = {true, true},
      .bias = {LED_BIAS, LED_BIAS}, .p = 0.25, .closed = PADDED, .rows = 1, .q_rows = 4},
     {.n_lead = 1, .lead = {3}, .width = 13, .S = 5, .T = 4, .H = 8, .D = 64, .tb = {false, true},
      .bias = {NO_BIAS, FLAT_BIAS}, .closed = MIXED}},
    {// no key at all, and two leading axes
     {.n_lead = 2, .lead = {2, 2}, .width = 16, .S = 6, .T = 2, .H = 2, .D = 24, .tb = {false, false},
      .bias = {FLAT_BIAS, LED_BIAS}, .closed = SHUT, .rows = 2, .queries = 1},
     {.n_lead = 2, .lead = {2, 2}, .width = 16, .S = 8, .T = 2, .H = 1, .D = 24, .tb = {true, false},
      .bias = {NO_BIAS, FLAT_BIAS}, .p = 0.5, .closed = SHUT}},
};
enum { N_COMPILED = sizeof compiled_specs / sizeof *compiled_specs };

static void
case_compiled(Case *c, int number)
{
    case_begin(c, (uint64_t)number + 1);
    c->n = MOST;
    for (int k = 0; k < MOST; k++) {
        c->spec[k] = compiled_specs[number][k];
        assert_true(expected(&c->spec[k]));
    }
    case_build(c);
    for (int k = 0; k < MOST; k++)
        assert_true(c->built[k].with_i == (c->spec[k].closed == MIXED));
    static const int64_t lengths[RG_SAMPLES] = {RG_L, 0, 3}; // all keys, none, some
    ((pcvr_domain *)(uintptr_t)c->r.batch.domains)->lengths = lengths;
}

static void
check_compiled(int number)
{
    static const char *const choices[] = {"none", "blocks", "*", "sample"};
    static const int64_t chunks[] = {1, 2, PCVR_CHUNK_BATCH};
    Case plain;
    case_compiled(&plain, number);
    run_passes(&plain, "none", false);
    Numbers want = interpret(&plain, true, false), first = {0};
    assert_true(plain.spec[0].closed == SHUT || want.empty[0] + want.empty[1] > 0);
    for (int k = 0; k < 4; k++) {
        Case c;
        case_compiled(&c, number);
        run_passes(&c, choices[k], true);
        const pcvr_module *m = compile(&c.r, arena_printf(&c.r.mem.perm, "absorb_%d_%d", number, k));
        for (int i = 0; i < 3; i++) {
            Numbers got = execute(&c.r, m, chunks[i]);
            if (!(distance(&got, &want) < 1e-4))
                fail_msg("case %d, %s: differs by %g", number, choices[k], distance(&got, &want));
            if (!first.v) {
                first = got;
                continue;
            }
            assert_memory_equal(first.v, got.v, (size_t)got.n * sizeof *got.v);
            free(got.v);
        }
        case_free(&c);
    }
    free(first.v);
    free(want.v);
    case_free(&plain);
}

static void
compiled(void **state)
{
    (void)state;
    const char *flags = getenv("PCVR_CFLAGS");
    if (!flags || !flags[strspn(flags, " ")])
        setenv("PCVR_CFLAGS", "-O1", 1);
    for (int k = 0; k < N_COMPILED; k++)
        check_compiled(k);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(interpreted), cmocka_unit_test(compiled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test_project.c - projected tables: what is projected and what not, and that nothing
// changes but rounding.
//
// Random linear layers on looked-up rows, with and without columns. The interpreter
// before and after the pass, forward and gradients; then compiled modules, bit for bit
// equal over checkpoint choices, chunks and threads, near the interpreter, with the norm
// that a table's own rows would have had.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interp.h"
#include "passes.h"
#include "pcvr.h"
#include "tile.h"

enum { L = 12, F = 4, SAMPLES = 5, ACTIONS = 2, HINT = 1000, VOCAB = 6 };

typedef struct Layer {
    Mem mem;
    Diag diag;
    Graph *g;
    uint64_t state;
    float **params;
    pcvr_batch batch;
    pcvr_domain domain;
} Layer;

static uint64_t
bits(Layer *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int
pick(Layer *r, int n)
{
    return (int)(bits(r) >> 33) % n;
}

static Node *
param(Layer *r, Shape s, bool table, bool padding)
{
    Param p = {.name = arena_printf(&r->mem.perm, "p%d", r->g->n_params),
               .shape = s,
               .init = INIT_UNIFORM,
               .table = table,
               .padding = padding};
    return graph_param_node(r->g, graph_param(r->g, p), (Place){0});
}

static Shape
shape(int rank, int64_t a, int64_t b, int64_t c)
{
    return shape_of(rank, (const int64_t[]){a, b, c});
}

static Node *
ids_of(Layer *r, int feature)
{
    Node *events =
        graph_input(r->g, IN_EVENTS, 0, "seq_a.events", DT_I64, shape(2, F, L, 0));
    return graph_reshape(r->g, graph_slice(r->g, events, 0, feature, 1, (Place){0}),
                         shape(1, L, 0, 0), (Place){0});
}

// Ids [columns, L]: 0, or one of VOCAB rows of each column; `stray` columns overlap.
static Node *
column_ids(Layer *r, Node *ids, int columns, bool stray)
{
    Graph *g = r->g;
    Place at = {0};
    Node *zero = graph_integer(g, 0, at);
    Node *x = graph_binary(g, OP_MIN2, graph_binary(g, OP_MAX2, ids, zero, at),
                           graph_integer(g, VOCAB + stray, at), at);
    x = graph_reshape(g, x, shape(2, 1, L, 0), at);
    Node *step = graph_binary(g, OP_MUL, graph_iota(g, columns, at),
                              graph_integer(g, VOCAB, at), at);
    step = graph_reshape(g, step, shape(2, columns, 1, 0), at);
    Node *moved = graph_binary(g, OP_ADD, x, step, at);
    return graph_select(g, graph_binary(g, OP_LT, zero, x, at), moved, zero, at);
}

// One layer; `tables` gets how many lookups it has. columns 0: a weight without columns.
static void
build_layer(Layer *r, uint64_t seed, int columns, bool stray, int *tables)
{
    *r = (Layer){.state = seed * 7919 + 3};
    mem_init(&r->mem);
    diag_init(&r->diag, &r->mem);
    Graph *g = r->g = graph_new(&r->mem, &r->diag);
    Place at = {0};
    int n = 1 + pick(r, F), width = 3 + pick(r, 20), total = 0;
    bool tb = pick(r, 2);
    Node *piece[F];
    *tables = 0;
    for (int k = 0; k < n; k++) {
        int depth = 5 + pick(r, 15); // deep enough to pay
        total += depth;
        Node *ids = ids_of(r, k);
        bool table = k == 0 || pick(r, 3) > 0, padding = columns > 0 || pick(r, 2);
        int64_t rows = columns ? 1 + columns * VOCAB : VOCAB + 1 - pick(r, 3);
        Node *e = param(r, shape(2, rows, depth, 0), true, padding);
        if (columns)
            ids = column_ids(r, ids, columns, stray);
        piece[k] = graph_add(g, OP_EMBED, (Node *[]){e, ids}, 2, (Attr){0}, at);
        if (!table) // not a lookup alone
            piece[k] = graph_unary(g, OP_TANH, piece[k], at);
        *tables += table;
    }
    int axis = columns ? 2 : 1;
    Node *x = graph_concat(g, piece, n, axis, at);
    g->call = graph_call(g, "block", NULL, at);
    Node *w = columns
                  ? param(r,
                          tb ? shape(3, columns, width, total)
                             : shape(3, columns, total, width),
                          false, false)
                  : param(r, tb ? shape(2, width, total, 0) : shape(2, total, width, 0),
                          false, false);
    Node *y = graph_matmul(g, x, w, false, tb, at);
    if (pick(r, 2))
        y = graph_binary(g, OP_ADD, y, param(r, shape(1, width, 0, 0), false, false), at);
    y = graph_unary(g, OP_TANH, y, at);
    g->call = NULL;
    static const int64_t axes[] = {0, 1};
    y = graph_reduce(g, OP_SUM, y, axes, axis, false, at);
    y = graph_reshape(g, graph_unary(g, OP_TANH, y, at), shape(2, 1, width, 0), at);
    y = graph_matmul(g, y, param(r, shape(2, width, ACTIONS, 0), false, false), false,
                     false, at);
    g->logits = graph_reshape(g, y, shape(1, ACTIONS, 0, 0), at);
    mark_unused(g);
    g->batch_hint = HINT;
    g->strip_rows = seed % 2 ? 4 : 0; // half of them in strips
    g->strip_bytes = seed % 2 ? 512 : 0;
    assert_int_equal(r->diag.errors, 0);
}

static int64_t *
numbers(Layer *r, int n, int limit)
{
    int64_t *v = arena_array(&r->mem.perm, int64_t, n);
    for (int k = 0; k < n; k++)
        v[k] = pick(r, limit) - 1; // some below and beyond the tables
    return v;
}

static void
fill(Layer *r)
{
    r->domain = (pcvr_domain){numbers(r, SAMPLES * F * L, VOCAB + 4),
                              numbers(r, SAMPLES, L), numbers(r, SAMPLES * L, 9)};
    r->batch = (pcvr_batch){.size = SAMPLES, .n_domains = 1, .domains = &r->domain};
    r->params = arena_array(&r->mem.perm, float *, r->g->n_params);
    for (int p = 0; p < r->g->n_params; p++) {
        const Param *q = &r->g->params[p];
        int64_t n = shape_size(q->shape), skip = q->padding ? n / q->shape.dim[0] : 0;
        r->params[p] = arena_array(&r->mem.perm, float, n);
        for (int64_t k = skip; k < n; k++)
            r->params[p][k] = (float)((double)(bits(r) >> 40) / 16777216.0 - 0.5);
    }
}

static int
count(const Graph *g, Op op)
{
    int n = 0;
    for (int k = 0; k < g->n_nodes; k++)
        n += g->nodes[k]->op == op;
    return n;
}

static int
projected_tables(const Graph *g)
{
    int n = 0;
    for (int k = 0; k < g->n_nodes; k++)
        if (g->nodes[k]->op == OP_PROJECTED)
            n += (g->nodes[k]->n_in - 1) / 2;
    return n;
}

// ---- values -------------------------------------------------------------------------

// Logits of all samples, then every gradient, tables made dense.
typedef struct Numbers {
    double *v;
    int64_t n;
} Numbers;

static Numbers
numbers_new(const Layer *r)
{
    Numbers x = {.n = SAMPLES * ACTIONS};
    for (int p = 0; p < r->g->n_params; p++)
        x.n += shape_size(r->g->params[p].shape);
    x.v = calloc((size_t)x.n, sizeof *x.v);
    assert_non_null(x.v);
    return x;
}

static const double dlogits_of[ACTIONS] = {0.7, -1.1};

static Numbers
interpret(const Layer *r)
{
    Numbers x = numbers_new(r);
    Interp *it = interp_new(r->g);
    for (int p = 0; p < r->g->n_params; p++)
        interp_param_f32(it, p, r->params[p]);
    for (int s = 0; s < SAMPLES; s++) {
        interp_sample(it, &r->batch, s);
        interp_run(it, &r->g->logits, 1);
        memcpy(x.v + s * ACTIONS, interp_value(it, r->g->logits)->f,
               ACTIONS * sizeof *x.v);
        interp_dlogits(it, dlogits_of);
        interp_backward(it);
    }
    double *at = x.v + SAMPLES * ACTIONS;
    for (int p = 0; p < r->g->n_params; p++) {
        int64_t n = shape_size(r->g->params[p].shape);
        if (interp_grad(it, p))
            memcpy(at, interp_grad(it, p), (size_t)n * sizeof *at);
        at += n;
    }
    interp_free(it);
    return x;
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

static void
fixed_loss(void *arg, int64_t first, int64_t n, const float *logits, float *dlogits)
{
    (void)arg, (void)logits;
    for (int64_t k = first * ACTIONS; k < (first + n) * ACTIONS; k++)
        dlogits[k] = (float)dlogits_of[k % ACTIONS];
}

// One step; the squares of all tables are added up.
static Numbers
execute(const Layer *r, const pcvr_module *m, int64_t chunk, int threads, bool norms,
        double *squares)
{
    Numbers x = numbers_new(r);
    pcvr_options o = {.lanes = 2, .threads = threads, .chunk = chunk, .norms = norms};
    pcvr_runner *run = NULL;
    char err[1024] = "";
    float logits[SAMPLES * ACTIONS];
    if (pcvr_runner_new(m, SAMPLES, &o, &run, err, sizeof err) != PCVR_OK)
        fail_msg("%s", err);
    for (int p = 0; p < r->g->n_params; p++)
        memcpy(pcvr_runner_param(run, p), r->params[p],
               (size_t)shape_size(r->g->params[p].shape) * sizeof(float));
    pcvr_runner_prepare(run);
    for (int k = 0; k < 2; k++) // the second step finds what the first left
        assert_int_equal(pcvr_runner_step(run, &r->batch, fixed_loss, NULL, false, true,
                                          11, 2, logits),
                         PCVR_OK);
    for (int k = 0; k < SAMPLES * ACTIONS; k++)
        x.v[k] = (double)logits[k];
    double *at = x.v + SAMPLES * ACTIONS;
    *squares = 0;
    for (int p = 0; p < r->g->n_params; p++) {
        int64_t n = shape_size(r->g->params[p].shape);
        const float *dense = pcvr_runner_grad(run, p);
        pcvr_sparse rows = pcvr_runner_rows(run, p);
        for (int64_t k = 0; dense && k < n; k++)
            at[k] = (double)dense[k];
        for (int64_t k = 0; k < rows.n; k++) {
            assert_true(k == 0 || rows.ids[k] > rows.ids[k - 1]);
            assert_true(rows.ids[k] > 0 || !r->g->params[p].padding);
            for (int64_t c = 0; c < rows.width; c++)
                at[rows.ids[k] * rows.width + c] =
                    (double)rows.values[k * rows.width + c];
        }
        *squares += rows.squares;
        at += n;
    }
    assert_null(pcvr_runner_overrun(run));
    assert_true(pcvr_runner_measured(run) <= pcvr_runner_plan(run)->planned_peak_bytes);
    pcvr_runner_free(run);
    return x;
}

static void
run_passes(Layer *r, const char *choice, bool on)
{
    r->g->checkpoint = choice;
    assert_true(simplify(r->g) && prune(r->g));
    assert_true(!on || project(r->g));
    assert_true(differentiate(r->g) && checkpoint(r->g) && sweep(r->g));
}

static const pcvr_module *
compile(Layer *r, const char *name)
{
    Tiles *t = schedule(r->g);
    plan(t);
    char domain[] = "seq_a", err[4096] = "";
    SchemaDomain d = {.name = domain, .n_sides = F, .max_len = L};
    Schema schema = {.domains = &d, .n_domains = 1};
    EmitOptions o = {.name = name, .config = "{}", .compiler = "test", .schema = &schema};
    const pcvr_module *m = NULL;
    if (pcvr_module_build(emit_c(t, &o), module_symbol(&r->mem, name),
                          pcvr_isa_choose(err, sizeof err), &m, err, sizeof err))
        fail_msg("%s", err);
    return m;
}

// ---- tests --------------------------------------------------------------------------

enum { N_LAYERS = 120 };

static void
interpreted(void **state)
{
    (void)state;
    int projected = 0, rests = 0;
    for (int seed = 1; seed <= N_LAYERS; seed++) {
        Layer before, after;
        int tables, columns = seed % 3 == 0 ? 3 : 0;
        build_layer(&before, (uint64_t)seed, columns, false, &tables);
        build_layer(&after, (uint64_t)seed, columns, false, &tables);
        fill(&before);
        fill(&after);
        run_passes(&before, "none", false);
        run_passes(&after, seed % 2 ? "*" : "blocks", true);
        assert_int_equal(count(before.g, OP_PROJECTED), 0);
        rests += count(after.g, OP_TAKE) > 0;
        assert_true(projected_tables(after.g) >= 1);
        projected += projected_tables(after.g);
        Numbers want = interpret(&before), got = interpret(&after);
        if (!(distance(&got, &want) < 1e-12))
            fail_msg("layer %d: differs by %g", seed, distance(&got, &want));
        free(want.v);
        free(got.v);
        mem_free(&before.mem);
        mem_free(&after.mem);
    }
    assert_true(projected > N_LAYERS && rests > N_LAYERS / 4);
}

static void
check_compiled(int seed, int columns)
{
    static const char *const choices[] = {"none", "*", "sample"};
    static const int64_t chunks[] = {1, 2, PCVR_CHUNK_BATCH};
    Numbers first = {0};
    double squares, plain_squares;
    Layer plain;
    int tables;
    char name[64];
    build_layer(&plain, (uint64_t)seed, columns, false, &tables);
    fill(&plain);
    run_passes(&plain, "none", false);
    snprintf(name, sizeof name, "plain_%d_%d", seed, columns);
    const pcvr_module *m = compile(&plain, name);
    Numbers want = interpret(&plain),
            as_is = execute(&plain, m, 1, 1, false, &plain_squares);
    assert_true(distance(&as_is, &want) < 1e-5);
    for (int k = 0; k < 9; k++) {
        Layer r;
        build_layer(&r, (uint64_t)seed, columns, false, &tables);
        fill(&r);
        run_passes(&r, choices[k / 3], true);
        snprintf(name, sizeof name, "project_%d_%d_%d", seed, columns, k / 3);
        m = compile(&r, name);
        assert_true(m->n_projections >= 1);
        Numbers got = execute(&r, m, chunks[k % 3], 1 + k % 2, true, &squares);
        if (!(distance(&got, &want) < 1e-5))
            fail_msg("layer %d: differs by %g", seed, distance(&got, &want));
        if (!(fabs(squares - plain_squares) <= 1e-5 * plain_squares))
            fail_msg("layer %d: squares are %g, expected %g", seed, squares,
                     plain_squares);
        if (!first.v) {
            first = got;
        } else {
            assert_memory_equal(first.v, got.v, (size_t)got.n * sizeof *got.v);
            free(got.v);
        }
        mem_free(&r.mem);
    }
    free(first.v);
    free(want.v);
    free(as_is.v);
    mem_free(&plain.mem);
}

static void
compiled(void **state)
{
    (void)state;
    setenv("PCVR_CFLAGS", "-O1", 0);
    for (int seed = 1; seed <= 2; seed++) {
        check_compiled(seed, 0);
        check_compiled(seed, 3);
    }
}

// Without norms the squares are no number that could be taken for them.
static void
squares_unasked(void **state)
{
    (void)state;
    setenv("PCVR_CFLAGS", "-O1", 0);
    Layer r;
    int tables;
    double squares;
    build_layer(&r, 1, 0, false, &tables);
    fill(&r);
    run_passes(&r, "none", true);
    Numbers x = execute(&r, compile(&r, "project_unasked"), 1, 1, false, &squares);
    assert_true(isnan(squares));
    free(x.v);
    mem_free(&r.mem);
}

static int
tables_projected(Layer *r)
{
    assert_true(simplify(r->g) && prune(r->g) && project(r->g));
    return projected_tables(r->g);
}

static void
left_alone(void **state)
{
    (void)state;
    for (int k = 0; k < 6; k++) {
        Layer r;
        int tables, want = 0;
        build_layer(&r, 4, k == 0 ? 3 : 0, k == 0,
                    &tables); // k 0: ids leave their columns
        if (k == 1)
            r.g->batch_hint = 1;
        if (k == 2)
            r.g->batch_hint = 0;
        for (int p = 0; p < r.g->n_params; p++) {
            if (k == 3)
                r.g->params[p].frozen = r.g->params[p].table;
            if (k == 4)
                r.g->params[p].frozen = !r.g->params[p].table;
        }
        if (k == 5) // the same, without a reason
            want = tables;
        assert_int_equal(tables_projected(&r), want);
        mem_free(&r.mem);
    }
}

// A table that is read twice, and rows that are read twice, stay.
static void
read_twice(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        Layer r;
        int tables;
        build_layer(&r, 4, 0, false, &tables);
        Graph *g = r.g;
        Node *rows = NULL;
        for (int i = 0; i < g->n_nodes; i++)
            if (g->nodes[i]->op == OP_EMBED && !rows)
                rows = g->nodes[i];
        Node *more =
            k == 0   ? NULL
            : k == 1 ? rows
                     : graph_add(g, OP_EMBED, (Node *[]){rows->in[0], ids_of(&r, F - 1)},
                                 2, (Attr){0}, (Place){0});
        if (more) {
            more = graph_reduce(g, OP_SUM, more, (const int64_t[]){0, 1}, 2, false,
                                (Place){0});
            g->logits = graph_binary(g, OP_ADD, g->logits, more, (Place){0});
        }
        assert_int_equal(tables_projected(&r), tables - (more != NULL));
        mem_free(&r.mem);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interpreted),     cmocka_unit_test(compiled),
        cmocka_unit_test(squares_unasked), cmocka_unit_test(left_alone),
        cmocka_unit_test(read_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

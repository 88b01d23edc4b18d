// test_differentiate.c - the backward graph: gradients of whole random graphs against
// differences, what gets an accumulator and in which order, what is left out.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random_graph.h"

static const Place NOWHERE = {0};

// Largest difference and a bit of the sum of |differences|, over the elements of a
// parameter.
static void
compare_param(const RandomGraph *r, Interp *it, int p, int seed, int *moved)
{
    const double *grad = interp_grad(it, p);
    const Param *param = &r->g->params[p];
    int64_t n = shape_size(param->shape);
    int64_t step = n > 24 ? n / 12 : 1; // a dozen of the large ones
    for (int64_t k = 0; k < n; k += step) {
        double want = interp_finite_difference(it, p, k, 1e-5);
        double x = grad ? grad[k] : 0;
        if (param->frozen) {
            assert_null(grad);
            continue;
        }
        *moved += fabs(want) > 1e-7;
        if (!(fabs(x - want) <= 1e-6 * fmax(1, fabs(want))))
            fail_msg("seed %d: gradient %d of %s is %.9g, differences give %.9g", seed,
                     (int)k, param->name, x, want);
    }
}

static void
random_gradients(void **state)
{
    (void)state;
    int moved = 0, ops[OP_COUNT] = {0}, kinds = 0;
    for (int seed = 0; seed < 60; seed++) {
        RandomGraph r;
        random_graph(&r, (uint64_t)seed, RANDOM_SMOOTH);
        assert_true(differentiate(r.g));
        Interp *it = random_interp(&r);
        interp_sample(it, &r.batch, seed % RG_SAMPLES);
        interp_dlogits(it, random_dlogits);
        interp_backward(it);
        for (int p = 0; p < r.g->n_params; p++)
            compare_param(&r, it, p, seed, &moved);
        for (int k = 0; k < r.g->n_nodes; k++)
            ops[r.g->nodes[k]->op]++;
        interp_free(it);
        random_graph_free(&r);
    }
    for (int op = 0; op < OP_COUNT; op++)
        kinds += ops[op] > 0;
    assert_true(moved > 1000);
    assert_true(kinds > 50); // the generator reaches most of the table
}

// Compaction keeps every value, and the same seed gives the same text.
static void
compaction_keeps_gradients(void **state)
{
    (void)state;
    for (int seed = 100; seed < 110; seed++) {
        RandomGraph r[2];
        char *text[2];
        size_t size[2];
        double *grad[2];
        for (int k = 0; k < 2; k++) {
            random_graph(&r[k], (uint64_t)seed, 0);
            assert_true(differentiate(r[k].g));
            if (k)
                graph_compact(r[k].g);
            Interp *it = random_interp(&r[k]);
            interp_sample(it, &r[k].batch, 1);
            interp_dlogits(it, random_dlogits);
            interp_backward(it);
            const double *g = interp_grad(it, 0);
            int64_t n = shape_size(r[k].g->params[0].shape);
            grad[k] = calloc((size_t)n, sizeof **grad);
            if (g)
                memcpy(grad[k], g, (size_t)n * sizeof *g);
            if (k)
                assert_memory_equal(grad[0], grad[1], (size_t)n * sizeof **grad);
            interp_free(it);
            graph_compact(r[k].g);
            FILE *f = open_memstream(&text[k], &size[k]);
            graph_print(r[k].g, f);
            fclose(f);
        }
        assert_string_equal(text[0], text[1]);
        for (int k = 0; k < 2; k++) {
            free(text[k]);
            free(grad[k]);
            random_graph_free(&r[k]);
        }
    }
}

// ---- accumulators -------------------------------------------------------------------

typedef struct Toy {
    Mem mem;
    Diag diag;
    Graph *g;
} Toy;

static void
toy_new(Toy *t)
{
    *t = (Toy){0};
    mem_init(&t->mem);
    diag_init(&t->diag, &t->mem);
    t->g = graph_new(&t->mem, &t->diag);
}

static Node *
toy_param(Toy *t, const char *name, int64_t rows, int64_t cols)
{
    int64_t dim[] = {rows, cols};
    Param p = {.name = name, .shape = shape_of(2, dim)};
    return graph_param_node(t->g, graph_param(t->g, p), NOWHERE);
}

static Node *
sink_of(const Graph *g, int param, int use)
{
    for (int k = 0; k < g->n_sinks; k++)
        if (g->sinks[k]->a.index == param && g->sinks[k]->a.use == use)
            return g->sinks[k];
    fail_msg("parameter %d has no use %d", param, use);
    return NULL;
}

// Each reading node has its own accumulator, in forward order; a slice of rows only
// covers its rows.
static void
one_accumulator_a_use(void **state)
{
    (void)state;
    Toy t;
    toy_new(&t);
    Graph *g = t.g;
    Node *x = toy_param(&t, "x", 3, 4), *w = toy_param(&t, "w", 8, 4);
    Node *lower = graph_slice(g, w, 0, 4, 4, NOWHERE),
         *upper = graph_slice(g, w, 0, 0, 4, NOWHERE);
    Node *a = graph_matmul(g, x, lower, false, true, NOWHERE);
    Node *b = graph_matmul(g, a, upper, false, true, NOWHERE);
    Node *c = graph_matmul(g, b, lower, false, false, NOWHERE);
    Node *d =
        graph_matmul(g, c, graph_slice(g, w, 1, 1, 2, NOWHERE), false, false, NOWHERE);
    (void)d;
    int64_t swap[] = {1, 0};
    Node *e =
        graph_matmul(g, c, graph_permute(g, w, swap, NOWHERE), false, false, NOWHERE);
    g->logits = e;
    mark_unused(g);
    assert_true(differentiate(g));
    assert_int_equal(g->params[0].n_uses, 1);
    assert_int_equal(g->params[1].n_uses, 4);
    static const int64_t start[] = {4, 0, 4, 0}, rows[] = {4, 4, 4, 8};
    const Node *reader[] = {a, b, c, e};
    for (int k = 0; k < 4; k++) {
        const Node *s = sink_of(g, 1, k);
        assert_int_equal(s->a.start, start[k]);
        assert_int_equal(s->shape.dim[0], rows[k]);
        assert_ptr_equal(s->origin, reader[k]);
        assert_int_equal(s->part, PART_BACKWARD);
    }
    mem_free(&t.mem);
}

static int
count_op(const Graph *g, Op op)
{
    int n = 0;
    for (int k = 0; k < g->n_nodes; k++)
        n += g->nodes[k]->op == op && g->nodes[k]->part == PART_BACKWARD;
    return n;
}

// Parts that were split are joined by one concat, without pads or sums of zeros.
static void
split_parts_are_joined(void **state)
{
    (void)state;
    Toy t;
    toy_new(&t);
    Graph *g = t.g;
    Node *x = toy_param(&t, "x", 3, 6), *w = toy_param(&t, "w", 9, 6);
    Node *y = graph_matmul(g, x, w, false, true, NOWHERE), *part[3];
    static const Op ops[] = {OP_TANH, OP_SIN, OP_EXP};
    for (int k = 0; k < 3; k++)
        part[k] =
            graph_unary(g, ops[k], graph_slice(g, y, 1, 3 * k, 3, NOWHERE), NOWHERE);
    Node *sum = graph_binary(
        g, OP_ADD, graph_binary(g, OP_ADD, part[0], part[1], NOWHERE), part[2], NOWHERE);
    g->logits = sum;
    mark_unused(g);
    assert_true(differentiate(g));
    graph_compact(g);
    assert_int_equal(count_op(g, OP_PAD), 0);
    assert_int_equal(count_op(g, OP_CONCAT), 1);
    assert_int_equal(count_op(g, OP_ADD), 0);
    mem_free(&t.mem);
}

// Frozen, unused and detached parameters get nothing, and nothing is built for them.
static void
only_what_is_trained(void **state)
{
    (void)state;
    Toy t;
    toy_new(&t);
    Graph *g = t.g;
    Node *x = toy_param(&t, "frozen", 3, 4), *w = toy_param(&t, "w", 4, 4);
    Node *loose = toy_param(&t, "loose", 4, 4), *held = toy_param(&t, "held", 3, 4);
    g->params[0].frozen = true;
    graph_matmul(g, x, loose, false, true, NOWHERE);
    Node *y = graph_matmul(g, x, w, false, true, NOWHERE);
    Node *detached = graph_unary(g, OP_DETACH, held, NOWHERE);
    g->logits = graph_binary(g, OP_MUL, y, detached, NOWHERE);
    mark_unused(g);
    assert_true(g->params[2].unused);
    assert_true(g->params[3].unused);
    assert_false(g->params[0].unused);
    assert_true(differentiate(g));
    assert_int_equal(g->n_sinks, 1);
    assert_int_equal(g->sinks[0]->a.index, 1);
    assert_int_equal(count_op(g, OP_MATMUL), 1);
    mem_free(&t.mem);
}

// A graph whose logits reach no parameter has no backward part.
static void
nothing_to_train(void **state)
{
    (void)state;
    Toy t;
    toy_new(&t);
    t.g->logits = graph_unary(t.g, OP_EXP, graph_scalar(t.g, 0.5, NOWHERE), NOWHERE);
    mark_unused(t.g);
    assert_true(differentiate(t.g));
    assert_int_equal(t.g->n_sinks, 0);
    mem_free(&t.mem);
}

// Logits that are a parameter themselves.
static void
logits_that_are_a_parameter(void **state)
{
    (void)state;
    Toy t;
    toy_new(&t);
    Node *w = toy_param(&t, "w", 2, 2);
    t.g->logits = graph_slice(t.g, w, 0, 1, 1, NOWHERE);
    mark_unused(t.g);
    assert_true(differentiate(t.g));
    static const double v[] = {1, 2, 3, 4}, dy[] = {5, 6};
    Interp *it = interp_new(t.g);
    interp_param_f64(it, 0, v);
    interp_begin(it, 0);
    interp_dlogits(it, dy);
    interp_backward(it);
    const double *grad = interp_grad(it, 0);
    assert_true(grad[0] == 0 && grad[1] == 0 && grad[2] == 5 && grad[3] == 6);
    interp_free(it);
    mem_free(&t.mem);
}

// Row 0 of a padding table reads as zero and gets no gradient, by lookup and as a whole.
static void
padding_row(void **state)
{
    (void)state;
    Toy t;
    toy_new(&t);
    Graph *g = t.g;
    Node *w = toy_param(&t, "w", 3, 2);
    g->params[0].table = g->params[0].padding = true;
    static const int64_t ids[] = {0, 2};
    int64_t two = 2;
    Node *in[] = {w, graph_const_i(g, DT_I64, shape_of(1, &two), ids, 2, NOWHERE)};
    Node *rows = graph_add(g, OP_EMBED, in, 2, (Attr){0}, NOWHERE);
    int64_t axis = 0;
    Node *sum = graph_reduce(g, OP_SUM, w, &axis, 1, false, NOWHERE);
    g->logits = graph_binary(g, OP_ADD, rows, sum, NOWHERE);
    mark_unused(g);
    assert_true(differentiate(g));
    assert_int_equal(g->params[0].n_uses, 2);
    static const double v[] = {9, 9, 1, 2, 3, 4}, dy[] = {1, 10, 100, 1000};
    static const double want[] = {0, 0, 101, 1010, 201, 2010};
    Interp *it = interp_new(g);
    interp_param_f64(it, 0, v);
    interp_begin(it, 0);
    interp_dlogits(it, dy);
    interp_backward(it);
    interp_run(it, &g->logits, 1);
    assert_true(interp_value(it, g->logits)->f[0] == 4);
    for (int k = 0; k < 6; k++)
        assert_true(interp_grad(it, 0)[k] == want[k]);
    interp_free(it);
    mem_free(&t.mem);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_gradients),
        cmocka_unit_test(compaction_keeps_gradients),
        cmocka_unit_test(one_accumulator_a_use),
        cmocka_unit_test(split_parts_are_joined),
        cmocka_unit_test(only_what_is_trained),
        cmocka_unit_test(nothing_to_train),
        cmocka_unit_test(logits_that_are_a_parameter),
        cmocka_unit_test(padding_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

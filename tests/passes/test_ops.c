// test_ops.c - walks the operation table: each operation's values, and its gradient
// against finite differences. An operation without a case fails, and so does one whose
// differences are all zero.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interp.h"
#include "op_cases.h"
#include "passes.h"

static const Place NOWHERE = {0};

// A case as a graph: f32 operands are parameters, the others inputs.
typedef struct Built {
    Mem mem;
    Diag diag;
    Graph *g;
    Node *y;
    Interp *it;
} Built;

static void
build_case(Built *b, const OpCase *c)
{
    *b = (Built){0};
    mem_init(&b->mem);
    diag_init(&b->diag, &b->mem);
    Graph *g = b->g = graph_new(&b->mem, &b->diag);
    Node *in[6] = {0};
    for (int k = 0; k < c->n_in; k++) {
        const Arg *x = &c->in[k];
        if (x->type == DT_F32)
            in[k] = graph_param_node(
                g, graph_param(g, (Param){.name = "x", .shape = x->shape}), NOWHERE);
        else
            in[k] = graph_input(g, IN_EVENTS, k, "ids", x->type, x->shape);
    }
    b->y = graph_add(g, c->op, in, c->n_in, c->a, NOWHERE);
    if (!b->y)
        fail_msg("%s: %s", op_info[c->op].name, diag_text(&b->diag, &b->mem.perm));
    g->logits = b->y;
}

static void
start_case(Built *b, const OpCase *c)
{
    Graph *g = b->g;
    Interp *it = b->it = interp_new(g);
    int param = 0, input = 0;
    interp_begin(it, 0);
    for (int k = 0; k < c->n_in; k++) {
        const Arg *x = &c->in[k];
        if (x->type == DT_F32) {
            interp_param_f64(it, param++, x->v);
            continue;
        }
        int64_t *v = arena_array(&b->mem.perm, int64_t, shape_size(x->shape));
        for (int64_t i = 0; i < shape_size(x->shape); i++)
            v[i] = (int64_t)x->v[i];
        interp_input(it, input++, v);
    }
}

static void
end_case(Built *b)
{
    interp_free(b->it);
    mem_free(&b->mem);
}

// NaN never passes.
static bool
close_to(double x, double want, double limit)
{
    return x == want || fabs(x - want) <= limit * fmax(1, fabs(want));
}

static void
check_values(const OpCase *c, const Tensor *y, const Node *n)
{
    const char *name = op_info[c->op].name;
    if (n->type != c->want.type || !shape_equal(n->shape, c->want.shape))
        fail_msg("%s: wrong type or shape", name);
    for (int64_t k = 0; k < y->size; k++) {
        double x = n->type == DT_F32 ? y->f[k] : (double)y->i[k];
        if (!close_to(x, c->want.v[k], 2e-7))
            fail_msg("%s: element %d is %.9g, expected %.9g", name, (int)k, x,
                     c->want.v[k]);
    }
}

enum { N_CASES = sizeof op_cases / sizeof *op_cases };

static void
values(void **state)
{
    (void)state;
    for (int k = 0; k < N_CASES; k++) {
        const OpCase *c = &op_cases[k];
        Built b;
        build_case(&b, c);
        start_case(&b, c);
        interp_run(b.it, &b.y, 1);
        check_values(c, interp_value(b.it, b.y), b.y);
        assert_true(isfinite(op_info[c->op].flops(b.y)));
        end_case(&b);
    }
}

// Weights of the results: no two alike, no pattern that an adjoint could be blind to.
static double
weight(int64_t k)
{
    return sin(1.7 * (double)k + 0.6) + 0.1;
}

// Compares all gradients of b with differences; returns how many differences are not
// zero.
static int
compare_gradients(Built *b, const char *name)
{
    Graph *g = b->g;
    int moved = 0;
    double *dy = arena_array(&b->mem.perm, double, shape_size(g->logits->shape));
    for (int64_t k = 0; k < shape_size(g->logits->shape); k++)
        dy[k] = weight(k);
    interp_dlogits(b->it, dy);
    interp_backward(b->it);
    for (int p = 0; p < g->n_params; p++) {
        const double *grad = interp_grad(b->it, p);
        for (int64_t k = 0; k < shape_size(g->params[p].shape); k++) {
            double want = interp_finite_difference(b->it, p, k, 1e-5);
            double x = grad ? grad[k] : 0;
            moved += fabs(want) > 1e-6;
            if (!close_to(x, want, 2e-6))
                fail_msg("%s: gradient %d of operand %d is %.9g, differences give %.9g",
                         name, (int)k, p, x, want);
        }
    }
    return moved;
}

static int
check_gradient(const OpCase *c, bool training, bool covered[OP_COUNT])
{
    Built b;
    build_case(&b, c);
    mark_unused(b.g);
    if (!differentiate(b.g))
        fail_msg("%s: %s", op_info[c->op].name, diag_text(&b.diag, &b.mem.perm));
    start_case(&b, c);
    interp_chance(b.it, training, 99, 3);
    int moved = compare_gradients(&b, op_info[c->op].name);
    for (int k = 0; k < b.g->n_nodes; k++)
        covered[b.g->nodes[k]->op] = true;
    end_case(&b);
    return moved;
}

static void
gradients(void **state)
{
    (void)state;
    int moved[OP_COUNT] = {0};
    bool covered[OP_COUNT] = {false};
    for (int k = 0; k < N_CASES; k++) {
        const OpCase *c = &op_cases[k];
        covered[c->op] = true;
        if (c->want.type == DT_F32 && (op_info[c->op].flags & OPF_GRAD))
            moved[c->op] += check_gradient(c, false, covered);
    }
    for (int op = 0; op < OP_COUNT; op++) {
        if (!covered[op])
            fail_msg("%s has no case", op_info[op].name);
        if ((op_info[op].flags & OPF_GRAD) && !moved[op])
            fail_msg("%s: no difference moves", op_info[op].name);
        assert_true(!op_info[op].grad == !(op_info[op].flags & OPF_GRAD));
    }
}

// In training the same counters draw the same mask, so differences hold with chance too.
static void
gradients_with_chance(void **state)
{
    (void)state;
    int moved[2] = {0};
    bool covered[OP_COUNT] = {false};
    for (int k = 0; k < N_CASES; k++) {
        OpCase c = op_cases[k];
        if (c.op != OP_DROPOUT && c.op != OP_ATTEND)
            continue;
        c.a.p = 0.4;
        c.a.site = 2;
        moved[c.op == OP_ATTEND] += check_gradient(&c, true, covered);
    }
    assert_true(moved[0] > 0);
    assert_true(moved[1] > 0);
}

// ---- leaves and chance --------------------------------------------------------------

static void
constants_are_rounded_once(void **state)
{
    (void)state;
    static const Arg none = {.type = DT_F32};
    static const double tenth[] = {0.1};
    static const Const data = {1, tenth, NULL};
    OpCase c = {.op = OP_CONST,
                .a = {.axis = DT_F32, .shape = D1(2), .data = &data},
                .want = none};
    Built b;
    build_case(&b, &c);
    start_case(&b, &c);
    interp_run(b.it, &b.y, 1);
    const Tensor *y = interp_value(b.it, b.y);
    assert_int_equal(y->size, 2);
    assert_true(y->f[1] == (double)0.1f);
    end_case(&b);
}

// The draws of a tensor follow (first, pitch, rows), whatever piece of it is computed.
static void
chance_counts_elements_as_written(void **state)
{
    (void)state;
    OpCase whole = {.op = OP_CHANCE,
                    .a = {.shape = D2(6, 5), .p = 0.5, .site = 3, .pitch = 5}};
    OpCase tail = {
        .op = OP_CHANCE,
        .a = {.shape = D2(2, 5), .p = 0.5, .site = 3, .first = 20, .pitch = 5}};
    static const double rows[] = {4, 1};
    OpCase picked = {.op = OP_CHANCE,
                     .n_in = 1,
                     .in = {{DT_I64, D1(2), rows}},
                     .a = {.shape = D2(2, 5), .p = 0.5, .site = 3, .pitch = 5}};
    OpCase *c[] = {&whole, &tail, &picked};
    int64_t v[3][30];
    int count = 0;
    for (int k = 0; k < 3; k++) {
        Built b;
        build_case(&b, c[k]);
        start_case(&b, c[k]);
        interp_chance(b.it, true, 5, 1);
        interp_run(b.it, &b.y, 1);
        const Tensor *y = interp_value(b.it, b.y);
        memcpy(v[k], y->i, (size_t)y->size * sizeof *y->i);
        end_case(&b);
    }
    for (int k = 0; k < 30; k++)
        count += v[0][k] != 0;
    assert_in_range(count, 5, 25);
    for (int k = 0; k < 10; k++)
        assert_int_equal(v[1][k], v[0][20 + k]);
    for (int k = 0; k < 5; k++) {
        assert_int_equal(v[2][k], v[0][20 + k]);
        assert_int_equal(v[2][5 + k], v[0][5 + k]);
    }
}

// A select in front of an operation without a derivative: zero, not 0 x inf.
static void
nothing_leaks_behind_a_select(void **state)
{
    (void)state;
    static const Op ops[] = {OP_LOG, OP_SQRT, OP_EXP, OP_TANH, OP_SIN};
    static const double x[] = {0, 0.5, INFINITY, NAN};
    static const double keep[] = {0, 1, 0, 0};
    OpCase c = {.op = OP_SELECT,
                .n_in = 3,
                .in = {{DT_BOOL, D1(4), keep}, {DT_F32, D1(4), x}, {DT_F32, D0, x}}};
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        Built b;
        build_case(&b, &c);
        Node *v = graph_unary(b.g, ops[k], b.y->in[1], NOWHERE);
        Node *w = graph_binary(b.g, OP_DIV, v, b.y->in[1], NOWHERE);
        Node *u = graph_binary(b.g, OP_MUL, w, w, NOWHERE);
        b.g->logits = graph_select(b.g, b.y->in[0], u, b.y->in[2], NOWHERE);
        mark_unused(b.g);
        assert_true(differentiate(b.g));
        start_case(&b, &c);
        static const double dy[] = {1, 2, 3, 4};
        interp_dlogits(b.it, dy);
        interp_backward(b.it);
        const double *grad = interp_grad(b.it, 0);
        assert_true(grad[0] == 0 && grad[2] == 0 && grad[3] == 0);
        assert_true(isfinite(grad[1]) && grad[1] != 0);
        end_case(&b);
    }
}

static void
ties_and_kinks(void **state)
{
    (void)state;
    static const double x[] = {0, 1, 1, -1}, y[] = {0, 1, 1, -1};
    const struct {
        Op op;
        Attr a;
        int n_in;
        double want[2][4];
    } c[] = {
        {OP_RELU, {0}, 1, {{0, 1, 1, 0}}},
        {OP_ABS, {0}, 1, {{0, 1, 1, -1}}},
        {OP_CLAMP, {.lo = -1, .hi = 1}, 1, {{1, 1, 1, 1}}},
        {OP_MAX, {LIST(0)}, 1, {{0, 1, 0, 0}}},
        {OP_MAX2, {0}, 2, {{1, 1, 1, 1}, {0, 0, 0, 0}}},
        {OP_MIN2, {0}, 2, {{1, 1, 1, 1}, {0, 0, 0, 0}}},
        {OP_MIN, {LIST(0)}, 1, {{0, 0, 0, 1}}},
    };
    for (size_t k = 0; k < sizeof c / sizeof *c; k++) {
        OpCase o = {.op = c[k].op,
                    .n_in = c[k].n_in,
                    .a = c[k].a,
                    .in = {{DT_F32, D1(4), x}, {DT_F32, D1(4), y}}};
        static const double ones[] = {1, 1, 1, 1};
        Built b;
        build_case(&b, &o);
        mark_unused(b.g);
        assert_true(differentiate(b.g));
        start_case(&b, &o);
        interp_dlogits(b.it, ones);
        interp_backward(b.it);
        for (int p = 0; p < c[k].n_in; p++)
            for (int i = 0; i < 4; i++)
                if (interp_grad(b.it, p)[i] != c[k].want[p][i])
                    fail_msg("%s: gradient %d of operand %d is %g", op_info[o.op].name, i,
                             p, interp_grad(b.it, p)[i]);
        end_case(&b);
    }
}

// What attend leaves for its backward pass: highest scores in powers of 2, inverse sums.
static void
stats_of_attend(void **state)
{
    (void)state;
    const OpCase c = {
        OP_ATTEND,
        3,
        {F(D2(2, 1), 1.0, 2.0), F(D2(2, 1), 0.0, 1.0), F(D2(2, 1), 3.0, 4.0)},
        {.heads = 1, .mask = &causal},
        F(D2(2, 2), 0.0, 2.885390082, 1.0, 0.880797078),
    };
    Built b;
    build_case(&b, &c);
    b.g->logits = graph_add(b.g, OP_PART, &b.y, 1, (Attr){0}, NOWHERE);
    start_case(&b, &c);
    interp_run(b.it, &b.g->logits, 1);
    check_values(&c, interp_value(b.it, b.g->logits), b.g->logits);
    end_case(&b);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(gradients),
        cmocka_unit_test(gradients_with_chance),
        cmocka_unit_test(constants_are_rounded_once),
        cmocka_unit_test(chance_counts_elements_as_written),
        cmocka_unit_test(nothing_leaks_behind_a_select),
        cmocka_unit_test(ties_and_kinks),
        cmocka_unit_test(stats_of_attend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test_graph.c - the builder: equal nodes once, sinks never merged, compaction, shapes,
// the dump.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "graph.h"

typedef struct Fixture {
    Mem mem;
    Diag diag;
    Graph *g;
} Fixture;

static const Place NOWHERE = {0};

static int
setup(void **state)
{
    Fixture *f = calloc(1, sizeof *f);
    mem_init(&f->mem);
    diag_init(&f->diag, &f->mem);
    f->g = graph_new(&f->mem, &f->diag);
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    Fixture *f = *state;
    mem_free(&f->mem);
    free(f);
    return 0;
}

static Shape
shape2(int64_t a, int64_t b)
{
    int64_t dim[] = {a, b};
    return shape_of(2, dim);
}

static Node *
param(Graph *g, const char *name, int64_t a, int64_t b)
{
    return graph_param_node(
        g, graph_param(g, (Param){.name = name, .shape = shape2(a, b)}), NOWHERE);
}

static char *
dump(const Graph *g)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    graph_print(g, f);
    fclose(f);
    return text;
}

static void
equal_nodes_are_made_once(void **state)
{
    Graph *g = ((Fixture *)*state)->g;
    Node *x = param(g, "x", 3, 4), *w = param(g, "w", 5, 4);
    Node *y = graph_matmul(g, x, w, false, true, NOWHERE);
    assert_ptr_equal(y, graph_matmul(g, x, w, false, true, NOWHERE));
    assert_true(shape_equal(y->shape, shape2(3, 5)));
    Node *half = graph_scalar(g, 0.5, NOWHERE);
    assert_ptr_equal(half, graph_scalar(g, 0.5, NOWHERE));
    assert_ptr_not_equal(half, graph_scalar(g, 0.25, NOWHERE));
    assert_ptr_not_equal(graph_scalar(g, 0.0, NOWHERE), graph_scalar(g, -0.0, NOWHERE));
    assert_ptr_not_equal(graph_slice(g, x, 0, 0, 1, NOWHERE),
                         graph_slice(g, x, 0, 1, 1, NOWHERE));
    assert_ptr_equal(x, graph_slice(g, x, 1, 0, 4, NOWHERE));
    int64_t swap[] = {1, 0};
    Node *t = graph_permute(g, x, swap, NOWHERE);
    swap[0] = 7; // the graph has a copy
    assert_int_equal(t->a.list[0], 1);
}

static void
parts_and_calls_are_apart(void **state)
{
    Graph *g = ((Fixture *)*state)->g;
    Node *x = param(g, "x", 2, 2);
    Node *a = graph_unary(g, OP_EXP, x, NOWHERE);
    g->call = graph_call(g, "blocks.0", NULL, NOWHERE);
    Node *b = graph_unary(g, OP_EXP, x, NOWHERE);
    g->part = PART_BACKWARD;
    Node *c = graph_unary(g, OP_EXP, x, NOWHERE);
    assert_ptr_not_equal(a, b);
    assert_ptr_not_equal(b, c);
    assert_ptr_equal(x, graph_param_node(g, 0, NOWHERE));
    assert_int_equal(graph_call(g, "blocks.0", NULL, NOWHERE)->ordinal, 1);
    assert_int_equal(graph_call(g, "blocks.1", NULL, NOWHERE)->ordinal, 0);
}

static void
sinks_are_never_merged(void **state)
{
    Graph *g = ((Fixture *)*state)->g;
    Node *x = param(g, "x", 2, 2);
    Node *a = graph_add(g, OP_ACC, &x, 1, (Attr){0}, NOWHERE);
    Node *b = graph_add(g, OP_ACC, &x, 1, (Attr){0}, NOWHERE);
    assert_ptr_not_equal(a, b);
    assert_int_equal(g->n_sinks, 2);
    g->logits = x;
    graph_compact(g);
    assert_int_equal(g->n_nodes, 3);
    assert_int_equal(g->n_sinks, 2);
}

static void
compaction_drops_and_orders(void **state)
{
    Graph *g = ((Fixture *)*state)->g;
    Node *x = param(g, "x", 2, 2);
    graph_unary(g, OP_SIN, x, NOWHERE);
    Node *a = graph_unary(g, OP_EXP, x, NOWHERE);
    Node *b = graph_unary(g, OP_LOG, a, NOWHERE);
    Node *late = graph_unary(g, OP_TANH, x, NOWHERE);
    a->in[0] = late; // a rewrite that lets an operand stand behind its user
    g->logits = b;
    graph_compact(g);
    assert_int_equal(g->n_nodes, 4);
    for (int k = 0; k < g->n_nodes; k++) {
        assert_int_equal(g->nodes[k]->id, k);
        for (int i = 0; i < g->nodes[k]->n_in; i++)
            assert_true(g->nodes[k]->in[i]->id < k);
    }
    assert_ptr_equal(late, graph_unary(g, OP_TANH, x, NOWHERE));
    Node *sin = graph_unary(g, OP_SIN, x, NOWHERE); // the dead one is not found again
    assert_int_equal(sin->id, 4);
    assert_ptr_equal(g->nodes[4], sin);
}

static void
many_nodes(void **state)
{
    Graph *g = ((Fixture *)*state)->g;
    Node *x = param(g, "x", 2, 2), *y = x;
    for (int k = 0; k < 20000; k++)
        y = graph_binary(g, OP_ADD, y, graph_scalar(g, k, NOWHERE), NOWHERE);
    assert_int_equal(g->n_nodes, 40001);
    Node *again = x;
    for (int k = 0; k < 20000; k++)
        again = graph_binary(g, OP_ADD, again, graph_scalar(g, k, NOWHERE), NOWHERE);
    assert_ptr_equal(y, again);
    g->logits = y;
    graph_compact(g); // a chain this long must not exhaust the stack
    assert_int_equal(g->n_nodes, 40001);
}

static void
errors_show_both_shapes(void **state)
{
    Fixture *f = *state;
    Graph *g = f->g;
    Node *x = param(g, "x", 3, 4), *w = param(g, "w", 5, 6);
    assert_null(graph_binary(g, OP_ADD, x, w, NOWHERE));
    assert_null(graph_matmul(g, x, w, false, true, NOWHERE));
    assert_null(graph_reshape(g, x, shape2(3, 5), NOWHERE));
    assert_null(graph_slice(g, x, 0, 2, 2, NOWHERE));
    assert_null(graph_unary(g, OP_EXP, graph_iota(g, 3, NOWHERE), NOWHERE));
    int errors = f->diag.errors;
    assert_null(graph_binary(g, OP_ADD, NULL, w, NOWHERE)); // silently
    assert_int_equal(f->diag.errors, errors);
    const char *text = diag_text(&f->diag, &f->mem.perm);
    assert_non_null(strstr(text, "'+' cannot broadcast f32[3, 4] with f32[5, 6]"));
    assert_non_null(
        strstr(text, "'@' needs equal inner sizes, found f32[3, 4] and f32[5, 6]'"));
    assert_non_null(strstr(text, "found f32[3, 4] for f32[3, 5]"));
    assert_non_null(strstr(text, "'slice' [2:4] lies outside axis 0 of f32[3, 4]"));
    assert_non_null(strstr(text, "'exp' needs f32, found i64[3]"));
}

static void
broadcasting(void **state)
{
    (void)state;
    int64_t a[] = {4, 1, 3}, b[] = {5, 1}, c[] = {0, 3}, d[] = {2, 3};
    Shape out;
    assert_true(shape_broadcast(shape_of(3, a), shape_of(2, b), &out));
    int64_t want[] = {4, 5, 3};
    assert_true(shape_equal(out, shape_of(3, want)));
    int64_t stride[3];
    shape_strides(shape_of(2, b), out, stride);
    assert_int_equal(stride[0], 0);
    assert_int_equal(stride[1], 1);
    assert_int_equal(stride[2], 0);
    assert_true(shape_broadcast(shape_of(2, c), (Shape){0}, &out));
    assert_true(shape_equal(out, shape_of(2, c)));
    assert_false(shape_broadcast(shape_of(2, c), shape_of(2, d), &out));
}

static void
dump_is_stable(void **state)
{
    Fixture *f = *state;
    static const char source[] = "let h = x @ w'\nreturn tanh(h)\n";
    Graph *g = f->g;
    uint32_t file = source_add(&f->diag, "toy.pcvr", "toy.pcvr", source, strlen(source));
    Place first = {file, 8, 6}, second = {file, 22, 7};
    Node *x = param(g, "x", 3, 4), *w = param(g, "w", 5, 4);
    Node *h = graph_matmul(g, x, w, false, true, first);
    h->name = "h";
    g->call = graph_call(g, "blocks.0", NULL, first);
    g->logits = graph_unary(g, OP_TANH, h, second);
    static const char want[] = "%0 = param x : f32[3, 4]\n"
                               "%1 = param w : f32[5, 4]\n"
                               "%2 = matmul %0 %1 tb : f32[3, 5]  # h toy.pcvr:1\n"
                               "%3 = tanh %2 : f32[3, 5]  # blocks.0 toy.pcvr:2\n"
                               "logits %3\n";
    char *text = dump(g);
    assert_string_equal(text, want);
    free(text);
}

// The dump shows each attribute by which nodes of an operation are told apart.
static void
masks_are_readable(void **state)
{
    Fixture *f = *state;
    Mask i = {.kind = MASK_I}, j = {.kind = MASK_J};
    Mask *ji[] = {&j, &i}, *one_j[] = {&j};
    Mask le = {.kind = MASK_LE, .n_kids = 2, .kid = {ji[0], ji[1]}};
    Mask pad = {.kind = MASK_TENSOR, .n_kids = 1, .kid = {one_j[0]}, .value = 3};
    Mask not_pad = {.kind = MASK_NOT, .n_kids = 1, .kid = {&pad}};
    Mask both = {.kind = MASK_AND, .n_kids = 2, .kid = {&le, &not_pad}};
    assert_string_equal(mask_text(&f->mem.perm, &both), "(j <= i) and not in3[j]");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_nodes_are_made_once, setup, teardown),
        cmocka_unit_test_setup_teardown(parts_and_calls_are_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(sinks_are_never_merged, setup, teardown),
        cmocka_unit_test_setup_teardown(compaction_drops_and_orders, setup, teardown),
        cmocka_unit_test_setup_teardown(many_nodes, setup, teardown),
        cmocka_unit_test_setup_teardown(errors_show_both_shapes, setup, teardown),
        cmocka_unit_test(broadcasting),
        cmocka_unit_test_setup_teardown(dump_is_stable, setup, teardown),
        cmocka_unit_test_setup_teardown(masks_are_readable, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

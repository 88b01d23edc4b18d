// test_shape_rules.c - what each shape rule refuses, and what it says: names, both shapes.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "op_cases.h"

typedef struct Refused {
    Op op;
    int n_in;
    struct {
        DType type;
        Shape shape;
    } in[6];
    Attr a;
    const char *says;
} Refused;

static Mask reads_float = {
    .kind = MASK_TENSOR, .n_kids = 1, .kid = {&mask_j}, .value = 3};
static Mask reads_nothing = {.kind = MASK_LIST, .n_kids = 1, .kid = {&mask_j}};
static const double falling[] = {2, 1};
static const Const falling_bounds = {2, falling, NULL};
static const Const two_values = {2, falling, NULL};

#define f32 DT_F32
#define i64 DT_I64
#define b   DT_BOOL
static const Refused refused[] = {
    {OP_EXP, 1, {{i64, D1(3)}}, {0}, "'exp' needs f32, found i64[3]"},
    {OP_NOT, 1, {{f32, D0}}, {0}, "'not' needs bool, found f32[]"},
    {OP_NEG, 1, {{b, D1(2)}}, {0}, "unary '-' needs f32 or i64, found bool[2]"},
    {OP_ADD,
     2,
     {{f32, D2(3, 4)}, {f32, D2(2, 4)}},
     {0},
     "'+' cannot broadcast f32[3, 4] with f32[2, 4]"},
    {OP_SELECT,
     3,
     {{b, D1(3)}, {f32, D0}, {f32, D1(4)}},
     {0},
     "'if' cannot broadcast f32[] with f32[4]"},
    {OP_SELECT,
     3,
     {{f32, D0}, {f32, D0}, {f32, D0}},
     {0},
     "'if' needs bool as operand 1, found f32[]"},
    {OP_SELECT,
     3,
     {{b, D0}, {f32, D0}, {i64, D0}},
     {0},
     "'if' needs operands of one type, found f32[] and i64[]"},
    {OP_MUL,
     2,
     {{f32, D0}, {i64, D1(2)}},
     {0},
     "'*' needs operands of one type, found f32[] and i64[2]"},
    {OP_SUB,
     2,
     {{b, D0}, {i64, D0}},
     {0},
     "'-' needs f32 or i64, found bool[] and i64[]"},
    {OP_DIV, 2, {{i64, D0}, {i64, D0}}, {0}, "'/' needs f32, found i64[] and i64[]"},
    {OP_AND, 2, {{b, D0}, {i64, D0}}, {0}, "'and' needs bool, found bool[] and i64[]"},
    {OP_RESHAPE,
     1,
     {{f32, D2(3, 4)}},
     {.shape = D2(5, 2)},
     "needs equally many elements, found f32[3, 4] for f32[5, 2]"},
    {OP_RESHAPE, 1, {{f32, D1(4)}}, {.shape = D2(-2, -2)}, "has the negative extent -2"},
    {OP_RESHAPE,
     1,
     {{f32, D1(4)}},
     {.shape = D2(1L << 40, 1L << 40)},
     "gives a tensor that is too large"},
    {OP_RESHAPE, 1, {{f32, D1(4)}}, {.shape = {.rank = 6}}, "gives rank 6, at most 5"},
    {OP_PERMUTE,
     1,
     {{f32, D2(3, 4)}},
     {LIST(0, 0)},
     "needs each of the 2 axes of f32[3, 4] once"},
    {OP_EXPAND,
     1,
     {{f32, D1(3)}},
     {.shape = D2(2, 4)},
     "cannot broadcast f32[3] to f32[2, 4]"},
    {OP_SLICE,
     1,
     {{f32, D1(3)}},
     {.start = 2, .count = 2},
     "[2:4] lies outside axis 0 of f32[3]"},
    {OP_SLICE, 1, {{f32, D1(3)}}, {.axis = 1}, "has no axis 1 in a tensor of rank 1"},
    {OP_PAD,
     1,
     {{f32, D1(3)}},
     {.start = 2, .count = 4},
     "cannot put f32[3] at 2 of an axis of 4"},
    {OP_CONCAT,
     2,
     {{f32, D2(3, 4)}, {f32, D2(2, 5)}},
     {0},
     "along axis 0 needs equal types and other extents, found f32[3, 4] and f32[2, 5]"},
    {OP_GATHER,
     2,
     {{f32, D1(3)}, {i64, D2(1, 2)}},
     {0},
     "needs indices of rank 0 or 1, found i64[1, 2]"},
    {OP_GATHER,
     2,
     {{f32, D1(0)}, {i64, D0}},
     {0},
     "gathers from an empty axis of f32[0]"},
    {OP_SCATTER_ADD,
     2,
     {{f32, D1(3)}, {i64, D1(2)}},
     {.count = 4},
     "cannot spread f32[3] over axis 0 by i64[2]"},
    {OP_SUM, 1, {{f32, D2(3, 4)}}, {LIST(1, 0)}, "needs ascending axes of f32[3, 4]"},
    {OP_SUM, 1, {{b, D1(3)}}, {LIST(0)}, "'sum' needs f32 or i64, found bool[3]"},
    {OP_MAX,
     1,
     {{f32, D2(3, 0)}},
     {LIST(1)},
     "over nothing, axis 1 of f32[3, 0] is empty"},
    {OP_ANY, 1, {{i64, D1(3)}}, {LIST(0)}, "'any' needs bool, found i64[3]"},
    {OP_ARGSORT, 1, {{i64, D2(3, 2)}}, {0}, "needs a tensor of rank 1, found i64[3, 2]"},
    {OP_ARGSORT, 1, {{b, D1(3)}}, {0}, "'argsort' needs f32 or i64, found bool[3]"},
    {OP_BUCKETIZE,
     1,
     {{i64, D1(3)}},
     {.data = &falling_bounds},
     "needs bounds of the type of i64[3]"},
    {OP_BUCKETIZE,
     1,
     {{f32, D1(3)}},
     {.data = &falling_bounds},
     "needs ascending bounds, bound 1 is smaller"},
    {OP_BUCKETIZE,
     1,
     {{b, D1(3)}},
     {.data = &falling_bounds},
     "needs f32 or i64, found bool[3]"},
    {OP_UNIQUE_LAST,
     2,
     {{i64, D2(3, 4)}, {b, D1(3)}},
     {0},
     "needs i64[F, L] and bool[L], found i64[3, 4] and bool[3]"},
    {OP_MATMUL,
     2,
     {{f32, D2(3, 4)}, {f32, D2(5, 6)}},
     {.tb = true},
     "'@' needs equal inner sizes, found f32[3, 4] and f32[5, 6]'"},
    {OP_MATMUL,
     2,
     {{f32, D2(3, 4)}, {f32, D3(2, 4, 6)}},
     {0},
     "needs matrices with equal leading extents, found f32[3, 4] and f32[2, 4, 6]"},
    {OP_MATMUL,
     2,
     {{f32, D2(3, 4)}, {i64, D2(4, 6)}},
     {0},
     "'@' needs f32, found f32[3, 4] and i64[4, 6]"},
    {OP_SOFTMAX,
     2,
     {{f32, D2(3, 4)}, {b, D1(3)}},
     {0},
     "needs a mask that broadcasts to f32[3, 4], found bool[3]"},
    {OP_NORMALIZE, 1, {{f32, D0}}, {0}, "needs at least one axis, found f32[]"},
    {OP_NORMALIZE_BACK,
     2,
     {{f32, D1(3)}, {f32, D1(4)}},
     {0},
     "needs an adjoint of the shape of x, found f32[3] and f32[4]"},
    {OP_ROPE,
     2,
     {{f32, D2(3, 4)}, {i64, D1(4)}},
     {.heads = 1, .p = 9},
     "needs a position for each row, found f32[3, 4] and i64[4]"},
    {OP_ROPE,
     2,
     {{f32, D2(3, 4)}, {i64, D1(3)}},
     {.heads = 3, .p = 9},
     "cannot cut f32[3, 4] into 3 heads"},
    {OP_EMBED,
     2,
     {{f32, D1(3)}, {i64, D0}},
     {0},
     "needs a parameter of rank 2 as table, found f32[3]"},
    {OP_TAKE,
     1,
     {{f32, D2(3, 4)}},
     {.axis = 1, .list = (const int64_t[]){2, 3}, .n_list = 2},
     "has ranges outside of f32[3, 4]"},
    {OP_PROJECTED,
     3,
     {{f32, D1(3)}, {f32, D2(5, 2)}, {i64, D1(4)}},
     {.list = (const int64_t[]){0}, .n_list = 1},
     "needs a parameter of rank 2 or 3 as weight, found f32[3]"},
    {OP_PROJECTED,
     3,
     {{f32, D2(3, 4)}, {f32, D2(5, 2)}, {i64, D1(4)}},
     {.list = (const int64_t[]){2}, .n_list = 1},
     "has a table f32[5, 2] outside of the weight"},
    {OP_PROJECTED,
     3,
     {{f32, D2(3, 4)}, {f32, D2(5, 2)}, {f32, D1(4)}},
     {.list = (const int64_t[]){0}, .n_list = 1},
     "needs i64 as operand 3, found f32[4]"},
    {OP_EMBED, 2, {{f32, D2(0, 3)}, {i64, D0}}, {0}, "reads an empty table f32[0, 3]"},
    {OP_EMBED,
     2,
     {{f32, D2(2, 3)}, {i64, {.rank = 5, .dim = {1, 1, 1, 1, 1}}}},
     {0},
     "needs ids of lower rank, found i64[1, 1, 1, 1, 1]"},
    {OP_BAG_MEAN,
     2,
     {{f32, D2(2, 3)}, {i64, D0}},
     {0},
     "'embed_bag_mean' needs ids with an axis to average over, found i64[]"},
    {OP_DROPOUT,
     1,
     {{f32, D0}},
     {.p = 1.5},
     "needs a probability from 0 to 1, found 1.5"},
    {OP_DROPOUT,
     2,
     {{f32, D2(3, 4)}, {i64, D1(2)}},
     {0},
     "needs a row number for each row of f32[3, 4], found i64[2]"},
    {OP_ATTEND,
     3,
     {{f32, D2(3, 4)}, {f32, D2(2, 4)}, {f32, D2(3, 4)}},
     {.heads = 1},
     "needs q [.., T, D] and k, v [.., S, D], found f32[3, 4], f32[2, 4] and f32[3, 4]"},
    {OP_ATTEND,
     3,
     {{f32, D2(3, 4)}, {f32, D2(2, 4)}, {f32, D2(2, 4)}},
     {.heads = 3},
     "cannot cut f32[3, 4] into 3 heads"},
    {OP_ATTEND,
     3,
     {{f32, D2(3, 4)}, {f32, D2(2, 4)}, {f32, D2(2, 4)}},
     {.heads = 1, .p = 2},
     "needs a dropout from 0 to 1, found 2"},
    {OP_ATTEND,
     4,
     {{f32, D2(3, 4)}, {f32, D2(2, 4)}, {f32, D2(2, 4)}, {f32, D1(2)}},
     {.heads = 1, .mask = &reads_float},
     "needs a mask of booleans and integers of rank 0 or 1, found f32[2]"},
    {OP_ATTEND,
     4,
     {{f32, D2(3, 4)}, {f32, D2(2, 4)}, {f32, D2(2, 4)}, {i64, D1(0)}},
     {.heads = 1, .mask = &reads_float},
     "has a mask that reads an empty i64[0]"},
    {OP_ATTEND,
     3,
     {{f32, D2(3, 4)}, {f32, D2(2, 4)}, {f32, D2(2, 4)}},
     {.heads = 1, .mask = &reads_nothing},
     "has a mask that reads an empty list"},
    {OP_ATTEND_BACK,
     6,
     {{f32, D2(3, 4)}, {f32, D2(2, 4)}, {f32, D2(2, 4)}, {f32, D2(2, 4)}, {f32, D2(3, 4)},
      {f32, D2(2, 3)}},
     {.heads = 1},
     "needs an adjoint and a result of the shape of q, found f32[3, 4] and f32[2, 4]"},
    {OP_ATTEND_BACK,
     6,
     {{f32, D2(3, 4)}, {f32, D2(2, 4)}, {f32, D2(2, 4)}, {f32, D2(3, 4)}, {f32, D2(2, 4)},
      {f32, D2(2, 3)}},
     {.heads = 1},
     "needs an adjoint and a result of the shape of q, found f32[3, 4] and f32[2, 4]"},
    {OP_ATTEND_BACK,
     6,
     {{f32, D2(3, 4)}, {f32, D2(2, 4)}, {f32, D2(2, 4)}, {f32, D2(3, 4)}, {f32, D2(3, 4)},
      {f32, D2(2, 3)}},
     {.heads = 2},
     "needs stats of 2 heads, found f32[2, 3]"},
    {OP_CONST,
     0,
     {{f32}},
     {.shape = D1(3), .data = &two_values},
     "has 2 values for f32[3]"},
    {OP_ACC,
     1,
     {{f32, D1(3)}},
     {.start = 1},
     "cannot add f32[3] to the gradient of 'p0' f32[3]"},
};
#undef f32
#undef i64
#undef b

static void
check(const Refused *r)
{
    static const Place nowhere = {0};
    Mem mem;
    Diag diag;
    mem_init(&mem);
    diag_init(&diag, &mem);
    Graph *g = graph_new(&mem, &diag);
    Node *in[6] = {0};
    for (int k = 0; k < r->n_in; k++)
        if (r->in[k].type == DT_F32)
            in[k] = graph_param_node(
                g, graph_param(g, (Param){.name = "p0", .shape = r->in[k].shape}),
                nowhere);
        else
            in[k] = graph_input(g, IN_EVENTS, k, "x", r->in[k].type, r->in[k].shape);
    int before = g->n_nodes;
    if (graph_add(g, r->op, in, r->n_in, r->a, nowhere))
        fail_msg("%s was taken; it should say: %s", op_info[r->op].name, r->says);
    const char *text = diag_text(&diag, &mem.perm);
    if (diag.errors != 1 || !strstr(text, r->says))
        fail_msg("%s says: %sit should say: %s", op_info[r->op].name, text, r->says);
    assert_int_equal(g->n_nodes, before);
    mem_free(&mem);
}

static void
refusals(void **state)
{
    (void)state;
    enum { N = sizeof refused / sizeof *refused };
    for (int k = 0; k < N; k++)
        check(&refused[k]);
    assert_true(N > 50);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refusals)};
    (void)op_cases;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

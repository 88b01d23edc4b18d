// random_graph.h - seeded random graphs of small shapes, with parameters, tables, inputs
// and block calls.
//
//     RandomGraph r;
//     random_graph(&r, seed, 0);
//     ... a pass on r.g ...
//     Interp *it = random_interp(&r);          // parameters set; r.g as it is now
//     interp_sample(it, &r.batch, s);           // any of r.batch.size samples
//     interp_dlogits(it, random_dlogits);
//     ...
//     random_graph_free(&r);
//
// The same seed gives the same graph and values. Parameters are floats, so that a
// compiled module can be given the same. RANDOM_SMOOTH leaves out whatever has kinks or
// jumps, for finite differences; RANDOM_PLAIN leaves out chance;
// RANDOM_COLUMNS ends with linear layers of columns, RANDOM_PLACES with values that others read
// beside a buffer in which they could be written and changed.

#ifndef RANDOM_GRAPH_H
#define RANDOM_GRAPH_H

#include <stdio.h>

#include "interp.h"
#include "passes.h"

enum { RANDOM_SMOOTH = 1, RANDOM_PLAIN = 2, RANDOM_COLUMNS = 4, RANDOM_PLACES = 8 };
enum {
    RG_POOL = 512,
    RG_SAMPLES = 3,
    RG_ACTIONS = 3,
    RG_L = 7,
    RG_F = 3,
    RG_INTS = 6,
    RG_DENSE = 5
};

typedef struct RandomGraph {
    Mem mem;
    Diag diag;
    Graph *g;
    int flags;
    uint64_t state;
    float **params; // [g->n_params] values
    pcvr_batch batch;
    Node *f[RG_POOL]; // f32 values so far, rank 0 to 3
    int n_f;
    Node *rows[2];              // two matrices [RG_L, 8] of events, always at hand
    Node *length, *times, *pad; // i64, i64[RG_L], bool[RG_L]
} RandomGraph;

static const double random_dlogits[RG_ACTIONS] = {0.7, -1.1, 0.4};

// ---- numbers ------------------------------------------------------------------------

static inline uint64_t
rg_bits(RandomGraph *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// 0 .. n - 1
static inline int
rg_int(RandomGraph *r, int n)
{
    return (int)(rg_bits(r) >> 33) % n;
}

// -1 .. 1, a float
static inline double
rg_real(RandomGraph *r)
{
    return (double)(float)((double)(rg_bits(r) >> 40) / 8388608.0 - 1.0);
}

// ---- building -----------------------------------------------------------------------

static inline Place
rg_place(void)
{
    return (Place){0};
}

static inline Shape
rg_shape(int rank, int64_t a, int64_t b, int64_t c)
{
    int64_t dim[] = {a, b, c};
    return shape_of(rank, dim);
}

static inline Node *
rg_param(RandomGraph *r, Shape s, bool table)
{
    Param p = {.name = arena_printf(&r->mem.perm, "p%d", r->g->n_params),
               .shape = s,
               .init = INIT_UNIFORM,
               .init_value = 1,
               .table = table,
               .padding = table && rg_int(r, 2),
               .frozen = rg_int(r, 12) == 0};
    return graph_param_node(r->g, graph_param(r->g, p), rg_place());
}

static inline Node *
rg_unary(RandomGraph *r, Op op, Node *x)
{
    return graph_unary(r->g, op, x, rg_place());
}

static inline Node *
rg_binary(RandomGraph *r, Op op, Node *a, Node *b)
{
    return graph_binary(r->g, op, a, b, rg_place());
}

static inline Node *
rg_add(RandomGraph *r, Op op, int n, Node *const *in, Attr a)
{
    return graph_add(r->g, op, in, n, a, rg_place());
}

static inline Node *
rg_number(RandomGraph *r, double v)
{
    return graph_scalar(r->g, v, rg_place());
}

// Keeps magnitudes near one, so that nothing explodes.
static inline Node *
rg_tame(RandomGraph *r, Node *x)
{
    return rg_int(r, 2) ? rg_unary(r, OP_TANH, x)
                        : rg_binary(r, OP_MUL, x, rg_number(r, 0.25 + 0.25 * rg_real(r)));
}

// A value of the pool with that rank: the newest are likelier.
static inline Node *
rg_pick(RandomGraph *r, int rank)
{
    for (int tries = 0; tries < 40; tries++) {
        int back = rg_int(r, tries < 20 && r->n_f > 6 ? 6 : r->n_f);
        Node *x = r->f[r->n_f - 1 - back];
        if (x->shape.rank == rank && shape_size(x->shape) > 0)
            return x;
    }
    Node *m = r->rows[rg_int(r, 2)];
    int64_t axes[] = {0, 1};
    if (rank == 2)
        return m;
    if (rank < 2)
        return graph_reduce(r->g, OP_SUM, m, axes, 2 - rank, false, rg_place());
    return graph_reshape(r->g, m, rg_shape(3, RG_L, 2, 4), rg_place());
}

// ---- one random operation each ------------------------------------------------------

static inline Node *
rg_pointwise(RandomGraph *r)
{
    static const Op smooth[] = {OP_NEG,     OP_SIN,  OP_COS,  OP_TANH,
                                OP_SIGMOID, OP_SILU, OP_GELU, OP_SOFTPLUS};
    static const Op kinked[] = {OP_ABS, OP_RELU};
    Node *x = rg_pick(r, rg_int(r, 4));
    if (!(r->flags & RANDOM_SMOOTH) && rg_int(r, 4) == 0)
        return rg_unary(r, kinked[rg_int(r, 2)], x);
    return rg_unary(r, smooth[rg_int(r, 8)], x);
}

// Functions on their domains.
static inline Node *
rg_domain(RandomGraph *r)
{
    Node *x = rg_pick(r, rg_int(r, 3));
    Node *positive = rg_binary(r, OP_ADD, rg_unary(r, OP_SOFTPLUS, x), rg_number(r, 0.1));
    switch (rg_int(r, 7)) {
    case 0:
        return rg_unary(r, OP_EXP, rg_unary(r, OP_TANH, x));
    case 1:
        return rg_unary(r, OP_LOG, positive);
    case 2:
        return rg_unary(r, OP_LOG1P, positive);
    case 3:
        return rg_unary(r, OP_SQRT, positive);
    case 4:
        return rg_binary(r, OP_DIV, x, positive);
    case 5:
        return rg_add(r, OP_POW, 1, &positive, (Attr){.p = 1.5});
    default:
        return r->flags & RANDOM_SMOOTH ? x : rg_unary(r, OP_DETACH, x);
    }
}

// x with something that broadcasts to it: itself, a parameter, a row, a column, a number.
static inline Node *
rg_arith(RandomGraph *r)
{
    static const Op ops[] = {OP_ADD, OP_SUB, OP_MUL, OP_ADD, OP_MAX2, OP_MIN2};
    Op op = ops[rg_int(r, r->flags & RANDOM_SMOOTH ? 4 : 6)];
    int rank = 1 + rg_int(r, 3);
    Node *x = rg_pick(r, rank), *y = x;
    int64_t last = x->shape.rank - 1;
    switch (rg_int(r, 5)) {
    case 0:
        y = rg_param(r, x->shape, false);
        break;
    case 1:
        y = rg_param(r, rg_shape(1, x->shape.dim[last], 0, 0), false);
        break;
    case 2:
        y = graph_reduce(r->g, OP_SUM, x, &last, 1, true, rg_place());
        break;
    case 3:
        y = rg_number(r, rg_real(r));
        break;
    default:
        break;
    }
    Node *z = rg_int(r, 2) ? rg_binary(r, op, x, y) : rg_binary(r, op, y, x);
    return op == OP_MUL ? rg_tame(r, z) : z;
}

static inline Node *
rg_linear(RandomGraph *r)
{
    Node *x = rg_pick(r, 2 + (rg_int(r, 4) == 0));
    int64_t in = x->shape.dim[x->shape.rank - 1], out = 4 * (1 + rg_int(r, 3));
    bool tb = rg_int(r, 3) > 0;
    Node *w = rg_param(r, tb ? rg_shape(2, out, in, 0) : rg_shape(2, in, out, 0), false);
    Node *y = graph_matmul(r->g, x, w, false, tb, rg_place());
    if (rg_int(r, 2))
        y = rg_binary(r, OP_ADD, y, rg_param(r, rg_shape(1, out, 0, 0), false));
    return rg_tame(r, y);
}

// A packed projection, its parameter cut in two along the rows.
static inline Node *
rg_packed(RandomGraph *r)
{
    Node *x = rg_pick(r, 2);
    int64_t in = x->shape.dim[1];
    Node *w = rg_param(r, rg_shape(2, 8, in, 0), false), *y[2];
    if (rg_int(r, 2)) {
        for (int k = 0; k < 2; k++)
            y[k] = graph_matmul(r->g, x, graph_slice(r->g, w, 0, 4 * k, 4, rg_place()),
                                false, true, rg_place());
    } else {
        Node *both = graph_matmul(r->g, x, w, false, true, rg_place());
        for (int k = 0; k < 2; k++)
            y[k] = graph_slice(r->g, both, 1, 4 * k, 4, rg_place());
    }
    return rg_binary(r, OP_MUL, rg_unary(r, OP_SIGMOID, y[0]),
                     rg_unary(r, OP_TANH, y[1]));
}

static inline Node *
rg_norm(RandomGraph *r)
{
    Node *x = rg_pick(r, 2);
    bool layer = rg_int(r, 2);
    Node *y = rg_add(r, OP_NORMALIZE, 1, &x, (Attr){.keep = layer, .p = 1e-2});
    Node *w = rg_param(r, rg_shape(1, x->shape.dim[1], 0, 0), false);
    y = rg_binary(r, OP_MUL, y, w);
    return layer ? rg_binary(r, OP_ADD, y, rg_param(r, w->shape, false)) : y;
}

static inline Node *
rg_softmax(RandomGraph *r)
{
    Node *x = rg_pick(r, 2);
    Node *scores = graph_matmul(r->g, x, x, false, true, rg_place());
    Node *in[] = {rg_tame(r, scores), r->pad};
    bool masked = scores->shape.dim[1] == RG_L && rg_int(r, 2);
    Node *w =
        rg_add(r, OP_SOFTMAX, masked ? 2 : 1, in, (Attr){.axis = masked || rg_int(r, 2)});
    return graph_matmul(r->g, w, x, rg_int(r, 2), false, rg_place());
}

static inline Node *
rg_move(RandomGraph *r)
{
    Graph *g = r->g;
    Node *x = rg_pick(r, 2 + (rg_int(r, 3) == 0));
    int axis = rg_int(r, x->shape.rank);
    int64_t n = x->shape.dim[axis], start = rg_int(r, (int)n);
    int64_t count = 1 + rg_int(r, (int)(n - start));
    int64_t swap[] = {1, 0, 2}, flat[] = {shape_size(x->shape)};
    switch (rg_int(r, 6)) {
    case 0:
        return graph_slice(g, x, axis, start, count, rg_place());
    case 1:
        return graph_pad(g, x, axis, rg_int(r, 2), n + 2, rg_place());
    case 2:
        return graph_permute(g, x, swap, rg_place());
    case 3:
        return graph_reshape(g, x, shape_of(1, flat), rg_place());
    case 4: {
        Node *part = graph_slice(g, x, axis, start, count, rg_place());
        Node *both[] = {x, part};
        return graph_concat(g, both, 2, axis, rg_place());
    }
    default: {
        Node *y = graph_slice(g, x, 0, 0, 1, rg_place());
        return graph_expand(g, y, x->shape, rg_place());
    }
    }
}

static inline Node *
rg_gather(RandomGraph *r)
{
    Node *x = rg_pick(r, 2);
    int64_t ids[4];
    int64_t n = 1 + rg_int(r, 4);
    for (int k = 0; k < 4; k++)
        ids[k] = rg_int(r, 9);
    Node *i = graph_const_i(r->g, DT_I64, shape_of(1, &n), ids, n, rg_place());
    if (rg_int(r, 3) == 0)
        i = graph_binary(r->g, OP_ADD, r->length, i, rg_place()); // data says where
    if (rg_int(r, 4) == 0)
        i = r->length;
    return graph_gather(r->g, x, i, i->shape.rank ? rg_int(r, 2) : 0, rg_place());
}

static inline Node *
rg_reduce(RandomGraph *r)
{
    static const Op ops[] = {OP_SUM, OP_SUM, OP_MAX, OP_MIN};
    Node *x = rg_pick(r, 1 + rg_int(r, 3));
    int64_t axis = rg_int(r, x->shape.rank);
    Op op = ops[rg_int(r, r->flags & RANDOM_SMOOTH ? 2 : 4)];
    return rg_tame(r, graph_reduce(r->g, op, x, &axis, 1, rg_int(r, 2), rg_place()));
}

// Rows of pads are replaced, by a number or by a value that must not be read.
static inline Node *
rg_select(RandomGraph *r)
{
    Node *x = rg_pick(r, 2);
    if (x->shape.dim[0] != RG_L)
        x = r->rows[rg_int(r, 2)];
    Node *column = graph_reshape(r->g, r->pad, rg_shape(2, RG_L, 1, 0), rg_place());
    Node *other = rg_number(r, rg_int(r, 2) ? 0 : 0.5);
    if (!(r->flags & RANDOM_SMOOTH) && rg_int(r, 3) == 0) {
        Node *above = rg_binary(r, OP_LT, rg_number(r, 0.1), x);
        return graph_select(r->g, above, rg_unary(r, OP_LOG, x), other, rg_place());
    }
    return graph_select(r->g, column, other, x, rg_place());
}

static inline Node *
rg_lookup(RandomGraph *r)
{
    Graph *g = r->g;
    Node *table = rg_param(r, rg_shape(2, 5 + rg_int(r, 4), 8, 0), true);
    Node *events =
        graph_input(g, IN_EVENTS, 0, "seq_a.events", DT_I64, rg_shape(2, RG_F, RG_L, 0));
    Node *ints =
        graph_input(g, IN_USER_INTS, -1, "user.ints", DT_I64, rg_shape(1, RG_INTS, 0, 0));
    Node *line =
        graph_reshape(g, graph_slice(g, events, 0, rg_int(r, RG_F), 1, rg_place()),
                      rg_shape(1, RG_L, 0, 0), rg_place());
    Node *in[] = {table, line};
    switch (rg_int(r, 4)) {
    case 0:
        in[1] = graph_slice(g, ints, 0, 1, 3, rg_place());
        break;
    case 1:
        in[1] = graph_permute(g, events, (const int64_t[]){1, 0}, rg_place());
        break;
    default:
        break;
    }
    bool bag = in[1] != line;
    Node *y = rg_add(r, bag ? OP_BAG_MEAN : OP_EMBED, 2, in, (Attr){0});
    if (y->shape.rank == 1) // twice from one table
        y = rg_binary(r, OP_ADD, y,
                      rg_add(r, OP_EMBED, 2, (Node *[]){table, line}, (Attr){0}));
    return y;
}

static inline const Mask *
rg_mask_node(RandomGraph *r, MaskKind kind, const Mask *a, const Mask *b, int64_t value)
{
    Mask *m = arena_new(&r->mem.perm, Mask);
    m->kind = kind;
    m->value = value;
    m->n_kids = !!a + !!b;
    m->kid[0] = (Mask *)(uintptr_t)a;
    m->kid[1] = (Mask *)(uintptr_t)b;
    return m;
}

// Causal, window or all; with or without padding (operand 3).
static inline const Mask *
rg_mask(RandomGraph *r, bool padded)
{
    const Mask *i = rg_mask_node(r, MASK_I, NULL, NULL, 0),
               *j = rg_mask_node(r, MASK_J, NULL, NULL, 0);
    const Mask *structure = NULL;
    int kind = rg_int(r, 3);
    if (kind == 0)
        structure = rg_mask_node(r, MASK_LE, j, i, 0);
    if (kind == 1) {
        const Mask *d =
            rg_mask_node(r, MASK_ABS, rg_mask_node(r, MASK_SUB, i, j, 0), NULL, 0);
        structure =
            rg_mask_node(r, MASK_LE, d, rg_mask_node(r, MASK_INT, NULL, NULL, 2), 0);
    }
    if (!padded)
        return structure;
    const Mask *free =
        rg_mask_node(r, MASK_NOT, rg_mask_node(r, MASK_TENSOR, j, NULL, 3), NULL, 0);
    return structure ? rg_mask_node(r, MASK_AND, structure, free, 0) : free;
}

static inline Node *
rg_attend(RandomGraph *r)
{
    Node *in[4];
    bool padded = rg_int(r, 2);
    Node *x = rg_pick(r, 2), *c = padded ? r->rows[rg_int(r, 2)] : rg_pick(r, 2);
    for (int k = 0; k < 3; k++) {
        Node *from = k ? c : x;
        Node *w = rg_param(r, rg_shape(2, 8, from->shape.dim[1], 0), false);
        in[k] = rg_tame(r, graph_matmul(r->g, from, w, false, true, rg_place()));
    }
    if (rg_int(r, 3) == 0)
        in[0] =
            rg_add(r, OP_ROPE, 2,
                   (Node *[]){in[0], graph_iota(r->g, in[0]->shape.dim[0], rg_place())},
                   (Attr){.heads = 2, .p = 50, .adjacent = rg_int(r, 2)});
    in[3] = r->pad;
    Attr a = {.heads = 2, .mask = rg_mask(r, padded)};
    a.q_rows = in[0]->shape.dim[0];
    a.k_rows = in[1]->shape.dim[0];
    if (!(r->flags & RANDOM_PLAIN) && rg_int(r, 2)) {
        a.p = 0.3;
        a.site = ++r->g->n_sites;
    }
    return rg_add(r, OP_ATTEND, padded ? 4 : 3, in, a);
}

static inline Node *
rg_chance(RandomGraph *r)
{
    Node *x = rg_pick(r, 2);
    Attr a = {.p = 0.25, .pitch = x->shape.dim[1]};
    if (r->flags & RANDOM_PLAIN)
        return rg_tame(r, x);
    a.site = ++r->g->n_sites;
    if (rg_int(r, 2))
        return rg_add(r, OP_DROPOUT, 1, &x, a);
    a.shape = x->shape;
    return graph_select(r->g, rg_add(r, OP_CHANCE, 0, NULL, a), rg_number(r, 0), x,
                        rg_place());
}

// Integer work that ends in something float.
static inline Node *
rg_integers(RandomGraph *r)
{
    Graph *g = r->g;
    Node *x = r->times;
    static const int64_t bounds[] = {2, 5, 9};
    const Const c = {3, NULL, bounds};
    switch (rg_int(r, 4)) {
    case 0:
        x = rg_unary(r, OP_ARGSORT, x);
        break;
    case 1:
        x = rg_add(r, OP_BUCKETIZE, 1, &x, (Attr){.data = &c});
        break;
    case 2:
        x = rg_binary(r, OP_MOD, x, graph_integer(g, 4, rg_place()));
        break;
    default:
        x = rg_binary(r, OP_FLOORDIV, x, graph_integer(g, 3, rg_place()));
        break;
    }
    Node *y = rg_binary(r, OP_MUL, rg_unary(r, OP_TO_F32, x), rg_number(r, 0.1));
    Node *column = graph_reshape(g, y, rg_shape(2, RG_L, 1, 0), rg_place());
    return rg_binary(r, OP_MUL, column, r->rows[rg_int(r, 2)]);
}

static inline Node *
rg_product(RandomGraph *r)
{
    Node *x = rg_pick(r, 3);
    bool ta = rg_int(r, 2);
    return rg_tame(r, graph_matmul(r->g, x, x, ta, !ta, rg_place()));
}

// ---- the whole ----------------------------------------------------------------------

static inline void
rg_inputs(RandomGraph *r)
{
    Graph *g = r->g;
    r->length = graph_input(g, IN_LENGTH, 0, "seq_a.length", DT_I64, (Shape){0});
    r->times =
        graph_input(g, IN_TIMES, 0, "seq_a.times", DT_I64, rg_shape(1, RG_L, 0, 0));
    r->pad =
        graph_binary(g, OP_LE, r->length, graph_iota(g, RG_L, rg_place()), rg_place());
    Node *dense = graph_input(g, IN_USER_DENSE, -1, "user.dense", DT_F32,
                              rg_shape(1, RG_DENSE, 0, 0));
    r->f[r->n_f++] = dense;
    Node *events =
        graph_input(g, IN_EVENTS, 0, "seq_a.events", DT_I64, rg_shape(2, RG_F, RG_L, 0));
    for (int k = 0; k < 2; k++) {
        Node *in[] = {rg_param(r, rg_shape(2, 7 + k, 8, 0), true),
                      graph_reshape(g, graph_slice(g, events, 0, k, 1, rg_place()),
                                    rg_shape(1, RG_L, 0, 0), rg_place())};
        r->rows[k] = rg_add(r, OP_EMBED, 2, in, (Attr){0});
        g->params[in[0]->a.index].frozen = false;
        r->f[r->n_f++] = r->rows[k];
    }
}

// Two linear layers of a vector in each of three columns, with weights of their own.
static inline Node *
rg_columns(RandomGraph *r)
{
    enum { COLUMNS = 3, WIDTH = 8 };
    Node *x = rg_pick(r, 1);
    int64_t in = x->shape.dim[0];
    x = rg_binary(r, OP_MUL, x, rg_param(r, rg_shape(2, COLUMNS, in, 0), false));
    for (int k = 0; k < 2; k++, in = WIDTH) {
        bool tb = rg_int(r, 2);
        Shape s = tb ? rg_shape(3, COLUMNS, WIDTH, in) : rg_shape(3, COLUMNS, in, WIDTH);
        Node *row = graph_reshape(r->g, rg_unary(r, OP_TANH, x),
                                  rg_shape(3, COLUMNS, 1, in), rg_place());
        x = graph_matmul(r->g, row, rg_param(r, s, false), false, tb, rg_place());
        x = graph_reshape(r->g, x, rg_shape(2, COLUMNS, WIDTH, 0), rg_place());
        x = rg_binary(r, OP_ADD, x, rg_param(r, rg_shape(2, COLUMNS, WIDTH, 0), false));
    }
    return rg_tame(r, x);
}

// A linear layer of [rows, 8].
static inline Node *
rg_layer(RandomGraph *r, Node *x)
{
    Node *w = rg_param(r, rg_shape(2, 8, 8, 0), false);
    Node *y = graph_matmul(r->g, x, w, false, false, rg_place());
    return rg_binary(r, OP_ADD, y, rg_param(r, rg_shape(1, 8, 0, 0), false));
}

static inline Node *
rg_rows(RandomGraph *r, Node *x, int start, int count)
{
    return graph_slice(r->g, x, 0, start, count, rg_place());
}

static inline Node *
rg_tanh_sum(RandomGraph *r, Node *x)
{
    static const int64_t axes[] = {0, 1};
    return graph_reduce(r->g, OP_SUM, rg_unary(r, OP_TANH, x), axes, 2, false,
                        rg_place());
}

// Two matrices below each other, with elements dropped; the first is also read as it is, or the adjoint of
// the sum with the second's.
static inline Node *
rg_dropped_pair(RandomGraph *r, bool adjoint)
{
    Node *x = rg_layer(r, rg_unary(r, OP_TANH, r->rows[0]));
    Node *y = rg_layer(r, r->rows[1]),
         *two[] = {adjoint ? y : x, adjoint ? rg_tame(r, y) : y};
    Node *d = graph_concat(r->g, two, 2, 0, rg_place());
    d = rg_add(r, OP_DROPOUT, 1, &d,
               (Attr){.p = 0.5, .pitch = 8, .site = ++r->g->n_sites});
    Node *a = rg_rows(r, d, 0, RG_L),
         *b = rg_unary(r, OP_TANH, rg_rows(r, d, RG_L, RG_L));
    if (adjoint)
        return rg_binary(r, OP_MUL, rg_unary(r, OP_TANH, rg_binary(r, OP_ADD, a, x)), b);
    return rg_binary(r, OP_ADD, rg_binary(r, OP_ADD, rg_unary(r, OP_TANH, a), b), x);
}

// Sums in which an adjoint of some rows goes to two values that are read elsewhere, too; `columns`: or one of
// some columns is added to one of rows.
static inline Node *
rg_shared_adjoint(RandomGraph *r, bool columns)
{
    Node *a = rg_layer(r, rg_unary(r, OP_TANH, r->rows[0])), *b = rg_layer(r, r->rows[1]);
    Node *sum = rg_tanh_sum(r, columns ? graph_slice(r->g, a, 1, 0, 3, rg_place()) : a);
    Node *y = columns ? rg_binary(r, OP_ADD, rg_rows(r, a, 0, 4), rg_rows(r, b, 0, 4))
                      : rg_rows(r, rg_binary(r, OP_ADD, a, b), 0, 4);
    sum = rg_binary(r, OP_ADD, sum, rg_tanh_sum(r, y));
    Node *rest = columns ? rg_rows(r, a, 4, RG_L - 4) : b;
    return rg_binary(r, OP_ADD, sum, rg_tanh_sum(r, rg_unary(r, OP_SIN, rest)));
}

// What a loop leaves is read by another that has as many elements, but not at the same places: one row by
// all, or turned over.
static inline Node *
rg_read_elsewhere(RandomGraph *r)
{
    Node *x = rg_unary(r, OP_TANH, r->rows[0]);
    Node *row = graph_expand(r->g, rg_rows(r, x, 1, 1), x->shape, rg_place());
    Node *y = rg_tame(r, graph_matmul(r->g, x, x, false, true, rg_place()));
    y = rg_unary(r, OP_TANH, y);
    Node *turned = graph_permute(r->g, y, (const int64_t[]){1, 0}, rg_place());
    Node *z[2] = {rg_binary(r, OP_ADD, rg_unary(r, OP_SIGMOID, x), row),
                  rg_binary(r, OP_ADD, rg_unary(r, OP_SIN, y), turned)};
    Node *sum = NULL;
    for (int k = 0; k < 4; k++) { // each twice, so that it is a loop of its own
        Node *v = k < 2 ? z[k] : rg_unary(r, OP_SIN, z[k - 2]);
        sum = sum ? rg_binary(r, OP_ADD, sum, rg_tanh_sum(r, v)) : rg_tanh_sum(r, v);
    }
    return sum;
}

static inline void
rg_places(RandomGraph *r)
{
    Node *pairs =
        rg_binary(r, OP_ADD, rg_dropped_pair(r, false), rg_dropped_pair(r, true));
    Node *sums =
        rg_binary(r, OP_ADD, rg_shared_adjoint(r, false), rg_shared_adjoint(r, true));
    sums = rg_binary(r, OP_ADD, sums, rg_read_elsewhere(r));
    r->f[r->n_f++] = rg_tame(r, pairs);
    r->f[r->n_f++] = rg_binary(r, OP_MUL, sums, rg_number(r, 0.02));
}

// Logits from a few values of the pool.
static inline void
rg_logits(RandomGraph *r)
{
    Graph *g = r->g;
    static const int64_t axes[] = {0, 1, 2};
    Node *sum = NULL;
    for (int k = 0; k < 6; k++) {
        Node *x = k < 2 ? r->f[r->n_f - 1 - k] : r->f[rg_int(r, r->n_f)];
        if (x->shape.rank == 0)
            x = graph_reshape(g, x, rg_shape(1, 1, 0, 0), rg_place());
        int64_t width = x->shape.dim[x->shape.rank - 1];
        x = graph_reduce(g, OP_SUM, x, axes, x->shape.rank - 1, false, rg_place());
        x = graph_reshape(g, rg_unary(r, OP_TANH, x), rg_shape(2, 1, width, 0),
                          rg_place());
        Node *w = rg_param(r, rg_shape(2, RG_ACTIONS, width, 0), false);
        x = graph_matmul(g, x, w, false, true, rg_place());
        sum = sum ? rg_binary(r, OP_ADD, sum, x) : x;
    }
    g->logits = graph_reshape(g, sum, rg_shape(1, RG_ACTIONS, 0, 0), rg_place());
    if (!(r->flags & RANDOM_PLAIN) &&
        r->n_f % 2) { // what is returned twice, once with elements dropped
        Attr a = {.p = 0.25, .pitch = 1, .site = ++g->n_sites};
        g->embedding = rg_add(r, OP_DROPOUT, 1, &g->logits, a);
    }
}

static inline const int64_t *
rg_ids(RandomGraph *r, int n, int limit)
{
    int64_t *v = arena_array(&r->mem.perm, int64_t, n);
    for (int k = 0; k < n; k++)
        v[k] = rg_int(r, limit);
    return v;
}

static inline void
rg_data(RandomGraph *r)
{
    Arena *a = &r->mem.perm;
    pcvr_domain *d = arena_new(a, pcvr_domain);
    float *dense = arena_array(a, float, RG_SAMPLES *RG_DENSE);
    int64_t *lengths = arena_array(a, int64_t, RG_SAMPLES);
    for (int k = 0; k < RG_SAMPLES * RG_DENSE; k++)
        dense[k] = (float)rg_real(r);
    for (int k = 0; k < RG_SAMPLES; k++)
        lengths[k] = rg_int(r, RG_L + 1);
    d->values = rg_ids(r, RG_SAMPLES * RG_F * RG_L, 10); // some beyond their tables
    d->timestamps = rg_ids(r, RG_SAMPLES * RG_L, 12);
    d->lengths = lengths;
    r->batch = (pcvr_batch){.size = RG_SAMPLES,
                            .user_ints = rg_ids(r, RG_SAMPLES * RG_INTS, 9),
                            .user_dense = dense,
                            .n_domains = 1,
                            .domains = d};
    r->params = arena_array(a, float *, r->g->n_params);
    for (int p = 0; p < r->g->n_params; p++) {
        int64_t n = shape_size(r->g->params[p].shape);
        r->params[p] = arena_array(a, float, n);
        for (int64_t k = 0; k < n; k++)
            r->params[p][k] = (float)(0.8 * rg_real(r));
    }
}

// Builds the forward graph, marks unused parameters.
static inline void
random_graph(RandomGraph *r, uint64_t seed, int flags)
{
    static Node *(*const make[])(RandomGraph *) = {
        rg_pointwise, rg_pointwise, rg_domain, rg_arith,    rg_arith,
        rg_linear,    rg_linear,    rg_packed, rg_norm,     rg_softmax,
        rg_move,      rg_move,      rg_gather, rg_reduce,   rg_select,
        rg_lookup,    rg_attend,    rg_chance, rg_integers, rg_product,
    };
    *r = (RandomGraph){.flags = flags, .state = seed * 1000003 + 17};
    mem_init(&r->mem);
    diag_init(&r->diag, &r->mem);
    r->g = graph_new(&r->mem, &r->diag);
    rg_inputs(r);
    int steps = 10 + rg_int(r, 30), block = 0;
    for (int k = 0; k < steps; k++) {
        if (rg_int(r, 5) == 0) { // blocks of a few operations, with stretches between
            const char *name = arena_printf(&r->mem.perm, "blocks.%d", block++);
            r->g->call = r->g->call ? NULL : graph_call(r->g, name, NULL, rg_place());
        }
        Node *x = make[rg_int(r, sizeof make / sizeof *make)](r);
        if (!x)
            die("random graph %d: %s", (int)seed, diag_text(&r->diag, &r->mem.perm));
        if (shape_size(x->shape) <= 300 && x->shape.rank <= 3)
            r->f[r->n_f++] = x;
    }
    if (flags & RANDOM_COLUMNS) {
        Node *x = rg_columns(r);
        r->f[r->n_f++] = x;
    }
    r->g->call = NULL;
    if (flags & RANDOM_PLACES)
        rg_places(r);
    rg_logits(r);
    mark_unused(r->g);
    rg_data(r);
}

static inline void
random_graph_free(RandomGraph *r)
{
    mem_free(&r->mem);
}

// An interpreter of the graph as it is now, in training with seed 11, step 2.
static inline Interp *
random_interp(const RandomGraph *r)
{
    Interp *it = interp_new(r->g);
    for (int p = 0; p < r->g->n_params; p++)
        interp_param_f32(it, p, r->params[p]);
    interp_chance(it, true, 11, 2);
    return it;
}

#endif

// absorb_case.h - random graphs of one or two attentions, for absorb: what they are made of, and whether the pass
// should take their key and value layers in.
//
//     Case c;
//     case_random(&c, seed);
//     ... passes on c.r.g; c.spec[k] says what attention k is, expected(&c.spec[k]) what becomes of it ...
//     case_free(&c);
//
// The second attention's queries are the first's results, and its rows may have them behind. Attention k stands in
// block call "blocks.k". Every element of a result moves the logits.

#ifndef ABSORB_CASE_H
#define ABSORB_CASE_H

#include "random_graph.h"

enum { MOST = 2, LONGEST = 24 }; // attentions; keys and queries are no more
enum { KEY, VALUE };

// What stands against it.
typedef enum Why {
    NOTHING,
    KEY_READ,     // something else reads the keys
    KEY_SHOWN,    // they are the embedding
    VALUE_READ,   // something else reads the values
    PRODUCT_READ, // something else reads the keys before their bias
    SAME,         // the values are the keys
    OTHER_ROWS,   // values of another input
    ODD_BIAS,     // a bias of its own for each row
    ONE_WEIGHT,   // the same for all leading positions
    TRANSPOSED,   // rows are columns
    FIRST_PRUNED, // the first query is not asked for
    LAST_PRUNED,  // the last ones are not
    N_WHY
} Why;

typedef enum Bias { NO_BIAS, FLAT_BIAS, ROW_BIAS, LED_BIAS, N_BIAS } Bias; // [D], [1, .., D], [lead, 1, D]
typedef enum Closed { OPEN, PADDED, MIXED, SHUT, N_CLOSED } Closed; // masks: SHUT allows nothing

typedef struct Spec {
    int n_lead;
    int64_t lead[2];
    int64_t width, S, T, H, D; // of rows, keys, queries, heads, of an attention
    bool tb[2];
    Bias bias[2];
    double p;
    Closed closed;
    Why why;
    int rows, queries;       // where they come from
    int64_t k_first, k_rows; // keys that were pruned
    int64_t q_first, q_rows;
    bool outside; // layers stand before the block
} Spec;

// What was built of it: parameters by index, -1 for none.
typedef struct Built {
    int weight[2], bias[2];
    bool with_i; // the mask reads i
} Built;

typedef struct Case {
    RandomGraph r;
    int n;
    Spec spec[MOST];
    Built built[MOST];
} Case;

// ---- the rule ------------------------------------------------------------------------------------------

// Attention of all heads' queries on rows costs well below the two layers, for each key.
static inline bool
gains(const Spec *s)
{
    int64_t columns = s->width + (s->p > 0 ? 16 : 0);
    return 3 * s->T * s->H * columns <= 2 * s->D * (s->width + s->T);
}

static inline bool
expected(const Spec *s)
{
    return s->why == NOTHING && gains(s);
}

// ---- building ------------------------------------------------------------------------------------------

static inline Shape
led(const Spec *s, int64_t rows, int64_t columns)
{
    Shape x = {.rank = s->n_lead + 2};
    for (int k = 0; k < s->n_lead; k++)
        x.dim[k] = s->lead[k];
    x.dim[s->n_lead] = rows;
    x.dim[s->n_lead + 1] = columns;
    return x;
}

static inline Node *
trained(RandomGraph *r, Shape s)
{
    Node *p = rg_param(r, s, false);
    r->g->params[p->a.index].frozen = false;
    return p;
}

// A number of the sample.
static inline Node *
sample_number(RandomGraph *r)
{
    Node *dense = graph_input(r->g, IN_USER_DENSE, -1, "user.dense", DT_F32, rg_shape(1, RG_DENSE, 0, 0));
    return rg_unary(r, OP_TANH, graph_reduce(r->g, OP_SUM, dense, NULL, -1, false, rg_place()));
}

static inline Node *
build_rows(RandomGraph *r, const Spec *s)
{
    Graph *g = r->g;
    if (s->why == TRANSPOSED)
        return trained(r, led(s, s->width, s->S));
    if (s->rows == 1 && s->S <= RG_L) { // looked up
        Node *events = graph_input(g, IN_EVENTS, 0, "seq_a.events", DT_I64, rg_shape(2, RG_F, RG_L, 0));
        Node *line = graph_reshape(g, graph_slice(g, events, 0, 1, 1, rg_place()), rg_shape(1, RG_L, 0, 0), rg_place());
        Node *in[] = {rg_param(r, rg_shape(2, 9, s->width, 0), true), graph_slice(g, line, 0, 0, s->S, rg_place())};
        Node *x = rg_add(r, OP_EMBED, 2, in, (Attr){0});
        return s->n_lead > 0 ? rg_binary(r, OP_ADD, x, trained(r, led(s, 1, s->width))) : x;
    }
    Node *x = trained(r, led(s, s->S, s->width));
    return s->rows == 2 ? rg_binary(r, OP_MUL, x, sample_number(r)) : x;
}

static inline Node *
build_queries(RandomGraph *r, const Spec *s, Node *x)
{
    if (s->queries == 0 || s->T > s->S || s->why == TRANSPOSED)
        return rg_binary(r, OP_MUL, trained(r, led(s, s->T, s->D)), sample_number(r));
    Node *some = graph_slice(r->g, x, s->n_lead, s->S - s->T, s->T, rg_place());
    return graph_matmul(r->g, some, rg_param(r, led(s, s->width, s->D), false), false, false, rg_place());
}

// The layer that an odd one is about: of keys or values.
static inline int
odd_layer(const Spec *s)
{
    return s->H % 2;
}

// Layer k of x; `product` gets what is below the bias.
static inline Node *
build_layer(RandomGraph *r, const Spec *s, Built *b, int k, Node *x, Node **product)
{
    int64_t from = s->tb[k] ? s->D : s->width, to = s->tb[k] ? s->width : s->D;
    bool odd = k == odd_layer(s);
    Node *w = rg_param(r, odd && s->why == ONE_WEIGHT ? rg_shape(2, from, to, 0) : led(s, from, to), false);
    b->weight[k] = (int)w->a.index;
    b->bias[k] = -1;
    Node *y = *product = graph_matmul(r->g, x, w, s->why == TRANSPOSED, s->tb[k], rg_place());
    if (s->bias[k] == NO_BIAS)
        return y;
    Spec ones = {.n_lead = s->n_lead, .lead = {1, 1}};
    Shape shape = odd && s->why == ODD_BIAS ? led(s, s->S, s->D)
                  : s->bias[k] == LED_BIAS  ? led(s, 1, s->D)
                  : s->bias[k] == ROW_BIAS  ? led(&ones, 1, s->D)
                                            : rg_shape(1, s->D, 0, 0);
    Node *bias = rg_param(r, shape, false);
    b->bias[k] = (int)bias->a.index;
    return rg_int(r, 2) ? rg_binary(r, OP_ADD, y, bias) : rg_binary(r, OP_ADD, bias, y);
}

// ---- masks ---------------------------------------------------------------------------------------------

static inline const Mask *
leaf(RandomGraph *r, MaskKind kind, int64_t value)
{
    return rg_mask_node(r, kind, NULL, NULL, value);
}

static inline const Mask *
pair(RandomGraph *r, MaskKind kind, const Mask *a, const Mask *b)
{
    return rg_mask_node(r, kind, a, b, 0);
}

static inline const Mask *
captured(RandomGraph *r, int operand, const Mask *at)
{
    return rg_mask_node(r, MASK_TENSOR, at, NULL, operand);
}

static inline const Mask *
listed(RandomGraph *r, const Mask *at)
{
    Mask *m = (Mask *)(uintptr_t)rg_mask_node(r, MASK_LIST, at, NULL, 0);
    m->n_list = LONGEST;
    int64_t *v = arena_array(&r->mem.perm, int64_t, m->n_list);
    for (int64_t k = 0; k < m->n_list; k++)
        v[k] = rg_int(r, 3);
    m->list = v;
    return m;
}

static inline const Mask *
choice(RandomGraph *r, const Mask *c, const Mask *a, const Mask *b)
{
    Mask *m = (Mask *)(uintptr_t)pair(r, MASK_IF, c, a);
    m->kid[2] = (Mask *)(uintptr_t)b;
    m->n_kids = 3;
    return m;
}

// Operands: 3 bool of keys, 4 bool of queries, 5 i64 of either, 6 an i64.
static inline const Mask *
mask_atom(RandomGraph *r)
{
    const Mask *i = leaf(r, MASK_I, 0), *j = leaf(r, MASK_J, 0), *c = leaf(r, MASK_INT, rg_int(r, 4));
    switch (rg_int(r, 9)) {
    case 0:
        return pair(r, MASK_LE, j, pair(r, MASK_ADD, i, c));
    case 1:
        return pair(r, MASK_GT, rg_mask_node(r, MASK_ABS, pair(r, MASK_SUB, i, j), NULL, 0), c);
    case 2:
        return pair(r, MASK_NE, pair(r, MASK_MOD, pair(r, MASK_ADD, i, j), leaf(r, MASK_INT, 3)), c);
    case 3:
        return pair(r, MASK_EQ, listed(r, i), listed(r, j));
    case 4:
        return rg_mask_node(r, MASK_NOT, captured(r, 3, j), NULL, 0);
    case 5:
        return captured(r, 4, i);
    case 6:
        return pair(r, MASK_LE, captured(r, 5, i), captured(r, 5, j));
    case 7:
        return pair(r, MASK_LT, pair(r, MASK_SUB, pair(r, MASK_MUL, i, c), j), captured(r, 6, NULL));
    default:
        return pair(r, MASK_GE, pair(r, MASK_FLOORDIV, i, leaf(r, MASK_INT, 2)), pair(r, MASK_SUB, j, c));
    }
}

static inline const Mask *
mask_tree(RandomGraph *r, int depth)
{
    if (depth == 0)
        return mask_atom(r);
    const Mask *a = mask_tree(r, depth - 1), *b = mask_tree(r, depth - 1);
    switch (rg_int(r, 4)) {
    case 0:
        return pair(r, MASK_OR, a, b);
    case 1:
        return choice(r, mask_atom(r), a, b);
    case 2:
        return a;
    default:
        return pair(r, MASK_AND, a, b);
    }
}

static inline bool
mask_has(const Mask *m, MaskKind kind)
{
    bool has = m != NULL && m->kind == kind;
    for (int k = 0; m != NULL && k < m->n_kids; k++)
        has = has || mask_has(m->kid[k], kind);
    return has;
}

static inline const Mask *
build_mask(RandomGraph *r, const Spec *s)
{
    const Mask *tensor = captured(r, 3, leaf(r, MASK_J, 0));
    switch (s->closed) {
    case OPEN:
        return NULL;
    case PADDED:
        return rg_mask_node(r, MASK_NOT, tensor, NULL, 0);
    case SHUT:
        return tensor;
    default:
        return mask_tree(r, rg_int(r, 3));
    }
}

// The tensors a mask may read: of the sample, as long as keys and queries as written.
static inline int
build_captured(RandomGraph *r, const Spec *s, Node **in)
{
    int64_t keys = s->k_first + s->S, queries = s->q_first + s->T;
    Node *of_keys = graph_iota(r->g, keys, rg_place()), *of_queries = graph_iota(r->g, queries, rg_place());
    Node *longest = keys > queries ? of_keys : of_queries, *zero = graph_integer(r->g, 0, rg_place());
    if (s->closed == SHUT) { // nothing that folding could know
        in[0] = rg_binary(r, OP_LT, rg_binary(r, OP_ADD, r->length, of_keys), zero);
        return 1;
    }
    in[0] = rg_binary(r, OP_LE, r->length, of_keys);
    if (s->closed == PADDED)
        return 1;
    Node *odd = rg_binary(r, OP_MOD, rg_binary(r, OP_ADD, r->length, of_queries), graph_integer(r->g, 3, rg_place()));
    in[1] = rg_binary(r, OP_NE, odd, zero);
    Node *moved = rg_binary(r, OP_ADD, rg_binary(r, OP_ADD, r->length, r->length), longest);
    in[2] = rg_binary(r, OP_MOD, moved, graph_integer(r->g, 5, rg_place()));
    in[3] = r->length;
    return 4;
}

static inline Node *
build_attend(RandomGraph *r, const Spec *s, Built *b, Node *q, Node *k, Node *v)
{
    Node *in[7] = {q, k, v};
    Attr a = {.heads = s->H, .p = s->p, .mask = build_mask(r, s)};
    a.q_first = s->q_first;
    a.q_rows = s->q_rows;
    a.k_first = s->k_first;
    a.k_rows = s->k_rows;
    if (s->p > 0)
        a.site = ++r->g->n_sites;
    b->with_i = mask_has(a.mask, MASK_I);
    int n = mask_has(a.mask, MASK_TENSOR) ? 3 + build_captured(r, s, in + 3) : 3;
    return rg_add(r, OP_ATTEND, n, in, a);
}

// ---- graphs --------------------------------------------------------------------------------------------

// Adds something to the logits that every element of x moves, zeros as well.
static inline void
add_logits(RandomGraph *r, Node *x)
{
    Graph *g = r->g;
    int64_t n = shape_size(x->shape);
    x = rg_binary(r, OP_ADD, x, trained(r, rg_shape(1, x->shape.dim[x->shape.rank - 1], 0, 0)));
    x = graph_reshape(g, rg_unary(r, OP_TANH, x), rg_shape(2, 1, n, 0), rg_place());
    x = graph_matmul(g, x, trained(r, rg_shape(2, n, RG_ACTIONS, 0)), false, false, rg_place());
    x = graph_reshape(g, x, rg_shape(1, RG_ACTIONS, 0, 0), rg_place());
    g->logits = g->logits ? rg_binary(r, OP_ADD, g->logits, x) : x;
}

static inline Node *
build_attention(RandomGraph *r, const Spec *s, Built *b, Call *call, Node *q, Node *x)
{
    Node *layer[2], *product[2];
    r->g->call = s->outside ? NULL : call;
    for (int k = 0; k < 2; k++) {
        Node *rows = k == VALUE && s->why == OTHER_ROWS ? build_rows(r, s) : x;
        layer[k] = build_layer(r, s, b, k, rows, &product[k]);
    }
    if (s->why == SAME)
        layer[VALUE] = layer[KEY];
    r->g->call = call;
    Node *y = build_attend(r, s, b, q, layer[KEY], layer[VALUE]);
    r->g->call = NULL;
    if (s->why == KEY_READ || s->why == VALUE_READ)
        add_logits(r, layer[s->why == VALUE_READ]);
    if (s->why == PRODUCT_READ)
        add_logits(r, product[KEY]);
    if (s->why == KEY_SHOWN)
        r->g->embedding = layer[KEY];
    return y;
}

// The next attention's rows: the last one's, or with its results behind them.
static inline Node *
next_rows(RandomGraph *r, const Spec *last, const Spec *s, Node *x, Node *y)
{
    if (s->S == last->S)
        return x;
    Node *w = rg_param(r, led(last, last->D, last->width), false);
    if (x->shape.rank < y->shape.rank)
        x = graph_expand(r->g, x, led(last, last->S, last->width), rg_place());
    Node *parts[] = {x, graph_matmul(r->g, y, w, false, false, rg_place())};
    return graph_concat(r->g, parts, 2, last->n_lead, rg_place());
}

static inline void
case_begin(Case *c, uint64_t seed)
{
    *c = (Case){.r = {.state = seed * 1000003 + 29}};
    mem_init(&c->r.mem);
    diag_init(&c->r.diag, &c->r.mem);
    c->r.g = graph_new(&c->r.mem, &c->r.diag);
    rg_inputs(&c->r);
}

static inline void
case_build(Case *c)
{
    RandomGraph *r = &c->r;
    Node *x = NULL, *y = NULL;
    for (int k = 0; k < c->n; k++) {
        const Spec *s = &c->spec[k];
        Call *call = graph_call(r->g, k ? "blocks.1" : "blocks.0", NULL, rg_place());
        x = k == 0 ? build_rows(r, s) : next_rows(r, s - 1, s, x, y);
        Node *q = k == 0 ? build_queries(r, s, x) : rg_unary(r, OP_TANH, y);
        y = build_attention(r, s, &c->built[k], call, q, x);
        if (r->diag.errors > 0)
            die("an attention does not fit: %s", diag_text(&r->diag, &r->mem.perm));
        add_logits(r, y);
    }
    mark_unused(r->g);
    rg_data(r);
}

static inline void
case_free(Case *c)
{
    random_graph_free(&c->r);
}

static inline void
draw_attention(RandomGraph *r, Spec *s)
{
    s->tb[KEY] = rg_int(r, 2);
    s->tb[VALUE] = rg_int(r, 2);
    s->bias[KEY] = rg_int(r, N_BIAS);
    s->bias[VALUE] = rg_int(r, N_BIAS);
    s->p = rg_int(r, 3) == 0 ? 0.3 : 0;
    s->closed = rg_int(r, 8) == 0 ? SHUT : (Closed)rg_int(r, SHUT);
    s->why = rg_int(r, 4) == 0 ? 1 + rg_int(r, N_WHY - 1) : NOTHING;
    s->outside = rg_int(r, 2);
    s->k_first = rg_int(r, 4) == 0 ? 2 : 0;
    s->k_rows = s->k_first > 0 || rg_int(r, 2) ? s->k_first + s->S + rg_int(r, 2) : 0;
    s->q_first = s->why == FIRST_PRUNED;
    s->q_rows = s->why == LAST_PRUNED ? s->T + 2 : rg_int(r, 2) ? s->T + s->q_first : 0;
    if (s->why == PRODUCT_READ)
        s->bias[KEY] = FLAT_BIAS;
    if (s->why == ODD_BIAS)
        s->bias[odd_layer(s)] = ROW_BIAS;
    if ((s->why == ONE_WEIGHT && s->n_lead == 0) || (s->why == ODD_BIAS && s->S == 1))
        s->why = NOTHING;
}

static inline void
case_random(Case *c, uint64_t seed)
{
    case_begin(c, seed);
    RandomGraph *r = &c->r;
    Spec *s = c->spec;
    s->n_lead = rg_int(r, 5) < 2 ? 0 : 1 + (rg_int(r, 4) == 0);
    for (int k = 0; k < 2; k++)
        s->lead[k] = 1 + rg_int(r, 3);
    s->width = 3 + rg_int(r, 22);
    s->S = 1 + rg_int(r, 10);
    s->T = rg_int(r, 4) == 0 ? 4 + rg_int(r, 8) : 1 + rg_int(r, 3);
    s->H = 1 + rg_int(r, 4);
    s->D = s->H * (2 + rg_int(r, 11));
    s->rows = rg_int(r, 3);
    s->queries = rg_int(r, 2);
    draw_attention(r, s);
    c->n = s->why == TRANSPOSED ? 1 : 1 + rg_int(r, MOST);
    if (c->n > 1) {
        s[1] = s[0];
        s[1].H = rg_int(r, 2) ? 1 : s[0].H;
        s[1].S += rg_int(r, 2) ? s->T : 0;
        draw_attention(r, &s[1]);
        if (s[1].why == TRANSPOSED || s[1].why == KEY_SHOWN) // of the first only
            s[1].why = NOTHING;
    }
    case_build(c);
}

#endif

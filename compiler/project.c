// project.c - linear layers on looked-up rows become sums of projected rows.
//
//     matmul(concat(embed(E_1, ids_1), x_2, embed(E_3, ids_3)), W)
//  -> projected(W, E_1, ids_1, E_3, ids_3, matmul(x_2, take(W)))
//
// where the rows W_k of W that meet piece k are multiplied with the whole table once a
// step, P_k = E_k W_k, in place of once a token, and y gets the row of P_k that the id
// names.
//
// Why it is the same: row t of the product is the sum over pieces of x_k[t] W_k, and
// x_k[t] is row ids_k[t] of E_k; so x_k[t] W_k is row ids_k[t] of P_k. Its adjoint:
// dE_k[v] is the sum over tokens with id v of dy[t] W_k', which is (the sum of these
// dy[t]) W_k' = dP_k[v] W_k'; dW_k is the sum over tokens of x_k[t]' dy[t], which is the
// sum over v of E_k[v]' dP_k[v]. Row 0 of a padding table reads as zero, so row 0 of P_k
// is zero; it gets no gradient and gives W none. Only sums are taken in another order. It
// needs: the piece is read by nothing but the product, so that no one else wants its
// value or adds to its adjoint; the table is read by nothing else, so that dP_k stands
// for all of E_k's gradient; both parameters are trained.
//
// With a weight a column (W [C, K, D], ids [C, ...], tables of 1 + C V rows) row v of E_k
// is multiplied with the weight of column (v - 1) / V alone. That needs a proof that ids
// of column h are 0 or in 1 + h V .. (h + 1) V, found by intervals, and that row 0 is
// padding: then every row but 0 belongs to one column, and row 0 projects to zero with
// each weight.
//
// The choice depends on vocabulary, tokens of a batch and widths alone, never on what a
// chunk holds or what is kept. It runs before differentiation, so that there is one
// product's worth of nodes to see; every later pass, and the interpreter, sees operations
// of the table.

#include "passes.h"

#include <string.h>

// ---- cost -----------------------------------------------------------------------------

// What one core does a second: floating-point operations in products, bytes of rows from
// a table that stays in the second-level cache, bytes of rows from farther.
static const double FLOPS = 100e9, NEAR = 50e9, FAR = 10e9;
static const double NEAR_BYTES = 512 * 1024;

enum { LANES = 8 }; // of the default: each lane has a row store

// Seconds of looking rows up, adding gradients to row stores (a read and a write) and
// merging these (a clearing, a read, a write), for rows of `width` floats.
static double
row_seconds(double rows, double tokens, double width)
{
    double table = rows * width * 4, lane = tokens / LANES;
    double touched = LANES * (lane < rows ? lane : rows);
    return 3 * tokens * width * 4 / (table <= NEAR_BYTES ? NEAR : FAR) +
           3 * touched * width * 4 / FAR;
}

// rows x depth table, tokens of a batch that look it up, width of the product.
static bool
pays(double rows, double tokens, double depth, double width)
{
    double product =
        3 * 2 * tokens * depth * width / FLOPS + row_seconds(rows, tokens, depth);
    double projected = 3 * 2 * rows * depth * width / FLOPS +
                       rows * (3 * width + 4 * depth) * 4 / FAR + // P, dP, E twice, dE
                       row_seconds(rows, tokens, width);
    return projected < product;
}

// ---- intervals ----------------------------------------------------------------------

// Values of an integer node: lo .. hi, or 0 besides.
typedef struct Range {
    int64_t lo, hi;
    bool zero;
} Range;

// What is known of a node's elements at the position in question: lo .. hi.
typedef struct Known {
    const Node *node;
    int64_t lo, hi;
} Known;

static const Range ANY = {INT64_MIN / 4, INT64_MAX / 4, false};
enum { DEPTH = 64 };

static Range
plain(Range r)
{
    if (r.zero) {
        r.lo = r.lo < 0 ? r.lo : 0;
        r.hi = r.hi > 0 ? r.hi : 0;
        r.zero = false;
    }
    return r;
}

static int64_t
bounded(int64_t x)
{
    return x < ANY.lo ? ANY.lo : x > ANY.hi ? ANY.hi : x;
}

static Range
either(Range a, Range b)
{
    if (a.lo == 0 && a.hi == 0)
        return (Range){b.lo, b.hi, true};
    if (b.lo == 0 && b.hi == 0)
        return (Range){a.lo, a.hi, true};
    a = plain(a);
    b = plain(b);
    return (Range){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi, false};
}

// Elements of column h, where axis 0 of a tensor of that rank counts columns; h < 0: all.
static Range
const_range(const Node *n, int64_t h, int rank)
{
    const Const *c = n->a.data;
    int64_t size = c->n, first = 0, count = size;
    if (c->f)
        return ANY;
    if (size > 1 && h >= 0 && n->shape.rank == rank && n->shape.dim[0] > 1) {
        count = size / n->shape.dim[0];
        first = h * count;
    }
    Range r = {INT64_MAX, INT64_MIN, false};
    for (int64_t k = first; k < first + count; k++) {
        r.lo = c->i[k] < r.lo ? c->i[k] : r.lo;
        r.hi = c->i[k] > r.hi ? c->i[k] : r.hi;
    }
    r.lo = bounded(r.lo);
    r.hi = bounded(r.hi);
    return count > 0 ? r : ANY;
}

static Range range_of(const Node *n, int64_t h, int rank, const Known *known, int depth);

// The branch of a select where its condition, a comparison, holds or does not.
static Range
branch_range(const Node *n, bool holds, int64_t h, int rank, const Known *known,
             int depth)
{
    const Node *c = n->in[0];
    Known more = {0};
    if (c->op == OP_LT && known->node == NULL) {
        Range a = plain(range_of(c->in[0], h, rank, known, depth + 1));
        Range b = plain(range_of(c->in[1], h, rank, known, depth + 1));
        if (a.lo == a.hi && c->in[1]->type == DT_I64)
            more = holds ? (Known){c->in[1], a.lo + 1, ANY.hi}
                         : (Known){c->in[1], ANY.lo, a.lo};
        else if (b.lo == b.hi && c->in[0]->type == DT_I64)
            more = holds ? (Known){c->in[0], ANY.lo, b.lo - 1}
                         : (Known){c->in[0], b.lo, ANY.hi};
    }
    return range_of(n->in[holds ? 1 : 2], h, rank, more.node ? &more : known, depth + 1);
}

// Pointwise operations pair elements of one position, so what is known of an operand
// there holds in all of an expression; other operations end that.
static Range
range_of(const Node *n, int64_t h, int rank, const Known *known, int depth)
{
    static const Known nothing;
    Range a = ANY, b = ANY, r = ANY;
    if (n->type != DT_I64 || depth > DEPTH)
        return n->type == DT_BOOL ? (Range){0, 1, false} : ANY;
    switch (n->op) {
    case OP_CONST:
        return const_range(n, h, rank);
    case OP_MAX2:
    case OP_MIN2:
    case OP_ADD:
        a = plain(range_of(n->in[0], h, rank, known, depth + 1));
        b = plain(range_of(n->in[1], h, rank, known, depth + 1));
        if (n->op == OP_MAX2)
            r = (Range){a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi, false};
        else if (n->op == OP_MIN2)
            r = (Range){a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi, false};
        else
            r = (Range){bounded(a.lo + b.lo), bounded(a.hi + b.hi), false};
        break;
    case OP_MOD:
        b = plain(range_of(n->in[1], h, rank, known, depth + 1));
        if (b.lo > 0)
            r = (Range){0, b.hi - 1, false};
        break;
    case OP_SELECT:
        return either(branch_range(n, true, h, rank, known, depth),
                      branch_range(n, false, h, rank, known, depth));
    case OP_EXPAND:
        if (n->in[0]->shape.rank == n->shape.rank)
            return range_of(n->in[0], h, rank, known, depth + 1);
        return range_of(n->in[0], -1, 0, &nothing, depth + 1);
    case OP_RESHAPE:
    case OP_SLICE:
    case OP_PERMUTE:
        r = plain(range_of(n->in[0], -1, 0, &nothing, depth + 1));
        break;
    default:
        break;
    }
    if (known->node == n) {
        r.lo = r.lo > known->lo ? r.lo : known->lo;
        r.hi = r.hi < known->hi ? r.hi : known->hi;
    }
    return r;
}

// Whether ids [C, ...] of each column are 0 or rows of its own.
static bool
columns_apart(const Node *ids, int64_t columns, int64_t rows)
{
    if (ids->shape.rank < 1 || ids->shape.dim[0] != columns || (rows - 1) % columns != 0)
        return false;
    int64_t each = (rows - 1) / columns;
    static const Known nothing;
    for (int64_t h = 0; h < columns; h++) {
        Range r = range_of(ids, h, ids->shape.rank, &nothing, 0);
        bool only_zero = r.lo == 0 && r.hi == 0;
        if (!only_zero && (r.lo < 1 + h * each || r.hi > (h + 1) * each))
            return false;
    }
    return true;
}

// ---- what is projected --------------------------------------------------------------

typedef struct Projector {
    Rewrite rw;
    Graph *g;
    int *n_users;
    Node **user; // [n_nodes] the last
} Projector;

static bool
trained(const Graph *g, const Node *param, bool table)
{
    const Param *p = &g->params[param->a.index];
    return !p->frozen && !p->unused && p->table == table && shape_size(p->shape) > 0;
}

// Whether a piece of the product's left side is to be projected.
static bool
projects(const Projector *j, const Node *piece, const Node *w, bool tb)
{
    const Graph *g = j->g;
    if (piece->op != OP_EMBED || j->n_users[piece->id] != 1 ||
        piece->in[0]->op != OP_PARAM)
        return false;
    const Node *e = piece->in[0], *ids = piece->in[1];
    if (j->n_users[e->id] != 1 || !trained(g, e, true) || shape_size(ids->shape) == 0)
        return false;
    int64_t columns = w->shape.rank == 3 ? w->shape.dim[0] : 1, rows = e->shape.dim[0];
    if (w->shape.rank == 3 &&
        (!g->params[e->a.index].padding || !columns_apart(ids, columns, rows)))
        return false;
    int64_t each = w->shape.rank == 3 ? (rows - 1) / columns : rows;
    int64_t width = w->shape.dim[w->shape.rank - (tb ? 2 : 1)];
    double tokens = (double)(shape_size(ids->shape) / columns) * (double)g->batch_hint;
    return pays((double)each, tokens, (double)e->shape.dim[1], (double)width);
}

// The pieces of a product's left side.
static int
pieces_of(Node *x, Node ***pieces)
{
    bool joined = x->op == OP_CONCAT && x->a.axis == x->shape.rank - 1;
    *pieces = joined ? x->in : NULL;
    return joined ? x->n_in : 1;
}

typedef struct Parts {
    int n;
    Node **piece;
    bool *chosen;
    int n_chosen;
    bool all; // nothing of a width is left
} Parts;

static bool
find_parts(const Projector *j, Node *m, Parts *p)
{
    *p = (Parts){.all = true};
    if (m->op != OP_MATMUL || m->a.ta || m->in[1]->op != OP_PARAM ||
        !trained(j->g, m->in[1], false))
        return false;
    Node *x = m->in[0], *w = m->in[1];
    bool columns =
        w->shape.rank == 3 && x->shape.rank == 3 && w->shape.dim[0] == x->shape.dim[0];
    if ((w->shape.rank != 2 && !columns) || j->n_users[x->id] != 1)
        return false;
    Arena *a = &j->g->mem->scratch;
    p->n = pieces_of(x, &p->piece);
    if (p->piece == NULL) {
        p->piece = arena_array(a, Node *, 1);
        p->piece[0] = x;
    }
    p->chosen = arena_array(a, bool, p->n);
    for (int k = 0; k < p->n; k++) {
        p->chosen[k] = projects(j, p->piece[k], w, m->a.tb);
        p->n_chosen += p->chosen[k];
        p->all = p->all && (p->chosen[k] || x->shape.rank == 0 ||
                            p->piece[k]->shape.dim[x->shape.rank - 1] == 0);
    }
    return p->n_chosen > 0;
}

// ---- rewriting ----------------------------------------------------------------------

// What is left of the product, or NULL.
static Node *
rest_of(Projector *j, Node *m, const Parts *p)
{
    Rewrite *rw = &j->rw;
    Arena *a = &j->g->mem->scratch;
    Node *x = m->in[0], *w = m->in[1];
    Node **in = arena_array(a, Node *, p->n);
    int64_t *list = arena_array(a, int64_t, 2 * p->n), at = 0;
    int n = 0, n_list = 0;
    for (int k = 0; k < p->n; k++) {
        int64_t width = p->piece[k]->shape.dim[x->shape.rank - 1];
        if (!p->chosen[k] && width > 0) {
            in[n++] = rewritten(rw, p->piece[k]);
            if (n_list && list[n_list - 2] + list[n_list - 1] == at) {
                list[n_list - 1] += width;
            } else {
                list[n_list++] = at;
                list[n_list++] = width;
            }
        }
        at += width;
    }
    if (n == 0)
        return NULL;
    Node *left = n == 1 ? in[0] : rewrite_add(rw, x, OP_CONCAT, in, n, x->a);
    Node *weight = rewritten(rw, w);
    Attr take = {
        .axis = w->shape.rank - (m->a.tb ? 1 : 2), .list = list, .n_list = n_list};
    Node *sides[] = {left, rewrite_add(rw, m, OP_TAKE, &weight, 1, take)};
    return rewrite_add(rw, m, OP_MATMUL, sides, 2, m->a);
}

static Node *
projected(Projector *j, Node *m, const Parts *p, Node *start)
{
    Arena *a = &j->g->mem->scratch;
    Node *x = m->in[0], **in = arena_array(a, Node *, 2 * p->n + 2);
    int64_t *list = arena_array(a, int64_t, p->n), at = 0;
    int n = 0, n_list = 0;
    in[n++] = rewritten(&j->rw, m->in[1]);
    for (int k = 0; k < p->n; k++) {
        if (p->chosen[k]) {
            in[n++] = rewritten(&j->rw, p->piece[k]->in[0]);
            in[n++] = rewritten(&j->rw, p->piece[k]->in[1]);
            list[n_list++] = at;
        }
        at += p->piece[k]->shape.dim[x->shape.rank - 1];
    }
    if (start != NULL)
        in[n++] = start;
    return rewrite_add(&j->rw, m, OP_PROJECTED, in, n,
                       (Attr){.list = list, .n_list = n_list, .tb = m->a.tb});
}

// The one user of a product if it adds a bias row, so that the product starts from it.
static Node *
bias_user(const Projector *j, const Node *m)
{
    Node *u = j->n_users[m->id] == 1 ? j->user[m->id] : NULL;
    if (m->op != OP_MATMUL || u == NULL || u->op != OP_ADD || u->in[0] == u->in[1] ||
        !shape_equal(u->shape, m->shape))
        return NULL;
    const Node *b = u->in[u->in[0] == m];
    int64_t last = m->shape.dim[m->shape.rank - 1];
    bool row = b->shape.rank > 0 && b->shape.dim[b->shape.rank - 1] == last &&
               shape_size(b->shape) == last;
    while (b->op == OP_RESHAPE)
        b = b->in[0];
    return row && b->op == OP_PARAM ? u : NULL;
}

static void
rewrite_product(Projector *j, Node *m, const Parts *p)
{
    Node *rest = rest_of(j, m, p), *u = rest ? bias_user(j, m) : NULL;
    Node *like = u ? u : m;
    if (u) {
        Node *in[] = {rest, rest};
        in[u->in[0] == m] = rewritten(&j->rw, u->in[u->in[0] == m]);
        rest = rewrite_add(&j->rw, u, OP_ADD, in, 2, u->a);
    }
    Node *y = projected(j, m, p, rest);
    if (y != NULL && y->name == NULL)
        y->name = like->name;
    rewrite_set(&j->rw, like, y);
}

static void
count_users(Projector *j)
{
    Graph *g = j->g;
    j->n_users = arena_array(&g->mem->scratch, int, g->n_nodes);
    j->user = arena_array(&g->mem->scratch, Node *, g->n_nodes);
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            j->n_users[g->nodes[i]->in[k]->id]++;
            j->user[g->nodes[i]->in[k]->id] = g->nodes[i];
        }
    j->n_users[g->logits->id] += 2; // read from outside: by no node alone
    if (g->embedding)
        j->n_users[g->embedding->id] += 2;
}

// The product that n adds a bias to, if it is rewritten at n; its parts.
static Node *
biased_product(const Projector *j, const Node *n, Parts *p)
{
    for (int side = 0; n->op == OP_ADD && side < 2; side++) {
        Node *m = n->in[side];
        if (bias_user(j, m) == n && find_parts(j, m, p) && !p->all)
            return m;
    }
    return NULL;
}

bool
project(Graph *g)
{
    if (g->batch_hint <= 1)
        return true;
    Projector j = {.g = g};
    count_users(&j);
    j.rw = rewrite_begin(g);
    for (int i = 0; i < j.rw.n_old; i++) {
        Parts p;
        Node *n = j.rw.old[i], *m = biased_product(&j, n, &p);
        if (m != NULL)
            rewrite_product(&j, m, &p);
        else if (!find_parts(&j, n, &p))
            rewrite_set(&j.rw, n, rewrite_again(&j.rw, n));
        else if (!bias_user(&j, n) || p.all)
            rewrite_product(&j, n, &p);
    }
    rewrite_end(&j.rw);
    return true;
}

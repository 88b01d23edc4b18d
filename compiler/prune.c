// prune.c - drop rows that cannot reach the logits.
//
// Row demand: a walk from the outputs gives each node the hull of the rows (indices of axis 0) that its
// readers want; the node is then computed once, on that hull. Column slices and gathers sink first (sink.c),
// because a packed projection hides that keys are wanted for all rows and queries for a few.
//
// Proof obligation: a node is cut only where row r of the result reads only row r of the operands that are
// cut with it (axis.c), or where the operation says which rows it reads (slice, concatenation, attention's
// queries). Random sites and attention keep the original row numbers in their attributes.
//
// Needs: a forward graph.  Leaves: the same logits by the same arithmetic.

#include "prune.h"

#include "axis.h"

// Rows lo .. hi of axis 0; empty when lo >= hi.
typedef struct Hull {
    int64_t lo, hi;
    bool asked;
} Hull;

typedef struct Demand {
    Graph *g;
    Hull *hull; // by node
} Demand;

static int64_t
rows_of(const Node *n)
{
    return n->shape.rank == 0 ? 1 : n->shape.dim[0];
}

static void
ask(Demand *d, const Node *x, int64_t lo, int64_t hi)
{
    Hull *h = &d->hull[x->id];
    if (!h->asked) {
        *h = (Hull){lo, hi, true};
        return;
    }
    if (lo >= hi)
        return;
    if (h->lo >= h->hi) {
        h->lo = lo;
        h->hi = hi;
        return;
    }
    h->lo = lo < h->lo ? lo : h->lo;
    h->hi = hi > h->hi ? hi : h->hi;
}

static void
ask_all(Demand *d, const Node *x)
{
    ask(d, x, 0, rows_of(x));
}

// Whether rows of the result come one by one from rows of operands.
static bool
rowwise(const Node *n)
{
    if (n->shape.rank == 0 || n->n_in == 0)
        return false;
    bool carried = false;
    for (int k = 0; k < n->n_in; k++) {
        int64_t at = axis_of_operand(n, k, 0);
        if (at == AXIS_BLOCKED || at > 0)
            return false;
        carried = carried || at == 0;
    }
    return carried;
}

// Nodes that can be built for a range of rows.
static bool
can_cut(const Node *n)
{
    if (rows_of(n) < 2)
        return false;
    switch (n->op) {
    case OP_SLICE:
    case OP_CONCAT:
        return n->a.axis == 0 || rowwise(n);
    case OP_GATHER:
        return (n->a.axis == 0 && n->in[1]->shape.rank == 1) || rowwise(n);
    case OP_ATTEND:
        return n->shape.rank == 2;
    case OP_CHANCE:
        return n->shape.rank >= 2;
    case OP_EXPAND:
        return true;
    default:
        return rowwise(n);
    }
}

static void
ask_concat_parts(Demand *d, const Node *n, Hull h)
{
    int64_t at = 0;
    for (int k = 0; k < n->n_in; k++) {
        int64_t rows = rows_of(n->in[k]);
        int64_t lo = h.lo > at ? h.lo - at : 0;
        int64_t hi = h.hi - at < rows ? h.hi - at : rows;
        if (lo < hi)
            ask(d, n->in[k], lo, hi);
        at += rows;
    }
}

// What a node that is built for rows h reads of its operands.
static void
ask_operands(Demand *d, const Node *n, Hull h)
{
    if (n->op == OP_CONCAT && n->a.axis == 0) {
        ask_concat_parts(d, n, h);
        return;
    }
    if (n->op == OP_SLICE && n->a.axis == 0) {
        ask(d, n->in[0], h.lo + n->a.start, h.hi + n->a.start);
        return;
    }
    for (int k = 0; k < n->n_in; k++) {
        const Node *x = n->in[k];
        bool cut = false;
        if (n->op == OP_ATTEND)
            cut = k == 0;
        else if (n->op == OP_GATHER && n->a.axis == 0)
            cut = k == 1;
        else if (n->op == OP_CHANCE || (n->op == OP_DROPOUT && k == 1))
            cut = true;
        else
            cut = x->shape.rank > 0 && axis_of_operand(n, k, 0) == 0;
        if (cut)
            ask(d, x, h.lo, h.hi);
        else
            ask_all(d, x);
    }
}

static void
collect_demand(Demand *d)
{
    Graph *g = d->g;
    ask_all(d, g->logits);
    if (g->embedding != NULL)
        ask_all(d, g->embedding);
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const Node *n = g->nodes[i];
        Hull *h = &d->hull[i];
        if (!h->asked)
            continue;
        if (!can_cut(n) || h->lo >= h->hi)
            *h = (Hull){0, rows_of(n), true};
        if (h->lo == 0 && h->hi == rows_of(n) && n->op != OP_CONCAT && n->op != OP_SLICE) {
            for (int k = 0; k < n->n_in; k++)
                ask_all(d, n->in[k]);
        } else {
            ask_operands(d, n, *h);
        }
    }
}

// Rows lo .. hi of an original, cut from what was built of it.
static Node *
rows_from(Rewrite *rw, const Demand *d, const Node *like, const Node *x, int64_t lo, int64_t hi)
{
    Node *y = rewritten(rw, x);
    Hull h = d->hull[x->id];
    if (lo == h.lo && hi == h.hi)
        return y;
    Attr a = {.axis = 0, .start = lo - h.lo, .count = hi - lo};
    return rewrite_add(rw, like, OP_SLICE, &y, 1, a);
}

static Node *
whole(Rewrite *rw, const Demand *d, const Node *like, const Node *x)
{
    return x->shape.rank == 0 ? rewritten(rw, x) : rows_from(rw, d, like, x, 0, rows_of(x));
}

static Node *
cut_concat(Rewrite *rw, const Demand *d, const Node *n, Hull h)
{
    Node **parts = arena_array(&rw->g->mem->scratch, Node *, n->n_in);
    int n_parts = 0;
    int64_t at = 0;
    for (int k = 0; k < n->n_in; k++) {
        int64_t rows = rows_of(n->in[k]);
        int64_t lo = h.lo > at ? h.lo - at : 0;
        int64_t hi = h.hi - at < rows ? h.hi - at : rows;
        if (lo < hi)
            parts[n_parts++] = rows_from(rw, d, n, n->in[k], lo, hi);
        at += rows;
    }
    return n_parts == 1 ? parts[0] : rewrite_add(rw, n, OP_CONCAT, parts, n_parts, n->a);
}

// The node built for rows h. Where nothing is cut this is the node itself with operands in their places.
static Node *
cut_node(Rewrite *rw, const Demand *d, Node *n, Hull h)
{
    bool full = h.lo == 0 && h.hi == rows_of(n);
    if (n->op == OP_CONCAT && n->a.axis == 0 && rows_of(n) > 0)
        return cut_concat(rw, d, n, h);
    if (n->op == OP_SLICE && n->a.axis == 0 && n->a.count > 0)
        return rows_from(rw, d, n, n->in[0], h.lo + n->a.start, h.hi + n->a.start);
    Node **in = arena_array(&rw->g->mem->scratch, Node *, n->n_in);
    Attr a = n->a;
    for (int k = 0; k < n->n_in; k++) {
        const Node *x = n->in[k];
        bool cut = !full && x->shape.rank > 0;
        if (n->op == OP_ATTEND)
            cut = cut && k == 0;
        else if (n->op == OP_GATHER && n->a.axis == 0)
            cut = cut && k == 1;
        else if (n->op != OP_CHANCE && !(n->op == OP_DROPOUT && k == 1))
            cut = cut && axis_of_operand(n, k, 0) == 0;
        in[k] = cut ? rows_from(rw, d, n, x, h.lo, h.hi) : whole(rw, d, n, x);
    }
    if (full)
        return rewrite_add(rw, n, n->op, in, n->n_in, a);
    if (n->op == OP_RESHAPE || n->op == OP_EXPAND || n->op == OP_CHANCE)
        a.shape.dim[0] = h.hi - h.lo;
    if (n->op == OP_ATTEND)
        a.q_first += h.lo;
    if ((n->op == OP_DROPOUT && n->n_in == 1) || (n->op == OP_CHANCE && n->n_in == 0))
        a.first += h.lo * a.pitch;
    return rewrite_add(rw, n, n->op, in, n->n_in, a);
}

void
demand_rows(Graph *g)
{
    Demand d = {.g = g, .hull = arena_array(&g->mem->scratch, Hull, g->n_nodes)};
    collect_demand(&d);
    Rewrite rw = rewrite_begin(g);
    for (int i = 0; i < rw.n_old; i++) {
        Node *n = rw.old[i];
        if (!d.hull[i].asked)
            continue;
        Node *to = n->n_in == 0 && n->op != OP_CHANCE ? n : cut_node(&rw, &d, n, d.hull[i]);
        rewrite_set(&rw, n, to);
    }
    rewrite_end(&rw);
}

bool
prune(Graph *g)
{
    sink_columns(g);
    // A sunk gather may meet another one; the number of gathers on a path bounds the rounds.
    for (int round = 0; round < g->n_nodes && sink_gathers(g); round++)
        continue;
    demand_rows(g);
    return simplify(g);
}

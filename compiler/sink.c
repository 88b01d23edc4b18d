// sink.c - gathers and column slices move below the operations that feed them.
//
// A gather whose operand is read by nothing else is taken before the operand is computed: of 512 events only
// the 50 that are kept are looked up and projected. Column slices of a product become products by slices of
// the weight, so that the parts of a packed projection can need different rows.
//
// Proof obligation: index r of the result reads only index r of the operands (axis.c), every reader of the
// operand is that same gather, and a random site carries the original row as an operand. Then the moved
// gather picks the same elements, each computed by the same arithmetic.

#include "axis.h"
#include "prune.h"

#include <string.h>

// ---- columns ----------------------------------------------------------------------------------------

// Readers of each node, and whether all of them slice its last axis.
typedef struct Readers {
    int *n;
    bool *only_columns;
} Readers;

static Readers
count_readers(Graph *g)
{
    Arena *a = &g->mem->scratch;
    Readers rd = {arena_array(a, int, g->n_nodes), arena_array(a, bool, g->n_nodes)};
    for (int i = 0; i < g->n_nodes; i++)
        rd.only_columns[i] = true;
    for (int i = 0; i < g->n_nodes; i++) {
        const Node *n = g->nodes[i];
        for (int k = 0; k < n->n_in; k++) {
            const Node *x = n->in[k];
            rd.n[x->id]++;
            if (n->op != OP_SLICE || n->a.axis != x->shape.rank - 1)
                rd.only_columns[x->id] = false;
        }
    }
    rd.only_columns[g->logits->id] = false;
    if (g->embedding != NULL)
        rd.only_columns[g->embedding->id] = false;
    return rd;
}

static bool
is_product(const Node *n)
{
    return n->op == OP_MATMUL && n->in[1]->shape.rank == 2 && n->part == PART_FORWARD;
}

// x @ w or x @ w + b with a bias vector, read only through column slices.
static bool
splits_by_column(const Node *n, const Readers *rd)
{
    if (!rd->only_columns[n->id])
        return false;
    if (is_product(n))
        return true;
    return n->op == OP_ADD && is_product(n->in[0]) && rd->n[n->in[0]->id] == 1 &&
           n->in[1]->shape.rank == 1 && n->in[1]->shape.dim[0] == n->shape.dim[n->shape.rank - 1];
}

static Node *
slice_of(Rewrite *rw, const Node *like, Node *x, int64_t axis, int64_t start, int64_t count)
{
    if (x == NULL || (start == 0 && count == x->shape.dim[axis]))
        return x;
    Attr a = {.axis = axis, .start = start, .count = count};
    return rewrite_add(rw, like, OP_SLICE, &x, 1, a);
}

static Node *
product_columns(Rewrite *rw, const Node *m, int64_t start, int64_t count)
{
    Node *w = rewritten(rw, m->in[1]);
    Node *in[2] = {rewritten(rw, m->in[0]), slice_of(rw, m, w, m->a.tb ? 0 : 1, start, count)};
    return rewrite_add(rw, m, OP_MATMUL, in, 2, m->a);
}

void
sink_columns(Graph *g)
{
    Readers rd = count_readers(g);
    Rewrite rw = rewrite_begin(g);
    for (int i = 0; i < rw.n_old; i++) {
        Node *n = rw.old[i];
        Node *to = NULL;
        if (n->op == OP_SLICE && n->a.axis == n->shape.rank - 1 && splits_by_column(n->in[0], &rd)) {
            const Node *x = n->in[0];
            const Node *m = x->op == OP_ADD ? x->in[0] : x;
            to = product_columns(&rw, m, n->a.start, n->a.count);
            if (x->op == OP_ADD) {
                Node *b = slice_of(&rw, x, rewritten(&rw, x->in[1]), 0, n->a.start, n->a.count);
                Node *in[2] = {to, b};
                to = rewrite_add(&rw, x, OP_ADD, in, 2, x->a);
            }
        }
        rewrite_set(&rw, n, to != NULL ? to : rewrite_again(&rw, n));
    }
    rewrite_end(&rw);
}

// ---- gathers ----------------------------------------------------------------------------------------

typedef enum WantKind { WANT_NOTHING, WANT_ALL, WANT_GATHERED } WantKind;

// What the readers of a node want of it: all, or the same gather.
typedef struct Want {
    WantKind kind;
    int64_t axis;
    Node *ids;
} Want;

static void
want_merge(Want *w, Want other)
{
    if (w->kind == WANT_NOTHING)
        *w = other;
    else if (w->kind != other.kind || w->axis != other.axis || w->ids != other.ids)
        *w = (Want){.kind = WANT_ALL};
}

// A gather that picks fewer indices than there are.
static bool
is_picking(const Node *n)
{
    return n->op == OP_GATHER && n->in[1]->shape.rank == 1 &&
           n->in[1]->shape.dim[0] < n->in[0]->shape.dim[n->a.axis];
}

static bool
sinks_through(const Node *n, int64_t axis)
{
    bool carried = false;
    // Two gathers along different axes could change places for ever.
    if (n->op == OP_GATHER && n->in[1]->shape.rank == 1 && axis != n->a.axis)
        return false;
    for (int k = 0; k < n->n_in; k++) {
        int64_t at = axis_of_operand(n, k, axis);
        if (at == AXIS_BLOCKED)
            return false;
        carried = carried || at >= 0;
    }
    return carried;
}

// Readers come before operands, so each node's want is whole when it is looked at.
static Want *
collect_wants(Graph *g)
{
    Want *want = arena_array(&g->mem->scratch, Want, g->n_nodes);
    Want all = {.kind = WANT_ALL};
    want[g->logits->id] = all;
    if (g->embedding != NULL)
        want[g->embedding->id] = all;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const Node *n = g->nodes[i];
        Want w = want[i];
        if (w.kind == WANT_NOTHING)
            continue;
        if (w.kind == WANT_GATHERED && !sinks_through(n, w.axis))
            w = want[i] = all;
        for (int k = 0; k < n->n_in; k++) {
            Want ask = all;
            if (w.kind == WANT_GATHERED) {
                int64_t at = axis_of_operand(n, k, w.axis);
                if (at >= 0)
                    ask = (Want){WANT_GATHERED, at, w.ids};
            } else if (k == 0 && is_picking(n)) {
                ask = (Want){WANT_GATHERED, n->a.axis, n->in[1]};
            }
            want_merge(&want[n->in[k]->id], ask);
        }
        if (w.kind == WANT_GATHERED)
            want_merge(&want[w.ids->id], all);
    }
    return want;
}

// Ids picked by a gathered node stand later in the program than the node, so wants collected in one sweep
// can miss that the ids' own operands are wanted whole. Marks all that the ids need.
static void
want_ids(Graph *g, Want *want)
{
    bool *whole = arena_array(&g->mem->scratch, bool, g->n_nodes);
    for (int i = 0; i < g->n_nodes; i++)
        if (want[i].kind == WANT_GATHERED)
            whole[want[i].ids->id] = true;
    for (int i = 0; i < g->n_nodes; i++)
        if (is_picking(g->nodes[i]))
            whole[g->nodes[i]->in[1]->id] = true;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        if (!whole[i])
            continue;
        want[i] = (Want){.kind = WANT_ALL};
        for (int k = 0; k < g->nodes[i]->n_in; k++)
            whole[g->nodes[i]->in[k]->id] = true;
    }
}

// An order in which operands and picked ids come before a node. A stack of its own, graphs may be deep.
static int
order_nodes(Graph *g, const Want *want, Node **order)
{
    Arena *a = &g->mem->scratch;
    unsigned char *state = arena_array(a, unsigned char, g->n_nodes);
    Node **stack = arena_array(a, Node *, g->n_nodes);
    int n = 0, depth = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        if (state[i] != 0 || want[i].kind == WANT_NOTHING)
            continue;
        stack[depth++] = g->nodes[i];
        state[i] = 1;
        while (depth > 0) {
            Node *top = stack[depth - 1];
            Node *next = NULL;
            for (int k = 0; k < top->n_in && next == NULL; k++)
                if (state[top->in[k]->id] == 0)
                    next = top->in[k];
            Node *ids = want[top->id].ids;
            if (next == NULL && ids != NULL && state[ids->id] == 0)
                next = ids;
            if (next != NULL) {
                state[next->id] = 1;
                stack[depth++] = next;
                continue;
            }
            state[top->id] = 2;
            order[n++] = top;
            depth--;
        }
    }
    return n;
}

static Node *
gather_of(Rewrite *rw, const Node *like, Node *x, Node *ids, int64_t axis)
{
    Node *in[2] = {x, ids};
    return rewrite_add(rw, like, OP_GATHER, in, 2, (Attr){.axis = axis});
}

// Operand k in gathered form.
static Node *
gathered_operand(Rewrite *rw, const Want *want, const Node *n, int k, int64_t axis, Node *ids)
{
    Node *x = n->in[k];
    Want w = want[x->id];
    if (w.kind == WANT_GATHERED && w.axis == axis && w.ids == ids)
        return rewritten(rw, x);
    return gather_of(rw, n, rewritten(rw, x), rewritten(rw, ids), axis);
}

// The original rows that a random site draws for, clamped as a gather clamps.
static Node *
clamped_rows(Rewrite *rw, const Node *n, Node *ids, int64_t extent)
{
    int64_t zero = 0, last = extent - 1;
    Shape scalar = {0};
    Node *lo[2] = {ids, graph_const_i(rw->g, DT_I64, scalar, &zero, 1, n->place)};
    Node *at = rewrite_add(rw, n, OP_MAX2, lo, 2, (Attr){0});
    Node *hi[2] = {at, graph_const_i(rw->g, DT_I64, scalar, &last, 1, n->place)};
    return rewrite_add(rw, n, OP_MIN2, hi, 2, (Attr){0});
}

static Node *
gathered_node(Rewrite *rw, const Want *want, Node *n)
{
    Want w = want[n->id];
    Node **in = arena_array(&rw->g->mem->scratch, Node *, n->n_in + 1);
    int n_in = n->n_in;
    for (int k = 0; k < n->n_in; k++) {
        int64_t at = axis_of_operand(n, k, w.axis);
        in[k] = at >= 0 ? gathered_operand(rw, want, n, k, at, w.ids) : rewritten(rw, n->in[k]);
    }
    Attr a = n->a;
    int64_t count = w.ids->shape.dim[0];
    if (n->op == OP_RESHAPE || n->op == OP_EXPAND)
        a.shape.dim[w.axis] = count;
    if (n->op == OP_DROPOUT && n->n_in == 1)
        in[n_in++] = clamped_rows(rw, n, rewritten(rw, w.ids), n->shape.dim[0]);
    else if (n->op == OP_DROPOUT)
        in[1] = gather_of(rw, n, rewritten(rw, n->in[1]), rewritten(rw, w.ids), 0);
    return rewrite_add(rw, n, n->op, in, n_in, a);
}

bool
sink_gathers(Graph *g)
{
    bool moved = false;
    Want *want = collect_wants(g);
    want_ids(g, want);
    Node **order = arena_array(&g->mem->scratch, Node *, g->n_nodes);
    int n_order = order_nodes(g, want, order);
    Rewrite rw = rewrite_begin(g);
    for (int i = 0; i < n_order; i++) {
        Node *n = order[i];
        Node *to;
        if (want[n->id].kind == WANT_GATHERED) {
            to = gathered_node(&rw, want, n);
            moved = true;
        } else if (is_picking(n))
            to = gathered_operand(&rw, want, n, 0, n->a.axis, n->in[1]);
        else
            to = rewrite_again(&rw, n);
        rewrite_set(&rw, n, to);
    }
    rewrite_end(&rw);
    return moved;
}

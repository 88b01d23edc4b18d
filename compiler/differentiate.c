// differentiate.c - appends the backward graph: from the gradient of the logits to
// parameter gradients.
//
// A reverse sweep. When a node is reached, all its users have added their parts to its
// adjoint; the parts are combined and the operation's rule adds to the operands. Only
// nodes from which a trainable parameter can be reached (through operations with
// gradients) get an adjoint, and an adjoint that nobody adds to is absent.
//
// Order of accumulation: parts are combined in the order of the sweep, users with the
// highest number first, ((p0 + p1) + p2) + ...; parts that are slices put back (pad) are
// first joined by one concat where they do not overlap, and that stands where the first
// of them stood.
//
// Whoever reads a parameter, straight or through slices, reshapes and permutations, gets
// a sink of its own: an accumulator that adds to the parameter's gradient. Accumulators
// are numbered by the number of the reading node in the forward graph, then by operand.
//
// Needs: forward graph, Param.unused, Param.frozen.  Leaves: backward nodes, g->sinks,
// Param.n_uses. A backward node has the block call of the forward node whose gradient it
// is part of, and that node as its origin.

#include <stdlib.h>

#include "ops.h"
#include "passes.h"

typedef Array(Node *) Parts;

// A sink with what orders it.
typedef struct Use {
    Node *sink;
    int reader, operand, order;
} Use;

struct Grad {
    Graph *g;
    int n_forward;
    bool *wanted; // [n_forward] leads to a trainable parameter
    Parts *parts; // [n_forward] what users added so far
    Array(Use) uses;
    bool failed;
};

Graph *
grad_graph(Grad *gr)
{
    return gr->g;
}

bool
grad_wants(const Grad *gr, const Node *n, int k)
{
    return gr->wanted[n->in[k]->id];
}

static bool
trainable(const Param *p)
{
    return !p->frozen && !p->unused && shape_size(p->shape) > 0;
}

static void
find_wanted(Grad *gr)
{
    for (int k = 0; k < gr->n_forward; k++) {
        const Node *n = gr->g->nodes[k];
        if (n->op == OP_PARAM)
            gr->wanted[k] = trainable(&gr->g->params[n->a.index]);
        else if (n->type == DT_F32 && (op_info[n->op].flags & OPF_GRAD))
            for (int i = 0; i < n->n_in; i++)
                gr->wanted[k] =
                    gr->wanted[k] || (n->in[i]->type == DT_F32 && grad_wants(gr, n, i));
    }
}

// ---- adding -------------------------------------------------------------------------

// d summed over the axes along which a tensor of shape s was broadcast.
static Node *
sum_to(Graph *g, Node *d, Shape s, Place place)
{
    if (!d || shape_equal(d->shape, s))
        return d;
    int64_t axes[MAX_RANK] = {0};
    int n = 0, lead = d->shape.rank - s.rank;
    for (int k = 0; k < d->shape.rank; k++)
        if (k < lead || (s.dim[k - lead] == 1 && d->shape.dim[k] != 1))
            axes[n++] = k;
    if (n)
        d = graph_reduce(g, OP_SUM, d, axes, n, false, place);
    return graph_reshape(g, d, s, place);
}

// The parameter that x reads through slices, reshapes and permutations, else NULL.
static const Node *
param_of(const Node *x)
{
    while (x->op == OP_SLICE || x->op == OP_RESHAPE || x->op == OP_PERMUTE)
        x = x->in[0];
    return x->op == OP_PARAM ? x : NULL;
}

// The first row when x is rows of the parameter p: slices along axis 0 and nothing else.
static bool
rows_of(const Node *x, const Node *p, int64_t *start)
{
    *start = 0;
    for (; x != p; x = x->in[0]) {
        if (x->op != OP_SLICE || x->a.axis != 0)
            return false;
        *start += x->a.start;
    }
    return true;
}

static Node *
undo_permute(Graph *g, Node *d, const Node *x, Place place)
{
    int64_t back[MAX_RANK] = {0};
    for (int k = 0; k < x->a.n_list; k++)
        back[x->a.list[k]] = k;
    return graph_permute(g, d, back, place);
}

static void
add_sink(Grad *gr, const Node *reader, int k, Op op, Node *const *in, int n_in, Attr a)
{
    Node *sink = graph_add(gr->g, op, in, n_in, a, reader->place);
    if (!sink) {
        gr->failed = true;
        return;
    }
    array_push(&gr->g->mem->scratch, &gr->uses, (Use){sink, reader->id, k, gr->uses.n});
}

// d is the adjoint of x, a view of a parameter that n reads as operand k.
static void
add_to_param(Grad *gr, const Node *n, int k, const Node *p, Node *d)
{
    Graph *g = gr->g;
    const Node *x = n->in[k];
    int64_t start = 0;
    while (d && !rows_of(x, p, &start)) {
        const Node *under = x->in[0];
        if (x->op == OP_RESHAPE)
            d = graph_reshape(g, d, under->shape, n->place);
        else if (x->op == OP_PERMUTE)
            d = undo_permute(g, d, x, n->place);
        else
            d = graph_pad(g, d, (int)x->a.axis, x->a.start, under->shape.dim[x->a.axis],
                          n->place);
        x = under;
    }
    add_sink(gr, n, k, OP_ACC, &d, 1, (Attr){.index = p->a.index, .start = start});
}

void
grad_add(Grad *gr, Node *n, int k, Node *d)
{
    const Node *x = n->in[k];
    if (!gr->wanted[x->id])
        return;
    d = sum_to(gr->g, d, x->shape, n->place);
    if (!d) {
        gr->failed = true;
        return;
    }
    const Node *p = param_of(x);
    if (p)
        add_to_param(gr, n, k, p, d);
    else
        array_push(&gr->g->mem->scratch, &gr->parts[x->id], d);
}

void
grad_table(Grad *gr, Node *n, int k, Op op, Node *dy, Node *ids)
{
    Node *in[] = {dy, ids};
    add_sink(gr, n, k, op, in, 2, (Attr){.index = n->in[k]->a.index});
}

void
grad_sink(Grad *gr, Node *n, int k, Op op, Node *const *in, int n_in, Attr a)
{
    add_sink(gr, n, k, op, in, n_in, a);
}

// ---- combining ----------------------------------------------------------------------

static int
by_start(const void *a, const void *b)
{
    const Node *x = *(Node *const *)a, *y = *(Node *const *)b;
    if (x->a.start != y->a.start)
        return x->a.start < y->a.start ? -1 : 1;
    return x->id - y->id;
}

static Node *
zeros(Graph *g, Shape s, int axis, int64_t count, Place place)
{
    double zero = 0;
    s.dim[axis] = count;
    return graph_const_f(g, s, &zero, 1, place);
}

// Pads of one axis as one concat; NULL when they overlap.
static Node *
join_pads(Graph *g, Node **pad, int n, const Node *x)
{
    int axis = (int)pad[0]->a.axis, m = 0;
    int64_t at = 0;
    Node **piece = arena_array(&g->mem->scratch, Node *, 2 * n + 1);
    qsort(pad, (size_t)n, sizeof *pad, by_start);
    for (int k = 0; k < n; k++) {
        if (pad[k]->a.start < at)
            return NULL;
        if (pad[k]->a.start > at)
            piece[m++] = zeros(g, x->shape, axis, pad[k]->a.start - at, x->place);
        piece[m++] = pad[k]->in[0];
        at = pad[k]->a.start + pad[k]->in[0]->shape.dim[axis];
    }
    if (at < x->shape.dim[axis])
        piece[m++] = zeros(g, x->shape, axis, x->shape.dim[axis] - at, x->place);
    return graph_concat(g, piece, m, axis, x->place);
}

// Replaces the pads along one axis by one concat in the place of the first.
static void
join_axis(Graph *g, Parts *p, int axis, const Node *x)
{
    Node **pad = arena_array(&g->mem->scratch, Node *, p->n);
    int n = 0;
    for (int k = 0; k < p->n; k++)
        if (p->v[k]->op == OP_PAD && p->v[k]->a.axis == axis)
            pad[n++] = p->v[k];
    Node *joined = n > 1 ? join_pads(g, pad, n, x) : NULL;
    if (!joined)
        return;
    int m = 0;
    bool done = false;
    for (int k = 0; k < p->n; k++) {
        bool is_pad = p->v[k]->op == OP_PAD && p->v[k]->a.axis == axis;
        if (!is_pad)
            p->v[m++] = p->v[k];
        else if (!done)
            p->v[m++] = joined;
        done = done || is_pad;
    }
    p->n = m;
}

static Node *
combine(Grad *gr, Node *x)
{
    Parts *p = &gr->parts[x->id];
    for (int axis = 0; p->n > 1 && axis < x->shape.rank; axis++)
        join_axis(gr->g, p, axis, x);
    Node *sum = p->n ? p->v[0] : NULL;
    for (int k = 1; k < p->n; k++)
        sum = graph_binary(gr->g, OP_ADD, sum, p->v[k], x->place);
    return sum;
}

// ---- the sweep ----------------------------------------------------------------------

static int
by_reader(const void *a, const void *b)
{
    const Use *x = a, *y = b;
    if (x->reader != y->reader)
        return x->reader - y->reader;
    return x->operand != y->operand ? x->operand - y->operand : x->order - y->order;
}

static void
number_uses(Grad *gr)
{
    Graph *g = gr->g;
    for (int k = 0; k < g->n_params; k++)
        g->params[k].n_uses = 0;
    if (gr->uses.n)
        qsort(gr->uses.v, (size_t)gr->uses.n, sizeof *gr->uses.v, by_reader);
    for (int k = 0; k < gr->uses.n; k++) {
        Node *sink = gr->uses.v[k].sink;
        sink->a.use = g->params[sink->a.index].n_uses++;
    }
}

static void
backward_of(Grad *gr, Node *n)
{
    Graph *g = gr->g;
    g->call = n->call;
    g->origin = n;
    Node *dy = combine(gr, n);
    if (dy && n->op != OP_PARAM)
        op_info[n->op].grad(gr, n, dy);
}

bool
differentiate(Graph *g)
{
    Arena *a = &g->mem->scratch;
    Grad gr = {.g = g, .n_forward = g->n_nodes};
    gr.wanted = arena_array(a, bool, g->n_nodes);
    gr.parts = arena_array(a, Parts, g->n_nodes);
    find_wanted(&gr);
    Part part = g->part;
    Call *call = g->call;
    Node *origin = g->origin;
    g->part = PART_BACKWARD;
    if (gr.wanted[g->logits->id]) {
        g->origin = g->logits;
        Node *seed = graph_add(g, OP_DLOGITS, NULL, 0, (Attr){.shape = g->logits->shape},
                               g->logits->place);
        const Node *p =
            param_of(g->logits); // logits that are a parameter: the identity reads it
        if (p) {
            Node reads = {.id = g->logits->id,
                          .n_in = 1,
                          .in = &g->logits,
                          .place = g->logits->place};
            add_to_param(&gr, &reads, 0, p, seed);
        } else {
            array_push(a, &gr.parts[g->logits->id], seed);
        }
    }
    for (int k = gr.n_forward - 1; k >= 0; k--)
        if (gr.wanted[k])
            backward_of(&gr, g->nodes[k]);
    number_uses(&gr);
    g->part = part;
    g->call = call;
    g->origin = origin;
    return !gr.failed;
}

// ---- unused parameters --------------------------------------------------------------

void
mark_unused(Graph *g)
{
    bool *reached = arena_array(&g->mem->scratch, bool, g->n_nodes);
    for (int k = 0; k < g->n_params; k++)
        g->params[k].unused = true;
    reached[g->logits->id] = true;
    for (int k = g->n_nodes - 1; k >= 0; k--) {
        const Node *n = g->nodes[k];
        if (!reached[k] || n->type != DT_F32)
            continue;
        if (n->op == OP_PARAM)
            g->params[n->a.index].unused = false;
        if (op_info[n->op].flags & OPF_GRAD)
            for (int i = 0; i < n->n_in; i++)
                reached[n->in[i]->id] = true;
    }
}

// graph.c - builds the graph: equal nodes are made once, dead ones are dropped.
//
// Two nodes are equal when operation, operands, part, block call and the attributes that
// the operation reads are. A leaf is the same everywhere. A sink adds something each
// time, so no two are equal.

#include "graph.h"

#include <string.h>

#include "ops.h"

// Open addressing; slots hold nodes by the hash they had when they were added.
typedef struct Table {
    Node **slot;
    size_t n, cap; // cap is a power of two
    Node **nodes;  // the arrays whose capacities are known: a pass may have put others in
    Node **sinks;  // their place
    int cap_nodes, cap_sinks, cap_params, cap_inputs, cap_calls;
} Table;

Graph *
graph_new(Mem *mem, Diag *diag)
{
    Graph *g = arena_new(&mem->perm, Graph);
    g->mem = mem;
    g->diag = diag;
    Table *t = arena_new(&mem->perm, Table);
    t->cap = 1024;
    t->slot = arena_array(&mem->perm, Node *, t->cap);
    g->table = t;
    return g;
}

static bool
is_leaf(Op op)
{
    return op_info[op].row == ROW_LEAF;
}

static uint64_t
mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

static uint64_t
hash_of(const Node *n)
{
    uint64_t h = mix(17, (uint64_t)n->op * 4 + (uint64_t)n->part);
    for (int k = 0; k < n->n_in; k++)
        h = mix(h, (uint64_t)(uintptr_t)n->in[k]);
    h = mix(h, (uint64_t)n->a.axis);
    h = mix(h, (uint64_t)n->a.start);
    h = mix(h, (uint64_t)n->a.count);
    h = mix(h, (uint64_t)n->a.index);
    h = mix(h, (uint64_t)n->shape.rank);
    for (int k = 0; k < n->shape.rank; k++)
        h = mix(h, (uint64_t)n->shape.dim[k]);
    const Const *c = n->a.data;
    for (int64_t k = 0; c && k < c->n; k++) {
        uint64_t v;
        memcpy(&v, c->f ? (const void *)&c->f[k] : (const void *)&c->i[k], sizeof v);
        h = mix(h, v);
    }
    return h;
}

static bool
const_equal(const Const *a, const Const *b)
{
    if (a == b)
        return true;
    if (!a || !b || a->n != b->n || !a->f != !b->f)
        return false;
    size_t n = (size_t)a->n;
    return a->f ? !memcmp(a->f, b->f, n * sizeof *a->f)
                : !memcmp(a->i, b->i, n * sizeof *a->i);
}

static bool
mask_equal(const Mask *a, const Mask *b)
{
    if (a == b)
        return true;
    if (!a || !b || a->kind != b->kind || a->n_kids != b->n_kids ||
        a->value != b->value || a->n_list != b->n_list)
        return false;
    if (a->n_list && memcmp(a->list, b->list, (size_t)a->n_list * sizeof *a->list))
        return false;
    for (int k = 0; k < a->n_kids; k++)
        if (!mask_equal(a->kid[k], b->kid[k]))
            return false;
    return true;
}

static bool
double_equal(double a, double b)
{
    return !memcmp(&a, &b, sizeof a);
}

bool
attr_equal(const Attr *a, const Attr *b)
{
    return a->axis == b->axis && a->start == b->start && a->count == b->count &&
           a->index == b->index && a->use == b->use && a->heads == b->heads &&
           a->ta == b->ta && a->tb == b->tb && a->keep == b->keep &&
           a->adjacent == b->adjacent && a->inverse == b->inverse &&
           a->joined == b->joined && double_equal(a->p, b->p) &&
           double_equal(a->lo, b->lo) && double_equal(a->hi, b->hi) &&
           a->n_list == b->n_list &&
           (!a->n_list ||
            !memcmp(a->list, b->list, (size_t)a->n_list * sizeof *a->list)) &&
           shape_equal(a->shape, b->shape) && const_equal(a->data, b->data) &&
           mask_equal(a->mask, b->mask) && a->site == b->site && a->first == b->first &&
           a->pitch == b->pitch && a->q_first == b->q_first && a->q_rows == b->q_rows &&
           a->k_first == b->k_first && a->k_rows == b->k_rows;
}

static bool
node_equal(const Node *a, const Node *b)
{
    if (a->op != b->op || a->part != b->part || a->call != b->call ||
        a->n_in != b->n_in || a->type != b->type || !shape_equal(a->shape, b->shape))
        return false;
    for (int k = 0; k < a->n_in; k++)
        if (a->in[k] != b->in[k])
            return false;
    return attr_equal(&a->a, &b->a);
}

// Whether a node of the table still stands in the graph.
static bool
alive(const Graph *g, const Node *n)
{
    return n->id < g->n_nodes && g->nodes[n->id] == n;
}

static Node *
table_find(const Graph *g, const Node *like, uint64_t h)
{
    const Table *t = g->table;
    for (size_t k = h & (t->cap - 1); t->slot[k]; k = (k + 1) & (t->cap - 1))
        if (alive(g, t->slot[k]) && node_equal(t->slot[k], like))
            return t->slot[k];
    return NULL;
}

static void
table_put(Table *t, Node *n, uint64_t h)
{
    size_t k = h & (t->cap - 1);
    while (t->slot[k])
        k = (k + 1) & (t->cap - 1);
    t->slot[k] = n;
    t->n++;
}

static void
table_rebuild(Graph *g)
{
    Table *t = g->table;
    while ((size_t)g->n_nodes * 2 + 2 > t->cap)
        t->cap *= 2;
    t->slot = arena_array(&g->mem->perm, Node *, t->cap);
    t->n = 0;
    for (int k = 0; k < g->n_nodes; k++)
        if (!(op_info[g->nodes[k]->op].flags & OPF_SINK))
            table_put(t, g->nodes[k], hash_of(g->nodes[k]));
}

static void
append(Graph *g, Node *n)
{
    Table *t = g->table;
    Arena *a = &g->mem->perm;
    if (g->nodes != t->nodes)
        t->cap_nodes = g->n_nodes;
    if (g->n_nodes == t->cap_nodes)
        g->nodes = array_grow(a, g->nodes, g->n_nodes, &t->cap_nodes, sizeof *g->nodes);
    t->nodes = g->nodes;
    n->id = g->n_nodes;
    g->nodes[g->n_nodes++] = n;
    if (!(op_info[n->op].flags & OPF_SINK))
        return;
    if (g->sinks != t->sinks)
        t->cap_sinks = g->n_sinks;
    if (g->n_sinks == t->cap_sinks)
        g->sinks = array_grow(a, g->sinks, g->n_sinks, &t->cap_sinks, sizeof *g->sinks);
    t->sinks = g->sinks;
    g->sinks[g->n_sinks++] = n;
}

static const Const *
const_copy(Arena *a, const Const *c)
{
    Const *d = arena_new(a, Const);
    size_t n = (size_t)c->n;
    d->n = c->n;
    if (c->f)
        d->f = memcpy(arena_array(a, double, n), c->f, n * sizeof *c->f);
    else
        d->i = memcpy(arena_array(a, int64_t, n), c->i, n * sizeof *c->i);
    return d;
}

// The node that stays: operands, list and constant of its own.
static Node *
node_copy(Graph *g, const Node *like)
{
    Arena *a = &g->mem->perm;
    Node *n = arena_new(a, Node);
    *n = *like;
    size_t size = (size_t)n->n_in * sizeof *n->in;
    n->in = arena_array(a, Node *, n->n_in);
    if (size)
        memcpy(n->in, like->in, size);
    if (n->a.n_list) {
        int64_t *list = arena_array(a, int64_t, n->a.n_list);
        memcpy(list, like->a.list, (size_t)n->a.n_list * sizeof *list);
        n->a.list = list;
    } else {
        n->a.list = NULL;
    }
    if (n->a.data)
        n->a.data = const_copy(a, n->a.data);
    return n;
}

Node *
graph_add(Graph *g, Op op, Node *const *in, int n_in, Attr a, Place place)
{
    const OpInfo *info = &op_info[op];
    if (n_in < info->min_in || (info->max_in >= 0 && n_in > info->max_in))
        die("%s takes %d to %d operands, got %d", info->name, info->min_in, info->max_in,
            n_in);
    for (int k = 0; k < n_in; k++)
        if (!in[k])
            return NULL;
    Node like = {.op = op, .part = g->part, .call = g->call, .origin = g->origin};
    if (is_leaf(op)) {
        like.part = PART_FORWARD;
        like.call = NULL;
        like.origin = NULL;
    }
    like.n_in = n_in;
    like.in = (Node **)(uintptr_t)in; // only read; the copy has its own
    like.a = a;
    like.place = place;
    if (!info->infer(g, &like))
        return NULL;
    uint64_t h = hash_of(&like);
    bool sink = info->flags & OPF_SINK;
    Node *n = sink ? NULL : table_find(g, &like, h);
    if (n)
        return n;
    n = node_copy(g, &like);
    append(g, n);
    Table *t = g->table;
    if (t->n * 2 + 2 > t->cap)
        table_rebuild(g); // takes n in
    else if (!sink)
        table_put(t, n, h);
    return n;
}

Node *
graph_const_f(Graph *g, Shape shape, const double *v, int64_t n, Place place)
{
    Const c = {.n = n, .f = v};
    return graph_add(g, OP_CONST, NULL, 0,
                     (Attr){.axis = DT_F32, .shape = shape, .data = &c}, place);
}

Node *
graph_const_i(Graph *g, DType type, Shape shape, const int64_t *v, int64_t n, Place place)
{
    Const c = {.n = n, .i = v};
    return graph_add(g, OP_CONST, NULL, 0,
                     (Attr){.axis = type, .shape = shape, .data = &c}, place);
}

Node *
graph_input(Graph *g, InputKind kind, int domain, const char *name, DType type,
            Shape shape)
{
    Table *t = g->table;
    int k = 0;
    while (k < g->n_inputs &&
           (g->inputs[k].kind != kind || g->inputs[k].domain != domain))
        k++;
    if (k == g->n_inputs) {
        if (g->n_inputs == t->cap_inputs)
            g->inputs = array_grow(&g->mem->perm, g->inputs, g->n_inputs, &t->cap_inputs,
                                   sizeof *g->inputs);
        g->inputs[g->n_inputs++] = (Input){kind, domain, name, type, shape};
    }
    return graph_add(g, OP_INPUT, NULL, 0, (Attr){.index = k}, (Place){0});
}

int
graph_param(Graph *g, Param p)
{
    Table *t = g->table;
    if (g->n_params == t->cap_params)
        g->params = array_grow(&g->mem->perm, g->params, g->n_params, &t->cap_params,
                               sizeof *g->params);
    g->params[g->n_params] = p;
    return g->n_params++;
}

Node *
graph_param_node(Graph *g, int index, Place place)
{
    return graph_add(g, OP_PARAM, NULL, 0, (Attr){.index = index}, place);
}

Call *
graph_call(Graph *g, const char *name, Call *outer, Place place)
{
    Table *t = g->table;
    Call *c = arena_new(&g->mem->perm, Call);
    *c = (Call){.name = name, .id = g->n_calls, .outer = outer, .place = place};
    for (int k = 0; k < g->n_calls; k++)
        if (!strcmp(g->calls[k]->name, name))
            c->ordinal++;
    if (g->n_calls == t->cap_calls)
        g->calls = array_grow(&g->mem->perm, g->calls, g->n_calls, &t->cap_calls,
                              sizeof *g->calls);
    g->calls[g->n_calls++] = c;
    return c;
}

// ---- dropping dead nodes ------------------------------------------------------------

typedef struct Walk {
    Node **order; // nodes that stay, operands first
    int n;
    Array(Node *) stack;
} Walk;

enum { NEW, OPEN, DONE };

static int
state_of(const Node *n)
{
    return (int)(intptr_t)n->user;
}

static void
set_state(Node *n, int state)
{
    n->user = (void *)(intptr_t)state;
}

// Every node reachable from n to NEW, so that stale notes of a pass do not matter.
static void
clear_from(Graph *g, Walk *w, Node *n)
{
    if (!n || n->id < 0)
        return;
    array_push(&g->mem->scratch, &w->stack, n);
    while (w->stack.n) {
        Node *x = w->stack.v[--w->stack.n];
        if (x->id < 0)
            continue;
        x->id = -1;
        set_state(x, NEW);
        w->n++;
        for (int k = 0; k < x->n_in; k++)
            array_push(&g->mem->scratch, &w->stack, x->in[k]);
    }
}

// Puts n behind its operands.
static void
place_node(Graph *g, Walk *w, Node *n)
{
    array_push(&g->mem->scratch, &w->stack, n);
    while (w->stack.n) {
        Node *x = w->stack.v[w->stack.n - 1];
        if (state_of(x) == DONE) {
            w->stack.n--;
        } else if (state_of(x) == OPEN) {
            w->stack.n--;
            set_state(x, DONE);
            x->id = w->n;
            w->order[w->n++] = x;
        } else {
            set_state(x, OPEN);
            for (int k = x->n_in - 1; k >= 0; k--)
                if (state_of(x->in[k]) == NEW)
                    array_push(&g->mem->scratch, &w->stack, x->in[k]);
                else if (state_of(x->in[k]) == OPEN)
                    die("the graph has a cycle at %s", op_info[x->op].name);
        }
    }
}

void
graph_compact(Graph *g)
{
    Walk w = {0};
    clear_from(g, &w, g->logits);
    clear_from(g, &w, g->embedding);
    for (int k = 0; k < g->n_sinks; k++)
        clear_from(g, &w, g->sinks[k]);
    w.order = arena_array(&g->mem->perm, Node *, w.n + 1);
    w.n = 0;
    Node **old = g->nodes;
    int n_old = g->n_nodes;
    for (int k = 0; k < n_old;
         k++) // old nodes in their order; a dead one keeps its id >= 0
        if (old[k]->id < 0)
            place_node(g, &w, old[k]);
    if (g->logits)
        place_node(g, &w, g->logits);
    if (g->embedding)
        place_node(g, &w, g->embedding);
    for (int k = 0; k < g->n_sinks; k++)
        place_node(g, &w, g->sinks[k]);
    g->nodes = w.order;
    g->n_nodes = w.n;
    for (int k = 0; k < n_old; k++)
        if (old[k]->id >= w.n || w.order[old[k]->id] != old[k])
            old[k]->id = INT32_MAX; // dead: never found again
    int sinks = 0;
    for (int k = 0; k < g->n_nodes; k++)
        if (op_info[g->nodes[k]->op].flags & OPF_SINK)
            g->sinks[sinks++] = g->nodes[k];
    if (sinks != g->n_sinks)
        die("%d sinks stand in the graph, %d are listed", sinks, g->n_sinks);
    table_rebuild(g);
}

Graph *
graph_copy(const Graph *g, Mem *mem)
{
    Arena *a = &mem->perm;
    Graph *c = graph_new(mem, g->diag);
    void *table = c->table;
    *c = *g;
    c->mem = mem;
    c->table = table;
    c->nodes = arena_array(a, Node *, g->n_nodes);
    c->sinks = arena_array(a, Node *, g->n_sinks);
    for (int i = 0; i < g->n_nodes; i++)
        c->nodes[i] = arena_new(a, Node);
    for (int i = 0; i < g->n_nodes; i++) {
        const Node *n = g->nodes[i];
        Node *m = c->nodes[i];
        if (n->id != i)
            die("node %d stands at %d", n->id, i);
        *m = *n;
        m->in = arena_array(a, Node *, n->n_in);
        for (int j = 0; j < n->n_in; j++)
            m->in[j] = c->nodes[n->in[j]->id];
    }
    for (int i = 0; i < g->n_nodes; i++) { // the origin of a dead node's clone is not among them
        const Node *o = g->nodes[i]->origin;
        if (o && o->id < g->n_nodes && g->nodes[o->id] == o)
            c->nodes[i]->origin = c->nodes[o->id];
    }
    for (int i = 0; i < g->n_sinks; i++)
        c->sinks[i] = c->nodes[g->sinks[i]->id];
    c->logits = g->logits ? c->nodes[g->logits->id] : NULL;
    c->embedding = g->embedding ? c->nodes[g->embedding->id] : NULL;
    table_rebuild(c);
    return c;
}

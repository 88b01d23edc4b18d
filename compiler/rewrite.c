// rewrite.c - building a graph anew beside the old one.
//
// New nodes are added behind the old ones; rewrite_end puts what is alive into the order of the originals,
// so that a pass changes the order of a program no more than it must.

#include "passes.h"

Rewrite
rewrite_begin(Graph *g)
{
    Rewrite rw = {.g = g, .n_old = g->n_nodes};
    rw.old = arena_array(&g->mem->scratch, Node *, g->n_nodes);
    rw.to = arena_array(&g->mem->scratch, Node *, g->n_nodes);
    for (int i = 0; i < g->n_nodes; i++)
        rw.old[i] = g->nodes[i];
    return rw;
}

Node *
rewritten(const Rewrite *rw, const Node *old)
{
    if (old == NULL)
        return NULL;
    Node *n = rw->to[old->id];
    if (n == NULL)
        die("'%s' is read before it is rewritten", op_info[old->op].name);
    return n;
}

void
rewrite_set(Rewrite *rw, const Node *old, Node *to)
{
    if (to == NULL)
        die("a rewrite of '%s' does not fit its operands", op_info[old->op].name);
    rw->to[old->id] = to;
}

Node *
rewrite_add(Rewrite *rw, const Node *like, Op op, Node *const *in, int n_in, Attr a)
{
    Graph *g = rw->g;
    g->part = like->part;
    g->call = like->call;
    g->origin = like->origin;
    Node *n = graph_add(g, op, in, n_in, a, like->place);
    if (n != NULL && n->name == NULL && n->op == like->op)
        n->name = like->name;
    g->part = PART_FORWARD;
    g->call = NULL;
    g->origin = NULL;
    return n;
}

Node *
rewrite_again(Rewrite *rw, Node *old)
{
    bool same = true;
    Node **in = arena_array(&rw->g->mem->scratch, Node *, old->n_in);
    for (int k = 0; k < old->n_in; k++) {
        in[k] = rewritten(rw, old->in[k]);
        same = same && in[k] == old->in[k];
    }
    return same ? old : rewrite_add(rw, old, old->op, in, old->n_in, old->a);
}

// Appends a node and, before it, what it reads; each once. A stack of its own instead of recursion, since
// graphs may be deep.
static void
place_node(Graph *g, Node *root, bool *placed, Node **list, int *n_list, Node **stack)
{
    int depth = 0;
    stack[depth++] = root;
    while (depth > 0) {
        Node *n = stack[depth - 1];
        Node *next = NULL;
        for (int k = 0; k < n->n_in && next == NULL; k++)
            if (!placed[n->in[k]->id])
                next = n->in[k];
        if (next != NULL) {
            if (depth >= g->n_nodes)
                die("the rewritten graph has a cycle");
            stack[depth++] = next;
            continue;
        }
        if (!placed[n->id]) {
            placed[n->id] = true;
            list[(*n_list)++] = n;
        }
        depth--;
    }
}

void
rewrite_end(Rewrite *rw)
{
    Graph *g = rw->g;
    Arena *a = &g->mem->scratch;
    bool *placed = arena_array(a, bool, g->n_nodes);
    Node **list = arena_array(a, Node *, g->n_nodes);
    Node **stack = arena_array(a, Node *, g->n_nodes);
    int n_list = 0;

    for (int i = 0; i < rw->n_old; i++)
        if (rw->to[i] != NULL)
            place_node(g, rw->to[i], placed, list, &n_list, stack);
    g->logits = rewritten(rw, g->logits);
    g->embedding = rewritten(rw, g->embedding);
    for (int i = 0; i < g->n_sinks; i++)
        g->sinks[i] = rewritten(rw, g->sinks[i]);
    for (int i = 0; i < n_list; i++)
        g->nodes[i] = list[i];
    g->n_nodes = n_list;
    for (int i = 0; i < n_list; i++)
        g->nodes[i]->id = i;
    graph_compact(g);
}

void
graph_set_nodes(Graph *g, Node *const *nodes, int n)
{
    Node **copy = arena_array(&g->mem->perm, Node *, n);
    for (int i = 0; i < n; i++) {
        copy[i] = nodes[i];
        copy[i]->id = i;
    }
    g->nodes = copy;
    g->n_nodes = n;
}

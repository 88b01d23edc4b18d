// checkpoint.c - choose what is kept for the backward pass and what is recomputed.
//
// Backward nodes read values of the forward pass. A value is kept, or recomputed where the backward region of
// its block needs it (keep.c tells which). Recomputation is by clones: the same operations on the same operands
// give the same bits.
//
// Needs: the backward graph, block calls.  Leaves: kept marks, clones in part RECOMPUTE standing before the
// first backward node of their group, backward nodes that read clones; originals that nothing reads any more
// are left to sweep.

#include "keep.h"

#include <stdlib.h>

// Backward nodes of one group share clones: the chosen call, else the outermost call, else what lies between.
static Call *
group_of(const Keeper *k, Call *call)
{
    if (k->choice.kind == CHOICE_SAMPLE)
        return NULL;
    Call *chosen = keep_chosen_call(k, call);
    if (chosen != NULL)
        return chosen;
    while (call != NULL && call->outer != NULL)
        call = call->outer;
    return call;
}

static Node *
clone(Keeper *k, const Node *n, Node *const *to, Call *group)
{
    Arena *a = &k->g->mem->perm;
    Node *c = arena_new(a, Node);
    *c = *n;
    c->in = arena_array(a, Node *, n->n_in);
    for (int j = 0; j < n->n_in; j++)
        c->in[j] = to[n->in[j]->id] != NULL ? to[n->in[j]->id] : n->in[j];
    c->part = PART_RECOMPUTE;
    c->origin = n->origin != NULL ? n->origin : k->g->nodes[n->id];
    c->kept = false;
    if (k->choice.kind != CHOICE_SAMPLE && group_of(k, n->call) != group)
        c->call = group;
    return c;
}

// What backward nodes read of the clones. What takes a few operations is made a second time from the others:
// the recomputation behind it and the backward pass each have it for a short while, not from one to the other.
static Node **
late_clones(Keeper *k, const bool *copy, Node *const *to, Call *group)
{
    Graph *g = k->g;
    Node **late = arena_array(&g->mem->scratch, Node *, k->n_forward);
    for (int i = 0; i < k->n_forward; i++) {
        late[i] = to[i];
        if (!copy[i] || !keep_is_light(g->nodes[i]))
            continue;
        late[i] = clone(k, g->nodes[i], late, group);
        array_push(&g->mem->scratch, &k->out, late[i]);
    }
    return late;
}

// The backward nodes that share clones.
typedef struct Group {
    Call *call;
    Array(Node *) nodes;
    bool *copy; // [n_forward] made again for them
} Group;

// Decides for each forward value that the group needs: marks the kept ones, lists the others in `copy`.
static void
decide(Keeper *k, Group *group)
{
    Graph *g = k->g;
    Arena *a = &g->mem->scratch;
    bool *need = arena_array(a, bool, k->n_forward);
    group->copy = arena_array(a, bool, k->n_forward);
    for (int i = 0; i < group->nodes.n; i++)
        for (int j = 0; j < group->nodes.v[i]->n_in; j++)
            if (group->nodes.v[i]->in[j]->part == PART_FORWARD)
                need[group->nodes.v[i]->in[j]->id] = true;
    for (int i = k->n_forward - 1; i >= 0; i--) {
        Node *n = g->nodes[i];
        if (!need[i] || k->direct[i] || keep_is_leaf(n))
            continue;
        if (!keep_recomputes(k, n, group->call, need)) {
            if (group->call != NULL && keep_chosen_call(k, n->call) == group->call && !n->kept)
                array_push(a, &k->dear, ((Dear){keep_whole(n)->id, (int64_t)node_bytes(n), keep_worth(k, n, need)}));
            n->kept = true;
            continue;
        }
        group->copy[i] = true;
        for (int j = 0; j < n->n_in; j++)
            need[n->in[j]->id] = true;
    }
}

// Appends the clones that a group needs and lets its nodes read them.
static void
clone_for_group(Keeper *k, const Group *group)
{
    Graph *g = k->g;
    Node **to = arena_array(&g->mem->scratch, Node *, k->n_forward);
    for (int i = 0; i < k->n_forward; i++) {
        if (!group->copy[i])
            continue;
        to[i] = clone(k, g->nodes[i], to, group->call);
        array_push(&g->mem->scratch, &k->out, to[i]);
    }
    Node **late = late_clones(k, group->copy, to, group->call);
    for (int i = 0; i < group->nodes.n; i++)
        for (int j = 0; j < group->nodes.v[i]->n_in; j++) {
            Node *x = group->nodes.v[i]->in[j];
            if (x->part == PART_FORWARD && late[x->id] != NULL)
                group->nodes.v[i]->in[j] = late[x->id];
        }
}

// Groups in the order of their first backward node; number[i] is the group of node i.
static int
find_groups(Keeper *k, int *number, Group *groups)
{
    Graph *g = k->g;
    int n_groups = 0;
    int *of_call = arena_array(&g->mem->scratch, int, g->n_calls + 1);
    for (int i = k->n_forward; i < g->n_nodes; i++) {
        Call *c = group_of(k, g->nodes[i]->call);
        int slot = c == NULL ? g->n_calls : c->id;
        if (of_call[slot] == 0) {
            groups[n_groups].call = c;
            of_call[slot] = ++n_groups;
        }
        number[i] = of_call[slot] - 1;
        array_push(&g->mem->scratch, &groups[number[i]].nodes, g->nodes[i]);
    }
    return n_groups;
}

static int
dearest_first(const void *a, const void *b)
{
    const Dear *x = a, *y = b;
    if (x->worth != y->worth)
        return x->worth < y->worth ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

// Of all that chosen blocks would keep, only the dearest that keep_limit has room for is allowed.
static void
allow_dearest(Keeper *k)
{
    Graph *g = k->g;
    int64_t bytes = 0;
    if (k->dear.n > 0)
        qsort(k->dear.v, (size_t)k->dear.n, sizeof *k->dear.v, dearest_first);
    for (int i = 0; i < k->n_forward; i++)
        g->nodes[i]->kept = k->allowed[i] = false;
    for (int i = 0; i < k->dear.n; i++) {
        bytes += k->dear.v[i].bytes;
        k->allowed[k->dear.v[i].id] = g->keep_limit == 0 || bytes <= g->keep_limit;
    }
    g->kept_dear = bytes;
}

// Leaves that differentiation added stand behind its nodes; they come first again.
static int
forward_first(Graph *g)
{
    Node **list = arena_array(&g->mem->scratch, Node *, g->n_nodes);
    int n = 0, n_forward;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->part == PART_FORWARD)
            list[n++] = g->nodes[i];
    n_forward = n;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->part != PART_FORWARD)
            list[n++] = g->nodes[i];
    graph_set_nodes(g, list, n);
    return n_forward;
}

bool
checkpoint(Graph *g)
{
    Arena *a = &g->mem->scratch;
    Keeper k = {.g = g};
    if (!read_choice(g, g->checkpoint, &k.choice))
        return false;
    k.n_forward = forward_first(g);
    k.direct = arena_array(a, bool, g->n_nodes);
    k.again = arena_array(a, bool, g->n_nodes);
    k.part = arena_array(a, bool, g->n_nodes);
    k.allowed = arena_array(a, bool, g->n_nodes);
    k.flops = arena_array(a, double, g->n_nodes);
    keep_classify(&k);
    for (int i = 0; i < k.n_forward; i++)
        array_push(a, &k.out, g->nodes[i]);

    int *number = arena_array(a, int, g->n_nodes);
    Group *groups = arena_array(a, Group, g->n_calls + 1);
    int n_groups = find_groups(&k, number, groups);
    for (int i = 0; i < n_groups; i++)
        decide(&k, &groups[i]);
    allow_dearest(&k);
    bool *begun = arena_array(a, bool, n_groups);
    for (int i = 0; i < n_groups; i++)
        decide(&k, &groups[i]);
    for (int i = k.n_forward; i < g->n_nodes; i++) {
        if (!begun[number[i]])
            clone_for_group(&k, &groups[number[i]]);
        begun[number[i]] = true;
        array_push(a, &k.out, g->nodes[i]);
    }
    graph_set_nodes(g, k.out.v, k.out.n);
    return true;
}

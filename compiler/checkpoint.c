// checkpoint.c - choose what is kept for the backward pass and what is recomputed.
//
// Backward nodes read values of the forward pass. Values made of inputs and constants alone are read again as
// they are; moves (lookups, slices, views) are done again, and so is what takes a few operations an element
// (activations, norms, scaling) on values that are at hand: reading it back from memory costs as much. Of the
// rest, a value inside a chosen block call is recomputed where its own backward region needs it, and every
// other one is kept. So a chosen call keeps its inputs, and of its own values just those that are worth it, the
// results of attention over many keys. Recomputation is by clones: the same operations on the same operands give
// the same bits.
//
// Needs: the backward graph, block calls.  Leaves: kept marks, clones in part RECOMPUTE standing before the
// first backward node of their group, backward nodes that read clones; originals that nothing reads any more
// are left to sweep.

#include "passes.h"
#include "program.h"

#include <fnmatch.h>
#include <string.h>

typedef enum ChoiceKind { CHOICE_NONE, CHOICE_BLOCKS, CHOICE_SAMPLE, CHOICE_NAMES } ChoiceKind;

typedef struct Choice {
    ChoiceKind kind;
    bool *chosen; // by call id
} Choice;

typedef struct Keeper {
    Graph *g;
    Choice choice;
    int n_forward;
    bool *direct;      // inputs and constants alone: read where it is
    bool *again;       // a move of direct values, parameters or other moves
    Array(Node *) out; // the new order
} Keeper;

// ---- the choice -------------------------------------------------------------------------------------

static void
list_blocks(Graph *g)
{
    Text t = {0};
    Arena *a = &g->mem->scratch;
    for (int i = 0; i < g->n_calls; i++)
        if (g->calls[i]->ordinal == 0)
            text_add(a, &t, "%s%s", t.n > 0 ? ", " : "", g->calls[i]->name);
    diag_note(g->diag, (Place){0}, "choices are none, blocks, sample and names of blocks: %s",
              t.n > 0 ? t.v : "this model has none");
}

// The choice or block that a name may have meant.
static void
suggest_choice(Graph *g, const char *name)
{
    Arena *a = &g->mem->scratch;
    Array(const char *) names = {0};
    static const char *const words[] = {"none", "blocks", "sample"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        array_push(a, &names, words[i]);
    for (int i = 0; i < g->n_calls; i++)
        array_push(a, &names, g->calls[i]->name);
    const char *near = nearest_name(name, names.v, names.n);
    if (near)
        diag_note(g->diag, (Place){0}, "did you mean '%s'?", near);
}

static bool
choose_names(Graph *g, const char *text, bool *chosen)
{
    for (const char *at = text; *at != '\0';) {
        size_t n = strcspn(at, ",");
        const char *pattern = arena_copy(&g->mem->scratch, at, n);
        bool found = false;
        for (int i = 0; i < g->n_calls; i++)
            if (fnmatch(pattern, g->calls[i]->name, 0) == 0)
                found = chosen[i] = true;
        if (!found) {
            diag_error(g->diag, (Place){0}, "no block is called '%s'", pattern);
            suggest_choice(g, pattern);
            list_blocks(g);
            return false;
        }
        at += n + (at[n] == ',');
    }
    return true;
}

static bool
read_choice(Graph *g, const char *text, Choice *c)
{
    c->chosen = arena_array(&g->mem->scratch, bool, g->n_calls + 1);
    if (text == NULL || strcmp(text, "none") == 0) {
        c->kind = CHOICE_NONE;
        return true;
    }
    if (strcmp(text, "sample") == 0) {
        c->kind = CHOICE_SAMPLE;
        return true;
    }
    if (strcmp(text, "blocks") == 0) {
        c->kind = CHOICE_BLOCKS;
        for (int i = 0; i < g->n_calls; i++)
            c->chosen[i] = true;
        return true;
    }
    if (strncmp(text, "budget:", 7) == 0 || strcmp(text, "auto") == 0 || text[0] == '\0') {
        diag_error(g->diag, (Place){0}, "checkpoint choice '%s' is not available in this version", text);
        list_blocks(g);
        return false;
    }
    c->kind = CHOICE_NAMES;
    return choose_names(g, text, c->chosen);
}

bool
checkpoint_choice_valid(Graph *g, const char *choice)
{
    Choice c;
    return read_choice(g, choice, &c);
}

// The outermost chosen call of a chain, or NULL.
static Call *
chosen_call(const Keeper *k, Call *call)
{
    Call *found = NULL;
    for (; call != NULL; call = call->outer)
        if (k->choice.chosen[call->id])
            found = call;
    return found;
}

// Backward nodes of one group share clones: the chosen call, else the outermost call, else what lies between.
static Call *
group_of(const Keeper *k, Call *call)
{
    if (k->choice.kind == CHOICE_SAMPLE)
        return NULL;
    Call *chosen = chosen_call(k, call);
    if (chosen != NULL)
        return chosen;
    while (call != NULL && call->outer != NULL)
        call = call->outer;
    return call;
}

// ---- what may be read again ----------------------------------------------------------------------------

static bool
is_leaf(const Node *n)
{
    return n->op == OP_PARAM || n->op == OP_INPUT || n->op == OP_CONST || n->op == OP_DLOGITS;
}

static void
classify(Keeper *k)
{
    for (int i = 0; i < k->n_forward; i++) {
        const Node *n = k->g->nodes[i];
        int flags = op_info[n->op].flags;
        bool direct = n->op != OP_PARAM && (flags & OPF_CHANCE) == 0;
        bool again = (flags & OPF_MOVE) != 0 || n->op == OP_CHANCE;
        for (int j = 0; j < n->n_in; j++) {
            const Node *x = n->in[j];
            direct = direct && k->direct[x->id];
            again = again && (k->direct[x->id] || k->again[x->id] || is_leaf(x));
        }
        k->direct[i] = direct;
        k->again[i] = again && !direct;
    }
}

// A move that reads one computed value: a view of it, made again from what is kept.
static bool
is_view(const Keeper *k, const Node *n)
{
    if ((op_info[n->op].flags & OPF_MOVE) == 0 || n->op == OP_CONCAT)
        return false;
    int computed = 0;
    for (int j = 0; j < n->n_in; j++) {
        const Node *x = n->in[j];
        computed += !(k->direct[x->id] || k->again[x->id] || is_leaf(x));
    }
    return computed == 1;
}

// ---- what is cheaper done again than kept --------------------------------------------------------------

enum { LIGHT_DEPTH = 8 }; // operations done again to get a value from what is at hand

// An addition to a product may be one statement with it, whose sums begin with the bias.
static bool
adds_to_product(const Node *n)
{
    for (int j = 0; n->op == OP_ADD && j < n->n_in; j++) {
        const Node *x = n->in[j];
        while (x->op == OP_RESHAPE)
            x = x->in[0];
        if (x->op == OP_MATMUL || x->op == OP_PROJECTED)
            return true;
    }
    return false;
}

static bool
is_light(const Node *n)
{
    if (adds_to_product(n))
        return false;
    return (op_info[n->op].flags & OPF_POINTWISE) != 0 || n->op == OP_NORMALIZE;
}

// Bytes to be kept, beyond what is needed anyway, so that a value can be had in the backward pass.
static int64_t
price(const Keeper *k, const Node *n, const bool *need, int depth)
{
    static const int64_t width[] = {4, 8, 1};
    if (k->direct[n->id] || k->again[n->id] || is_leaf(n) || need[n->id] || n->kept)
        return 0;
    int64_t own = shape_size(n->shape) * width[n->type], sum = 0;
    if (depth == LIGHT_DEPTH || !(is_light(n) || is_view(k, n)))
        return own;
    for (int j = 0; j < n->n_in && sum < own; j++)
        sum += price(k, n->in[j], need, depth + 1);
    return sum < own ? sum : own;
}

// Whether a value that is needed is done again: nothing is kept for it that would not be kept anyway.
static bool
done_again(const Keeper *k, const Node *n, const bool *need)
{
    if (!is_light(n) || n->kept)
        return false;
    for (int j = 0; j < n->n_in; j++)
        if (price(k, n->in[j], need, 1) > 0)
            return false;
    return true;
}

// ---- clones --------------------------------------------------------------------------------------------

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

// Operations a byte from which a block keeps a value all the same.
enum { KEEP_FLOPS = 128 };

// Attention over many keys is a great deal of work for a small result: a row, and two numbers a head.
static bool
worth_keeping(const Node *n)
{
    if (n->op == OP_PART)
        n = n->in[0];
    if (n->op != OP_ATTEND)
        return false;
    return op_info[n->op].flops(n) >= KEEP_FLOPS * 4.0 * (double)shape_size(n->shape);
}

// Whether the group recomputes a value instead of reading a kept one.
static bool
recomputes(const Keeper *k, const Node *n, Call *group, const bool *need)
{
    if (k->again[n->id] || is_view(k, n) || k->choice.kind == CHOICE_SAMPLE)
        return true;
    Call *chosen = chosen_call(k, n->call);
    if (chosen != NULL && chosen == group)
        return !worth_keeping(n);
    return done_again(k, n, need);
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
        if (!copy[i] || !is_light(g->nodes[i]))
            continue;
        late[i] = clone(k, g->nodes[i], late, group);
        array_push(&g->mem->scratch, &k->out, late[i]);
    }
    return late;
}

// Clones what the group's backward nodes need, appends the clones and lets the nodes read them.
static void
keep_for_group(Keeper *k, Node **backward, int n_backward, Call *group)
{
    Graph *g = k->g;
    Arena *a = &g->mem->scratch;
    bool *need = arena_array(a, bool, k->n_forward);
    bool *copy = arena_array(a, bool, k->n_forward);
    Node **to = arena_array(a, Node *, k->n_forward);

    for (int i = 0; i < n_backward; i++)
        for (int j = 0; j < backward[i]->n_in; j++)
            if (backward[i]->in[j]->part == PART_FORWARD)
                need[backward[i]->in[j]->id] = true;
    for (int i = k->n_forward - 1; i >= 0; i--) {
        Node *n = g->nodes[i];
        if (!need[i] || k->direct[i] || is_leaf(n))
            continue;
        if (!recomputes(k, n, group, need)) {
            n->kept = true;
            continue;
        }
        copy[i] = true;
        for (int j = 0; j < n->n_in; j++)
            need[n->in[j]->id] = true;
    }
    for (int i = 0; i < k->n_forward; i++) {
        if (!copy[i])
            continue;
        to[i] = clone(k, g->nodes[i], to, group);
        array_push(a, &k->out, to[i]);
    }
    Node **late = late_clones(k, copy, to, group);
    for (int i = 0; i < n_backward; i++)
        for (int j = 0; j < backward[i]->n_in; j++) {
            Node *x = backward[i]->in[j];
            if (x->part == PART_FORWARD && late[x->id] != NULL)
                backward[i]->in[j] = late[x->id];
        }
}

// Numbers the groups in the order of their first backward node.
static int
number_groups(Keeper *k, int *group, Call **calls)
{
    Graph *g = k->g;
    int n_groups = 0;
    int *of_call = arena_array(&g->mem->scratch, int, g->n_calls + 1);
    for (int i = k->n_forward; i < g->n_nodes; i++) {
        Call *c = group_of(k, g->nodes[i]->call);
        int slot = c == NULL ? g->n_calls : c->id;
        if (of_call[slot] == 0) {
            calls[n_groups] = c;
            of_call[slot] = ++n_groups;
        }
        group[i] = of_call[slot] - 1;
    }
    return n_groups;
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
    classify(&k);
    for (int i = 0; i < k.n_forward; i++)
        array_push(a, &k.out, g->nodes[i]);

    int *group = arena_array(a, int, g->n_nodes);
    Call **calls = arena_array(a, Call *, g->n_calls + 1);
    int n_groups = number_groups(&k, group, calls);
    bool *begun = arena_array(a, bool, n_groups);
    for (int i = k.n_forward; i < g->n_nodes; i++) {
        if (!begun[group[i]]) {
            Array(Node *) mine = {0};
            for (int j = i; j < g->n_nodes; j++)
                if (group[j] == group[i])
                    array_push(a, &mine, g->nodes[j]);
            begun[group[i]] = true;
            keep_for_group(&k, mine.v, mine.n, calls[group[i]]);
        }
        array_push(a, &k.out, g->nodes[i]);
    }
    graph_set_nodes(g, k.out.v, k.out.n);
    return true;
}

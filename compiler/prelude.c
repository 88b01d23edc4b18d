// prelude.c - when a node runs: with the inputs, in the forward or in the backward pass, and its region.
//
// What depends on inputs and constants alone (ids, times, masks, positions, de-duplication) is computed
// once, by gather_inputs; what other passes read of it stands in the sample's input record. All else
// keeps its part. A region is an outermost block call or a stretch between two of them.

#include "tile.h"

#include <string.h>

bool
op_is_alias(const Node *n)
{
    switch (n->op) {
    case OP_INPUT:
    case OP_PARAM:
    case OP_CONST:
    case OP_DLOGITS:
    case OP_RESHAPE:
    case OP_SLICE:
    case OP_EXPAND:
    case OP_PERMUTE:
    case OP_DETACH:
    case OP_PART:
    case OP_TAKE:
        return true;
    default:
        return false;
    }
}

bool
node_is_scalar_const(const Node *n)
{
    return n->op == OP_CONST && n->a.data->n == 1;
}

static bool
in_prelude(const Node *n)
{
    if (n->op == OP_INPUT || n->op == OP_CONST)
        return true;
    if (n->n_in == 0 || (op_info[n->op].flags & (OPF_SINK | OPF_CHANCE)))
        return false;
    for (int k = 0; k < n->n_in; k++)
        if (!INFO(n->in[k])->prelude)
            return false;
    return true;
}

static void
count_users(Graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++)
            INFO(g->nodes[i]->in[k])->n_users++;
    for (int i = 0; i < g->n_nodes; i++) {
        Info *f = INFO(g->nodes[i]);
        f->users = arena_array(&g->mem->perm, Node *, f->n_users);
        f->n_users = 0;
    }
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++) {
            Info *f = INFO(g->nodes[i]->in[k]);
            f->users[f->n_users++] = g->nodes[i];
        }
}

// A value is read in another timeline: it, or what it is a window of, must outlive its own.
static void
mark_read(Node *n, Timeline reader)
{
    if (n->op == OP_PARAM || n->op == OP_CONST || n->op == OP_DLOGITS)
        return;
    Info *f = INFO(n);
    if (f->line == reader)
        return;
    Node *root = n;
    while (op_is_alias(root) && root->n_in == 1 && root->op != OP_PART)
        root = root->in[0];
    if (f->line == TL_GATHER) {
        f->exported = true;
        if (!op_is_alias(root))
            INFO(root)->exported = true;
    } else if (root->op != OP_PARAM && root->op != OP_CONST && root->op != OP_DLOGITS) {
        Info *r = INFO(root);
        if (r->line == TL_GATHER) {
            INFO(n)->exported = true;
            return;
        }
        r->needed_back = true;
        for (Node *a = n; a != root; a = a->in[0])
            INFO(a)->needed_back = true;
    }
}

static Call *
outermost(Call *c)
{
    while (c && c->outer)
        c = c->outer;
    return c;
}

static Region *
region_add(Tiles *t, Timeline line, Call *call)
{
    Region *r = arena_new(&t->mem->perm, Region);
    r->line = line;
    r->call = call;
    array_push(&t->mem->perm, &t->regions, r);
    return r;
}

static void
count_flops(Region *r, const Node *n)
{
    double flops = op_info[n->op].flops ? op_info[n->op].flops(n) : 0.0;
    if (n->part == PART_RECOMPUTE)
        r->recomputed_flops += flops;
    else
        r->flops += flops;
}

// What is recomputed belongs to the first region that reads it.
static void
place_recomputed(Tiles *t)
{
    Graph *g = t->g;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        Node *n = g->nodes[i];
        Info *f = INFO(n);
        if (f->line != TL_BACKWARD || n->part != PART_RECOMPUTE)
            continue;
        f->region = t->regions.n - 1;
        for (int k = 0; k < f->n_users; k++)
            if (INFO(f->users[k])->line == TL_BACKWARD && INFO(f->users[k])->region < f->region)
                f->region = INFO(f->users[k])->region;
        count_flops(t->regions.v[f->region], n);
    }
}

static void
make_regions(Tiles *t)
{
    Graph *g = t->g;
    region_add(t, TL_GATHER, NULL);
    for (Timeline line = TL_FORWARD; line < TL_COUNT; line++) {
        Region *r = NULL;
        for (int i = 0; i < g->n_nodes; i++) {
            Node *n = g->nodes[i];
            Info *f = INFO(n);
            if (f->line != line || op_info[n->op].row == ROW_LEAF || n->part == PART_RECOMPUTE)
                continue;
            Call *call = outermost(n->call);
            if (!r || r->call != call)
                r = region_add(t, line, call);
            f->region = t->regions.n - 1;
            count_flops(r, n);
        }
    }
    place_recomputed(t);
}

// "blocks.0" -> "blocks_0"; a second call of an instance gets its number, an interrupted region too.
static void
name_regions(Tiles *t)
{
    Graph *g = t->g;
    int stretch[TL_COUNT] = {0};
    for (int i = 0; i < t->regions.n; i++) {
        Region *r = t->regions.v[i];
        if (r->line == TL_GATHER) {
            r->name = "inputs";
            continue;
        }
        bool again = false;
        for (int k = 0; k < g->n_nodes; k++)
            again |= INFO(g->nodes[k])->region == i && g->nodes[k]->part == PART_RECOMPUTE &&
                     !op_is_alias(g->nodes[k]);
        const char *what = r->line == TL_FORWARD ? "forward"
                           : again               ? "recompute_backward"
                                                 : "backward";
        Text s = {0};
        if (r->call) {
            for (const char *c = r->call->name; *c; c++) {
                bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                             (*c >= '0' && *c <= '9');
                text_add(&t->mem->perm, &s, "%c", plain ? *c : '_');
            }
            if (r->call->ordinal > 0)
                text_add(&t->mem->perm, &s, "_%d", r->call->ordinal + 1);
        } else {
            text_add(&t->mem->perm, &s, "outer_%d", stretch[r->line]++);
        }
        text_add(&t->mem->perm, &s, "_%s", what);
        size_t base = (size_t)s.n;
        for (int k = 0, same = 1; k < i; k++) {
            if (strncmp(t->regions.v[k]->name, s.v, base) || t->regions.v[k]->line != r->line)
                continue;
            s.n = (int)base;
            text_add(&t->mem->perm, &s, "_part_%d", ++same);
        }
        r->name = s.v;
    }
}

void
schedule_analyse(Tiles *t)
{
    Graph *g = t->g;
    for (int i = 0; i < g->n_nodes; i++)
        g->nodes[i]->user = arena_new(&t->mem->perm, Info);
    for (int i = 0; i < g->n_nodes; i++) {
        Node *n = g->nodes[i];
        Info *f = INFO(n);
        f->prelude = in_prelude(n);
        f->line = f->prelude                  ? TL_GATHER
                  : n->part == PART_FORWARD ? TL_FORWARD
                                              : TL_BACKWARD;
        if (n->op == OP_DLOGITS)
            f->line = TL_BACKWARD;
    }
    count_users(g);
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++)
            mark_read(g->nodes[i]->in[k], INFO(g->nodes[i])->line);
    mark_read(g->logits, TL_FORWARD);
    if (g->embedding)
        mark_read(g->embedding, TL_FORWARD);
    make_regions(t);
    name_regions(t);
}

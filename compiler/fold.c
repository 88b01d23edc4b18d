// fold.c - evaluates what depends on constants alone.
//
// A chain of operations on constants is computed in double precision by the interpreter and becomes one
// constant, rounded once where it enters the program.

#include "passes.h"

#include "interp.h"

#include <string.h>

// Values above this many elements are computed at run time.
enum { FOLD_LIMIT = 1 << 20 };

static bool
depends_on_constants(const Node *n, const bool *constant)
{
    if (n->n_in == 0)
        return n->op == OP_CONST;
    if ((op_info[n->op].flags & (OPF_SINK | OPF_CHANCE)) != 0 || n->op == OP_PART)
        return false;
    if (shape_size(n->shape) > FOLD_LIMIT)
        return false;
    for (int k = 0; k < n->n_in; k++)
        if (!constant[n->in[k]->id])
            return false;
    return true;
}

// A value with all elements equal is stored as one.
static int64_t
stored_count(const Tensor *v)
{
    for (int64_t k = 1; k < v->size; k++)
        if (v->u[k] != v->u[0])
            return v->size;
    return v->size > 0 ? 1 : 0;
}

static Node *
constant_node(Graph *g, const Node *n, const Tensor *v)
{
    int64_t count = stored_count(v);
    if (n->type == DT_F32)
        return graph_const_f(g, n->shape, v->f, count, n->place);
    return graph_const_i(g, n->type, n->shape, v->i, count, n->place);
}

void
fold_constants(Rewrite *rw)
{
    Graph *g = rw->g;
    Arena *a = &g->mem->scratch;
    bool *constant = arena_array(a, bool, rw->n_old);
    bool *wanted = arena_array(a, bool, rw->n_old);
    for (int i = 0; i < rw->n_old; i++) {
        const Node *n = rw->old[i];
        constant[i] = depends_on_constants(n, constant);
        for (int k = 0; k < n->n_in && !constant[i]; k++)
            wanted[n->in[k]->id] = true;
    }
    if (g->logits != NULL)
        wanted[g->logits->id] = true;
    if (g->embedding != NULL)
        wanted[g->embedding->id] = true;

    Node **found = arena_array(a, Node *, rw->n_old);
    int n_found = 0;
    for (int i = 0; i < rw->n_old; i++)
        if (constant[i] && wanted[i] && rw->old[i]->n_in > 0)
            found[n_found++] = rw->old[i];
    if (n_found == 0)
        return;
    Interp *it = interp_new(g);
    interp_exact_constants(it);
    interp_begin(it, 0);
    interp_run(it, found, n_found);
    for (int i = 0; i < n_found; i++)
        rewrite_set(rw, found[i], constant_node(g, found[i], interp_value(it, found[i])));
    interp_free(it);
}

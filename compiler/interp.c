// interp.c - runs a graph node by node in double precision.
//
// Values are computed on demand: what the asked nodes need and do not have yet, in graph
// order. Constants and parameters keep their values from sample to sample, everything
// else is freed with the sample.

#include "interp_eval.h"

#include <stdlib.h>
#include <string.h>

static void (*const eval[OP_COUNT])(Interp *, const Node *) = {
#define OP(NAME, text, ...) eval_##text,
#include "ops.def"
#undef OP
};

// ---- setting up ---------------------------------------------------------------------

Interp *
interp_new(const Graph *g)
{
    Interp *it = calloc(1, sizeof *it);
    if (!it)
        die("out of memory");
    it->g = g;
    it->nudged = -1;
    it->value = arena_array(&it->keep, Tensor, g->n_nodes);
    it->done = arena_array(&it->keep, bool, g->n_nodes);
    it->needed = arena_array(&it->keep, bool, g->n_nodes);
    it->param = arena_array(&it->keep, ParamValue, g->n_params);
    it->input = arena_array(&it->keep, Tensor, g->n_inputs);
    it->grad = arena_array(&it->keep, double *, g->n_params);
    if (g->logits) {
        it->dlogits.size = shape_size(g->logits->shape);
        it->dlogits.f = arena_array(&it->keep, double, it->dlogits.size);
    }
    for (int k = 0; k < g->n_inputs; k++) {
        it->input[k].size = shape_size(g->inputs[k].shape);
        it->input[k].u = arena_array(&it->keep, uint64_t, it->input[k].size);
    }
    return it;
}

void
interp_clear(Interp *it)
{
    for (int k = 0; k < it->g->n_params; k++) {
        free(it->grad[k]);
        it->grad[k] = NULL;
    }
}

void
interp_free(Interp *it)
{
    if (!it)
        return;
    interp_clear(it);
    arena_reset(&it->sample);
    arena_reset(&it->scratch);
    arena_reset(&it->keep);
    free(it);
}

// Whether a value stays from sample to sample.
static bool
lasts(const Node *n)
{
    return n->op == OP_CONST || n->op == OP_PARAM;
}

static void
forget_sample(Interp *it)
{
    for (int k = 0; k < it->g->n_nodes; k++)
        if (!lasts(it->g->nodes[k]))
            it->done[k] = false;
    arena_reset(&it->sample);
}

static void
set_param(Interp *it, int param, ParamValue v)
{
    forget_sample(it);
    it->param[param] = v;
    for (int k = 0; k < it->g->n_nodes; k++)
        if (it->g->nodes[k]->op == OP_PARAM && it->g->nodes[k]->a.index == param)
            it->done[k] = false;
}

void
interp_param_f32(Interp *it, int param, const float *v)
{
    set_param(it, param, (ParamValue){.f32 = v});
}

void
interp_param_f64(Interp *it, int param, const double *v)
{
    set_param(it, param, (ParamValue){.f64 = v});
}

void
interp_exact_constants(Interp *it)
{
    it->exact = true;
}

void
interp_chance(Interp *it, bool training, uint64_t seed, uint32_t step)
{
    forget_sample(it);
    it->training = training;
    it->seed = seed;
    it->step = step;
}

// ---- a sample's inputs --------------------------------------------------------------

void
interp_begin(Interp *it, uint32_t index_in_batch)
{
    forget_sample(it);
    it->index = index_in_batch;
}

void
interp_input(Interp *it, int input, const void *v)
{
    Tensor *t = &it->input[input];
    if (t->size)
        memcpy(t->u, v, (size_t)t->size * sizeof *t->u);
}

static void
from_i64(Tensor *t, const int64_t *v, int64_t s)
{
    for (int64_t k = 0; k < t->size; k++)
        t->i[k] = v[s * t->size + k];
}

static void
from_float(Tensor *t, const float *v, int64_t s)
{
    for (int64_t k = 0; k < t->size; k++)
        t->f[k] = (double)v[s * t->size + k];
}

static void
from_bytes(Tensor *t, DType type, const uint8_t *v, int64_t s)
{
    for (int64_t k = 0; k < t->size; k++)
        if (type == DT_F32)
            t->f[k] = v[s * t->size + k];
        else
            t->i[k] = v[s * t->size + k];
}

void
interp_sample(Interp *it, const pcvr_batch *b, int64_t s)
{
    interp_begin(it, (uint32_t)s);
    for (int k = 0; k < it->g->n_inputs; k++) {
        const Input *x = &it->g->inputs[k];
        Tensor *t = &it->input[k];
        const pcvr_domain *d = x->domain >= 0 ? &b->domains[x->domain] : NULL;
        switch (x->kind) {
        case IN_USER_INTS:
            from_i64(t, b->user_ints, s);
            break;
        case IN_USER_INT_MISSING:
            from_bytes(t, x->type, b->user_int_missing, s);
            break;
        case IN_USER_DENSE:
            from_float(t, b->user_dense, s);
            break;
        case IN_USER_DENSE_MISSING:
            from_bytes(t, x->type, b->user_dense_missing, s);
            break;
        case IN_ITEM_INTS:
            from_i64(t, b->item_ints, s);
            break;
        case IN_ITEM_INT_MISSING:
            from_bytes(t, x->type, b->item_int_missing, s);
            break;
        case IN_ITEM_DENSE:
            from_float(t, b->item_dense, s);
            break;
        case IN_ITEM_DENSE_MISSING:
            from_bytes(t, x->type, b->item_dense_missing, s);
            break;
        case IN_REQUEST_TIME:
            from_i64(t, b->request_time, s);
            break;
        case IN_EVENTS:
            from_i64(t, d->values, s);
            break;
        case IN_TIMES:
            from_i64(t, d->timestamps, s);
            break;
        case IN_LENGTH:
            from_i64(t, d->lengths, s);
            break;
        }
    }
}

void
interp_dlogits(Interp *it, const double *v)
{
    if (it->dlogits.size)
        memcpy(it->dlogits.f, v, (size_t)it->dlogits.size * sizeof *v);
    for (int k = 0; k < it->g->n_nodes; k++)
        if (it->g->nodes[k]->part == PART_BACKWARD)
            it->done[k] = false;
}

// ---- evaluation ---------------------------------------------------------------------

// Tables are read row by row, not as a whole.
static bool
reads_value(const Node *n, int k)
{
    if (n->op == OP_PROJECTED)
        return k > 0 && (k % 2 == 0 || k + 1 == n->n_in);
    if (n->op == OP_ACC_PROJECTED)
        return k < 2;
    return !(k == 0 && (n->op == OP_EMBED || n->op == OP_BAG_MEAN));
}

static void
evaluate(Interp *it, const Node *n)
{
    Tensor *t = &it->value[n->id];
    bool sink = op_info[n->op].flags & OPF_SINK;
    t->size = shape_size(n->shape);
    t->u =
        sink ? NULL : arena_array(lasts(n) ? &it->keep : &it->sample, uint64_t, t->size);
    eval[n->op](it, n);
    it->done[n->id] = true;
    arena_reset(&it->scratch);
}

void
interp_run(Interp *it, Node *const *nodes, int n)
{
    const Graph *g = it->g;
    int top = 0;
    memset(it->needed, 0, (size_t)g->n_nodes * sizeof *it->needed);
    for (int k = 0; k < n; k++) {
        it->needed[nodes[k]->id] = true;
        if (nodes[k]->id >= top)
            top = nodes[k]->id + 1;
    }
    for (int k = top - 1; k >= 0; k--)
        for (int i = 0; it->needed[k] && !it->done[k] && i < g->nodes[k]->n_in; i++)
            if (reads_value(g->nodes[k], i))
                it->needed[g->nodes[k]->in[i]->id] = true;
    for (int k = 0; k < top; k++)
        if (it->needed[k] && !it->done[k])
            evaluate(it, g->nodes[k]);
}

const Tensor *
interp_value(const Interp *it, const Node *n)
{
    return it->done[n->id] ? &it->value[n->id] : NULL;
}

void
interp_backward(Interp *it)
{
    interp_run(it, it->g->sinks, it->g->n_sinks);
}

// ---- gradients ----------------------------------------------------------------------

double *
grad_of(Interp *it, int param)
{
    if (!it->grad[param]) {
        size_t size = (size_t)shape_size(it->g->params[param].shape);
        it->grad[param] = calloc(size ? size : 1, sizeof(double));
        if (!it->grad[param])
            die("out of memory for the gradient of '%s'", it->g->params[param].name);
    }
    return it->grad[param];
}

const double *
interp_grad(const Interp *it, int param)
{
    return it->grad[param];
}

static double
objective(Interp *it, int param, int64_t element, double nudge)
{
    Node *logits = it->g->logits;
    it->nudged_element = element;
    it->nudge = nudge;
    it->nudged = param;
    set_param(it, param, it->param[param]);
    interp_run(it, &logits, 1);
    const double *y = it->value[logits->id].f;
    double sum = 0;
    for (int64_t k = 0; k < it->dlogits.size; k++)
        sum += y[k] * it->dlogits.f[k];
    it->nudged = -1;
    set_param(it, param, it->param[param]);
    return sum;
}

double
interp_finite_difference(Interp *it, int param, int64_t element, double h)
{
    double above = objective(it, param, element, h);
    return (above - objective(it, param, element, -h)) / (2 * h);
}

// elab_tensor.c - nodes of the graph: constants, reshapes, slices, and arguments of
// functions.

#include "elab_int.h"

#include <math.h>
#include <string.h>

bool
is_tensor(Value v)
{
    return v.kind == V_TENSOR || v.kind == V_PARAM;
}

const char *
node_text(Elab *e, const Node *x)
{
    return shape_text(e->mem, x->type, x->shape);
}

// ---- nodes ------------------------------------------------------------------------

static bool
size_allowed(Shape s)
{
    int64_t size = 1;
    for (int k = 0; k < s.rank; k++) {
        int64_t n = s.dim[k] > 0 ? s.dim[k] : 1;
        if (n > MAX_ELEMENTS || __builtin_mul_overflow(size, n, &size) ||
            size > MAX_ELEMENTS)
            return false;
    }
    return true;
}

void
note_operands(Elab *e, Node *const *in, int n)
{
    for (int k = 0; k < n && k < 3; k++) {
        bool param = in[k]->op == OP_PARAM;
        const Param *p = param ? &e->g->params[in[k]->a.index] : NULL;
        const char *name = param ? p->name : in[k]->name;
        if (name)
            diag_note(e->diag, param ? p->place : in[k]->place, "'%s' is %s here", name,
                      node_text(e, in[k]));
    }
}

// A node that the graph made of these operands, or refused.
static Node *
made(Elab *e, Node *x, Node *const *in, int n, int before, Place p)
{
    if (!x) {
        e->faults++;
        if (e->diag->errors > before) {
            note_operands(e, in, n);
            note_frames(e);
        }
        if (e->diag->errors >= MAX_FAULTS || e->faults >= MAX_FAULTS * 100)
            e->stop = true;
        return NULL;
    }
    if (!size_allowed(x->shape)) {
        fault(e, p, "the tensor %s is too large", node_text(e, x));
        return NULL;
    }
    return x;
}

Node *
elab_emit(Elab *e, Op op, Node *const *in, int n, Attr a, Place p)
{
    for (int k = 0; k < n; k++)
        if (!in[k])
            return NULL;
    if (!need_graph(e, p) || !count_steps(e, 5, p))
        return NULL;
    int before = e->diag->errors;
    return made(e, graph_add(e->g, op, in, n, a, p), in, n, before, p);
}

Node *
elab_emit1(Elab *e, Op op, Node *x, Place p)
{
    return elab_emit(e, op, &x, 1, (Attr){0}, p);
}

Node *
elab_emit2(Elab *e, Op op, Node *x, Node *y, Place p)
{
    Node *in[2] = {x, y};
    return elab_emit(e, op, in, 2, (Attr){0}, p);
}

Node *
const_node(Elab *e, Value v, DType t, Place p)
{
    if (!need_graph(e, p))
        return NULL;
    Shape scalar = {0};
    if (t == DT_F32) {
        double f = value_number(v);
        return graph_const_f(e->g, scalar, &f, 1, p);
    }
    return graph_const_i(e->g, t, scalar, &v.i, 1, p);
}

static Node *
param_node(Elab *e, const LayerParam *l, Place p)
{
    if (l->index < 0) {
        fault(e, p, "%s",
              e->complete
                  ? "no member holds the layer of this parameter, so it has no name"
                  : "a parameter cannot be read while members are made");
        return NULL;
    }
    return graph_param_node(e->g, l->index, p);
}

Node *
to_node(Elab *e, Value v, Place p)
{
    switch (v.kind) {
    case V_ERROR:
        return NULL;
    case V_TENSOR:
        return v.node;
    case V_PARAM:
        return param_node(e, v.param, p);
    case V_INT:
        return const_node(e, v, DT_I64, p);
    case V_FLOAT:
        return const_node(e, v, DT_F32, p);
    case V_BOOL:
        return const_node(e, v, DT_BOOL, p);
    case V_MASK:
        fault(e, p, "a predicate holds no tensor functions of i and j");
        return NULL;
    default:
        break;
    }
    fault(e, p, "expected a tensor, found %s", value_what(e->mem, v));
    return NULL;
}

Node *
to_typed(Elab *e, Value v, DType t, const char *what, Place p)
{
    if (t == DT_F32 && value_is_number(v))
        return const_node(e, v, t, p);
    Node *x = to_node(e, v, p);
    if (x && x->type != t) {
        fault(e, p, "%s must be %s, found %s", what, dtype_name(t), node_text(e, x));
        return NULL;
    }
    return x;
}

// Whether a node may be made of x: it is there, and there are steps left.
static bool
may_make(Elab *e, const Node *x, Place p)
{
    return x && need_graph(e, p) && count_steps(e, 5, p);
}

Node *
reshape_to(Elab *e, Node *x, Shape s, Place p)
{
    if (!may_make(e, x, p))
        return NULL;
    int before = e->diag->errors;
    return made(e, graph_reshape(e->g, x, s, p), &x, 1, before, p);
}

Node *
expand_to(Elab *e, Node *x, Shape s, Place p)
{
    if (!may_make(e, x, p))
        return NULL;
    int before = e->diag->errors;
    return made(e, graph_expand(e->g, x, s, p), &x, 1, before, p);
}

Node *
slice_of(Elab *e, Node *x, int axis, int64_t start, int64_t count, Place p)
{
    if (!may_make(e, x, p))
        return NULL;
    int before = e->diag->errors;
    return made(e, graph_slice(e->g, x, axis, start, count, p), &x, 1, before, p);
}

Node *
drop_axis(Elab *e, Node *x, int axis, Place p)
{
    if (!x)
        return NULL;
    Shape s = {.rank = x->shape.rank - 1};
    for (int k = 0; k < s.rank; k++)
        s.dim[k] = x->shape.dim[k < axis ? k : k + 1];
    return reshape_to(e, x, s, p);
}

// ---- arguments of built-in functions ----------------------------------------------

Node *
arg_node(Elab *e, const Args *a, int k)
{
    return to_node(e, a->v[k], a->at[k]);
}

bool
arg_int(Elab *e, const Args *a, int k, int64_t *i)
{
    if (a->v[k].kind == V_INT) {
        *i = a->v[k].i;
        return true;
    }
    if (a->v[k].kind != V_ERROR)
        fault(e, a->at[k], "'%s' needs an integer here, found %s", a->b->name,
              value_what(e->mem, a->v[k]));
    return false;
}

bool
arg_number(Elab *e, const Args *a, int k, double *f)
{
    if (value_is_number(a->v[k])) {
        *f = value_number(a->v[k]);
        return true;
    }
    if (a->v[k].kind != V_ERROR)
        fault(e, a->at[k], "'%s' needs a number here, found %s", a->b->name,
              value_what(e->mem, a->v[k]));
    return false;
}

bool
arg_list(Elab *e, const Args *a, int k, const List **l)
{
    if (a->v[k].kind == V_LIST || a->v[k].kind == V_TUPLE) {
        *l = a->v[k].list;
        return true;
    }
    if (a->v[k].kind != V_ERROR)
        fault(e, a->at[k], "'%s' needs a list here, found %s", a->b->name,
              value_what(e->mem, a->v[k]));
    return false;
}

bool
arg_axis(Elab *e, const Args *a, int k, int rank, int fallback, int *axis)
{
    int64_t i = fallback;
    if (a->has[k] && !arg_int(e, a, k, &i))
        return false;
    int64_t at = i < 0 ? i + rank : i;
    if (at < 0 || at >= rank) {
        fault(e, a->has[k] ? a->at[k] : a->place, "'%s' has no axis %lld of %d",
              a->b->name, (long long)i, rank);
        return false;
    }
    *axis = (int)at;
    return true;
}

bool
int_list(Elab *e, Value v, const char *what, Place p, const int64_t **list, int *n)
{
    if (v.kind == V_INT)
        v = value_list(e->mem, &v, 1);
    if (v.kind != V_LIST && v.kind != V_TUPLE) {
        if (v.kind != V_ERROR)
            fault(e, p, "%s must be a list of integers, found %s", what,
                  value_what(e->mem, v));
        return false;
    }
    int64_t *to = arena_array(&e->mem->perm, int64_t, v.list->n);
    for (int k = 0; k < v.list->n; k++) {
        Value x = v.list->v[k];
        if (x.kind != V_INT) {
            if (x.kind != V_ERROR)
                fault(e, p, "%s must be a list of integers, found %s in it", what,
                      value_what(e->mem, x));
            return false;
        }
        to[k] = x.i;
    }
    *list = to;
    *n = v.list->n;
    return true;
}

bool
arg_shape(Elab *e, const Args *a, int k, Shape *s)
{
    const int64_t *list;
    int n;
    if (!int_list(e, a->v[k], "a shape", a->at[k], &list, &n))
        return false;
    if (n > 4) {
        fault(e, a->at[k], "a tensor has at most 4 axes, found %d", n);
        return false;
    }
    for (int d = 0; d < n; d++)
        if (list[d] < 0) {
            fault(e, a->at[k], "an extent must be at least 0, found %lld",
                  (long long)list[d]);
            return false;
        }
    *s = shape_of(n, list);
    if (!size_allowed(*s)) {
        fault(e, a->at[k], "the tensor %s is too large", shape_text(e->mem, DT_F32, *s));
        return false;
    }
    return true;
}

// The type that numbers among tensors take.
static bool
common_type(const CallArg *args, const Value *v, int n, DType *t)
{
    bool ints = true, bools = true;
    for (int k = 0; k < n; k++) {
        Value x = args ? args[k].v : v[k];
        if (x.kind == V_PARAM)
            return *t = DT_F32, true;
        if (x.kind == V_TENSOR)
            return *t = x.node->type, true;
        ints = ints && x.kind == V_INT;
        bools = bools && x.kind == V_BOOL;
    }
    *t = ints ? DT_I64 : bools ? DT_BOOL : DT_F32;
    return true;
}

bool
rest_nodes(Elab *e, const Args *a, Node ***nodes, int *n)
{
    const CallArg *args = a->rest;
    const Value *v = NULL;
    *n = a->n_rest;
    Place p = a->n_rest > 0 ? args[0].place : a->place;
    if (*n == 1 && (args[0].v.kind == V_LIST || args[0].v.kind == V_TUPLE)) {
        v = args[0].v.list->v;
        *n = args[0].v.list->n;
        args = NULL;
    }
    DType t;
    common_type(args, v, *n, &t);
    *nodes = arena_array(&e->mem->perm, Node *, *n);
    for (int k = 0; k < *n; k++) {
        Value x = args ? args[k].v : v[k];
        bool number = value_is_number(x);
        (*nodes)[k] = number && t == DT_F32 ? const_node(e, x, t, p)
                                            : to_node(e, x, args ? args[k].place : p);
        if (!(*nodes)[k])
            return false;
        if ((*nodes)[k]->type != t) {
            fault(e, args ? args[k].place : p,
                  "'%s' needs tensors of one type, found %s and %s", a->b->name,
                  dtype_name(t), dtype_name((*nodes)[k]->type));
            return false;
        }
    }
    return true;
}

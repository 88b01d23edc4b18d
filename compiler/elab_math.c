// elab_math.c - pointwise functions and reductions, of tensors and of compile-time
// values.

#include "elab_int.h"

#include <math.h>
#include <string.h>

static const Value poison = {.kind = V_ERROR};

// ---- pointwise functions of one argument ------------------------------------------

static Value
pointwise(Elab *e, const Args *a, Op op)
{
    Node *x = to_typed(e, a->v[0], DT_F32,
                       arena_printf(&e->mem->perm, "the argument of '%s'", a->b->name),
                       a->at[0]);
    return value_node(elab_emit1(e, op, x, a->place));
}

#define POINTWISE(NAME, OP)                                                              \
    static Value b_##NAME(Elab *e, const Args *a)                                        \
    {                                                                                    \
        return pointwise(e, a, OP);                                                      \
    }
POINTWISE(log1p, OP_LOG1P)
POINTWISE(sin, OP_SIN)
POINTWISE(cos, OP_COS)
POINTWISE(tanh, OP_TANH)
POINTWISE(sigmoid, OP_SIGMOID)
POINTWISE(silu, OP_SILU)
POINTWISE(gelu, OP_GELU)
POINTWISE(relu, OP_RELU)
POINTWISE(softplus, OP_SOFTPLUS)
POINTWISE(is_finite, OP_IS_FINITE)

static Value
b_exp(Elab *e, const Args *a)
{
    if (value_is_number(a->v[0]))
        return value_float(exp(value_number(a->v[0])));
    return pointwise(e, a, OP_EXP);
}

static Value
b_log(Elab *e, const Args *a)
{
    if (!value_is_number(a->v[0]))
        return pointwise(e, a, OP_LOG);
    double x = value_number(a->v[0]);
    return x > 0 ? value_float(log(x))
                 : fault(e, a->at[0], "the logarithm of %s", value_text(e->mem, a->v[0]));
}

static Value
b_sqrt(Elab *e, const Args *a)
{
    if (!value_is_number(a->v[0]))
        return pointwise(e, a, OP_SQRT);
    double x = value_number(a->v[0]);
    return x >= 0
               ? value_float(sqrt(x))
               : fault(e, a->at[0], "the square root of %s", value_text(e->mem, a->v[0]));
}

static Value
b_round(Elab *e, const Args *a)
{
    Value v = a->v[0];
    if (v.kind == V_INT)
        return v;
    if (v.kind != V_FLOAT)
        return pointwise(e, a, OP_ROUND);
    if (!(fabs(v.f) < 9.2e18))
        return fault(e, a->at[0], "%s does not fit an integer", float_text(e->mem, v.f));
    double down = floor(v.f), rest = v.f - down;
    int64_t i = (int64_t)down;
    return value_int(rest > 0.5 || (rest == 0.5 && i % 2 != 0) ? i + 1 : i);
}

// f32 or i64 in, the same out.
static Value
numeric(Elab *e, const Args *a, Op op)
{
    Node *x = arg_node(e, a, 0);
    if (x && x->type == DT_BOOL)
        return fault(e, a->at[0], "'%s' needs f32 or i64, found %s", a->b->name,
                     node_text(e, x));
    return value_node(elab_emit1(e, op, x, a->place));
}

static Value
b_abs(Elab *e, const Args *a)
{
    Value v = a->v[0];
    if (is_mask(v))
        return mask_unary(e, MASK_ABS, v, a->place);
    if (v.kind == V_FLOAT)
        return value_float(fabs(v.f));
    if (v.kind == V_INT)
        return v.i < 0 ? static_unary(e, OPER_NEG, v, a->place) : v;
    return numeric(e, a, OP_ABS);
}

static Value
b_sign(Elab *e, const Args *a)
{
    return numeric(e, a, OP_SIGN);
}

static Value
b_detach(Elab *e, const Args *a)
{
    return value_node(elab_emit1(e, OP_DETACH, arg_node(e, a, 0), a->place));
}

static Value
b_f32(Elab *e, const Args *a)
{
    Value v = a->v[0];
    if (value_is_number(v))
        return value_node(const_node(e, v, DT_F32, a->place));
    if (v.kind == V_BOOL)
        return value_node(const_node(e, value_int(v.i), DT_F32, a->place));
    Node *x = arg_node(e, a, 0);
    return value_node(x && x->type != DT_F32 ? elab_emit1(e, OP_TO_F32, x, a->place) : x);
}

static Value
b_i64(Elab *e, const Args *a)
{
    Value v = a->v[0];
    if (v.kind == V_FLOAT && fabs(v.f) < 9.2e18)
        v = value_int((int64_t)v.f);
    if (v.kind == V_INT || v.kind == V_BOOL)
        return value_node(const_node(e, value_int(v.i), DT_I64, a->place));
    Node *x = to_node(e, v, a->at[0]);
    return value_node(x && x->type != DT_I64 ? elab_emit1(e, OP_TO_I64, x, a->place) : x);
}

// ---- max, min, clamp --------------------------------------------------------------

static Value
extreme_of_two(Elab *e, const char *what, bool largest, Value x, Value y, Place p)
{
    Node *a, *b;
    if (is_mask(x) || is_mask(y))
        return mask_binary(e, largest ? MASK_MAX : MASK_MIN, x, y, p);
    if (!is_tensor(x) && !is_tensor(y)) {
        if (!value_is_number(x) || !value_is_number(y))
            return fault(e, p, "%s needs numbers or tensors, found %s and %s", what,
                         value_what(e->mem, x), value_what(e->mem, y));
        Value below = static_binary(e, OPER_LT, x, y, p);
        return (below.i != 0) == largest ? y : x;
    }
    if (!elab_promote(e, x, y, &a, &b, what, p))
        return poison;
    if (a->type == DT_BOOL)
        return fault(e, p, "%s needs f32 or i64, found %s", what, node_text(e, a));
    return value_node(elab_emit2(e, largest ? OP_MAX2 : OP_MIN2, a, b, p));
}

static Value
b_clamp(Elab *e, const Args *a)
{
    Value x = a->v[0], lo = a->v[1], hi = a->v[2];
    bool fixed = value_is_number(lo) && value_is_number(hi);
    if (is_tensor(x) && fixed) {
        Node *n = arg_node(e, a, 0);
        if (value_number(lo) > value_number(hi))
            return fault(e, a->place, "'clamp' between %s and %s", value_text(e->mem, lo),
                         value_text(e->mem, hi));
        if (n && n->type == DT_F32)
            return value_node(elab_emit(
                e, OP_CLAMP, &n, 1,
                (Attr){.lo = value_number(lo), .hi = value_number(hi)}, a->place));
    }
    x = extreme_of_two(e, "'clamp'", true, x, lo, a->place);
    return x.kind == V_ERROR ? x : extreme_of_two(e, "'clamp'", false, x, hi, a->place);
}

// ---- reductions -------------------------------------------------------------------

// The axes in v[k] and keep in v[k + 1]; without axes all of them.
static bool
reduction(Elab *e, const Args *a, int k, const Node *x, Attr *attr)
{
    int rank = x->shape.rank;
    int64_t *axes = arena_array(&e->mem->perm, int64_t, MAX_RANK);
    bool chosen[MAX_RANK] = {false};
    const int64_t *list = NULL;
    int n = 0;
    if (a->has[k] && !int_list(e, a->v[k], "an axis", a->at[k], &list, &n))
        return false;
    for (int d = 0; d < n; d++) {
        int64_t axis = list[d] < 0 ? list[d] + rank : list[d];
        if (axis < 0 || axis >= rank || chosen[axis]) {
            fault(e, a->at[k], "'%s' has no axis %lld of %s", a->b->name,
                  (long long)list[d], node_text(e, x));
            return false;
        }
        chosen[axis] = true;
    }
    for (int d = 0; d < rank; d++)
        if (!a->has[k] || chosen[d])
            axes[attr->n_list++] = d;
    attr->list = axes;
    if (!a->has[k + 1])
        return true;
    if (a->v[k + 1].kind != V_BOOL) {
        fault(e, a->at[k + 1], "'keep' must be a boolean, found %s",
              value_what(e->mem, a->v[k + 1]));
        return false;
    }
    attr->keep = a->v[k + 1].i != 0;
    return true;
}

static bool
over_nothing(const Node *x, const Attr *attr)
{
    for (int k = 0; k < attr->n_list; k++)
        if (x->shape.dim[attr->list[k]] == 0)
            return true;
    return false;
}

// Reduces the node; v[k] holds its axes.
static Value
reduce(Elab *e, const Args *a, Node *x, Op op, int k)
{
    Attr attr = {0};
    if (!x || !reduction(e, a, k, x, &attr))
        return poison;
    bool some = op == OP_MAX || op == OP_MIN || op == OP_ARGMAX;
    if (some && over_nothing(x, &attr))
        return fault(e, a->place, "'%s' over nothing of %s", a->b->name, node_text(e, x));
    bool same = op != OP_COUNT_TRUE && op != OP_ARGMAX;
    if (attr.n_list == 0 && same)
        return value_node(x);
    return value_node(elab_emit(e, op, &x, 1, attr, a->place));
}

static Value
sum_of_list(Elab *e, const Args *a)
{
    const List *l = a->v[0].list;
    Value s = value_int(0);
    if (!count_steps(e, l->n, a->place))
        return poison;
    for (int k = 0; k < l->n && s.kind != V_ERROR; k++) {
        if (!value_is_number(l->v[k]))
            return fault(e, a->at[0], "'sum' of a list needs numbers, found %s%s",
                         value_what(e->mem, l->v[k]),
                         is_tensor(l->v[k]) ? "; use stack" : "");
        s = static_binary(e, OPER_ADD, s, l->v[k], a->place);
    }
    return s;
}

static Value
b_sum(Elab *e, const Args *a)
{
    if (a->v[0].kind == V_LIST || a->v[0].kind == V_TUPLE)
        return sum_of_list(e, a);
    Node *x = arg_node(e, a, 0);
    if (x && x->type == DT_BOOL)
        return fault(e, a->at[0], "'sum' needs f32 or i64, found %s; use count",
                     node_text(e, x));
    return reduce(e, a, x, OP_SUM, 1);
}

static Value
b_mean(Elab *e, const Args *a)
{
    Attr attr = {0};
    Node *x = to_typed(e, a->v[0], DT_F32, "the argument of 'mean'", a->at[0]);
    if (!x || !reduction(e, a, 1, x, &attr))
        return poison;
    if (over_nothing(x, &attr))
        return fault(e, a->place, "'mean' over nothing of %s", node_text(e, x));
    if (attr.n_list == 0)
        return value_node(x);
    int64_t n = 1;
    for (int k = 0; k < attr.n_list; k++)
        n *= x->shape.dim[attr.list[k]];
    Node *sum = elab_emit(e, OP_SUM, &x, 1, attr, a->place);
    return value_node(elab_emit2(
        e, OP_DIV, sum, const_node(e, value_int(n), DT_F32, a->place), a->place));
}

static Value
extreme(Elab *e, const Args *a, bool largest)
{
    const char *what = largest ? "'max'" : "'min'";
    if (a->n_rest == 1 && (is_tensor(a->rest[0].v)))
        return reduce(e, a, to_node(e, a->rest[0].v, a->rest[0].place),
                      largest ? OP_MAX : OP_MIN, 0);
    if (a->has[0] || a->has[1])
        return fault(e, a->place, "%s with an axis takes one tensor", what);
    const List *l = NULL;
    int n = a->n_rest;
    if (n == 1) {
        Value v = a->rest[0].v;
        if (v.kind != V_LIST && v.kind != V_TUPLE)
            return value_is_number(v) ? v
                                      : fault(e, a->place, "%s needs numbers, found %s",
                                              what, value_what(e->mem, v));
        l = v.list;
        n = l->n;
    }
    if (n == 0)
        return fault(e, a->place, "%s of nothing", what);
    Value best = l ? l->v[0] : a->rest[0].v;
    for (int k = 1; k < n && best.kind != V_ERROR; k++)
        best =
            extreme_of_two(e, what, largest, best, l ? l->v[k] : a->rest[k].v, a->place);
    return best;
}

static Value
b_max(Elab *e, const Args *a)
{
    return extreme(e, a, true);
}

static Value
b_min(Elab *e, const Args *a)
{
    return extreme(e, a, false);
}

static Value
any_or_all(Elab *e, const Args *a, bool all)
{
    Value v = a->v[0];
    if (v.kind != V_LIST && v.kind != V_TUPLE) {
        Node *x =
            to_typed(e, v, DT_BOOL,
                     all ? "the argument of 'all'" : "the argument of 'any'", a->at[0]);
        return reduce(e, a, x, all ? OP_ALL : OP_ANY, 1);
    }
    bool result = all;
    for (int k = 0; k < v.list->n; k++) {
        if (v.list->v[k].kind != V_BOOL)
            return fault(e, a->at[0], "'%s' of a list needs booleans, found %s",
                         a->b->name, value_what(e->mem, v.list->v[k]));
        if ((v.list->v[k].i != 0) != all)
            result = !all;
    }
    return value_bool(result);
}

static Value
b_any(Elab *e, const Args *a)
{
    return any_or_all(e, a, false);
}

static Value
b_all(Elab *e, const Args *a)
{
    return any_or_all(e, a, true);
}

static Value
b_count(Elab *e, const Args *a)
{
    return reduce(e, a,
                  to_typed(e, a->v[0], DT_BOOL, "the argument of 'count'", a->at[0]),
                  OP_COUNT_TRUE, 1);
}

static Value
b_argmax(Elab *e, const Args *a)
{
    Node *x = arg_node(e, a, 0);
    if (x && x->type == DT_BOOL)
        return fault(e, a->at[0], "'argmax' needs f32 or i64, found %s", node_text(e, x));
    return reduce(e, a, x, OP_ARGMAX, 1);
}

const HandlerRow math_handlers[] = {
    {"abs", b_abs},
    {"exp", b_exp},
    {"log", b_log},
    {"log1p", b_log1p},
    {"sqrt", b_sqrt},
    {"sin", b_sin},
    {"cos", b_cos},
    {"tanh", b_tanh},
    {"sigmoid", b_sigmoid},
    {"silu", b_silu},
    {"gelu", b_gelu},
    {"relu", b_relu},
    {"softplus", b_softplus},
    {"clamp", b_clamp},
    {"sign", b_sign},
    {"round", b_round},
    {"is_finite", b_is_finite},
    {"f32", b_f32},
    {"i64", b_i64},
    {"detach", b_detach},
    {"sum", b_sum},
    {"mean", b_mean},
    {"max", b_max},
    {"min", b_min},
    {"any", b_any},
    {"all", b_all},
    {"count", b_count},
    {"argmax", b_argmax},
    {NULL, NULL},
};

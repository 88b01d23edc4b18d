// elab_shape.c - functions that make tensors and move their values.

#include "elab_int.h"

#include <string.h>

static const Value poison = {.kind = V_ERROR};

// ---- create -----------------------------------------------------------------------

static Value
filled(Elab *e, const Args *a, Shape s, Value v, Place p)
{
    if (!need_graph(e, a->place))
        return poison;
    double f = v.kind == V_FLOAT ? v.f : 0;
    if (v.kind == V_FLOAT)
        return value_node(graph_const_f(e->g, s, &f, 1, a->place));
    if (v.kind == V_INT || v.kind == V_BOOL)
        return value_node(graph_const_i(e->g, v.kind == V_INT ? DT_I64 : DT_BOOL, s, &v.i,
                                        1, a->place));
    Node *x = to_node(e, v, p);
    return value_node(expand_to(e, x, s, a->place));
}

static Value
b_zeros(Elab *e, const Args *a)
{
    Shape s;
    return arg_shape(e, a, 0, &s) ? filled(e, a, s, value_float(0), a->place) : poison;
}

static Value
b_full(Elab *e, const Args *a)
{
    Shape s;
    return arg_shape(e, a, 0, &s) ? filled(e, a, s, a->v[1], a->at[1]) : poison;
}

static Value
b_iota(Elab *e, const Args *a)
{
    int64_t n;
    if (!arg_int(e, a, 0, &n))
        return poison;
    if (n < 0)
        return fault(e, a->at[0], "an extent must be at least 0, found %lld",
                     (long long)n);
    if (!count_steps(e, n, a->place))
        return poison;
    if (!need_graph(e, a->place))
        return poison;
    return value_node(graph_iota(e->g, n, a->place));
}

// The shape of nested lists, and whether they hold floats or booleans.
typedef struct Nested {
    Shape shape;
    int64_t n; // elements read
    bool floats, bools, ints;
    double *f;
    int64_t *i;
} Nested;

static bool
measure(Elab *e, Nested *t, Value v, int depth, Place p)
{
    if (v.kind == V_LIST || v.kind == V_TUPLE) {
        if (depth == 4) {
            fault(e, p, "a tensor has at most 4 axes");
            return false;
        }
        if (depth == t->shape.rank) {
            if (t->n > 0) {
                fault(e, p, "the lists of a tensor must nest equally deep");
                return false;
            }
            t->shape.dim[t->shape.rank++] = v.list->n;
        }
        if (t->shape.dim[depth] != v.list->n) {
            fault(e, p,
                  "the lists of a tensor must have equal lengths, found %lld and %d",
                  (long long)t->shape.dim[depth], v.list->n);
            return false;
        }
        for (int k = 0; k < v.list->n; k++)
            if (!measure(e, t, v.list->v[k], depth + 1, p))
                return false;
        return true;
    }
    if (depth != t->shape.rank ||
        (v.kind != V_INT && v.kind != V_FLOAT && v.kind != V_BOOL)) {
        if (v.kind != V_ERROR)
            fault(e, p,
                  "'tensor' needs numbers or booleans in lists of equal lengths, found "
                  "%s%s",
                  value_what(e->mem, v), is_tensor(v) ? "; use stack" : "");
        return false;
    }
    t->floats |= v.kind == V_FLOAT;
    t->ints |= v.kind == V_INT;
    t->bools |= v.kind == V_BOOL;
    t->n++;
    return true;
}

static void
fill(Nested *t, Value v, int64_t *at)
{
    if (v.kind == V_LIST || v.kind == V_TUPLE) {
        for (int k = 0; k < v.list->n; k++)
            fill(t, v.list->v[k], at);
        return;
    }
    if (t->f)
        t->f[(*at)++] = v.kind == V_BOOL ? (double)v.i : value_number(v);
    else
        t->i[(*at)++] = v.i;
}

// The type written as second argument, or the one that the elements suggest.
static bool
tensor_type(Elab *e, const Args *a, const Nested *t, DType *type)
{
    if (!a->has[1]) {
        if (t->n == 0 || (t->bools && (t->ints || t->floats))) {
            fault(e, a->place,
                  t->n == 0 ? "the type of an empty tensor must be given"
                            : "'tensor' needs numbers or booleans, found both");
            return false;
        }
        *type = t->bools ? DT_BOOL : t->floats ? DT_F32 : DT_I64;
        return true;
    }
    const char *name = a->v[1].kind == V_BUILTIN ? a->v[1].builtin->name : "";
    *type = strcmp(name, "i64") == 0 ? DT_I64 : DT_F32;
    if (*type == DT_F32 && strcmp(name, "f32") != 0) {
        fault(e, a->at[1], "the type of a tensor is i64 or f32, found %s",
              value_what(e->mem, a->v[1]));
        return false;
    }
    bool fits = !t->bools && !(*type == DT_I64 && t->floats);
    if (!fits)
        fault(e, a->at[1], "the elements are not %s", name);
    return fits;
}

static Value
b_tensor(Elab *e, const Args *a)
{
    Nested t = {0};
    DType type;
    if (!measure(e, &t, a->v[0], 0, a->at[0]) || !tensor_type(e, a, &t, &type) ||
        !count_steps(e, t.n, a->place))
        return poison;
    if (!need_graph(e, a->place))
        return poison;
    int64_t at = 0;
    if (type == DT_F32) {
        t.f = arena_array(&e->mem->perm, double, t.n);
        fill(&t, a->v[0], &at);
        return value_node(graph_const_f(e->g, t.shape, t.f, t.n, a->place));
    }
    t.i = arena_array(&e->mem->perm, int64_t, t.n);
    fill(&t, a->v[0], &at);
    return value_node(graph_const_i(e->g, type, t.shape, t.i, t.n, a->place));
}

// ---- join and cut -----------------------------------------------------------------

static Value
join(Elab *e, const Args *a, Node **parts, int n, int axis)
{
    if (n == 1)
        return value_node(parts[0]);
    return value_node(elab_emit(e, OP_CONCAT, parts, n, (Attr){.axis = axis}, a->place));
}

static Value
b_concat(Elab *e, const Args *a)
{
    Node **parts;
    int n, axis;
    if (!rest_nodes(e, a, &parts, &n))
        return poison;
    if (n == 0)
        return fault(e, a->place, "'concat' of nothing: its shape is unknown");
    if (parts[0]->shape.rank == 0)
        return fault(e, a->place,
                     "'concat' needs tensors with an axis, found %s; use stack",
                     node_text(e, parts[0]));
    if (!arg_axis(e, a, 0, parts[0]->shape.rank, 0, &axis))
        return poison;
    return join(e, a, parts, n, axis);
}

static Shape
with_axis(Shape s, int axis, int64_t extent)
{
    Shape r = {.rank = s.rank + 1};
    for (int k = 0; k < r.rank; k++)
        r.dim[k] = k < axis ? s.dim[k] : k == axis ? extent : s.dim[k - 1];
    return r;
}

static Value
b_stack(Elab *e, const Args *a)
{
    Node **parts;
    int n, axis;
    if (!rest_nodes(e, a, &parts, &n))
        return poison;
    if (n == 0)
        return fault(e, a->place, "'stack' of nothing: its shape is unknown");
    int rank = parts[0]->shape.rank + 1;
    if (rank > 4)
        return fault(e, a->place, "a tensor has at most 4 axes");
    if (!arg_axis(e, a, 0, rank, 0, &axis))
        return poison;
    for (int k = 0; k < n; k++) {
        if (!shape_equal(parts[k]->shape, parts[0]->shape) && k > 0)
            return fault(e, a->place, "'stack' needs equal shapes, found %s and %s",
                         shape_text(e->mem, parts[0]->type, parts[0]->shape),
                         node_text(e, parts[k]));
        if (k > 0)
            parts[k] =
                reshape_to(e, parts[k], with_axis(parts[k]->shape, axis, 1), a->place);
    }
    parts[0] = reshape_to(e, parts[0], with_axis(parts[0]->shape, axis, 1), a->place);
    return join(e, a, parts, n, axis);
}

static Value
split_string(Elab *e, const Args *a)
{
    const char *s = a->v[0].s;
    if (a->v[1].kind != V_STR || !*a->v[1].s)
        return fault(e, a->at[1], "a string is split at a string, found %s",
                     value_what(e->mem, a->v[1]));
    size_t width = strlen(a->v[1].s);
    Array(Value) parts = {0};
    for (;;) {
        const char *end = strstr(s, a->v[1].s);
        size_t n = end ? (size_t)(end - s) : strlen(s);
        array_push(&e->mem->perm, &parts, value_str(arena_copy(&e->mem->perm, s, n)));
        if (!end)
            break;
        s = end + width;
    }
    return value_list(e->mem, parts.v, parts.n);
}

static Value
b_split(Elab *e, const Args *a)
{
    if (a->v[0].kind == V_STR)
        return split_string(e, a);
    Node *x = arg_node(e, a, 0);
    int64_t n;
    int axis;
    if (!x || !arg_int(e, a, 1, &n) || !arg_axis(e, a, 2, x->shape.rank, -1, &axis))
        return poison;
    int64_t extent = x->shape.dim[axis];
    if (n < 1 || n > 4096 || extent % n != 0)
        return fault(e, a->place,
                     "'split' cannot cut axis %d of %s into %lld equal parts", axis,
                     node_text(e, x), (long long)n);
    Value *v = arena_array(&e->mem->perm, Value, n);
    for (int64_t k = 0; k < n; k++)
        v[k] = value_node(slice_of(e, x, axis, k * (extent / n), extent / n, a->place));
    return value_tuple(e->mem, v, (int)n);
}

// ---- shape ------------------------------------------------------------------------

static Value
b_reshape(Elab *e, const Args *a)
{
    Shape s;
    Node *x = arg_node(e, a, 0);
    if (!x || !arg_shape(e, a, 1, &s))
        return poison;
    if (shape_size(s) != shape_size(x->shape))
        return fault(e, a->place,
                     "'reshape' needs equally many elements, found %s for %s",
                     node_text(e, x), shape_text(e->mem, x->type, s));
    return value_node(reshape_to(e, x, s, a->place));
}

static Value
b_permute(Elab *e, const Args *a)
{
    const int64_t *list;
    int n;
    Node *x = arg_node(e, a, 0);
    if (!x || !int_list(e, a->v[1], "the axes", a->at[1], &list, &n))
        return poison;
    return value_node(
        elab_emit(e, OP_PERMUTE, &x, 1, (Attr){.list = list, .n_list = n}, a->place));
}

static Value
b_expand(Elab *e, const Args *a)
{
    Shape s;
    Node *x = arg_node(e, a, 0);
    return x && arg_shape(e, a, 1, &s) ? value_node(expand_to(e, x, s, a->place))
                                       : poison;
}

static Value
b_unsqueeze(Elab *e, const Args *a)
{
    int axis;
    Node *x = arg_node(e, a, 0);
    if (!x || !arg_axis(e, a, 1, x->shape.rank + 1, 0, &axis))
        return poison;
    if (x->shape.rank == 4)
        return fault(e, a->place, "a tensor has at most 4 axes");
    return value_node(reshape_to(e, x, with_axis(x->shape, axis, 1), a->place));
}

static Value
b_shape(Elab *e, const Args *a)
{
    if (!is_tensor(a->v[0]))
        return fault(e, a->at[0], "'shape' needs a tensor, found %s",
                     value_what(e->mem, a->v[0]));
    Shape s = a->v[0].kind == V_PARAM ? a->v[0].param->p.shape : a->v[0].node->shape;
    Value v[MAX_RANK];
    for (int k = 0; k < s.rank; k++)
        v[k] = value_int(s.dim[k]);
    return value_list(e->mem, v, s.rank);
}

const HandlerRow shape_handlers[] = {
    {"zeros", b_zeros},   {"full", b_full},           {"iota", b_iota},
    {"tensor", b_tensor}, {"concat", b_concat},       {"stack", b_stack},
    {"split", b_split},   {"reshape", b_reshape},     {"permute", b_permute},
    {"expand", b_expand}, {"unsqueeze", b_unsqueeze}, {"shape", b_shape},
    {NULL, NULL},
};

// elab_index.c - x[...]: elements of lists and dictionaries, slices and gathers of
// tensors.

#include "elab_int.h"

#include <string.h>

static const Value poison = {.kind = V_ERROR};

// A bound of a slice: an integer between 0 and the extent.
static bool
slice_bound(Elab *e, Env *env, const Ast *a, int64_t fallback, int64_t *bound)
{
    *bound = fallback;
    if (!a)
        return true;
    Value v = eval(e, env, a);
    if (v.kind == V_ERROR)
        return false;
    if (v.kind != V_INT) {
        fault(e, a->place, "a bound of a slice must be a compile-time integer, found %s",
              value_what(e->mem, v));
        return false;
    }
    *bound = v.i;
    return true;
}

static bool
slice_bounds(Elab *e, Env *env, const Ast *s, int64_t extent, int64_t *from, int64_t *to)
{
    if (!slice_bound(e, env, s->kids[0], 0, from) ||
        !slice_bound(e, env, s->kids[1], extent, to))
        return false;
    if (0 <= *from && *from <= *to && *to <= extent)
        return true;
    fault(e, s->place, "the slice %lld:%lld does not lie within 0:%lld", (long long)*from,
          (long long)*to, (long long)extent);
    return false;
}

static bool
in_extent(Elab *e, int64_t i, int64_t extent, Place p)
{
    if (0 <= i && i < extent)
        return true;
    fault(e, p, "the index %lld is not below the extent %lld%s", (long long)i,
          (long long)extent, i < 0 ? "; negative ones are errors" : "");
    return false;
}

// ---- lists, dictionaries ----------------------------------------------------------

static Value
index_list(Elab *e, Env *env, Value v, const Ast *index)
{
    if (index->kind == AST_SLICE) {
        int64_t from, to;
        if (!slice_bounds(e, env, index, v.list->n, &from, &to))
            return poison;
        const Value *at = v.list->n > 0 ? v.list->v + from : NULL;
        return v.kind == V_LIST ? value_list(e->mem, at, (int)(to - from))
                                : value_tuple(e->mem, at, (int)(to - from));
    }
    Value i = eval(e, env, index);
    if (i.kind == V_ERROR)
        return i;
    if (is_mask(i))
        return mask_index(e, v, i, index->place);
    if (i.kind != V_INT)
        return fault(e, index->place,
                     "a list is indexed by a compile-time integer, found %s",
                     value_what(e->mem, i));
    return in_extent(e, i.i, v.list->n, index->place) ? v.list->v[i.i] : poison;
}

static Value
index_dict(Elab *e, Env *env, Value v, const Ast *index)
{
    if (index->kind == AST_SLICE)
        return fault(e, index->place, "a dictionary has no slices");
    Value key = eval(e, env, index);
    if (key.kind == V_ERROR)
        return key;
    const Value *found = dict_find(v.dict, key);
    if (found)
        return *found;
    const char *keys = value_text(e->mem, value_list(e->mem, v.dict->keys, v.dict->n));
    return fault(e, index->place, "the dictionary has no key %s, only %.300s",
                 value_what(e->mem, key), keys);
}

// ---- tensors ----------------------------------------------------------------------

static bool
ascends_by_one(const int64_t *list, int n)
{
    for (int k = 1; k < n; k++)
        if (list[k] != list[0] + k)
            return false;
    return n > 0;
}

static Node *
gather(Elab *e, Node *x, Node *ids, int axis, Place p)
{
    Node *in[2] = {x, ids};
    return elab_emit(e, OP_GATHER, in, 2, (Attr){.axis = axis}, p);
}

static Node *
index_by_list(Elab *e, Node *x, Value list, int axis, Place p)
{
    const int64_t *i;
    int n;
    if (!int_list(e, list, "an index", p, &i, &n))
        return NULL;
    for (int k = 0; k < n; k++)
        if (!in_extent(e, i[k], x->shape.dim[axis], p))
            return NULL;
    if (n == 0 || ascends_by_one(i, n))
        return slice_of(e, x, axis, n == 0 ? 0 : i[0], n, p);
    return gather(e, x,
                  graph_const_i(e->g, DT_I64, (Shape){.rank = 1, .dim = {n}}, i, n, p),
                  axis, p);
}

static Node *
index_by_tensor(Elab *e, Node *x, Node *ids, int axis, Place p)
{
    if (!ids)
        return NULL;
    if (ids->type != DT_I64 || ids->shape.rank > 1) {
        fault(e, p, "a gather needs an i64 tensor of rank 0 or 1, found %s",
              node_text(e, ids));
        return NULL;
    }
    if (x->shape.dim[axis] == 0) {
        fault(e, p, "a gather from an axis of extent zero of %s", node_text(e, x));
        return NULL;
    }
    return gather(e, x, ids, axis, p);
}

// Applies one index to an axis; *axis moves behind what it leaves.
static Node *
index_axis(Elab *e, Env *env, Node *x, const Ast *index, int *axis)
{
    int64_t extent = x->shape.dim[*axis];
    if (index->kind == AST_SLICE) {
        int64_t from, to;
        if (!slice_bounds(e, env, index, extent, &from, &to))
            return NULL;
        return slice_of(e, x, (*axis)++, from, to - from, index->place);
    }
    Value i = eval(e, env, index);
    if (i.kind == V_ERROR)
        return NULL;
    if (i.kind == V_INT) {
        if (!in_extent(e, i.i, extent, index->place))
            return NULL;
        return drop_axis(e, slice_of(e, x, *axis, i.i, 1, index->place), *axis,
                         index->place);
    }
    if (i.kind == V_LIST || i.kind == V_TUPLE)
        return index_by_list(e, x, i, (*axis)++, index->place);
    if (!is_tensor(i)) {
        fault(e, index->place,
              "an index must be an integer, a list or an i64 tensor, found %s",
              value_what(e->mem, i));
        return NULL;
    }
    Node *ids = to_node(e, i, index->place);
    Node *y = index_by_tensor(e, x, ids, *axis, index->place);
    *axis += y ? ids->shape.rank : 0;
    return y;
}

// A tensor indexed by i or j of a predicate.
static bool
is_mask_index(Elab *e, Env *env, const Ast *a, Value v, Value *result)
{
    if (!e->mask || a->n != 2 || a->kids[1]->kind == AST_SLICE)
        return false;
    Value i = eval(e, env, a->kids[1]);
    if (!is_mask(i))
        return false;
    *result = mask_index(e, v, i, a->place);
    return true;
}

static Value
index_tensor(Elab *e, Env *env, Value v, const Ast *a)
{
    Value result;
    if (is_mask_index(e, env, a, v, &result))
        return result;
    Node *x = to_node(e, v, a->kids[0]->place);
    if (x && a->n - 1 > x->shape.rank)
        return fault(e, a->place, "%d indices for %s", a->n - 1, node_text(e, x));
    int axis = 0;
    for (int k = 1; k < a->n && x; k++)
        x = index_axis(e, env, x, a->kids[k], &axis);
    return value_node(x);
}

Value
eval_index(Elab *e, Env *env, const Ast *a)
{
    Value v = eval(e, env, a->kids[0]);
    if (v.kind == V_ERROR)
        return v;
    if (is_tensor(v))
        return index_tensor(e, env, v, a);
    if (v.kind != V_LIST && v.kind != V_TUPLE && v.kind != V_DICT)
        return fault(e, a->place, "%s has no elements", value_what(e->mem, v));
    if (a->n != 2)
        return fault(e, a->place, "%s takes one index, found %d", value_what(e->mem, v),
                     a->n - 1);
    return v.kind == V_DICT ? index_dict(e, env, v, a->kids[1])
                            : index_list(e, env, v, a->kids[1]);
}

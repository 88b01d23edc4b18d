// elab_mask.c - attention predicates: evaluated with symbols for i and j, they leave a
// Mask.
//
// The predicate is an ordinary function, so it may call others and use whatever is in
// scope. What depends on i or j becomes a V_MASK; everything else is a value or a
// tensor as usual.

#include "elab_int.h"

#include <string.h>

static const Value poison = {.kind = V_ERROR};

bool
is_mask(Value v)
{
    return v.kind == V_MASK;
}

bool
mask_oper(AstOper op, MaskKind *kind)
{
    static const struct {
        AstOper oper;
        MaskKind kind;
    } table[] = {
        {OPER_ADD, MASK_ADD},
        {OPER_SUB, MASK_SUB},
        {OPER_MUL, MASK_MUL},
        {OPER_MOD, MASK_MOD},
        {OPER_FLOORDIV, MASK_FLOORDIV},
        {OPER_EQ, MASK_EQ},
        {OPER_NE, MASK_NE},
        {OPER_LT, MASK_LT},
        {OPER_LE, MASK_LE},
        {OPER_GT, MASK_GT},
        {OPER_GE, MASK_GE},
        {OPER_AND, MASK_AND},
        {OPER_OR, MASK_OR},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (table[k].oper == op) {
            *kind = table[k].kind;
            return true;
        }
    return false;
}

// ---- leaves -----------------------------------------------------------------------

static Value
symbol(const Mask *m, int size, bool is_bool)
{
    Value v = {.kind = V_MASK};
    v.mask.mask = m;
    v.mask.size = size;
    v.mask.is_bool = is_bool;
    return v;
}

static Mask *
mask_new(Elab *e, MaskKind kind)
{
    Mask *m = arena_new(&e->mem->perm, Mask);
    m->kind = kind;
    return m;
}

// The operand number of a tensor that the predicate reads.
static int
capture(Elab *e, Node *x)
{
    MaskBuild *b = e->mask;
    for (int k = 0; k < b->captured.n; k++)
        if (b->captured.v[k] == x)
            return b->first + k;
    array_push(&e->mem->perm, &b->captured, x);
    return b->first + b->captured.n - 1;
}

// A value as part of a predicate.
static Value
as_mask(Elab *e, Value v, Place p)
{
    if (v.kind == V_MASK || v.kind == V_ERROR)
        return v;
    if (!e->mask)
        die("i and j have left their predicate");
    if (v.kind == V_INT || v.kind == V_BOOL) {
        Mask *m = mask_new(e, MASK_INT);
        m->value = v.i;
        return symbol(m, 1, v.kind == V_BOOL);
    }
    if (v.kind == V_TENSOR && v.node->shape.rank == 0 && v.node->type != DT_F32) {
        Mask *m = mask_new(e, MASK_TENSOR);
        m->value = capture(e, v.node);
        return symbol(m, 1, v.node->type == DT_BOOL);
    }
    return fault(
        e, p,
        "a predicate holds integers, booleans and tensors indexed by i or j, found %s",
        value_what(e->mem, v));
}

// ---- operations -------------------------------------------------------------------

static Value
combine(Elab *e, MaskKind kind, const Value *kids, int n, bool is_bool, Place p)
{
    Mask *m = mask_new(e, kind);
    int size = 1;
    m->n_kids = n;
    for (int k = 0; k < n; k++) {
        m->kid[k] = (Mask *)(uintptr_t)kids[k].mask.mask;
        size += kids[k].mask.size;
    }
    if (size > MAX_MASK)
        return fault(e, p, "the attention predicate has more than %d operations",
                     MAX_MASK);
    return symbol(m, size, is_bool);
}

Value
mask_unary(Elab *e, MaskKind kind, Value v, Place p)
{
    Value x = as_mask(e, v, p);
    if (x.kind == V_ERROR)
        return x;
    if (x.mask.is_bool != (kind == MASK_NOT))
        return fault(e, p, "a predicate needs %s here, found %s",
                     kind == MASK_NOT ? "a boolean" : "an integer",
                     value_what(e->mem, x));
    return combine(e, kind, &x, 1, kind == MASK_NOT, p);
}

static bool
is_logic(MaskKind kind)
{
    return kind == MASK_AND || kind == MASK_OR;
}

static bool
is_compare(MaskKind kind)
{
    return kind >= MASK_EQ && kind <= MASK_GE;
}

// Divisors that are known must not be zero.
static bool
bad_divisor(MaskKind kind, Value b)
{
    return (kind == MASK_FLOORDIV || kind == MASK_MOD) && b.kind == V_INT && b.i == 0;
}

Value
mask_binary(Elab *e, MaskKind kind, Value a, Value b, Place p)
{
    if (a.kind == V_ERROR || b.kind == V_ERROR)
        return poison;
    if (is_logic(kind) && b.kind == V_BOOL)
        return (kind == MASK_OR) == (b.i != 0) ? b : a;
    if (bad_divisor(kind, b))
        return fault(e, p, "division by zero");
    Value kids[2] = {as_mask(e, a, p), as_mask(e, b, p)};
    if (kids[0].kind == V_ERROR || kids[1].kind == V_ERROR)
        return poison;
    bool bools = kids[0].mask.is_bool, other = kids[1].mask.is_bool;
    bool fits = bools == other && (is_logic(kind)                       ? bools
                                   : kind == MASK_EQ || kind == MASK_NE ? true
                                                                        : !bools);
    if (!fits)
        return fault(e, p, "a predicate needs two %s here, found %s and %s",
                     is_logic(kind) ? "booleans" : "integers",
                     value_what(e->mem, kids[0]), value_what(e->mem, kids[1]));
    return combine(e, kind, kids, 2, is_logic(kind) || is_compare(kind), p);
}

Value
mask_if(Elab *e, Value c, Value a, Value b, Place p)
{
    Value kids[3] = {as_mask(e, c, p), as_mask(e, a, p), as_mask(e, b, p)};
    for (int k = 0; k < 3; k++)
        if (kids[k].kind == V_ERROR)
            return poison;
    if (!kids[0].mask.is_bool || kids[1].mask.is_bool != kids[2].mask.is_bool)
        return fault(
            e, p,
            "'if' of a predicate needs a boolean and two of one type, found %s and %s",
            value_what(e->mem, kids[1]), value_what(e->mem, kids[2]));
    return combine(e, MASK_IF, kids, 3, kids[1].mask.is_bool, p);
}

// ---- lists and tensors indexed by i or j ------------------------------------------

static bool
reaches(Elab *e, const Mask *index, int64_t n, Place p)
{
    int64_t rows = index->kind == MASK_I   ? e->mask->q_rows
                   : index->kind == MASK_J ? e->mask->k_rows
                                           : n;
    if (rows <= n)
        return true;
    fault(e, p, "%c runs to %lld, found %lld elements", index->kind == MASK_I ? 'i' : 'j',
          (long long)rows - 1, (long long)n);
    return false;
}

static Value
list_element(Elab *e, const List *list, Value index, Place p)
{
    Mask *m = mask_new(e, MASK_LIST);
    int64_t *to = arena_array(&e->mem->perm, int64_t, list->n);
    bool bools = list->n > 0 && list->v[0].kind == V_BOOL;
    for (int k = 0; k < list->n; k++) {
        if (list->v[k].kind != (bools ? V_BOOL : V_INT))
            return fault(e, p,
                         "a list in a predicate holds integers or booleans, found %s",
                         value_what(e->mem, list->v[k]));
        to[k] = list->v[k].i;
    }
    if (list->n == 0)
        return fault(e, p, "an empty list in a predicate has no elements");
    if (!count_steps(e, list->n / 8, p) || !reaches(e, index.mask.mask, list->n, p))
        return poison;
    m->list = to;
    m->n_list = list->n;
    m->n_kids = 1;
    m->kid[0] = (Mask *)(uintptr_t)index.mask.mask;
    return symbol(m, index.mask.size + 1, bools);
}

static Value
tensor_element(Elab *e, Node *x, Value index, Place p)
{
    if (!x)
        return poison;
    if (x->shape.rank != 1 || x->type == DT_F32)
        return fault(e, p,
                     "a predicate reads boolean or i64 tensors of one axis, found %s",
                     node_text(e, x));
    if (x->shape.dim[0] == 0)
        return fault(e, p, "an empty tensor in a predicate has no elements");
    if (!reaches(e, index.mask.mask, x->shape.dim[0], p))
        return poison;
    Mask *m = mask_new(e, MASK_TENSOR);
    m->value = capture(e, x);
    m->n_kids = 1;
    m->kid[0] = (Mask *)(uintptr_t)index.mask.mask;
    return symbol(m, index.mask.size + 1, x->type == DT_BOOL);
}

Value
mask_index(Elab *e, Value v, Value index, Place p)
{
    if (!e->mask)
        die("i and j have left their predicate");
    if (index.mask.is_bool)
        return fault(e, p, "an index must be an integer, found %s",
                     value_what(e->mem, index));
    if (v.kind == V_LIST || v.kind == V_TUPLE)
        return list_element(e, v.list, index, p);
    return tensor_element(e, to_node(e, v, p), index, p);
}

// ---- the whole --------------------------------------------------------------------

// The predicate applied to the symbols i and j.
static Value
apply(Elab *e, MaskBuild *b, Value predicate, Place p)
{
    CallArg ij[2] = {{.v = symbol(mask_new(e, MASK_I), 1, false), .place = p},
                     {.v = symbol(mask_new(e, MASK_J), 1, false), .place = p}};
    MaskBuild *outer = e->mask;
    e->mask = b;
    Value v = call_value(e, predicate, ij, 2, p);
    if (v.kind != V_BOOL && v.kind != V_ERROR)
        v = as_mask(e, v, p);
    e->mask = outer;
    return v;
}

const Mask *
mask_build(Elab *e, MaskBuild *b, Value predicate, Place p, bool *ok)
{
    *ok = !e->mask;
    if (!*ok) {
        fault(e, p, "attention cannot stand inside a predicate");
        return NULL;
    }
    if (predicate.kind == V_BOOL && predicate.i)
        return NULL;
    if (predicate.kind != V_FN) {
        if (predicate.kind != V_ERROR)
            fault(e, p, "a mask is a predicate written (i, j) => ..., found %s",
                  value_what(e->mem, predicate));
        *ok = false;
        return NULL;
    }
    Value v = apply(e, b, predicate, p);
    if (v.kind == V_BOOL && v.i)
        return NULL;
    if (v.kind == V_BOOL)
        return mask_new(e, MASK_INT);
    *ok = v.kind == V_MASK && v.mask.is_bool;
    if (!*ok && v.kind != V_ERROR)
        fault(e, p, "a predicate must give a boolean, found %s", value_what(e->mem, v));
    return *ok ? v.mask.mask : NULL;
}

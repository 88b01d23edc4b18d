// elab_arith.c - operators on tensors.

#include "elab_int.h"

#include <string.h>

static const Value poison = {.kind = V_ERROR};

// ---- operands ---------------------------------------------------------------------

static DType
value_type(Value v)
{
    switch (v.kind) {
    case V_TENSOR:
        return v.node->type;
    case V_INT:
        return DT_I64;
    case V_BOOL:
        return DT_BOOL;
    default:
        return DT_F32;
    }
}

// The node of a value beside a tensor of type t: a number takes that type where it can.
static Node *
beside(Elab *e, Value v, DType t, const char *what, Place p)
{
    if (is_tensor(v))
        return to_node(e, v, p);
    if (value_is_number(v) && t == DT_F32)
        return const_node(e, v, t, p);
    if (v.kind == V_FLOAT && t == DT_I64) {
        fault(e, p, "%s: the float %s stands beside i64; convert with f32(x)", what,
              float_text(e->mem, v.f));
        return NULL;
    }
    return to_node(e, v, p);
}

bool
elab_promote(Elab *e, Value a, Value b, Node **x, Node **y, const char *what, Place p)
{
    DType t = is_tensor(a)                             ? value_type(a)
              : is_tensor(b)                           ? value_type(b)
              : a.kind == V_FLOAT || b.kind == V_FLOAT ? DT_F32
                                                       : value_type(a);
    *x = beside(e, a, t, what, p);
    *y = beside(e, b, t, what, p);
    if (!*x || !*y)
        return false;
    if ((*x)->type != (*y)->type) {
        fault(e, p, "%s needs equal types, found %s and %s", what, node_text(e, *x),
              node_text(e, *y));
        return false;
    }
    return true;
}

// ---- unary ------------------------------------------------------------------------

Value
value_unary(Elab *e, AstOper op, Value v, Place p)
{
    if (v.kind == V_ERROR)
        return v;
    if (v.kind == V_MASK)
        return mask_unary(e, op == OPER_NOT ? MASK_NOT : MASK_NEG, v, p);
    if (!is_tensor(v))
        return static_unary(e, op, v, p);
    Node *x = to_node(e, v, p);
    if (x && (op == OPER_NOT) != (x->type == DT_BOOL))
        return fault(e, p, "'%s' needs %s, found %s", ast_oper_text(op),
                     op == OPER_NOT ? "bool" : "f32 or i64", node_text(e, x));
    return value_node(elab_emit1(e, op == OPER_NOT ? OP_NOT : OP_NEG, x, p));
}

Value
value_transpose(Elab *e, Value v, Place p)
{
    Node *x = to_node(e, v, p);
    if (!x)
        return poison;
    int rank = x->shape.rank;
    if (rank < 2)
        return fault(e, p, "x' needs at least two axes, found %s", node_text(e, x));
    int64_t *axes = arena_array(&e->mem->perm, int64_t, rank);
    for (int k = 0; k < rank; k++)
        axes[k] = k;
    axes[rank - 2] = rank - 1;
    axes[rank - 1] = rank - 2;
    return value_node(
        elab_emit(e, OP_PERMUTE, &x, 1, (Attr){.n_list = rank, .list = axes}, p));
}

// ---- products ---------------------------------------------------------------------

static bool
is_transposed_matrix(const Node *x)
{
    return x->op == OP_PERMUTE && x->shape.rank == 2 && x->a.list[0] == 1;
}

// Leading extents of a product, broadcast; false when they do not fit.
static bool
leading_extents(Shape a, Shape b, Shape *s)
{
    int n = (a.rank > b.rank ? a.rank : b.rank) - 2;
    s->rank = n;
    for (int k = 0; k < n; k++) {
        int ka = k - (n - (a.rank - 2)), kb = k - (n - (b.rank - 2));
        int64_t da = ka >= 0 ? a.dim[ka] : 1, db = kb >= 0 ? b.dim[kb] : 1;
        if (da != db && da != 1 && db != 1)
            return false;
        s->dim[k] = da == 1 ? db : da;
    }
    return true;
}

// x with the leading extents of lead in front of its last two.
static Node *
with_leading(Elab *e, Node *x, Shape lead, Place p)
{
    Shape s = lead;
    s.rank = lead.rank + 2;
    s.dim[lead.rank] = x->shape.dim[x->shape.rank - 2];
    s.dim[lead.rank + 1] = x->shape.dim[x->shape.rank - 1];
    return expand_to(e, x, s, p);
}

// Both have at least two axes and equal inner extents.
static Node *
matrix_product(Elab *e, Node *x, Node *y, Place p)
{
    Attr a = {0};
    if (y->shape.rank > 2) {
        Shape lead;
        if (!leading_extents(x->shape, y->shape, &lead)) {
            fault(e, p, "'@' cannot broadcast the leading extents of %s and %s",
                  node_text(e, x), node_text(e, y));
            return NULL;
        }
        x = with_leading(e, x, lead, p);
        y = with_leading(e, y, lead, p);
        if (!x || !y)
            return NULL;
    }
    if (x->shape.rank == 2 && y->shape.rank == 2 && is_transposed_matrix(x)) {
        x = x->in[0];
        a.ta = true;
    }
    if (y->shape.rank == 2 && is_transposed_matrix(y)) {
        y = y->in[0];
        a.tb = true;
    }
    Node *in[2] = {x, y};
    return elab_emit(e, OP_MATMUL, in, 2, a, p);
}

Value
value_matmul(Elab *e, Value a, Value b, Place p)
{
    Node *x = to_node(e, a, p), *y = to_node(e, b, p);
    if (!x || !y)
        return poison;
    Shape sx = x->shape, sy = y->shape;
    if (sx.rank < 1 || sy.rank < 1 || x->type != DT_F32 || y->type != DT_F32)
        return fault(e, p, "'@' needs f32 with at least one axis, found %s and %s",
                     node_text(e, x), node_text(e, y));
    int64_t inner_x = sx.dim[sx.rank - 1],
            inner_y = sy.dim[sy.rank > 1 ? sy.rank - 2 : 0];
    if (inner_x != inner_y) {
        fault(e, p, "'@' needs equal inner sizes, found %s and %s", node_text(e, x),
              node_text(e, y));
        note_operands(e, (Node *[2]){x, y}, 2);
        return poison;
    }
    if (sx.rank == 1)
        x = reshape_to(e, x, (Shape){.rank = 2, .dim = {1, inner_x}}, p);
    if (sy.rank == 1)
        y = reshape_to(e, y, (Shape){.rank = 2, .dim = {inner_y, 1}}, p);
    Node *z = x && y ? matrix_product(e, x, y, p) : NULL;
    if (z && sy.rank == 1)
        z = drop_axis(e, z, z->shape.rank - 1, p);
    if (z && sx.rank == 1)
        z = drop_axis(e, z, z->shape.rank - (sy.rank == 1 ? 1 : 2), p);
    return value_node(z);
}

// ---- binary -----------------------------------------------------------------------

static Value
power(Elab *e, Value a, Value b, Place p)
{
    if (!value_is_number(b))
        return fault(e, p, "'**' needs a constant exponent, found %s",
                     value_what(e->mem, b));
    Node *x = to_typed(e, a, DT_F32, "the base of '**'", p);
    return value_node(elab_emit(e, OP_POW, &x, 1, (Attr){.p = value_number(b)}, p));
}

typedef struct Rule {
    AstOper oper;
    Op op;
    bool swap;
    int types; // bits of DType that it takes
} Rule;

enum { F = 1 << DT_F32, I = 1 << DT_I64, B = 1 << DT_BOOL };

static const Rule rules[] = {
    {OPER_ADD, OP_ADD, false, F | I},
    {OPER_SUB, OP_SUB, false, F | I},
    {OPER_MUL, OP_MUL, false, F | I},
    {OPER_DIV, OP_DIV, false, F},
    {OPER_FLOORDIV, OP_FLOORDIV, false, F | I},
    {OPER_MOD, OP_MOD, false, F | I},
    {OPER_EQ, OP_EQ, false, F | I | B},
    {OPER_NE, OP_NE, false, F | I | B},
    {OPER_LT, OP_LT, false, F | I},
    {OPER_LE, OP_LE, false, F | I},
    {OPER_GT, OP_LT, true, F | I},
    {OPER_GE, OP_LE, true, F | I},
    {OPER_AND, OP_AND, false, B},
    {OPER_OR, OP_OR, false, B},
};

static const char *
type_names(int types)
{
    switch (types) {
    case F:
        return "f32";
    case B:
        return "bool";
    case F | I:
        return "f32 or i64";
    default:
        return "tensors";
    }
}

static Value
tensor_binary(Elab *e, AstOper op, Value a, Value b, Place p)
{
    if (op == OPER_POW)
        return power(e, a, b, p);
    const Rule *r = rules;
    while (r->oper != op)
        r++;
    const char *what = arena_printf(&e->mem->perm, "'%s'", ast_oper_text(op));
    Node *x, *y;
    if (!elab_promote(e, a, b, &x, &y, what, p))
        return poison;
    if (!(r->types & 1 << x->type))
        return fault(e, p, "%s needs %s, found %s and %s%s", what, type_names(r->types),
                     node_text(e, x), node_text(e, y),
                     op == OPER_DIV ? "; convert with f32(x), or divide with '//'" : "");
    return value_node(r->swap ? elab_emit2(e, r->op, y, x, p)
                              : elab_emit2(e, r->op, x, y, p));
}

Value
value_binary(Elab *e, AstOper op, Value a, Value b, Place p)
{
    if (a.kind == V_ERROR || b.kind == V_ERROR)
        return poison;
    if (op == OPER_MATMUL)
        return is_tensor(a) || is_tensor(b) ? value_matmul(e, a, b, p)
                                            : static_binary(e, op, a, b, p);
    if (is_mask(a) || is_mask(b)) {
        MaskKind kind;
        if (!mask_oper(op, &kind))
            return fault(e, p, "an attention predicate has no '%s'", ast_oper_text(op));
        return mask_binary(e, kind, a, b, p);
    }
    if (is_tensor(a) || is_tensor(b))
        return tensor_binary(e, op, a, b, p);
    return static_binary(e, op, a, b, p);
}

Value
value_select(Elab *e, Value c, Value a, Value b, Place p)
{
    if (a.kind == V_ERROR || b.kind == V_ERROR)
        return poison;
    if (is_mask(c) || is_mask(a) || is_mask(b))
        return mask_if(e, c, a, b, p);
    Node *in[3] = {to_typed(e, c, DT_BOOL, "the condition of 'if'", p), NULL, NULL};
    if (!in[0] || !elab_promote(e, a, b, &in[1], &in[2], "'if'", p))
        return poison;
    return value_node(elab_emit(e, OP_SELECT, in, 3, (Attr){0}, p));
}

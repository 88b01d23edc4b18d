// emit_loop.c - elementwise expressions and reductions as loop nests, on vectors or on scalars.

#include "emit.h"

#include <string.h>

// One loop being written: axes after merging, and the views walked along them.
typedef struct Loop {
    Emit *e;
    const Stmt *s;
    View out;
    View *leaf; // [s->n_leaf]
    bool axes[MAX_RANK];
    int rank;
    const char *index[MAX_RANK];
    int depth; // open braces
} Loop;

static const char *const axis_index[] = {"i0", "i1", "i2", "i3", "i4"};

static void
line(Loop *l, const char *text)
{
    for (int i = 0; i < l->depth; i++)
        put(l->e, "    ");
    put(l->e, "%s", text);
}

static void
open_axis(Loop *l, int k)
{
    line(l, "");
    put(l->e, "for (int %s = 0; %s < %D; %s++) {\n", axis_index[k], axis_index[k], l->out.dim[k],
        axis_index[k]);
    l->depth++;
}

static void
close_to(Loop *l, int depth)
{
    while (l->depth > depth) {
        l->depth--;
        line(l, "}\n");
    }
}

static bool
is_literal(const Leaf *l)
{
    return l->node && node_is_scalar_const(l->node);
}

// The number of an expression operand: leaves are x0, x1, ..., values y0, y1, ...
static const char *
operand(const Loop *l, const Node *n)
{
    Arena *a = &l->e->mem->scratch;
    for (int i = 0; i < l->s->n_leaf; i++)
        if (l->s->leaf[i].node == n)
            return arena_printf(a, "x%d", i);
    for (int i = 0; i < l->s->n_expr; i++)
        if (l->s->expr[i] == n)
            return arena_printf(a, "y%d", i);
    die("an operand is neither a leaf nor computed");
}

static const char *
result_name(const Loop *l)
{
    if (l->s->n_expr == 0)
        return "x0";
    return arena_printf(&l->e->mem->scratch, "y%d", l->s->n_expr - 1);
}

// ---- vector expressions ------------------------------------------------------------------------

static const char *
power_text(Arena *a, double p, const char *x)
{
    if (p == 1.0)
        return x;
    if (p == 2.0)
        return arena_printf(a, "v_mul(%s, %s)", x, x);
    if (p == 0.5)
        return arena_printf(a, "v_sqrt(%s)", x);
    if (p == -1.0)
        return arena_printf(a, "v_div(v_set1(1.0f), %s)", x);
    if (p == -0.5)
        return arena_printf(a, "v_div(v_set1(1.0f), v_sqrt(%s))", x);
    return arena_printf(a, "v_pow(%s, v_set1(%s))", x, c_float_text(a, p));
}

static const char *
vector_text(const Loop *l, const Node *n)
{
    Arena *a = &l->e->mem->scratch;
    const char *x = operand(l, n->in[0]);
    const char *y = n->n_in > 1 ? operand(l, n->in[1]) : "";
    bool truth = n->type == DT_BOOL;
    switch (n->op) {
    case OP_NEG: return arena_printf(a, "v_neg(%s)", x);
    case OP_ABS: return arena_printf(a, "v_abs(%s)", x);
    case OP_EXP: return arena_printf(a, "v_exp(%s)", x);
    case OP_LOG: return arena_printf(a, "v_log(%s)", x);
    case OP_LOG1P: return arena_printf(a, "v_log1p(%s)", x);
    case OP_SQRT: return arena_printf(a, "v_sqrt(%s)", x);
    case OP_SIN: return arena_printf(a, "v_sin(%s)", x);
    case OP_COS: return arena_printf(a, "v_cos(%s)", x);
    case OP_TANH: return arena_printf(a, "v_tanh(%s)", x);
    case OP_SIGMOID: return arena_printf(a, "v_sigmoid(%s)", x);
    case OP_SILU: return arena_printf(a, "v_silu(%s)", x);
    case OP_SILU_GRAD: return arena_printf(a, "v_silu_grad(%s)", x);
    case OP_GELU: return arena_printf(a, "v_gelu(%s)", x);
    case OP_GELU_GRAD: return arena_printf(a, "v_gelu_grad(%s)", x);
    case OP_RELU: return arena_printf(a, "v_relu(%s)", x);
    case OP_SOFTPLUS: return arena_printf(a, "v_softplus(%s)", x);
    case OP_POW: return power_text(a, n->a.p, x);
    case OP_CLAMP:
        return arena_printf(a, "v_min(v_set1(%s), v_max(v_set1(%s), %s))", c_float_text(a, n->a.hi),
                            c_float_text(a, n->a.lo), x);
    case OP_SIGN: return arena_printf(a, "v_sign(%s)", x);
    case OP_ROUND: return arena_printf(a, "v_round(%s)", x);
    case OP_IS_FINITE: return arena_printf(a, "v_is_finite(%s)", x);
    case OP_NOT: return arena_printf(a, "vm_andnot(vm_all(1), %s)", x);
    case OP_TO_F32:
        if (n->in[0]->type == DT_F32)
            return x;
        return arena_printf(a, "v_blend(%s, v_set1(1.0f), v_zero())", x);
    case OP_ADD: return arena_printf(a, "v_add(%s, %s)", x, y);
    case OP_SUB: return arena_printf(a, "v_sub(%s, %s)", x, y);
    case OP_MUL: return arena_printf(a, "v_mul(%s, %s)", x, y);
    case OP_ZMUL:
        return arena_printf(a, "v_blend(v_eq(%s, v_zero()), v_zero(), v_mul(%s, %s))", x, x, y);
    case OP_DIV: return arena_printf(a, "v_div(%s, %s)", x, y);
    case OP_MAX2: return arena_printf(a, "v_blend(v_gt(%s, %s), %s, %s)", y, x, y, x);
    case OP_MIN2: return arena_printf(a, "v_blend(v_lt(%s, %s), %s, %s)", y, x, y, x);
    case OP_EQ: return arena_printf(a, "v_eq(%s, %s)", x, y);
    case OP_NE: return arena_printf(a, "v_ne(%s, %s)", x, y);
    case OP_LT: return arena_printf(a, "v_lt(%s, %s)", x, y);
    case OP_LE: return arena_printf(a, "v_le(%s, %s)", x, y);
    case OP_AND: return arena_printf(a, "vm_and(%s, %s)", x, y);
    case OP_OR: return arena_printf(a, "vm_or(%s, %s)", x, y);
    case OP_SELECT: {
        const char *z = operand(l, n->in[2]);
        if (truth)
            return arena_printf(a, "vm_or(vm_and(%s, %s), vm_andnot(%s, %s))", x, y, z, x);
        return arena_printf(a, "v_blend(%s, %s, %s)", x, y, z);
    }
    default: die("%s has no vector form", op_info[n->op].name);
    }
}

// ---- scalar expressions ------------------------------------------------------------------------

static const char *
lane_text(Arena *a, const char *f, const char *x)
{
    return arena_printf(a, "K_LANE(%s, %s)", f, x);
}

// Floats on scalars use one lane of the vector functions, so that both forms agree.
static const char *
scalar_float_text(const Loop *l, const Node *n, const char *x, const char *y)
{
    Arena *a = &l->e->mem->scratch;
    switch (n->op) {
    case OP_ABS: return arena_printf(a, "fabsf(%s)", x);
    case OP_EXP: return lane_text(a, "v_exp", x);
    case OP_LOG: return lane_text(a, "v_log", x);
    case OP_LOG1P: return lane_text(a, "v_log1p", x);
    case OP_SQRT: return arena_printf(a, "sqrtf(%s)", x);
    case OP_SIN: return arena_printf(a, "sinf(%s)", x);
    case OP_COS: return arena_printf(a, "cosf(%s)", x);
    case OP_TANH: return lane_text(a, "v_tanh", x);
    case OP_SIGMOID: return lane_text(a, "v_sigmoid", x);
    case OP_SILU: return lane_text(a, "v_silu", x);
    case OP_SILU_GRAD: return lane_text(a, "v_silu_grad", x);
    case OP_GELU: return lane_text(a, "v_gelu", x);
    case OP_GELU_GRAD: return lane_text(a, "v_gelu_grad", x);
    case OP_RELU: return arena_printf(a, "(%s > 0.0f ? %s : 0.0f)", x, x);
    case OP_SOFTPLUS: return lane_text(a, "v_softplus", x);
    case OP_POW: return arena_printf(a, "powf(%s, %s)", x, c_float_text(a, n->a.p));
    case OP_CLAMP: {
        const char *lo = c_float_text(a, n->a.lo), *hi = c_float_text(a, n->a.hi);
        return arena_printf(a, "(%s < %s ? %s : %s > %s ? %s : %s)", x, lo, lo, x, hi, hi, x);
    }
    case OP_SIGN: return arena_printf(a, "(float)((%s > 0.0f) - (%s < 0.0f))", x, x);
    case OP_ROUND: return arena_printf(a, "rintf(%s)", x);
    case OP_ADD: return arena_printf(a, "%s + %s", x, y);
    case OP_SUB: return arena_printf(a, "%s - %s", x, y);
    case OP_MUL: return arena_printf(a, "%s * %s", x, y);
    case OP_ZMUL: return arena_printf(a, "(%s == 0.0f ? 0.0f : %s * %s)", x, x, y);
    case OP_FLOORDIV: return arena_printf(a, "floorf(%s / %s)", x, y);
    case OP_MOD: return arena_printf(a, "k_fmodf(%s, %s)", x, y);
    default: die("%s has no scalar form", op_info[n->op].name);
    }
}

static const char *
bounds_name(const Loop *l, const Node *n)
{
    return arena_printf(&l->e->mem->scratch, "bounds_%s", operand(l, n));
}

static const char *
scalar_text(const Loop *l, const Node *n)
{
    Arena *a = &l->e->mem->scratch;
    const char *x = operand(l, n->in[0]);
    const char *y = n->n_in > 1 ? operand(l, n->in[1]) : "";
    bool integer = n->type == DT_I64;
    switch (n->op) {
    case OP_NEG: return arena_printf(a, integer ? "k_isub(0, %s)" : "-%s", x);
    case OP_IS_FINITE: return arena_printf(a, "isfinite(%s) != 0", x);
    case OP_NOT: return arena_printf(a, "!%s", x);
    case OP_TO_F32: return arena_printf(a, "(float)%s", x);
    case OP_TO_I64:
        return n->in[0]->type == DT_F32 ? arena_printf(a, "k_to_i64(%s)", x) : x;
    case OP_DIV: return arena_printf(a, "%s / %s", x, y);
    case OP_EQ: return arena_printf(a, "%s == %s", x, y);
    case OP_NE: return arena_printf(a, "%s != %s", x, y);
    case OP_LT: return arena_printf(a, "%s < %s", x, y);
    case OP_LE: return arena_printf(a, "%s <= %s", x, y);
    case OP_AND: return arena_printf(a, "%s && %s", x, y);
    case OP_OR: return arena_printf(a, "%s || %s", x, y);
    case OP_SELECT: return arena_printf(a, "%s ? %s : %s", x, y, operand(l, n->in[2]));
    case OP_MAX2: return arena_printf(a, "%s > %s ? %s : %s", y, x, y, x);
    case OP_MIN2: return arena_printf(a, "%s < %s ? %s : %s", y, x, y, x);
    case OP_BUCKETIZE:
        return arena_printf(a, "k_bucketize((double)%s, %s, %d)", x, bounds_name(l, n),
                            (int)n->a.data->n);
    default: break;
    }
    if (!integer)
        return scalar_float_text(l, n, x, y);
    switch (n->op) {
    case OP_ABS: return arena_printf(a, "(%s < 0 ? k_isub(0, %s) : %s)", x, x, x);
    case OP_SIGN: return arena_printf(a, "(int64_t)(%s > 0) - (%s < 0)", x, x);
    case OP_CLAMP: {
        const char *lo = arena_printf(a, "%lld", (long long)n->a.lo);
        const char *hi = arena_printf(a, "%lld", (long long)n->a.hi);
        return arena_printf(a, "(%s < %s ? %s : %s > %s ? %s : %s)", x, lo, lo, x, hi, hi, x);
    }
    case OP_ADD: return arena_printf(a, "k_iadd(%s, %s)", x, y);
    case OP_SUB: return arena_printf(a, "k_isub(%s, %s)", x, y);
    case OP_MUL: return arena_printf(a, "k_imul(%s, %s)", x, y);
    case OP_FLOORDIV: return arena_printf(a, "k_floordiv(%s, %s)", x, y);
    case OP_MOD: return arena_printf(a, "k_mod(%s, %s)", x, y);
    default: die("%s has no integer form", op_info[n->op].name);
    }
}

static const char *
scalar_type(DType t)
{
    return t == DT_F32 ? "float" : t == DT_I64 ? "int64_t" : "int";
}

// ---- leaves ------------------------------------------------------------------------------------

static DType
leaf_type(const Leaf *l)
{
    return l->node ? l->node->type : l->view.buf->type;
}

static void
put_literal(Loop *l, int i)
{
    const Node *n = l->s->leaf[i].node;
    const Const *c = n->a.data;
    Arena *a = &l->e->mem->scratch;
    const char *v;
    if (n->type == DT_F32)
        v = c_float_text(a, c->f ? c->f[0] : (double)c->i[0]);
    else if (c->i && c->i[0] == INT64_MIN)
        v = "INT64_MIN";
    else
        v = arena_printf(a, "%lld", (long long)(c->i ? c->i[0] : (int64_t)c->f[0]));
    line(l, "");
    if (!l->s->vector)
        put(l->e, "const %s x%d = %s;\n", scalar_type(n->type), i, v);
    else if (n->type == DT_F32)
        put(l->e, "const v_f32 x%d = v_set1(%s);\n", i, v);
    else
        put(l->e, "const v_mask x%d = vm_all(%s);\n", i, v);
}

static int64_t
last_step(const Loop *l, const View *v)
{
    return v->stride[l->rank - 1];
}

// Reads leaf i: one element for all lanes, or a vector from column c on.
static void
put_leaf(Loop *l, int i)
{
    const View *v = &l->leaf[i];
    bool truth = leaf_type(&l->s->leaf[i]) == DT_BOOL;
    line(l, "");
    if (!l->s->vector) {
        put(l->e, "const %s x%d = ", scalar_type(leaf_type(&l->s->leaf[i])), i);
        put_at(l->e, v, l->index, true);
        put(l->e, ";\n");
        return;
    }
    bool row = last_step(l, v) == 1;
    put(l->e, "const %s x%d = %s(", truth ? "v_mask" : "v_f32", i,
        truth ? (row ? "vm_bytes" : "vm_all") : (row ? "v_load_n" : "v_set1"));
    put_at(l->e, v, l->index, !row);
    put(l->e, row ? ", n);\n" : ");\n");
}

static void
put_expr(Loop *l)
{
    for (int i = 0; i < l->s->n_expr; i++) {
        const Node *n = l->s->expr[i];
        const char *type = scalar_type(n->type);
        if (l->s->vector)
            type = n->type == DT_F32 ? "v_f32" : "v_mask";
        line(l, "");
        put(l->e, "const %s y%d = %s;\n", type, i,
            l->s->vector ? vector_text(l, n) : scalar_text(l, n));
    }
}

// Leaves that stay the same along the last axis are read before the vectors of a row.
static void
put_fixed_leaves(Loop *l, bool literals)
{
    for (int i = 0; i < l->s->n_leaf; i++) {
        if (is_literal(&l->s->leaf[i])) {
            if (literals)
                put_literal(l, i);
        } else if (last_step(l, &l->leaf[i]) == 0) {
            put_leaf(l, i);
        }
    }
}

static void
put_moving_leaves(Loop *l)
{
    for (int i = 0; i < l->s->n_leaf; i++)
        if (!is_literal(&l->s->leaf[i]) && last_step(l, &l->leaf[i]) != 0)
            put_leaf(l, i);
}

static void
put_literals(Loop *l)
{
    for (int i = 0; i < l->s->n_leaf; i++)
        if (is_literal(&l->s->leaf[i]))
            put_literal(l, i);
}

// ---- elementwise -------------------------------------------------------------------------------

static void
open_vectors(Loop *l)
{
    line(l, "");
    put(l->e, "K_EACH(c, n, %D, {\n", l->out.dim[l->rank - 1]);
    l->index[l->rank - 1] = "c";
    l->depth++;
}

static void
close_vectors(Loop *l)
{
    l->depth--;
    line(l, "});\n");
}

static void
vector_elements(Loop *l)
{
    for (int k = 0; k + 1 < l->rank; k++)
        open_axis(l, k);
    put_fixed_leaves(l, false);
    open_vectors(l);
    put_moving_leaves(l);
    put_expr(l);
    bool truth = l->out.buf->type == DT_BOOL;
    line(l, truth ? "vm_store_n(" : "v_store_n(");
    put_at(l->e, &l->out, l->index, false);
    put(l->e, ", n, ");
    if (l->s->add) {
        put(l->e, "v_add(v_load_n(");
        put_at(l->e, &l->out, l->index, false);
        put(l->e, ", n), %s)", result_name(l));
    } else {
        put(l->e, "%s", result_name(l));
    }
    put(l->e, ");\n");
    close_vectors(l);
}

static void
scalar_elements(Loop *l)
{
    for (int k = 0; k < l->rank; k++)
        open_axis(l, k);
    put_moving_leaves(l);
    for (int i = 0; i < l->s->n_leaf; i++)
        if (!is_literal(&l->s->leaf[i]) && last_step(l, &l->leaf[i]) == 0)
            put_leaf(l, i);
    put_expr(l);
    line(l, "");
    put_at(l->e, &l->out, l->index, true);
    const char *cast = l->out.buf->type == DT_BOOL ? "(uint8_t)" : "";
    put(l->e, " %s %s(%s);\n", l->s->add ? "+=" : "=", cast, result_name(l));
}

// ---- reductions --------------------------------------------------------------------------------

static const char *
combine_name(const Node *n)
{
    return n->op == OP_SUM ? "v_add" : n->op == OP_MAX ? "v_max" : "v_min";
}

static const char *
neutral(const Node *n)
{
    return n->op == OP_SUM ? "v_zero()"
           : n->op == OP_MAX ? "v_set1(-HUGE_VALF)"
                             : "v_set1(HUGE_VALF)";
}

// Along rows: partial sums in the lanes, joined at the end.
static void
reduce_rows(Loop *l)
{
    const Node *n = l->s->node;
    for (int k = 0; k < l->rank; k++)
        if (!l->axes[k])
            open_axis(l, k);
    line(l, "");
    put(l->e, "v_f32 r = %s;\n", neutral(n));
    int depth = l->depth;
    for (int k = 0; k + 1 < l->rank; k++)
        if (l->axes[k])
            open_axis(l, k);
    put_fixed_leaves(l, false);
    open_vectors(l);
    put_moving_leaves(l);
    put_expr(l);
    line(l, "");
    put(l->e, "r = %s(v_blend(vm_first(n), %s, %s), r);\n", combine_name(n), result_name(l),
        neutral(n));
    close_vectors(l);
    close_to(l, depth);
    line(l, "");
    put_at(l->e, &l->out, l->index, true);
    put(l->e, " %s %s(r);\n", l->s->add ? "+=" : "=",
        n->op == OP_SUM   ? "v_hsum"
        : n->op == OP_MAX ? "v_hmax"
                          : "v_hmin");
}

// Down columns: one chain a column, lanes side by side.
static void
reduce_columns(Loop *l)
{
    const Node *n = l->s->node;
    for (int k = 0; k + 1 < l->rank; k++)
        if (!l->axes[k])
            open_axis(l, k);
    open_vectors(l);
    line(l, "v_f32 r = ");
    if (l->s->add) {
        put(l->e, "v_load_n(");
        put_at(l->e, &l->out, l->index, false);
        put(l->e, ", n);\n");
    } else {
        put(l->e, "%s;\n", neutral(n));
    }
    int depth = l->depth;
    for (int k = 0; k + 1 < l->rank; k++)
        if (l->axes[k])
            open_axis(l, k);
    put_fixed_leaves(l, false);
    put_moving_leaves(l);
    put_expr(l);
    line(l, "");
    put(l->e, "r = %s(r, %s);\n", combine_name(n), result_name(l));
    close_to(l, depth);
    line(l, "v_store_n(");
    put_at(l->e, &l->out, l->index, false);
    put(l->e, ", n, r);\n");
    close_vectors(l);
}

static const char *
scalar_start(const Node *n)
{
    bool real = n->in[0]->type == DT_F32;
    switch (n->op) {
    case OP_ALL: return "1";
    case OP_MAX:
    case OP_ARGMAX: return real ? "-HUGE_VALF" : "INT64_MIN";
    case OP_MIN: return real ? "HUGE_VALF" : "INT64_MAX";
    default: return real ? "0.0f" : "0";
    }
}

static const char *
scalar_step(Arena *a, const Node *n, const char *y)
{
    switch (n->op) {
    case OP_SUM:
        return arena_printf(a, n->type == DT_I64 ? "r = k_iadd(r, %s)" : "r += %s", y);
    case OP_COUNT_TRUE: return arena_printf(a, "r += %s", y);
    case OP_ANY: return arena_printf(a, "r |= %s", y);
    case OP_ALL: return arena_printf(a, "r &= %s", y);
    case OP_MAX: return arena_printf(a, "r = %s > r ? %s : r", y, y);
    case OP_MIN: return arena_printf(a, "r = %s < r ? %s : r", y, y);
    default: return arena_printf(a, "best = %s > r ? place : best, r = %s > r ? %s : r, place++", y, y, y);
    }
}

static void
reduce_scalars(Loop *l)
{
    const Node *n = l->s->node;
    DType in = l->s->n_expr ? l->s->expr[l->s->n_expr - 1]->type : leaf_type(&l->s->leaf[0]);
    bool argmax = n->op == OP_ARGMAX;
    for (int k = 0; k < l->rank; k++)
        if (!l->axes[k])
            open_axis(l, k);
    line(l, "");
    put(l->e, "%s r = %s;\n", scalar_type(n->op == OP_COUNT_TRUE ? DT_I64 : in), scalar_start(n));
    if (argmax)
        line(l, "int64_t best = 0, place = 0;\n");
    int depth = l->depth;
    for (int k = 0; k < l->rank; k++)
        if (l->axes[k])
            open_axis(l, k);
    for (int i = 0; i < l->s->n_leaf; i++)
        if (!is_literal(&l->s->leaf[i]))
            put_leaf(l, i);
    put_expr(l);
    line(l, "");
    put(l->e, "%s;\n", scalar_step(&l->e->mem->scratch, n, result_name(l)));
    close_to(l, depth);
    line(l, "");
    put_at(l->e, &l->out, l->index, true);
    put(l->e, " %s %s%s;\n", l->s->add ? "+=" : "=", n->type == DT_BOOL ? "(uint8_t)" : "",
        argmax ? "best" : "r");
}

// ---- the whole ---------------------------------------------------------------------------------

static Loop
loop_make(Emit *e, const Stmt *s)
{
    Arena *a = &e->mem->scratch;
    Loop l = {.e = e, .s = s, .out = s->out[0], .depth = 1};
    View **v = arena_array(a, View *, s->n_leaf + 1);
    l.leaf = arena_array(a, View, s->n_leaf);
    int n = 0;
    v[n++] = &l.out;
    for (int i = 0; i < s->n_leaf; i++) {
        l.leaf[i] = s->leaf[i].view;
        if (!is_literal(&s->leaf[i]))
            v[n++] = &l.leaf[i];
    }
    memcpy(l.axes, s->axes, sizeof l.axes);
    view_collapse(v, n, s->reduce ? l.axes : NULL);
    l.rank = l.out.rank;
    for (int k = 0; k < l.rank; k++)
        l.index[k] = axis_index[k];
    return l;
}

// A plain copy of rows that stand side by side.
static bool
copy_rows(Emit *e, const Loop *l)
{
    const Stmt *s = l->s;
    if (s->n_expr || s->reduce || s->add || is_literal(&s->leaf[0]) || l->rank > 2)
        return false;
    int last = l->rank - 1;
    if (l->out.stride[last] != 1 || l->leaf[0].stride[last] != 1)
        return false;
    if (l->rank == 2 && l->out.buf->type == DT_F32) {
        put(e, "k_copy(%D, %D, %p, %D, %p, %D);\n", l->out.dim[0], l->out.dim[1], &l->leaf[0],
            l->leaf[0].stride[0], &l->out, l->out.stride[0]);
        return true;
    }
    if (l->rank == 2)
        return false;
    const char *type = l->out.buf->type == DT_F32   ? "float"
                       : l->out.buf->type == DT_I64 ? "int64_t"
                                                    : "uint8_t";
    put(e, "memcpy(%p, %p, %D * sizeof(%s));\n", &l->out, &l->leaf[0], l->out.dim[0], type);
    return true;
}

void
emit_loop(Emit *e, const Stmt *s)
{
    Loop l = loop_make(e, s);
    if (copy_rows(e, &l))
        return;
    put(e, "{\n");
    for (int i = 0; i < s->n_expr; i++) {
        const Node *n = s->expr[i];
        if (n->op != OP_BUCKETIZE)
            continue;
        put(e, "    static const double %s[] = {", bounds_name(&l, n));
        for (int64_t k = 0; k < n->a.data->n; k++)
            put(e, "%s%g", k ? ", " : "", n->a.data->f ? n->a.data->f[k] : (double)n->a.data->i[k]);
        put(e, "%s};\n", n->a.data->n ? "" : "0");
    }
    put_literals(&l);
    bool rows = s->reduce && l.axes[l.rank - 1];
    if (!s->reduce && s->vector)
        vector_elements(&l);
    else if (!s->reduce)
        scalar_elements(&l);
    else if (!s->vector)
        reduce_scalars(&l);
    else if (rows)
        reduce_rows(&l);
    else
        reduce_columns(&l);
    close_to(&l, 1);
    put(e, "}\n");
}

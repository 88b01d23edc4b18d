// emit_form.c - the C of one elementwise operation, on vectors or on scalars.
//
// A form is an expression in which #k stands for operand k. Every form is safe to put anywhere in another.

#include "emit.h"

int
expr_index(const Stmt *s, const Node *n)
{
    for (int i = 0; i < s->n_expr; i++)
        if (s->expr[i] == n)
            return i;
    die("an operand is neither a leaf nor computed");
}

static const char *
power_form(Arena *a, double p)
{
    if (p == 1.0)
        return "#0";
    if (p == 2.0)
        return "v_mul(#0, #0)";
    if (p == 0.5)
        return "v_sqrt(#0)";
    if (p == -1.0)
        return "v_div(v_set1(1.0f), #0)";
    if (p == -0.5)
        return "v_div(v_set1(1.0f), v_sqrt(#0))";
    return arena_printf(a, "v_pow(#0, v_set1(%s))", c_float_text(a, p));
}

static const char *
vector_form(Arena *a, const Node *n)
{
    switch (n->op) {
    case OP_NEG: return "v_neg(#0)";
    case OP_ABS: return "v_abs(#0)";
    case OP_EXP: return "v_exp(#0)";
    case OP_LOG: return "v_log(#0)";
    case OP_LOG1P: return "v_log1p(#0)";
    case OP_SQRT: return "v_sqrt(#0)";
    case OP_SIN: return "v_sin(#0)";
    case OP_COS: return "v_cos(#0)";
    case OP_TANH: return "v_tanh(#0)";
    case OP_SIGMOID: return "v_sigmoid(#0)";
    case OP_SILU: return "v_silu(#0)";
    case OP_SILU_GRAD: return "v_silu_grad(#0)";
    case OP_GELU: return "v_gelu(#0)";
    case OP_GELU_GRAD: return "v_gelu_grad(#0)";
    case OP_RELU: return "v_relu(#0)";
    case OP_SOFTPLUS: return "v_softplus(#0)";
    case OP_POW: return power_form(a, n->a.p);
    case OP_CLAMP:
        return arena_printf(a, "v_min(v_set1(%s), v_max(v_set1(%s), #0))",
                            c_float_text(a, n->a.hi), c_float_text(a, n->a.lo));
    case OP_SIGN: return "v_sign(#0)";
    case OP_ROUND: return "v_round(#0)";
    case OP_IS_FINITE: return "v_is_finite(#0)";
    case OP_NOT: return "vm_andnot(vm_all(1), #0)";
    case OP_TO_F32:
        return n->in[0]->type == DT_F32 ? "#0" : "v_blend(#0, v_set1(1.0f), v_zero())";
    case OP_ADD: return "v_add(#0, #1)";
    case OP_SUB: return "v_sub(#0, #1)";
    case OP_MUL: return "v_mul(#0, #1)";
    case OP_ZMUL: return "v_blend(v_eq(#0, v_zero()), v_zero(), v_mul(#0, #1))";
    case OP_DIV: return "v_div(#0, #1)";
    case OP_MAX2: return "v_blend(v_gt(#1, #0), #1, #0)";
    case OP_MIN2: return "v_blend(v_lt(#1, #0), #1, #0)";
    case OP_EQ: return "v_eq(#0, #1)";
    case OP_NE: return "v_ne(#0, #1)";
    case OP_LT: return "v_lt(#0, #1)";
    case OP_LE: return "v_le(#0, #1)";
    case OP_AND: return "vm_and(#0, #1)";
    case OP_OR: return "vm_or(#0, #1)";
    case OP_SELECT:
        return n->type == DT_BOOL ? "vm_or(vm_and(#0, #1), vm_andnot(#2, #0))"
                                  : "v_blend(#0, #1, #2)";
    default: die("%s has no vector form", op_info[n->op].name);
    }
}

// Floats on scalars use one lane of the vector functions, so that both forms agree.
static const char *
float_form(Arena *a, const Node *n)
{
    switch (n->op) {
    case OP_NEG: return "-(#0)";
    case OP_ABS: return "fabsf(#0)";
    case OP_EXP: return "K_LANE(v_exp, #0)";
    case OP_LOG: return "K_LANE(v_log, #0)";
    case OP_LOG1P: return "K_LANE(v_log1p, #0)";
    case OP_SQRT: return "sqrtf(#0)";
    case OP_SIN: return "sinf(#0)";
    case OP_COS: return "cosf(#0)";
    case OP_TANH: return "K_LANE(v_tanh, #0)";
    case OP_SIGMOID: return "K_LANE(v_sigmoid, #0)";
    case OP_SILU: return "K_LANE(v_silu, #0)";
    case OP_SILU_GRAD: return "K_LANE(v_silu_grad, #0)";
    case OP_GELU: return "K_LANE(v_gelu, #0)";
    case OP_GELU_GRAD: return "K_LANE(v_gelu_grad, #0)";
    case OP_RELU: return "(#0 > 0.0f ? #0 : 0.0f)";
    case OP_SOFTPLUS: return "K_LANE(v_softplus, #0)";
    case OP_POW: return arena_printf(a, "powf(#0, %s)", c_float_text(a, n->a.p));
    case OP_CLAMP: {
        const char *lo = c_float_text(a, n->a.lo), *hi = c_float_text(a, n->a.hi);
        return arena_printf(a, "(#0 < %s ? %s : #0 > %s ? %s : #0)", lo, lo, hi, hi);
    }
    case OP_SIGN: return "(float)((#0 > 0.0f) - (#0 < 0.0f))";
    case OP_ROUND: return "rintf(#0)";
    case OP_ADD: return "(#0 + #1)";
    case OP_SUB: return "(#0 - #1)";
    case OP_MUL: return "(#0 * #1)";
    case OP_ZMUL: return "(#0 == 0.0f ? 0.0f : #0 * #1)";
    case OP_DIV: return "(#0 / #1)";
    case OP_MAX2: return "(#1 > #0 ? #1 : #0)";
    case OP_MIN2: return "(#1 < #0 ? #1 : #0)";
    case OP_FLOORDIV: return "floorf(#0 / #1)";
    case OP_MOD: return "k_fmodf(#0, #1)";
    default: die("%s has no scalar form", op_info[n->op].name);
    }
}

static const char *
integer_form(Arena *a, const Node *n)
{
    switch (n->op) {
    case OP_NEG: return "k_isub(0, #0)";
    case OP_ABS: return "(#0 < 0 ? k_isub(0, #0) : #0)";
    case OP_SIGN: return "(int64_t)((#0 > 0) - (#0 < 0))";
    case OP_CLAMP:
        return arena_printf(a, "k_imin(k_imax(#0, %lld), %lld)", (long long)n->a.lo,
                            (long long)n->a.hi);
    case OP_ADD: return "k_iadd(#0, #1)";
    case OP_SUB: return "k_isub(#0, #1)";
    case OP_MUL: return "k_imul(#0, #1)";
    case OP_FLOORDIV: return "k_floordiv(#0, #1)";
    case OP_MOD: return "k_mod(#0, #1)";
    case OP_MAX2: return "k_imax(#0, #1)";
    case OP_MIN2: return "k_imin(#0, #1)";
    default: die("%s has no integer form", op_info[n->op].name);
    }
}

static const char *
scalar_form(Arena *a, const Stmt *s, const Node *n)
{
    switch (n->op) {
    case OP_IS_FINITE: return "(isfinite(#0) != 0)";
    case OP_NOT: return "!(#0)";
    case OP_TO_F32: return "(float)(#0)";
    case OP_TO_I64: return n->in[0]->type == DT_F32 ? "k_to_i64(#0)" : "(int64_t)(#0)";
    case OP_EQ: return "(#0 == #1)";
    case OP_NE: return "(#0 != #1)";
    case OP_LT: return "(#0 < #1)";
    case OP_LE: return "(#0 <= #1)";
    case OP_AND: return "(#0 && #1)";
    case OP_OR: return "(#0 || #1)";
    case OP_SELECT: return "(#0 ? #1 : #2)";
    case OP_BUCKETIZE:
        return arena_printf(a, "k_bucketize((double)(#0), bounds_%d, %d)", expr_index(s, n),
                            (int)n->a.data->n);
    default: return n->type == DT_I64 ? integer_form(a, n) : float_form(a, n);
    }
}

const char *
op_form(Arena *a, const Stmt *s, const Node *n)
{
    return s->vector ? vector_form(a, n) : scalar_form(a, s, n);
}

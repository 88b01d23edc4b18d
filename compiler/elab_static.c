// elab_static.c - operators on compile-time values.

#include "elab_int.h"

#include <math.h>
#include <string.h>

static Value
overflow(Elab *e, Place p)
{
    return fault(e, p, "the integer does not fit in 64 bits");
}

Value
static_unary(Elab *e, AstOper op, Value v, Place p)
{
    if (op == OPER_NOT && v.kind == V_BOOL)
        return value_bool(!v.i);
    if (op == OPER_NEG && v.kind == V_INT)
        return v.i == INT64_MIN ? overflow(e, p) : value_int(-v.i);
    if (op == OPER_NEG && v.kind == V_FLOAT)
        return value_float(-v.f);
    return fault(e, p, "'%s' needs %s, found %s", ast_oper_text(op),
                 op == OPER_NOT ? "a boolean" : "a number", value_what(e->mem, v));
}

static int64_t
floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

static Value
int_power(Elab *e, int64_t a, int64_t b, Place p)
{
    int64_t r = 1;
    for (; b > 0; b /= 2) {
        if ((b & 1) && __builtin_mul_overflow(r, a, &r))
            return overflow(e, p);
        if (b > 1 && __builtin_mul_overflow(a, a, &a))
            return overflow(e, p);
    }
    return value_int(r);
}

static Value
int_binary(Elab *e, AstOper op, int64_t a, int64_t b, Place p)
{
    int64_t r = 0;
    bool bad = false;
    switch (op) {
    case OPER_ADD:
        bad = __builtin_add_overflow(a, b, &r);
        break;
    case OPER_SUB:
        bad = __builtin_sub_overflow(a, b, &r);
        break;
    case OPER_MUL:
        bad = __builtin_mul_overflow(a, b, &r);
        break;
    case OPER_POW:
        return b >= 0 ? int_power(e, a, b, p) : value_float(pow((double)a, (double)b));
    default:
        if (b == 0)
            return fault(e, p, "division by zero");
        if (op == OPER_DIV)
            return value_float((double)a / (double)b);
        bad = a == INT64_MIN && b == -1;
        if (!bad)
            r = op == OPER_FLOORDIV ? floor_div(a, b) : a - floor_div(a, b) * b;
        break;
    }
    return bad ? overflow(e, p) : value_int(r);
}

static Value
float_binary(Elab *e, AstOper op, double a, double b, Place p)
{
    switch (op) {
    case OPER_ADD:
        return value_float(a + b);
    case OPER_SUB:
        return value_float(a - b);
    case OPER_MUL:
        return value_float(a * b);
    case OPER_POW:
        return value_float(pow(a, b));
    default:
        break;
    }
    if (b == 0.0)
        return fault(e, p, "division by zero");
    if (op == OPER_DIV)
        return value_float(a / b);
    if (op == OPER_FLOORDIV)
        return value_float(floor(a / b));
    double r = fmod(a, b);
    return value_float(r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r);
}

static Value
join_lists(Elab *e, Value a, Value b, Place p)
{
    int64_t n = (int64_t)a.list->n + b.list->n;
    if (!count_steps(e, n, p))
        return (Value){.kind = V_ERROR};
    List *l = arena_new(&e->mem->perm, List);
    l->n = (int)n;
    l->v = arena_array(&e->mem->perm, Value, n);
    if (a.list->n > 0)
        memcpy(l->v, a.list->v, (size_t)a.list->n * sizeof *l->v);
    if (b.list->n > 0)
        memcpy(l->v + a.list->n, b.list->v, (size_t)b.list->n * sizeof *l->v);
    return (Value){.kind = a.kind, .list = l};
}

static Value
join_strings(Elab *e, Value a, Value b, Place p)
{
    size_t n = strlen(a.s) + strlen(b.s);
    if (!count_steps(e, (int64_t)(n / 16), p))
        return (Value){.kind = V_ERROR};
    return value_str(arena_printf(&e->mem->perm, "%s%s", a.s, b.s));
}

static bool
is_comparison(AstOper op)
{
    return op == OPER_LT || op == OPER_LE || op == OPER_GT || op == OPER_GE;
}

// order: below, at or above zero as a stands before, with or behind b.
static Value
compared(AstOper op, int order)
{
    switch (op) {
    case OPER_LT:
        return value_bool(order < 0);
    case OPER_LE:
        return value_bool(order <= 0);
    case OPER_GT:
        return value_bool(order > 0);
    default:
        return value_bool(order >= 0);
    }
}

static Value
number_binary(Elab *e, AstOper op, Value a, Value b, Place p)
{
    bool ints = a.kind == V_INT && b.kind == V_INT;
    if (!is_comparison(op))
        return ints ? int_binary(e, op, a.i, b.i, p)
                    : float_binary(e, op, value_number(a), value_number(b), p);
    if (ints)
        return compared(op, (a.i > b.i) - (a.i < b.i));
    double x = value_number(a), y = value_number(b);
    return isnan(x) || isnan(y) ? value_bool(false) : compared(op, (x > y) - (x < y));
}

Value
static_binary(Elab *e, AstOper op, Value a, Value b, Place p)
{
    if (op == OPER_EQ)
        return value_bool(value_equal(a, b));
    if (op == OPER_NE)
        return value_bool(!value_equal(a, b));
    if (value_is_number(a) && value_is_number(b) && op != OPER_AND && op != OPER_OR &&
        op != OPER_MATMUL)
        return number_binary(e, op, a, b, p);
    if (a.kind == V_BOOL && b.kind == V_BOOL && op == OPER_AND)
        return value_bool(a.i && b.i);
    if (a.kind == V_BOOL && b.kind == V_BOOL && op == OPER_OR)
        return value_bool(a.i || b.i);
    if (a.kind == V_STR && b.kind == V_STR && op == OPER_ADD)
        return join_strings(e, a, b, p);
    if (a.kind == V_STR && b.kind == V_STR && is_comparison(op))
        return compared(op, strcmp(a.s, b.s));
    if (a.kind == b.kind && (a.kind == V_LIST || a.kind == V_TUPLE) && op == OPER_ADD)
        return join_lists(e, a, b, p);
    return fault(e, p, "'%s' does not take %s and %s", ast_oper_text(op),
                 value_what(e->mem, a), value_what(e->mem, b));
}

// interp_pointwise.c - elementwise operations in double precision.

#include "interp_eval.h"

#include <math.h>

// x: this element, a: attributes.
#define UNARY(name, expr)                                                                \
    void eval_##name(Interp *it, const Node *n)                                          \
    {                                                                                    \
        Tensor *y = out(it, n);                                                          \
        for (int64_t k = 0; k < y->size; k++) {                                          \
            double x = in(it, n, 0)->f[k];                                               \
            y->f[k] = expr;                                                              \
        }                                                                                \
    }

// As UNARY, and the same for integers; unsigned arithmetic wraps.
#define UNARY_NUMBER(name, expr, iexpr)                                                  \
    void eval_##name(Interp *it, const Node *n)                                          \
    {                                                                                    \
        Tensor *y = out(it, n);                                                          \
        for (int64_t k = 0; k < y->size; k++)                                            \
            if (n->type == DT_F32) {                                                     \
                double x = in(it, n, 0)->f[k];                                           \
                y->f[k] = expr;                                                          \
            } else {                                                                     \
                int64_t x = in(it, n, 0)->i[k];                                          \
                y->i[k] = iexpr;                                                         \
            }                                                                            \
    }

static int64_t
wrap_neg(int64_t x)
{
    return (int64_t)(0 - (uint64_t)x);
}

static double
sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double
silu_grad(double x)
{
    double s = sigmoid(x);
    return s * (1 + x * (1 - s));
}

// d/dx x Phi(x) = Phi(x) + x phi(x)
static double
gelu_grad(double x)
{
    return 0.5 * (1 + erf(x * M_SQRT1_2)) + x * exp(-0.5 * x * x) / sqrt(2 * M_PI);
}

// NaN goes through.
static double
clamp_real(double x, const Attr *a)
{
    if (x < a->lo)
        return a->lo;
    return x > a->hi ? a->hi : x;
}

// Bounds of integers are whole numbers.
static int64_t
clamp_whole(int64_t x, const Attr *a)
{
    if ((double)x < a->lo)
        return (int64_t)a->lo;
    return (double)x > a->hi ? (int64_t)a->hi : x;
}

UNARY_NUMBER(neg, -x, wrap_neg(x))
UNARY_NUMBER(abs, fabs(x), x < 0 ? wrap_neg(x) : x)
UNARY_NUMBER(sign, (x > 0) - (x < 0), (x > 0) - (x < 0))
UNARY(exp, exp(x))
UNARY(log, log(x))
UNARY(log1p, log1p(x))
UNARY(sqrt, sqrt(x))
UNARY(sin, sin(x))
UNARY(cos, cos(x))
UNARY(tanh, tanh(x))
UNARY(sigmoid, sigmoid(x))
UNARY(silu, (x) * sigmoid(x))
UNARY(silu_grad, silu_grad(x))
UNARY(gelu, 0.5 * x * (1 + erf(x * M_SQRT1_2)))
UNARY(gelu_grad, gelu_grad(x))
UNARY(relu, x > 0 ? x : 0)
UNARY(softplus, fmax(x, 0) + log1p(exp(-fabs(x))))
UNARY(pow, pow(x, n->a.p))
UNARY(round, rint(x))

UNARY_NUMBER(clamp, clamp_real(x, &n->a), clamp_whole(x, &n->a))

void
eval_is_finite(Interp *it, const Node *n)
{
    Tensor *y = out(it, n);
    for (int64_t k = 0; k < y->size; k++)
        y->i[k] = isfinite(in(it, n, 0)->f[k]) != 0;
}

void
eval_not(Interp *it, const Node *n)
{
    Tensor *y = out(it, n);
    for (int64_t k = 0; k < y->size; k++)
        y->i[k] = !in(it, n, 0)->i[k];
}

void
eval_to_f32(Interp *it, const Node *n)
{
    Tensor *y = out(it, n);
    bool same = n->in[0]->type == DT_F32;
    for (int64_t k = 0; k < y->size; k++)
        y->f[k] = same ? in(it, n, 0)->f[k] : (double)in(it, n, 0)->i[k];
}

// Truncates; NaN gives 0, what does not fit the nearest that does.
static int64_t
truncated(double x)
{
    if (isnan(x))
        return 0;
    if (x >= 0x1p63)
        return INT64_MAX;
    return x <= -0x1p63 ? INT64_MIN : (int64_t)x;
}

void
eval_to_i64(Interp *it, const Node *n)
{
    Tensor *y = out(it, n);
    bool f = n->in[0]->type == DT_F32;
    for (int64_t k = 0; k < y->size; k++)
        y->i[k] = f ? truncated(in(it, n, 0)->f[k]) : in(it, n, 0)->i[k];
}

void
eval_detach(Interp *it, const Node *n)
{
    Tensor *y = out(it, n);
    for (int64_t k = 0; k < y->size; k++)
        y->u[k] = in(it, n, 0)->u[k];
}

// ---- two operands -------------------------------------------------------------------

static int64_t
wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t
wrap_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static int64_t
floor_div(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return wrap_neg(a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t
floor_mod(int64_t a, int64_t b)
{
    return b == 0 ? 0 : wrap_add(a, wrap_neg(wrap_mul(floor_div(a, b), b)));
}

// T is the field of the operands, R of the result.
#define BINARY_AS(name, operands, T, R, expr)                                            \
    static void name##_##operands(Interp *it, const Node *n)                             \
    {                                                                                    \
        const Tensor *ta = in_as_out(it, n, 0), *tb = in_as_out(it, n, 1);               \
        Tensor *y = out(it, n);                                                          \
        for (int64_t k = 0; k < y->size; k++) {                                          \
            __typeof__(*ta->T) a = ta->T[k], b = tb->T[k];                               \
            y->R[k] = expr;                                                              \
        }                                                                                \
    }

#define BINARY(name, fexpr, iexpr)                                                       \
    BINARY_AS(name, f32, f, f, fexpr)                                                    \
    BINARY_AS(name, i64, i, i, iexpr)                                                    \
    void eval_##name(Interp *it, const Node *n)                                          \
    {                                                                                    \
        (n->type == DT_F32 ? name##_f32 : name##_i64)(it, n);                            \
    }

#define COMPARE(name, expr)                                                              \
    BINARY_AS(name, f32, f, i, expr)                                                     \
    BINARY_AS(name, i64, i, i, expr)                                                     \
    void eval_##name(Interp *it, const Node *n)                                          \
    {                                                                                    \
        (n->in[0]->type == DT_F32 ? name##_f32 : name##_i64)(it, n);                     \
    }

BINARY(add, a + b, wrap_add(a, b))
BINARY(sub, a - b, wrap_add(a, wrap_neg(b)))
BINARY(mul, a *b, wrap_mul(a, b))
BINARY(zmul, a == 0 ? 0 : a * b, wrap_mul(a, b))
BINARY(div, a / b, floor_div(a, b))
BINARY(floordiv, floor(a / b), floor_div(a, b))
BINARY(mod, a - floor(a / b) * b, floor_mod(a, b))
BINARY(max2, b > a ? b : a, b > a ? b : a)
BINARY(min2, b < a ? b : a, b < a ? b : a)
COMPARE(eq, a == b)
COMPARE(ne, a != b)
COMPARE(lt, a < b)
COMPARE(le, a <= b)
COMPARE(and, a != 0 && b != 0)
COMPARE(or, a != 0 || b != 0)

void
eval_select(Interp *it, const Node *n)
{
    const Tensor *c = in_as_out(it, n, 0), *a = in_as_out(it, n, 1),
                 *b = in_as_out(it, n, 2);
    Tensor *y = out(it, n);
    for (int64_t k = 0; k < y->size; k++)
        y->u[k] = c->i[k] ? a->u[k] : b->u[k];
}

// ops_pointwise.c - elementwise operations: types, broadcasting, gradients.
//
// A gradient rule multiplies the adjoint by a factor with zmul, which is zero where the
// adjoint is zero whatever the factor is: what a select dropped stays dropped behind it.

#include "ops.h"

// ---- shapes -------------------------------------------------------------------------

bool
infer_same(Graph *g, Node *n)
{
    (void)g;
    n->type = n->in[0]->type;
    n->shape = n->in[0]->shape;
    return true;
}

bool
infer_same_f32(Graph *g, Node *n)
{
    return need_type(g, n, 0, DT_F32) && infer_same(g, n);
}

bool
infer_same_bool(Graph *g, Node *n)
{
    return need_type(g, n, 0, DT_BOOL) && infer_same(g, n);
}

bool
infer_same_number(Graph *g, Node *n)
{
    if (!is_number(n->in[0]))
        return op_error(g, n, "needs f32 or i64, found %s", in_text(g, n, 0));
    return infer_same(g, n);
}

static bool
as_type(Graph *g, Node *n, DType type)
{
    infer_same(g, n);
    n->type = type;
    return true;
}

bool
infer_f32_to_bool(Graph *g, Node *n)
{
    return need_type(g, n, 0, DT_F32) && as_type(g, n, DT_BOOL);
}

bool
infer_to_f32(Graph *g, Node *n)
{
    return as_type(g, n, DT_F32);
}

bool
infer_to_i64(Graph *g, Node *n)
{
    return as_type(g, n, DT_I64);
}

// Shape of operands first .. n_in - 1 broadcast against each other.
static bool
broadcast_all(Graph *g, Node *n, int first)
{
    Shape s = n->in[first]->shape;
    for (int k = first + 1; k < n->n_in; k++)
        if (!shape_broadcast(s, n->in[k]->shape, &s))
            return op_error(g, n, "cannot broadcast %s with %s",
                            in_text(g, n, k == first + 1 ? first : k - 1),
                            in_text(g, n, k));
    n->shape = s;
    return need_shape(g, n, s);
}

static bool
equal_types(Graph *g, const Node *n, int a, int b)
{
    if (n->in[a]->type == n->in[b]->type)
        return true;
    return op_error(g, n, "needs operands of one type, found %s and %s", in_text(g, n, a),
                    in_text(g, n, b));
}

bool
infer_two_numbers(Graph *g, Node *n)
{
    for (int k = 0; k < 2; k++)
        if (!is_number(n->in[k]))
            return op_error(g, n, "needs f32 or i64, found %s and %s", in_text(g, n, 0),
                            in_text(g, n, 1));
    n->type = n->in[0]->type;
    return equal_types(g, n, 0, 1) && broadcast_all(g, n, 0);
}

bool
infer_two_f32(Graph *g, Node *n)
{
    if (n->in[0]->type != DT_F32 || n->in[1]->type != DT_F32)
        return op_error(g, n, "needs f32, found %s and %s", in_text(g, n, 0),
                        in_text(g, n, 1));
    n->type = DT_F32;
    return broadcast_all(g, n, 0);
}

bool
infer_two_bools(Graph *g, Node *n)
{
    if (n->in[0]->type != DT_BOOL || n->in[1]->type != DT_BOOL)
        return op_error(g, n, "needs bool, found %s and %s", in_text(g, n, 0),
                        in_text(g, n, 1));
    n->type = DT_BOOL;
    return broadcast_all(g, n, 0);
}

bool
infer_compare_any(Graph *g, Node *n)
{
    n->type = DT_BOOL;
    return equal_types(g, n, 0, 1) && broadcast_all(g, n, 0);
}

bool
infer_compare_numbers(Graph *g, Node *n)
{
    bool ok = infer_two_numbers(g, n);
    n->type = DT_BOOL;
    return ok;
}

bool
infer_select(Graph *g, Node *n)
{
    if (!need_type(g, n, 0, DT_BOOL) || !equal_types(g, n, 1, 2))
        return false;
    n->type = n->in[1]->type;
    return broadcast_all(g, n, 0);
}

// ---- gradients of one operand -------------------------------------------------------

static Node *
one(Graph *g, Op op, Node *x, const Node *n)
{
    return graph_unary(g, op, x, n->place);
}

static Node *
two(Graph *g, Op op, Node *a, Node *b, const Node *n)
{
    return graph_binary(g, op, a, b, n->place);
}

static Node *
number(Graph *g, double v, const Node *n)
{
    return graph_scalar(g, v, n->place);
}

// dx = dy * factor
static void
times(Grad *gr, Node *n, int k, Node *dy, Node *factor)
{
    grad_add(gr, n, k, two(grad_graph(gr), OP_ZMUL, dy, factor, n));
}

void
grad_neg(Grad *gr, Node *n, Node *dy)
{
    grad_add(gr, n, 0, one(grad_graph(gr), OP_NEG, dy, n));
}

void
grad_abs(Grad *gr, Node *n, Node *dy)
{
    times(gr, n, 0, dy, one(grad_graph(gr), OP_SIGN, n->in[0], n));
}

void
grad_exp(Grad *gr, Node *n, Node *dy)
{
    times(gr, n, 0, dy, n);
}

void
grad_log(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    times(gr, n, 0, dy, two(g, OP_DIV, number(g, 1, n), n->in[0], n));
}

void
grad_log1p(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    Node *x1 = two(g, OP_ADD, n->in[0], number(g, 1, n), n);
    times(gr, n, 0, dy, two(g, OP_DIV, number(g, 1, n), x1, n));
}

void
grad_sqrt(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    times(gr, n, 0, dy, two(g, OP_DIV, number(g, 0.5, n), n, n));
}

void
grad_sin(Grad *gr, Node *n, Node *dy)
{
    times(gr, n, 0, dy, one(grad_graph(gr), OP_COS, n->in[0], n));
}

void
grad_cos(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    times(gr, n, 0, dy, one(g, OP_NEG, one(g, OP_SIN, n->in[0], n), n));
}

// 1 - y^2
void
grad_tanh(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    times(gr, n, 0, dy, two(g, OP_SUB, number(g, 1, n), two(g, OP_MUL, n, n, n), n));
}

// y (1 - y)
void
grad_sigmoid(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    times(gr, n, 0, dy, two(g, OP_MUL, n, two(g, OP_SUB, number(g, 1, n), n, n), n));
}

void
grad_silu(Grad *gr, Node *n, Node *dy)
{
    times(gr, n, 0, dy, one(grad_graph(gr), OP_SILU_GRAD, n->in[0], n));
}

void
grad_gelu(Grad *gr, Node *n, Node *dy)
{
    times(gr, n, 0, dy, one(grad_graph(gr), OP_GELU_GRAD, n->in[0], n));
}

// 0 at 0
void
grad_relu(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    Node *zero = number(g, 0, n);
    grad_add(gr, n, 0,
             graph_select(g, two(g, OP_LT, zero, n->in[0], n), dy, zero, n->place));
}

void
grad_softplus(Grad *gr, Node *n, Node *dy)
{
    times(gr, n, 0, dy, one(grad_graph(gr), OP_SIGMOID, n->in[0], n));
}

// p x^(p - 1)
void
grad_pow(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    double p = n->a.p;
    Node *x = n->in[0];
    if (p == 0)
        return;
    if (p != 2) {
        Node *in[] = {x};
        x = graph_add(g, OP_POW, in, 1, (Attr){.p = p - 1}, n->place);
    }
    times(gr, n, 0, dy, two(g, OP_MUL, number(g, p, n), x, n));
}

// Passes at both ends.
void
grad_clamp(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    Node *above = two(g, OP_LE, number(g, n->a.lo, n), n->in[0], n);
    Node *below = two(g, OP_LE, n->in[0], number(g, n->a.hi, n), n);
    Node *inside = two(g, OP_AND, above, below, n);
    grad_add(gr, n, 0, graph_select(g, inside, dy, number(g, 0, n), n->place));
}

// ---- gradients of two operands ------------------------------------------------------

void
grad_add_op(Grad *gr, Node *n, Node *dy)
{
    grad_add(gr, n, 0, dy);
    grad_add(gr, n, 1, dy);
}

void
grad_sub(Grad *gr, Node *n, Node *dy)
{
    grad_add(gr, n, 0, dy);
    if (grad_wants(gr, n, 1))
        grad_add(gr, n, 1, one(grad_graph(gr), OP_NEG, dy, n));
}

void
grad_mul(Grad *gr, Node *n, Node *dy)
{
    for (int k = 0; k < 2; k++)
        if (grad_wants(gr, n, k))
            times(gr, n, k, dy, n->in[1 - k]);
}

// da = dy / b, db = -dy y / b
void
grad_div(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    Node *b = n->in[1];
    if (grad_wants(gr, n, 0))
        times(gr, n, 0, dy, two(g, OP_DIV, number(g, 1, n), b, n));
    if (grad_wants(gr, n, 1))
        times(gr, n, 1, dy, one(g, OP_NEG, two(g, OP_DIV, n, b, n), n));
}

// The adjoint goes to operand 0 where first holds, else to operand 1.
static void
either(Grad *gr, Node *n, int k, Node *first, Node *dy)
{
    Graph *g = grad_graph(gr);
    Node *zero = number(g, 0, n);
    if (grad_wants(gr, n, k))
        grad_add(gr, n, k, graph_select(g, first, dy, zero, n->place));
    if (grad_wants(gr, n, k + 1))
        grad_add(gr, n, k + 1, graph_select(g, first, zero, dy, n->place));
}

void
grad_max2(Grad *gr, Node *n, Node *dy)
{
    either(gr, n, 0, two(grad_graph(gr), OP_LE, n->in[1], n->in[0], n), dy);
}

void
grad_min2(Grad *gr, Node *n, Node *dy)
{
    either(gr, n, 0, two(grad_graph(gr), OP_LE, n->in[0], n->in[1], n), dy);
}

void
grad_select(Grad *gr, Node *n, Node *dy)
{
    either(gr, n, 1, n->in[0], dy);
}

// ops.c - the operation table, and the checks that its rules share.

#include "ops.h"

#define grad_none NULL
const OpInfo op_info[OP_COUNT] = {
#define OP(NAME, text, lo, hi, row, flags, shape, gradient, cost, attrs)                 \
    {#text, lo, hi, row, flags, infer_##shape, grad_##gradient, flops_##cost, attrs},
#include "ops.def"
#undef OP
};
#undef grad_none

const char *
op_symbol(Op op)
{
    switch (op) {
    case OP_ADD:
        return "'+'";
    case OP_SUB:
        return "'-'";
    case OP_MUL:
        return "'*'";
    case OP_DIV:
        return "'/'";
    case OP_FLOORDIV:
        return "'//'";
    case OP_MOD:
        return "'%'";
    case OP_POW:
        return "'**'";
    case OP_EQ:
        return "'=='";
    case OP_NE:
        return "'!='";
    case OP_LT:
        return "'<'";
    case OP_LE:
        return "'<='";
    case OP_MATMUL:
        return "'@'";
    case OP_NEG:
        return "unary '-'";
    case OP_SELECT:
        return "'if'";
    case OP_MAX2:
        return "'max'";
    case OP_MIN2:
        return "'min'";
    case OP_TO_F32:
        return "'f32'";
    case OP_TO_I64:
        return "'i64'";
    case OP_NORMALIZE:
        return "'layer_norm' or 'rms_norm'";
    case OP_BAG_MEAN:
        return "'embed_bag_mean'";
    default:
        break;
    }
    static const char *const quoted[OP_COUNT] = {
#define OP(NAME, text, ...) "'" #text "'",
#include "ops.def"
#undef OP
    };
    return quoted[op];
}

bool
op_error(Graph *g, const Node *n, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(&g->mem->perm, fmt, ap);
    va_end(ap);
    diag_error(g->diag, n->place, "%s %s", op_symbol(n->op), text);
    return false;
}

const char *
in_text(Graph *g, const Node *n, int k)
{
    return shape_text(g->mem, n->in[k]->type, n->in[k]->shape);
}

bool
is_number(const Node *x)
{
    return x->type != DT_BOOL;
}

bool
need_type(Graph *g, const Node *n, int k, DType type)
{
    if (n->in[k]->type == type)
        return true;
    if (n->n_in == 1)
        return op_error(g, n, "needs %s, found %s", dtype_name(type), in_text(g, n, k));
    return op_error(g, n, "needs %s as operand %d, found %s", dtype_name(type), k + 1,
                    in_text(g, n, k));
}

bool
need_rank(Graph *g, const Node *n, int k, int rank)
{
    if (n->in[k]->shape.rank == rank)
        return true;
    return op_error(g, n, "needs a tensor of rank %d, found %s", rank, in_text(g, n, k));
}

bool
need_axis(Graph *g, const Node *n, int rank)
{
    if (n->a.axis >= 0 && n->a.axis < rank)
        return true;
    return op_error(g, n, "has no axis %lld in a tensor of rank %d", (long long)n->a.axis,
                    rank);
}

bool
need_shape(Graph *g, const Node *n, Shape s)
{
    if (s.rank < 0 || s.rank > MAX_RANK)
        return op_error(g, n, "gives rank %d, at most %d is possible", s.rank, MAX_RANK);
    int64_t size = 1;
    for (int k = 0; k < s.rank; k++) {
        if (s.dim[k] < 0)
            return op_error(g, n, "has the negative extent %lld", (long long)s.dim[k]);
        if (s.dim[k] && size > (INT64_MAX >> 4) / s.dim[k])
            return op_error(g, n, "gives a tensor that is too large: %s",
                            shape_text(g->mem, n->type, s));
        size *= s.dim[k] ? s.dim[k] : 1;
    }
    return true;
}

int64_t
row_width(Shape s)
{
    return s.rank ? s.dim[s.rank - 1] : 1;
}

int64_t
row_count(Shape s)
{
    int64_t n = 1;
    for (int k = 0; k + 1 < s.rank; k++)
        n *= s.dim[k];
    return n;
}

// ---- costs that many rows share -----------------------------------------------------

double
flops_zero(const Node *n)
{
    (void)n;
    return 0;
}

// One operation an element of the result.
double
flops_each(const Node *n)
{
    return n->type == DT_F32 ? (double)shape_size(n->shape) : 0;
}

// One operation an element of operand 0.
double
flops_operand(const Node *n)
{
    return n->in[0]->type == DT_F32 ? (double)shape_size(n->in[0]->shape) : 0;
}

// ---- leaves -------------------------------------------------------------------------

bool
infer_input(Graph *g, Node *n)
{
    if (n->a.index < 0 || n->a.index >= g->n_inputs)
        die("input %lld of %d", (long long)n->a.index, g->n_inputs);
    n->type = g->inputs[n->a.index].type;
    n->shape = g->inputs[n->a.index].shape;
    return need_shape(g, n, n->shape);
}

bool
infer_param(Graph *g, Node *n)
{
    if (n->a.index < 0 || n->a.index >= g->n_params)
        die("parameter %lld of %d", (long long)n->a.index, g->n_params);
    n->type = DT_F32;
    n->shape = g->params[n->a.index].shape;
    return need_shape(g, n, n->shape);
}

bool
infer_const(Graph *g, Node *n)
{
    const Const *c = n->a.data;
    if (!c || (c->f != NULL) != (n->a.axis == DT_F32))
        die("a constant without values of its type");
    n->type = (DType)n->a.axis;
    n->shape = n->a.shape;
    if (!need_shape(g, n, n->shape))
        return false;
    if (c->n != 1 && c->n != shape_size(n->shape))
        return op_error(g, n, "has %lld values for %s", (long long)c->n,
                        shape_text(g->mem, n->type, n->shape));
    return true;
}

bool
infer_dlogits(Graph *g, Node *n)
{
    n->type = DT_F32;
    n->shape = n->a.shape;
    return need_shape(g, n, n->shape);
}

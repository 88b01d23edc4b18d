// axis.c - how axes of an operation's result stand to axes of its operands.
//
// What sinking a gather or a range of rows through an operation needs to know: if index r of the result's
// axis reads only index r of an operand's axis, choosing indices first and computing then gives the same
// elements by the same arithmetic.

#include "axis.h"

// NumPy broadcasting aligns axes at the end; an operand of extent 1 is read whole.
static int64_t
broadcast_axis(const Node *n, const Node *x, int64_t axis)
{
    int64_t at = axis - (n->shape.rank - x->shape.rank);
    if (at < 0 || (x->shape.dim[at] == 1 && n->shape.dim[axis] != 1))
        return AXIS_NONE;
    return at;
}

static int64_t
product(const Shape *s, int64_t from, int64_t to)
{
    int64_t p = 1;
    for (int64_t k = from; k < to; k++)
        p *= s->dim[k];
    return p;
}

// An axis survives a reshape when as many elements stand before it and its extent stays.
static int64_t
reshape_axis(const Node *n, const Node *x, int64_t axis)
{
    int64_t before = product(&n->shape, 0, axis), extent = n->shape.dim[axis];
    if (shape_size(n->shape) == 0)
        return AXIS_BLOCKED;
    for (int64_t k = 0; k < x->shape.rank; k++)
        if (x->shape.dim[k] == extent && product(&x->shape, 0, k) == before)
            return k;
    return AXIS_BLOCKED;
}

static int64_t
reduced_axis(const Node *n, int64_t axis)
{
    if (n->a.keep) {
        for (int k = 0; k < n->a.n_list; k++)
            if (n->a.list[k] == axis)
                return AXIS_BLOCKED;
        return axis;
    }
    for (int k = 0; k < n->a.n_list; k++)
        if (n->a.list[k] <= axis)
            axis++;
    return axis;
}

static int64_t
matmul_axis(const Node *n, int k, int64_t axis)
{
    int r = n->shape.rank;
    if (axis == r - 1)
        return AXIS_BLOCKED;
    if (axis == r - 2) {
        if (k == 1)
            return AXIS_NONE;
        return n->a.ta ? r - 1 : r - 2;
    }
    return n->in[k]->shape.rank == r ? axis : AXIS_NONE; // a leading axis
}

// ids of rank 1 stand in for the gathered axis, ids of rank 0 drop it.
static int64_t
gather_axis(const Node *n, int k, int64_t axis)
{
    const Node *ids = n->in[1];
    if (ids->shape.rank == 1 && axis == n->a.axis)
        return k == 1 ? 0 : AXIS_NONE;
    if (k == 1)
        return AXIS_NONE;
    return ids->shape.rank == 0 && axis >= n->a.axis ? axis + 1 : axis;
}

int64_t
axis_of_operand(const Node *n, int k, int64_t axis)
{
    const Node *x = n->in[k];
    int r = n->shape.rank;
    if ((op_info[n->op].flags & OPF_POINTWISE) != 0)
        return broadcast_axis(n, x, axis);
    switch (n->op) {
    case OP_EXPAND:
        return broadcast_axis(n, x, axis);
    case OP_RESHAPE:
        return reshape_axis(n, x, axis);
    case OP_PERMUTE:
        return n->a.list[axis];
    case OP_SLICE:
    case OP_CONCAT:
        return axis == n->a.axis ? AXIS_BLOCKED : axis;
    case OP_GATHER:
        return gather_axis(n, k, axis);
    case OP_SUM:
    case OP_MAX:
    case OP_MIN:
    case OP_ANY:
    case OP_ALL:
    case OP_COUNT_TRUE:
        return reduced_axis(n, axis);
    case OP_MATMUL:
        return matmul_axis(n, k, axis);
    case OP_SOFTMAX:
        if (axis == n->a.axis)
            return AXIS_BLOCKED;
        return k == 0 ? axis : broadcast_axis(n, x, axis);
    case OP_NORMALIZE:
        return axis == r - 1 ? AXIS_BLOCKED : axis;
    case OP_ROPE:
        return axis == 0 ? 0 : AXIS_BLOCKED;
    case OP_EMBED:
    case OP_BAG_MEAN:
        if (axis == r - 1)
            return AXIS_BLOCKED;
        return k == 0 ? AXIS_NONE : axis;
    case OP_DROPOUT:
        return axis == 0 && r >= 2 ? 0 : AXIS_BLOCKED;
    default:
        return AXIS_BLOCKED;
    }
}

// ops_attend.c - attention, and the values of its mask.

#include "ops.h"

// Mask references stay inside the operands, and captured tensors are of rank 0 or 1.
static bool
need_mask(Graph *g, const Node *n, const Mask *m, int extra)
{
    if (!m)
        return true;
    if (m->kind == MASK_TENSOR) {
        if (m->value < 3 || m->value + extra >= n->n_in)
            die("mask of '%s' reads operand %lld of %d", op_info[n->op].name,
                (long long)m->value, n->n_in);
        int k = (int)m->value + extra;
        const Node *t = n->in[k];
        if (t->type == DT_F32 || t->shape.rank != m->n_kids)
            return op_error(
                g, n, "needs a mask of booleans and integers of rank 0 or 1, found %s",
                in_text(g, n, k));
        if (shape_size(t->shape) == 0)
            return op_error(g, n, "has a mask that reads an empty %s", in_text(g, n, k));
    }
    if (m->kind == MASK_LIST && m->n_list == 0)
        return op_error(g, n, "has a mask that reads an empty list");
    for (int k = 0; k < m->n_kids; k++)
        if (!need_mask(g, n, m->kid[k], extra))
            return false;
    return true;
}

static bool
need_attention(Graph *g, Node *n, int extra)
{
    for (int k = 0; k < 3 + extra; k++)
        if (!need_type(g, n, k, DT_F32))
            return false;
    Shape q = n->in[0]->shape, key = n->in[1]->shape, v = n->in[2]->shape;
    bool ok = q.rank >= 2 && key.rank == q.rank && shape_equal(key, v) &&
              q.dim[q.rank - 1] == key.dim[q.rank - 1];
    for (int k = 0; ok && k < q.rank - 2; k++)
        ok = q.dim[k] == key.dim[k];
    if (!ok)
        return op_error(g, n,
                        "needs q [.., T, D] and k, v [.., S, D], found %s, %s and %s",
                        in_text(g, n, 0), in_text(g, n, 1), in_text(g, n, 2));
    if (n->a.heads < 1 || q.dim[q.rank - 1] % n->a.heads)
        return op_error(g, n, "cannot cut %s into %lld heads", in_text(g, n, 0),
                        (long long)n->a.heads);
    if (!(n->a.p >= 0 && n->a.p <= 1))
        return op_error(g, n, "needs a dropout from 0 to 1, found %g", n->a.p);
    n->type = DT_F32;
    n->shape = q;
    return need_mask(g, n, n->a.mask, extra);
}

bool
infer_attend(Graph *g, Node *n)
{
    return need_attention(g, n, 0);
}

// A second result of the forward pass.
static Node *
stats_of(Graph *g, Node *n)
{
    Part part = g->part;
    Call *call = g->call;
    g->part = n->part;
    g->call = n->call;
    Node *stats = graph_add(g, OP_PART, &n, 1, (Attr){0}, n->place);
    g->part = part;
    g->call = call;
    return stats;
}

void
grad_attend(Grad *gr, Node *n, Node *dy)
{
    Graph *g = grad_graph(gr);
    Node **in = arena_array(&g->mem->perm, Node *, n->n_in + ATTEND_BACK_EXTRA);
    for (int k = 0; k < 3; k++)
        in[k] = n->in[k];
    in[3] = dy;
    in[4] = n;
    in[5] = stats_of(g, n);
    for (int k = 3; k < n->n_in; k++)
        in[k + ATTEND_BACK_EXTRA] = n->in[k];
    Attr a = n->a;
    a.joined = n->in[1] == n->in[2];
    Node *back =
        graph_add(g, OP_ATTEND_BACK, in, n->n_in + ATTEND_BACK_EXTRA, a, n->place);
    for (int k = 0; k < 3 - a.joined; k++)
        if (grad_wants(gr, n, k))
            grad_add(gr, n, k,
                     graph_add(g, OP_PART, &back, 1, (Attr){.index = k}, n->place));
}

// [.., 2 heads, T]
static Shape
stats_shape(const Node *attend)
{
    Shape s = attend->in[0]->shape;
    s.dim[s.rank - 1] = s.dim[s.rank - 2];
    s.dim[s.rank - 2] = 2 * attend->a.heads;
    return s;
}

// The adjoints of q, k and v behind each other, or of q and of what is both k and v.
bool
infer_attend_back(Graph *g, Node *n)
{
    if (!need_attention(g, n, ATTEND_BACK_EXTRA))
        return false;
    for (int k = 3; k < 5; k++)
        if (!shape_equal(n->in[k]->shape, n->in[0]->shape))
            return op_error(
                g, n, "needs an adjoint and a result of the shape of q, found %s and %s",
                in_text(g, n, 0), in_text(g, n, k));
    if (!shape_equal(n->in[5]->shape, stats_shape(n)))
        return op_error(g, n, "needs stats of %lld heads, found %s",
                        (long long)n->a.heads, in_text(g, n, 5));
    int64_t size =
        shape_size(n->in[0]->shape) + (2 - n->a.joined) * shape_size(n->in[1]->shape);
    n->shape = shape_of(1, &size);
    return true;
}

bool
infer_part(Graph *g, Node *n)
{
    const Node *x = n->in[0];
    bool back = x->op == OP_ATTEND_BACK;
    if (!(back || x->op == OP_ATTEND) || n->a.index < 0 ||
        n->a.index > (back ? 2 - x->a.joined : 0))
        die("part %lld of '%s'", (long long)n->a.index, op_info[x->op].name);
    (void)g;
    n->type = DT_F32;
    n->shape = back ? x->in[n->a.index]->shape : stats_shape(x);
    return true;
}

// ---- masks --------------------------------------------------------------------------

static int64_t
clamped(int64_t k, int64_t n)
{
    return k < 0 ? 0 : k < n ? k : n - 1;
}

static int64_t
floor_div(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t
wrap(MaskKind kind, int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    return (int64_t)(kind == MASK_ADD ? x + y : kind == MASK_SUB ? x - y : x * y);
}

static int64_t
apply(MaskKind kind, int64_t a, int64_t b)
{
    switch (kind) {
    case MASK_ADD:
    case MASK_SUB:
    case MASK_MUL:
        return wrap(kind, a, b);
    case MASK_FLOORDIV:
        return floor_div(a, b);
    case MASK_MOD:
        return b == 0 ? 0 : wrap(MASK_SUB, a, wrap(MASK_MUL, floor_div(a, b), b));
    case MASK_NEG:
        return wrap(MASK_SUB, 0, a);
    case MASK_ABS:
        return a < 0 ? wrap(MASK_SUB, 0, a) : a;
    case MASK_MIN:
        return b < a ? b : a;
    case MASK_MAX:
        return b > a ? b : a;
    case MASK_EQ:
        return a == b;
    case MASK_NE:
        return a != b;
    case MASK_LT:
        return a < b;
    case MASK_LE:
        return a <= b;
    case MASK_GT:
        return a > b;
    case MASK_GE:
        return a >= b;
    case MASK_NOT:
        return !a;
    default:
        die("mask kind %d", (int)kind);
    }
}

int64_t
mask_value(const Mask *m, int64_t i, int64_t j, mask_reader *tensor, void *arg)
{
#define KID(k) mask_value(m->kid[k], i, j, tensor, arg)
    switch (m->kind) {
    case MASK_INT:
        return m->value;
    case MASK_I:
        return i;
    case MASK_J:
        return j;
    case MASK_LIST:
        return m->list[clamped(KID(0), m->n_list)];
    case MASK_TENSOR:
        return tensor(arg, m->value, m->n_kids ? KID(0) : 0);
    case MASK_IF:
        return KID(0) ? KID(1) : KID(2);
    case MASK_AND:
        return KID(0) && KID(1);
    case MASK_OR:
        return KID(0) || KID(1);
    default:
        return apply(m->kind, KID(0), m->n_kids > 1 ? KID(1) : 0);
    }
#undef KID
}

// A value that may be unknown because a captured tensor takes part.
typedef struct Known {
    bool known;
    int64_t v;
} Known;

static Known known_value(const Mask *m, int64_t i, int64_t j);

static Known
known_logic(const Mask *m, int64_t i, int64_t j)
{
    int64_t decides = m->kind == MASK_OR;
    Known a = known_value(m->kid[0], i, j), b = known_value(m->kid[1], i, j);
    if ((a.known && !!a.v == decides) || (b.known && !!b.v == decides))
        return (Known){true, decides};
    return (Known){a.known && b.known, !decides};
}

static Known
known_value(const Mask *m, int64_t i, int64_t j)
{
    switch (m->kind) {
    case MASK_INT:
        return (Known){true, m->value};
    case MASK_I:
        return (Known){true, i};
    case MASK_J:
        return (Known){true, j};
    case MASK_TENSOR:
        return (Known){false, 0};
    case MASK_AND:
    case MASK_OR:
        return known_logic(m, i, j);
    default:
        break;
    }
    Known a = known_value(m->kid[0], i, j);
    if (m->kind == MASK_IF) {
        Known t = known_value(m->kid[1], i, j), e = known_value(m->kid[2], i, j);
        if (a.known)
            return a.v ? t : e;
        return (Known){t.known && e.known && t.v == e.v, t.v};
    }
    if (!a.known)
        return a;
    if (m->kind == MASK_LIST)
        return (Known){true, m->list[clamped(a.v, m->n_list)]};
    Known b = m->n_kids > 1 ? known_value(m->kid[1], i, j) : (Known){true, 0};
    return b.known ? (Known){true, apply(m->kind, a.v, b.v)} : b;
}

int
mask_allows(const Node *n, int64_t i, int64_t j)
{
    if (!n->a.mask)
        return 1;
    Known v = known_value(n->a.mask, i, j);
    return v.known ? v.v != 0 : 2;
}

double
mask_pairs(const Node *n)
{
    Shape q = n->in[0]->shape, k = n->in[1]->shape;
    int64_t T = q.dim[q.rank - 2], S = k.dim[k.rank - 2];
    double batch = 1, pairs = 0;
    for (int d = 0; d < q.rank - 2; d++)
        batch *= (double)q.dim[d];
    for (int64_t i = 0; i < T; i++)
        for (int64_t j = 0; j < S; j++)
            pairs += mask_allows(n, n->a.q_first + i, n->a.k_first + j) != 0;
    return batch * pairs;
}

// Two products of width D over the pairs, and the softmax (five operations a pair and
// head).
double
flops_attend(const Node *n)
{
    double width = (double)row_width(n->in[0]->shape);
    return mask_pairs(n) * (4 * width + 5 * (double)n->a.heads);
}

// Scores again, dP, dV, dQ, dK: five products; and the softmax's gradient.
double
flops_attend_back(const Node *n)
{
    double width = (double)row_width(n->in[0]->shape);
    return mask_pairs(n) * (10 * width + 8 * (double)n->a.heads);
}

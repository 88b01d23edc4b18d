// elab_learn.c - functions of learning: order, softmax, norms, tables, chance, attention.

#include "elab_int.h"

#include <math.h>
#include <string.h>

static const Value poison = {.kind = V_ERROR};

// Argument k as a tensor of a type; NULL after a fault.
static Node *
typed_arg(Elab *e, const Args *a, int k, DType t)
{
    const char *what = arena_printf(&e->mem->perm, "an argument of '%s'", a->b->name);
    return to_typed(e, a->v[k], t, what, a->at[k]);
}

// ---- order ------------------------------------------------------------------------

static Value
b_argsort(Elab *e, const Args *a)
{
    return value_node(elab_emit1(e, OP_ARGSORT, arg_node(e, a, 0), a->place));
}

static Value
b_bucketize(Elab *e, const Args *a)
{
    const List *l;
    Node *x = arg_node(e, a, 0);
    if (!x || !arg_list(e, a, 1, &l) || !count_steps(e, l->n, a->place))
        return poison;
    Const *c = arena_new(&e->mem->perm, Const);
    double *f = arena_array(&e->mem->perm, double, l->n);
    int64_t *i = arena_array(&e->mem->perm, int64_t, l->n);
    for (int k = 0; k < l->n; k++) {
        Value v = l->v[k];
        if (!value_is_number(v))
            return fault(e, a->at[1], "bounds must be numbers, found %s",
                         value_what(e->mem, v));
        if (k > 0 && !(value_number(l->v[k - 1]) <= value_number(v)))
            return fault(e, a->at[1], "bounds must ascend, found %s behind %s",
                         value_text(e->mem, v), value_text(e->mem, l->v[k - 1]));
        f[k] = value_number(v);
        // b < x of an integer x is floor(b) < x.
        i[k] = v.kind == V_INT       ? v.i
               : fabs(f[k]) < 9.2e18 ? (int64_t)floor(f[k])
               : f[k] < 0            ? INT64_MIN
                                     : INT64_MAX;
    }
    c->n = l->n;
    if (x->type == DT_I64)
        c->i = i;
    else
        c->f = f;
    return value_node(elab_emit(e, OP_BUCKETIZE, &x, 1, (Attr){.data = c}, a->place));
}

static Value
b_unique_last(Elab *e, const Args *a)
{
    return value_node(
        elab_emit2(e, OP_UNIQUE_LAST, arg_node(e, a, 0), arg_node(e, a, 1), a->place));
}

// ---- softmax, norms, positions ----------------------------------------------------

static Value
b_softmax(Elab *e, const Args *a)
{
    int axis;
    Node *in[2] = {typed_arg(e, a, 0, DT_F32), NULL};
    if (!in[0] || !arg_axis(e, a, 2, in[0]->shape.rank, -1, &axis))
        return poison;
    int n = 1;
    if (a->has[1] && !(a->v[1].kind == V_BOOL && a->v[1].i)) {
        in[1] = typed_arg(e, a, 1, DT_BOOL);
        n = 2;
    }
    return value_node(elab_emit(e, OP_SOFTMAX, in, n, (Attr){.axis = axis}, a->place));
}

// x normalised over its last axis, times w, plus b, where they are given.
static Value
normalized(Elab *e, const Args *a, bool centre, double epsilon)
{
    Node *x = typed_arg(e, a, 0, DT_F32);
    if (x && x->shape.rank < 1)
        return fault(e, a->place, "'%s' needs an axis, found %s", a->b->name,
                     node_text(e, x));
    Node *y =
        elab_emit(e, OP_NORMALIZE, &x, 1, (Attr){.keep = centre, .p = epsilon}, a->place);
    static const Op ops[] = {OP_MUL, OP_ADD};
    for (int k = 1; k <= 2 && y; k++) {
        if (!a->has[k])
            continue;
        Node *w = typed_arg(e, a, k, DT_F32);
        if (w &&
            (w->shape.rank != 1 || w->shape.dim[0] != x->shape.dim[x->shape.rank - 1]))
            return fault(e, a->at[k],
                         "'%s' of %s needs a weight for each entry of its last axis, "
                         "found %s",
                         a->b->name, node_text(e, x), node_text(e, w));
        y = elab_emit2(e, ops[k - 1], y, w, a->place);
    }
    return value_node(y);
}

static Value
b_layer_norm(Elab *e, const Args *a)
{
    return normalized(e, a, true, 1e-5);
}

static Value
b_rms_norm(Elab *e, const Args *a)
{
    return normalized(e, a, false, 1e-6);
}

static Value
b_rope(Elab *e, const Args *a)
{
    Attr attr = {0};
    if (!arg_int(e, a, 2, &attr.heads) || !arg_number(e, a, 3, &attr.p))
        return poison;
    if (!(attr.p > 0))
        return fault(e, a->at[3], "the base of 'rope' must be above 0, found %s",
                     value_text(e->mem, a->v[3]));
    if (a->has[4]) {
        bool text = a->v[4].kind == V_STR;
        attr.adjacent = text && strcmp(a->v[4].s, "adjacent") == 0;
        if (!attr.adjacent && !(text && strcmp(a->v[4].s, "halves") == 0))
            return fault(e, a->at[4],
                         "'pairs' must be \"halves\" or \"adjacent\", found %s",
                         value_what(e->mem, a->v[4]));
    }
    Node *in[2] = {typed_arg(e, a, 0, DT_F32), typed_arg(e, a, 1, DT_I64)};
    return value_node(elab_emit(e, OP_ROPE, in, 2, attr, a->place));
}

// ---- tables -----------------------------------------------------------------------

static Value
lookup(Elab *e, const Args *a, Op op)
{
    Node *in[2] = {typed_arg(e, a, 0, DT_F32), NULL};
    in[1] = a->v[1].kind == V_INT ? const_node(e, a->v[1], DT_I64, a->at[1])
                                  : arg_node(e, a, 1);
    if (in[1] && in[1]->type != DT_I64)
        return fault(e, a->at[1], "'%s' needs i64 ids, found %s", a->b->name,
                     node_text(e, in[1]));
    return value_node(elab_emit(e, op, in, 2, (Attr){0}, a->place));
}

static Value
b_embed(Elab *e, const Args *a)
{
    return lookup(e, a, OP_EMBED);
}

static Value
b_embed_bag_mean(Elab *e, const Args *a)
{
    return lookup(e, a, OP_BAG_MEAN);
}

// ---- chance -----------------------------------------------------------------------

static bool
arg_probability(Elab *e, const Args *a, int k, double *p)
{
    if (!arg_number(e, a, k, p))
        return false;
    if (*p >= 0 && *p <= 1)
        return true;
    fault(e, a->at[k], "a probability lies between 0 and 1, found %s",
          value_text(e->mem, a->v[k]));
    return false;
}

// Elements between two rows.
static int64_t
row_pitch(Shape s)
{
    int64_t n = 1;
    for (int k = 1; k < s.rank; k++)
        n *= s.dim[k];
    return n;
}

static int
new_site(Elab *e)
{
    return e->g ? ++e->g->n_sites : 0;
}

// Every call is a site, also one that never drops: numbers do not depend on p.
static Value
b_dropout(Elab *e, const Args *a)
{
    Attr attr = {0};
    Node *x = typed_arg(e, a, 0, DT_F32);
    if (!x || !arg_probability(e, a, 1, &attr.p))
        return poison;
    attr.site = new_site(e);
    attr.pitch = row_pitch(x->shape);
    if (attr.p == 0)
        return value_node(x);
    return value_node(elab_emit(e, OP_DROPOUT, &x, 1, attr, a->place));
}

static Value
b_chance(Elab *e, const Args *a)
{
    Attr attr = {0};
    if (!arg_shape(e, a, 0, &attr.shape) || !arg_probability(e, a, 1, &attr.p))
        return poison;
    attr.site = new_site(e);
    attr.pitch = row_pitch(attr.shape);
    return value_node(elab_emit(e, OP_CHANCE, NULL, 0, attr, a->place));
}

// ---- attention --------------------------------------------------------------------

static bool
attend_operands(Elab *e, const Args *a, Node **in)
{
    for (int k = 0; k < 3; k++) {
        in[k] = typed_arg(e, a, k, DT_F32);
        if (!in[k])
            return false;
        if (in[k]->shape.rank < 2) {
            fault(e, a->at[k], "'attend' needs [.., T, D], found %s",
                  node_text(e, in[k]));
            return false;
        }
    }
    return true;
}

static Value
b_attend(Elab *e, const Args *a)
{
    Attr attr = {0};
    Node *qkv[3];
    if (!attend_operands(e, a, qkv) || !arg_int(e, a, 3, &attr.heads) ||
        (a->has[4] && !arg_probability(e, a, 4, &attr.p)))
        return poison;
    if (a->has[4])
        attr.site = new_site(e);
    attr.q_rows = qkv[0]->shape.dim[qkv[0]->shape.rank - 2];
    attr.k_rows = qkv[1]->shape.dim[qkv[1]->shape.rank - 2];
    MaskBuild b = {.q_rows = attr.q_rows, .k_rows = attr.k_rows, .first = 3};
    bool ok = true;
    if (a->has[5])
        attr.mask = mask_build(e, &b, a->v[5], a->at[5], &ok);
    if (!ok)
        return poison;
    int n = 3 + b.captured.n;
    Node **in = arena_array(&e->mem->perm, Node *, n);
    memcpy(in, qkv, sizeof qkv);
    for (int k = 0; k < b.captured.n; k++)
        in[3 + k] = b.captured.v[k];
    if (attr.p == 0)
        attr.site = 0;
    return value_node(elab_emit(e, OP_ATTEND, in, n, attr, a->place));
}

const HandlerRow learn_handlers[] = {
    {"argsort", b_argsort},
    {"bucketize", b_bucketize},
    {"unique_last", b_unique_last},
    {"softmax", b_softmax},
    {"layer_norm", b_layer_norm},
    {"rms_norm", b_rms_norm},
    {"rope", b_rope},
    {"embed", b_embed},
    {"embed_bag_mean", b_embed_bag_mean},
    {"dropout", b_dropout},
    {"chance", b_chance},
    {"attend", b_attend},
    {NULL, NULL},
};

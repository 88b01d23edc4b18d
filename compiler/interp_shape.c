// interp_shape.c - moves, gathers and reductions.

#include "interp_eval.h"

#include <math.h>
#include <string.h>

void
copy_strided(uint64_t *dst, Shape s, const uint64_t *src, const int64_t *stride)
{
    int64_t index[MAX_RANK] = {0}, size = shape_size(s);
    int64_t inner = s.rank ? s.dim[s.rank - 1] : 1;
    int64_t step = s.rank ? stride[s.rank - 1] : 0;
    for (int64_t at = 0; at < size; at += inner) {
        const uint64_t *row = src;
        for (int k = 0; k + 1 < s.rank; k++)
            row += index[k] * stride[k];
        for (int64_t c = 0; c < inner; c++)
            dst[at + c] = row[c * step];
        for (int k = s.rank - 2; k >= 0 && ++index[k] == s.dim[k]; k--)
            index[k] = 0;
    }
}

const Tensor *
in_as_out(Interp *it, const Node *n, int k)
{
    const Node *x = n->in[k];
    if (shape_equal(x->shape, n->shape))
        return in(it, n, k);
    int64_t stride[MAX_RANK];
    Tensor *t = arena_new(&it->scratch, Tensor);
    t->size = shape_size(n->shape);
    t->u = arena_array(&it->scratch, uint64_t, t->size);
    shape_strides(x->shape, n->shape, stride);
    copy_strided(t->u, n->shape, in(it, n, k)->u, stride);
    return t;
}

void
eval_reshape(Interp *it, const Node *n)
{
    Tensor *y = out(it, n);
    if (y->size)
        memcpy(y->u, in(it, n, 0)->u, (size_t)y->size * sizeof *y->u);
}

void
eval_permute(Interp *it, const Node *n)
{
    int64_t from[MAX_RANK], stride[MAX_RANK];
    Shape s = n->in[0]->shape;
    int64_t step = 1;
    for (int k = s.rank - 1; k >= 0; k--) {
        from[k] = step;
        step *= s.dim[k];
    }
    for (int k = 0; k < s.rank; k++)
        stride[k] = from[n->a.list[k]];
    copy_strided(out(it, n)->u, n->shape, in(it, n, 0)->u, stride);
}

void
eval_expand(Interp *it, const Node *n)
{
    int64_t stride[MAX_RANK];
    shape_strides(n->in[0]->shape, n->shape, stride);
    copy_strided(out(it, n)->u, n->shape, in(it, n, 0)->u, stride);
}

// Copies `count` positions of an axis, from position a of src to position b of dst.
static void
copy_axis(uint64_t *dst, AxisView d, int64_t b, const uint64_t *src, AxisView s,
          int64_t a, int64_t count)
{
    size_t bytes = (size_t)(count * s.inner) * sizeof *dst;
    for (int64_t o = 0; o < s.outer && bytes; o++)
        memcpy(dst + (o * d.length + b) * d.inner, src + (o * s.length + a) * s.inner,
               bytes);
}

void
eval_slice(Interp *it, const Node *n)
{
    int axis = (int)n->a.axis;
    copy_axis(out(it, n)->u, axis_view(n->shape, axis), 0, in(it, n, 0)->u,
              axis_view(n->in[0]->shape, axis), n->a.start, n->a.count);
}

void
eval_pad(Interp *it, const Node *n)
{
    int axis = (int)n->a.axis;
    copy_axis(out(it, n)->u, axis_view(n->shape, axis), n->a.start, in(it, n, 0)->u,
              axis_view(n->in[0]->shape, axis), 0, n->in[0]->shape.dim[axis]);
}

void
eval_concat(Interp *it, const Node *n)
{
    int axis = (int)n->a.axis;
    int64_t at = 0;
    for (int k = 0; k < n->n_in; k++) {
        int64_t count = n->in[k]->shape.dim[axis];
        copy_axis(out(it, n)->u, axis_view(n->shape, axis), at, in(it, n, k)->u,
                  axis_view(n->in[k]->shape, axis), 0, count);
        at += count;
    }
}

void
eval_gather(Interp *it, const Node *n)
{
    AxisView s = axis_view(n->in[0]->shape, (int)n->a.axis), d = s;
    const Tensor *ids = in(it, n, 1);
    d.length = ids->size;
    for (int64_t k = 0; k < ids->size; k++)
        copy_axis(out(it, n)->u, d, k, in(it, n, 0)->u, s,
                  clamp_index(ids->i[k], s.length), 1);
}

void
eval_scatter_add(Interp *it, const Node *n)
{
    AxisView d = axis_view(n->shape, (int)n->a.axis);
    const Tensor *ids = in(it, n, 1);
    for (int64_t o = 0; o < d.outer && d.length; o++)
        for (int64_t k = 0; k < ids->size; k++) {
            const double *x = in(it, n, 0)->f + (o * ids->size + k) * d.inner;
            int64_t at = clamp_index(ids->i[k], d.length);
            double *y = out(it, n)->f + (o * d.length + at) * d.inner;
            for (int64_t c = 0; c < d.inner; c++)
                y[c] += x[c];
        }
}

// ---- reductions ---------------------------------------------------------------------

// Walks the operand's elements in C order with the place of the result and the position
// over the listed axes.
typedef struct Fold {
    const Node *n;
    Shape s;
    int64_t to[MAX_RANK], along[MAX_RANK], index[MAX_RANK];
    int64_t place, position;
} Fold;

static Fold
fold_begin(const Node *n)
{
    Fold f = {.n = n, .s = n->in[0]->shape};
    int64_t to = 1, along = 1;
    for (int k = f.s.rank - 1; k >= 0; k--) {
        bool listed = false;
        for (int i = 0; i < n->a.n_list; i++)
            listed = listed || n->a.list[i] == k;
        f.to[k] = listed ? 0 : to;
        f.along[k] = listed ? along : 0;
        *(listed ? &along : &to) *= f.s.dim[k];
    }
    return f;
}

static void
fold_next(Fold *f)
{
    for (int k = f->s.rank - 1; k >= 0; k--) {
        f->place += f->to[k];
        f->position += f->along[k];
        if (++f->index[k] < f->s.dim[k])
            return;
        f->index[k] = 0;
        f->place -= f->to[k] * f->s.dim[k];
        f->position -= f->along[k] * f->s.dim[k];
    }
}

// Over each element: x the element, y the place of the result, first whether it is the
// first there.
#define FOLD(name, field, result, statement)                                             \
    static void name(Interp *it, const Node *n)                                          \
    {                                                                                    \
        const Tensor *t = in(it, n, 0);                                                  \
        Fold f = fold_begin(n);                                                          \
        for (int64_t k = 0; k < t->size; k++, fold_next(&f)) {                           \
            __typeof__(*t->field) x = t->field[k];                                       \
            __typeof__(*t->result) *y = &out(it, n)->result[f.place];                    \
            bool first = f.position == 0;                                                \
            (void)first;                                                                 \
            statement;                                                                   \
        }                                                                                \
    }

FOLD(sum_f32, f, f, *y += x)
FOLD(sum_i64, i, i, *y = (int64_t)((uint64_t)*y + (uint64_t)x))
FOLD(max_f32, f, f, if (first || x > *y) *y = x)
FOLD(max_i64, i, i, if (first || x > *y) *y = x)
FOLD(min_f32, f, f, if (first || x < *y) *y = x)
FOLD(min_i64, i, i, if (first || x < *y) *y = x)
FOLD(any_bool, i, i, *y = *y || x)
FOLD(none_bool, i, i, *y = *y || !x)
FOLD(count_bool, i, i, *y += x != 0)

void
eval_sum(Interp *it, const Node *n)
{
    (n->type == DT_F32 ? sum_f32 : sum_i64)(it, n);
}

void
eval_max(Interp *it, const Node *n)
{
    (n->type == DT_F32 ? max_f32 : max_i64)(it, n);
}

void
eval_min(Interp *it, const Node *n)
{
    (n->type == DT_F32 ? min_f32 : min_i64)(it, n);
}

void
eval_any(Interp *it, const Node *n)
{
    any_bool(it, n);
}

void
eval_all(Interp *it, const Node *n)
{
    none_bool(it, n);
    for (int64_t k = 0; k < out(it, n)->size; k++)
        out(it, n)->i[k] = !out(it, n)->i[k];
}

void
eval_count(Interp *it, const Node *n)
{
    count_bool(it, n);
}

void
eval_argmax(Interp *it, const Node *n)
{
    const Tensor *t = in(it, n, 0);
    Tensor *y = out(it, n);
    int64_t *best =
        arena_array(&it->scratch, int64_t, y->size); // element of the largest so far
    bool f32 = n->in[0]->type == DT_F32;
    Fold f = fold_begin(n);
    for (int64_t k = 0; k < t->size; k++, fold_next(&f)) {
        int64_t b = best[f.place];
        if (f.position == 0 || (f32 ? t->f[k] > t->f[b] : t->i[k] > t->i[b])) {
            best[f.place] = k;
            y->i[f.place] = f.position;
        }
    }
}

// view.c - strided windows of buffers: slicing, permuting, broadcasting and reshaping without a copy.

#include "tile.h"

#include <string.h>

static void
view_unit_strides(View *v)
{
    for (int i = 0; i < v->rank; i++)
        if (v->dim[i] == 1)
            v->stride[i] = 0;
}

View
view_whole(Buf *b, Shape s)
{
    View v = {.buf = b, .rank = s.rank};
    int64_t step = 1;
    for (int i = s.rank - 1; i >= 0; i--) {
        v.dim[i] = s.dim[i];
        v.stride[i] = step;
        step *= s.dim[i];
    }
    view_unit_strides(&v);
    return v;
}

View
view_slice(View v, int axis, int64_t start, int64_t count)
{
    v.first += start * v.stride[axis];
    v.dim[axis] = count;
    view_unit_strides(&v);
    return v;
}

View
view_permute(View v, const int64_t *order)
{
    View p = v;
    for (int i = 0; i < v.rank; i++) {
        p.dim[i] = v.dim[order[i]];
        p.stride[i] = v.stride[order[i]];
    }
    return p;
}

bool
view_equal(const View *a, const View *b)
{
    size_t n = (size_t)a->rank * sizeof *a->dim;
    return a->buf == b->buf && a->first == b->first && a->rank == b->rank &&
           memcmp(a->dim, b->dim, n) == 0 && memcmp(a->stride, b->stride, n) == 0;
}

int64_t
view_last(const View *v)
{
    int64_t to = v->first;
    for (int k = 0; k < v->rank; k++)
        to += (v->dim[k] - 1) * v->stride[k];
    return to;
}

View
view_expand(View v, Shape s)
{
    View e = {.buf = v.buf, .first = v.first, .rank = s.rank};
    int skip = s.rank - v.rank;
    for (int i = 0; i < s.rank; i++) {
        e.dim[i] = s.dim[i];
        if (i >= skip && v.dim[i - skip] == s.dim[i])
            e.stride[i] = v.stride[i - skip];
    }
    return e;
}

Shape
view_shape(const View *v)
{
    return shape_of(v->rank, v->dim);
}

int64_t
view_size(const View *v)
{
    return shape_size(view_shape(v));
}

bool
view_contiguous(const View *v)
{
    int64_t step = 1;
    if (view_size(v) == 0)
        return true;
    for (int i = v->rank - 1; i >= 0; i--) {
        if (v->dim[i] != 1 && v->stride[i] != step)
            return false;
        step *= v->dim[i];
    }
    return true;
}

// Runs of axes with equal element counts on both sides must be evenly spaced on the old side.
bool
view_reshape(View v, Shape s, View *out)
{
    View r = view_whole(v.buf, s);
    r.first = v.first;
    if (view_size(&v) == 0 || view_contiguous(&v)) {
        *out = r;
        return true;
    }
    View o = {0}; // the old axes without those of extent 1
    for (int i = 0; i < v.rank; i++) {
        if (v.dim[i] == 1)
            continue;
        o.dim[o.rank] = v.dim[i];
        o.stride[o.rank++] = v.stride[i];
    }
    int oi = 0, ni = 0;
    while (oi < o.rank || ni < s.rank) {
        int oj = oi, nj = ni;
        int64_t a = 1, b = 1;
        do {
            if (a <= b && oj < o.rank)
                a *= o.dim[oj++];
            else if (nj < s.rank)
                b *= s.dim[nj++];
            else
                return false;
        } while (a != b);
        for (int k = oi; k + 1 < oj; k++)
            if (o.stride[k] != o.stride[k + 1] * o.dim[k + 1])
                return false;
        int64_t step = oj > oi ? o.stride[oj - 1] : 0;
        for (int k = nj - 1; k >= ni; k--) {
            r.stride[k] = step;
            step *= s.dim[k];
        }
        oi = oj;
        ni = nj;
    }
    view_unit_strides(&r);
    *out = r;
    return true;
}

static bool
axes_merge(View **v, int n, const bool *marks, int axis)
{
    if (marks && marks[axis] != marks[axis + 1])
        return false;
    for (int i = 0; i < n; i++)
        if (v[i]->stride[axis] != v[i]->stride[axis + 1] * v[i]->dim[axis + 1])
            return false;
    return true;
}

static void
axis_drop(View **v, int n, bool *marks, int axis)
{
    for (int i = 0; i < n; i++) {
        for (int k = axis; k + 1 < v[i]->rank; k++) {
            v[i]->dim[k] = v[i]->dim[k + 1];
            v[i]->stride[k] = v[i]->stride[k + 1];
        }
        v[i]->rank--;
    }
    if (marks)
        for (int k = axis; k + 1 < MAX_RANK; k++)
            marks[k] = marks[k + 1];
}

void
view_collapse(View **v, int n, bool *marks)
{
    for (int axis = 0; axis < v[0]->rank && v[0]->rank > 1;) {
        if (v[0]->dim[axis] == 1)
            axis_drop(v, n, marks, axis);
        else
            axis++;
    }
    for (int axis = 0; axis + 1 < v[0]->rank;) {
        if (!axes_merge(v, n, marks, axis)) {
            axis++;
            continue;
        }
        for (int i = 0; i < n; i++) {
            v[i]->dim[axis + 1] *= v[i]->dim[axis];
        }
        axis_drop(v, n, marks, axis);
        axis = axis > 0 ? axis - 1 : 0;
    }
    for (int i = 0; i < n && v[0]->rank == 0; i++) {
        v[i]->dim[0] = 1;
        v[i]->stride[0] = 0;
    }
    if (v[0]->rank == 0)
        for (int i = 0; i < n; i++)
            v[i]->rank = 1;
}

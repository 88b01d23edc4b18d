// shape.c - shapes: sizes, comparison, broadcasting, text.

#include "graph.h"

int64_t
shape_size(Shape s)
{
    int64_t n = 1;
    for (int k = 0; k < s.rank; k++)
        n *= s.dim[k];
    return n;
}

bool
shape_equal(Shape a, Shape b)
{
    if (a.rank != b.rank)
        return false;
    for (int k = 0; k < a.rank; k++)
        if (a.dim[k] != b.dim[k])
            return false;
    return true;
}

Shape
shape_of(int rank, const int64_t *dim)
{
    Shape s = {.rank = rank};
    for (int k = 0; k < rank; k++)
        s.dim[k] = dim[k];
    return s;
}

bool
shape_broadcast(Shape a, Shape b, Shape *out)
{
    Shape s = {.rank = a.rank > b.rank ? a.rank : b.rank};
    for (int k = 1; k <= s.rank; k++) {
        int64_t da = k <= a.rank ? a.dim[a.rank - k] : 1;
        int64_t db = k <= b.rank ? b.dim[b.rank - k] : 1;
        if (da != db && da != 1 && db != 1)
            return false;
        s.dim[s.rank - k] = da == 1 ? db : da;
    }
    *out = s;
    return true;
}

void
shape_strides(Shape s, Shape out, int64_t *stride)
{
    int64_t step = 1;
    for (int k = 1; k <= out.rank; k++) {
        int64_t d = k <= s.rank ? s.dim[s.rank - k] : 1;
        stride[out.rank - k] = d == 1 ? 0 : step;
        step *= d;
    }
}

const char *
dtype_name(DType t)
{
    static const char *const name[] = {"f32", "i64", "bool"};
    return name[t];
}

const char *
shape_text(Mem *mem, DType type, Shape s)
{
    Text t = {0};
    text_add(&mem->perm, &t, "%s[", dtype_name(type));
    for (int k = 0; k < s.rank; k++)
        text_add(&mem->perm, &t, k ? ", %lld" : "%lld", (long long)s.dim[k]);
    text_add(&mem->perm, &t, "]");
    return t.v;
}

size_t
node_bytes(const Node *n)
{
    static const size_t width[] = {4, 8, 1};
    return (size_t)shape_size(n->shape) * width[n->type];
}

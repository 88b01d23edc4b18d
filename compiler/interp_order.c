// interp_order.c - sorting, bucketing, the last of equal events.

#include "interp_eval.h"

#include <stdlib.h>

typedef struct Item {
    double f;
    int64_t i, at;
} Item;

// Ascending, equal ones in the order they had.
static int
by_value(const void *a, const void *b)
{
    const Item *x = a, *y = b;
    if (x->f < y->f || x->f > y->f)
        return x->f < y->f ? -1 : 1;
    if (x->i != y->i)
        return x->i < y->i ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

void
eval_argsort(Interp *it, const Node *n)
{
    Tensor *y = out(it, n);
    Item *item = arena_array(&it->scratch, Item, y->size);
    for (int64_t k = 0; k < y->size; k++) {
        item[k].at = k;
        if (n->in[0]->type == DT_F32)
            item[k].f = in(it, n, 0)->f[k];
        else
            item[k].i = in(it, n, 0)->i[k];
    }
    if (y->size)
        qsort(item, (size_t)y->size, sizeof *item, by_value);
    for (int64_t k = 0; k < y->size; k++)
        y->i[k] = item[k].at;
}

void
eval_bucketize(Interp *it, const Node *n)
{
    const Const *c = n->a.data;
    Tensor *y = out(it, n);
    for (int64_t k = 0; k < y->size; k++)
        for (int64_t b = 0; b < c->n; b++)
            y->i[k] += c->f ? (double)(float)c->f[b] < in(it, n, 0)->f[k]
                            : c->i[b] < in(it, n, 0)->i[k];
}

static bool
equal_events(const int64_t *events, int64_t F, int64_t L, int64_t a, int64_t b)
{
    for (int64_t f = 0; f < F; f++)
        if (events[f * L + a] != events[f * L + b])
            return false;
    return true;
}

void
eval_unique_last(Interp *it, const Node *n)
{
    int64_t F = n->in[0]->shape.dim[0], L = n->in[0]->shape.dim[1];
    const int64_t *events = in(it, n, 0)->i, *active = in(it, n, 1)->i;
    for (int64_t k = 0; k < L; k++) {
        bool last = active[k];
        for (int64_t later = k + 1; last && later < L; later++)
            last = !(active[later] && equal_events(events, F, L, k, later));
        out(it, n)->i[k] = last;
    }
}

// finish.c - the end of a step: lanes are added to parameter gradients.
//
// Dense: for each element, the lanes' accumulators of a use are summed as a fixed binary
// tree (lane l gets lane l + 1, then l + 2, l + 4, ...), and the uses of a parameter are
// added in their order, from zero. Tables: rows of all lanes' stores, lane by lane and
// store by store, are sorted by row and added in that order; those of a projected table
// then become the table's and the weight's (project.c). Which thread does an element changes
// nothing.

#include <string.h>

#include "runner.h"

enum { LEVELS = 14 }; // of the tree of 4096 lanes, and one to spare
enum {
    BLOCK = 512
}; // floats of a block: all levels of the tree stay in the first-level cache

// Four floats anywhere in memory.
typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

// out = a + b
static void
add(float *restrict out, const float *restrict a, const float *restrict b, int64_t n)
{
    int64_t k = 0;
    for (; k + 4 <= n; k += 4)
        *(Four *)(out + k) = *(const Four *)(a + k) + *(const Four *)(b + k);
    for (; k < n; k++)
        out[k] = a[k] + b[k];
}

// x += a
static void
gain(float *restrict x, const float *restrict a, int64_t n)
{
    int64_t k = 0;
    for (; k + 4 <= n; k += 4)
        *(Four *)(x + k) += *(const Four *)(a + k);
    for (; k < n; k++)
        x[k] += a[k];
}

enum { EIGHT = 8 };

// The tree over eight lanes, all in one pass: they lie far away, and are read side by side.
static void
sum_eight(float *restrict out, const PcvrLane *lane, int64_t at, int64_t n)
{
    const float *x[EIGHT];
    int64_t k = 0;
    for (int l = 0; l < EIGHT; l++)
        x[l] = lane[l].acc + at;
#define AT(l) *(const Four *)(x[l] + k)
    for (; k + 4 <= n; k += 4)
        *(Four *)(out + k) =
            ((AT(0) + AT(1)) + (AT(2) + AT(3))) + ((AT(4) + AT(5)) + (AT(6) + AT(7)));
#undef AT
    for (; k < n; k++)
        out[k] = ((x[0][k] + x[1][k]) + (x[2][k] + x[3][k])) +
                 ((x[4][k] + x[5][k]) + (x[6][k] + x[7][k]));
}

// Sum of floats [at, at + n) of the accumulators of lanes [first, first + width), width a
// power of two, those past the last lane left out. It lies in the lane itself where it is
// but one, else in `room`, which holds BLOCK floats for each level.
static const float *
tree_sum(const pcvr_runner *r, int64_t first, int64_t width, int64_t at, int64_t n,
         float *room)
{
    if (width == 1)
        return r->lanes[first].acc + at;
    if (width == EIGHT && first + EIGHT <= r->z.o.lanes) {
        sum_eight(room, r->lanes + first, at, n);
        return room;
    }
    int64_t half = width / 2;
    const float *left = tree_sum(r, first, half, at, n, room + BLOCK);
    if (first + half >= r->z.o.lanes)
        return left;
    if (left != room + BLOCK) { // a lane's own memory
        add(room, left, tree_sum(r, first + half, half, at, n, room + BLOCK), n);
        return room;
    }
    memcpy(room, left, (size_t)n * sizeof *room);
    gain(room, tree_sum(r, first + half, half, at, n, room + BLOCK), n);
    return room;
}

// Elements [first, end) of a parameter's gradient gain what one row of a use adds to them.
static void
row_add(pcvr_runner *r, const pcvr_use *u, int64_t row, int64_t first, int64_t end)
{
    float room[BLOCK * LEVELS];
    float *grad = r->grads[u->param];
    int64_t start = u->first + row * u->step, offset = u->offset + row * u->pitch;
    int64_t from = first > start ? first : start;
    int64_t to = end < start + u->size ? end : start + u->size;
    int64_t width = 1;
    while (width < r->z.o.lanes)
        width *= 2;
    while (from < to) {
        int64_t n = to - from < BLOCK ? to - from : BLOCK;
        gain(grad + from, tree_sum(r, 0, width, offset + from - start, n, room), n);
        from += n;
    }
}

static void
use_add(pcvr_runner *r, const pcvr_use *u, int64_t first, int64_t end)
{
    for (int64_t k = 0; k < u->rows || k == 0; k++)
        row_add(r, u, k, first, end);
}

enum { STRETCH = 8192 }; // floats of a gradient that stay near while uses are added

static void
stretch_add(pcvr_runner *r, int p, int64_t from, int64_t to)
{
    memset(r->grads[p] + from, 0, (size_t)(to - from) * sizeof(float));
    for (int u = 0; u < r->m->n_uses; u++)
        if (r->m->uses[u].param == p)
            use_add(r, &r->m->uses[u], from, to);
}

// The thread's share of all dense gradient elements, counted over the parameters in
// order.
static void
finish_dense(pcvr_runner *r, int thread)
{
    const pcvr_module *m = r->m;
    int64_t total = r->z.grad_bytes / 4, first, end, at = 0;
    pcvr_lane_bounds(total / 16, r->z.o.threads, thread, &first, &end);
    first *= 16;
    end *= 16;
    for (int p = 0; p < m->n_params; p++) {
        if (r->grads[p] == NULL)
            continue;
        int64_t size = m->params[p].size, lines = pcvr_line_floats(size);
        int64_t from = first > at ? first - at : 0;
        int64_t to = end - at < size ? end - at : size;
        at += lines;
        if (from >= to)
            continue;
        for (int64_t k = from; k < to; k += STRETCH)
            stretch_add(r, p, k, k + STRETCH < to ? k + STRETCH : to);
    }
}

static void
finish_table(pcvr_runner *r, int p, const PcvrWorker *w)
{
    const pcvr_module *m = r->m;
    pcvr_sparse *out = &r->rows[p];
    bool padding = (m->params[p].flags & PCVR_PARAM_PADDING) != 0;
    int64_t n = 0;
    if (out->ids == NULL)
        return;
    out->squares = 0.0;
    for (int l = 0; l < r->z.o.lanes; l++)
        for (int k = 0; k < m->n_stores; k++)
            if (m->stores[k].param == p) {
                n = pcvr_rows_list(&r->lanes[l].stores[k], padding, w->touched, n);
                out->squares += r->lanes[l].stores[k].squares;
            }
    const pcvr_projection *j = pcvr_table_projection(m, p);
    out->n = pcvr_rows_merge(w->touched, w->room, n, j ? j->width : out->width,
                             (int64_t *)out->ids,
                             j ? r->projected[p] : (float *)out->values);
}

static void
finish_thread(void *arg, int thread)
{
    pcvr_runner *r = arg;
    finish_dense(r, thread);
    int tables = 0;
    for (int p = 0; p < r->m->n_params; p++)
        if (r->rows[p].ids != NULL && tables++ % r->z.o.threads == thread)
            finish_table(r, p, &r->workers[thread]);
}

void
pcvr_finish(pcvr_runner *r)
{
    pcvr_pool_run(r->pool, finish_thread, r);
    pcvr_project_back(r);
}

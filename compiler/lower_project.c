// lower_project.c - statements of projected tables and of parts of parameters.
//
// Both are values of parameters alone: they stand among the packed weights, and the
// module's `project` makes them once a step. Equal ones, as the forward pass and
// recomputation have them, share a buffer.

#include "tile.h"

#include "pcvr.h"

#include <string.h>

// ---- parts of parameters ------------------------------------------------------------

static bool
same_part(const Node *a, const Node *b)
{
    return a->in[0]->a.index == b->in[0]->a.index && a->a.axis == b->a.axis &&
           a->a.n_list == b->a.n_list &&
           memcmp(a->a.list, b->a.list, (size_t)a->a.n_list * sizeof *a->a.list) == 0;
}

static Buf *
taken_buf(Tiles *t, const Node *n, bool swapped)
{
    for (int i = 0; i < t->taken.n; i++)
        if (t->taken.v[i].swapped == swapped && same_part(t->taken.v[i].node, n))
            return t->taken.v[i].buf;
    Buf *b = buf_new(t, SP_PACKED, DT_F32, shape_size(n->shape), NULL);
    array_push(&t->mem->perm, &t->taken, ((Taken){n, swapped, b}));
    return b;
}

View
taken_value(Tiles *t, Node *n)
{
    return view_whole(taken_buf(t, n, false), n->shape);
}

View
taken_swapped(Tiles *t, View v)
{
    for (int i = 0; v.rank == 2 && i < t->taken.n; i++) {
        const Taken *k = &t->taken.v[i];
        if (k->buf != v.buf || k->swapped || v.first != 0 || k->node->shape.rank != 2 ||
            v.dim[0] != k->node->shape.dim[1] || v.dim[1] != k->node->shape.dim[0])
            continue;
        return view_whole(taken_buf(t, k->node, true), view_shape(&v));
    }
    return v;
}

// The accumulator holds the part; each range of it is added to its place in the
// parameter.
void
lower_take_uses(Tiles *t, const Node *n, Buf *b)
{
    Shape whole = t->g->params[n->a.index].shape;
    int axis = (int)n->a.axis;
    int64_t outer = 1, inner = 1, before = 0;
    for (int k = 0; k < whole.rank; k++)
        *(k < axis ? &outer : &inner) *= k == axis ? 1 : whole.dim[k];
    for (int k = 0; k < n->a.n_list; k += 2) {
        Use u = {(int)n->a.index,
                 n->a.list[k] * inner,
                 n->a.list[k + 1] * inner,
                 b,
                 outer,
                 whole.dim[axis] * inner,
                 n->shape.dim[axis] * inner,
                 before * inner};
        array_push(&t->mem->perm, &t->uses, u);
        before += n->a.list[k + 1];
    }
}

// ---- projected tables ---------------------------------------------------------------

// The number of the projection of a table by the rows of a weight from `first` on.
static int
projection_of(Tiles *t, const Node *table, const Node *weight, int64_t first, bool tb)
{
    for (int i = 0; i < t->projections.n; i++) {
        const Projection *p = &t->projections.v[i];
        if (p->table == table->a.index) {
            if (p->weight != weight->a.index || p->first != first || p->tb != tb)
                die("a table is projected in two ways");
            return i;
        }
    }
    Shape s = weight->shape;
    Projection p = {
        .table = (int)table->a.index,
        .weight = (int)weight->a.index,
        .rows = table->shape.dim[0],
        .depth = table->shape.dim[1],
        .first = first,
        .pitch = s.dim[s.rank - (tb ? 1 : 2)],
        .width = s.dim[s.rank - (tb ? 2 : 1)],
        .columns = s.rank == 3 ? s.dim[0] : 1,
        .tb = tb,
    };
    p.buf = buf_new(t, SP_PACKED, DT_F32, p.rows * p.width, NULL);
    array_push(&t->mem->perm, &t->projections, p);
    return t->projections.n - 1;
}

static Shape
rows_of(Shape s)
{
    int64_t cols = s.dim[s.rank - 1];
    return (Shape){.rank = 2, .dim = {shape_size(s) / (cols ? cols : 1), cols}};
}

void
lower_projected(Tiles *t, Node *n)
{
    int tables = n->a.n_list;
    bool more = n->n_in % 2 == 0;
    if (shape_size(n->shape) == 0)
        return;
    View *in = arena_array(&t->mem->scratch, View, 2 * tables + 1);
    int first = -1;
    for (int k = 0; k < tables; k++) {
        int p = projection_of(t, n->in[1 + 2 * k], n->in[0], n->a.list[k], n->a.tb);
        const Projection *q = &t->projections.v[p];
        first = first < 0 ? p : first;
        in[k] = view_whole(q->buf, (Shape){.rank = 2, .dim = {q->rows, q->width}});
        in[tables + k] = node_vector(t, n->in[2 + 2 * k]);
    }
    if (more)
        in[2 * tables] = node_matrix(t, n->in[n->n_in - 1]);
    View out = out_begin(t, n, rows_of(n->shape));
    Stmt *s = stmt_new(t, ST_PROJECTED, n, 2 * tables + more);
    memcpy(s->in, in, (size_t)(2 * tables + more) * sizeof *in);
    s->projection = first;
    s->out[0] = out;
    out_end(t, n, out);
}

void
lower_acc_projected(Tiles *t, Node *n)
{
    if (shape_size(n->in[0]->shape) == 0)
        return;
    int p = projection_of(t, n->in[2], n->in[3], n->a.start, n->a.tb);
    View dy = node_matrix(t, n->in[0]), ids = node_vector(t, n->in[1]);
    Stmt *s = stmt_new(t, ST_ROWS_PROJECTED, n, 2);
    s->n_out = 0;
    s->in[0] = dy;
    s->in[1] = ids;
    s->projection = p;
    s->store = store_new(t, (int)n->a.index, shape_size(n->in[1]->shape), p + 1);
}

// ---- data of the module -------------------------------------------------------------

pcvr_projection *
tiles_projections(const Tiles *t)
{
    pcvr_projection *list =
        arena_array(&t->mem->perm, pcvr_projection, t->projections.n + 1);
    for (int i = 0; i < t->projections.n; i++) {
        const Projection *p = &t->projections.v[i];
        list[i] = (pcvr_projection){
            .table = p->table,
            .weight = p->weight,
            .rows = p->rows,
            .depth = p->depth,
            .first = p->first,
            .pitch = p->pitch,
            .width = p->width,
            .columns = p->columns,
            .offset = p->buf->offset,
            .transposed = p->tb,
            .padding = t->g->params[p->table].padding,
        };
    }
    return list;
}

double
tiles_step_flops(const Tiles *t)
{
    double flops = 0;
    for (int i = 0; i < t->projections.n; i++) {
        const Projection *p = &t->projections.v[i];
        flops += 3 * 2.0 * (double)p->rows * (double)p->depth * (double)p->width;
    }
    return flops;
}

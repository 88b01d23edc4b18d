// emit_project.c - projected tables in the C text: their data, lookups, row stores, and
// the functions that make them and their gradients.

#include "emit.h"

#include "pcvr.h"

static int64_t
row_step(const View *v)
{
    return v->rank >= 2 ? v->stride[v->rank - 2] : 0;
}

void
emit_projected(Emit *e, const Stmt *s)
{
    const View *y = &s->out[0];
    int tables = s->node->a.n_list;
    bool more = s->n_in > 2 * tables;
    put(e, "{\n    const k_projected_rows rows[] = {\n");
    for (int k = 0; k < tables; k++)
        put(e, "        {%p, %$, %p, %D},\n", &s->in[k], s->in[k].dim[0],
            &s->in[tables + k], s->in[tables + k].stride[0]);
    put(e, "    };\n    k_projected(%D, %D, %d, rows, ", y->dim[0], y->dim[1], tables);
    if (more)
        put(e, "%p, %D, ", &s->in[2 * tables], row_step(&s->in[2 * tables]));
    else
        put(e, "NULL, 0, ");
    put(e, "%p, %D);\n}\n", y, row_step(y));
}

// Rows are numbered through all columns, so that a row tells its column.
void
emit_rows_projected(Emit *e, const Stmt *s)
{
    const View *dy = &s->in[0], *ids = &s->in[1];
    const Projection *p = &e->t->projections.v[s->projection];
    put(e, "k_store_projected(x, &projections[%$], %D, ", (int64_t)s->projection,
        dy->dim[0]);
    if (!e->strip)
        put(e, "0");
    else if (e->strip->outer > 1)
        put(e, "%D * o0 + r0", e->strip->rows);
    else
        put(e, "r0");
    put(e, ", %D, %p, %D, %p, %D, &x->stores[%$]);\n",
        shape_size(s->node->in[1]->shape) / p->columns, dy, row_step(dy), ids,
        ids->stride[0], (int64_t)s->store);
}

#define ADD(...)                                                                         \
    print_lines(&e->mem->scratch, out, arena_printf(&e->mem->scratch, __VA_ARGS__), 0)

void
emit_projections(Emit *e, Text *out)
{
    const Tiles *t = e->t;
    const pcvr_projection *list = tiles_projections(t);
    if (t->projections.n == 0)
        return;
    ADD("// Tables multiplied with their rows of a weight once a step: table, weight, "
        "rows, depth, first,\n"
        "// pitch, width, columns, offset, transposed, padding.\n"
        "static const pcvr_projection projections[] = {\n");
    for (int i = 0; i < t->projections.n; i++) {
        const pcvr_projection *p = &list[i];
        ADD("    // %s by %s\n",
            text_comment(&e->mem->scratch, t->g->params[p->table].name),
            text_comment(&e->mem->scratch, t->g->params[p->weight].name));
        ADD("    {%d, %d, %lld, %lld, %lld, %lld, %lld, %lld, %lld, %d, %d},\n", p->table,
            p->weight, (long long)p->rows, (long long)p->depth, (long long)p->first,
            (long long)p->pitch, (long long)p->width, (long long)p->columns,
            (long long)p->offset, p->transposed, p->padding);
    }
    ADD("};\n\n");
}

// Each range of a part is copied by itself.
static void
emit_taken(Emit *e, const Taken *k)
{
    Shape whole = k->node->in[0]->shape, part = k->node->shape;
    int axis = (int)k->node->a.axis;
    int64_t outer = 1, inner = 1, before = 0;
    for (int i = 0; i < whole.rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : whole.dim[i];
    for (int i = 0; i < k->node->a.n_list; i += 2) {
        int64_t start = k->node->a.list[i], count = k->node->a.list[i + 1];
        Stmt none = {0};
        // rows of the exchanged copy are columns of the part, columns its rows
        int64_t rows = axis == 1 ? part.dim[0] : count,
                cols = axis == 1 ? count : part.dim[1];
        int64_t at = axis == 1 ? before * part.dim[0] : before;
        if (k->swapped)
            put(e, "k_transpose(%D, %D, x->params[%$] + %$, %D, w + %$, %D);\n", rows,
                cols, k->node->in[0]->a.index, start * inner, whole.dim[1],
                k->buf->offset + at, part.dim[0]);
        else
            put(e, "k_copy(%D, %D, x->params[%$] + %$, %D, w + %$, %D);\n", outer,
                count * inner, k->node->in[0]->a.index, start * inner,
                whole.dim[axis] * inner, k->buf->offset + before * inner,
                part.dim[axis] * inner);
        put_end(e, &none);
        before += count;
    }
}

void
emit_project(Emit *e, Text *out)
{
    const Tiles *t = e->t;
    if (t->projections.n == 0)
        return;
    e->pieces.n = 0;
    e->bases = 0;
    for (int i = 0; i < t->taken.n; i++)
        if (t->taken.v[i].buf->first >= 0)
            emit_taken(e, &t->taken.v[i]);
    ADD("// Tables by weights: part x->first of x->count. Parts of weights are the first "
        "part's.\n"
        "static void\nproject(const pcvr_ctx *x)\n{\n    float *const w = x->packed;\n\n"
        "    for (int i = 0; i < %d; i++)\n        k_project(x, &projections[i]);\n"
        "    if (x->first != 0)\n        return;\n",
        t->projections.n);
    print_pieces(e, e->pieces.v, e->pieces.n, 4, out);
    ADD("    (void)w;\n}\n\n");
    ADD("static void\nproject_back(const pcvr_projection *p, const pcvr_back *b)\n{\n"
        "    k_project_back(p, b);\n}\n\n");
}

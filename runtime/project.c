// project.c - projected tables: made once a step, and their gradients taken apart.
//
// The threads share the rows when a step begins. When it ends, each takes whole columns
// of projections: a column's rows of the table and its part of the weight are its own, so
// that which thread does it changes nothing.

#include "runner.h"

const char *
pcvr_projections_fault(const pcvr_module *m)
{
    for (int k = 0; k < m->n_projections; k++) {
        const pcvr_projection *p = &m->projections[k];
        if (p->table < 0 || p->table >= m->n_params || p->weight < 0 ||
            p->weight >= m->n_params || !(m->params[p->table].flags & PCVR_PARAM_TABLE) ||
            (m->params[p->weight].flags & PCVR_PARAM_TABLE))
            return "a projection has no table or no weight";
        bool fits = p->columns >= 1 && p->rows >= 1 && p->depth >= 0 && p->first >= 0 &&
                    p->rows * p->depth == m->params[p->table].size &&
                    p->columns * p->pitch * p->width == m->params[p->weight].size &&
                    p->first + p->depth <= p->pitch && p->offset >= 0 &&
                    p->offset + p->rows * p->width <= m->packed_floats;
        if (!fits)
            return "a projection lies outside its parameters or the packed weights";
        if (pcvr_table_projection(m, p->table) != p)
            return "a table is projected twice";
    }
    for (int k = 0; k < m->n_stores; k++) {
        int j = m->stores[k].projection;
        if (j < 0 || j > m->n_projections ||
            pcvr_store_projection(m, k) != pcvr_table_projection(m, m->stores[k].param))
            return "a row store is not that of its table's projection";
    }
    if (m->n_projections > 0 && (m->project == NULL || m->project_back == NULL))
        return "projections without functions for them";
    return NULL;
}

static void
project_thread(void *arg, int thread)
{
    pcvr_runner *r = arg;
    pcvr_ctx c = {
        .params = (const float *const *)r->params,
        .packed = r->packed,
        .first = thread,
        .count = r->z.o.threads,
    };
    r->m->project(&c);
}

void
pcvr_project(pcvr_runner *r)
{
    if (r->m->project != NULL)
        pcvr_pool_run(r->pool, project_thread, r);
}

static void
back_thread(void *arg, int thread)
{
    pcvr_runner *r = arg;
    const pcvr_module *m = r->m;
    int64_t unit = 0;
    for (int k = 0; k < m->n_projections; k++) {
        const pcvr_projection *p = &m->projections[k];
        const pcvr_sparse *rows = &r->rows[p->table];
        for (int64_t column = 0; column < p->columns; column++, unit++) {
            if (unit % r->z.o.threads != thread || r->projected[p->table] == NULL)
                continue;
            m->project_back(p, &(pcvr_back){
                                   .table = r->params[p->table],
                                   .weight = r->params[p->weight],
                                   .n = rows->n,
                                   .ids = rows->ids,
                                   .rows = r->projected[p->table],
                                   .dtable = (float *)rows->values,
                                   .dweight = r->grads[p->weight],
                                   .column = column,
                               });
        }
    }
}

void
pcvr_project_back(pcvr_runner *r)
{
    if (r->m->n_projections > 0)
        pcvr_pool_run(r->pool, back_thread, r);
}

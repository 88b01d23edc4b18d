// sizes.c - how many bytes a runner needs, known before it exists.

#include <string.h>

#include "runner.h"

enum { DEFAULT_LANES = 8, FEWER_LANES = 4, LANE_SAMPLES = 8, MAX_LANES = 4096 };

int64_t
pcvr_raw_bytes(const pcvr_layout *l, int64_t batch)
{
    // Ids with their missing flags, floats with theirs, request time and label.
    int64_t n =
        9 * (l->user_ints + l->item_ints) + 5 * (l->user_dense + l->item_dense) + 16;
    for (int d = 0; d < l->n_domains; d++)
        n += 8 * (l->domains[d].length * (l->domains[d].features + 1) + 1);
    return n * batch;
}

int64_t
pcvr_store_capacity(const pcvr_module *m, int store, int64_t lane_max)
{
    const pcvr_store_info *s = &m->stores[store];
    int64_t rows = m->params[s->param].shape[0], ids = s->ids_per_sample * lane_max;
    return ids < rows ? ids : rows;
}

int64_t
pcvr_table_touched(const pcvr_module *m, int param, const PcvrSizes *z)
{
    int64_t n = 0;
    for (int k = 0; k < m->n_stores; k++)
        if (m->stores[k].param == param)
            n += z->o.lanes * pcvr_store_capacity(m, k, z->lane_max);
    return n;
}

// Row stores of a lane, the merged rows, the longest list to sort.
static void
store_sizes(const pcvr_module *m, PcvrSizes *z)
{
    for (int k = 0; k < m->n_stores; k++) {
        int64_t capacity = pcvr_store_capacity(m, k, z->lane_max);
        int64_t width = pcvr_store_width(m, k);
        z->store_bytes += pcvr_lines(capacity * 8) + pcvr_lines(capacity * width * 4) +
                          pcvr_lines(pcvr_rows_slots(capacity) * 4);
    }
    for (int p = 0; p < m->n_params; p++) {
        int64_t touched = pcvr_table_touched(m, p, z), rows = touched;
        if (rows > m->params[p].shape[0])
            rows = m->params[p].shape[0];
        if (touched == 0)
            continue;
        z->merged_bytes +=
            pcvr_lines(rows * 8) + pcvr_lines(rows * pcvr_table_width(&m->params[p]) * 4);
        const pcvr_projection *j = pcvr_table_projection(m, p);
        if (j != NULL)
            z->merged_bytes += pcvr_lines(rows * j->width * 4);
        if (touched > z->sort_entries)
            z->sort_entries = touched;
    }
}

// Each lane has gradients of its own, which are read and written once a chunk: with few samples that is worth
// fewer lanes, as long as some threads have work. Threads have no say in it: sums depend on the lanes.
static int
default_lanes(int64_t batch, bool forward_only)
{
    const int64_t full = batch / LANE_SAMPLES;
    if (forward_only || full >= DEFAULT_LANES)
        return DEFAULT_LANES;
    return full > FEWER_LANES ? (int)full : FEWER_LANES;
}

bool
pcvr_sizes(const pcvr_module *m, int64_t batch, const pcvr_options *o, PcvrSizes *z)
{
    static const pcvr_options defaults;
    *z = (PcvrSizes){.o = o != NULL ? *o : defaults, .batch = batch};
    if (batch < 0 || batch > INT32_MAX || z->o.lanes < 0 || z->o.lanes > MAX_LANES ||
        z->o.threads < 0 || z->o.chunk < PCVR_CHUNK_BATCH || z->o.poison_from < 0)
        return false;
    if (z->o.lanes == 0)
        z->o.lanes = default_lanes(batch, z->o.forward_only);
    if (z->o.threads == 0)
        z->o.threads = pcvr_default_threads();
    if (z->o.threads > z->o.lanes)
        z->o.threads = z->o.lanes;
    z->lane_max = (batch + z->o.lanes - 1) / z->o.lanes;
    z->whole = z->o.chunk == PCVR_CHUNK_BATCH;
    if (z->o.chunk == 0)
        z->o.chunk = m->default_chunk > 0 ? m->default_chunk : 8;
    if (z->whole || z->o.chunk > z->lane_max)
        z->o.chunk = z->lane_max > 0 ? z->lane_max : 1;
    z->records = z->whole ? batch : z->o.chunk;
    z->buffers = z->whole ? 1 : z->o.threads;
    z->raw_bytes = pcvr_raw_bytes(&m->layout, batch);
    for (int p = 0; p < m->n_params; p++) {
        int64_t bytes = pcvr_lines(m->params[p].size * 4);
        z->param_bytes += bytes;
        if (!z->o.forward_only && !(m->params[p].flags & PCVR_PARAM_TABLE))
            z->grad_bytes += bytes;
    }
    z->packed_bytes = pcvr_lines(m->packed_floats * 4);
    z->scratch_bytes = z->o.forward_only ? m->forward_scratch_bytes : m->scratch_bytes;
    if (z->o.forward_only)
        return true;
    z->dlogits_bytes = pcvr_lines(batch * m->actions * 4);
    z->acc_bytes = pcvr_lines(m->acc_floats * 4);
    store_sizes(m, z);
    return true;
}

void
pcvr_sizes_plan(const pcvr_module *m, const PcvrSizes *z, pcvr_plan *out)
{
    int64_t kept = z->o.forward_only ? 0 : m->kept_bytes;
    *out = (pcvr_plan){
        .batch = z->batch,
        .chunk = z->o.chunk,
        .lanes = z->o.lanes,
        .threads = z->o.threads,
        .parameter_bytes = z->param_bytes + z->packed_bytes,
        .gradient_bytes = z->grad_bytes + z->dlogits_bytes + z->o.lanes * z->acc_bytes,
        .row_store_bytes =
            z->o.lanes * z->store_bytes + z->merged_bytes +
            2 * z->o.threads * pcvr_lines(z->sort_entries * (int64_t)sizeof(PcvrTouched)),
        .input_bytes = z->raw_bytes + (z->o.poison ? pcvr_lines(z->raw_bytes) : 0) +
                       z->buffers * pcvr_lines(z->records * m->input_bytes),
        .activation_bytes = z->buffers * pcvr_lines(z->records * kept) +
                            z->o.threads * pcvr_lines(z->scratch_bytes),
        .kept_bytes_per_sample = kept,
    };
    out->planned_peak_bytes = out->parameter_bytes + out->gradient_bytes +
                              out->row_store_bytes + out->input_bytes +
                              out->activation_bytes;
}

int
pcvr_plan_bytes(const pcvr_module *m, int64_t batch, const pcvr_options *o,
                pcvr_plan *out)
{
    PcvrSizes z;
    if (!pcvr_sizes(m, batch, o, &z))
        return PCVR_EINVAL;
    pcvr_sizes_plan(m, &z, out);
    return PCVR_OK;
}

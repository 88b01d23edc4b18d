// runner.c - a runner's buffers: made once, for batches up to a size, so that no step
// allocates.

#include "runner.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int fail(char *err, size_t err_size, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int
fail(char *err, size_t err_size, int code, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    if (err != NULL && err_size > 0)
        vsnprintf(err, err_size, format, ap);
    va_end(ap);
    return code;
}

double
pcvr_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// A module is checked where a fault of the compiler would make the runtime write outside
// its buffers.
static int
check_module(const pcvr_module *m, char *err, size_t err_size)
{
    if (m->abi != PCVR_ABI)
        return fail(err, err_size, PCVR_EABI,
                    "module %s has ABI %u, this runtime has %u: "
                    "compile the model again",
                    m->name, m->abi, PCVR_ABI);
    if (!pcvr_isa_supported(m->isa))
        return fail(err, err_size, PCVR_EISA,
                    "module %s needs the instruction set %s, which "
                    "this CPU lacks",
                    m->name, m->isa);
    if (m->input_bytes % PCVR_LINE != 0 || m->kept_bytes % PCVR_LINE != 0)
        return fail(err, err_size, PCVR_EFORMAT,
                    "module %s: a record of %" PRId64 " or %" PRId64
                    " bytes is no multiple of 64",
                    m->name, m->input_bytes, m->kept_bytes);
    for (int u = 0; u < m->n_uses; u++) {
        const pcvr_use *use = &m->uses[u];
        bool known = use->param >= 0 && use->param < m->n_params;
        int64_t more = use->rows > 1 ? use->rows - 1 : 0;
        if (!known || use->first < 0 || use->size < 0 || use->offset < 0 ||
            (more > 0 && (use->step < use->size || use->pitch < use->size)) ||
            use->first + use->size + more * use->step > m->params[use->param].size ||
            use->offset + use->size + more * use->pitch > m->acc_floats)
            return fail(err, err_size, PCVR_EFORMAT,
                        "module %s: accumulator %d lies outside its "
                        "parameter or the accumulators",
                        m->name, u);
        if (m->params[use->param].flags & PCVR_PARAM_TABLE)
            return fail(err, err_size, PCVR_EFORMAT,
                        "module %s: table %s has a dense accumulator", m->name,
                        m->params[use->param].name);
    }
    if (m->acc_fresh < 0 || m->acc_fresh > m->acc_floats)
        return fail(err, err_size, PCVR_EFORMAT,
                    "module %s: %" PRId64 " of %" PRId64 " accumulators are fresh",
                    m->name, m->acc_fresh, m->acc_floats);
    for (int k = 0; k < m->n_stores; k++) {
        int p = m->stores[k].param;
        if (p < 0 || p >= m->n_params || !(m->params[p].flags & PCVR_PARAM_TABLE) ||
            m->params[p].shape[0] >= UINT32_MAX)
            return fail(err, err_size, PCVR_EFORMAT,
                        "module %s: row store %d has no table", m->name, k);
    }
    const char *fault = pcvr_projections_fault(m);
    if (fault != NULL)
        return fail(err, err_size, PCVR_EFORMAT, "module %s: %s", m->name, fault);
    return PCVR_OK;
}

// Takes n bytes, rounded up to lines, from a running position in a buffer.
static void *
carve(unsigned char **at, int64_t n)
{
    void *p = *at;
    *at += pcvr_lines(n);
    return p;
}

static bool
params_new(pcvr_runner *r)
{
    const pcvr_module *m = r->m;
    unsigned char *at =
        pcvr_arena_alloc(&r->arena, "parameters", r->z.param_bytes, false);
    r->packed = pcvr_arena_alloc(&r->arena, "packed weights", r->z.packed_bytes, false);
    r->params = calloc((size_t)m->n_params + 1, sizeof *r->params);
    r->grads = calloc((size_t)m->n_params + 1, sizeof *r->grads);
    r->rows = calloc((size_t)m->n_params + 1, sizeof *r->rows);
    r->projected = calloc((size_t)m->n_params + 1, sizeof *r->projected);
    if (at == NULL || r->packed == NULL || !r->params || !r->grads || !r->rows ||
        !r->projected)
        return false;
    for (int p = 0; p < m->n_params; p++) {
        r->params[p] = carve(&at, m->params[p].size * 4);
        if (m->params[p].flags & PCVR_PARAM_TABLE)
            r->rows[p].width = pcvr_table_width(&m->params[p]);
    }
    return true;
}

static bool
grads_new(pcvr_runner *r)
{
    const pcvr_module *m = r->m;
    unsigned char *at = pcvr_arena_alloc(&r->arena, "gradients", r->z.grad_bytes, false);
    r->dlogits =
        pcvr_arena_alloc(&r->arena, "gradient of logits", r->z.dlogits_bytes, false);
    unsigned char *rows =
        pcvr_arena_alloc(&r->arena, "merged rows", r->z.merged_bytes, false);
    if (at == NULL || r->dlogits == NULL || rows == NULL)
        return false;
    for (int p = 0; p < m->n_params; p++) {
        if (!(m->params[p].flags & PCVR_PARAM_TABLE)) {
            r->grads[p] = carve(&at, m->params[p].size * 4);
            continue;
        }
        int64_t n = pcvr_table_touched(m, p, &r->z);
        if (n == 0)
            continue;
        n = n < m->params[p].shape[0] ? n : m->params[p].shape[0];
        r->rows[p].ids = carve(&rows, n * 8);
        r->rows[p].values = carve(&rows, n * r->rows[p].width * 4);
        const pcvr_projection *j = pcvr_table_projection(m, p);
        if (j != NULL)
            r->projected[p] = carve(&rows, n * j->width * 4);
    }
    return true;
}

static bool
lanes_new(pcvr_runner *r)
{
    const pcvr_module *m = r->m;
    size_t lanes = (size_t)r->z.o.lanes;
    r->lanes = calloc(lanes, sizeof *r->lanes);
    r->stores = calloc(lanes * (size_t)m->n_stores + 1, sizeof *r->stores);
    if (r->lanes == NULL || r->stores == NULL)
        return false;
    if (r->z.o.forward_only)
        return true;
    for (size_t l = 0; l < lanes; l++) {
        PcvrLane *lane = &r->lanes[l];
        lane->stores = r->stores + l * (size_t)m->n_stores;
        lane->acc = pcvr_arena_alloc(&r->arena, "accumulators", r->z.acc_bytes, false);
        unsigned char *at =
            pcvr_arena_alloc(&r->arena, "row stores", r->z.store_bytes, false);
        if (lane->acc == NULL || at == NULL)
            return false;
        for (int k = 0; k < m->n_stores; k++) {
            pcvr_rows *s = &lane->stores[k];
            s->capacity = pcvr_store_capacity(m, k, r->z.lane_max);
            s->width = pcvr_store_width(m, k);
            s->n_slots = pcvr_rows_slots(s->capacity);
            s->ids = carve(&at, s->capacity * 8);
            s->values = carve(&at, s->capacity * s->width * 4);
            s->slots = carve(&at, s->n_slots * 4);
        }
    }
    return true;
}

static bool
workers_new(pcvr_runner *r)
{
    const pcvr_module *m = r->m;
    const PcvrSizes *z = &r->z;
    r->workers = calloc((size_t)z->o.threads, sizeof *r->workers);
    r->clocks =
        calloc((size_t)z->o.threads * (size_t)m->n_regions + 1, sizeof *r->clocks);
    if (r->workers == NULL || r->clocks == NULL)
        return false;
    int64_t kept = z->o.forward_only ? 0 : z->records * m->kept_bytes;
    int64_t sort = z->sort_entries * (int64_t)sizeof(PcvrTouched);
    for (int t = 0; t < z->o.threads; t++) {
        PcvrWorker *w = &r->workers[t];
        if (t < z->buffers) {
            w->inputs = pcvr_arena_alloc(&r->arena, "gathered inputs",
                                         z->records * m->input_bytes, true);
            w->kept = pcvr_arena_alloc(&r->arena, "kept values", kept, true);
        } else {
            w->inputs = r->workers[0].inputs;
            w->kept = r->workers[0].kept;
        }
        w->scratch = pcvr_arena_alloc(&r->arena, "scratch", z->scratch_bytes, true);
        w->touched = pcvr_arena_alloc(&r->arena, "touched rows", sort, false);
        w->room = pcvr_arena_alloc(&r->arena, "sorted rows", sort, false);
        if (!w->inputs || !w->kept || !w->scratch || !w->touched || !w->room)
            return false;
        w->seconds = r->clocks + (size_t)t * (size_t)m->n_regions;
    }
    return true;
}

int
pcvr_runner_new(const pcvr_module *m, int64_t max_batch, const pcvr_options *o,
                pcvr_runner **out, char *err, size_t err_size)
{
    *out = NULL;
    int rc = check_module(m, err, err_size);
    if (rc != PCVR_OK)
        return rc;
    pcvr_runner *r = calloc(1, sizeof *r);
    if (r == NULL)
        return fail(err, err_size, PCVR_ENOMEM, "out of memory");
    r->m = m;
    if (!pcvr_sizes(m, max_batch, o, &r->z)) {
        free(r);
        return fail(err, err_size, PCVR_EINVAL,
                    "batch, lanes, threads or chunk out of range");
    }
    pcvr_sizes_plan(m, &r->z, &r->plan);
    bool ok = params_new(r) && (r->z.o.forward_only || grads_new(r)) && lanes_new(r) &&
              workers_new(r) && (!r->z.o.poison || pcvr_poison_new(r));
    if (!ok) {
        double mib = (double)r->plan.planned_peak_bytes / 1048576.0;
        pcvr_runner_free(r);
        return fail(err, err_size, PCVR_ENOMEM,
                    "out of memory: batch %" PRId64 " needs %.1f MiB; "
                    "take a smaller batch or chunk",
                    max_batch, mib);
    }
    r->pool = pcvr_pool_new(r->z.o.threads);
    if (r->pool == NULL) {
        int threads = r->z.o.threads;
        pcvr_runner_free(r);
        return fail(err, err_size, PCVR_ENOMEM, "cannot start %d threads", threads);
    }
    *out = r;
    return PCVR_OK;
}

void
pcvr_runner_free(pcvr_runner *r)
{
    if (r == NULL)
        return;
    pcvr_pool_free(r->pool);
    pcvr_arena_free(&r->arena);
    free(r->lanes);
    free(r->workers);
    free(r->stores);
    free(r->params);
    free(r->grads);
    free(r->rows);
    free(r->projected);
    free(r->clocks);
    free(r->poisoned_domains);
    free(r->poison_ids);
    free(r);
}

float *
pcvr_runner_param(pcvr_runner *r, int i)
{
    return r->params[i];
}

const float *
pcvr_runner_grad(const pcvr_runner *r, int i)
{
    return r->grads[i];
}

pcvr_sparse
pcvr_runner_rows(const pcvr_runner *r, int i)
{
    return r->rows[i];
}

const pcvr_plan *
pcvr_runner_plan(const pcvr_runner *r)
{
    return &r->plan;
}

int64_t
pcvr_runner_measured(const pcvr_runner *r)
{
    return pcvr_arena_measured(&r->arena) + r->raw_high;
}

const char *
pcvr_runner_overrun(const pcvr_runner *r)
{
    return pcvr_arena_overrun(&r->arena);
}

void
pcvr_runner_run(pcvr_runner *r, void (*fn)(void *arg, int thread), void *arg)
{
    pcvr_pool_run(r->pool, fn, arg);
}

void
pcvr_runner_times(const pcvr_runner *r, double *seconds)
{
    for (int k = 0; k < PCVR_TIMES; k++) {
        seconds[k] = k == PCVR_TIME_SUMS ? r->summing : 0.0;
        for (int t = 0; t < r->z.o.threads; t++)
            seconds[k] += r->workers[t].times[k] / (double)r->z.o.threads;
    }
}

void
pcvr_runner_clocks(pcvr_runner *r, bool on)
{
    r->z.o.clock = on;
}

void
pcvr_runner_clock(pcvr_runner *r, double *seconds)
{
    for (int g = 0; g < r->m->n_regions; g++)
        seconds[g] = 0.0;
    for (int t = 0; t < r->z.o.threads; t++) {
        for (int g = 0; g < r->m->n_regions; g++) {
            seconds[g] += r->workers[t].seconds[g];
            r->workers[t].seconds[g] = 0.0;
        }
    }
}

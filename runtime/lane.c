// lane.c - walks the lanes of a batch: a thread takes a run of lanes, a lane its chunks
// in order.

#include <string.h>

#include "runner.h"

// Every byte set: NaN as a float, -1 as an integer.
static void
poison_fill(unsigned char *p, int64_t n)
{
    memset(p, 0xff, (size_t)n);
}

// What the lane's first chunk writes is left as it is, or poisoned; all is cleared where no
// sample will come.
static void
lane_clear(const pcvr_runner *r, PcvrLane *lane)
{
    bool empty = lane->first == lane->end;
    size_t fresh = (size_t)(empty ? 0 : r->m->acc_fresh) * sizeof(float);
    size_t old = (size_t)r->m->acc_floats * sizeof(float) - fresh;
    memset(lane->acc, 0, old);
    if (r->z.o.poison)
        poison_fill((unsigned char *)lane->acc + old, (int64_t)fresh);
    for (int k = 0; k < r->m->n_stores; k++)
        pcvr_rows_clear(&lane->stores[k]);
}

// Adds the seconds since *from to a part of the step's time.
static void
note(double *times, int part, double *from)
{
    double now = pcvr_now();
    times[part] += now - *from;
    *from = now;
}

// One chunk of a lane: samples c->first .. c->first + c->count.
static int
walk_chunk(const pcvr_runner *r, const PcvrWalk *w, pcvr_ctx *c, double *times)
{
    double from = pcvr_now();
    const pcvr_module *m = r->m;
    bool poison = r->z.o.poison;
    if (w->what & PCVR_WALK_GATHER) {
        if (poison) {
            poison_fill(c->inputs, c->count * m->input_bytes);
            poison_fill(c->scratch, r->z.scratch_bytes);
        }
        int rc = m->gather_inputs(c);
        if (rc != PCVR_OK)
            return rc;
        note(times, PCVR_TIME_INPUTS, &from);
    }
    if (w->what & (PCVR_WALK_FORWARD | PCVR_WALK_KEEP)) {
        if (poison) {
            poison_fill(c->scratch, r->z.scratch_bytes);
            poison_fill(c->kept, c->kept != NULL ? c->count * m->kept_bytes : 0);
        }
        if (w->what & PCVR_WALK_KEEP)
            m->forward_keep(c);
        else
            m->forward(c);
        note(times, PCVR_TIME_REGIONS, &from);
    }
    if (w->what & PCVR_WALK_LOSS) {
        w->loss(w->loss_arg, c->first, c->count, w->logits, r->dlogits);
        note(times, PCVR_TIME_LOSS, &from);
    }
    if (w->what & PCVR_WALK_BACKWARD) {
        if (poison)
            poison_fill(c->scratch, r->z.scratch_bytes);
        m->backward(c);
        note(times, PCVR_TIME_REGIONS, &from);
    }
    return PCVR_OK;
}

static void
walk_lane(pcvr_runner *r, const PcvrWalk *w, PcvrLane *lane, PcvrWorker *own)
{
    double untimed[PCVR_TIMES] = {0}, *times = w->timed ? own->times : untimed;
    const pcvr_module *m = r->m;
    pcvr_ctx c = {
        .params = (const float *const *)r->params,
        .packed = r->packed,
        .batch = w->batch,
        .scratch = own->scratch,
        .acc = lane->acc,
        .stores = lane->stores,
        .logits = w->logits,
        .dlogits = r->dlogits,
        .embeddings = w->embeddings,
        .seed = w->seed,
        .step = w->step,
        .training = w->training,
        .norms = r->z.o.norms,
        .clock = r->z.o.clock ? own->seconds : NULL,
    };
    double from = pcvr_now();
    if (w->what & PCVR_WALK_CLEAR)
        lane_clear(r, lane);
    note(times, PCVR_TIME_SUMS, &from);
    int64_t chunk = r->z.whole ? lane->end - lane->first : r->z.o.chunk;
    for (int64_t at = lane->first; at < lane->end && lane->status == PCVR_OK;
         at += chunk) {
        int64_t record = r->z.whole ? at : 0;
        c.first = at;
        c.fresh = at == lane->first;
        c.count = lane->end - at < chunk ? lane->end - at : chunk;
        c.inputs = own->inputs + record * m->input_bytes;
        c.kept = r->z.o.forward_only ? NULL : own->kept + record * m->kept_bytes;
        lane->status = walk_chunk(r, w, &c, times);
    }
}

static void
walk_thread(void *arg, int thread)
{
    pcvr_runner *r = arg;
    int64_t lanes = r->z.o.lanes, first, end;
    pcvr_lane_bounds(lanes, r->z.o.threads, thread, &first, &end);
    for (int64_t l = first; l < end; l++)
        walk_lane(r, &r->walk, &r->lanes[l], &r->workers[thread]);
}

int
pcvr_walk(pcvr_runner *r, const PcvrWalk *w)
{
    int64_t lanes = r->z.o.lanes;
    for (int64_t l = 0; l < lanes; l++) {
        PcvrLane *lane = &r->lanes[l];
        pcvr_lane_bounds(w->batch->size, lanes, l, &lane->first, &lane->end);
        lane->status = PCVR_OK;
    }
    r->walk = *w;
    pcvr_pool_run(r->pool, walk_thread, r);
    for (int64_t l = 0; l < lanes; l++)
        if (r->lanes[l].status != PCVR_OK)
            return r->lanes[l].status;
    return PCVR_OK;
}

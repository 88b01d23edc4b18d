// step.c - a forward pass, a training step.
//
// A loss of single samples runs chunk by chunk between forward and backward. A loss that
// couples the batch, and the mode in which the whole batch is kept, run it once between
// two walks.

#include "runner.h"

static void
prepare_thread(void *arg, int thread)
{
    const pcvr_runner *r = arg;
    pcvr_ctx c = {.params = (const float *const *)r->params,
                  .packed = r->packed,
                  .first = thread,
                  .count = r->z.o.threads};
    r->m->prepare(&c);
}

void
pcvr_runner_prepare(pcvr_runner *r)
{
    if (r->m->prepare != NULL)
        pcvr_pool_run(r->pool, prepare_thread, r);
    pcvr_project(r);
}

// Checks a batch and notes its bytes; what is to be read of it, or NULL.
static const pcvr_batch *
batch_take(pcvr_runner *r, const pcvr_batch *b)
{
    if (b->size < 0 || b->size > r->z.batch || b->n_domains != r->m->layout.n_domains)
        return NULL;
    int64_t bytes = pcvr_raw_bytes(&r->m->layout, b->size);
    if (bytes > r->raw_high)
        r->raw_high = bytes;
    return r->z.o.poison ? pcvr_poison_batch(r, b) : b;
}

int
pcvr_runner_forward(pcvr_runner *r, const pcvr_batch *b, float *logits, float *embeddings)
{
    const pcvr_batch *batch = batch_take(r, b);
    if (batch == NULL)
        return PCVR_EINVAL;
    return pcvr_walk(r, &(PcvrWalk){
                            .what = PCVR_WALK_GATHER | PCVR_WALK_FORWARD,
                            .batch = batch,
                            .logits = logits,
                            .embeddings = embeddings,
                        });
}

int
pcvr_runner_step(pcvr_runner *r, const pcvr_batch *b, pcvr_loss_fn *loss, void *arg,
                 bool coupled, bool training, uint64_t seed, uint32_t step, float *logits)
{
    if (r->z.o.forward_only)
        return PCVR_EINVAL;
    const pcvr_batch *batch = batch_take(r, b);
    if (batch == NULL)
        return PCVR_EINVAL;
    PcvrWalk w = {
        .batch = batch,
        .loss = loss,
        .loss_arg = arg,
        .logits = logits,
        .training = training,
        .timed = true,
        .seed = seed,
        .step = step,
    };
    int rc = PCVR_OK;
    unsigned last = PCVR_WALK_BACKWARD;
    if (r->z.whole) {
        w.what = PCVR_WALK_CLEAR | PCVR_WALK_GATHER | PCVR_WALK_KEEP;
        rc = pcvr_walk(r, &w);
    } else {
        last |= PCVR_WALK_CLEAR | PCVR_WALK_GATHER | PCVR_WALK_KEEP;
        if (coupled) {
            w.what = PCVR_WALK_GATHER | PCVR_WALK_FORWARD;
            rc = pcvr_walk(r, &w);
        } else {
            last |= PCVR_WALK_LOSS;
        }
    }
    if (rc == PCVR_OK && !(last & PCVR_WALK_LOSS) && batch->size > 0)
        loss(arg, 0, batch->size, logits, r->dlogits);
    if (rc == PCVR_OK) {
        w.what = last;
        rc = pcvr_walk(r, &w);
    }
    if (rc == PCVR_OK) {
        double from = pcvr_now();
        pcvr_finish(r);
        r->summing += pcvr_now() - from;
    }
    return rc;
}

// trainer_update.c - what follows the gradients: their norm, the optimisers, the shadow.
//
// Threads take ranges of elements and of touched rows. Both are independent of one another,
// and the squares of a norm are summed in blocks, then over the blocks in order: the number
// of threads changes nothing.

#include "trainer.h"

#include <math.h>
#include <string.h>

#include "clip.h"

bool
trainer_is_table(const pcvr_param *p)
{
    return p->flags & PCVR_PARAM_TABLE;
}

bool
trainer_is_still(const pcvr_param *p)
{
    return p->flags & (PCVR_PARAM_FROZEN | PCVR_PARAM_UNUSED);
}

static bool
is_dense(const pcvr_param *p)
{
    return !trainer_is_still(p) && !trainer_is_table(p);
}

static int64_t
blocks_of(const pcvr_param *p)
{
    return is_dense(p) ? (p->size + PCVR_CLIP_BLOCK - 1) / PCVR_CLIP_BLOCK : 0;
}

int64_t
trainer_blocks(const pcvr_module *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->n_params; i++)
        n += blocks_of(&m->params[i]);
    return n;
}

// A job that all threads share.
typedef struct Job {
    Trainer *t;
    int64_t threads;
    double lr;
    float scale;
    PcvrEmaAction action;
} Job;

static Job
job_new(Trainer *t)
{
    return (Job){.t = t, .threads = pcvr_runner_plan(t->runner)->threads};
}

// The thread's part of n things, cut at multiples of `unit`.
static void
share(const Job *j, int thread, int64_t n, int64_t unit, int64_t *first, int64_t *end)
{
    int64_t units = (n + unit - 1) / unit;
    *first = units * thread / j->threads * unit;
    *end = units * (thread + 1) / j->threads * unit;
    *end = *end < n ? *end : n;
}

static void
squares_thread(void *arg, int thread)
{
    const Job *j = arg;
    const pcvr_module *m = j->t->m;
    int64_t first, end, at = 0;
    share(j, thread, trainer_blocks(m), 1, &first, &end);
    for (int i = 0; i < m->n_params; i++) {
        int64_t n = blocks_of(&m->params[i]), size = m->params[i].size;
        const float *g = pcvr_runner_grad(j->t->runner, i);
        for (int64_t k = first > at ? first - at : 0; k < n && at + k < end; k++) {
            int64_t from = k * PCVR_CLIP_BLOCK, left = size - from;
            int64_t count = left < PCVR_CLIP_BLOCK ? left : PCVR_CLIP_BLOCK;
            j->t->squares[at + k] = pcvr_clip_squares(g + from, (size_t)count);
        }
        at += n;
    }
}

// Parameters in order; a table counts each entry added in the step by itself, as its
// gradient is stored before rows are merged.
double
trainer_norm(Trainer *t)
{
    Job job = job_new(t);
    double sum = 0.0;
    int64_t at = 0;
    pcvr_runner_run(t->runner, squares_thread, &job);
    for (int i = 0; i < t->m->n_params; i++) {
        const pcvr_param *p = &t->m->params[i];
        if (!trainer_is_still(p) && trainer_is_table(p))
            sum += pcvr_runner_rows(t->runner, i).squares;
        for (int64_t k = blocks_of(p); k > 0; k--)
            sum += t->squares[at++];
    }
    return sqrt(sum);
}

static void
table_update(const Job *j, int thread, int i)
{
    const Trainer *t = j->t;
    pcvr_sparse rows = pcvr_runner_rows(t->runner, i);
    int64_t first, end;
    share(j, thread, rows.n, 1, &first, &end);
    if (first < end)
        pcvr_adagrad_rows(t->params[i], t->first[i], rows.width, rows.ids + first,
                          rows.values + first * rows.width, end - first, t->o.sparse_lr,
                          j->scale);
}

enum { LINE_FLOATS = 16 };

static void
dense_update(const Job *j, int thread, int i)
{
    const Trainer *t = j->t;
    int64_t first, end;
    share(j, thread, t->m->params[i].size, LINE_FLOATS, &first, &end);
    if (first < end)
        pcvr_adamw_step(&t->adamw, t->params[i] + first,
                        pcvr_runner_grad(t->runner, i) + first, t->first[i] + first,
                        t->second[i] + first, (size_t)(end - first), j->lr, t->step,
                        j->scale);
}

static void
update_thread(void *arg, int thread)
{
    const Job *j = arg;
    for (int i = 0; i < j->t->m->n_params; i++) {
        const pcvr_param *p = &j->t->m->params[i];
        if (is_dense(p))
            dense_update(j, thread, i);
        else if (!trainer_is_still(p))
            table_update(j, thread, i);
    }
}

static void
shadow_thread(void *arg, int thread)
{
    const Job *j = arg;
    const Trainer *t = j->t;
    for (int i = 0; i < t->m->n_params; i++) {
        int64_t first, end;
        share(j, thread, t->m->params[i].size, LINE_FLOATS, &first, &end);
        if (first >= end)
            continue;
        float *to = t->shadow[i] + first;
        const float *from = t->params[i] + first;
        if (j->action == PCVR_EMA_COPY)
            memcpy(to, from, (size_t)(end - first) * sizeof *to);
        else
            pcvr_ema_update(to, from, (size_t)(end - first), t->o.ema_decay);
    }
}

void
trainer_update(Trainer *t, double lr, float scale)
{
    Job job = job_new(t);
    job.lr = lr;
    job.scale = scale;
    pcvr_runner_run(t->runner, update_thread, &job);
    if (!t->shadow)
        return;
    job.action = pcvr_ema_action(t->step, t->o.ema_start, t->o.ema_every);
    if (job.action != PCVR_EMA_NOTHING)
        pcvr_runner_run(t->runner, shadow_thread, &job);
}

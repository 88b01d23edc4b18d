// fit.c - how much chosen blocks may keep: the most for which a thread stays within its bytes.
//
// What a block keeps changes what its recomputation needs beside it, so bytes are known when all is planned: the
// passes from checkpoint to plan run on copies of the graph, a few hundredths of a second each.

#include "fit.h"

#include "passes.h"
#include "tile.h"

#include <math.h>
#include <string.h>

// Kept values and scratch of a thread: enough for all that is dear in models of a few blocks, and little beside
// what parameters and optimiser take.
enum { KEEP_BYTES = 48 << 20 };
enum { TRIES = 8, NOTHING = 1 };

// Operations in the time in which a thread reads a byte of weights from beyond its caches.
enum { FLOPS_A_BYTE = 10 };

typedef struct Trial {
    int64_t dear;  // bytes that would be kept without a limit
    int64_t bytes; // of a thread
    double cost;   // of a sample, in operations: what is made again, and reading the weights
} Trial;

// Bytes of weights that a sample reads, and of accumulators it reads and writes: fewer where samples share them.
static double
weight_bytes(const Tiles *t)
{
    double bytes = 0;
    for (int i = 0; i < t->regions.n; i++) {
        const Region *r = t->regions.v[i];
        for (int k = 0; k < r->stmts.n; k++) {
            const Stmt *s = r->stmts.v[k];
            double share = s->batched ? 1.0 / (double)t->group : 1.0;
            if (s->kind != ST_PRODUCT)
                continue;
            if (s->out[0].buf->space == SP_ACC)
                bytes += 8 * share * (double)view_size(&s->out[0]);
            else if (s->in[1].buf->space == SP_PARAM || s->in[1].buf->space == SP_PACKED)
                bytes += 4 * share * (double)view_size(&s->in[1]);
        }
    }
    return bytes;
}

static Trial
plan_with(const Graph *g, int64_t limit)
{
    Mem mem;
    mem_init(&mem);
    Graph *copy = graph_copy(g, &mem);
    copy->keep_limit = limit;
    Trial trial = {.bytes = INT64_MAX, .cost = INFINITY};
    if (checkpoint(copy) && sweep(copy)) {
        Tiles *t = schedule(copy);
        plan(t);
        trial = (Trial){copy->kept_dear, t->chunk * t->kept_bytes + t->scratch_bytes,
                        FLOPS_A_BYTE * weight_bytes(t)};
        for (int i = 0; i < t->regions.n; i++)
            trial.cost += t->regions.v[i]->recomputed_flops;
    }
    mem_free(&mem);
    return trial;
}

void
fit_blocks(Graph *g)
{
    int64_t most = g->thread_bytes ? g->thread_bytes : KEEP_BYTES;
    g->keep_limit = 0;
    if (strcmp(g->checkpoint, "blocks") != 0)
        return;
    Trial all = plan_with(g, 0), least = plan_with(g, NOTHING), best = all;
    if (all.bytes > most) {
        int64_t fits = NOTHING, over = all.dear;
        best = least;
        for (int i = 0; i < TRIES && least.bytes <= most; i++) {
            int64_t limit = fits + (over - fits) / 2;
            Trial trial = plan_with(g, limit);
            if (trial.bytes > most) {
                over = limit;
                continue;
            }
            fits = limit;
            best = trial;
        }
        g->keep_limit = fits;
    }
    // Less to keep may be more samples that share the weights.
    if (least.cost < best.cost)
        g->keep_limit = NOTHING;
}

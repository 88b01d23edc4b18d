// fit.c - how much chosen blocks may keep: the most for which a thread stays within its bytes.
//
// What a block keeps changes what its recomputation needs beside it, so bytes are known when all is planned: the
// passes from checkpoint to plan run on copies of the graph, a few hundredths of a second each.

#include "fit.h"

#include "passes.h"
#include "tile.h"

#include <string.h>

// Kept values and scratch of a thread; small enough that seldom is anything made again for want of room, and
// nothing beside what parameters and optimiser take.
enum { KEEP_BYTES = 48 << 20 };
enum { TRIES = 8 };

// Bytes of a thread that keeps as much as the limit says; *dear gets what it would keep without one.
static int64_t
thread_bytes(const Graph *g, int64_t limit, int64_t *dear)
{
    Mem mem;
    mem_init(&mem);
    Graph *copy = graph_copy(g, &mem);
    copy->keep_limit = limit;
    int64_t bytes = INT64_MAX;
    if (checkpoint(copy) && sweep(copy)) {
        *dear = copy->kept_dear;
        Tiles *t = schedule(copy);
        plan(t);
        bytes = t->chunk * t->kept_bytes + t->scratch_bytes;
    }
    mem_free(&mem);
    return bytes;
}

void
fit_blocks(Graph *g)
{
    int64_t most = g->thread_bytes ? g->thread_bytes : KEEP_BYTES;
    int64_t fits = 1, dear = 0, ignored = 0;
    g->keep_limit = 0;
    if (strcmp(g->checkpoint, "blocks") != 0 || thread_bytes(g, 0, &dear) <= most)
        return;
    for (int i = 0; i < TRIES; i++) {
        int64_t limit = fits + (dear - fits) / 2;
        if (thread_bytes(g, limit, &ignored) <= most)
            fits = limit;
        else
            dear = limit;
    }
    g->keep_limit = fits;
}

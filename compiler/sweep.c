// sweep.c - drop what checkpointing made dead; merges nothing.
//
// Merging here would undo recomputation: a clone equals the node it came from.
//
// Needs: marks of checkpoint.  Leaves: only nodes that logits, the embedding or a sink need.

#include "passes.h"

bool
sweep(Graph *g)
{
    graph_compact(g);
    return true;
}

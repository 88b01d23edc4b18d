// passes.h - the graph passes, in the order in which they run, and what they share.

#ifndef PCVRC_PASSES_H
#define PCVRC_PASSES_H

#include "graph.h"

// A pass rewrites the graph in place. false after reporting an error to g->diag.
typedef bool PassFn(Graph *g);

PassFn simplify;      // folds constants, drops moves that move nothing, merges equal nodes
PassFn prune;         // drops rows that cannot reach the logits; sinks gathers and column slices
PassFn project;       // linear layers on looked-up rows become sums of projected rows
PassFn absorb;        // attention of few queries meets the input of its key and value layers
PassFn differentiate; // appends the backward graph
PassFn checkpoint;    // chooses what is kept by g->checkpoint; clones the rest for recomputation
PassFn sweep;         // drops what checkpointing made dead; merges nothing

// Finds out whether a checkpoint choice names something that exists: "none", "blocks", "sample" or a comma
// list of instance names and globs. false after one error at no place that lists the blocks and choices.
bool checkpoint_choice_valid(Graph *g, const char *choice);

// rewrite.c - building a graph anew beside the old one.
//
// A rewriting pass walks the nodes in order, makes a replacement of each from replaced operands, and ends by
// putting the replacements in the order of the originals.
typedef struct Rewrite {
    Graph *g;
    int n_old;
    Node **old; // the nodes as they were
    Node **to;  // [n_old] replacement of each, by the original's id
} Rewrite;

Rewrite rewrite_begin(Graph *g);
// The replacement of an original node (operands come first, so it exists).
Node *rewritten(const Rewrite *rw, const Node *old);
// The node again with replaced operands; the node itself when none changed.
Node *rewrite_again(Rewrite *rw, Node *old);
// graph_add with the part, call, origin, place and name of an original.
Node *rewrite_add(Rewrite *rw, const Node *like, Op op, Node *const *in, int n_in, Attr a);
void rewrite_set(Rewrite *rw, const Node *old, Node *to);
// Replaces outputs and sinks, drops what is dead, orders nodes as the originals stood.
void rewrite_end(Rewrite *rw);
// fold.c - sets the replacement of each node that depends on constants alone and is read by another one, or
// is an output, to a constant.
void fold_constants(Rewrite *rw);
// Puts other nodes, or another order, in the place of the node array; renumbers ids.
void graph_set_nodes(Graph *g, Node *const *nodes, int n);

#endif

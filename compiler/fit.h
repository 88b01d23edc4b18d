// fit.h - how much chosen blocks may keep.

#ifndef PCVRC_FIT_H
#define PCVRC_FIT_H

#include "graph.h"

// Sets g->keep_limit for the choice `blocks`, where g has its backward graph and checkpoint has not run: the most
// for which a thread's kept values and scratch, with the default chunk, stay within g->thread_bytes (or the
// default); 1, for nothing, where even that does not, or where more samples sharing the weights are worth more.
void fit_blocks(Graph *g);

#endif

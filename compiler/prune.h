// prune.h - the rewrites of prune, each testable alone.

#ifndef PCVRC_PRUNE_H
#define PCVRC_PRUNE_H

#include "passes.h"

void sink_columns(Graph *g); // sink.c
bool sink_gathers(Graph *g); // sink.c; whether anything moved
void demand_rows(Graph *g);  // prune.c

#endif

// tile_case.h - what tests ask of tile programs.

#ifndef TILE_CASE_H
#define TILE_CASE_H

#include "phase.h"

// Whether something that could run for a group runs sample by sample, as its phase is too wide, and something
// else for a group.
static inline bool
has_joined(const Tiles *t)
{
    bool one = false, group = false;
    for (int i = 0; i < t->regions.n; i++) {
        const Region *r = t->regions.v[i];
        for (int k = 0; k < r->stmts.n && r->line != TL_GATHER; k++) {
            one |= stmt_is_batch(r->stmts.v[k]) && !r->stmts.v[k]->batched;
            group |= r->stmts.v[k]->batched;
        }
    }
    return one && group && t->group > 1;
}

#endif

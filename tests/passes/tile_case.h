// tile_case.h - what tests ask of tile programs.

#ifndef TILE_CASE_H
#define TILE_CASE_H

#include "phase.h"

// Whether something of a region that could run for a group runs sample by sample, as its phase is too wide, and
// something else of it for a group.
static inline bool
has_joined(const Tiles *t)
{
    bool both = false;
    for (int i = 0; i < t->regions.n; i++) {
        const Region *r = t->regions.v[i];
        bool one = false, group = false;
        for (int k = 0; k < r->stmts.n && r->line != TL_GATHER; k++) {
            one |= stmt_is_batch(r->stmts.v[k]) && !r->stmts.v[k]->batched;
            group |= r->stmts.v[k]->batched;
        }
        both |= one && group;
    }
    return both && t->group > 1;
}

#endif

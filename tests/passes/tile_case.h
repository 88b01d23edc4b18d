// tile_case.h - what tests ask of tile programs.

#ifndef TILE_CASE_H
#define TILE_CASE_H

#include "phase.h"

// Whether a region is one phase that would be several if its record were smaller, beside one of several.
static inline bool
has_joined(const Tiles *t)
{
    bool one = false, several = false;
    for (int i = 0; i < t->regions.n; i++) {
        const Region *r = t->regions.v[i];
        bool wanted = false;
        for (int k = 0; k < r->stmts.n && r->line != TL_GATHER; k++)
            wanted |= stmt_is_batch(r->stmts.v[k]);
        one |= wanted && r->n_phases == 1 && r->stmts.n > 1;
        several |= r->n_phases > 1;
    }
    return one && several && t->group > 1;
}

#endif

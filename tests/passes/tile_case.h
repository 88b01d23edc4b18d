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

// Whether each product finds the rows of its right side one number after the other where that is a parameter.
static inline bool
weights_lie_in_rows(const Tiles *t)
{
    for (int i = 0; i < t->regions.n; i++)
        for (int k = 0; k < t->regions.v[i]->stmts.n; k++) {
            const Stmt *s = t->regions.v[i]->stmts.v[k];
            const View *b = &s->in[s->kind == ST_PRODUCT];
            if (s->kind == ST_PRODUCT && b->buf->space == SP_PARAM &&
                b->dim[b->rank - 1] > 1 && b->stride[b->rank - 1] != 1)
                return false;
        }
    return true;
}

#endif

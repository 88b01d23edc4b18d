// emit_mask.h - the predicate of a mask as C: a pair at a time, or vectors of queries.
#ifndef EMIT_MASK_H
#define EMIT_MASK_H

#include "emit.h"

// The predicate for the pair i, j; *lists counts the lists met, numbered in order.
const char *mask_expr(Emit *e, const Stmt *s, const Mask *m, int *lists);
// The tensor that a leaf reads.
const View *captured_view(const Stmt *s, const Mask *m);
// Its element at an index of the first axis (NULL: none), or a pointer to that.
const char *captured_at(Emit *e, const View *v, const char *at, bool element);
// Whether emit_mask_rows writes a mask.
bool mask_takes_rows(Tiles *t, const Stmt *s, int64_t queries, int64_t keys);
// Fills `mask` with rows of bits, a key each; false, and nothing written, where the predicate has no
// such form. Needs the lists.
bool emit_mask_rows(Emit *e, const Stmt *s, int64_t queries, int64_t keys);

#endif

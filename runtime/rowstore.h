// rowstore.h - row stores: clearing a lane's store, merging the lanes' stores of one
// table.

#ifndef PCVR_ROWSTORE_H
#define PCVR_ROWSTORE_H

#include "pcvr.h"

// Slots of a store of that capacity: a power of two, at least twice it and at least 16.
int64_t pcvr_rows_slots(int64_t capacity);
// Forgets every row.
void pcvr_rows_clear(pcvr_rows *s);

// A touched row of some store, and room to sort by.
typedef struct PcvrTouched {
    int64_t id;
    const float *values;
} PcvrTouched;

// Appends the rows of a store to touched[n ..]; with `padding`, row 0 is left out. The
// new n.
int64_t pcvr_rows_list(const pcvr_rows *s, bool padding, PcvrTouched *touched, int64_t n);

// Sorts n touched rows by id, stably, then adds those of one id in that order. `room`
// holds n more; ids [distinct] and values [distinct, width] receive the result. Returns
// the number of distinct rows.
int64_t pcvr_rows_merge(PcvrTouched *touched, PcvrTouched *room, int64_t n, int64_t width,
                        int64_t *ids, float *values);

#endif

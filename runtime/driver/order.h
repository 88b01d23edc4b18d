// order.h - which rows each step trains on, from a file.

#ifndef PCVR_ORDER_H
#define PCVR_ORDER_H

#include <stdint.h>

#include "error.h"

// One line a step: global row numbers separated by blanks or commas.
typedef struct Order {
    int64_t *rows;     // of all steps, one behind the other
    int64_t *ends;     // [steps] where each step ends in rows
    int64_t steps, longest;
} Order;

// Rows must lie in [0, n_rows). Errors name the file and line.
bool order_read(Order *o, const char *path, int64_t n_rows, PcvrError *err);
void order_free(Order *o);

#endif

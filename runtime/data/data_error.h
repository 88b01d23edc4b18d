// data_error.h - the text of a failure in the data library, the runtime's PcvrError.

#ifndef PCVR_DATA_ERROR_H
#define PCVR_DATA_ERROR_H

#include "error.h"

typedef PcvrError DataError;

// pcvr_fail for functions that return 0 or -1: stores the text unless one is there
// already, and returns -1. `e` may be NULL.
int data_fail(DataError *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif

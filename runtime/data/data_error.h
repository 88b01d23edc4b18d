// data_error.h - failures of the data library: their text, and a path that is no file.

#ifndef PCVR_DATA_ERROR_H
#define PCVR_DATA_ERROR_H

#include "error.h"

typedef PcvrError DataError;

// pcvr_fail for functions that return 0 or -1: stores the text unless one is there
// already, and returns -1. `e` may be NULL.
int data_fail(DataError *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// 0 where `path` is a regular file, or -1: opening a pipe may wait without end, and a
// device may have none.
int data_regular_file(const char *path, DataError *e);

#endif

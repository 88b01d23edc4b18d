// data_error.h - the text of a failure in the data library.

#ifndef PCVR_DATA_ERROR_H
#define PCVR_DATA_ERROR_H

#include <stdarg.h>

// Empty when nothing failed. The first failure is kept; a long text is cut at the end.
typedef struct DataError {
    char text[1024];
} DataError;

// Stores the text unless one is there already, and returns -1. Control characters, which
// names from outside may hold, become '?', so that the text stays one line. `e` may be
// NULL.
int data_fail(DataError *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif

// error.h - the text of the first error, carried from where it happens to who prints it.

#ifndef PCVR_ERROR_H
#define PCVR_ERROR_H

#include <stdbool.h>

// One line, no newline, cut at the end of the buffer. Empty means no error.
typedef struct PcvrError {
    char text[1024];
} PcvrError;

// Stores the text unless an earlier one is there; always returns false. `err` may be
// NULL.
bool pcvr_fail(PcvrError *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif

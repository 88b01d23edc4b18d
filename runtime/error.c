// error.c - keeps the text of the first error.

#include "error.h"

#include <stdarg.h>
#include <stdio.h>

// Names come from files: control characters would break the promise of one line.
static void
blank_controls(char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 0x20 || c == 0x7f)
            *s = '?';
    }
}

bool
pcvr_fail(PcvrError *err, const char *format, ...)
{
    if (!err || err->text[0])
        return false;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    blank_controls(err->text);
    return false;
}

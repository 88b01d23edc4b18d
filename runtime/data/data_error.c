// data_error.c - the text of a failure in the data library.

#include "data_error.h"

#include <stdarg.h>
#include <stdio.h>

int
data_fail(DataError *e, const char *format, ...)
{
    char text[sizeof e->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pcvr_fail(e, "%s", text);
    return -1;
}

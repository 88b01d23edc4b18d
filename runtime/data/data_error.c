// data_error.c - the text of a failure in the data library.

#include "data_error.h"

#include <stdio.h>

int
data_fail(DataError *e, const char *format, ...)
{
    if (!e || e->text[0])
        return -1;
    va_list ap;
    va_start(ap, format);
    vsnprintf(e->text, sizeof e->text, format, ap);
    va_end(ap);
    for (char *c = e->text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return -1;
}

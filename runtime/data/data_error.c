// data_error.c - failures of the data library.

#include "data_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

int
data_regular_file(const char *path, DataError *e)
{
    struct stat st;
    if (stat(path, &st))
        return data_fail(e, "%s: %s", path, strerror(errno));
    return S_ISREG(st.st_mode) ? 0 : data_fail(e, "%s: not a regular file", path);
}

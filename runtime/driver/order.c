// order.c - which rows each step trains on, from a file.

#include "order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"

void
order_free(Order *o)
{
    free(o->rows);
    free(o->ends);
    *o = (Order){0};
}

static bool
read_line(Order *o, char **p, int64_t *n, const char *path, int64_t n_rows, PcvrError *err)
{
    for (;;) {
        *p += strspn(*p, " \t,\r");
        if (**p == '\n' || **p == 0)
            break;
        char *end;
        errno = 0;
        long long row = strtoll(*p, &end, 10);
        if (end == *p || errno || (*end && !strchr(" \t,\r\n", *end)))
            return pcvr_fail(err, "%s:%lld: expected a row number, found '%.20s'", path,
                             (long long)o->steps + 1, *p);
        if (row < 0 || row >= n_rows)
            return pcvr_fail(err, "%s:%lld: row %lld of a data set of %lld rows", path,
                             (long long)o->steps + 1, row, (long long)n_rows);
        o->rows[(*n)++] = row;
        *p = end;
    }
    return true;
}

bool
order_read(Order *o, const char *path, int64_t n_rows, PcvrError *err)
{
    size_t size, lines = 1;
    int64_t n = 0;
    *o = (Order){0};
    char *text = pcvr_file_read(path, &size, err);
    if (!text)
        return false;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    o->rows = malloc((size / 2 + 2) * sizeof *o->rows);
    o->ends = malloc(lines * sizeof *o->ends);
    bool ok = (o->rows && o->ends) || pcvr_fail(err, "%s: out of memory", path);
    for (char *p = text; ok && *p;) {
        int64_t before = n;
        ok = read_line(o, &p, &n, path, n_rows, err);
        if (ok && n == before)
            ok = pcvr_fail(err, "%s:%lld: a step without rows", path, (long long)o->steps + 1);
        if (ok)
            o->ends[o->steps++] = n;
        if (n - before > o->longest)
            o->longest = n - before;
        p += *p == '\n';
    }
    if (ok && o->steps == 0)
        ok = pcvr_fail(err, "%s: no steps", path);
    free(text);
    if (!ok)
        order_free(o);
    return ok;
}

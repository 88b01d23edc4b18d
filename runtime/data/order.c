// order.c - reads order files: which rows each step trains on.

#include "data.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"

typedef struct Order {
    const char *path;
    int64_t *rows, *ends, n, steps;
    int64_t row_room, step_room;
} Order;

static bool
append(int64_t **list, int64_t *room, int64_t n, int64_t value)
{
    if (n == *room) {
        int64_t more = 2 * n + 256;
        int64_t *bigger = realloc(*list, sizeof *bigger * (size_t)more);
        if (!bigger)
            return false;
        *list = bigger;
        *room = more;
    }
    (*list)[n] = value;
    return true;
}

// Reads the numbers of one line, [text, end). The line ends in a byte that is no digit.
static int
read_line(Order *o, const char *text, const char *end, int64_t line, DataError *e)
{
    int64_t before = o->n;
    while (text < end) {
        if (isspace((unsigned char)*text) || *text == ',') {
            text++;
            continue;
        }
        char *behind;
        errno = 0;
        long long row = isdigit((unsigned char)*text) ? strtoll(text, &behind, 10) : -1;
        if (row < 0 || errno ||
            (behind < end && *behind != ',' && !isspace((unsigned char)*behind)))
            return data_fail(
                e, "%s: line %" PRId64 ": expected a row number, found '%.*s'", o->path,
                line, end - text < 20 ? (int)(end - text) : 20, text);
        if (!append(&o->rows, &o->row_room, o->n++, row))
            return data_fail(e, "%s: out of memory", o->path);
        text = behind;
    }
    if (o->n > before && !append(&o->ends, &o->step_room, o->steps++, o->n))
        return data_fail(e, "%s: out of memory", o->path);
    return 0;
}

int
data_order_read(const char *path, int64_t **order, int64_t **order_ends,
                int64_t *order_steps, DataError *e)
{
    Order o = {.path = path};
    size_t n;
    char *text = pcvr_file_read(path, &n, e);
    int rc = text ? 0 : -1;
    int64_t line = 1;
    for (const char *p = text; !rc && p < text + n; line++) {
        const char *end = memchr(p, '\n', (size_t)(text + n - p));
        end = end ? end : text + n;
        rc = *p == '#' ? 0 : read_line(&o, p, end, line, e);
        p = end + 1;
    }
    if (!rc && !o.steps)
        rc = data_fail(e, "%s: no steps in this order file", path);
    free(text);
    if (rc) {
        free(o.rows);
        free(o.ends);
        return -1;
    }
    *order = o.rows;
    *order_ends = o.ends;
    *order_steps = o.steps;
    return 0;
}

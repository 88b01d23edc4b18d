// rowstore.c - row stores: clearing a lane's store, merging the lanes' stores of one
// table.

#include "rowstore.h"

#include <string.h>

int64_t
pcvr_rows_slots(int64_t capacity)
{
    int64_t n = 16;
    while (n < 2 * capacity)
        n *= 2;
    return n;
}

void
pcvr_rows_clear(pcvr_rows *s)
{
    if (s->n > 0)
        memset(s->slots, 0, (size_t)s->n_slots * sizeof *s->slots);
    s->n = 0;
    s->squares = 0.0;
}

int64_t
pcvr_rows_list(const pcvr_rows *s, bool padding, PcvrTouched *touched, int64_t n)
{
    for (int64_t k = 0; k < s->n; k++) {
        if (padding && s->ids[k] == 0)
            continue;
        touched[n++] = (PcvrTouched){s->ids[k], s->values + k * s->width};
    }
    return n;
}

enum { DIGIT = 11, BINS = 1 << DIGIT };

// One stable pass by the digit at `shift`.
static void
sort_pass(const PcvrTouched *from, PcvrTouched *to, int64_t n, int shift)
{
    int64_t at[BINS] = {0};
    for (int64_t k = 0; k < n; k++)
        at[(uint64_t)from[k].id >> shift & (BINS - 1)]++;
    int64_t sum = 0;
    for (int b = 0; b < BINS; b++) {
        int64_t count = at[b];
        at[b] = sum;
        sum += count;
    }
    for (int64_t k = 0; k < n; k++)
        to[at[(uint64_t)from[k].id >> shift & (BINS - 1)]++] = from[k];
}

// Stable sort of a few by insertion, of many by digits. Returns where the result lies.
static PcvrTouched *
sort_rows(PcvrTouched *a, PcvrTouched *room, int64_t n)
{
    if (n <= 32) {
        for (int64_t k = 1; k < n; k++) {
            PcvrTouched x = a[k];
            int64_t j = k;
            for (; j > 0 && a[j - 1].id > x.id; j--)
                a[j] = a[j - 1];
            a[j] = x;
        }
        return a;
    }
    int64_t largest = 0;
    for (int64_t k = 0; k < n; k++)
        largest = a[k].id > largest ? a[k].id : largest;
    for (int shift = 0; shift < 63 && largest >> shift != 0; shift += DIGIT) {
        sort_pass(a, room, n, shift);
        PcvrTouched *swap = a;
        a = room;
        room = swap;
    }
    return a;
}

int64_t
pcvr_rows_merge(PcvrTouched *touched, PcvrTouched *room, int64_t n, int64_t width,
                int64_t *ids, float *values)
{
    const PcvrTouched *t = sort_rows(touched, room, n);
    int64_t rows = 0;
    for (int64_t k = 0; k < n; k++) {
        float *out = values + rows * width;
        if (k == 0 || t[k].id != t[k - 1].id) {
            ids[rows++] = t[k].id;
            memcpy(values + (rows - 1) * width, t[k].values, (size_t)width * sizeof *out);
            continue;
        }
        out -= width;
        for (int64_t c = 0; c < width; c++)
            out[c] += t[k].values[c];
    }
    return rows;
}

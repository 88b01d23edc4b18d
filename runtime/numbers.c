// numbers.c - deterministic numbers from a name and an index.

#include "numbers.h"

uint64_t
pcvr_name_hash(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        h = (h ^ *p) * 0x100000001b3u;
    return h;
}

void
pcvr_number_fill(float *out, uint64_t first, size_t n, const char *name, double offset,
                 double scale)
{
    uint64_t h = pcvr_name_hash(name);
    for (size_t k = 0; k < n; k++)
        out[k] = (float)(offset + scale * pcvr_number(h, first + k));
}

// arena.c - accounted buffers: aligned, with canaries around them, and a high-water mark.

#include "arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CANARY = PCVR_LINE,
    CANARY_BYTE = 0xc5,
    PATTERN_BYTE = 0xa9, // as a float -7.5e-14: no program writes a line of it
    MAP_FROM = 1 << 20,  // bytes from which a buffer is mapped by itself
    HUGE_PAGE = 2 << 20,
};

// A mapping of whole pages; a large one begins where a huge page can.
static void *
map_new(size_t bytes)
{
    const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    unsigned char *p = MAP_FAILED;
    if (bytes >= HUGE_PAGE)
        p = mmap(NULL, bytes + HUGE_PAGE, protection, flags, -1, 0);
    if (p == MAP_FAILED)
        return mmap(NULL, bytes, protection, flags, -1, 0);
    const size_t before = (size_t)(-(uintptr_t)p & (HUGE_PAGE - 1));
    if (before > 0)
        (void)munmap(p, before);
    if (before < HUGE_PAGE)
        (void)munmap(p + before + bytes, HUGE_PAGE - before);
    (void)madvise(p + before, bytes, MADV_HUGEPAGE);
    return p + before;
}

// Zeroed memory. Large blocks are mapped: pages never touched then cost nothing, and huge
// pages save address translation.
static bool
block_new(PcvrBuffer *b, size_t bytes)
{
    b->block_bytes = bytes;
    b->mapped = bytes >= MAP_FROM;
    if (!b->mapped) {
        b->block = aligned_alloc(PCVR_LINE, bytes);
        if (b->block == NULL)
            return false;
        memset(b->block, 0, bytes);
        return true;
    }
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    bytes = (bytes + page - 1) / page * page;
    b->block_bytes = bytes;
    void *p = map_new(bytes);
    if (p == MAP_FAILED)
        return false;
    b->block = p;
    return true;
}

void *
pcvr_arena_alloc(PcvrArena *a, const char *name, int64_t n, bool watched)
{
    if (n < 0 || n > INT64_MAX / 2)
        return NULL;
    if (a->n == a->capacity) {
        size_t capacity = a->capacity == 0 ? 16 : 2 * a->capacity;
        PcvrBuffer *more = realloc(a->buffers, capacity * sizeof *more);
        if (more == NULL)
            return NULL;
        a->buffers = more;
        a->capacity = capacity;
    }
    PcvrBuffer b = {.name = name, .bytes = (size_t)pcvr_lines(n), .watched = watched};
    if (!block_new(&b, b.bytes + 2 * CANARY))
        return NULL;
    b.base = b.block + CANARY;
    memset(b.block, CANARY_BYTE, CANARY);
    memset(b.base + b.bytes, CANARY_BYTE, CANARY);
    if (watched)
        memset(b.base, PATTERN_BYTE, b.bytes);
    a->buffers[a->n++] = b;
    a->now += (int64_t)b.bytes;
    if (a->now > a->high)
        a->high = a->now;
    return b.base;
}

void
pcvr_arena_free(PcvrArena *a)
{
    for (size_t k = 0; k < a->n; k++) {
        PcvrBuffer *b = &a->buffers[k];
        a->now -= (int64_t)b->bytes;
        if (b->mapped)
            munmap(b->block, b->block_bytes);
        else
            free(b->block);
    }
    free(a->buffers);
    a->buffers = NULL;
    a->n = a->capacity = 0;
}

static bool
line_is(const unsigned char *p, unsigned char byte)
{
    for (int k = 0; k < PCVR_LINE; k++)
        if (p[k] != byte)
            return false;
    return true;
}

// Bytes up to the end of the last line that was written.
static int64_t
buffer_touched(const PcvrBuffer *b)
{
    if (!line_is(b->base + b->bytes, CANARY_BYTE))
        return (int64_t)b->bytes + CANARY;
    size_t at = b->bytes;
    while (at > 0 && line_is(b->base + at - PCVR_LINE, PATTERN_BYTE))
        at -= PCVR_LINE;
    return (int64_t)at;
}

int64_t
pcvr_arena_measured(const PcvrArena *a)
{
    int64_t sum = a->high;
    for (size_t k = 0; k < a->n; k++) {
        const PcvrBuffer *b = &a->buffers[k];
        if (b->watched)
            sum += buffer_touched(b) - (int64_t)b->bytes;
    }
    return sum;
}

const char *
pcvr_arena_overrun(const PcvrArena *a)
{
    for (size_t k = 0; k < a->n; k++) {
        const PcvrBuffer *b = &a->buffers[k];
        if (!line_is(b->block, CANARY_BYTE) || !line_is(b->base + b->bytes, CANARY_BYTE))
            return b->name;
    }
    return NULL;
}

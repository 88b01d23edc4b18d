// arena.h - accounted buffers: aligned, with canaries around them, and a high-water mark.

#ifndef PCVR_ARENA_H
#define PCVR_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PCVR_LINE = 64 };

// n rounded up to whole lines of 64 bytes: what a buffer of n bytes counts.
static inline int64_t
pcvr_lines(int64_t n)
{
    return (n + PCVR_LINE - 1) / PCVR_LINE * PCVR_LINE;
}

typedef struct PcvrBuffer {
    const char *name;
    unsigned char *base;  // 64-byte aligned
    size_t bytes;         // a multiple of 64
    unsigned char *block; // what was allocated, canaries included
    size_t block_bytes;
    bool mapped;
    bool watched; // counts up to its last line that was written
} PcvrBuffer;

typedef struct PcvrArena {
    PcvrBuffer *buffers;
    size_t n, capacity;
    int64_t now, high; // bytes of live buffers; their highest sum
} PcvrArena;

// A buffer of at least n bytes (64 more where n is 0). A watched one is filled with a
// pattern, others are zero. NULL when memory is short. The name is kept by reference.
void *pcvr_arena_alloc(PcvrArena *a, const char *name, int64_t n, bool watched);
// Frees every buffer; the high-water mark stays.
void pcvr_arena_free(PcvrArena *a);
// The high-water mark, where watched buffers count up to the last line (canary included)
// that changed.
int64_t pcvr_arena_measured(const PcvrArena *a);
// The name of a buffer behind or before which something was written, or NULL.
const char *pcvr_arena_overrun(const PcvrArena *a);

#endif

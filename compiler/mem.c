// mem.c - zeroed arenas, growable arrays, interned strings, die().

#include "mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) && !defined(ARENA_DEBUG)
#define ARENA_DEBUG
#endif

enum { ARENA_ALIGN = 16, ARENA_CHUNK = 1 << 16 };

struct ArenaChunk {
    ArenaChunk *next;
    size_t size; // bytes after this header
};

// The header keeps what follows it aligned.
static const size_t header_size =
    (sizeof(ArenaChunk) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;

_Noreturn static void
out_of_memory(size_t size)
{
    fprintf(stderr, "pcvrc: out of memory (%zu bytes more were needed)\n", size);
    exit(1);
}

static ArenaChunk *
chunk_new(ArenaChunk *next, size_t size)
{
    if (size > SIZE_MAX - header_size)
        out_of_memory(size);
    ArenaChunk *c = calloc(1, header_size + size);
    if (!c)
        out_of_memory(size);
    c->next = next;
    c->size = size;
    return c;
}

void *
arena_alloc(Arena *a, size_t size)
{
    if (size > SIZE_MAX / 2)
        out_of_memory(size);
#ifdef ARENA_DEBUG
    a->chunks = chunk_new(a->chunks, size);
    return (char *)a->chunks + header_size;
#else
    size = (size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (size > ARENA_CHUNK / 4) { // a large object gets a chunk behind the one in use
        if (!a->chunks) {
            a->chunks = chunk_new(NULL, ARENA_CHUNK);
            a->used = 0;
        }
        a->chunks->next = chunk_new(a->chunks->next, size);
        return (char *)a->chunks->next + header_size;
    }
    if (!a->chunks || a->chunks->size - a->used < size) {
        a->chunks = chunk_new(a->chunks, ARENA_CHUNK);
        a->used = 0;
    }
    char *p = (char *)a->chunks + header_size + a->used;
    a->used += size;
    return p;
#endif
}

void *
arena_alloc_n(Arena *a, size_t n, size_t size)
{
    if (size && n > SIZE_MAX / 2 / size)
        out_of_memory(n);
    return arena_alloc(a, n * size);
}

void
arena_reset(Arena *a)
{
    for (ArenaChunk *c = a->chunks; c;) {
        ArenaChunk *next = c->next;
        free(c);
        c = next;
    }
    a->chunks = NULL;
    a->used = 0;
}

void
mem_init(Mem *mem)
{
    *mem = (Mem){0};
}

void
mem_free(Mem *mem)
{
    arena_reset(&mem->perm);
    arena_reset(&mem->scratch);
    *mem = (Mem){0};
}

char *
arena_copy(Arena *a, const char *s, size_t n)
{
    char *copy = arena_alloc(a, n + 1);
    if (n)
        memcpy(copy, s, n);
    return copy;
}

char *
arena_vprintf(Arena *a, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0)
        die("a message could not be formatted: %s", fmt);
    char *s = arena_alloc(a, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, fmt, ap);
    return s;
}

char *
arena_printf(Arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *s = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return s;
}

// ---- interned strings ---------------------------------------------------------------

static size_t
hash_bytes(const char *s, size_t n)
{
    uint64_t h = 14695981039346656037u; // FNV-1a
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 1099511628211u;
    return (size_t)(h ^ (h >> 32));
}

// The slot of a string in the table: holds it, or is free.
static size_t
intern_slot(const Mem *mem, const char *s, size_t n)
{
    size_t mask = mem->cap_names - 1;
    size_t i = hash_bytes(s, n) & mask;
    while (mem->names[i] &&
           (strncmp(mem->names[i], s, n) != 0 || mem->names[i][n] != '\0'))
        i = (i + 1) & mask;
    return i;
}

static void
intern_grow(Mem *mem)
{
    const char **old = mem->names;
    size_t n_old = mem->cap_names;
    mem->cap_names = n_old ? 2 * n_old : 256;
    mem->names = arena_array(&mem->perm, const char *, mem->cap_names);
    for (size_t i = 0; i < n_old; i++)
        if (old[i])
            mem->names[intern_slot(mem, old[i], strlen(old[i]))] = old[i];
}

const char *
mem_intern(Mem *mem, const char *s, size_t n)
{
    if (2 * (mem->n_names + 1) > mem->cap_names)
        intern_grow(mem);
    size_t i = intern_slot(mem, s, n);
    if (!mem->names[i]) {
        mem->names[i] = arena_copy(&mem->perm, s, n);
        mem->n_names++;
    }
    return mem->names[i];
}

const char *
mem_intern_str(Mem *mem, const char *s)
{
    return mem_intern(mem, s, strlen(s));
}

// ---- arrays and text ----------------------------------------------------------------

void *
array_grow(Arena *a, const void *old, int n, int *cap, size_t size)
{
    if (*cap > INT32_MAX / 2)
        out_of_memory((size_t)*cap);
    *cap = *cap ? 2 * *cap : 8;
    void *v = arena_alloc_n(a, (size_t)*cap, size);
    if (n)
        memcpy(v, old, (size_t)n * size);
    return v;
}

void
text_add_bytes(Arena *a, Text *t, const char *s, size_t n)
{
    if (n > (size_t)(INT32_MAX / 4))
        out_of_memory(n);
    while ((size_t)(t->cap - t->n) < n + 1)
        t->v = array_grow(a, t->v, t->n, &t->cap, 1);
    if (n)
        memcpy(t->v + t->n, s, n);
    t->n += (int)n;
    t->v[t->n] = '\0';
}

void
text_add(Arena *a, Text *t, const char *fmt, ...)
{
    char small[256];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof small) {
        text_add_bytes(a, t, small, (size_t)n);
        return;
    }
    va_start(ap, fmt);
    const char *s = arena_vprintf(a, fmt, ap);
    va_end(ap);
    text_add_bytes(a, t, s, strlen(s));
}

_Noreturn void
die_at(const char *file, int line, const char *fmt, ...)
{
    fprintf(stderr, "pcvrc: internal fault: ");
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(
        stderr,
        " (%s:%d)\n"
        "this is a bug in pcvrc: please report it with the model file, the command line\n"
        "and the output of pcvrc --version\n",
        file, line);
    exit(70);
}

// mem.h - memory of the compiler: zeroed arenas, growable arrays, interned strings,
// die().
//
// Nothing is freed one by one. `perm` lives as long as the compilation, `scratch` as long
// as one pass. Built with -DARENA_DEBUG each object is an allocation of its own, so a
// sanitizer sees its bounds. Running out of memory ends the program with one line and
// status 1.

#ifndef PCVRC_MEM_H
#define PCVRC_MEM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ArenaChunk ArenaChunk;

typedef struct Arena {
    ArenaChunk *chunks; // newest first
    size_t used;        // bytes taken from the newest chunk
} Arena;

typedef struct Mem {
    Arena perm;
    Arena scratch;
    const char **names; // interned strings, an open hash in perm
    size_t n_names, cap_names;
} Mem;

// Sets an empty memory up; all zero is one too.
void mem_init(Mem *mem);
// Frees everything that came from it.
void mem_free(Mem *mem);

// Zeroed bytes, aligned for any type; never NULL, also for size 0.
void *arena_alloc(Arena *a, size_t size);
// Frees every object of the arena.
void arena_reset(Arena *a);

#define arena_new(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define arena_array(a, T, n) ((T *)arena_alloc_n((a), (size_t)(n), sizeof(T)))
// n objects of a size, checked for overflow.
void *arena_alloc_n(Arena *a, size_t n, size_t size);

// A NUL-terminated copy of n bytes; the text of a printf format.
char *arena_copy(Arena *a, const char *s, size_t n);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *fmt, va_list ap);

// The one copy of a string in perm: two interned strings are equal when their pointers
// are.
const char *mem_intern(Mem *mem, const char *s, size_t n);
const char *mem_intern_str(Mem *mem, const char *s);

// A growable array in an arena:  Array(Node *) nodes = {0};  array_push(&mem->perm,
// &nodes, n);
#define Array(T) \
    struct {     \
        T *v;    \
        int n;   \
        int cap; \
    }
#define array_push(arena, a, ...)                                              \
    ((a)->n == (a)->cap                                                        \
         ? (void)((a)->v = array_grow((arena), (a)->v, (a)->n, &(a)->cap,      \
                                      sizeof *(a)->v))                         \
         : (void)0,                                                            \
     (void)((a)->v[(a)->n++] = (__VA_ARGS__)))
// A copy with room for at least one element more; *cap is the new capacity.
void *array_grow(Arena *a, const void *old, int n, int *cap, size_t size);

// A string that grows, NUL-terminated after every call (text.v is NULL before the first).
typedef Array(char) Text;
void text_add(Arena *a, Text *t, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void text_add_bytes(Arena *a, Text *t, const char *s, size_t n);

// An internal fault: says what happened, where, and how to report it; exits with status
// 70.
#define die(...) die_at(__FILE__, __LINE__, __VA_ARGS__)
_Noreturn void die_at(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif

// source.h - source files, places in them, and diagnostics.
//
// A place is a slice of a source file; line and column are worked out when a message is
// printed. Diagnostics are collected: a stage reports all it finds, the caller prints
// them and stops.
//
//     toy.pcvr:12:13: error: '@' needs equal inner sizes, found f32[T, 64] and f32[48,
// 32]
//        12 |     let h = x @ w
//           |             ^~~~~
//     toy.pcvr:7:3: note: 'w' is f32[48, 32] here

#ifndef PCVRC_SOURCE_H
#define PCVRC_SOURCE_H

#include "mem.h"

#include <stdio.h>

// file 0 is no place at all: the message is printed without one.
typedef struct Place {
    uint32_t file;   // index into Diag.sources
    uint32_t offset; // byte offset of the first byte
    uint32_t length; // bytes, at least 1 for a real place
} Place;

typedef struct Source {
    const char *path;      // as it is shown: the path by which the file was found
    const char *real_path; // canonical; tells whether two paths are one file
    const char *text;      // NUL-terminated
    uint32_t length;
} Source;

typedef enum Severity { SEV_ERROR, SEV_WARNING, SEV_NOTE } Severity;

typedef struct Message {
    Severity severity;
    Place place;
    const char *text;
} Message;

typedef struct Diag {
    Mem *mem;
    Array(Source) sources;   // [0] is a placeholder for "no place"
    Array(Message) messages; // notes follow the error or warning they belong to
    int errors;
    bool muted_notes; // the last error was a duplicate, its notes are dropped too
} Diag;

void diag_init(Diag *d, Mem *mem);

// An error or a warning (the text without a full stop), and notes about the latest one.
// The same error at the same place is recorded once.
void diag_error(Diag *d, Place p, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void diag_warning(Diag *d, Place p, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void diag_note(Diag *d, Place p, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// Prints all messages with their source lines, in the order they were found.
void diag_print(const Diag *d, FILE *to);
// The same text in an arena; "" without messages.
const char *diag_text(const Diag *d, Arena *a);

// Adds a text as a source file; returns its index. `text` must live as long as the Diag.
uint32_t source_add(Diag *d, const char *path, const char *real_path, const char *text,
                    size_t length);
// Reads a file and adds it; 0 and an error at `from` when that fails (missing, a
// directory, too large, a NUL byte, bytes that are not UTF-8).
uint32_t source_read(Diag *d, const char *path, Place from);
// Whether the text is UTF-8 without NUL bytes; an error at the first byte that is not.
bool source_check(Diag *d, uint32_t file);

const char *place_path(const Diag *d, Place p);
// Line and column, from 1; columns count characters (code points). Both 0 for no place.
void place_line_col(const Diag *d, Place p, int *line, int *col);
// "file:line:col", or "" for no place.
const char *place_text(const Diag *d, Place p, Arena *a);
// The slice of source a place names, NUL-terminated.
const char *place_slice(const Diag *d, Place p, Arena *a);
// From the start of a to the end of b (of one file).
Place place_join(Place a, Place b);

#endif

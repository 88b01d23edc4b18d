// json.h - JSON as the reference writes it, and values at dotted paths.

#ifndef PCVR_DRIVER_JSON_H
#define PCVR_DRIVER_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A text that grows; `failed` once memory was short.
typedef struct Buffer {
    char *text;
    size_t length, room;
    bool failed;
} Buffer;

void buffer_add(Buffer *b, const char *s, size_t n);
void buffer_puts(Buffer *b, const char *s);
void buffer_printf(Buffer *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Shortest decimal text that reads back as the same double, spelled as Python does
// ("0.0001", "1e-05", "3.0", "NaN", "Infinity").
void json_number_text(char out[32], double x);

// The text of a value: indent > 0 breaks lines with that many blanks a level, 0 gives one
// compact line. Object keys keep their order. The caller frees it; NULL when memory is
// short.
char *json_text(const json_t *v, int indent);

// The value at "a.b.0.c" (digits index arrays), or NULL. Borrowed.
json_t *json_path(const json_t *root, const char *path);
// Replaces the value at a path; every part but the last must exist. Steals `value`.
bool json_path_set(json_t *root, const char *path, json_t *value);

// A copy of a text in which bytes that are no UTF-8 are U+FFFD, as JSON wants it. The caller frees it;
// NULL when memory is short.
char *json_clean(const char *s);

// A number for JSON; NaN and infinities, which it lacks, become null.
json_t *json_finite(double x);

#endif

// json.c - JSON as the reference writes it, and values at dotted paths.

#include "json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
buffer_add(Buffer *b, const char *s, size_t n)
{
    if (b->failed)
        return;
    if (b->length + n + 1 > b->room) {
        size_t room = (b->length + n + 1) * 2;
        char *text = realloc(b->text, room);
        if (!text) {
            b->failed = true;
            return;
        }
        b->text = text;
        b->room = room;
    }
    memcpy(b->text + b->length, s, n);
    b->length += n;
    b->text[b->length] = 0;
}

void
buffer_puts(Buffer *b, const char *s)
{
    buffer_add(b, s, strlen(s));
}

void
buffer_printf(Buffer *b, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text)
        b->failed = true;
    else
        buffer_add(b, text, (size_t)n);
}

// Digits of "d.ddde+xx" laid out without an exponent.
static void
plain_digits(char out[32], const char *digits, int exponent, bool negative)
{
    int n = (int)strlen(digits), at = 0;
    if (negative)
        out[at++] = '-';
    if (exponent < 0) {
        at += sprintf(out + at, "0.");
        for (int i = -1; i > exponent; i--)
            out[at++] = '0';
        memcpy(out + at, digits, (size_t)n + 1);
        return;
    }
    for (int i = 0; i <= exponent || i < n; i++) {
        if (i == exponent + 1)
            out[at++] = '.';
        out[at++] = i < n ? digits[i] : '0';
    }
    if (exponent + 1 >= n)
        at += sprintf(out + at, ".0");
    out[at] = 0;
}

void
json_number_text(char out[32], double x)
{
    char text[40], digits[24];
    if (!isfinite(x)) {
        strcpy(out, isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity");
        return;
    }
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, fabs(x));
        if (strtod(text, NULL) == fabs(x))
            break;
    }
    char *e = strchr(text, 'e');
    int exponent = atoi(e + 1), n = 0;
    for (char *p = text; p < e; p++) {
        if (*p != '.')
            digits[n++] = *p;
    }
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
    if (exponent >= -4 && exponent < 16) {
        plain_digits(out, digits, exponent, signbit(x));
        return;
    }
    snprintf(out, 32, "%s%c%s%se%c%02d", signbit(x) ? "-" : "", digits[0],
             n > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+',
             abs(exponent) % 1000);
}

static void
write_string(Buffer *b, const char *s)
{
    json_t *v = json_string(s);
    char *text = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    json_decref(v);
    if (!text) {
        b->failed = true;
        return;
    }
    buffer_puts(b, text);
    free(text);
}

static void
write_break(Buffer *b, int indent, int depth)
{
    if (indent <= 0)
        return;
    buffer_puts(b, "\n");
    for (int i = 0; i < indent * depth; i++)
        buffer_puts(b, " ");
}

static void write_value(Buffer *b, const json_t *v, int indent, int depth);

static void
write_object(Buffer *b, const json_t *v, int indent, int depth)
{
    const char *key, *separator = "";
    json_t *item;
    buffer_puts(b, "{");
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        buffer_puts(b, separator);
        write_break(b, indent, depth + 1);
        write_string(b, key);
        buffer_puts(b, indent > 0 ? ": " : ":");
        write_value(b, item, indent, depth + 1);
        separator = ",";
    }
    if (*separator)
        write_break(b, indent, depth);
    buffer_puts(b, "}");
}

static void
write_array(Buffer *b, const json_t *v, int indent, int depth)
{
    size_t n = json_array_size(v);
    buffer_puts(b, "[");
    for (size_t i = 0; i < n; i++) {
        if (i)
            buffer_puts(b, ",");
        write_break(b, indent, depth + 1);
        write_value(b, json_array_get(v, i), indent, depth + 1);
    }
    if (n)
        write_break(b, indent, depth);
    buffer_puts(b, "]");
}

static void
write_value(Buffer *b, const json_t *v, int indent, int depth)
{
    char number[32];
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        write_object(b, v, indent, depth);
        break;
    case JSON_ARRAY:
        write_array(b, v, indent, depth);
        break;
    case JSON_STRING:
        write_string(b, json_string_value(v));
        break;
    case JSON_INTEGER:
        buffer_printf(b, "%lld", (long long)json_integer_value(v));
        break;
    case JSON_REAL:
        json_number_text(number, json_real_value(v));
        buffer_puts(b, number);
        break;
    case JSON_TRUE:
        buffer_puts(b, "true");
        break;
    case JSON_FALSE:
        buffer_puts(b, "false");
        break;
    case JSON_NULL:
        buffer_puts(b, "null");
        break;
    }
}

char *
json_text(const json_t *v, int indent)
{
    Buffer b = {0};
    write_value(&b, v, indent, 0);
    if (b.failed) {
        free(b.text);
        return NULL;
    }
    return b.text;
}

// The part of a path in front of its next dot; NULL when it is too long to be a key.
static const char *
path_part(char room[256], const char *path)
{
    size_t n = strcspn(path, ".");
    if (n >= 256)
        return NULL;
    memcpy(room, path, n);
    room[n] = 0;
    return path[n] == '.' ? path + n + 1 : path + n;
}

static json_t *
part_get(const json_t *v, const char *part)
{
    char *end;
    if (json_is_object(v))
        return json_object_get(v, part);
    if (!json_is_array(v) || part[0] < '0' || part[0] > '9')
        return NULL;
    unsigned long i = strtoul(part, &end, 10);
    return *end ? NULL : json_array_get(v, i);
}

json_t *
json_path(const json_t *root, const char *path)
{
    char part[256];
    json_t *v = (json_t *)(uintptr_t)root;
    while (v && *path) {
        path = path_part(part, path);
        if (!path)
            return NULL;
        v = part_get(v, part);
    }
    return v;
}

bool
json_path_set(json_t *root, const char *path, json_t *value)
{
    char part[256];
    json_t *v = root;
    for (;;) {
        const char *rest = path_part(part, path);
        if (!rest || !v)
            break;
        if (!*rest) {
            if (json_is_object(v))
                return json_object_set_new(v, part, value) == 0;
            if (json_is_array(v) && part_get(v, part))
                return json_array_set_new(v, strtoul(part, NULL, 10), value) == 0;
            break;
        }
        v = part_get(v, part);
        path = rest;
    }
    json_decref(value);
    return false;
}

json_t *
json_finite(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

// Bytes of the UTF-8 character at p, 0 when there is none.
static size_t
utf8_length(const unsigned char *p)
{
    size_t n = *p < 0x80   ? 1
               : *p < 0xc2 ? 0
               : *p < 0xe0 ? 2
               : *p < 0xf0 ? 3
               : *p < 0xf5 ? 4
                           : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = n > 2 && ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xf0 && p[1] < 0x90));
    bool outside = n > 2 && ((*p == 0xed && p[1] > 0x9f) || (*p == 0xf4 && p[1] > 0x8f));
    return overlong || outside ? 0 : n;
}

char *
json_clean(const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    char *copy = malloc(3 * strlen(s) + 1), *at = copy;
    while (copy && *p) {
        size_t n = utf8_length(p);
        memcpy(at, n ? (const char *)p : "\xef\xbf\xbd", n ? n : 3);
        at += n ? n : 3;
        p += n ? n : 1;
    }
    if (copy)
        *at = 0;
    return copy;
}

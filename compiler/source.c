// source.c - source files, places in them, and diagnostics with their source lines.

#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SOURCE = 1 << 30 }; // offsets are 32 bits; a larger file is no model

void
diag_init(Diag *d, Mem *mem)
{
    *d = (Diag){.mem = mem};
    array_push(&mem->perm, &d->sources,
               ((Source){.path = "", .real_path = "", .text = ""}));
}

// ---- recording ----------------------------------------------------------------------

static bool
place_equal(Place a, Place b)
{
    return a.file == b.file && a.offset == b.offset && a.length == b.length;
}

static bool
already_said(const Diag *d, Message m)
{
    for (int i = 0; i < d->messages.n; i++) {
        const Message *o = &d->messages.v[i];
        if (o->severity == m.severity && place_equal(o->place, m.place) &&
            strcmp(o->text, m.text) == 0)
            return true;
    }
    return false;
}

static void
record(Diag *d, Severity s, Place p, const char *fmt, va_list ap)
{
    if (s == SEV_NOTE && d->muted_notes)
        return;
    Message m = {s, p, arena_vprintf(&d->mem->perm, fmt, ap)};
    if (s != SEV_NOTE) {
        d->muted_notes = already_said(d, m);
        if (d->muted_notes)
            return;
    }
    d->errors += s == SEV_ERROR;
    array_push(&d->mem->perm, &d->messages, m);
}

void
diag_error(Diag *d, Place p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    record(d, SEV_ERROR, p, fmt, ap);
    va_end(ap);
}

void
diag_warning(Diag *d, Place p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    record(d, SEV_WARNING, p, fmt, ap);
    va_end(ap);
}

void
diag_note(Diag *d, Place p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    record(d, SEV_NOTE, p, fmt, ap);
    va_end(ap);
}

// ---- places -------------------------------------------------------------------------

static const Source *
place_source(const Diag *d, Place p)
{
    return p.file && p.file < (uint32_t)d->sources.n ? &d->sources.v[p.file] : NULL;
}

const char *
place_path(const Diag *d, Place p)
{
    const Source *s = place_source(d, p);
    return s ? s->path : "";
}

static bool
is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

// Offset of the first byte of the line that holds an offset.
static uint32_t
line_start(const Source *s, uint32_t offset)
{
    uint32_t at = offset < s->length ? offset : s->length;
    while (at > 0 && s->text[at - 1] != '\n')
        at--;
    return at;
}

void
place_line_col(const Diag *d, Place p, int *line, int *col)
{
    *line = *col = 0;
    const Source *s = place_source(d, p);
    if (!s)
        return;
    uint32_t end = p.offset < s->length ? p.offset : s->length;
    uint32_t start = line_start(s, end);
    *line = *col = 1;
    for (uint32_t i = 0; i < start; i++)
        *line += s->text[i] == '\n';
    for (uint32_t i = start; i < end; i++)
        *col += !is_continuation(s->text[i]);
}

const char *
place_text(const Diag *d, Place p, Arena *a)
{
    if (!place_source(d, p))
        return "";
    int line, col;
    place_line_col(d, p, &line, &col);
    return arena_printf(a, "%s:%d:%d", place_path(d, p), line, col);
}

const char *
place_slice(const Diag *d, Place p, Arena *a)
{
    const Source *s = place_source(d, p);
    if (!s || p.offset >= s->length)
        return "";
    uint32_t room = s->length - p.offset;
    return arena_copy(a, s->text + p.offset, p.length < room ? p.length : room);
}

Place
place_join(Place a, Place b)
{
    if (a.file != b.file || !a.file)
        return a.file ? a : b;
    uint32_t start = a.offset < b.offset ? a.offset : b.offset;
    uint32_t end_a = a.offset + a.length, end_b = b.offset + b.length;
    return (Place){a.file, start, (end_a > end_b ? end_a : end_b) - start};
}

// ---- printing -----------------------------------------------------------------------

// Bytes of the UTF-8 character at s (n bytes are left), 0 if it is none.
static size_t
utf8_length(const unsigned char *s, size_t n)
{
    size_t len = s[0] < 0x80                   ? 1
                 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                 : (s[0] & 0xf0) == 0xe0       ? 3
                 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                               : 0;
    if (len == 0 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool too_long = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xed && s[1] >= 0xa0;
    bool too_large = s[0] == 0xf4 && s[1] >= 0x90;
    return too_long || surrogate || too_large ? 0 : len;
}

enum { EXCERPT = 120 }; // characters of a line that are shown

// Adds the characters from..to of a line; what no terminal should see becomes '?'.
static void
add_clean(const Source *s, uint32_t from, uint32_t to, Arena *a, Text *t)
{
    const unsigned char *text = (const unsigned char *)s->text;
    while (from < to) {
        size_t len = utf8_length(text + from, to - from);
        bool clean =
            len && (text[from] >= ' ' || text[from] == '\t') && text[from] != 0x7f;
        if (clean)
            text_add_bytes(a, t, s->text + from, len);
        else
            text_add_bytes(a, t, "?", 1);
        from += len ? (uint32_t)len : 1;
    }
}

// The offset n characters before (or behind) `at`, not beyond `end`.
static uint32_t
step(const Source *s, uint32_t at, int n, uint32_t end)
{
    int by = end < at ? -1 : 1;
    while (at != end && n > 0) {
        at += (uint32_t)by;
        n -= at >= s->length || !is_continuation(s->text[at]);
    }
    return at;
}

// The line of source under a message, with a caret at the place and a wave under the rest
// of it; of a long line the part around the place.
static void
add_excerpt(const Source *s, Place p, int line, Arena *a, Text *t)
{
    uint32_t start = line_start(s, p.offset), end = start;
    while (end < s->length && s->text[end] != '\n')
        end++;
    if (end > start && s->text[end - 1] == '\r')
        end--;
    uint32_t caret = p.offset < end ? p.offset : end;
    uint32_t from = step(s, caret, EXCERPT / 2, start), to = step(s, from, EXCERPT, end);
    text_add(a, t, "%5d | %s", line, from > start ? "..." : "");
    add_clean(s, from, to, a, t);
    text_add(a, t, "%s\n      | %s", to < end ? "..." : "", from > start ? "   " : "");
    uint32_t at = from;
    for (; at < p.offset && at < to; at++)
        if (!is_continuation(s->text[at]))
            text_add(a, t, "%c", s->text[at] == '\t' ? '\t' : ' ');
    text_add(a, t, "^");
    for (at++; at < p.offset + p.length && at < to; at++)
        if (!is_continuation(s->text[at]))
            text_add(a, t, "~");
    text_add(a, t, "\n");
}

const char *
diag_text(const Diag *d, Arena *a)
{
    static const char *const names[] = {"error", "warning", "note"};
    Text t = {0};
    text_add(a, &t, "%s", "");
    for (int i = 0; i < d->messages.n; i++) {
        const Message *m = &d->messages.v[i];
        const Source *s = place_source(d, m->place);
        int line, col;
        place_line_col(d, m->place, &line, &col);
        if (s)
            text_add(a, &t, "%s:%d:%d: ", s->path, line, col);
        text_add(a, &t, "%s: %s\n", names[m->severity], m->text);
        if (s && m->severity != SEV_NOTE)
            add_excerpt(s, m->place, line, a, &t);
    }
    return t.v;
}

void
diag_print(const Diag *d, FILE *to)
{
    Arena a = {0};
    fputs(diag_text(d, &a), to);
    arena_reset(&a);
}

// ---- reading ------------------------------------------------------------------------

uint32_t
source_add(Diag *d, const char *path, const char *real_path, const char *text,
           size_t length)
{
    Source s = {path, real_path, text, (uint32_t)length};
    array_push(&d->mem->perm, &d->sources, s);
    return (uint32_t)d->sources.n - 1;
}

bool
source_check(Diag *d, uint32_t file)
{
    const Source *s = &d->sources.v[file];
    const unsigned char *text = (const unsigned char *)s->text;
    for (uint32_t i = 0; i < s->length;) {
        Place here = {file, i, 1};
        size_t len = utf8_length(text + i, s->length - i);
        if (text[i] == 0) {
            diag_error(d, here, "a NUL byte in the text");
            return false;
        }
        if (len == 0) {
            diag_error(d, here, "byte 0x%02x is not UTF-8", text[i]);
            return false;
        }
        i += (uint32_t)len;
    }
    return true;
}

// The bytes of a regular file, NUL-terminated, in perm; NULL and errno otherwise.
static char *
read_file(Mem *mem, const char *path, size_t *length)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0)
        return NULL;
    int fault = fstat(fd, &st) < 0        ? errno
                : S_ISDIR(st.st_mode)     ? EISDIR
                : !S_ISREG(st.st_mode)    ? EINVAL
                : st.st_size > MAX_SOURCE ? EFBIG
                                          : 0;
    char *text = NULL;
    size_t n = 0;
    if (!fault) {
        text = arena_alloc(&mem->perm, (size_t)st.st_size + 1);
        while (n < (size_t)st.st_size) {
            ssize_t got = read(fd, text + n, (size_t)st.st_size - n);
            if (got < 0 && errno == EINTR)
                continue;
            if (got < 0)
                fault = errno;
            if (got <= 0)
                break;
            n += (size_t)got;
        }
    }
    close(fd);
    *length = n;
    errno = fault;
    return fault ? NULL : text;
}

uint32_t
source_read(Diag *d, const char *path, Place from)
{
    Mem *mem = d->mem;
    size_t length = 0;
    char *text = read_file(mem, path, &length);
    if (!text) {
        const char *why = errno == EINVAL  ? "it is not a regular file"
                          : errno == EFBIG ? "it is larger than 1 GiB"
                                           : strerror(errno);
        diag_error(d, from, "cannot read '%s': %s", path, why);
        return 0;
    }
    char *real = realpath(path, NULL);
    const char *name = mem_intern_str(mem, path);
    uint32_t file =
        source_add(d, name, real ? mem_intern_str(mem, real) : name, text, length);
    free(real);
    return source_check(d, file) ? file : 0;
}

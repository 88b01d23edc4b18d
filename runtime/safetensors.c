// safetensors.c - named tensors in a file: a strict reader and an atomic writer.
//
// Format: 8 bytes little-endian header length, a JSON object {name: {dtype, shape,
// data_offsets}}, the data. The reader trusts nothing: every extent is checked against
// the size of the file before a byte of data is read, and the tensors must cover the data
// exactly, without overlap or hole.

#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"

enum { HEADER_LIMIT = 100000000, ALIGN = 64 };

static const struct {
    const char *name;
    uint8_t size;
} types[PCVR_T_COUNT] = {
    [PCVR_T_BOOL] = {"BOOL", 1}, [PCVR_T_U8] = {"U8", 1},   [PCVR_T_I8] = {"I8", 1},
    [PCVR_T_I16] = {"I16", 2},   [PCVR_T_U16] = {"U16", 2}, [PCVR_T_F16] = {"F16", 2},
    [PCVR_T_BF16] = {"BF16", 2}, [PCVR_T_I32] = {"I32", 4}, [PCVR_T_U32] = {"U32", 4},
    [PCVR_T_F32] = {"F32", 4},   [PCVR_T_F64] = {"F64", 8}, [PCVR_T_I64] = {"I64", 8},
    [PCVR_T_U64] = {"U64", 8},
};

const char *
pcvr_type_name(PcvrType type)
{
    return types[type].name;
}

size_t
pcvr_type_size(PcvrType type)
{
    return types[type].size;
}

// One tensor of the header, before its data is placed.
typedef struct Entry {
    const char *name; // inside the JSON tree
    PcvrType type;
    int rank;
    json_t *shape;
    size_t begin, end, count;
} Entry;

static bool
entry_type(const char *text, PcvrType *type)
{
    for (int i = 0; i < PCVR_T_COUNT; i++) {
        if (!strcmp(text, types[i].name)) {
            *type = (PcvrType)i;
            return true;
        }
    }
    return false;
}

// The number of elements, or false where it overflows or an extent is no natural number.
static bool
entry_count(Entry *e)
{
    size_t n = 1;
    e->rank = (int)json_array_size(e->shape);
    for (int i = 0; i < e->rank; i++) {
        json_t *extent = json_array_get(e->shape, (size_t)i);
        if (!json_is_integer(extent) || json_integer_value(extent) < 0)
            return false;
        if (__builtin_mul_overflow(n, (size_t)json_integer_value(extent), &n))
            return false;
    }
    e->count = n;
    return n <= SIZE_MAX / 8;
}

static bool
entry_read(Entry *e, const char *name, json_t *v, const char *label, PcvrError *err)
{
    json_t *dtype = json_object_get(v, "dtype"),
           *offsets = json_object_get(v, "data_offsets");
    e->name = name;
    e->shape = json_object_get(v, "shape");
    if (!json_is_object(v) || json_object_size(v) != 3 || !json_is_string(dtype) ||
        !json_is_array(e->shape) || !json_is_array(offsets) ||
        json_array_size(offsets) != 2)
        return pcvr_fail(
            err, "%s: tensor '%s': expected exactly dtype, shape and data_offsets", label,
            name);
    if (!entry_type(json_string_value(dtype), &e->type))
        return pcvr_fail(err, "%s: tensor '%s': unknown dtype '%s'", label, name,
                         json_string_value(dtype));
    if (json_array_size(e->shape) > 64 || !entry_count(e))
        return pcvr_fail(err, "%s: tensor '%s': bad shape", label, name);
    json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (!json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 ||
        json_integer_value(end) < json_integer_value(begin))
        return pcvr_fail(err, "%s: tensor '%s': bad data_offsets", label, name);
    e->begin = (size_t)json_integer_value(begin);
    e->end = (size_t)json_integer_value(end);
    if (e->end - e->begin != e->count * types[e->type].size)
        return pcvr_fail(err,
                         "%s: tensor '%s': %zu elements of %s take %zu bytes, found %zu",
                         label, name, e->count, types[e->type].name,
                         e->count * types[e->type].size, e->end - e->begin);
    return true;
}

static int
entry_order(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool
metadata_check(json_t *v, const char *label, PcvrError *err)
{
    const char *key;
    json_t *text;
    if (!json_is_object(v))
        return pcvr_fail(err, "%s: __metadata__ is not an object", label);
    json_object_foreach(v, key, text)
    {
        if (!json_is_string(text))
            return pcvr_fail(err, "%s: __metadata__ '%s' is not a string", label, key);
    }
    return true;
}

// All entries sorted by place; `size` is the length of the data behind the header.
static bool
entries_read(Entry **out, size_t *n_out, json_t *root, size_t size, const char *label,
             PcvrError *err)
{
    const char *key;
    json_t *value;
    size_t n = 0, at = 0;
    Entry *entries = calloc(json_object_size(root) + 1, sizeof *entries);
    bool ok = entries || pcvr_fail(err, "%s: out of memory", label);
    if (ok) {
        json_object_foreach(root, key, value)
        {
            if (!strcmp(key, "__metadata__"))
                ok = metadata_check(value, label, err);
            else
                ok = entry_read(&entries[n++], key, value, label, err);
            if (!ok)
                break;
        }
    }
    if (ok && n)
        qsort(entries, n, sizeof *entries, entry_order);
    for (size_t i = 0; ok && i < n; i++) {
        const Entry *e = &entries[i];
        if (e->end > size)
            ok = pcvr_fail(err, "%s: tensor '%s': ends at %zu of %zu data bytes", label,
                           e->name, e->end, size);
        else if (e->begin < at)
            ok = pcvr_fail(err, "%s: tensor '%s': overlaps tensor '%s'", label, e->name,
                           entries[i - 1].name);
        else if (e->begin > at)
            ok = pcvr_fail(err, "%s: tensor '%s': a hole of %zu bytes before it", label,
                           e->name, e->begin - at);
        at = e->end;
    }
    if (ok && at != size)
        ok = pcvr_fail(err, "%s: %zu bytes behind the last tensor", label, size - at);
    if (!ok) {
        free(entries);
        return false;
    }
    *out = entries;
    *n_out = n;
    return true;
}

static json_t *
header_parse(const char *text, size_t n, const char *label, PcvrError *err)
{
    json_error_t where;
    if (n == 0 || text[0] != '{') {
        pcvr_fail(err, "%s: the header is not a JSON object", label);
        return NULL;
    }
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        pcvr_fail(err, "%s: header: %s", label, where.text);
    return root;
}

static size_t
align_up(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

// Copies names and shapes into one block and lays the data out, each tensor aligned.
static bool
tensors_place(PcvrTensors *out, const Entry *entries, size_t n, const char *label,
              PcvrError *err)
{
    size_t names = 0, dims = 0, data = 0;
    for (size_t i = 0; i < n; i++) {
        names += strlen(entries[i].name) + 1;
        dims += (size_t)entries[i].rank;
        data += align_up(entries[i].end - entries[i].begin);
    }
    out->count = n;
    out->data_bytes = data;
    out->tensors = calloc(n + 1, sizeof *out->tensors);
    out->memory = malloc(dims * sizeof(int64_t) + names + 1);
    out->data = aligned_alloc(ALIGN, data + ALIGN);
    if (!out->tensors || !out->memory || !out->data)
        return pcvr_fail(err, "%s: out of memory for %zu bytes", label, data);
    int64_t *shape = out->memory;
    char *name = (char *)(shape + dims);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const Entry *e = &entries[i];
        PcvrTensor *t = &out->tensors[i];
        size_t length = strlen(e->name) + 1;
        *t = (PcvrTensor){.name = name,
                          .type = e->type,
                          .rank = e->rank,
                          .shape = shape,
                          .count = e->count,
                          .bytes = e->end - e->begin,
                          .data = (char *)out->data + at};
        memcpy(name, e->name, length);
        for (int k = 0; k < e->rank; k++)
            shape[k] = json_integer_value(json_array_get(e->shape, (size_t)k));
        name += length;
        shape += e->rank;
        at += align_up(t->bytes);
    }
    return true;
}

// Where the bytes come from: a file or memory.
typedef struct Source {
    int fd;
    const char *bytes;
    size_t size;
    const char *label;
} Source;

static bool
source_get(const Source *s, size_t at, void *to, size_t n, PcvrError *err)
{
    char *p = to;
    if (s->bytes) {
        if (n)
            memcpy(to, s->bytes + at, n);
        return true;
    }
    while (n > 0) {
        ssize_t k = pread(s->fd, p, n, (off_t)at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return pcvr_fail(err, "%s: read failed: %s", s->label,
                             k < 0 ? strerror(errno) : "the file became shorter");
        p += k;
        at += (size_t)k;
        n -= (size_t)k;
    }
    return true;
}

static bool
source_header(const Source *s, char **text, size_t *length, PcvrError *err)
{
    unsigned char raw[8];
    uint64_t n = 0;
    if (s->size < 8)
        return pcvr_fail(err, "%s: %zu bytes are no safetensors file", s->label, s->size);
    if (!source_get(s, 0, raw, 8, err))
        return false;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | raw[i];
    if (n > HEADER_LIMIT || n > s->size - 8)
        return pcvr_fail(err, "%s: a header of %llu bytes in a file of %zu", s->label,
                         (unsigned long long)n, s->size);
    *length = (size_t)n;
    *text = malloc(*length + 1);
    if (!*text)
        return pcvr_fail(err, "%s: out of memory", s->label);
    return source_get(s, 8, *text, *length, err);
}

static bool
source_read(PcvrTensors *out, const Source *s, PcvrError *err)
{
    char *text = NULL;
    size_t length = 0, n = 0;
    Entry *entries = NULL;
    json_t *root = NULL;
    *out = (PcvrTensors){0};
    bool ok = source_header(s, &text, &length, err) &&
              (root = header_parse(text, length, s->label, err)) &&
              entries_read(&entries, &n, root, s->size - 8 - length, s->label, err) &&
              tensors_place(out, entries, n, s->label, err);
    size_t at = 8 + length;
    for (size_t i = 0; ok && i < n; i++) {
        ok = source_get(s, at, (void *)(uintptr_t)out->tensors[i].data,
                        out->tensors[i].bytes, err);
        at += out->tensors[i].bytes;
    }
    free(text);
    free(entries);
    json_decref(root);
    if (!ok)
        pcvr_safetensors_free(out);
    return ok;
}

bool
pcvr_safetensors_read(PcvrTensors *out, const char *path, PcvrError *err)
{
    struct stat st;
    bool ok;
    *out = (PcvrTensors){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return pcvr_fail(err, "%s: cannot read: %s", path, strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        ok = pcvr_fail(err, "%s: not a regular file", path);
    } else {
        Source s = {.fd = fd, .size = (size_t)st.st_size, .label = path};
        ok = source_read(out, &s, err);
    }
    close(fd);
    return ok;
}

bool
pcvr_safetensors_parse(PcvrTensors *out, const void *bytes, size_t n, const char *label,
                       PcvrError *err)
{
    Source s = {.fd = -1, .bytes = bytes, .size = n, .label = label};
    return source_read(out, &s, err);
}

void
pcvr_safetensors_free(PcvrTensors *t)
{
    free(t->tensors);
    free(t->memory);
    free(t->data);
    *t = (PcvrTensors){0};
}

const PcvrTensor *
pcvr_safetensors_find(const PcvrTensors *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++) {
        if (!strcmp(t->tensors[i].name, name))
            return &t->tensors[i];
    }
    return NULL;
}

static void
shape_text(char *to, size_t room, int rank, const int64_t *shape)
{
    size_t at = 0;
    int k = snprintf(to, room, "[");
    for (int i = 0; k >= 0 && i < rank && (at += (size_t)k) < room; i++)
        k = snprintf(to + at, room - at, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (k >= 0 && (at += (size_t)k) < room)
        snprintf(to + at, room - at, "]");
}

const PcvrTensor *
pcvr_safetensors_want(const PcvrTensors *t, const char *name, PcvrType type, int rank,
                      const int64_t *shape, PcvrError *err)
{
    const PcvrTensor *found = pcvr_safetensors_find(t, name);
    if (!found) {
        pcvr_fail(err, "tensor '%s' is missing", name);
        return NULL;
    }
    if (found->type != type) {
        pcvr_fail(err, "tensor '%s': expected dtype %s, found %s", name, types[type].name,
                  types[found->type].name);
        return NULL;
    }
    bool same = rank < 0 || found->rank == rank;
    for (int i = 0; same && i < rank; i++)
        same = found->shape[i] == shape[i];
    if (!same) {
        char want[256], have[256];
        shape_text(want, sizeof want, rank, shape);
        shape_text(have, sizeof have, found->rank, found->shape);
        pcvr_fail(err, "tensor '%s': expected shape %s, found %s", name, want, have);
        return NULL;
    }
    return found;
}

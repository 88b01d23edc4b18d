// safetensors_write.c - writes named tensors, byte for byte as the format's reference
// writer.
//
// Wider types come first and names ascend inside a type; the header is padded with blanks
// to a multiple of eight, so every tensor is aligned in the file.

#include "safetensors.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"

typedef struct Text {
    char *bytes;
    size_t length, room;
    bool failed;
} Text;

static void
text_add(Text *t, const char *s, size_t n)
{
    if (t->failed)
        return;
    if (t->length + n + 1 > t->room) {
        size_t room = (t->length + n + 1) * 2;
        char *bytes = realloc(t->bytes, room);
        if (!bytes) {
            t->failed = true;
            return;
        }
        t->bytes = bytes;
        t->room = room;
    }
    memcpy(t->bytes + t->length, s, n);
    t->length += n;
}

static void
text_puts(Text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

static void
text_number(Text *t, long long v)
{
    char s[32];
    text_add(t, s, (size_t)snprintf(s, sizeof s, "%lld", v));
}

static int
name_order(const void *a, const void *b)
{
    const PcvrTensor *x = *(const PcvrTensor *const *)a,
                     *y = *(const PcvrTensor *const *)b;
    return strcmp(x->name, y->name);
}

static int
write_order(const void *a, const void *b)
{
    const PcvrTensor *x = *(const PcvrTensor *const *)a,
                     *y = *(const PcvrTensor *const *)b;
    if (x->type != y->type)
        return x->type > y->type ? -1 : 1;
    return name_order(a, b);
}

static size_t
tensor_bytes(const PcvrTensor *t)
{
    size_t n = pcvr_type_size(t->type);
    for (int i = 0; i < t->rank; i++)
        n *= (size_t)t->shape[i];
    return n;
}

static void
header_entry(Text *h, const PcvrTensor *t, size_t at)
{
    json_t *name = json_string(t->name);
    char *quoted = name ? json_dumps(name, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    json_decref(name);
    if (!quoted) {
        h->failed = true;
        return;
    }
    text_puts(h, quoted);
    free(quoted);
    text_puts(h, ":{\"dtype\":\"");
    text_puts(h, pcvr_type_name(t->type));
    text_puts(h, "\",\"shape\":[");
    for (int i = 0; i < t->rank; i++) {
        if (i)
            text_puts(h, ",");
        text_number(h, (long long)t->shape[i]);
    }
    text_puts(h, "],\"data_offsets\":[");
    text_number(h, (long long)at);
    text_puts(h, ",");
    text_number(h, (long long)(at + tensor_bytes(t)));
    text_puts(h, "]}");
}

static bool
header_text(Text *h, const PcvrTensor **sorted, size_t n)
{
    size_t at = 0;
    text_puts(h, "{");
    for (size_t i = 0; i < n; i++) {
        if (i)
            text_puts(h, ",");
        header_entry(h, sorted[i], at);
        at += tensor_bytes(sorted[i]);
    }
    text_puts(h, "}");
    while (!h->failed && h->length % 8)
        text_puts(h, " ");
    return !h->failed;
}

static bool
all_write(const char *path, const Text *h, const PcvrTensor **sorted, size_t n,
          PcvrError *err)
{
    PcvrOut out;
    unsigned char raw[8];
    for (int i = 0; i < 8; i++)
        raw[i] = (unsigned char)((uint64_t)h->length >> (8 * i));
    if (!pcvr_out_open(&out, path, err))
        return false;
    bool ok = pcvr_out_write(&out, raw, 8, err) &&
              pcvr_out_write(&out, h->bytes, h->length, err);
    for (size_t i = 0; ok && i < n; i++)
        ok = pcvr_out_write(&out, sorted[i]->data, tensor_bytes(sorted[i]), err);
    if (!ok) {
        pcvr_out_abort(&out);
        return false;
    }
    return pcvr_out_commit(&out, err);
}

bool
pcvr_safetensors_write(const char *path, const PcvrTensor *tensors, size_t n,
                       PcvrError *err)
{
    Text header = {0};
    bool ok = true;
    const PcvrTensor **sorted = malloc((n + 1) * sizeof *sorted);
    if (!sorted)
        return pcvr_fail(err, "%s: out of memory", path);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &tensors[i];
    qsort(sorted, n, sizeof *sorted, name_order);
    for (size_t i = 1; ok && i < n; i++) {
        if (!strcmp(sorted[i - 1]->name, sorted[i]->name))
            ok = pcvr_fail(err, "%s: two tensors named '%s'", path, sorted[i]->name);
    }
    qsort(sorted, n, sizeof *sorted, write_order);
    if (ok && !header_text(&header, sorted, n))
        ok = pcvr_fail(err, "%s: cannot write the header (a name that is not UTF-8?)",
                       path);
    ok = ok && all_write(path, &header, sorted, n, err);
    free(header.bytes);
    free(sorted);
    return ok;
}

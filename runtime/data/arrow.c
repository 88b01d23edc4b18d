// arrow.c - decodes columns of the Arrow C data interface.
//
// Dictionaries, views, run-end encoding and nested lists are not read; their names are
// known, so that a message can say what was found.

#include "arrow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct TypeName {
    const char *format, *name;
    int element; // -1: not read
    int64_t bytes;
} TypeName;

static const TypeName type_names[] = {
    {"n", "null", ARROW_NULLS, 0},
    {"c", "int8", ARROW_I8, 1},
    {"s", "int16", ARROW_I16, 2},
    {"i", "int32", ARROW_I32, 4},
    {"l", "int64", ARROW_I64, 8},
    {"C", "uint8", ARROW_U8, 1},
    {"S", "uint16", ARROW_U16, 2},
    {"I", "uint32", ARROW_U32, 4},
    {"L", "uint64", ARROW_U64, 8},
    {"f", "float", ARROW_F32, 4},
    {"g", "double", ARROW_F64, 8},
    {"u", "string", ARROW_TEXT32, 4},
    {"z", "binary", ARROW_TEXT32, 4},
    {"U", "large_string", ARROW_TEXT64, 8},
    {"Z", "large_binary", ARROW_TEXT64, 8},
    {"b", "bool", -1, 0},
    {"e", "halffloat", -1, 0},
    {"vu", "string_view", -1, 0},
    {"vz", "binary_view", -1, 0},
    {"+s", "struct", -1, 0},
    {"+m", "map", -1, 0},
    {"+r", "run_end_encoded", -1, 0},
};

// Formats that go on behind these prefixes.
static const TypeName type_prefixes[] = {
    {"w:", "fixed_size_binary", -1, 0},
    {"d:", "decimal", -1, 0},
    {"td", "date", -1, 0},
    {"tt", "time", -1, 0},
    {"ts", "timestamp", -1, 0},
    {"tD", "duration", -1, 0},
    {"ti", "interval", -1, 0},
    {"+u", "union", -1, 0},
};

static const TypeName *
find_type(const char *format)
{
    static const TypeName unknown = {"", "a type unknown to this reader", -1, 0};
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++)
        if (!strcmp(format, type_names[i].format))
            return &type_names[i];
    for (size_t i = 0; i < sizeof type_prefixes / sizeof *type_prefixes; i++)
        if (!strncmp(format, type_prefixes[i].format, 2))
            return &type_prefixes[i];
    return &unknown;
}

// Lists: the name of the list's kind, or NULL. form is -1 for kinds that are not read.
static const char *
find_list(const char *format, int *form, int64_t *fixed)
{
    *form = -1;
    if (!strcmp(format, "+l")) {
        *form = ARROW_LIST32;
        return "list";
    }
    if (!strcmp(format, "+L")) {
        *form = ARROW_LIST64;
        return "large_list";
    }
    if (!strncmp(format, "+w:", 3)) {
        *fixed = strtoll(format + 3, NULL, 10);
        *form = *fixed >= 0 && *fixed <= INT32_MAX ? ARROW_FIXED_LIST : -1;
        return "fixed_size_list";
    }
    if (!strcmp(format, "+vl"))
        return "list_view";
    return strcmp(format, "+vL") ? NULL : "large_list_view";
}

bool
arrow_type_read(const struct ArrowSchema *s, ArrowType *out, char *name, size_t name_size)
{
    int form;
    const char *format = s->format ? s->format : "";
    *out = (ArrowType){ARROW_SCALAR, ARROW_NULLS, 0};
    if (s->dictionary) {
        snprintf(name, name_size, "dictionary<%s>",
                 find_type(s->dictionary->format)->name);
        return false;
    }
    const char *list = find_list(format, &form, &out->fixed);
    if (!list) {
        const TypeName *t = find_type(format);
        snprintf(name, name_size, "%s", t->name);
        out->element = t->element < 0 ? ARROW_NULLS : (ArrowElement)t->element;
        return t->element >= 0;
    }
    if (s->n_children != 1 || !s->children[0]->format) {
        snprintf(name, name_size, "%s", list);
        return false;
    }
    int inner;
    int64_t skip;
    const struct ArrowSchema *child = s->children[0];
    const char *inner_list = find_list(child->format, &inner, &skip);
    const TypeName *t = find_type(child->format);
    snprintf(name, name_size, "%s<%s%s>", list, child->dictionary ? "dictionary of " : "",
             inner_list ? inner_list : t->name);
    if (form < 0 || inner_list || child->dictionary || t->element < 0)
        return false;
    out->form = (ArrowForm)form;
    out->element = (ArrowElement)t->element;
    return out->element < ARROW_TEXT32;
}

static int64_t
element_bytes(ArrowElement e)
{
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++)
        if (type_names[i].element == (int)e)
            return type_names[i].bytes;
    return 0;
}

static int64_t
offset_at(const ArrowColumn *c, bool wide, int64_t i)
{
    return wide ? ((const int64_t *)c->offsets)[c->row_offset + i]
                : ((const int32_t *)c->offsets)[c->row_offset + i];
}

static bool
check_offsets(const ArrowColumn *c, bool wide, int64_t limit)
{
    if (!c->rows)
        return true;
    if (!c->offsets)
        return false;
    int64_t last = offset_at(c, wide, 0);
    if (last < 0)
        return false;
    for (int64_t i = 1; i <= c->rows; i++) {
        int64_t next = offset_at(c, wide, i);
        if (next < last)
            return false;
        last = next;
    }
    return last <= limit;
}

// Fills what belongs to the elements: values or texts, and which of them are null.
static bool
read_elements(const struct ArrowArray *a, ArrowElement e, ArrowColumn *c)
{
    c->elements = a->length;
    c->element_offset = a->offset;
    if (a->length < 0 || a->offset < 0 || a->dictionary)
        return false;
    if (e == ARROW_NULLS)
        return true;
    if (a->n_buffers < 2)
        return false;
    c->element_valid = a->null_count == 0 ? NULL : a->buffers[0];
    c->data = a->buffers[1];
    return c->data || !a->length;
}

bool
arrow_column_read(const struct ArrowArray *a, const ArrowType *t, ArrowColumn *c)
{
    *c = (ArrowColumn){.type = *t, .rows = a->length, .row_offset = a->offset};
    if (a->length < 0 || a->offset < 0)
        return false;
    if (t->form == ARROW_SCALAR && t->element >= ARROW_TEXT32) {
        if (a->n_buffers != 3)
            return false;
        c->row_valid = a->null_count == 0 ? NULL : a->buffers[0];
        c->offsets = a->buffers[1];
        c->data = a->buffers[2];
        c->elements = a->length;
        return check_offsets(c, t->element == ARROW_TEXT64, INT64_MAX);
    }
    if (t->form == ARROW_SCALAR) {
        bool ok = read_elements(a, t->element, c);
        c->row_valid = c->element_valid;
        return ok;
    }
    if (a->n_children != 1 || a->n_buffers < 1 ||
        !read_elements(a->children[0], t->element, c))
        return false;
    c->row_valid = a->null_count == 0 ? NULL : a->buffers[0];
    if (t->form == ARROW_FIXED_LIST)
        return !t->fixed || a->offset + a->length <= c->elements / t->fixed;
    if (a->n_buffers != 2)
        return false;
    c->offsets = a->buffers[1];
    return check_offsets(c, t->form == ARROW_LIST64, c->elements);
}

int64_t
arrow_column_bytes(const ArrowColumn *c)
{
    int64_t offsets =
        c->type.form == ARROW_LIST32 || c->type.form == ARROW_LIST64 ? 8 : 0;
    int64_t text = 0;
    if (c->type.element >= ARROW_TEXT32 && c->rows)
        text = offset_at(c, c->type.element == ARROW_TEXT64, c->rows) -
               offset_at(c, c->type.element == ARROW_TEXT64, 0);
    return c->rows * offsets + c->elements * element_bytes(c->type.element) + text;
}

static bool
bit_at(const uint8_t *bits, int64_t i)
{
    return bits[i >> 3] >> (i & 7) & 1;
}

bool
arrow_is_null(const ArrowColumn *c, int64_t row)
{
    if (c->type.form == ARROW_SCALAR && c->type.element == ARROW_NULLS)
        return true;
    return c->row_valid && !bit_at(c->row_valid, c->row_offset + row);
}

int64_t
arrow_list(const ArrowColumn *c, int64_t row, int64_t *first)
{
    *first = 0;
    if (arrow_is_null(c, row))
        return 0;
    if (c->type.form == ARROW_FIXED_LIST) {
        *first = (c->row_offset + row) * c->type.fixed;
        return c->type.fixed;
    }
    if (c->type.form == ARROW_SCALAR) {
        *first = row;
        return 1;
    }
    bool wide = c->type.form == ARROW_LIST64;
    *first = offset_at(c, wide, row);
    return offset_at(c, wide, row + 1) - *first;
}

static int64_t
float_to_int(double d)
{
    if (isnan(d))
        return 0;
    if (d >= 9223372036854775807.0)
        return INT64_MAX;
    return d <= -9223372036854775808.0 ? INT64_MIN : (int64_t)d;
}

#define COPY_INTS(type)                                                                  \
    for (int64_t i = 0; i < n; i++)                                                      \
        out[i] = ((const type *)c->data)[at + i];                                        \
    break

void
arrow_ints(const ArrowColumn *c, int64_t first, int64_t n, int64_t *out)
{
    int64_t at = first + c->element_offset;
    switch (c->type.element) {
    case ARROW_I8:
        COPY_INTS(int8_t);
    case ARROW_I16:
        COPY_INTS(int16_t);
    case ARROW_I32:
        COPY_INTS(int32_t);
    case ARROW_I64:
        COPY_INTS(int64_t);
    case ARROW_U8:
        COPY_INTS(uint8_t);
    case ARROW_U16:
        COPY_INTS(uint16_t);
    case ARROW_U32:
        COPY_INTS(uint32_t);
    case ARROW_U64:
        for (int64_t i = 0; i < n; i++) {
            uint64_t v = ((const uint64_t *)c->data)[at + i];
            out[i] = v > INT64_MAX ? INT64_MAX : (int64_t)v;
        }
        break;
    case ARROW_F32:
        for (int64_t i = 0; i < n; i++)
            out[i] = float_to_int((double)((const float *)c->data)[at + i]);
        break;
    case ARROW_F64:
        for (int64_t i = 0; i < n; i++)
            out[i] = float_to_int(((const double *)c->data)[at + i]);
        break;
    case ARROW_NULLS:
    case ARROW_TEXT32:
    case ARROW_TEXT64:
        for (int64_t i = 0; i < n; i++)
            out[i] = 0;
        break;
    }
    for (int64_t i = 0; i < n && c->element_valid; i++)
        if (!bit_at(c->element_valid, at + i))
            out[i] = 0;
}

void
arrow_floats(const ArrowColumn *c, int64_t first, int64_t n, float *out, uint8_t *missing)
{
    int64_t at = first + c->element_offset;
    bool nulls = c->type.element == ARROW_NULLS;
    for (int64_t i = 0; i < n; i++)
        missing[i] = nulls || (c->element_valid && !bit_at(c->element_valid, at + i));
    for (int64_t i = 0; i < n; i++) {
        int64_t whole = 0;
        if (missing[i])
            out[i] = 0.0f;
        else if (c->type.element == ARROW_F32)
            out[i] = ((const float *)c->data)[at + i];
        else if (c->type.element == ARROW_F64)
            out[i] = (float)((const double *)c->data)[at + i];
        else {
            arrow_ints(c, first + i, 1, &whole);
            out[i] = (float)whole;
        }
    }
}

const char *
arrow_text(const ArrowColumn *c, int64_t row, int64_t *n)
{
    bool wide = c->type.element == ARROW_TEXT64;
    int64_t first = offset_at(c, wide, row);
    *n = offset_at(c, wide, row + 1) - first;
    return *n ? (const char *)c->data + first : "";
}

// builder.c - builds columns row by row and hands them to the Parquet library.
//
// The library is done with the arrays when its call returns, so that they keep
// belonging to the builder and releasing them only marks them.

#include "builder.h"

#include <stdlib.h>
#include <string.h>

static size_t
value_size(BuilderKind kind)
{
    return kind == BUILD_TEXT                                ? 1
           : kind == BUILD_INT32 || kind == BUILD_FLOAT_LIST ? 4
                                                             : 8;
}

static bool
has_offsets(const Builder *b)
{
    return b->kind >= BUILD_TEXT;
}

bool
table_init(Table *t, int n)
{
    *t = (Table){calloc((size_t)n, sizeof(Builder)), n, false};
    return t->columns;
}

bool
table_column(Table *t, int column, BuilderKind kind, const char *name)
{
    Builder *b = &t->columns[column];
    b->kind = kind;
    b->name = strdup(name);
    return b->name;
}

void
table_reset(Table *t)
{
    for (int i = 0; i < t->n; i++)
        t->columns[i].rows = t->columns[i].nulls = t->columns[i].n_values = 0;
}

void
table_free(Table *t)
{
    for (int i = 0; i < t->n && t->columns; i++) {
        free(t->columns[i].name);
        free(t->columns[i].offsets);
        free(t->columns[i].valid);
        free(t->columns[i].values);
    }
    free(t->columns);
    *t = (Table){NULL, 0, false};
}

// Room for n more values; NULL and the table marked when memory is short.
static void *
value_slot(Table *t, Builder *b, size_t n)
{
    size_t size = value_size(b->kind);
    if ((size_t)b->n_values + n > b->value_room) {
        size_t room = 2 * b->value_room + n + 64;
        void *bigger = realloc(b->values, room * size);
        if (!bigger) {
            t->failed = true;
            return NULL;
        }
        b->values = bigger;
        b->value_room = room;
    }
    void *slot = (char *)b->values + (size_t)b->n_values * size;
    b->n_values += (int64_t)n;
    return slot;
}

// Ends a row: its validity and, for lists and texts, where its values end.
static void
end_row(Table *t, Builder *b, bool valid)
{
    size_t row = (size_t)b->rows;
    if (row + 1 >= b->row_room) {
        size_t room = 2 * b->row_room + 256;
        int32_t *offsets = realloc(b->offsets, (room + 1) * sizeof *offsets);
        b->offsets = offsets ? offsets : b->offsets;
        uint8_t *bits = realloc(b->valid, room / 8 + 1);
        b->valid = bits ? bits : b->valid;
        if (!offsets || !bits) {
            t->failed = true;
            return;
        }
        b->row_room = room;
    }
    if (b->n_values > INT32_MAX) {
        t->failed = true;
        return;
    }
    b->offsets[0] = 0;
    b->offsets[row + 1] = (int32_t)b->n_values;
    if (valid)
        b->valid[row / 8] |= (uint8_t)(1u << row % 8);
    else
        b->valid[row / 8] &= (uint8_t) ~(1u << row % 8);
    b->nulls += !valid;
    b->rows++;
}

void
put_element(Table *t, int column, int64_t value)
{
    Builder *b = &t->columns[column];
    int32_t narrow = (int32_t)value;
    void *slot = value_slot(t, b, 1);
    if (slot && b->kind == BUILD_INT32)
        memcpy(slot, &narrow, sizeof narrow);
    else if (slot)
        memcpy(slot, &value, sizeof value);
}

void
put_float(Table *t, int column, float value)
{
    void *slot = value_slot(t, &t->columns[column], 1);
    if (slot)
        memcpy(slot, &value, sizeof value);
}

void
put_int(Table *t, int column, int64_t value)
{
    put_element(t, column, value);
    end_row(t, &t->columns[column], true);
}

void
put_null(Table *t, int column)
{
    Builder *b = &t->columns[column];
    if (!has_offsets(b))
        put_element(t, column, 0);
    end_row(t, b, false);
}

void
put_text(Table *t, int column, const char *text)
{
    size_t n = strlen(text);
    Builder *b = &t->columns[column];
    void *slot = value_slot(t, b, n);
    if (slot)
        memcpy(slot, text, n);
    end_row(t, b, true);
}

void
put_list(Table *t, int column)
{
    end_row(t, &t->columns[column], true);
}

static void
release_schema(struct ArrowSchema *s)
{
    for (int64_t i = 0; i < s->n_children; i++)
        if (s->children[i]->release)
            s->children[i]->release(s->children[i]);
    s->release = NULL;
}

static void
release_array(struct ArrowArray *a)
{
    for (int64_t i = 0; i < a->n_children; i++)
        if (a->children[i]->release)
            a->children[i]->release(a->children[i]);
    a->release = NULL;
}

static void
describe(Builder *b)
{
    static const char *const formats[] = {"i", "l", "u", "+l", "+l"};
    bool list = b->kind >= BUILD_INT64_LIST;
    b->schema = (struct ArrowSchema){.format = formats[b->kind],
                                     .name = b->name,
                                     .flags = ARROW_FLAG_NULLABLE,
                                     .n_children = list,
                                     .children = b->child_schemas,
                                     .release = release_schema};
    b->child_schemas[0] = &b->child_schema;
    b->child_schema =
        (struct ArrowSchema){.format = b->kind == BUILD_FLOAT_LIST ? "f" : "l",
                             .name = "element",
                             .flags = ARROW_FLAG_NULLABLE,
                             .release = release_schema};
}

static void
expose(Builder *b)
{
    bool list = b->kind >= BUILD_INT64_LIST;
    b->buffers[0] = b->valid;
    b->buffers[1] = has_offsets(b) ? (const void *)b->offsets : b->values;
    b->buffers[2] = b->values;
    b->value_buffers[0] = NULL;
    b->value_buffers[1] = b->values;
    b->array = (struct ArrowArray){.length = b->rows,
                                   .null_count = b->nulls,
                                   .n_buffers = b->kind == BUILD_TEXT ? 3 : 2,
                                   .n_children = list,
                                   .buffers = b->buffers,
                                   .children = b->children,
                                   .release = release_array};
    b->children[0] = &b->child;
    b->child = (struct ArrowArray){.length = b->n_values,
                                   .n_buffers = 2,
                                   .buffers = b->value_buffers,
                                   .release = release_array};
}

pcvr_parquet_writer *
table_create(Table *t, const pcvr_parquet *p, const char *path, DataError *e)
{
    char text[512];
    pcvr_parquet_writer *w = NULL;
    struct ArrowSchema **children = calloc((size_t)t->n, sizeof *children);
    if (!children) {
        data_fail(e, "%s: out of memory", path);
        return NULL;
    }
    for (int i = 0; i < t->n; i++) {
        describe(&t->columns[i]);
        children[i] = &t->columns[i].schema;
    }
    struct ArrowSchema schema = {.format = "+s",
                                 .name = "",
                                 .n_children = t->n,
                                 .children = children,
                                 .release = release_schema};
    if (p->create(path, &schema, &w, text, sizeof text))
        data_fail(e, "%s: cannot be written: %s", path, text);
    free(children);
    return w;
}

int
table_write(Table *t, const pcvr_parquet *p, pcvr_parquet_writer *w, const char *path,
            DataError *e)
{
    char text[512];
    const void *buffers[1] = {NULL};
    struct ArrowArray **children = calloc((size_t)t->n, sizeof *children);
    if (t->failed || !children) {
        free(children);
        return data_fail(e, "%s: out of memory", path);
    }
    for (int i = 0; i < t->n; i++) {
        expose(&t->columns[i]);
        children[i] = &t->columns[i].array;
    }
    struct ArrowArray batch = {.length = t->columns[0].rows,
                               .n_buffers = 1,
                               .n_children = t->n,
                               .buffers = buffers,
                               .children = children,
                               .release = release_array};
    int rc = p->write(w, &batch, text, sizeof text);
    free(children);
    return rc ? data_fail(e, "%s: cannot be written: %s", path, text) : 0;
}

// builder.h - builds columns row by row and hands them to the Parquet library.

#ifndef PCVR_DATA_BUILDER_H
#define PCVR_DATA_BUILDER_H

#include <stdbool.h>

#include "data_error.h"
#include "parquet_shim.h"

typedef enum BuilderKind {
    BUILD_INT32,
    BUILD_INT64,
    BUILD_TEXT,
    BUILD_INT64_LIST,
    BUILD_FLOAT_LIST,
} BuilderKind;

// One column of the rows since the last reset.
typedef struct Builder {
    BuilderKind kind;
    char *name;
    int64_t rows, nulls;
    int32_t *offsets; // lists and texts: [rows + 1]
    uint8_t *valid;   // bits
    void *values;
    int64_t n_values;
    size_t row_room, value_room;
    // What the interface points to while a row group is written.
    const void *buffers[3], *value_buffers[2];
    struct ArrowArray array, child, *children[1];
    struct ArrowSchema schema, child_schema, *child_schemas[1];
} Builder;

typedef struct Table {
    Builder *columns;
    int n;
    bool failed; // memory was short
} Table;

// A table of n columns, unnamed; false when memory is short.
bool table_init(Table *t, int n);
bool table_column(Table *t, int column, BuilderKind kind, const char *name);
void table_reset(Table *t);
void table_free(Table *t);

// Each adds a row to a column. A failure shows in t->failed.
void put_int(Table *t, int column, int64_t value);
void put_null(Table *t, int column);
void put_text(Table *t, int column, const char *text);
// Lists: elements first, then the row.
void put_element(Table *t, int column, int64_t value);
void put_float(Table *t, int column, float value);
void put_list(Table *t, int column);

// Opens a file for the table's columns.
pcvr_parquet_writer *table_create(Table *t, const pcvr_parquet *p, const char *path,
                                  DataError *e);
// Writes the rows as one row group.
int table_write(Table *t, const pcvr_parquet *p, pcvr_parquet_writer *w, const char *path,
                DataError *e);

#endif

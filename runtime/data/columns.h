// columns.h - which Parquet columns a schema needs, and where a file has them.

#ifndef PCVR_DATA_COLUMNS_H
#define PCVR_DATA_COLUMNS_H

#include <stdbool.h>

#include "arrow.h"
#include "schema.h"

typedef enum ColumnRole {
    COLUMN_TIME,       // request time: scalar integers, no nulls
    COLUMN_LABEL,      // scalar integers
    COLUMN_USER,       // user id: text or integers
    COLUMN_ID,         // user or item ids: scalar where dim is 1, else lists
    COLUMN_DENSE,      // lists of floats
    COLUMN_EVENT,      // lists of ids, one side feature of a domain
    COLUMN_EVENT_TIME, // lists of integers
} ColumnRole;

typedef struct Column {
    char *name;
    ColumnRole role;
    int part; // ids, dense: 0 user, 1 item; events: the domain's number
    int64_t vocab, dim, offset;
    bool list;
} Column;

// Every column that a batch is made of.
typedef struct Columns {
    Column *columns;
    int n;
} Columns;

// Where one file has them, in the order of Columns.
typedef struct FileColumns {
    int32_t *fields; // numbers of top-level fields
    ArrowType *types;
} FileColumns;

// False when memory is short. Without `label` label_type is left out.
bool columns_plan(const Schema *s, bool label, Columns *out);
void columns_free(Columns *c);

// Finds the columns in a file's schema. A missing column, or one in a type that cannot
// serve, is an error that names file, column and type.
int columns_find(const Columns *c, const struct ArrowSchema *schema, const char *path,
                 FileColumns *out, DataError *e);
void file_columns_free(FileColumns *f);

#endif

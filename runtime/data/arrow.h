// arrow.h - columns of the Arrow C data interface as the reader uses them: numbers,
// lists of numbers, texts.

#ifndef PCVR_DATA_ARROW_H
#define PCVR_DATA_ARROW_H

#include <stdbool.h>

#include "parquet_shim.h"

typedef enum ArrowElement {
    ARROW_NULLS, // every element is null
    ARROW_I8,
    ARROW_I16,
    ARROW_I32,
    ARROW_I64,
    ARROW_U8,
    ARROW_U16,
    ARROW_U32,
    ARROW_U64,
    ARROW_F32,
    ARROW_F64,
    ARROW_TEXT32, // texts with 32-bit offsets
    ARROW_TEXT64,
} ArrowElement;

typedef enum ArrowForm {
    ARROW_SCALAR,
    ARROW_LIST32,
    ARROW_LIST64,
    ARROW_FIXED_LIST,
} ArrowForm;

typedef struct ArrowType {
    ArrowForm form;
    ArrowElement element;
    int64_t fixed; // elements of a fixed-size list
} ArrowType;

// One column of one array. Rows count from 0; elements count from 0 over all rows, for a
// scalar column element and row are the same.
typedef struct ArrowColumn {
    ArrowType type;
    int64_t rows, elements;
    const uint8_t *row_valid, *element_valid; // bits; NULL: nothing is null
    int64_t row_offset, element_offset; // added to indices of these and the buffers below
    const void *offsets;                // of lists or texts
    const void *data;                   // elements, or the bytes of texts
} ArrowColumn;

// The type of a field; its name ("list<int64>") goes to `name`. False when columns of
// this type are not read.
bool arrow_type_read(const struct ArrowSchema *s, ArrowType *out, char *name,
                     size_t name_size);

// A column of an array of that type, checked as far as the interface allows: counts of
// buffers and children, offsets ascending and inside the elements. False when something
// is wrong.
bool arrow_column_read(const struct ArrowArray *a, const ArrowType *t, ArrowColumn *out);

// Bytes of the column's buffers, about.
int64_t arrow_column_bytes(const ArrowColumn *c);

bool arrow_is_null(const ArrowColumn *c, int64_t row);

// The elements of a row: the count, and the first of them. A null list is empty.
int64_t arrow_list(const ArrowColumn *c, int64_t row, int64_t *first);

// Elements first .. first + n as integers: null is 0, floats are cut toward zero (not a
// number is 0), what exceeds 64 bits becomes the nearest integer that does not.
void arrow_ints(const ArrowColumn *c, int64_t first, int64_t n, int64_t *out);

// Elements as floats; missing[i] is 1 for null, else 0.
void arrow_floats(const ArrowColumn *c, int64_t first, int64_t n, float *out,
                  uint8_t *missing);

// The text of a row, not terminated, and its bytes. Texts only; the row must not be null.
const char *arrow_text(const ArrowColumn *c, int64_t row, int64_t *n);

#endif

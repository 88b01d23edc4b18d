// emit.h - what the files of the C emitter share.
//
// A statement becomes a piece: a text with holes for the integers that differ between like statements
// (offsets, parameter numbers) and the integers themselves. Pieces that repeat are rolled into loops.

#ifndef PCVRC_EMIT_H
#define PCVRC_EMIT_H

#include "tile.h"

typedef struct Piece {
    const char *text; // interned: equal texts are equal pointers; HOLE marks each integer
    const int64_t *arg;
    int n_arg;
    const char *note; // comment above it
    bool ready;       // the text is printed as it stands
} Piece;

typedef Array(Piece) Pieces;

enum { HOLE = 1 };

typedef struct Emit {
    Tiles *t;
    Mem *mem;
    const EmitOptions *o;
    Timeline line;
    Text text; // of the current piece
    Array(int64_t) args;
    Pieces pieces;
    unsigned bases; // base pointers that the current function uses
    bool batched;   // the current phase runs for `count` samples at once
    const Strip *strip; // whose loops the current statement stands in: o0 and r0 count its rows
} Emit;

// Base pointers of a function, by space and type.
typedef enum Base {
    BASE_T, BASE_TI, BASE_TB, // scratch: float, int64_t, uint8_t
    BASE_K, BASE_KI, BASE_KB, // kept
    BASE_G, BASE_GI, BASE_GB, // temporaries of the sample
    BASE_IN, BASE_INI, BASE_INB,
    BASE_P, BASE_W, BASE_A,
    BASE_DLOGITS, BASE_LOGITS, BASE_EMBEDDING,
    BASE_BATCH, BASE_SAMPLE,  // the raw batch; the sample's index in the batch
} Base;

// emit_text.c
// Adds to the current piece: %s text, %d int, %D int64_t, %$ an int64_t hole, %f a double as a float
// constant, %g a double constant, %p a view's address, %e the element of a view at the loop variables i0, i1, ...
// (and c where a view has unit stride on the last axis of a vector loop: see put_at), %% a percent sign.
void put(Emit *e, const char *fmt, ...);
// Address (or element) of a view; index[k] is the text of axis k's index, NULL leaves the axis out.
void put_at(Emit *e, const View *v, const char *const *index, bool element);
void put_end(Emit *e, const Stmt *s);
// Floats from a sample's row to the next sample's, for a view in a record.
int64_t record_stride(const Tiles *t, const Buf *b, Timeline line);
// Prints pieces, rolled.
void print_pieces(Emit *e, const Piece *p, int n, int indent, Text *out);
// Adds a text line by line, breaking long lines at a comma.
void print_lines(Arena *a, Text *out, const char *text, int indent);
const char *text_quoted(Arena *a, const char *s);  // a C string
const char *text_comment(Arena *a, const char *s); // one line, cut before a backslash or a line end
const char *text_mangled(Arena *a, const char *s); // an identifier, injectively
const char *c_float_text(Arena *a, double v);

// emit_form.c
// The C of an operation of a loop, #k standing for operand k.
const char *op_form(Arena *a, const Stmt *s, const Node *n);
int expr_index(const Stmt *s, const Node *n); // of a node in s->expr

// emit_loop.c, emit_stmt.c, emit_attend.c
void emit_loop(Emit *e, const Stmt *s);
void emit_stmt(Emit *e, const Stmt *s);
void emit_attend(Emit *e, const Stmt *s);
// emit_project.c
void emit_projected(Emit *e, const Stmt *s);
void emit_rows_projected(Emit *e, const Stmt *s);
void emit_projections(Emit *e, Text *out); // the data that regions refer to
void emit_project(Emit *e, Text *out);     // the functions

#endif

// phase.h - what the files that order the statements of a region share.

#ifndef PCVRC_PHASE_H
#define PCVRC_PHASE_H

#include "tile.h"

typedef struct Touch {
    int stmt;
    int64_t from, to; // elements, inclusive
    bool write;
} Touch;

typedef Array(Touch) Touches;
typedef Array(int) Ints;

// The statements of a region while they are ordered.
typedef struct Phaser {
    Tiles *t;
    Region *r;
    Arena *a;
    int n;
    Stmt **stmt;
    Ints *needs; // [n] earlier statements that must come first
    bool *done;
    int *found; // [n] whether a unit is ready
    Array(Stmt *) order;
    int *touches; // [t->bufs.n] by the views of all regions
} Phaser;

// phase.c - whether a statement can run for all samples of a group at once.
bool stmt_is_batch(const Stmt *s);
// strip.c - puts statements that can walk rows together side by side; whether any were.
bool form_strips(Phaser *p);
// jam.c - makes one loop of loops over the same elements.
void jam_loops(Phaser *p);
// strip.c - lets the views of strips see one strip, and shrinks the buffers that live inside of one.
void narrow_strips(Phaser *p);

#endif

// keep.h - what checkpoint, its choice and its rules about single values share.

#ifndef PCVRC_KEEP_H
#define PCVRC_KEEP_H

#include "passes.h"

typedef enum ChoiceKind { CHOICE_NONE, CHOICE_BLOCKS, CHOICE_SAMPLE, CHOICE_NAMES } ChoiceKind;

typedef struct Choice {
    ChoiceKind kind;
    bool *chosen; // by call id
} Choice;

// A value that a chosen block keeps.
typedef struct Dear {
    int id;
    int64_t bytes;
    double worth; // keep_worth
} Dear;

typedef struct Keeper {
    Graph *g;
    Choice choice;
    int n_forward;
    bool *direct;      // inputs and constants alone: read where it is
    bool *again;       // a move of direct values, parameters or other moves
    bool *part;        // of the addition that is one statement with it: made with that or not at all
    bool *allowed;     // a chosen block may keep it
    double *flops;     // of a node, once somebody asked; negative before
    Array(Dear) dear;
    Array(Node *) out; // the new order
} Keeper;

// choice.c

// Reads what --checkpoint takes. false after reporting an error.
bool read_choice(Graph *g, const char *text, Choice *c);

// keep.c

// Sets direct, again and part, for the first n_forward nodes; allows every value to be kept.
void keep_classify(Keeper *k);
bool keep_is_leaf(const Node *n);
// An operation that takes a few operations an element.
bool keep_is_light(const Node *n);
// The outermost chosen call of a chain, or NULL.
Call *keep_chosen_call(const Keeper *k, Call *call);
// Whether the backward nodes of a group recompute a value that is needed instead of reading a kept one. `need`
// tells of the forward nodes after it, and of some before.
bool keep_recomputes(const Keeper *k, const Node *n, const Call *group, const bool *need);
// The operation that a further result belongs to, or the node itself: all results are kept or none is.
const Node *keep_whole(const Node *n);
// Operations that a kept value of a chosen block saves, for each of its bytes.
double keep_worth(const Keeper *k, const Node *n, const bool *need);

#endif

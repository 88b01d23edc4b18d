// ops.h - what the rules of the operation table share: checks, gradient building.

#ifndef PCVRC_OPS_H
#define PCVRC_OPS_H

#include "graph.h"

// The rules that ops.def names. A rule used by several rows is declared several times.
#define OP(NAME, text, lo, hi, row, flags, shape, gradient, cost, attrs)                 \
    bool infer_##shape(Graph *g, Node *n);                                               \
    void grad_##gradient(Grad *gr, Node *n, Node *dy);                                   \
    double flops_##cost(const Node *n);
#include "ops.def"
#undef OP

// ops.c
// Reports "'exp' ..." at the node's place and gives false.
bool op_error(Graph *g, const Node *n, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// "f32[3, 4]" of operand k.
const char *in_text(Graph *g, const Node *n, int k);
bool is_number(const Node *x); // f32 or i64
// Operand k has the type, else an error that shows what was found.
bool need_type(Graph *g, const Node *n, int k, DType type);
bool need_rank(Graph *g, const Node *n, int k, int rank);
// The attribute names an axis of a tensor of that rank.
bool need_axis(Graph *g, const Node *n, int rank);
// A shape attribute without negative extents whose size fits.
bool need_shape(Graph *g, const Node *n, Shape s);
bool attr_equal(const Attr *a, const Attr *b);
// The rows and columns of x as [R, C] (R = product of all but the last axis).
int64_t row_width(Shape s);
int64_t row_count(Shape s);

// differentiate.c, for gradient rules
Graph *grad_graph(Grad *gr);
// Whether operand k leads to a trainable parameter; a rule need not build an adjoint that
// is not wanted.
bool grad_wants(const Grad *gr, const Node *n, int k);
// Adds d to the adjoint of operand k. d may have the broadcast shape: it is summed down.
void grad_add(Grad *gr, Node *n, int k, Node *d);
// Adds to the gradient of the table that is operand k: op is OP_ACC_ROWS or OP_ACC_BAG.
void grad_table(Grad *gr, Node *n, int k, Op op, Node *dy, Node *ids);
// A sink for what n reads as operand k.
void grad_sink(Grad *gr, Node *n, int k, Op op, Node *const *in, int n_in, Attr a);

#endif

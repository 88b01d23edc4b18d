// graph.h - the graph of one sample: nodes, operations, attributes, parameters, inputs,
// block calls.
//
// A node is one tensor operation with known shape and type. Nodes stand in an array in
// which operands come before their users. There is no batch axis. Elaboration builds the
// forward part; differentiate appends the backward part; checkpoint clones forward nodes
// for recomputation.

#ifndef PCVRC_GRAPH_H
#define PCVRC_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mem.h"
#include "source.h"

typedef enum DType { DT_F32, DT_I64, DT_BOOL } DType;

enum { MAX_RANK = 5 }; // four in the language; one more for lowered products

// Extents of a tensor, last axis fastest. Rank 0 is a scalar.
typedef struct Shape {
    int rank;
    int64_t dim[MAX_RANK];
} Shape;

typedef enum Op {
#define OP(NAME, ...) OP_##NAME,
#include "ops.def"
#undef OP
    OP_COUNT
} Op;

// Where a node runs: forward pass, recomputation before a backward region, backward pass.
typedef enum Part { PART_FORWARD, PART_RECOMPUTE, PART_BACKWARD } Part;

// How rows (axis 0) of the result depend on rows of the operands; used by prune.
typedef enum RowRule {
    ROW_LEAF,    // no operands
    ROW_EACH,    // row r needs row r of operands of equal rank and extent, all of others
    ROW_FIRST,   // row r needs row r of operand 0 and all of the others
    ROW_ALL,     // any row needs everything
    ROW_SPECIAL, // a rule of its own in prune
} RowRule;

enum {
    OPF_POINTWISE = 1, // elementwise with NumPy broadcasting; may be fused into a loop
    OPF_MOVE = 2,      // moves or selects data: reading it again is no recomputation
    OPF_SINK = 4,      // adds to an accumulator, has no value
    OPF_CHANCE = 8,    // draws random numbers
    OPF_GRAD = 16,     // has a gradient
};

// One predicate of attention: an expression in i (query), j (key), lists and captured
// tensors.
typedef enum MaskKind {
    MASK_INT,    // value
    MASK_I,      // query index in the tensor as written
    MASK_J,      // key index in the tensor as written
    MASK_LIST,   // list[kid 0], a compile-time list of integers or booleans; clamped
    MASK_TENSOR, // in[value][kid 0], an integer or boolean tensor of rank 1 (value counts
                 // all operands; clamped); of rank 0 without a kid: the scalar itself
    MASK_ADD,
    MASK_SUB,
    MASK_MUL,
    MASK_FLOORDIV,
    MASK_MOD,
    MASK_NEG,
    MASK_ABS,
    MASK_MIN,
    MASK_MAX,
    MASK_EQ,
    MASK_NE,
    MASK_LT,
    MASK_LE,
    MASK_GT,
    MASK_GE,
    MASK_AND,
    MASK_OR,
    MASK_NOT,
    MASK_IF, // kids: condition, then, else
} MaskKind;

typedef struct Mask Mask;
struct Mask {
    MaskKind kind;
    int n_kids;
    Mask *kid[3];
    int64_t value;
    const int64_t *list;
    int64_t n_list;
};

// A constant's elements in C order. Exactly one of f and i is set; booleans use i.
// n is 1 (every element equal; the shape says how many) or the element count.
typedef struct Const {
    int64_t n;
    const double *f;
    const int64_t *i;
} Const;

// Attributes; which fields an operation reads stands in ops.def. Unused fields are zero,
// so that equal nodes compare equal field by field (lists by content).
typedef struct Attr {
    int64_t axis, start, count; // slice, concat, gather, pad, ...
    int64_t index;              // input, param, part
    int64_t use;                // accumulator number of a sink, from 0 a parameter
    int64_t heads;
    bool ta, tb;   // matmul: operand is read transposed (last two axes)
    bool keep;     // reductions keep the axes as extent 1
    bool adjacent; // rope: pairs of neighbouring lanes, else halves
    bool inverse;  // rope: turns back (the adjoint)
    bool joined;   // attend_back: keys are the values, part 1 is the adjoint of both
    double p;      // probability; exponent; rope base; epsilon
    double lo, hi; // clamp
    int n_list;    // axes of a reduction, permutation, bounds of bucketize
    const int64_t *list;
    Shape shape; // reshape, expand, chance
    const Const *data;
    const Mask *mask;
    int site; // number of the random site, from 1; 0: none
    int64_t first,
        pitch; // chance: element(r, c) = first + row(r) * pitch + c, see ops.def
    // attend: row r of q is query q_first + r of q_rows as written (0: all there are);
    // keys likewise
    int64_t q_first, q_rows, k_first, k_rows;
} Attr;

// One call of a block. Nested calls form a chain; only outermost chosen calls count for
// checkpointing.
typedef struct Call {
    const char *name; // instance, "blocks.0"
    int ordinal;      // 0 for the first call of the instance, 1 for the second
    int id;           // number of the call in program order
    struct Call *outer;
    Place place;
} Call;

typedef struct Node Node;
struct Node {
    Op op;
    DType type;
    Shape shape;
    Part part;
    int id; // position in the graph
    int n_in;
    Node **in;
    Attr a;
    Place place;
    const char *name; // from the model file ("h", "q"), or NULL; for readable output only
    Call *call;       // innermost block call, or NULL
    Node *origin;     // the forward node a clone or an adjoint comes from, or NULL
    bool kept; // set by checkpoint: written in forward, read in backward or recomputation
    void *user; // a pass's own notes; every pass sets it before reading
};

typedef enum InitKind {
    INIT_ZEROS,
    INIT_ONES,
    INIT_CONSTANT,
    INIT_UNIFORM,
    INIT_NORMAL,
    INIT_XAVIER_NORMAL,
    INIT_XAVIER_UNIFORM,
} InitKind;

typedef struct Param {
    const char *name; // full name, the reference's
    Shape shape;
    InitKind init;
    double init_value;
    bool table, padding, matrices, adamw, frozen;
    int64_t table_ids; // ids that count for re-initialisation
    bool unused;       // reaches no logit (decided on the elaborated graph)
    int n_uses;        // accumulators numbered by differentiate
    Place place;
} Param;

typedef enum InputKind {
    IN_USER_INTS,
    IN_USER_INT_MISSING,
    IN_USER_DENSE,
    IN_USER_DENSE_MISSING,
    IN_ITEM_INTS,
    IN_ITEM_INT_MISSING,
    IN_ITEM_DENSE,
    IN_ITEM_DENSE_MISSING,
    IN_REQUEST_TIME,
    IN_EVENTS, // i64[F, L] of a domain
    IN_TIMES,  // i64[L]
    IN_LENGTH, // i64
} InputKind;

typedef struct Input {
    InputKind kind;
    int domain;       // index in the sorted list of domains, -1 for fields
    const char *name; // "user.ints", "seq_a.events"
    DType type;
    Shape shape;
} Input;

typedef struct Graph {
    Mem *mem;
    Diag *diag;
    Node **nodes;
    int n_nodes;
    Param *params;
    int n_params;
    Input *inputs;
    int n_inputs;
    Call **calls;
    int n_calls;
    int n_sites;
    Node *logits;    // f32[actions]
    Node *embedding; // f32[E] or NULL
    Node **sinks;    // accumulating nodes, in graph order
    int n_sinks;
    const char *checkpoint; // the choice, as given: "none", "blocks", a list of names
    int64_t strip_rows, strip_bytes; // the fewest rows cut into strips, and a strip's size; 0: for caches
    int64_t group_bytes;    // records of the samples that pass a phase together; 0: for caches
    int64_t batch_hint;     // samples a batch is expected to have; 0: not said
    double dear_flops;      // a byte, from which a value is dear to make again; 0: the default
    int64_t keep_limit;     // bytes of a sample that chosen blocks keep of their own values; 0: no limit
    int64_t thread_bytes;   // that kept values and scratch of a thread shall fit; 0: the default
    int64_t kept_dear;      // set by checkpoint: the same bytes where there is no limit
    void *table;     // hash-consing and capacities, private to graph.c
    Part part;       // part, call and origin given to new nodes
    Call *call;
    Node *origin;
} Graph;

// graph.c - building
Graph *graph_new(Mem *mem, Diag *diag);
// Adds a node, or returns an equal one: the same operation, operands and attributes in
// the same part and block call (leaves: anywhere; sinks are never merged). Leaves belong
// to PART_FORWARD and to no call. A shape or type error is reported at place and gives
// NULL. Operands may be NULL after an error: then NULL, silently. Lists and constants in
// a are copied; a mask must live in g->mem->perm.
Node *graph_add(Graph *g, Op op, Node *const *in, int n_in, Attr a, Place place);
// n is 1 or the count.
Node *graph_const_f(Graph *g, Shape shape, const double *v, int64_t n, Place place);
Node *graph_const_i(Graph *g, DType type, Shape shape, const int64_t *v, int64_t n,
                    Place place);
// The input of a kind and domain, added to g->inputs at its first use.
Node *graph_input(Graph *g, InputKind kind, int domain, const char *name, DType type,
                  Shape shape);
int graph_param(Graph *g, Param p); // returns the parameter's index
Node *graph_param_node(Graph *g, int index, Place place);
// A block call; ordinal and id are set from the calls there are. The caller sets g->call.
Call *graph_call(Graph *g, const char *name, Call *outer, Place place);
// Rebuilds the node array so that it holds just what logits, embedding and sinks need,
// operands first; renumbers ids. The relative order of the remaining nodes stays.
void graph_compact(Graph *g);

// The graph again, in another memory: nodes and lists of its own, the rest shared. For trying passes out.
Graph *graph_copy(const Graph *g, Mem *mem);

// graph_build.c - shorthands for graph_add; each gives NULL for a NULL operand
Node *graph_unary(Graph *g, Op op, Node *x, Place place);
Node *graph_binary(Graph *g, Op op, Node *a, Node *b, Place place);
Node *graph_select(Graph *g, Node *c, Node *a, Node *b, Place place);
Node *graph_scalar(Graph *g, double v, Place place);   // f32, rank 0
Node *graph_integer(Graph *g, int64_t v, Place place); // i64, rank 0
Node *graph_iota(Graph *g, int64_t n, Place place);    // i64[n]: 0, 1, ...
// These return x itself where nothing changes.
Node *graph_reshape(Graph *g, Node *x, Shape shape, Place place);
Node *graph_expand(Graph *g, Node *x, Shape shape, Place place);
// x->shape.rank axes.
Node *graph_permute(Graph *g, Node *x, const int64_t *axes, Place place);
Node *graph_slice(Graph *g, Node *x, int axis, int64_t start, int64_t count, Place place);
Node *graph_pad(Graph *g, Node *x, int axis, int64_t start, int64_t count, Place place);
Node *graph_concat(Graph *g, Node *const *parts, int n, int axis, Place place);
Node *graph_gather(Graph *g, Node *x, Node *ids, int axis, Place place);
// op: a reduction over n_axes axes (ascending); n_axes -1: all.
Node *graph_reduce(Graph *g, Op op, Node *x, const int64_t *axes, int n_axes, bool keep,
                   Place place);
Node *graph_matmul(Graph *g, Node *a, Node *b, bool ta, bool tb, Place place);

// print.c Stable text, one line a node: "%12 = matmul %3 %7 ta : f32[52, 64]  # h
// blocks.0 onetrans.pcvr:41". No addresses: equal graphs give equal bytes.
void graph_print(const Graph *g, FILE *f);
void node_print(const Graph *g, const Node *n, FILE *f);
// A mask as the language writes it: "j <= i and not in3[j]".
const char *mask_text(Arena *a, const Mask *m);

// shape.c
int64_t shape_size(Shape s);
bool shape_equal(Shape a, Shape b);
Shape shape_of(int rank, const int64_t *dim);
// NumPy broadcasting; false when the extents do not fit.
bool shape_broadcast(Shape a, Shape b, Shape *out);
// C-order strides with which an operand of shape s is read at the positions of out (0
// where it broadcasts).
void shape_strides(Shape s, Shape out, int64_t *stride);
// "f32[52, 64]", allocated in mem->perm
const char *shape_text(Mem *mem, DType type, Shape s);
const char *dtype_name(DType t);
size_t node_bytes(const Node *n); // bytes of the value: 4, 8 or 1 an element

// differentiate.c Sets Param.unused: no differentiable path from the logits. On the
// elaborated graph, before any pass.
void mark_unused(Graph *g);

// ops.c - the table
typedef struct Grad Grad; // differentiate's state, see ops.h
typedef struct OpInfo {
    const char *name;
    int min_in, max_in; // max -1: any number
    RowRule row;
    int flags;
    // Checks operands and attributes and sets n->type and n->shape; false after reporting
    // at n->place.
    bool (*infer)(Graph *g, Node *n);
    // Given the adjoint dy of n, adds adjoints to its operands; NULL where OPF_GRAD is
    // not set.
    void (*grad)(Grad *gr, Node *n, Node *dy);
    // Floating-point operations of one evaluation (2 a multiply-add); moves and integer
    // work count nothing.
    double (*flops)(const Node *n);
    const char *attrs; // names of the attributes it reads
} OpInfo;
extern const OpInfo op_info[OP_COUNT];
// As the language writes it, for messages: "'@'", "'max'".
const char *op_symbol(Op op);

// Operands of attend_back between v and the captured tensors: adjoint, result, its stats.
enum { ATTEND_BACK_EXTRA = 3 };
// ops_attend.c Whether the mask of an attend or attend_back node lets query i see key j,
// both as numbered in the tensors as written: 0 no, 1 yes, 2 depends on captured tensors.
int mask_allows(const Node *n, int64_t i, int64_t j);
// The value of an integer or boolean mask expression; tensor(arg, operand, index) reads a
// captured tensor.
typedef int64_t mask_reader(void *arg, int64_t operand, int64_t index);
int64_t mask_value(const Mask *m, int64_t i, int64_t j, mask_reader *tensor, void *arg);
// Query and key pairs that may be allowed, a head and batch entry.
double mask_pairs(const Node *n);

#endif

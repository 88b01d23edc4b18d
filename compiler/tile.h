// tile.h - the tile program: what schedule makes of a graph, plan gives offsets to, and emit_c writes.
//
// A program has three timelines: gather (from the raw batch to a sample's input record), forward, and
// backward (recomputation included). A timeline is a list of regions, a region a list of statements,
// each working on one sample. Statements read and write views: strided windows of buffers.

#ifndef PCVRC_TILE_H
#define PCVRC_TILE_H

#include "graph.h"
#include "schema.h"

typedef enum Space {
    SP_RAW,       // the batch as it is delivered; index: input of the graph
    SP_INPUT,     // the sample's input record
    SP_CONST,     // constants of the module
    SP_PARAM,     // index: parameter
    SP_PACKED,    // weights packed once a step
    SP_KEPT,      // the sample's kept record
    SP_SCRATCH,   // of the thread
    SP_CHUNK,     // temporaries of a sample: those that cross phases
    SP_ACC,       // the lane's accumulators
    SP_DLOGITS,
    SP_LOGITS,
    SP_EMBEDDING,
    SP_COUNT
} Space;

typedef enum Timeline { TL_GATHER, TL_FORWARD, TL_BACKWARD, TL_COUNT } Timeline;

typedef struct Buf {
    Space space;
    DType type;
    int index;       // SP_RAW: input; SP_PARAM: parameter
    Timeline line;   // SP_SCRATCH: the timeline it lives in
    int64_t size;    // elements
    int64_t offset;  // elements from the start of the space (of the type's own pool for SP_CONST)
    int first, last; // SP_SCRATCH: first and last statement of the timeline that touches it
    Node *node;      // the value it holds, for reports
    int region;      // SP_KEPT: the region that writes it
    int id;          // index in Tiles.bufs
    bool shared;     // SP_CONST: stands in another constant
    bool fresh;      // SP_ACC: the first group of a lane writes it whole
    bool crosses;    // touched by two phases, or for a group of samples at once
    bool in_strip;   // holds the rows of one strip at a time
} Buf;

// An array of views of one element type. Strides count elements; extents 1 have stride 0.
typedef struct View {
    Buf *buf;
    int64_t first;
    int rank;
    int64_t dim[MAX_RANK], stride[MAX_RANK];
    int64_t outer_step, row_step; // of the loops of a strip, in elements
} View;

typedef enum StmtKind {
    ST_LOOP,      // elementwise over out's shape, or reduced along axes
    ST_ZERO,
    ST_PRODUCT,
    ST_NORMALIZE,
    ST_NORMALIZE_BACK,
    ST_SOFTMAX,
    ST_ROPE,
    ST_ROPE_TABLE, // cosines and sines [T, width / 2] of positions
    ST_GATHER,
    ST_SCATTER_ADD,
    ST_EMBED,
    ST_BAG,
    ST_ROWS,      // row store: ACC_ROWS
    ST_ROWS_BAG,  // row store: ACC_BAG
    ST_PROJECTED, // sums of projected rows: tables, then ids, then what they are added to
    ST_ROWS_PROJECTED, // row store of a projected table
    ST_ARGSORT,
    ST_UNIQUE_LAST,
    ST_DROPOUT,
    ST_CHANCE,
    ST_ATTEND,
    ST_ATTEND_BACK,
} StmtKind;

// Statements that walk outer x rows together, some rows at a time.
typedef struct Strip {
    int64_t outer, rows;
    int64_t step; // rows at a time, a divisor of rows
} Strip;

// A leaf of an elementwise expression: a node whose value is read through a view.
typedef struct Leaf {
    Node *node;
    View view; // broadcast to the iteration shape
} Leaf;

typedef struct Stmt {
    StmtKind kind;
    Node *node;  // attributes and place
    int n_out, n_in;
    View out[3];
    View *in;
    bool add;    // out += instead of out =
    // ST_LOOP: values of expr (operands first) at each point of iter; the last node's (or, without
    // expr, leaf 0's) value is stored or reduced into out[0]
    Shape iter;
    bool vector; // float vectors; else plain C on scalars
    bool reduce; // node is a reduction of the axes in `axes`
    bool axes[MAX_RANK];
    Leaf *leaf;
    int n_leaf;
    Node **expr;
    int n_expr;
    Node *also[2]; // of expr: the values of out[1] and out[2]
    // ST_PRODUCT: out[0][M, N] = start + in[0][M, K] in[1][K, N], repeated over `batch` leading axes
    int64_t M, N, K;
    int batch;
    bool start;  // in[2] is a row of N floats that each chain starts from
    int store;   // ST_ROWS, ST_ROWS_BAG, ST_ROWS_PROJECTED: row store
    int projection; // ST_PROJECTED: of the first table; ST_ROWS_PROJECTED
    bool batched; // runs for all samples of a group at once
    int phase;    // of the region, from 0
    const Strip *strip; // shared by neighbours; NULL: works on all rows at once
} Stmt;

typedef struct Region {
    const char *name;
    Timeline line;
    Call *call; // outermost block call or NULL
    Array(Stmt *) stmts; // phase by phase
    Stmt **plain;        // the same where the region is one phase; NULL: as stmts
    int first_phase;     // counted through the timeline
    int n_phases;
    double flops, recomputed_flops;
    int64_t kept_bytes, scratch_bytes;
} Region;

// A weight stored [N][K] that products read as [K][N], or several of them: copied so by prepare.
typedef struct Pack {
    View from; // [..., K, N] of a parameter
    Buf *buf;  // matrix after matrix
} Pack;

// `rows` rows of `size` floats: a step apart in the parameter, a pitch apart in the buffer.
typedef struct Use {
    int param;
    int64_t first, size;
    Buf *buf;
    int64_t rows, step, pitch, at; // at: first float in the buffer
} Use;

typedef struct Store {
    int param;
    int64_t ids_per_sample;
    int projection; // from 1; 0: rows of the table itself
} Store;

// A table times its rows of a weight, made once a step; lower_project.c.
typedef struct Projection {
    int table, weight;
    int64_t rows, depth; // of the table
    int64_t first;       // row of the weight that meets the table's first column
    int64_t pitch;       // rows of the weight
    int64_t width;       // of the product
    int64_t columns;     // weights; 1: one for all rows
    bool tb;             // the weight is stored [width, pitch]
    Buf *buf;
} Projection;

// Part of a parameter, made once a step; swapped: its two axes exchanged.
typedef struct Taken {
    const Node *node;
    bool swapped;
    Buf *buf;
} Taken;

// Cosines and sines of positions in the input record, for all rotations that want the same.
typedef struct Turns {
    const Node *positions;
    double base;
    int64_t width;
    View table;
} Turns;

typedef struct Tiles Tiles;
struct Tiles {
    Mem *mem;
    Graph *g;
    int region;                  // that statements are added to
    Array(Region *) regions; // gather, forward, backward, in order
    Array(Buf *) bufs;
    Array(Pack) packs;
    Array(Use) uses;
    Array(Store) stores;
    Array(Projection) projections;
    Array(Taken) taken;
    Array(Turns) turns;
    Array(const Const *) consts; // pools are written in this order
    Array(Buf *) const_bufs;
    View logits, embedding;      // in the forward timeline
    int64_t acc_floats, acc_fresh, packed_floats;
    int64_t input_bytes, kept_bytes;
    int64_t line_bytes[TL_COUNT];  // scratch of a timeline
    int64_t chunk_bytes[TL_COUNT]; // record of a sample in a timeline
    int64_t chunk;                 // the default
    int64_t group;                 // samples that pass a phase together, at most
    int64_t unkept_group;          // in a forward pass that keeps nothing
    int64_t scratch_bytes;        // of a thread
    int64_t forward_scratch_bytes; // of one that has no room for kept values
};

// schedule.c - from the graph after sweep to regions of statements.
Tiles *schedule(Graph *g);
// phase.c - groups the statements of each region into strips and phases.
void schedule_phases(Tiles *t);
// Says which temporaries cross phases and numbers these; what crosses in the record of a sample stays there.
void schedule_crossing(Tiles *t);
// plan.c - offsets of every buffer and the sizes of all arenas.
void plan(Tiles *t);

// view.c
View view_whole(Buf *b, Shape s);
View view_slice(View v, int axis, int64_t start, int64_t count);
View view_permute(View v, const int64_t *order);
bool view_equal(const View *a, const View *b);
int64_t view_last(const View *v); // the last element, where none is empty
View view_expand(View v, Shape s);               // broadcast as NumPy does
bool view_reshape(View v, Shape s, View *out);   // false when that needs a copy
bool view_contiguous(const View *v);
Shape view_shape(const View *v);
int64_t view_size(const View *v);
// Merges neighbouring axes on which all views step alike; marks (may be NULL) must agree on merged
// axes. Drops axes of extent 1. At least one axis is left.
void view_collapse(View **v, int n, bool *marks);

// prelude.c - what depends on inputs and constants alone, and in which timeline a node runs.
typedef struct Info {
    bool prelude;
    bool needed_back; // a forward value that the backward timeline reads
    bool exported;    // a prelude value that the other timelines read
    bool inlined;     // computed inside the loop of its one user
    bool virt;        // computed as part of its one user's statement
    bool placed;      // view is set
    bool changed;     // what is written there is changed there later
    Timeline line;
    int region;
    int n_users;
    Node **users;
    View view;
    View unit;        // a copy with unit stride, made when a user needs one
    bool has_unit;
    bool inner;       // an addition inside a larger sum
    struct Term *term; // of a sum of padded pieces: what it adds, in order
    int n_term;
    int64_t axis;     // of the pieces
} Info;

// One addend of a sum: value stands at start .. start + count of the sum's axis.
typedef struct Term {
    Node *node;
    int64_t start, count;
    bool once;     // the piece is read by this sum alone
    bool in_place; // its producer writes into the sum's buffer
} Term;

#define INFO(n) ((Info *)(n)->user)

// Sets user, line, users and region of every node; makes the regions.
void schedule_analyse(Tiles *t);
// fuse.c - decides what is inlined and what is written in place into a larger buffer.
void schedule_fuse(Tiles *t);
// Gives a node a buffer of its own unless it has a place already.
View node_place(Tiles *t, Node *n);
Buf *buf_new(Tiles *t, Space space, DType type, int64_t size, Node *n);
// The product that an addition of a bias row starts from that row, or NULL.
Node *bias_product(Tiles *t, const Node *add);
// Through reshapes with one user each: the product or sum that can be computed into an accumulator.
Node *acc_producer(const Node *acc);
// The window of that node's value in the accumulator of v, shaped as what is added; rank 0 if it is none.
View acc_window(View v, const Node *acc, const Node *producer);
bool op_is_alias(const Node *n);
// Whether a pointwise node can be computed on float vectors.
bool op_is_vector(const Node *n);
// Whether a reduction runs on float vectors.
bool reduces_vectors(const Node *n);
bool node_is_scalar_const(const Node *n);

// schedule.c
View node_value(Tiles *t, Node *n);
Stmt *stmt_new(Tiles *t, StmtKind kind, Node *n, int n_in);
// The view itself where its last axis has unit stride, else a copy of it.
View view_unit(Tiles *t, View v, Node *n);
// The value as a matrix [size / last, last] with unit stride along rows.
View node_matrix(Tiles *t, Node *n);
View view_matrix(Tiles *t, View v, Node *n);
// The value as a vector of any stride.
View node_vector(Tiles *t, Node *n);
// A temporary of the current region.
View temp_new(Tiles *t, DType type, Shape s, Node *n);
// Where a statement writes a node's value, seen in another shape; and the copy afterwards, where the
// place does not have that shape.
View out_begin(Tiles *t, Node *n, Shape s);
void out_end(Tiles *t, Node *n, View out);
void lower_copy(Tiles *t, View from, View to, Node *n);
// lower_loop.c
void lower_loop(Tiles *t, Node *n, View out, bool add);
void lower_reduce(Tiles *t, Node *n, View out, bool add);
void lower_sum(Tiles *t, Node *n);
void lower_acc(Tiles *t, Node *n);
// lower.c
void lower_node(Tiles *t, Node *n);
void lower_product(Tiles *t, Node *m, View out, const View *bias, bool add);
// One store a use: its rows come sample by sample, whatever the phases.
int store_new(Tiles *t, int param, int64_t ids, int projection);
// lower_project.c
View taken_value(Tiles *t, Node *n);
// A [N, K] part of a parameter seen with its axes exchanged, as a copy [K, N] made once a step; any other
// view as it is.
View taken_swapped(Tiles *t, View v);
void lower_projected(Tiles *t, Node *n);
void lower_acc_projected(Tiles *t, Node *n);
void lower_take_uses(Tiles *t, const Node *n, Buf *b);
struct pcvr_projection *tiles_projections(const Tiles *t);
// Floating-point operations of projecting and its gradients, once a step.
double tiles_step_flops(const Tiles *t);
// lower_attend.c
void lower_attend(Tiles *t, Node *n);

// emit_c.c
typedef struct EmitOptions {
    const char *name;       // of the module: "onetrans"
    const char *config;     // JSON
    const char *model_path; // shown in the header, without directories
    const char *compiler;   // version
    uint64_t hash;          // set by emit_c: of the text
    const Schema *schema;
    int64_t default_chunk;  // 0: what plan found
} EmitOptions;

// "pcvr_onetrans": what the module exports, without the instruction set.
const char *module_symbol(Mem *mem, const char *name);
// What a kept buffer holds, for reports: "x (onetrans.pcvr:114)".
const char *kept_name(const Tiles *t, const Buf *b);
// The C text of a module, in mem->perm.
char *emit_c(Tiles *t, const EmitOptions *o);

// tile_print.c - stable text; planned: with offsets.
void tiles_print(const Tiles *t, bool planned, FILE *f);

#endif

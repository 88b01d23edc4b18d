// elab_int.h - what the parts of elaboration share: its state, faults, evaluation,
// calls, tensors.

#ifndef PCVRC_ELAB_INT_H
#define PCVRC_ELAB_INT_H

#include "elab.h"

#ifndef PCVRC_MAX_STEPS
#define PCVRC_MAX_STEPS 10000000 // less where a fuzzer wants many short runs
#endif

enum {
    MAX_DEPTH = 1000,            // nested evaluations; bounds the C stack
    MAX_FRAMES = 150,            // nested calls
    MAX_STEPS = PCVRC_MAX_STEPS, // evaluations, list elements, ...
    MAX_MASK = 20000,            // nodes of an attention predicate
    MAX_FAULTS = 30,             // then elaboration stops
    MAX_ARGS = 8                 // named arguments of a built-in function
};
#define MAX_ELEMENTS ((int64_t)1 << 40) // of one tensor

// A value at file level, evaluated when it is first read.
typedef struct Global {
    enum { GLOBAL_NEW, GLOBAL_BUSY, GLOBAL_DONE } state;
    Value v;
} Global;

// A call in progress; the innermost one is Elab.frame.
typedef struct Frame {
    const struct Frame *outer;
    const char *name;
    Place place;
} Frame;

// The predicate of an attention while it is turned into a Mask.
typedef struct MaskBuild {
    int64_t q_rows, k_rows;
    Array(Node *) captured;
    int first; // operand number of captured.v[0]
} MaskBuild;

// An argument that waits to be bound.
typedef struct CallArg {
    const char *name; // interned, or NULL
    Value v;
    Place place;
} CallArg;

// Arguments of a built-in function, bound to its parameters by builtins.def.
typedef struct Args {
    const Builtin *b;
    Place place;
    int n; // named parameters
    Value v[MAX_ARGS];
    Place at[MAX_ARGS];
    bool has[MAX_ARGS];
    const CallArg *rest; // those of "..."
    int n_rest;
} Args;

typedef struct Elab Elab;
typedef Value (*Handler)(Elab *e, const Args *a);

struct Elab {
    Mem *mem;
    Diag *diag;
    const Program *program;
    const Config *config;
    const Schema *schema; // NULL while only the configuration is evaluated
    Graph *g;             // NULL likewise
    Global *globals;      // one for each of program->decls
    const Frame *frame;
    int n_frames, depth;
    int64_t steps;
    int faults;    // errors met, repeated ones too
    bool stop;     // nothing more is evaluated
    bool complete; // every member has its name: parameters may be read, layers called
    MaskBuild *mask;
    Node *inputs[16];        // of the fields, by InputKind
    Node **domain_inputs;    // [domain][IN_EVENTS..IN_LENGTH]
    const Handler *handlers; // by index into builtins
    const char *forward;     // the interned name
    int n_calls;
};

// ---- elab.c: state, faults, names -------------------------------------------------
void elab_init(Elab *e, Mem *mem, Diag *diag, const Program *program,
               const Config *config);
// Reports an error with notes about the calls that led to it. Gives V_ERROR.
Value fault(Elab *e, Place p, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// The notes alone, after somebody else reported.
void note_frames(Elab *e);
// Counts n steps; false (and a fault once) when there were too many.
bool count_steps(Elab *e, int64_t n, Place p);
// One evaluation deeper; false (and the end of all) when there are too many. Undone by
// e->depth--.
bool go_deeper(Elab *e, Place p);
// Enters a call; false (and the end of all) when they nest too deep. Left by frame_leave.
bool frame_enter(Elab *e, Frame *f, const char *name, Place p);
void frame_leave(Elab *e);
// Whether tensors can be made: not while a configuration is evaluated.
bool need_graph(Elab *e, Place p);
// What a name means: scopes, then file level, then what is built in.
Value name_value(Elab *e, Env *env, const char *name, Place p);
// A name at file level, evaluated once.
Value global_value(Elab *e, const Decl *d);

// ---- config.c ---------------------------------------------------------------------
// The value of a config declaration, checked against its type and what it allows.
Value config_value(Elab *e, const Config *c, const Decl *d);

// ---- elab_expr.c ------------------------------------------------------------------
Value eval(Elab *e, Env *env, const Ast *a);
// A compile-time boolean; -1 after a fault. `what` is "'if'", "a filter".
int eval_condition(Elab *e, Env *env, const Ast *a, const char *what);
// The elements that a `for` walks; NULL after a fault.
const List *eval_list(Elab *e, Env *env, const Ast *a);
// Binds the names of a pattern in env; false after a fault.
bool bind_pattern(Elab *e, Env *env, const Ast *pattern, Value v, Place p, bool var);

// ---- elab_call.c: functions, statements, calls ------------------------------------
Value eval_call(Elab *e, Env *env, const Ast *a);
Value call_value(Elab *e, Value callee, const CallArg *args, int n, Place p);
// Binds arguments to parameters in env, with defaults and types; `what` names the callee.
bool bind_params(Elab *e, Env *env, const Ast *params, const CallArg *args, int n,
                 Place p, const char *what);

// ---- elab_type.c ------------------------------------------------------------------
// Checks a value against a type of a signature and binds the names in its shapes in
// env. Numbers become what the type says. `result`: names of any file count. false
// after a fault at p.
bool check_type(Elab *e, Env *env, const Ast *type, Value *v, Place p, const char *what,
                bool result);

// ---- elab_member.c ----------------------------------------------------------------
Value layer_new(Elab *e, const Decl *d, const CallArg *args, int n, Place p);
Layer *model_new(Elab *e, const Ast *model);
Value sequential_new(Elab *e, const Args *a);
// Names everything a complete model holds and adds its parameters to the graph.
void layer_register(Elab *e, Layer *l, const char *name);
Value call_layer(Elab *e, Layer *l, const CallArg *args, int n, Place p);
// A let, argument, member or method read from outside.
Value layer_field(Elab *e, Layer *l, const char *name, Place p);

// ---- init.c -----------------------------------------------------------------------
Value init_value(Elab *e, const Args *a);
// An AST_PARAMETER in the scope of its layer; NULL after a fault.
LayerParam *param_new(Elab *e, Env *env, const Ast *a);

// ---- elab_object.c ----------------------------------------------------------------
// A field of the schema, a sequence, user or item.
Value object_field(Elab *e, Value object, const char *name, Place p);
Value request_time(Elab *e);

// ---- elab_arith.c: operators ------------------------------------------------------
Value value_unary(Elab *e, AstOper op, Value v, Place p);
Value value_binary(Elab *e, AstOper op, Value a, Value b, Place p);
Value value_matmul(Elab *e, Value a, Value b, Place p);
Value value_transpose(Elab *e, Value v, Place p);
// `if c then a else b` with a tensor c, elementwise.
Value value_select(Elab *e, Value c, Value a, Value b, Place p);
// Two operands as tensors of one type, or masks; numbers take the type of the tensor.
bool elab_promote(Elab *e, Value a, Value b, Node **x, Node **y, const char *what,
                  Place p);

// ---- elab_static.c: operators and functions of compile-time values ----------------
Value static_unary(Elab *e, AstOper op, Value v, Place p);
Value static_binary(Elab *e, AstOper op, Value a, Value b, Place p);

// ---- elab_index.c -----------------------------------------------------------------
Value eval_index(Elab *e, Env *env, const Ast *a);

// ---- elab_mask.c ------------------------------------------------------------------
bool is_mask(Value v);
Value mask_unary(Elab *e, MaskKind kind, Value v, Place p);
Value mask_binary(Elab *e, MaskKind kind, Value a, Value b, Place p);
Value mask_if(Elab *e, Value c, Value a, Value b, Place p);
Value mask_index(Elab *e, Value v, Value index, Place p);
// The operator of expressions as an operator of masks; false for those masks have not.
bool mask_oper(AstOper op, MaskKind *kind);
// Turns a predicate into a mask over q_rows x k_rows; NULL and *all for one that is
// always true. Captured tensors are left in b.
const Mask *mask_build(Elab *e, MaskBuild *b, Value predicate, Place p, bool *ok);

// ---- elab_tensor.c: making nodes --------------------------------------------------
bool is_tensor(Value v); // V_TENSOR, V_PARAM
// The node of a tensor; a number, boolean becomes a constant of its own type. NULL
// after a fault.
Node *to_node(Elab *e, Value v, Place p);
// The same, of type t: a number takes it; another tensor type is a fault ("needs f32").
Node *to_typed(Elab *e, Value v, DType t, const char *what, Place p);
Node *const_node(Elab *e, Value v, DType t, Place p); // of rank 0
Node *elab_emit(Elab *e, Op op, Node *const *in, int n, Attr a, Place p);
Node *elab_emit1(Elab *e, Op op, Node *x, Place p);
Node *elab_emit2(Elab *e, Op op, Node *x, Node *y, Place p);
Node *reshape_to(Elab *e, Node *x, Shape s, Place p);
Node *slice_of(Elab *e, Node *x, int axis, int64_t start, int64_t count, Place p);
Node *drop_axis(Elab *e, Node *x, int axis, Place p); // of extent 1
Node *expand_to(Elab *e, Node *x, Shape s, Place p);
const char *node_text(Elab *e, const Node *x); // "f32[3, 4]"
// Notes where operands that have a name come from, after an error about their shapes.
void note_operands(Elab *e, Node *const *in, int n);

// ---- arguments of built-in functions ----------------------------------------------
Node *arg_node(Elab *e, const Args *a, int k);
bool arg_int(Elab *e, const Args *a, int k, int64_t *i);
bool arg_number(Elab *e, const Args *a, int k, double *f);
bool arg_list(Elab *e, const Args *a, int k, const List **l);
// An axis of a tensor of this rank, counted from the end if negative; `fallback` if not
// given.
bool arg_axis(Elab *e, const Args *a, int k, int rank, int fallback, int *axis);
bool arg_shape(Elab *e, const Args *a, int k, Shape *s);
// A list of integers from a value; a bare integer is a list of one. Faults name `what`.
bool int_list(Elab *e, Value v, const char *what, Place p, const int64_t **list, int *n);
// The tensors of a "..." argument: the arguments themselves, or the one list they are.
bool rest_nodes(Elab *e, const Args *a, Node ***nodes, int *n);

// Tables of handlers: {name, handler}, ended by NULL.
typedef struct HandlerRow {
    const char *name;
    Handler fn;
} HandlerRow;
extern const HandlerRow static_handlers[], shape_handlers[], math_handlers[],
    learn_handlers[];

#endif

// check.h - what the files of the checker share.

#ifndef PCVRC_CHECK_H
#define PCVRC_CHECK_H

#include "program.h"

// Names, arity, kinds and cycles of a merged program; all it finds goes to d.
void check_program(Mem *mem, Diag *d, Program *p);

typedef enum SymKind {
    SYM_CONFIG,
    SYM_LET,
    SYM_FN,
    SYM_LAYER,
    SYM_MEMBER,    // a member that holds a layer
    SYM_PARAMETER, // a member with "param"
    SYM_ARG,       // an argument of a layer or function
    SYM_EXTENT,    // bound by a shape of a signature
    SYM_LOCAL,     // let, for, comprehension
    SYM_VAR
} SymKind;

// A name that a scope declares.
typedef struct Sym {
    SymKind kind;
    const char *name;
    Place place;
    const Ast *ast;   // what declares it; AST_FN, AST_LAYER, AST_BLOCK tell how to call it
    const Ast *list;  // members: the AST_MEMBERS it stands in
    int order;        // members: position from the top, else 0
    int node;         // in the graph of dependencies, -1: not part of it
    int level;        // of functions around it: a 'var' is assigned on its own level only
    bool open;        // a local function whose body is being checked
} Sym;

typedef struct Scope Scope;
struct Scope {
    Scope *up;
    Array(Sym *) syms;
};

// A use of one declaration inside another.
typedef struct Dep {
    int from, to;
    Place place;
} Dep;

typedef struct Check {
    Mem *mem;
    Diag *diag;
    const Program *program;
    Scope *scope;
    Array(Dep) deps;
    Array(const Sym *) nodes; // global declarations, then functions of layers
    bool *used;               // [program->decls.n] something names the declaration
    int from;                 // the node being checked, -1: none
    int order;                // the member being checked, 0: not among members
    int level;                // functions around the place being checked
    bool has_return;          // of the function being checked
} Check;

// ---- check_scope.c: names ------------------------------------------------------------

void scope_push(Check *c);
void scope_pop(Check *c);
// Declares a name in the innermost scope.
Sym *scope_add(Check *c, SymKind kind, const char *name, Place place, const Ast *ast);
// The nearest symbol of a name, NULL if there is none; global ones too.
const Sym *scope_find(Check *c, const char *name);
// The symbol a name stands for in an expression; NULL for a built-in, or after an error.
const Sym *check_name(Check *c, const char *name, Place place);
void check_field(Check *c, const Ast *a);
// Declares the names of a pattern; twice in one pattern is an error.
void check_pattern(Check *c, const Ast *pattern, SymKind kind, const Ast *ast);
// Adds "did you mean" to the last error: one of these names.
void suggest(Check *c, const char *name, Place place, const char *const *names, int n);

// ---- check_type.c: types and signatures ----------------------------------------------

void check_config_type(Check *c, const Ast *type);
void check_parameter_type(Check *c, const Ast *type);
// Arguments, their defaults and the result, declared in the innermost scope.
void check_signature(Check *c, const Ast *params, const Ast *result);

// ---- check_call.c --------------------------------------------------------------------

void check_call(Check *c, const Ast *call);
void check_mark(Check *c, const Ast *mark);

// ---- check_expr.c --------------------------------------------------------------------

void check_expr(Check *c, const Ast *a);
void check_for(Check *c, const Ast *a); // of AST_FOR_STMT all but its body
void check_assert(Check *c, const Ast *a);
void check_fn(Check *c, const Ast *fn);
// The one "forward" of a layer, block or model; NULL if it has none or several.
const Ast *find_forward(const Ast *component);

#endif

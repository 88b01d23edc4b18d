// program.h - the declarations of a model file and all it imports, merged and checked.
//
// One namespace: a declaration replaces an imported one of the same name, also where the
// imported file uses it. What is left is listed here; order within a list is imported
// files first, then as written, a replacement standing where the replaced one stood.

#ifndef PCVRC_PROGRAM_H
#define PCVRC_PROGRAM_H

#include "ast.h"
#include "names.h"

typedef enum DeclKind { DECL_CONFIG, DECL_LET, DECL_FN, DECL_LAYER } DeclKind;

// One name at file level. A "let a, b = …" is one Decl for each name, with the same ast.
typedef struct Decl {
    DeclKind kind;
    const char *name;   // interned; dotted for some configs: "ns.user_groups"
    const Ast *ast;     // AST_CONFIG, AST_LET, AST_FN, AST_LAYER or AST_BLOCK
    const Ast *type;    // config only
    const Ast *value;   // config only: the default, of the last file that gives one
    const Ast *allowed; // config only: AST_RANGE or list expression, NULL for anything; a
                        // config that replaces one and gives none keeps the other's
    uint32_t file;      // where it is declared: Diag.sources index
} Decl;

typedef struct Program {
    Array(Decl) decls;            // every name at file level
    Array(const Ast *) asserts;   // AST_ASSERT of all files
    Array(const Ast *) train;     // AST_SETTING, each key once: the last one given
    const Ast *model;             // AST_MODEL; NULL only when pcvrc_load failed
    Array(const Ast *) trees;     // AST_FILE of each file read, imported ones first
    Array(const char *) files;    // paths of the files read, the model's first (for -MD)
    NameMap index;                // of decls, by name
} Program;

// Reads a model file and its imports (beside the importing file, then each -I directory,
// then the directory of installed models), merges, checks. Errors go to d; NULL when
// there is any.
Program *pcvrc_load(Mem *mem, Diag *d, const char *path, const char *const *include_dirs,
                    int n_include_dirs);
// The same for a text in memory: `path` is shown in messages and places its imports.
Program *pcvrc_load_text(Mem *mem, Diag *d, const char *path, const char *text,
                         size_t length, const char *const *include_dirs,
                         int n_include_dirs);

// The path of a file of the installed models ("official.json"), NULL if there is none.
const char *models_file(Mem *mem, const char *name);

// The declaration of a name (interned or not), NULL if there is none.
const Decl *program_find(const Program *p, const char *name);
// Whether some config is called "prefix.…": `ns` in `ns.user_groups`.
bool program_has_prefix(const Program *p, const char *prefix);

// The name nearest to `name` among n, close enough to suggest, else NULL.
const char *nearest_name(const char *name, const char *const *names, int n);

// ---- what the language has built in (builtins.def) ----------------------------------

typedef enum BuiltinKind {
    BI_CONST,  // pi, inf: a value, not called
    BI_DATA,   // schema, user, item, request_time: an object or a tensor, not called
    BI_STATIC, // compile-time values only
    BI_TENSOR, // tensors (and compile-time values where they enter the graph)
    BI_BOTH,   // compile-time values give one, tensors give a tensor
    BI_INIT,   // an initial value of a parameter; zeros() is one too
    BI_LAYER,  // Sequential
    BI_MARK    // only after "with"
} BuiltinKind;

typedef struct Builtin {
    const char *name;
    int min_args, max_args; // max -1: any number. Named arguments count.
    BuiltinKind kind;
    const char *params; // "x, axis, keep": the arguments' names, in order; "..." first: any
                        // number of unnamed ones
} Builtin;

extern const Builtin builtins[];
extern const int n_builtins;
// NULL if there is none; marks are looked up apart from functions and names.
const Builtin *builtin_find(const char *name, bool mark);

#endif

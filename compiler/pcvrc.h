// pcvrc.h - the compiler as a library: from a model file to a graph, a module's text, a
// report.
//
// One Compile goes through the steps in their order. Each returns an exit status: 0, 1
// for a fault in the input, 2 for one in the command line; what was found is in `diag`,
// and nothing is printed.

#ifndef PCVRC_PCVRC_H
#define PCVRC_PCVRC_H

#include "elab.h"
#include "passes.h"

#define PCVRC_VERSION "0.1.0"

typedef struct Compile {
    Mem mem;
    Diag diag;
    const char *path; // of the model file
    const char *name; // of the module: the file's stem, or what --name gave
    Program *program;
    Config *config;
    Schema *schema; // owned
    const char *schema_path;
    const char *model_lens; // data.seq_max_lens of the model file, or NULL
    Graph *graph;
    int64_t batch_hint; // samples of a batch, for choices that depend on it; negative: the
                        // model's data.batch_size
} Compile;

// Reads the model file and its imports. In any case compile_close must follow.
int compile_open(Compile *c, const char *path, const char *const *include_dirs, int n);
// Reads the schema: `path`, or when that is NULL schema.json beside the model, else
// official.json of the installed models (c->schema_path tells which). The sequence
// lengths are the configuration's.
int compile_schema(Compile *c, const char *path);
// Elaborates: c->graph is the forward graph of one sample.
int compile_graph(Compile *c);
void compile_close(Compile *c);

// One graph pass: the table `passes` of pcvrc.c has them in their order.
typedef struct Pass {
    const char *name;
    PassFn *run;
    const char *what;
} Pass;
extern const Pass passes[];
extern const int n_passes;

// Called after each pass with its name, and before the first with "elaborate".
typedef void PassHook(void *arg, const char *pass, const Graph *g);

// Runs the passes. `choice` is what --checkpoint takes; NULL: "blocks" if the
// configuration says gradient_checkpointing, else "none". Without `backward` only those
// of the forward graph run.
int compile_passes(Compile *c, const char *choice, bool backward, PassHook *hook,
                   void *arg);

// compile_c.c - after compile_passes with `backward`: the tile program with all its offsets, and the text
// of the module pcvr_<name>, both in c->mem.
struct Tiles *compile_tiles(Compile *c);
char *compile_c(Compile *c, const Schema *schema, struct Tiles *t);
// The report of the module for c->schema; the caller owns it.
json_t *compile_report(Compile *c, struct Tiles *t);

// output.c - files written whole or not at all.

typedef struct Output {
    const char *path, *text;
    size_t length;
} Output;

// Writes files under temporary names in their directories and renames them when all are
// written; makes missing directories. 0, or 1 and an error without a place.
int write_files(Diag *d, const Output *files, int n);
// A path as make reads it in a rule.
const char *make_quoted(Arena *a, const char *path);

#endif

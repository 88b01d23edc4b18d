// pcvrc.c - the map of the compiler: a model file goes through these steps to a graph.
//
//     text -- load (lex, parse, merge, check) --> program
//     program, configuration, schema -- elaborate --> graph of one sample
//     graph -- the passes below --> forward, recomputation and backward in one graph
//     graph -- schedule, plan --> tile program, every buffer in its place (compile_c.c)
//     tile program -- emit_c, emit_report --> C text, report

#include "pcvrc.h"

#include "fit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Pass, file, function and dump share a name.
const Pass passes[] = {
    {"simplify", simplify, "fold constants, merge equal nodes, drop dead ones"},
    {"prune", prune, "drop rows that cannot reach the logits"},
    {"project", project, "make linear layers on looked-up rows sums of projected rows"},
    {"absorb", absorb, "let attention of few queries meet the input of its key and value layers"},
    {"differentiate", differentiate, "append the backward graph"},
    {"checkpoint", checkpoint,
     "choose what each block keeps; clone the rest for recomputation"},
    {"sweep", sweep, "drop what checkpointing made dead; merge nothing"},
};
const int n_passes = sizeof passes / sizeof passes[0];

enum { DEFAULT_BATCH = 256 }; // samples, where a model does not say
enum { N_FORWARD = 4 }; // the passes that a forward graph goes through

int
compile_open(Compile *c, const char *path, const char *const *include_dirs, int n)
{
    *c = (Compile){.batch_hint = -1};
    mem_init(&c->mem);
    c->path = path = arena_copy(&c->mem.perm, path, strlen(path));
    diag_init(&c->diag, &c->mem);
    const char *slash = strrchr(path, '/'), *stem = slash ? slash + 1 : path;
    c->name = arena_copy(&c->mem.perm, stem, strcspn(stem, "."));
    c->program = pcvrc_load(&c->mem, &c->diag, path, include_dirs, n);
    if (c->program)
        c->config = config_new(&c->mem, &c->diag, c->program);
    c->model_lens = c->config ? config_seq_max_lens(c->config) : NULL;
    return c->config ? 0 : 1;
}

// schema.json in the directory of the model.
static const char *
schema_beside(Compile *c)
{
    const char *slash = strrchr(c->path, '/');
    int dir = slash ? (int)(slash - c->path) + 1 : 0;
    const char *path = arena_printf(&c->mem.perm, "%.*sschema.json", dir, c->path);
    return access(path, F_OK) == 0 ? path : NULL;
}

// A default may list more domains than a data set has; who gives a list means its names.
static void
warn_lens(Compile *c, const char *lens)
{
    char *unknown =
        lens && lens != c->model_lens ? schema_unknown_lens(c->schema, lens) : NULL;
    if (unknown)
        diag_warning(&c->diag, (Place){0}, "data.seq_max_lens: %s has no domain %s",
                     c->schema_path, unknown);
    free(unknown);
}

int
compile_schema(Compile *c, const char *path)
{
    DataError e = {0};
    c->schema_path = path ? path : schema_beside(c);
    if (!c->schema_path)
        c->schema_path = models_file(&c->mem, "official.json");
    if (!c->schema_path) {
        diag_error(&c->diag, (Place){0}, "no schema: give one with --schema");
        return 2;
    }
    c->schema = schema_read(c->schema_path, &e);
    const char *lens = config_seq_max_lens(c->config);
    if (!c->schema || schema_set_lens(c->schema, lens, &e) != 0) {
        diag_error(&c->diag, (Place){0}, "%s", e.text);
        return 1;
    }
    warn_lens(c, lens);
    return 0;
}

int
compile_graph(Compile *c)
{
    c->graph = elaborate(&c->mem, &c->diag, c->program, c->config, c->schema);
    return c->graph ? 0 : 1;
}

// data.batch_size of the model's train section.
static int64_t
configured_batch(const Compile *c)
{
    json_t *train = config_train_json(c->config);
    const json_t *batch = json_object_get(train, "data.batch_size");
    int64_t n = batch ? json_integer_value(batch) : DEFAULT_BATCH;
    json_decref(train);
    return n;
}

int
compile_passes(Compile *c, const char *choice, bool backward, PassHook *hook, void *arg)
{
    if (!choice)
        choice = config_gradient_checkpointing(c->config) ? "blocks" : "none";
    if (!checkpoint_choice_valid(c->graph, choice))
        return 2;
    c->graph->checkpoint = choice;
    c->graph->batch_hint = c->batch_hint >= 0 ? c->batch_hint : configured_batch(c);
    if (hook)
        hook(arg, "elaborate", c->graph);
    for (int i = 0; i < (backward ? n_passes : N_FORWARD); i++) {
        if (passes[i].run == checkpoint)
            fit_blocks(c->graph);
        if (!passes[i].run(c->graph))
            return 1;
        arena_reset(&c->mem.scratch);
        if (hook)
            hook(arg, passes[i].name, c->graph);
    }
    return 0;
}

void
compile_close(Compile *c)
{
    schema_free(c->schema);
    mem_free(&c->mem);
}

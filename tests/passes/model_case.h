// model_case.h - the recorded model cases: loading one, and walking over all of them.

#ifndef TEST_MODEL_CASE_H
#define TEST_MODEL_CASE_H

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elab.h"

enum { N_MODEL_CASES = 35 };

static const char *const model_names[] = {"baseline",   "dualq",       "interformer",
                                          "onetrans",   "queryformer", "symbiosis",
                                          "tokenformer"};

// Where the cases lie: the recorded ones, else the small copies of a clone alone.
static inline const char *
model_case_root(char *room, size_t n, bool *all)
{
    const char *root = getenv("PCVR_FIXTURES");
    snprintf(room, n, "%s/models", root && *root ? root : "../shared/fixtures");
    *all = access(room, R_OK) == 0;
    if (!*all)
        snprintf(room, n, "tests/golden/models");
    return room;
}

// One case, elaborated.
typedef struct ModelCase {
    char name[128], dir[1400];
    json_t *json; // case.json
    Mem mem;
    Diag diag;
    Schema *schema;
    Graph *graph; // NULL after printing why
} ModelCase;

static inline void
model_case_elaborate(ModelCase *c, const char *model, const char *models_dir)
{
    char path[1500];
    DataError error = {{0}};
    snprintf(path, sizeof path, "%s/schema.json", c->dir);
    c->schema = schema_read(path, &error);
    if (!c->schema) {
        printf("%s: %s\n", path, error.text);
        return;
    }
    snprintf(path, sizeof path, "%s/%s.pcvr", models_dir, model);
    Program *program = pcvrc_load(&c->mem, &c->diag, path, NULL, 0);
    Config *config = program ? config_new(&c->mem, &c->diag, program) : NULL;
    if (config &&
        config_set_json(config, json_object_get(c->json, "config"), "case.json") == 0 &&
        config_set_seq_max_lens_json(config, json_object_get(c->json, "seq_max_lens"),
                                     "case.json") == 0 &&
        schema_set_lens(c->schema, config_seq_max_lens(config), &error) == 0)
        c->graph = elaborate(&c->mem, &c->diag, program, config, c->schema);
    if (!c->graph) {
        printf("%s: %s\n", c->name, error.text);
        diag_print(&c->diag, stdout);
    }
}

// Loads case `name` of a model; release it with model_case_free.
static inline void
model_case_load(ModelCase *c, const char *root, const char *model, const char *name)
{
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s/%s", model, name);
    snprintf(c->dir, sizeof c->dir, "%s/%s/%s", root, model, name);
    mem_init(&c->mem);
    diag_init(&c->diag, &c->mem);
    char path[1500];
    snprintf(path, sizeof path, "%s/case.json", c->dir);
    c->json = json_load_file(path, 0, NULL);
    if (!c->json)
        printf("%s: cannot be read\n", path);
    else
        model_case_elaborate(c, model, "models");
}

static inline void
model_case_free(ModelCase *c)
{
    json_decref(c->json);
    schema_free(c->schema);
    mem_free(&c->mem);
}

static inline int
model_case_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Calls check for every case (whose name holds $PCVR_CASE, if that is set); returns how
// many there were. `check` gives false for a case that fails; *failed counts them.
static inline int
model_cases_walk(const char *root, bool (*check)(ModelCase *), int *failed)
{
    const char *only = getenv("PCVR_CASE");
    int n_cases = 0;
    *failed = 0;
    for (size_t m = 0; m < sizeof model_names / sizeof *model_names; m++) {
        char path[1500], *names[64];
        int n = 0;
        snprintf(path, sizeof path, "%s/%s", root, model_names[m]);
        DIR *d = opendir(path);
        for (struct dirent *x; d && (x = readdir(d)) && n < 64;)
            if (x->d_name[0] != '.')
                names[n++] = strdup(x->d_name);
        if (d)
            closedir(d);
        qsort(names, (size_t)n, sizeof *names, model_case_order);
        for (int k = 0; k < n; k++) {
            ModelCase c;
            char full[200];
            snprintf(full, sizeof full, "%s/%s", model_names[m], names[k]);
            n_cases++;
            if (!only || !*only || strstr(full, only)) {
                model_case_load(&c, root, model_names[m], names[k]);
                bool ok = c.graph && check(&c);
                if (!ok)
                    printf("FAIL %s\n", full);
                *failed += !ok;
                model_case_free(&c);
            }
            free(names[k]);
        }
    }
    return n_cases;
}

#endif

// experiment.c - a model file as the driver uses it: its defaults, and the module
// compiled from it.

#include "experiment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model_in.h"

struct ExperimentState {
    ModelIn model;
};

static bool
is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

// The installed model of that name, or NULL.
static char *
installed_path(const char *name, size_t n)
{
    Mem mem;
    mem_init(&mem);
    const char *path = models_file(&mem, arena_printf(&mem.perm, "%.*s.pcvr", (int)n, name));
    char *copy = path ? strdup(path) : NULL;
    mem_free(&mem);
    return copy;
}

// "x.pcvr" as it is; a directory: model.pcvr in it; "experiments/onetrans" or "onetrans":
// models/onetrans.pcvr where that exists, else the installed onetrans.pcvr. A directory
// without any of them gives the model.pcvr that it lacks.
static char *
model_path(const char *given)
{
    size_t n = strlen(given);
    while (n > 1 && given[n - 1] == '/')
        n--;
    if (n > 5 && !strncmp(given + n - 5, ".pcvr", 5))
        return strndup(given, n);
    size_t start = n;
    while (start > 0 && given[start - 1] != '/' && given[start - 1] != '.')
        start--;
    char *path = malloc(n + 32);
    if (!path)
        return NULL;
    sprintf(path, "%.*s/model.pcvr", (int)n, given);
    if (!is_file(path))
        sprintf(path, "%.*s.pcvr", (int)n, given);
    if (!is_file(path))
        sprintf(path, "models/%.*s.pcvr", (int)(n - start), given + start);
    if (!is_file(path)) {
        struct stat st;
        char *found = installed_path(given + start, n - start);
        bool folder = !found && stat(given, &st) == 0 && S_ISDIR(st.st_mode);
        sprintf(path, folder ? "%.*s/model.pcvr" : "%.*s", (int)n, given);
        if (found) {
            free(path);
            path = found;
        }
    }
    return path;
}

// "models/onetrans.pcvr": onetrans; "mine/model.pcvr": mine.
static char *
stem(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (slash && slash > path && !strcmp(name, "model.pcvr")) {
        const char *start = slash;
        while (start > path && start[-1] != '/')
            start--;
        return strndup(start, (size_t)(slash - start));
    }
    return strndup(name, strcspn(name, "."));
}

static int
take_defaults(Experiment *e, Settings *settings)
{
    const Config *config = e->state->model.c.config;
    PcvrError err = {{0}};
    json_t *fields = config_json(config), *train = config_train_json(config);
    bool ok = fields && train &&
              settings_init(settings, settings_class_for(fields), &err) &&
              settings_take_model(settings, fields, train, &err);
    json_decref(fields);
    json_decref(train);
    if (!ok)
        fprintf(stderr, "pcvr: %s: %s\n", e->path,
                err.text[0] ? err.text : "out of memory");
    return ok ? 0 : 1;
}

int
experiment_model(ModelIn *m, const char *given)
{
    *m = (ModelIn){0};
    char *path = model_path(given);
    int status = path ? model_open(m, path) : 1;
    if (!path)
        fputs("pcvr: out of memory\n", stderr);
    free(path);
    return status;
}

int
experiment_open(Experiment *e, const char *path, Settings *settings)
{
    *e = (Experiment){.path = model_path(path), .state = calloc(1, sizeof *e->state)};
    e->name = e->path ? stem(e->path) : NULL;
    if (!e->name || !e->state) {
        fputs("pcvr: out of memory\n", stderr);
        return 1;
    }
    int status = model_open(&e->state->model, e->path);
    return status ? status : take_defaults(e, settings);
}

void
experiment_free(Experiment *e)
{
    if (e->state)
        model_close(&e->state->model);
    free(e->state);
    free(e->path);
    free(e->name);
    *e = (Experiment){0};
}

int
experiment_build(Experiment *e, const Settings *settings, const Schema *schema,
                 const char *checkpoint, const pcvr_module **out)
{
    ModelIn *m = &e->state->model;
    json_t *fields = settings_model_json(settings);
    int status = model_set_json(m, fields, "settings");
    json_decref(fields);
    if (!status)
        status = model_elaborate(m, schema);
    if (!status)
        status = model_passes(m, checkpoint, true);
    if (!status)
        status = model_build(m, schema, out);
    return status;
}

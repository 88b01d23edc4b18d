// experiment.c - a model file as the driver uses it: its defaults, and the module
// compiled from it.

#include "experiment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "find.h"
#include "model_in.h"

struct ExperimentState {
    ModelIn model;
};

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
    Mem mem;
    mem_init(&mem);
    int status = model_open(m, model_path(&mem, given));
    mem_free(&mem);
    return status;
}

int
experiment_open(Experiment *e, const char *path, Settings *settings)
{
    Mem mem;
    mem_init(&mem);
    const char *file = model_path(&mem, path);
    *e = (Experiment){.path = strdup(file),
                      .name = strdup(model_stem(&mem, "", file)),
                      .state = calloc(1, sizeof *e->state)};
    mem_free(&mem);
    if (!e->path || !e->name || !e->state) {
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

const char *
experiment_lens(const Experiment *e)
{
    return e->state ? config_seq_max_lens(e->state->model.c.config) : NULL;
}

int
experiment_build(Experiment *e, const Settings *settings, const Schema *schema,
                 const char *checkpoint, const pcvr_module **out)
{
    ModelIn *m = &e->state->model;
    json_t *fields = settings_model_json(settings);
    int status = model_set_json(m, fields, "settings");
    json_decref(fields);
    if (!status && e->batch_hint < -1) {
        fprintf(stderr, "pcvr: --batch-hint is %lld, expected at least 0\n",
                (long long)e->batch_hint);
        status = 2;
    }
    m->c.batch_hint =
        e->batch_hint >= 0 ? e->batch_hint : settings_int(settings, "data.batch_size");
    if (!status)
        status = model_elaborate(m, schema);
    if (!status)
        status = model_passes(m, checkpoint, true);
    if (!status)
        status = model_build(m, schema, out);
    return status;
}

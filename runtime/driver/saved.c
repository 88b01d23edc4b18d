// saved.c - weights and settings of an earlier run, opened for scoring.

#include "saved.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint.h"
#include "file.h"
#include "loss.h"

int
saved_flags(Run *r, int argc, char **argv, const Flag *own, int n)
{
    PcvrError err = {{0}};
    enum { OWN = 4, SHARED = 16 };
    r->f.batch_hint = -1;
    Flag flags[OWN + SHARED] = {
        {"experiment", FLAG_TEXT, &r->f.experiment},
        {"dataset-path", FLAG_TEXT, &r->f.dataset},
        {"schema-path", FLAG_TEXT, &r->f.schema},
        {"checkpoint", FLAG_TEXT, &r->f.checkpoint},
        {"device", FLAG_TEXT, &r->f.device},
        {"amp-dtype", FLAG_TEXT, &r->f.amp_dtype},
        {"chunk", FLAG_TEXT, &r->f.chunk},
        {"threads", FLAG_COUNT, &r->f.threads},
        {"batch-hint", FLAG_SIZE, &r->f.batch_hint},
        {"lanes", FLAG_COUNT, &r->f.lanes},
        {"batch-size", FLAG_COUNT, &r->f.batch_size},
        {"num-workers", FLAG_SIZE, &r->f.workers},
        {"amp", FLAG_SWITCH, &r->f.amp},
        {"compile", FLAG_SWITCH, &r->f.compile},
        {"json", FLAG_SWITCH, &r->f.json},
        {"strict-ids", FLAG_PLAIN, &r->f.strict_ids},
    };
    for (int i = 0; i < n && i < OWN; i++)
        flags[SHARED + i] = own[i];
    if (!flags_parse(argc, argv, flags, SHARED + n, NULL, &err))
        return run_fail(r, 2, err.text);
    if (r->f.device && strcmp(r->f.device, "cpu"))
        return run_fail(r, 2, "--device: this program has cpu");
    if (r->f.batch_size < 0)
        return run_fail(r, 2, "--batch-size: expected a number from 1 on");
    r->say = r->f.json ? stderr : stdout;
    return run_options(r);
}

// Settings of the saved run; those of the model file, with a warning, where none are beside
// the weights.
static int
saved_settings(Run *r, const char *weights)
{
    PcvrError err = {{0}};
    char *path = checkpoint_beside(weights, "train_config.json");
    char *extra = checkpoint_beside(weights, "pcvr.json");
    size_t n;
    bool ok = true;
    if (path && access(path, F_OK)) {
        fprintf(stderr, "pcvr %s: warning: no %s; the model file's defaults are used\n",
                r->command, path);
    } else {
        char *text = path ? pcvr_file_read(path, &n, &err) : NULL;
        ok = text && settings_read(&r->settings, text, n, path, &err);
        free(text);
    }
    if (ok && extra && !access(extra, F_OK)) {
        char *text = pcvr_file_read(extra, &n, &err);
        ok = text && settings_read_extra(&r->settings, text, n, extra, &err);
        free(text);
    }
    free(path);
    free(extra);
    return ok ? 0 : run_fail(r, 1, err.text);
}

int
saved_open(Run *r, int (*paths)(Run *r, char **weights), bool inference, char **weights)
{
    const char *model = run_path(r->f.experiment, "TAAC_EXPERIMENT");
    if (!model)
        return run_fail(r, 2, "no model: give --experiment PATH");
    int status = experiment_open(&r->experiment, model, &r->settings);
    if (!status)
        status = paths(r, weights);
    if (!status)
        status = saved_settings(r, *weights);
    if (!status)
        status = run_schema(r);
    r->experiment.batch_hint = r->f.batch_hint;
    if (!status)
        status =
            experiment_build(&r->experiment, &r->settings, r->schema, "none", &r->module);
    return status ? status : run_data(r, inference);
}

// Reads the weights into a runner of r->module.
static bool
saved_load(Run *r, pcvr_runner *runner, const char *weights, PcvrError *err)
{
    float **params = calloc((size_t)r->module->n_params + 1, sizeof *params);
    for (int i = 0; params && i < r->module->n_params; i++)
        params[i] = pcvr_runner_param(runner, i);
    bool ok = params ? checkpoint_load(weights, r->module, params, err)
                     : pcvr_fail(err, "out of memory");
    free(params);
    if (ok)
        pcvr_runner_prepare(runner);
    return ok;
}

bool
saved_runner(Run *r, const char *weights, pcvr_runner **out, int64_t *batch,
             PcvrError *err)
{
    *batch = r->f.batch_size > 0 ? r->f.batch_size
                                 : settings_int(&r->settings, "data.batch_size");
    r->options.forward_only = true;
    if (pcvr_runner_new(r->module, *batch, &r->options, out, err->text, sizeof err->text))
        return false;
    return saved_load(r, *out, weights, err);
}

bool
saved_scores_check(const Scores *s, const char *weights, PcvrError *err)
{
    int64_t n = s->n * s->actions;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(s->logits[i]))
            return true;
    return n == 0 || pcvr_fail(err, "%s: all %lld logits are NaN with these weights",
                               weights, (long long)n);
}

// The scores as the reference rounds them: sigmoids in float32.
double *
saved_probabilities(const Scores *s)
{
    int64_t n = s->n * s->actions;
    double *p = malloc(((size_t)n + 1) * sizeof *p);
    for (int64_t i = 0; p && i < n; i++)
        p[i] = (double)(float)pcvr_sigmoid((double)s->logits[i]);
    return p;
}

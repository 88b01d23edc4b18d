// saved.c - weights and settings of an earlier run, opened for scoring.

#include "saved.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "checkpoint.h"
#include "file.h"
#include "loss.h"

// Settings of the saved run; those of the model file where none are beside the weights.
int
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

bool
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

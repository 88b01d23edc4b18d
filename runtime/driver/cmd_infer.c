// cmd_infer.c - pcvr infer: scores a data set without labels with saved weights.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "commands.h"
#include "flags.h"
#include "json.h"
#include "saved.h"
#include "telemetry.h"

static const char usage[] =
    "usage: pcvr infer --experiment MODEL --dataset-path PATH --result-dir DIR "
    "[flags]\n\n"
    "  --experiment MODEL     FILE.pcvr, a folder with a model.pcvr, or an installed "
    "model's "
    "name\n"
    "  --dataset-path PATH    Parquet file or directory (EVAL_DATA_PATH)\n"
    "  --result-dir DIR       where predictions.json goes: one a user, of the last of "
    "its rows\n"
    "                         (EVAL_RESULT_PATH)\n"
    "  --checkpoint PATH      saved weights, or a directory that holds them "
    "(MODEL_OUTPUT_PATH);\n"
    "                         default: the working directory\n"
    "  --schema-path PATH     schema.json; default: beside the weights\n"
    "  --batch-size N --num-workers N --device cpu --threads N --chunk N --lanes N --batch-hint N\n"
    "  --amp --no-amp --amp-dtype T --compile --no-compile    no effect on the CPU\n"
    "  --strict-ids           an id outside its vocabulary is an error\n"
    "  --json                 print a summary as one line of JSON\n";

static int
paths(Run *r, char **weights)
{
    PcvrError err = {{0}};
    const char *result = run_path(r->f.run_dir, "EVAL_RESULT_PATH");
    const char *from = run_path(r->f.checkpoint, "MODEL_OUTPUT_PATH");
    r->f.dataset = run_path(r->f.dataset, "EVAL_DATA_PATH");
    if (!result)
        return run_fail(
            r, 2, "no place for results: give --result-dir DIR or set EVAL_RESULT_PATH");
    if (!r->f.dataset)
        return run_fail(r, 2, "no data: give --dataset-path PATH or set EVAL_DATA_PATH");
    int status = run_dataset(r);
    if (status)
        return status;
    *weights = checkpoint_find(from ? from : ".", &err);
    if (!*weights)
        return run_fail(r, 1, err.text);
    r->run_dir = strdup(result);
    r->schema_path =
        r->f.schema ? strdup(r->f.schema) : checkpoint_beside(*weights, "schema.json");
    return r->run_dir && r->schema_path ? 0 : run_fail(r, 1, "out of memory");
}

// One entry a user: a later row replaces the score of an earlier one.
static json_t *
predictions_json(const Scores *s, const double *p)
{
    json_t *file = json_object(), *all = json_object();
    for (int64_t i = 0; i < s->n; i++)
        json_object_set_new(all, s->users[i] ? s->users[i] : "None",
                            json_finite(p[i * s->actions]));
    json_object_set_new(file, "predictions", all);
    return file;
}

static json_t *
summary_json(const Run *r, const char *weights, const char *path, int64_t entries,
             int64_t batch, json_t *telemetry)
{
    json_t *v = json_object();
    json_object_set_new(v, "checkpoint_path", json_string(weights));
    json_object_set_new(v, "schema_path", json_string(r->schema_path));
    json_object_set_new(v, "schema", json_load_file(r->schema_path, 0, NULL));
    json_object_set_new(v, "predictions_path", json_string(path));
    json_object_set_new(v, "prediction_count", json_integer(entries));
    json_object_set_new(v, "batch_size", json_integer(batch));
    json_object_set_new(v, "num_workers", json_integer(r->f.workers));
    json_object_set_new(v, "telemetry", telemetry);
    return v;
}

// Writes predictions.json, then tells about it. `path` has room for the names of both files.
static bool
write_results(const Run *r, const char *weights, int64_t batch, const Scores *s,
              const double *p, const Telemetry *t, char *path, PcvrError *err)
{
    json_t *file = predictions_json(s, p);
    int64_t entries = (int64_t)json_object_size(json_object_get(file, "predictions"));
    sprintf(path, "%s/predictions.json", r->run_dir);
    bool ok = telemetry_write(path, file, err);
    json_decref(file);
    if (!ok)
        return false;
    json_t *telemetry = telemetry_scored(t, r, weights, path, s);
    json_t *v = summary_json(r, weights, path, entries, batch, telemetry);
    char *line = json_text(v, 0);
    fprintf(r->say, "%s: %lld predictions, one a user, of %lld rows\n", path,
            (long long)entries, (long long)s->n);
    sprintf(path, "%s/inference_telemetry.json", r->run_dir);
    ok = (line || pcvr_fail(err, "out of memory")) &&
         telemetry_write(path, telemetry, err);
    if (ok && r->f.json)
        printf("%s\n", line);
    json_decref(v);
    free(line);
    return ok;
}

static bool
score(Run *r, pcvr_runner *runner, const char *weights, int64_t batch, PcvrError *err)
{
    Scores s = {.want_users = true};
    Telemetry t = telemetry_start("inference");
    char *path = malloc(strlen(r->run_dir) + 64);
    bool ok = (path || pcvr_fail(err, "out of memory")) &&
              run_log_open(r, r->run_dir, "infer.log", err) &&
              run_score(r, runner, 0, data_n_groups(r->data), batch, &s, err) &&
              saved_scores_check(&s, weights, err);
    double *p = ok ? saved_probabilities(&s) : NULL;
    ok = ok && (p || pcvr_fail(err, "out of memory")) &&
         write_results(r, weights, batch, &s, p, &t, path, err);
    free(p);
    free(path);
    scores_free(&s);
    return ok;
}

static int
score_all(Run *r, const char *weights)
{
    PcvrError err = {{0}};
    pcvr_runner *runner = NULL;
    int64_t batch;
    bool ok = saved_runner(r, weights, &runner, &batch, &err) &&
              score(r, runner, weights, batch, &err);
    pcvr_runner_free(runner);
    return ok ? 0 : run_fail(r, 1, err.text);
}

int
cmd_infer(int argc, char **argv)
{
    Run r = {.command = "infer"};
    char *weights = NULL;
    if (flags_ask_help(argc, argv)) {
        fputs(usage, stdout);
        return 0;
    }
    const Flag own[] = {{"result-dir", FLAG_TEXT, &r.f.run_dir}};
    int status = saved_flags(&r, argc, argv, own, 1);
    if (!status)
        status = saved_open(&r, paths, true, &weights);
    if (!status)
        status = score_all(&r, weights);
    free(weights);
    run_free(&r);
    return status;
}

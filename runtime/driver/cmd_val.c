// cmd_val.c - pcvr val: scores a data set with saved weights, forward only, and evaluates
// the scores.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "commands.h"
#include "file.h"
#include "flags.h"
#include "json.h"
#include "run.h"
#include "saved.h"
#include "telemetry.h"

static const char usage[] =
    "usage: pcvr val --experiment MODEL --dataset-path PATH [flags]\n\n"
    "  --experiment MODEL       FILE.pcvr, a folder with a model.pcvr, or an installed "
    "model's name\n"
    "  --dataset-path PATH      Parquet file or directory (TRAIN_DATA_PATH)\n"
    "  --checkpoint PATH        saved weights: a .safetensors file, or a directory that "
    "holds one;\n"
    "                           default: the latest of the run directory\n"
    "  --run-dir DIR            run directory (TRAIN_CKPT_PATH); default outputs/NAME\n"
    "  --schema-path PATH       schema.json; default: beside the weights\n"
    "  --output PATH            default RUN_DIR/evaluation.json\n"
    "  --predictions-path PATH  default RUN_DIR/validation_predictions.jsonl\n"
    "  --batch-size N --num-workers N --device cpu --threads N --chunk N --lanes N --batch-hint N\n"
    "  --amp --no-amp --amp-dtype T --compile --no-compile    no effect on the CPU\n"
    "  --strict-ids             an id outside its vocabulary is an error\n"
    "  --json                   print the evaluation as one line of JSON\n";

static int
parse(Run *r, int argc, char **argv)
{
    const Flag own[] = {
        {"run-dir", FLAG_TEXT, &r->f.run_dir},
        {"output", FLAG_TEXT, &r->f.output},
        {"predictions-path", FLAG_TEXT, &r->f.predictions},
    };
    if (argc > 0 && !strcmp(argv[0], "single")) {
        argc--;
        argv++;
    }
    return saved_flags(r, argc, argv, own, (int)(sizeof own / sizeof *own));
}

static int
paths(Run *r, char **weights)
{
    PcvrError err = {{0}};
    int status = run_dataset(r);
    if (status)
        return status;
    const char *run_dir = run_path(r->f.run_dir, "TRAIN_CKPT_PATH");
    r->run_dir = run_dir ? strdup(run_dir) : malloc(strlen(r->experiment.name) + 16);
    if (!r->run_dir)
        return run_fail(r, 1, "out of memory");
    if (!run_dir)
        sprintf(r->run_dir, "outputs/%s", r->experiment.name);
    *weights = checkpoint_find(r->f.checkpoint ? r->f.checkpoint : r->run_dir, &err);
    if (!*weights)
        return run_fail(r, 1, err.text);
    r->schema_path =
        r->f.schema ? strdup(r->f.schema) : checkpoint_beside(*weights, "schema.json");
    return r->schema_path ? 0 : run_fail(r, 1, "out of memory");
}

static bool
write_predictions(const char *path, const Scores *s, const double *p, PcvrError *err)
{
    Buffer b = {0};
    for (int64_t i = 0; i < s->n; i++) {
        json_t *v = json_object();
        json_object_set_new(v, "sample_index", json_integer(i));
        json_object_set_new(v, "user_id",
                            json_string(s->users[i] ? s->users[i] : "None"));
        json_object_set_new(v, "score", json_finite(p[i * s->actions]));
        json_object_set_new(v, "target", json_real(s->labels[i * s->actions]));
        json_object_set_new(v, "timestamp", json_integer(s->times[i]));
        char *line = json_text(v, 0);
        if (line)
            buffer_puts(&b, line);
        buffer_puts(&b, "\n");
        b.failed = b.failed || !line;
        free(line);
        json_decref(v);
    }
    bool ok = !b.failed || pcvr_fail(err, "out of memory");
    ok = ok && pcvr_file_write(path, b.text ? b.text : "", b.length, err);
    free(b.text);
    return ok;
}

static json_t *
metrics_json(const PcvrEvaluation *e)
{
    const PcvrInterval *c = &e->interval;
    json_t *v = json_object(), *ci = json_object(), *gauc = json_object();
    json_object_set_new(ci, "samples", json_integer(c->samples));
    json_object_set_new(ci, "confidence", json_real(c->confidence));
    json_object_set_new(ci, "low", json_finite(c->low));
    json_object_set_new(ci, "high", json_finite(c->high));
    json_object_set_new(ci, "std", json_finite(c->std));
    json_object_set_new(ci, "positive_resample_count", json_integer(c->positive_count));
    json_object_set_new(ci, "negative_resample_count", json_integer(c->negative_count));
    json_object_set_new(gauc, "value", json_finite(e->gauc));
    json_object_set_new(gauc, "coverage", json_finite(e->gauc_coverage));
    json_object_set_new(v, "auc", json_finite(e->auc));
    json_object_set_new(v, "auc_ci", ci);
    json_object_set_new(v, "logloss", json_finite(e->logloss));
    json_object_set_new(v, "brier", json_finite(e->brier));
    json_object_set_new(v, "gauc", gauc);
    json_object_set_new(v, "score_diagnostics", run_diagnostics_json(&e->diagnostics));
    json_object_set_new(v, "sample_count", json_integer(e->sample_count));
    return v;
}

// The row groups, and how training would split them.
static json_t *
data_json(const Run *r)
{
    DataSplit s = {0};
    DataError e;
    json_t *v = json_object(), *warnings = json_array();
    json_object_set_new(v, "dataset_path", json_string(r->f.dataset));
    json_object_set_new(v, "file_count", json_integer(data_n_files(r->data)));
    json_object_set_new(v, "total_row_groups", json_integer(data_n_groups(r->data)));
    json_object_set_new(v, "total_rows", json_integer(data_rows(r->data)));
    if (data_split(r->data, "row_group_tail", 0.1, 1.0, &s, &e) == 0)
        json_object_set_new(v, "row_group_split", run_split_json(&s));
    if (s.reused)
        json_array_append_new(warnings,
                              json_string("one row group: a split would train and "
                                          "validate on the same rows"));
    json_object_set_new(v, "warnings", warnings);
    return v;
}

static json_t *
evaluation_json(const Run *r, const char *weights, const char *predictions, int64_t batch,
                const PcvrEvaluation *e, json_t *telemetry, const char *observed)
{
    json_t *v = json_object();
    json_object_set_new(v, "experiment_name", json_string(r->experiment.name));
    json_object_set_new(v, "checkpoint_path", json_string(weights));
    json_object_set_new(v, "schema_path", json_string(r->schema_path));
    json_object_set_new(v, "schema", json_load_file(r->schema_path, 0, NULL));
    json_object_set_new(v, "metrics", metrics_json(e));
    json_object_set_new(v, "data_diagnostics", data_json(r));
    json_object_set_new(v, "validation_predictions_path", json_string(predictions));
    json_object_set_new(v, "batch_size", json_integer(batch));
    json_object_set_new(v, "num_workers", json_integer(r->f.workers));
    json_object_set_new(v, "telemetry", telemetry);
    json_object_set_new(v, "observed_schema_paths", json_pack("{ss}", "eval", observed));
    return v;
}

static bool
write_evaluation(const Run *r, const char *path, json_t *v, PcvrError *err)
{
    char *line = json_text(v, 0), *beside = malloc(strlen(r->run_dir) + 32);
    bool ok = (line && beside) || pcvr_fail(err, "out of memory");
    ok = ok && telemetry_write(path, v, err);
    if (ok) {
        sprintf(beside, "%s/evaluation_telemetry.json", r->run_dir);
        ok = telemetry_write(beside, json_object_get(v, "telemetry"), err);
    }
    if (ok && r->f.json)
        printf("%s\n", line);
    free(line);
    free(beside);
    return ok;
}

// The evaluation of one action.
static bool
evaluate_column(const Scores *s, const double *p, int column, PcvrEvaluation *e)
{
    double *y = malloc(((size_t)s->n + 1) * sizeof *y),
           *q = malloc(((size_t)s->n + 1) * sizeof *q);
    for (int64_t i = 0; y && q && i < s->n; i++) {
        y[i] = s->labels[i * s->actions + column];
        q[i] = p[i * s->actions + column];
    }
    bool ok = y && q && pcvr_evaluate(y, q, NULL, (size_t)s->n, column ? 0 : 200, e);
    free(y);
    free(q);
    return ok;
}

// One line for each further action.
static void
say_columns(const Run *r, const Scores *s, const double *p)
{
    for (int a = 1; a < s->actions; a++) {
        PcvrEvaluation e;
        if (evaluate_column(s, p, a, &e))
            fprintf(r->say, "action %d: AUC %.6f  logloss %.6f  brier %.6f\n", a, e.auc,
                    e.logloss, e.brier);
    }
}

static bool
evaluate(Run *r, pcvr_runner *runner, const char *weights, int64_t batch,
         const char *output, const char *predictions, PcvrError *err)
{
    Scores s = {.want_users = true};
    PcvrEvaluation e;
    Telemetry t = telemetry_start("evaluation");
    bool ok = run_score(r, runner, 0, data_n_groups(r->data), batch, &s, err) &&
              saved_scores_check(&s, weights, err);
    double *p = ok ? saved_probabilities(&s) : NULL;
    if (ok && (!p || !evaluate_column(&s, p, 0, &e)))
        ok = pcvr_fail(err, "out of memory");
    ok = ok && write_predictions(predictions, &s, p, err);
    char *observed = ok ? malloc(strlen(r->run_dir) + 64) : NULL;
    if (observed) {
        sprintf(observed, "%s/evaluation_observed_schema.json", r->run_dir);
        ok = observed_write(r, "eval", 0, data_n_groups(r->data), observed, err);
    } else if (ok) {
        ok = pcvr_fail(err, "out of memory");
    }
    if (ok) {
        json_t *took = telemetry_scored(&t, r, weights, predictions, &s);
        json_t *v = evaluation_json(r, weights, predictions, batch, &e, took, observed);
        ok = write_evaluation(r, output, v, err);
        json_decref(v);
    }
    free(observed);
    if (ok) {
        fprintf(r->say,
                "%s: AUC %.6f (95%% %.4f to %.4f)  logloss %.6f  brier %.6f  %lld rows\n",
                weights, e.auc, e.interval.low, e.interval.high, e.logloss, e.brier,
                (long long)s.n);
        say_columns(r, &s, p);
        fprintf(r->say, "%s\n%s\n", output, predictions);
    }
    free(p);
    scores_free(&s);
    return ok;
}

static int
score_all(Run *r, const char *weights)
{
    PcvrError err = {{0}};
    pcvr_runner *runner = NULL;
    int64_t batch;
    char *output = malloc(strlen(r->run_dir) + 64),
         *predictions = malloc(strlen(r->run_dir) + 64);
    bool ok = (output && predictions) || pcvr_fail(&err, "out of memory");
    ok = ok && run_log_open(r, r->run_dir, "evaluate.log", &err) &&
         saved_runner(r, weights, &runner, &batch, &err);
    if (ok) {
        sprintf(output, "%s/evaluation.json", r->run_dir);
        sprintf(predictions, "%s/validation_predictions.jsonl", r->run_dir);
        ok = evaluate(r, runner, weights, batch, r->f.output ? r->f.output : output,
                      r->f.predictions ? r->f.predictions : predictions, &err);
    }
    pcvr_runner_free(runner);
    free(output);
    free(predictions);
    return ok ? 0 : run_fail(r, 1, err.text);
}

int
cmd_val(int argc, char **argv)
{
    Run r = {.command = "val"};
    char *weights = NULL;
    if (flags_ask_help(argc, argv)) {
        fputs(usage, stdout);
        return 0;
    }
    int status = parse(&r, argc, argv);
    if (!status)
        status = saved_open(&r, paths, false, &weights);
    if (!status)
        status = score_all(&r, weights);
    free(weights);
    run_free(&r);
    return status;
}

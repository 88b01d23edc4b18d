// train.c - the training loop: steps, validation, checkpoints, progress.

#include "run.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint.h"
#include "file.h"
#include "json.h"
#include "train.h"

// The one thing a signal may touch.
static volatile sig_atomic_t interrupted;

// What ends a run after the step it is in: a terminal, a job manager, a lost connection.
static const int endings[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_ENDINGS = sizeof endings / sizeof *endings };

static void
on_interrupt(int number)
{
    interrupted = number;
}

// SIGHUP stays ignored where the program was started so (nohup).
static void
catch_endings(struct sigaction old[N_ENDINGS])
{
    struct sigaction act = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    interrupted = 0;
    sigemptyset(&act.sa_mask);
    for (int i = 0; i < N_ENDINGS; i++) {
        sigaction(endings[i], NULL, &old[i]);
        if (endings[i] != SIGHUP || old[i].sa_handler != SIG_IGN)
            sigaction(endings[i], &act, NULL);
    }
}

static void
release_endings(const struct sigaction old[N_ENDINGS])
{
    for (int i = 0; i < N_ENDINGS; i++)
        sigaction(endings[i], &old[i], NULL);
}

// Sets everything that holds memory free.
static void
loop_free(Loop *l)
{
    data_stream_close(l->stream);
    trainer_free(&l->trainer);
    free(l->order);
    free(l->order_ends);
    free(l->terms);
    free(l->schema_text);
    if (l->steps_file)
        fclose(l->steps_file);
    json_decref(l->validations);
}

static bool
read_terms(Loop *l, const Settings *s, PcvrError *err)
{
    const json_t *list = settings_get(s, "loss.terms");
    l->n_terms = (int)json_array_size(list);
    l->terms = calloc((size_t)l->n_terms + 1, sizeof *l->terms);
    if (!l->terms)
        return pcvr_fail(err, "out of memory");
    for (int i = 0; i < l->n_terms; i++) {
        const json_t *t = json_array_get(list, (size_t)i);
        const char *kind = json_string_value(json_object_get(t, "kind"));
        l->terms[i] = (PcvrLossTerm){
            .kind = !strcmp(kind, "bce")     ? PCVR_LOSS_BCE
                    : !strcmp(kind, "focal") ? PCVR_LOSS_FOCAL
                                             : PCVR_LOSS_PAIRWISE,
            .weight = json_number_value(json_object_get(t, "weight")),
            .alpha = json_number_value(json_object_get(t, "focal_alpha")),
            .gamma = json_number_value(json_object_get(t, "focal_gamma")),
            .temperature = json_number_value(json_object_get(t, "temperature"))};
    }
    return true;
}

static TrainerOptions
trainer_options(const Loop *l, const Run *r)
{
    const Settings *s = &r->settings;
    const char *schedule = settings_text(s, "optimizer.scheduler_type");
    return (TrainerOptions){
        .terms = l->terms,
        .n_terms = l->n_terms,
        .lr = settings_float(s, "optimizer.lr"),
        .sparse_lr = settings_float(s, "sparse_optimizer.sparse_lr"),
        .min_lr_ratio = settings_float(s, "optimizer.min_lr_ratio"),
        .schedule = !strcmp(schedule, "linear")   ? PCVR_SCHEDULE_LINEAR
                    : !strcmp(schedule, "cosine") ? PCVR_SCHEDULE_COSINE
                                                  : PCVR_SCHEDULE_NONE,
        .warmup = settings_int(s, "optimizer.warmup_steps"),
        .max_steps = settings_int(s, "optimizer.max_steps"),
        .clip = r->f.no_clip ? 0.0 : 1.0,
        .seed = (uint64_t)settings_int(s, "optimizer.seed"),
        .ema = settings_bool(s, "ema.enabled"),
        .ema_decay = settings_float(s, "ema.decay"),
        .ema_start = settings_int(s, "ema.start_step"),
        .ema_every = settings_int(s, "ema.update_every_n_steps"),
    };
}

// The stream of training batches, the number of steps and how often to validate.
static bool
open_stream(Loop *l, Run *r, PcvrError *err)
{
    const Settings *s = &r->settings;
    DataError e = {{0}};
    int64_t max_steps = settings_int(s, "optimizer.max_steps");
    int64_t a_sweep = settings_int(s, "data.train_steps_per_sweep");
    const json_t *pipeline_seed = settings_get(s, "data_pipeline.seed");
    DataStreamOptions o = {.batch_size = l->batch_size,
                           .first_group = l->split.train_first,
                           .end_group = l->split.train_end,
                           .buffer_batches = settings_int(s, "data.buffer_batches"),
                           .steps = max_steps > 0 ? max_steps : a_sweep};
    if (data_sampler_parse(settings_text(s, "data.sampling_strategy"), &o.sampler, &e))
        return pcvr_fail(err, "%s", e.text);
    o.seed = (uint64_t)(json_is_integer(pipeline_seed) ? json_integer_value(pipeline_seed)
                        : o.sampler == DATA_SWEEP      ? 0
                                                  : settings_int(s, "optimizer.seed"));
    int64_t workers = settings_int(s, "data.num_workers"), cores = pcvr_default_threads();
    o.threads = (int)(workers < 1 ? 1 : workers > cores ? cores : workers);
    if (l->order_steps > 0) {
        o.sampler = DATA_ORDER;
        o.order = l->order;
        o.order_ends = l->order_ends;
        o.order_steps = l->order_steps;
        o.steps =
            max_steps > 0 && max_steps < l->order_steps ? max_steps : l->order_steps;
    }
    if (data_stream_open(r->data, &o, &l->stream, &e))
        return pcvr_fail(err, "%s", e.text);
    int64_t base = data_stream_batches(l->stream);
    if (a_sweep <= 0)
        a_sweep = o.sampler == DATA_STEP_RANDOM && max_steps > 0 ? max_steps : base;
    l->total = o.steps > 0 ? o.steps : base;
    l->interval = settings_int(s, "data.eval_every_n_steps");
    if (l->interval <= 0)
        l->interval = a_sweep;
    return true;
}

static bool
save(Loop *l, Run *r, double auc, PcvrError *err)
{
    char name[CHECKPOINT_NAME_LIMIT + 1];
    checkpoint_name(name, l->step, auc);
    json_t *about = json_object();
    json_object_set_new(about, "model_file", json_string(r->experiment.name));
    json_object_set_new(about, "compiler", json_string(r->module->compiler));
    json_object_set_new(about, "checkpoint", json_string(r->module->checkpoint));
    json_object_set_new(about, "isa", json_string(r->module->isa));
    json_object_set_new(about, "step", json_integer(l->step));
    json_object_set_new(about, "optimizer_steps", json_integer(l->trainer.step));
    json_object_set_new(about, "clip_norm", json_real(l->trainer.o.clip));
    json_object_set_new(about, "lanes",
                        json_integer(pcvr_runner_plan(l->trainer.runner)->lanes));
    char *config = settings_write(&r->settings),
         *extra = settings_write_extra(&r->settings, about);
    char *path = malloc(strlen(r->run_dir) + sizeof name + 2);
    json_decref(about);
    bool ok = (config && extra && path) || pcvr_fail(err, "out of memory");
    if (ok) {
        CheckpointFile files[] = {{"schema.json", l->schema_text, l->schema_length},
                                  {"train_config.json", config, strlen(config)},
                                  {"pcvr.json", extra, strlen(extra)}};
        sprintf(path, "%s/%s", r->run_dir, name);
        ok = checkpoint_save(path, r->module, l->trainer.params, files, 3, err);
    }
    if (ok)
        fprintf(r->say, "saved %s\n", path);
    free(config);
    free(extra);
    free(path);
    return ok;
}

// The metrics of one action.
static bool
validate_column(const Scores *s, int column, PcvrValidation *out)
{
    double *y = malloc(((size_t)s->n + 1) * sizeof *y);
    float *z = malloc(((size_t)s->n + 1) * sizeof *z);
    for (int64_t i = 0; y && z && i < s->n; i++) {
        y[i] = s->labels[i * s->actions + column];
        z[i] = s->logits[i * s->actions + column];
    }
    bool ok = y && z && pcvr_validate_logits(y, z, (size_t)s->n, out);
    free(y);
    free(z);
    return ok;
}

static bool
validate(Loop *l, Run *r, PcvrError *err)
{
    Scores scores = {0};
    trainer_swap(&l->trainer);
    bool ok = run_score(r, l->trainer.runner, l->split.valid_first, l->split.valid_end,
                        l->batch_size, &scores, err);
    ok = ok && (validate_column(&scores, 0, &l->last) || pcvr_fail(err, "out of memory"));
    if (ok) {
        json_t *v = json_object();
        json_object_set_new(v, "step", json_integer(l->step));
        json_object_set_new(v, "auc", json_finite(l->last.auc));
        json_object_set_new(v, "logloss", json_finite(l->last.logloss));
        json_array_append_new(l->validations, v);
        fprintf(r->say, "step %lld: validation AUC %.6f logloss %.6f (%lld rows)\n",
                (long long)l->step, l->last.auc, l->last.logloss, (long long)scores.n);
        for (int a = 1; a < scores.actions; a++) {
            PcvrValidation other;
            if (validate_column(&scores, a, &other))
                fprintf(r->say, "step %lld: action %d: AUC %.6f logloss %.6f\n",
                        (long long)l->step, a, other.auc, other.logloss);
        }
        ok = save(l, r, l->last.auc, err);
    }
    trainer_swap(&l->trainer);
    scores_free(&scores);
    return ok;
}

static void
clock_text(char out[32], double seconds)
{
    long long s = seconds > 0.0 && seconds < 1e15 ? (long long)(seconds + 0.5) : 0;
    snprintf(out, 32, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

static void
progress(const Loop *l, const Run *r, double loss)
{
    char eta[32];
    double elapsed = pcvr_now() - l->start - l->validating;
    double rate = elapsed > 0.0 ? (double)l->rows / elapsed : 0.0;
    clock_text(eta, elapsed / (double)l->step * (double)(l->total - l->step));
    fprintf(r->say,
            "step %lld/%lld (%.1f%%)  loss %.6f  %.0f rows/s  eta %s  data wait %.1f%%\n",
            (long long)l->step, (long long)l->total,
            100.0 * (double)l->step / (double)l->total, loss, rate, eta,
            elapsed > 0.0 ? 100.0 * l->waiting / elapsed : 0.0);
    fflush(r->say);
}

// One line a step, without anything that differs from run to run.
static bool
note_step(Loop *l, const TrainerStep *t, PcvrError *err)
{
    json_t *v = json_object(), *terms = json_array();
    json_object_set_new(v, "step", json_integer(l->step));
    json_object_set_new(v, "loss", json_finite(t->loss));
    for (int i = 0; i < l->n_terms; i++)
        json_array_append_new(terms, json_finite(trainer_term(&l->trainer, i)));
    json_object_set_new(v, "terms", terms);
    json_object_set_new(v, "lr", json_finite(t->lr));
    json_object_set_new(v, "grad_norm", json_finite(t->norm));
    json_object_set_new(v, "applied", json_boolean(t->applied));
    char *text = json_text(v, 0);
    bool ok =
        text && fprintf(l->steps_file, "%s\n", text) > 0 && fflush(l->steps_file) == 0;
    free(text);
    json_decref(v);
    return ok || pcvr_fail(err, "cannot write the list of steps: %s", strerror(errno));
}

static void
name_fault(const Loop *l, const Run *r, const TrainerStep *t)
{
    const json_t *terms = settings_get(&r->settings, "loss.terms");
    for (int i = 0; i < l->n_terms; i++) {
        if (!isfinite(trainer_term(&l->trainer, i)))
            fprintf(
                stderr,
                "pcvr train: step %lld: loss term '%s' is %g; the update is skipped\n",
                (long long)l->step,
                json_string_value(
                    json_object_get(json_array_get(terms, (size_t)i), "name")),
                trainer_term(&l->trainer, i));
    }
    if (isfinite(t->loss))
        fprintf(stderr,
                "pcvr train: step %lld: the norm of the gradients is %g; the update is "
                "skipped\n",
                (long long)l->step, t->norm);
}

// Validation and early stopping after a step, when it is time.
static bool
after_step(Loop *l, Run *r, bool *stop, PcvrError *err)
{
    if (l->step % l->interval && l->step != l->total)
        return true;
    double before = pcvr_now();
    if (l->window_steps > 0)
        fprintf(r->say, "step %lld: mean loss %.6f over %lld steps\n", (long long)l->step,
                l->window / (double)l->window_steps, (long long)l->window_steps);
    l->window = 0.0;
    l->window_steps = 0;
    if (!validate(l, r, err))
        return false;
    l->validating += pcvr_now() - before;
    bool by_loss = !strcmp(
        settings_text(&r->settings, "validation.early_stopping_metric"), "logloss");
    pcvr_stopper_take(&l->stopper, l->step, by_loss ? -l->last.logloss : l->last.auc);
    *stop = l->stopper.stop && l->step < l->total;
    if (*stop)
        fprintf(r->say, "no better validation for %lld steps: stopping\n",
                (long long)l->stopper.counter);
    return true;
}

static bool
one_step(Loop *l, Run *r, const DataBatch *b, PcvrError *err)
{
    TrainerStep t;
    int64_t every = settings_int(&r->settings, "runtime.progress_log_interval_steps");
    if (!trainer_step(&l->trainer, &b->tensors, l->step, &t, err))
        return false;
    l->step++;
    l->rows += b->tensors.size;
    if (isfinite(t.loss)) {
        l->window += t.loss;
        l->window_steps++;
    }
    if (!t.applied)
        name_fault(l, r, &t);
    if (!note_step(l, &t, err))
        return false;
    if (l->step == 1 || l->step % every == 0 || l->step == l->total)
        progress(l, r, t.loss);
    return true;
}

// Every step. *status becomes 128 and the number of a signal that ended them.
static bool
steps(Loop *l, Run *r, int *status, PcvrError *err)
{
    DataError e = {{0}};
    const DataBatch *b;
    bool stop = false;
    l->start = pcvr_now();
    while (!stop && l->step < l->total) {
        double before = pcvr_now();
        double started = before;
        int rc = data_stream_next(l->stream, &b, &e);
        l->waiting += pcvr_now() - before;
        if (rc < 0)
            return pcvr_fail(err, "%s", e.text);
        if (rc == 0)
            break;
        if (!one_step(l, r, b, err))
            return false;
        l->stepping += pcvr_now() - started;
        if (interrupted) {
            fprintf(r->say, "interrupted after step %lld\n", (long long)l->step);
            *status = 128 + interrupted;
            trainer_swap(&l->trainer);
            return save(l, r, (double)NAN, err);
        }
        if (!after_step(l, r, &stop, err))
            return false;
    }
    return true;
}

static bool
prepare(Loop *l, Run *r, PcvrError *err)
{
    DataError e = {{0}};
    const Settings *s = &r->settings;
    l->batch_size = settings_int(s, "data.batch_size");
    l->validations = json_array();
    l->stopper.patience = settings_int(s, "optimizer.patience_steps");
    if (r->f.order &&
        data_order_read(r->f.order, &l->order, &l->order_ends, &l->order_steps, &e))
        return pcvr_fail(err, "%s", e.text);
    if (data_split(r->data, settings_text(s, "data.split_strategy"),
                   settings_float(s, "data.valid_ratio"),
                   settings_float(s, "data.train_ratio"), &l->split, &e))
        return pcvr_fail(err, "%s", e.text);
    int64_t most = l->batch_size, at = 0;
    for (int64_t k = 0; k < l->order_steps; at = l->order_ends[k++])
        most = l->order_ends[k] - at > most ? l->order_ends[k] - at : most;
    if (!read_terms(l, s, err))
        return false;
    TrainerOptions o = trainer_options(l, r);
    return trainer_new(&l->trainer, r->module, most, &r->options, &o, err);
}

static bool
open_outputs(Loop *l, Run *r, PcvrError *err)
{
    char *path = malloc(strlen(r->run_dir) + 32);
    l->schema_text = pcvr_file_read(r->schema_path, &l->schema_length, err);
    bool ok = path && l->schema_text && pcvr_make_dirs(r->run_dir, err);
    if (ok) {
        sprintf(path, "%s/steps.jsonl", r->run_dir);
        l->steps_file = fopen(path, "we");
        if (!l->steps_file)
            ok = pcvr_fail(err, "%s: cannot write: %s", path, strerror(errno));
        sprintf(path, "%s/logs", r->run_dir);
        const char *logs = run_path(NULL, "TRAIN_LOG_PATH");
        ok = ok && run_log_open(r, logs ? logs : path, "train.log", err);
    }
    free(path);
    return ok;
}

static bool
start_weights(Loop *l, Run *r, PcvrError *err)
{
    if (!r->f.init) {
        trainer_init(&l->trainer, (uint64_t)settings_int(&r->settings, "optimizer.seed"));
        return true;
    }
    char *weights = checkpoint_find(r->f.init, err);
    bool ok = weights && checkpoint_load(weights, r->module, l->trainer.params, err);
    free(weights);
    if (ok)
        trainer_changed(&l->trainer);
    return ok;
}

int
run_train(Run *r)
{
    Loop l = {0};
    PcvrError err = {{0}};
    int status = 0;
    struct sigaction old[N_ENDINGS];
    bool ok = prepare(&l, r, &err);
    if (ok && r->f.dry_run) {
        train_plan(&l, r);
        loop_free(&l);
        return 0;
    }
    ok = ok && open_outputs(&l, r, &err) && start_weights(&l, r, &err) &&
         open_stream(&l, r, &err);
    if (ok) {
        l.telemetry = telemetry_start("training");
        catch_endings(old);
        train_begin(&l, r);
        ok = steps(&l, r, &status, &err);
        release_endings(old);
    }
    if (ok) {
        run_oov(r, l.stream);
        ok = train_end(&l, r, &err);
    }
    if (!ok)
        status = run_fail(r, 1, err.text);
    run_log_close(r);
    loop_free(&l);
    return status;
}

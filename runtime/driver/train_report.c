// train_report.c - what a training run says about itself: plan, opening lines, summary.

#include "train.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"

void
train_plan(const Loop *l, const Run *r)
{
    const pcvr_plan *p = pcvr_runner_plan(l->trainer.runner);
    int64_t state = l->trainer.state_bytes, all = p->planned_peak_bytes + state;
    int64_t memory = run_memory();
    json_t *v = run_plan_json(p);
    json_object_set_new(v, "optimizer_state_bytes", json_integer(state));
    json_object_set_new(v, "available_bytes", json_integer(memory));
    json_object_set_new(v, "fits",
                        memory > 0 ? json_boolean(all <= memory) : json_null());
    if (r->f.json) {
        char *text = json_text(v, 0);
        printf("%s\n", text ? text : "{}");
        free(text);
    } else {
        const char *key;
        json_t *item;
        json_object_foreach(v, key, item)
        {
            if (json_is_integer(item))
                printf("%-24s %lld\n", key, (long long)json_integer_value(item));
        }
        if (memory > 0)
            printf("fits: %s, %lld bytes of %lld available\n",
                   all <= memory ? "yes" : "no", (long long)all, (long long)memory);
        else
            printf("fits: unknown, %lld bytes needed\n", (long long)all);
    }
    json_decref(v);
}

void
train_begin(const Loop *l, const Run *r)
{
    const pcvr_plan *p = pcvr_runner_plan(l->trainer.runner);
    int64_t dense = 0, sparse = 0;
    for (int i = 0; i < r->module->n_params; i++) {
        const pcvr_param *q = &r->module->params[i];
        *(q->flags & PCVR_PARAM_TABLE ? &sparse : &dense) += q->size;
    }
    fprintf(r->say, "%s: %lld dense parameters, %lld in tables; checkpoint %s, isa %s\n",
            r->experiment.name, (long long)dense, (long long)sparse,
            r->module->checkpoint, r->module->isa);
    fprintf(r->say,
            "data: %lld training rows, %lld validation rows, batch %lld, %lld steps\n",
            (long long)l->split.train_rows, (long long)l->split.valid_rows,
            (long long)l->batch_size, (long long)l->total);
    fprintf(r->say, "run: %lld threads, %lld lanes, chunk %lld%s\n",
            (long long)p->threads, (long long)p->lanes, (long long)p->chunk,
            l->trainer.o.clip > 0.0 ? ", gradients clipped at norm 1" : "");
    fflush(r->say);
}

// Where the time of the steps went. Seconds; "other" is what is left: threads that wait for
// one another, progress lines, the list of steps.
static json_t *
step_time_json(const Loop *l)
{
    static const char *const names[PCVR_TIMES] = {"inputs_sec", "regions_sec", "loss_sec",
                                                  "sums_sec"};
    double parts[PCVR_TIMES], rest = l->stepping - l->waiting - l->trainer.updating;
    json_t *v = json_object();
    pcvr_runner_times(l->trainer.runner, parts);
    json_object_set_new(v, "total_sec", json_finite(l->stepping));
    json_object_set_new(v, "data_wait_sec", json_finite(l->waiting));
    for (int k = 0; k < PCVR_TIMES; k++) {
        json_object_set_new(v, names[k], json_finite(parts[k]));
        rest -= parts[k];
    }
    json_object_set_new(v, "optimizer_sec", json_finite(l->trainer.updating));
    json_object_set_new(v, "other_sec", json_finite(rest > 0.0 ? rest : 0.0));
    return v;
}

static void
say_step_time(const Loop *l, const Run *r)
{
    static const char *const parts[][2] = {
        {"data_wait_sec", "data wait"}, {"inputs_sec", "inputs"},
        {"regions_sec", "regions"},     {"loss_sec", "loss"},
        {"sums_sec", "sums of lanes"},  {"optimizer_sec", "optimiser"},
        {"other_sec", "other"}};
    json_t *v = step_time_json(l);
    double total = l->stepping > 0.0 ? l->stepping : 1.0;
    fprintf(r->say, "time of steps: %.3f s", l->stepping);
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        fprintf(r->say, ", %s %.1f%%", parts[k][1],
                100.0 * json_number_value(json_object_get(v, parts[k][0])) / total);
    fprintf(r->say, "\n");
    json_decref(v);
}

static json_t *
telemetry_json(const Loop *l, const Run *r)
{
    int64_t parameters = 0;
    json_t *about = json_object();
    for (int i = 0; i < r->module->n_params; i++)
        parameters += r->module->params[i].size;
    json_object_set_new(about, "experiment_name", json_string(r->experiment.name));
    json_object_set_new(about, "run_dir", json_string(r->run_dir));
    json_t *v = telemetry_end(&l->telemetry, about);
    json_object_set_new(v, "data_wait_sec", json_finite(l->waiting));
    json_object_set_new(v, "steps", json_integer(l->step));
    json_object_set_new(v, "train_rows", json_integer(l->split.train_rows));
    json_object_set_new(v, "valid_rows", json_integer(l->split.valid_rows));
    json_object_set_new(v, "rows", json_integer(l->rows));
    json_object_set_new(v, "model_parameters", json_integer(parameters));
    telemetry_rates(v);
    return v;
}

static json_t *
summary_json(const Loop *l, const Run *r, int64_t measured)
{
    const Settings *s = &r->settings;
    json_t *v = json_object(), *metrics = json_object();
    bool any = json_array_size(l->validations) > 0;
    json_object_set_new(v, "run_dir", json_string(r->run_dir));
    json_object_set_new(v, "checkpoint_root", json_string(r->run_dir));
    json_object_set_new(v, "schema_path", json_string(r->schema_path));
    json_object_set(v, "train_ratio", settings_get(s, "data.train_ratio"));
    json_object_set(v, "valid_ratio", settings_get(s, "data.valid_ratio"));
    json_object_set(v, "split_strategy", settings_get(s, "data.split_strategy"));
    json_object_set(v, "split_seed", settings_get(s, "optimizer.seed"));
    json_object_set(v, "sampling_strategy", settings_get(s, "data.sampling_strategy"));
    json_object_set(v, "train_steps_per_sweep",
                    settings_get(s, "data.train_steps_per_sweep"));
    json_object_set_new(metrics, "auc", any ? json_finite(l->last.auc) : json_null());
    json_object_set_new(metrics, "logloss",
                        any ? json_finite(l->last.logloss) : json_null());
    json_object_set_new(v, "validation_metrics", metrics);
    json_object_set_new(v, "validation_score_diagnostics",
                        run_diagnostics_json(&l->last.diagnostics));
    json_object_set(v, "validations", l->validations);
    json_object_set_new(v, "telemetry", telemetry_json(l, r));
    json_object_set_new(v, "step_time", step_time_json(l));
    json_object_set_new(v, "experiment_name", json_string(r->experiment.name));
    json_object_set_new(v, "row_group_split", run_split_json(&l->split));
    json_t *plan = run_plan_json(pcvr_runner_plan(l->trainer.runner));
    json_object_set_new(plan, "optimizer_state_bytes",
                        json_integer(l->trainer.state_bytes));
    json_object_set_new(plan, "measured_peak_bytes", json_integer(measured));
    json_object_set_new(v, "memory", plan);
    json_object_set_new(v, "checkpoint", json_string(r->module->checkpoint));
    json_object_set_new(v, "isa", json_string(r->module->isa));
    return v;
}

bool
train_end(Loop *l, Run *r, PcvrError *err)
{
    int64_t planned = pcvr_runner_plan(l->trainer.runner)->planned_peak_bytes;
    int64_t measured = pcvr_runner_measured(l->trainer.runner);
    const char *overrun = pcvr_runner_overrun(l->trainer.runner);
    json_t *v = summary_json(l, r, measured);
    char *line = json_text(v, 0), *path = malloc(strlen(r->run_dir) + 32);
    bool ok = (line && path) || pcvr_fail(err, "out of memory");
    if (ok && overrun)
        ok = pcvr_fail(err, "internal fault: the buffer '%s' was overrun", overrun);
    if (ok) {
        sprintf(path, "%s/training_summary.json", r->run_dir);
        ok = telemetry_write(path, v, err);
    }
    if (ok) {
        sprintf(path, "%s/training_telemetry.json", r->run_dir);
        ok = telemetry_write(path, json_object_get(v, "telemetry"), err);
    }
    if (ok && r->f.json)
        printf("%s\n", line);
    if (ok && json_array_size(l->validations) > 0)
        fprintf(r->say, "validation AUC %.6f logloss %.6f\n", l->last.auc,
                l->last.logloss);
    if (ok)
        say_step_time(l, r);
    if (ok)
        fprintf(r->say, "peak: planned %lld bytes, measured %lld bytes%s\n",
                (long long)planned, (long long)measured,
                measured < planned ? " (less: not every buffer was filled to its end)"
                                   : "");
    json_decref(v);
    free(line);
    free(path);
    return ok;
}

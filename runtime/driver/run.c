// run.c - what train and val share: options, schema, data, scoring.

#include "run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "telemetry.h"

void
run_free(Run *r)
{
    run_log_close(r);
    data_close(r->data);
    schema_free(r->schema);
    settings_free(&r->settings);
    experiment_free(&r->experiment);
    free(r->schema_path);
    free(r->run_dir);
}

int
run_fail(const Run *r, int status, const char *text)
{
    fprintf(stderr, "pcvr %s: %s\n", r->command, text);
    return status;
}

const char *
run_path(const char *flag, const char *variable)
{
    const char *value = flag ? flag : getenv(variable);
    return value && *value ? value : NULL;
}

int
run_options(Run *r)
{
    char *end;
    r->options = (pcvr_options){.lanes = (int)r->f.lanes, .threads = (int)r->f.threads};
    if (r->f.lanes > 1 << 20 || r->f.threads > 1 << 16)
        return run_fail(r, 2, "expected at most 1048576 --lanes and 65536 --threads");
    if (r->f.chunk && !strcmp(r->f.chunk, "batch")) {
        r->options.chunk = PCVR_CHUNK_BATCH;
    } else if (r->f.chunk) {
        errno = 0;
        r->options.chunk = strtoll(r->f.chunk, &end, 10);
        if (errno || *end || end == r->f.chunk || r->options.chunk < 1)
            return run_fail(r, 2, "--chunk: expected a number of samples or 'batch'");
    }
    return 0;
}

int
run_dataset(Run *r)
{
    PcvrError err = {{0}};
    r->f.dataset = run_path(r->f.dataset, "TRAIN_DATA_PATH");
    if (!r->f.dataset)
        return run_fail(r, 2, "no data: give --dataset-path PATH or set TRAIN_DATA_PATH");
    if (access(r->f.dataset, R_OK)) {
        pcvr_fail(&err, "%s: cannot read the data set: %s", r->f.dataset,
                  strerror(errno));
        return run_fail(r, 1, err.text);
    }
    return 0;
}

// A default may list more domains than a data set has; who gives a list means its names.
static void
warn_lens(const Run *r, const char *lens)
{
    const char *own = experiment_lens(&r->experiment);
    const Field *f = settings_field(&r->settings, "data.seq_max_lens");
    size_t n = lens ? strlen(lens) : 0;
    if (!lens || (own && !strcmp(own, lens)) ||
        (strlen(f->standard) == n + 2 && !strncmp(f->standard + 1, lens, n)))
        return;
    char *unknown = schema_unknown_lens(r->schema, lens);
    if (unknown)
        fprintf(stderr, "pcvr %s: warning: data.seq_max_lens: %s has no domain %s\n",
                r->command, r->schema_path, unknown);
    free(unknown);
}

int
run_schema(Run *r)
{
    DataError e = {{0}};
    const char *lens = settings_text(&r->settings, "data.seq_max_lens");
    r->schema = schema_read(r->schema_path, &e);
    if (!r->schema || schema_set_lens(r->schema, lens, &e))
        return run_fail(r, 1, e.text);
    warn_lens(r, lens);
    return 0;
}

int
run_data(Run *r, bool inference)
{
    DataError e = {{0}};
    DataOptions o = {.inference = inference, .strict_ids = r->f.strict_ids != 0};
    if (data_open(r->f.dataset, r->schema, &o, &r->data, &e))
        return run_fail(r, 1, e.text);
    return 0;
}

void
run_oov(const Run *r, DataStream *s)
{
    int n = 0;
    const DataOov *o = data_stream_oov(s, &n);
    for (int i = 0; i < n; i++) {
        fprintf(stderr,
                "pcvr %s: warning: column '%s': %lld ids outside the vocabulary of %lld "
                "read as 0 "
                "(%lld to %lld); the first, %lld, in %s row %lld\n",
                r->command, o[i].column, (long long)o[i].count, (long long)o[i].vocab,
                (long long)o[i].min, (long long)o[i].max, (long long)o[i].first_value,
                o[i].first_file, (long long)o[i].first_row);
    }
}

void
scores_free(Scores *s)
{
    for (int64_t i = 0; s->users && i < s->n; i++)
        free(s->users[i]);
    free(s->users);
    free(s->logits);
    free(s->labels);
    free(s->times);
    *s = (Scores){0};
}

static bool
scores_room(Scores *s, int64_t more, PcvrError *err)
{
    if (s->n + more <= s->room)
        return true;
    int64_t room = (s->n + more) * 2;
    size_t n = (size_t)room, a = (size_t)s->actions;
    float *logits = realloc(s->logits, n * a * sizeof *logits);
    s->logits = logits ? logits : s->logits;
    double *labels = realloc(s->labels, n * a * sizeof *labels);
    s->labels = labels ? labels : s->labels;
    int64_t *times = realloc(s->times, n * sizeof *times);
    s->times = times ? times : s->times;
    char **users = s->want_users ? realloc(s->users, n * sizeof *users) : NULL;
    s->users = users ? users : s->users;
    if (!logits || !labels || !times || (s->want_users && !users))
        return pcvr_fail(err, "out of memory for %lld scores", (long long)room);
    s->room = room;
    return true;
}

static bool
scores_add(Scores *s, pcvr_runner *runner, const DataBatch *b, PcvrError *err)
{
    int64_t n = b->tensors.size;
    if (!scores_room(s, n, err))
        return false;
    int rc =
        pcvr_runner_forward(runner, &b->tensors, s->logits + s->n * s->actions, NULL);
    if (rc != PCVR_OK)
        return pcvr_fail(err, "the module refused a batch (%d)", rc);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = s->n + i;
        for (int a = 0; a < s->actions; a++)
            s->labels[at * s->actions + a] = (double)b->tensors.label[i];
        s->times[at] = b->tensors.request_time[i];
        if (s->want_users)
            s->users[at] = b->user_ids[i] ? json_clean(b->user_ids[i]) : NULL;
        if (s->want_users && b->user_ids[i] && !s->users[at])
            return pcvr_fail(err, "out of memory");
    }
    s->n += n;
    s->batches++;
    return true;
}

bool
run_score(Run *r, pcvr_runner *runner, int first, int end, int64_t batch_size,
          Scores *out, PcvrError *err)
{
    DataError e = {{0}};
    DataStream *s;
    const DataBatch *b;
    DataStreamOptions o = {.batch_size = batch_size,
                           .first_group = first,
                           .end_group = end,
                           .sampler = DATA_SCAN,
                           .threads = 1};
    int rc;
    out->actions = r->module->actions;
    if (data_stream_open(r->data, &o, &s, &e))
        return pcvr_fail(err, "%s", e.text);
    bool ok = true;
    while (ok && (rc = data_stream_next(s, &b, &e)) != 0)
        ok = rc > 0 ? scores_add(out, runner, b, err) : pcvr_fail(err, "%s", e.text);
    if (ok && !r->scored)
        run_oov(r, s);
    r->scored = r->scored || ok;
    data_stream_close(s);
    return ok;
}

json_t *
run_diagnostics_json(const PcvrDiagnostics *d)
{
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"positive_rate", d->positive_rate},
        {"score_mean", d->score_mean},
        {"score_std", d->score_std},
        {"positive_score_mean", d->positive_score_mean},
        {"negative_score_mean", d->negative_score_mean},
        {"score_margin_mean", d->score_margin_mean},
        {"positive_score_p10", d->positive_p10},
        {"positive_score_p50", d->positive_p50},
        {"positive_score_p90", d->positive_p90},
        {"negative_score_p10", d->negative_p10},
        {"negative_score_p50", d->negative_p50},
        {"negative_score_p90", d->negative_p90},
    };
    json_t *out = json_object();
    json_object_set_new(out, "sample_count", json_integer(d->sample_count));
    json_object_set_new(out, "positive_count", json_integer(d->positive_count));
    json_object_set_new(out, "negative_count", json_integer(d->negative_count));
    json_object_set_new(out, "invalid_count", json_integer(d->invalid_count));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(out, numbers[i].key, json_finite(numbers[i].value));
    return out;
}

json_t *
run_split_json(const DataSplit *s)
{
    json_t *v = json_object();
    json_object_set_new(v, "train_row_groups",
                        json_integer(s->train_end - s->train_first));
    json_object_set_new(v, "valid_row_groups",
                        json_integer(s->valid_end - s->valid_first));
    json_object_set_new(v, "train_row_group_range",
                        json_pack("[ii]", s->train_first, s->train_end));
    json_object_set_new(v, "valid_row_group_range",
                        json_pack("[ii]", s->valid_first, s->valid_end));
    json_object_set_new(v, "train_rows", json_integer(s->train_rows));
    json_object_set_new(v, "valid_rows", json_integer(s->valid_rows));
    json_object_set_new(v, "reuse_train_for_valid", json_boolean(s->reused));
    json_object_set_new(v, "is_disjoint", json_boolean(!s->reused));
    json_object_set_new(v, "is_l1_ready", json_boolean(!s->reused));
    return v;
}

json_t *
run_plan_json(const pcvr_plan *p)
{
    json_t *out = json_object();
    json_object_set_new(out, "batch", json_integer(p->batch));
    json_object_set_new(out, "chunk", json_integer(p->chunk));
    json_object_set_new(out, "lanes", json_integer(p->lanes));
    json_object_set_new(out, "threads", json_integer(p->threads));
    json_object_set_new(out, "parameter_bytes", json_integer(p->parameter_bytes));
    json_object_set_new(out, "gradient_bytes", json_integer(p->gradient_bytes));
    json_object_set_new(out, "row_store_bytes", json_integer(p->row_store_bytes));
    json_object_set_new(out, "input_bytes", json_integer(p->input_bytes));
    json_object_set_new(out, "activation_bytes", json_integer(p->activation_bytes));
    json_object_set_new(out, "kept_bytes_per_sample",
                        json_integer(p->kept_bytes_per_sample));
    json_object_set_new(out, "planned_peak_bytes", json_integer(p->planned_peak_bytes));
    return out;
}

static int64_t
number_in(const char *path, const char *key)
{
    char line[256];
    long long value = 0;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (!key && sscanf(line, "%lld", &value) == 1)
            break;
        if (key && !strncmp(line, key, strlen(key)) &&
            sscanf(line + strlen(key), "%lld", &value) == 1)
            break;
    }
    if (f)
        fclose(f);
    return value;
}

int64_t
run_memory(void)
{
    int64_t bytes = number_in("/proc/meminfo", "MemAvailable:") * 1024;
    int64_t limit = number_in("/sys/fs/cgroup/memory.max", NULL);
    int64_t used = number_in("/sys/fs/cgroup/memory.current", NULL);
    if (limit > 0 && (bytes == 0 || limit - used < bytes))
        bytes = limit > used ? limit - used : 0;
    return bytes;
}

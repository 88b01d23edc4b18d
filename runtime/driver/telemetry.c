// telemetry.c - what a command took, under the reference's names, and its log file.

#include "telemetry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "file.h"

static double
unix_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

Telemetry
telemetry_start(const char *label)
{
    return (Telemetry){label, unix_time(), pcvr_now()};
}

json_t *
telemetry_end(const Telemetry *t, json_t *metadata)
{
    struct rusage usage = {0};
    json_t *v = json_object();
    getrusage(RUSAGE_SELF, &usage);
    json_object_set_new(v, "label", json_string(t->label));
    json_object_set_new(v, "started_at_unix", json_finite(t->started));
    json_object_set_new(v, "ended_at_unix", json_finite(unix_time()));
    json_object_set_new(v, "elapsed_sec", json_finite(pcvr_now() - t->start));
    json_object_set_new(v, "cpu_peak_rss_mb",
                        json_finite((double)usage.ru_maxrss / 1024.0));
    json_object_set_new(v, "metadata", metadata);
    json_object_set_new(v, "cuda_device", json_null());
    json_object_set_new(v, "cuda_peak_allocated_mb", json_real(0.0));
    json_object_set_new(v, "cuda_peak_reserved_mb", json_real(0.0));
    return v;
}

void
telemetry_rates(json_t *v)
{
    static const char *const names[] = {"rows", "batches", "steps"};
    double seconds = json_number_value(json_object_get(v, "elapsed_sec"));
    for (int i = 0; i < 3; i++) {
        char name[32];
        const json_t *n = json_object_get(v, names[i]);
        snprintf(name, sizeof name, "%s_per_sec", names[i]);
        if (n)
            json_object_set_new(
                v, name,
                json_finite(json_number_value(n) / (seconds > 0.0 ? seconds : 1e-9)));
    }
}

static json_t *
mebibytes(const char *path)
{
    struct stat st;
    return stat(path, &st) ? json_null() : json_real((double)st.st_size / 1048576.0);
}

json_t *
telemetry_scored(const Telemetry *t, const Run *r, const char *weights,
                 const char *predictions, const Scores *s)
{
    json_t *about = json_object();
    json_object_set_new(about, "experiment_name", json_string(r->experiment.name));
    json_object_set_new(about, "checkpoint_path", json_string(weights));
    json_object_set_new(about, "dataset_path", json_string(r->f.dataset));
    json_t *v = telemetry_end(t, about);
    json_object_set_new(v, "rows", json_integer(s->n));
    json_object_set_new(v, "batches", json_integer(s->batches));
    json_object_set_new(v, "prediction_file_mb", mebibytes(predictions));
    json_object_set_new(v, "checkpoint_file_mb", mebibytes(weights));
    telemetry_rates(v);
    return v;
}

bool
telemetry_write(const char *path, const json_t *v, PcvrError *err)
{
    char *text = json_text(v, 2);
    bool ok = text || pcvr_fail(err, "%s: out of memory", path);
    if (ok) {
        size_t n = strlen(text);
        text[n] = '\n'; // in the place of the zero
        ok = pcvr_file_write(path, text, n + 1, err);
    }
    free(text);
    return ok;
}

// ---- what the data holds ---------------------------------------------------------------

// The schema's form without the format and the dense features of items, as the reference has it.
static json_t *
observed_schema(const Schema *s)
{
    char *text = schema_to_json(s);
    json_t *v = text ? json_loads(text, 0, NULL) : NULL;
    json_object_del(v, "format");
    json_object_del(v, "item_dense");
    free(text);
    return v;
}

bool
observed_write(const Run *r, const char *role, int first, int end, const char *path,
               PcvrError *err)
{
    DataError e = {{0}};
    int64_t rows = 0;
    Schema *s = data_observe(r->data, first, end, &e);
    if (!s)
        return pcvr_fail(err, "%s", e.text);
    for (int i = first; i < end; i++)
        rows += data_group(r->data, i)->rows;
    json_t *v = json_object();
    json_object_set_new(v, "dataset_role", json_string(role));
    json_object_set_new(v, "dataset_path", json_string(r->f.dataset));
    json_object_set_new(v, "schema_path", json_string(r->schema_path));
    json_object_set_new(v, "row_group_range", json_pack("[ii]", first, end));
    json_object_set_new(v, "timestamp_range", json_null());
    json_object_set_new(v, "hash_split_filter", json_null());
    json_object_set_new(v, "row_group_count", json_integer(end - first));
    json_object_set_new(v, "row_count", json_integer(rows));
    json_object_set_new(v, "schema", observed_schema(s));
    bool ok = telemetry_write(path, v, err);
    json_decref(v);
    schema_free(s);
    return ok;
}

// ---- the log ---------------------------------------------------------------------------

typedef struct RunLog {
    FILE *screen, *file, *both;
    double start;
    bool inside; // a line
} RunLog;

static void
line_start(const RunLog *l)
{
    char when[40] = "";
    struct tm tm;
    time_t now = time(NULL);
    long long s = (long long)(pcvr_now() - l->start);
    if (localtime_r(&now, &tm))
        strftime(when, sizeof when, "%m/%d/%y %H:%M:%S", &tm);
    fprintf(l->file, "%s - %lld:%02lld:%02lld - ", when, s / 3600, s / 60 % 60, s % 60);
}

static ssize_t
log_write(void *cookie, const char *text, size_t n)
{
    RunLog *l = cookie;
    size_t written = fwrite(text, 1, n, l->screen);
    fflush(l->screen);
    for (size_t i = 0; i < n; i++) {
        if (!l->inside)
            line_start(l);
        putc(text[i], l->file);
        l->inside = text[i] != '\n';
    }
    fflush(l->file);
    return (ssize_t)written;
}

bool
run_log_open(Run *r, const char *directory, const char *name, PcvrError *err)
{
    char *path = malloc(strlen(directory) + strlen(name) + 2);
    RunLog *l = calloc(1, sizeof *l);
    bool ok = (path && l) || pcvr_fail(err, "out of memory");
    ok = ok && pcvr_make_dirs(directory, err);
    if (ok) {
        sprintf(path, "%s/%s", directory, name);
        l->screen = r->say;
        l->start = pcvr_now();
        l->file = fopen(path, "we");
        l->both = l->file
                      ? fopencookie(l, "w", (cookie_io_functions_t){.write = log_write})
                      : NULL;
        ok = l->both || pcvr_fail(err, "%s: cannot write the log: %s", path,
                                   strerror(errno));
    }
    free(path);
    if (!ok) {
        if (l && l->file)
            fclose(l->file);
        free(l);
        return false;
    }
    setvbuf(l->both, NULL, _IOLBF, 0);
    r->log = l;
    r->say = l->both;
    return true;
}

void
run_log_close(Run *r)
{
    RunLog *l = r->log;
    if (!l)
        return;
    fclose(l->both);
    bool failed = ferror(l->file) != 0;
    if (fclose(l->file) != 0 || failed)
        fprintf(stderr, "pcvr %s: warning: the log is not whole: is the disk full?\n",
                r->command);
    r->say = l->screen;
    r->log = NULL;
    free(l);
}

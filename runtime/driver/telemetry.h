// telemetry.h - what a command took, under the reference's names, and its log file.

#ifndef PCVR_TELEMETRY_H
#define PCVR_TELEMETRY_H

#include "json.h"
#include "run.h"

typedef struct Telemetry {
    const char *label;     // "training", "evaluation", "inference"
    double started, start; // Unix time, pcvr_now()
} Telemetry;

Telemetry telemetry_start(const char *label);
// {label, started_at_unix, ended_at_unix, elapsed_sec, cpu_peak_rss_mb, metadata, cuda_…}; steals the
// metadata. A new reference.
json_t *telemetry_end(const Telemetry *t, json_t *metadata);
// The same, with {experiment_name, checkpoint_path, dataset_path}, rows, batches, the sizes of the
// files in MiB and the rates: of val and infer.
json_t *telemetry_scored(const Telemetry *t, const Run *r, const char *weights,
                         const char *predictions, const Scores *s);
// Adds NAME_per_sec for "rows", "batches" and "steps" where they are there.
void telemetry_rates(json_t *v);
// Writes it, or any value, with two blanks of indentation and a line's end.
bool telemetry_write(const char *path, const json_t *v, PcvrError *err);

// Writes what row groups [first, end) hold; `role` is "eval", "train_split", …
bool observed_write(const Run *r, const char *role, int first, int end, const char *path,
                    PcvrError *err);

// From now on each line that the run says goes to a log file too, behind date, time and the time
// since. `directory` is made if needed. run_log_close puts things back.
bool run_log_open(Run *r, const char *directory, const char *name, PcvrError *err);
void run_log_close(Run *r);

#endif

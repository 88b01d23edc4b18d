// run.h - a run of the driver: the settings, the data and the model that train and val
// share.

#ifndef PCVR_RUN_H
#define PCVR_RUN_H

#include <stdio.h>

#include "data.h"
#include "error.h"
#include "experiment.h"
#include "metric.h"
#include "settings.h"

// Flags that say how to run, not what.
typedef struct RunFlags {
    const char *experiment, *dataset, *schema, *run_dir, *checkpoint, *init, *order,
        *chunk;
    const char *output, *predictions, *device, *amp_dtype; // val
    int64_t threads, lanes, batch_size, workers;
    int64_t batch_hint; // negative: data.batch_size
    int json, no_clip, dry_run, strict_ids, amp, compile, help;
} RunFlags;

typedef struct Run {
    const char *command; // "train"
    RunFlags f;
    Settings settings;
    Experiment experiment;
    char *schema_path, *run_dir;
    Schema *schema;
    Data *data;
    const pcvr_module *module;
    pcvr_options options;
    bool scored; // once: later scorings of the same rows repeat no warnings
    FILE *say;   // progress: stdout, or stderr with --json; a log too while it is open
    struct RunLog *log;
} Run;

void run_free(Run *r);
// Prints "pcvr COMMAND: text" to stderr and returns the status.
int run_fail(const Run *r, int status, const char *text);

// --chunk, --lanes and --threads. 0, or 2 after a message.
int run_options(Run *r);
// The flag, else the environment variable if it is set and not empty, else NULL.
const char *run_path(const char *flag, const char *variable);
// Takes the data set's path from the flag or TRAIN_DATA_PATH and looks whether it is
// there. 0 or a status.
int run_dataset(Run *r);
// Reads the schema at schema_path and sets its lengths. 0 or a status after a message.
int run_schema(Run *r);
// Opens the data set. `inference`: without labels. 0 or a status after a message.
int run_data(Run *r, bool inference);
// One line for each column that had ids outside its vocabulary.
void run_oov(const Run *r, DataStream *s);

// Scored samples in file order.
typedef struct Scores {
    int64_t n, room, batches;
    int actions;
    float *logits;  // [n, actions]
    double *labels; // [n, actions], the label repeated
    int64_t *times; // [n]
    char **users;   // [n], NULL for a null id; only if wanted
    bool want_users;
} Scores;

// Scores rows of row groups [first, end) in file order, forward only. On false err says
// why.
bool run_score(Run *r, pcvr_runner *runner, int first, int end, int64_t batch_size,
               Scores *out, PcvrError *err);
void scores_free(Scores *s);

// {"sample_count": …}: diagnostics under the reference's names. A new reference.
json_t *run_diagnostics_json(const PcvrDiagnostics *d);
// The split, under the reference's names. A new reference.
json_t *run_split_json(const DataSplit *s);
// {"bytes": {…}}: the plan, field by field. A new reference.
json_t *run_plan_json(const pcvr_plan *p);
// Bytes of memory that this process may take, 0 when unknown.
int64_t run_memory(void);

// train.c: the loop. 0, 1, or 130 after an interrupt.
int run_train(Run *r);

#endif

// experiment.h - a model file as the driver uses it: its defaults, and the module
// compiled from it.

#ifndef PCVR_EXPERIMENT_H
#define PCVR_EXPERIMENT_H

#include "pcvr.h"
#include "schema.h"
#include "settings.h"

typedef struct ExperimentState ExperimentState;
struct ModelIn; // model_in.h

typedef struct Experiment {
    char *path; // of the .pcvr file
    char *name; // "onetrans"
    ExperimentState *state;
    int64_t batch_hint; // samples of a batch, for what is compiled; negative: data.batch_size
} Experiment;

// Reads a model file; "experiments/onetrans" and "onetrans" find models/onetrans.pcvr
// too. Fills `settings` with the reference's defaults and those of the file. 0, or an
// exit status after diagnostics on stderr. Both are to be freed in any case.
int experiment_open(Experiment *e, const char *path, Settings *settings);
void experiment_free(Experiment *e);

// Opens the model that a command line names: FILE.pcvr, a folder with a model.pcvr, or the
// name of a model. As model_open.
int experiment_model(struct ModelIn *m, const char *given);

// The model file's own data.seq_max_lens; NULL where it sets none, or none is open.
const char *experiment_lens(const Experiment *e);

// Compiles the model for a schema (max_len set), the settings' model section and a
// checkpoint choice, loads it for the best instruction set. 0, or an exit status after
// diagnostics on stderr.
int experiment_build(Experiment *e, const Settings *settings, const Schema *schema,
                     const char *checkpoint, const pcvr_module **out);

#endif

// checkpoint.h - saved weights: directory names, finding, loading, saving.

#ifndef PCVR_CHECKPOINT_H
#define PCVR_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "pcvr.h"

enum { CHECKPOINT_NAME_LIMIT = 300 };

// "global_step30.AUC=0.544451": up to six decimals without trailing zeros;
// "global_step30" for an AUC that is not finite. Step >= 0.
void checkpoint_name(char out[CHECKPOINT_NAME_LIMIT + 1], int64_t step, double auc);
// Whether a directory name is one: global_step, digits, then letters, digits, "_", ".",
// "=", "-"; at most 300 bytes. `err` (may be NULL) says what is wrong.
bool checkpoint_name_valid(const char *name, PcvrError *err);
// The step of such a name, -1 for another.
int64_t checkpoint_step(const char *name);

// Path of model.safetensors: `path` may be a .safetensors file, a directory that holds
// model.safetensors, or a run directory, of whose global_step* children the one with the
// largest step counts. The caller frees it.
char *checkpoint_find(const char *path, PcvrError *err);
// A file beside the weights ("schema.json"); the caller frees it. NULL when memory is
// short.
char *checkpoint_beside(const char *weights, const char *name);

// Reads weights into [n_params] pointers (params[i] has size floats). Strict: every
// parameter there with its shape, no other. A padding row that is not zero becomes zero,
// with a note to stderr.
bool checkpoint_load(const char *weights, const pcvr_module *m, float *const *params,
                     PcvrError *err);

typedef struct CheckpointFile {
    const char *name;
    const void *bytes;
    size_t n;
} CheckpointFile;

// Writes `directory` (made if needed) with model.safetensors and the files: complete
// beside it first, then renamed, so that an earlier checkpoint stays whole whatever
// fails.
bool checkpoint_save(const char *directory, const pcvr_module *m, float *const *params,
                     const CheckpointFile *files, int n_files, PcvrError *err);

#endif

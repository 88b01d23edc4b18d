// flags.h - the command line: a command's own flags, and the settings in dotted names.
//
//     --experiment PATH --json --no-json            a command's own
//     --optimizer.lr 1e-3 --optimizer.lr=1e-3    one setting; hyphens are underscores
//     --runtime.amp --runtime.no_amp                switches take no value
//     --model.ns.user_groups.U1 1 15 48             a list goes to the next flag
//     data_pipeline.transforms.0:pcvr_feature_mask_config    chooses a transform's class
//
// The last occurrence wins.

#ifndef PCVR_FLAGS_H
#define PCVR_FLAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "settings.h"

typedef enum FlagKind {
    FLAG_TEXT,   // const char **
    FLAG_INT,    // int64_t *
    FLAG_COUNT,  // int64_t *: from 1 on
    FLAG_SIZE,   // int64_t *: from 0 on
    FLAG_FLOAT,  // double *
    FLAG_SWITCH, // int *: 1 for --name, 0 for --no-name
    FLAG_PLAIN   // int *: 1 for --name
} FlagKind;

typedef struct Flag {
    const char *name; // "dataset-path"
    FlagKind kind;
    void *to;
} Flag;

// Reads arguments argv[0 .. argc - 1] (without program and command). `settings` may be
// NULL: dotted names are unknown then. On false err says what is wrong with which
// argument; the caller exits with 2.
bool flags_parse(int argc, char **argv, const Flag *flags, int n_flags,
                 Settings *settings, PcvrError *err);

// The value of a command's own text flag before anything else is known, or NULL.
const char *flags_peek(int argc, char **argv, const char *name);

// Whether --help or -h is among the arguments.
bool flags_ask_help(int argc, char **argv);

// The candidate with the fewest edits to `word`, close enough to suggest, else NULL.
const char *flags_nearest(const char *word, const char *const *candidates, int n);

#endif

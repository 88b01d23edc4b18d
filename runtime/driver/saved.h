// saved.h - weights and settings of an earlier run, opened for scoring.

#ifndef PCVR_SAVED_H
#define PCVR_SAVED_H

#include "flags.h"
#include "run.h"

// The flags of val and infer, and n of one's own. 0 or a status after a message.
int saved_flags(Run *r, int argc, char **argv, const Flag *own, int n);
// Opens everything but the runner: the model, what `paths` finds (data set, weights, run
// directory, schema), the saved settings, the module, the data. 0 or a status after a
// message; *weights is the caller's to free in any case.
int saved_open(Run *r, int (*paths)(Run *r, char **weights), bool inference,
               char **weights);
// A runner that goes forward with the weights, for batches of *batch.
bool saved_runner(Run *r, const char *weights, pcvr_runner **out, int64_t *batch,
                  PcvrError *err);

// false and an error when no score is a number: then the weights are none either.
bool saved_scores_check(const Scores *s, const char *weights, PcvrError *err);
// Sigmoids of all logits, rounded to float32 as the reference does. The caller frees;
// NULL when memory is short.
double *saved_probabilities(const Scores *s);

#endif

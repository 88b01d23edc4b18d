// saved.h - weights and settings of an earlier run, opened for scoring.

#ifndef PCVR_SAVED_H
#define PCVR_SAVED_H

#include "run.h"

// Settings of the saved run; those of the model file, with a warning, where none are
// beside the weights. 0 or a status after a message.
int saved_settings(Run *r, const char *weights);
// Reads the weights into a runner of r->module.
bool saved_load(Run *r, pcvr_runner *runner, const char *weights, PcvrError *err);
// false and an error when no score is a number: then the weights are none either.
bool saved_scores_check(const Scores *s, const char *weights, PcvrError *err);
// Sigmoids of all logits, rounded to float32 as the reference does. The caller frees;
// NULL when memory is short.
double *saved_probabilities(const Scores *s);

#endif

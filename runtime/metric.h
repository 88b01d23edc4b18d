// metric.h - ranking and probability metrics of scored samples.

#ifndef PCVR_METRIC_H
#define PCVR_METRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// All functions take labels[n] and scores[n]; a pair with a value that is not finite is
// left out where the comment says so; a label above 0.5 is positive. Functions that
// allocate return false when memory is short.

// Area under the ROC curve by average ranks (Mann, Whitney 1947): non-finite pairs left
// out, 0.5 without both classes.
bool pcvr_auc(const double *labels, const double *scores, size_t n, double *auc);

// Mean binary cross entropy of logits, NaN logits left out, infinity when none is left.
double pcvr_logloss_logits(const double *labels, const double *logits, size_t n);
// The same of probabilities clipped to [1e-7, 1 - 1e-7], non-finite pairs left out, 0
// when none is left.
double pcvr_logloss_probabilities(const double *labels, const double *scores, size_t n);

typedef struct PcvrDiagnostics {
    int64_t sample_count, positive_count, negative_count, invalid_count;
    double positive_rate, score_mean, score_std; // population deviation
    double positive_score_mean, negative_score_mean, score_margin_mean;
    double positive_p10, positive_p50, positive_p90; // linear interpolation
    double negative_p10, negative_p50, negative_p90;
} PcvrDiagnostics;

// Non-finite pairs are counted as invalid; 0 for empty classes.
bool pcvr_diagnostics(const double *labels, const double *scores, size_t n,
                      PcvrDiagnostics *out);

// Mean AUC over the groups that hold both classes (0.5 without one), and the share of
// valid samples in them.
bool pcvr_group_auc(const double *labels, const double *scores, const int64_t *groups,
                    size_t n, double *value, double *coverage);

// Training's validation: AUC and diagnostics of sigmoid(logit) in float32, logloss of the
// logits; samples with a NaN logit are left out of all three.
typedef struct PcvrValidation {
    double auc, logloss;
    PcvrDiagnostics diagnostics;
} PcvrValidation;
bool pcvr_validate_logits(const double *labels, const float *logits, size_t n,
                          PcvrValidation *out);

typedef struct PcvrInterval {
    int64_t samples; // resamples made, 0 without both classes
    double confidence, low, high, std;
    int64_t positive_count, negative_count; // draws a resample
} PcvrInterval;

// Bootstrap interval of the AUC: classes resampled apart, at most 50000 draws a class;
// percentiles by linear interpolation. Draws come from Philox under `seed`.
bool pcvr_auc_interval(const double *labels, const double *scores, size_t n,
                       int64_t resamples, double confidence, uint64_t seed,
                       PcvrInterval *out);

typedef struct PcvrEvaluation {
    double auc, logloss, brier, gauc, gauc_coverage;
    PcvrInterval interval;
    PcvrDiagnostics diagnostics;
    int64_t sample_count;
} PcvrEvaluation;

// The evaluation record. Scores of which a finite one lies outside [0, 1] are logits and
// go through a sigmoid (clipped to +-60) first. `groups` may be NULL: gauc 0.5 with
// coverage 0.
bool pcvr_evaluate(const double *labels, const double *scores, const int64_t *groups,
                   size_t n, int64_t resamples, PcvrEvaluation *out);

// 1 / (1 + e^-x) with x clipped to [-60, 60].
double pcvr_sigmoid_clipped(double x);

#endif

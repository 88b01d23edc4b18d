// metric.c - ranking and probability metrics of scored samples.

#include "metric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loss.h"

typedef struct Scored {
    double score;
    bool positive;
} Scored;

static int
by_score(const void *a, const void *b)
{
    double x = ((const Scored *)a)->score, y = ((const Scored *)b)->score;
    return (x > y) - (x < y);
}

// The finite pairs; the caller frees. NULL when memory is short.
static Scored *
finite_pairs(const double *labels, const double *scores, size_t n, size_t *valid)
{
    Scored *pairs = malloc((n + 1) * sizeof *pairs);
    size_t k = 0;
    for (size_t i = 0; pairs && i < n; i++) {
        if (isfinite(labels[i]) && isfinite(scores[i]))
            pairs[k++] = (Scored){scores[i], labels[i] > 0.5};
    }
    *valid = k;
    return pairs;
}

// Sorts the pairs. Ranks count from 1, equal scores share the mean of their ranks.
static double
auc_pairs(Scored *pairs, size_t n)
{
    double ranks = 0.0;
    size_t positive = 0;
    qsort(pairs, n, sizeof *pairs, by_score);
    for (size_t i = 0; i < n;) {
        size_t end = i, hits = 0;
        while (end < n && pairs[end].score == pairs[i].score)
            hits += pairs[end++].positive;
        ranks += (double)hits * 0.5 * (double)(i + 1 + end);
        positive += hits;
        i = end;
    }
    if (positive == 0 || positive == n)
        return 0.5;
    double p = (double)positive, q = (double)(n - positive);
    return (ranks - p * (p + 1.0) / 2.0) / (p * q);
}

bool
pcvr_auc(const double *labels, const double *scores, size_t n, double *auc)
{
    size_t valid;
    Scored *pairs = finite_pairs(labels, scores, n, &valid);
    if (!pairs)
        return false;
    *auc = auc_pairs(pairs, valid);
    free(pairs);
    return true;
}

double
pcvr_logloss_logits(const double *labels, const double *logits, size_t n)
{
    double sum = 0.0;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        double z = logits[i];
        if (isnan(z))
            continue;
        sum += (1.0 - labels[i]) * z + fmax(-z, 0.0) + log1p(exp(-fabs(z)));
        count++;
    }
    return count ? sum / (double)count : (double)INFINITY;
}

double
pcvr_logloss_probabilities(const double *labels, const double *scores, size_t n)
{
    double sum = 0.0;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        double y = labels[i], p = scores[i];
        if (!isfinite(y) || !isfinite(p))
            continue;
        p = fmin(fmax(p, 1e-7), 1.0 - 1e-7);
        sum -= y * log(p) + (1.0 - y) * log(1.0 - p);
        count++;
    }
    return count ? sum / (double)count : 0.0;
}

// Value at fraction q of n ascending numbers, interpolated between neighbours.
static double
quantile(const double *sorted, size_t n, double q)
{
    double at = q * (double)(n - 1);
    size_t low = (size_t)at;
    if (low + 1 >= n)
        return sorted[n - 1];
    double t = at - (double)low, a = sorted[low], b = sorted[low + 1];
    return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1.0 - t);
}

static double
mean_of(const double *x, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return n ? sum / (double)n : 0.0;
}

static double
deviation_of(const double *x, size_t n, double mean)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return n ? sqrt(sum / (double)n) : 0.0;
}

static void
class_scores(const Scored *sorted, size_t n, bool positive, double *room, double *mean,
             double *p10, double *p50, double *p90)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (sorted[i].positive == positive)
            room[k++] = sorted[i].score;
    }
    if (k == 0)
        return;
    *mean = mean_of(room, k);
    *p10 = quantile(room, k, 0.1);
    *p50 = quantile(room, k, 0.5);
    *p90 = quantile(room, k, 0.9);
}

bool
pcvr_diagnostics(const double *labels, const double *scores, size_t n,
                 PcvrDiagnostics *out)
{
    size_t valid;
    Scored *pairs = finite_pairs(labels, scores, n, &valid);
    double *room = malloc((n + 1) * sizeof *room);
    *out = (PcvrDiagnostics){0};
    if (!pairs || !room) {
        free(pairs);
        free(room);
        return false;
    }
    out->sample_count = (int64_t)valid;
    out->invalid_count = (int64_t)(n - valid);
    for (size_t i = 0; i < valid; i++) {
        room[i] = pairs[i].score;
        out->positive_count += pairs[i].positive;
    }
    out->negative_count = out->sample_count - out->positive_count;
    if (valid)
        out->positive_rate = (double)out->positive_count / (double)valid;
    out->score_mean = mean_of(room, valid);
    out->score_std = deviation_of(room, valid, out->score_mean);
    qsort(pairs, valid, sizeof *pairs, by_score);
    class_scores(pairs, valid, true, room, &out->positive_score_mean, &out->positive_p10,
                 &out->positive_p50, &out->positive_p90);
    class_scores(pairs, valid, false, room, &out->negative_score_mean, &out->negative_p10,
                 &out->negative_p50, &out->negative_p90);
    if (out->positive_count && out->negative_count)
        out->score_margin_mean = out->positive_score_mean - out->negative_score_mean;
    free(pairs);
    free(room);
    return true;
}

typedef struct Grouped {
    int64_t group;
    Scored pair;
} Grouped;

static int
by_group(const void *a, const void *b)
{
    int64_t x = ((const Grouped *)a)->group, y = ((const Grouped *)b)->group;
    return (x > y) - (x < y);
}

bool
pcvr_group_auc(const double *labels, const double *scores, const int64_t *groups,
               size_t n, double *value, double *coverage)
{
    size_t valid = 0, covered = 0, counted = 0;
    double sum = 0.0;
    Grouped *all = malloc((n + 1) * sizeof *all);
    Scored *part = malloc((n + 1) * sizeof *part);
    for (size_t i = 0; all && part && i < n; i++) {
        if (isfinite(labels[i]) && isfinite(scores[i]))
            all[valid++] = (Grouped){groups[i], {scores[i], labels[i] > 0.5}};
    }
    if (all && part)
        qsort(all, valid, sizeof *all, by_group);
    for (size_t i = 0; all && part && i < valid;) {
        size_t k = 0, positive = 0, end = i;
        for (; end < valid && all[end].group == all[i].group; end++) {
            part[k++] = all[end].pair;
            positive += all[end].pair.positive;
        }
        if (positive && positive < k) {
            sum += auc_pairs(part, k);
            counted++;
            covered += k;
        }
        i = end;
    }
    bool ok = all && part;
    *value = counted ? sum / (double)counted : 0.5;
    *coverage = valid ? (double)covered / (double)valid : 0.0;
    free(all);
    free(part);
    return ok;
}

bool
pcvr_validate_logits(const double *labels, const float *logits, size_t n,
                     PcvrValidation *out)
{
    double *y = calloc(n + 1, sizeof *y), *z = calloc(n + 1, sizeof *z);
    bool ok = y && z;
    size_t k = 0;
    for (size_t i = 0; ok && i < n; i++) {
        if (isnan(logits[i]))
            continue;
        y[k] = labels[i];
        z[k++] = (double)logits[i];
    }
    if (ok) {
        out->logloss = pcvr_logloss_logits(y, z, k);
        for (size_t i = 0; i < k; i++)
            z[i] = (double)(float)pcvr_sigmoid(z[i]);
        ok = pcvr_auc(y, z, k, &out->auc) && pcvr_diagnostics(y, z, k, &out->diagnostics);
    }
    free(y);
    free(z);
    return ok;
}

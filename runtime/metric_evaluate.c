// metric_evaluate.c - the evaluation record: bootstrap interval and the metrics together.

#include "metric.h"

#include <math.h>
#include <stdlib.h>

#include "loss.h"
#include "philox.h"

enum { DRAW_LIMIT = 50000 };

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double
quantile(const double *sorted, size_t n, double q)
{
    double at = q * (double)(n - 1);
    size_t low = (size_t)at;
    if (low + 1 >= n)
        return sorted[n - 1];
    return sorted[low] + (sorted[low + 1] - sorted[low]) * (at - (double)low);
}

// Element `at` of the stream of resample r: 32 bits scaled to [0, n).
static size_t
draw(uint64_t seed, uint32_t r, uint32_t at, size_t n)
{
    uint32_t c[4] = {at, r, 0, 0x626f6f74u},
             k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, w[4];
    pcvr_philox(w, c, k);
    uint64_t wide = (uint64_t)w[0] << 32 | w[1];
    return (size_t)((double)(wide >> 11) * 0x1p-53 * (double)n);
}

typedef struct Classes {
    double *positive, *negative, *labels, *scores, *aucs;
    size_t n_positive, n_negative, draw_positive, draw_negative;
} Classes;

static void
classes_free(Classes *c)
{
    free(c->positive);
    free(c->negative);
    free(c->labels);
    free(c->scores);
    free(c->aucs);
}

static bool
classes_split(Classes *c, const double *labels, const double *scores, size_t n,
              size_t resamples)
{
    *c = (Classes){.positive = malloc((n + 1) * sizeof(double)),
                   .negative = malloc((n + 1) * sizeof(double)),
                   .labels = malloc((n + 1) * sizeof(double)),
                   .scores = malloc((n + 1) * sizeof(double)),
                   .aucs = malloc((resamples + 1) * sizeof(double))};
    if (!c->positive || !c->negative || !c->labels || !c->scores || !c->aucs)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(labels[i]) || !isfinite(scores[i]))
            continue;
        if (labels[i] > 0.5)
            c->positive[c->n_positive++] = scores[i];
        else
            c->negative[c->n_negative++] = scores[i];
    }
    c->draw_positive = c->n_positive < DRAW_LIMIT ? c->n_positive : DRAW_LIMIT;
    c->draw_negative = c->n_negative < DRAW_LIMIT ? c->n_negative : DRAW_LIMIT;
    return true;
}

static bool
resample(Classes *c, uint64_t seed, uint32_t r, double *auc)
{
    size_t p = c->draw_positive, q = c->draw_negative;
    for (size_t i = 0; i < p; i++) {
        c->labels[i] = 1.0;
        c->scores[i] = c->positive[draw(seed, r, (uint32_t)i, c->n_positive)];
    }
    for (size_t i = 0; i < q; i++) {
        c->labels[p + i] = 0.0;
        c->scores[p + i] = c->negative[draw(seed, r, (uint32_t)(p + i), c->n_negative)];
    }
    return pcvr_auc(c->labels, c->scores, p + q, auc);
}

bool
pcvr_auc_interval(const double *labels, const double *scores, size_t n, int64_t resamples,
                  double confidence, uint64_t seed, PcvrInterval *out)
{
    Classes c;
    size_t count = resamples > 0 ? (size_t)resamples : 0;
    *out = (PcvrInterval){.confidence = confidence, .low = 0.5, .high = 0.5};
    bool ok = classes_split(&c, labels, scores, n, count);
    if (ok) {
        out->positive_count = (int64_t)c.draw_positive;
        out->negative_count = (int64_t)c.draw_negative;
    }
    if (ok && count && c.n_positive && c.n_negative) {
        double mean = 0.0, square = 0.0;
        for (size_t r = 0; ok && r < count; r++) {
            ok = resample(&c, seed, (uint32_t)r, &c.aucs[r]);
            mean += ok ? c.aucs[r] / (double)count : 0.0;
        }
        for (size_t r = 0; ok && r < count; r++)
            square += (c.aucs[r] - mean) * (c.aucs[r] - mean);
        if (ok) {
            qsort(c.aucs, count, sizeof *c.aucs, by_value);
            out->samples = resamples;
            out->low = quantile(c.aucs, count, (1.0 - confidence) / 2.0);
            out->high = quantile(c.aucs, count, (1.0 + confidence) / 2.0);
            out->std = sqrt(square / (double)count);
        }
    }
    classes_free(&c);
    return ok;
}

double
pcvr_sigmoid_clipped(double x)
{
    return 1.0 / (1.0 + exp(-fmin(fmax(x, -60.0), 60.0)));
}

// The probabilities of scores that may be logits; NaN stays NaN.
static double *
probabilities(const double *scores, size_t n)
{
    double *p = malloc((n + 1) * sizeof *p);
    bool logits = false;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(scores[i]) && (scores[i] < 0.0 || scores[i] > 1.0))
            logits = true;
    }
    for (size_t i = 0; p && i < n; i++)
        p[i] = logits && !isnan(scores[i]) ? pcvr_sigmoid_clipped(scores[i]) : scores[i];
    return p;
}

static double
brier(const double *labels, const double *p, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(labels[i]) || !isfinite(p[i]))
            return (double)NAN;
        sum += (p[i] - labels[i]) * (p[i] - labels[i]);
    }
    return n ? sum / (double)n : 0.0;
}

bool
pcvr_evaluate(const double *labels, const double *scores, const int64_t *groups, size_t n,
              int64_t resamples, PcvrEvaluation *out)
{
    double *p = probabilities(scores, n);
    *out = (PcvrEvaluation){.gauc = 0.5, .sample_count = (int64_t)n};
    bool ok = p && pcvr_auc(labels, p, n, &out->auc) &&
              pcvr_auc_interval(labels, p, n, resamples, 0.95, 42, &out->interval) &&
              pcvr_diagnostics(labels, p, n, &out->diagnostics) &&
              (!groups ||
               pcvr_group_auc(labels, p, groups, n, &out->gauc, &out->gauc_coverage));
    if (ok) {
        out->logloss = pcvr_logloss_probabilities(labels, p, n);
        out->brier = brier(labels, p, n);
    }
    free(p);
    return ok;
}

// test_metric.c - every recorded metric; the bootstrap interval within statistical
// limits.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "metric.h"
#include "recorded.h"

enum { MAX = 1000 };

static size_t
numbers(const json_t *array, double *out)
{
    size_t n = json_array_size(array);
    assert_true(n <= MAX);
    for (size_t i = 0; i < n; i++)
        out[i] = recorded_number(json_array_get(array, i));
    return n;
}

static void
same(double got, const json_t *object, const char *key, double limit, const char *label)
{
    double want = recorded_field(object, key);
    bool ok = isnan(want)   ? isnan(got)
              : isinf(want) ? got == want
                            : close_to(got, want, limit * fmax(1.0, fabs(want)));
    if (!ok)
        fail_msg("%s: %s: expected %.17g, found %.17g", label, key, want, got);
}

static void
check_diagnostics(const PcvrDiagnostics *d, const json_t *want, double limit,
                  const char *label)
{
    assert_int_equal(json_object_size(want), 16);
    same((double)d->sample_count, want, "sample_count", 0, label);
    same((double)d->positive_count, want, "positive_count", 0, label);
    same((double)d->negative_count, want, "negative_count", 0, label);
    same((double)d->invalid_count, want, "invalid_count", 0, label);
    same(d->positive_rate, want, "positive_rate", limit, label);
    same(d->score_mean, want, "score_mean", limit, label);
    same(d->score_std, want, "score_std", limit, label);
    same(d->positive_score_mean, want, "positive_score_mean", limit, label);
    same(d->negative_score_mean, want, "negative_score_mean", limit, label);
    same(d->score_margin_mean, want, "score_margin_mean", limit, label);
    same(d->positive_p10, want, "positive_score_p10", limit, label);
    same(d->positive_p50, want, "positive_score_p50", limit, label);
    same(d->positive_p90, want, "positive_score_p90", limit, label);
    same(d->negative_p10, want, "negative_score_p10", limit, label);
    same(d->negative_p50, want, "negative_score_p50", limit, label);
    same(d->negative_p90, want, "negative_score_p90", limit, label);
}

static void
check_evaluation(const double *labels, const double *scores, size_t n, const json_t *want,
                 const char *label)
{
    const json_t *ci = json_object_get(want, "auc_ci"),
                 *g = json_object_get(want, "gauc");
    PcvrEvaluation e;
    PcvrInterval wide;
    assert_true(pcvr_evaluate(labels, scores, NULL, n, 50, &e));
    same(e.auc, want, "auc", 1e-12, label);
    same(e.logloss, want, "logloss", 1e-12, label);
    same(e.brier, want, "brier", 1e-12, label);
    same(e.gauc, g, "value", 0, label);
    same(e.gauc_coverage, g, "coverage", 0, label);
    same((double)e.sample_count, want, "sample_count", 0, label);
    check_diagnostics(&e.diagnostics, json_object_get(want, "score_diagnostics"), 1e-12,
                      label);
    same((double)e.interval.samples, ci, "samples", 0, label);
    same(e.interval.confidence, ci, "confidence", 0, label);
    same((double)e.interval.positive_count, ci, "positive_resample_count", 0, label);
    same((double)e.interval.negative_count, ci, "negative_resample_count", 0, label);
    assert_true(pcvr_auc_interval(labels, scores, n, e.interval.samples ? 2000 : 0, 0.95,
                                  1, &wide));
    double std = recorded_field(ci, "std");
    assert_true(close_to(wide.std, std, 0.3 * std + 1e-12));
    // Fifty recorded resamples: their ends stray, most where few samples give few
    // different values.
    double stray = (n < 100 ? 2.5 : 1.0) * std + 1e-12;
    assert_true(close_to(wide.low, recorded_field(ci, "low"), stray));
    assert_true(close_to(wide.high, recorded_field(ci, "high"), stray));
}

static void
test_cases(void **state)
{
    (void)state;
    json_t *root = recorded_json("metrics/metrics.json"), *c;
    const char *label;
    static double y[MAX], s[MAX];
    size_t cases = 0;
    if (!root)
        skip();
    json_object_foreach(json_object_get(root, "cases"), label, c)
    {
        size_t n = numbers(json_object_get(c, "labels"), y);
        double auc;
        PcvrDiagnostics d;
        assert_int_equal(numbers(json_object_get(c, "scores"), s), n);
        assert_true(pcvr_auc(y, s, n, &auc));
        same(auc, c, "auc", 1e-12, label);
        same(pcvr_logloss_probabilities(y, s, n), c, "logloss_of_scores_as_probabilities",
             1e-12, label);
        assert_true(pcvr_diagnostics(y, s, n, &d));
        check_diagnostics(&d, json_object_get(c, "diagnostics"), 1e-12, label);
        check_evaluation(y, s, n, json_object_get(c, "classification_metrics"), label);
        cases++;
    }
    assert_int_equal(cases, 16);
    json_decref(root);
}

static void
test_logits(void **state)
{
    (void)state;
    json_t *root = recorded_json("metrics/metrics.json"), *c;
    const char *label;
    static double y[MAX], s[MAX];
    static float z[MAX];
    size_t cases = 0;
    if (!root)
        skip();
    json_object_foreach(json_object_get(root, "validation_from_logits"), label, c)
    {
        PcvrValidation v;
        size_t n = numbers(json_object_get(c, "labels"), y);
        assert_int_equal(numbers(json_object_get(c, "logits"), s), n);
        for (size_t i = 0; i < n; i++)
            z[i] = (float)s[i];
        assert_true(pcvr_validate_logits(y, z, n, &v));
        same(v.auc, c, "auc", 1e-12, label);
        same(v.logloss, c, "logloss", 2e-7, label);
        check_diagnostics(&v.diagnostics, json_object_get(c, "diagnostics"), 2e-7, label);
        cases++;
    }
    assert_int_equal(cases, 5);
    json_decref(root);
}

static void
test_groups(void **state)
{
    (void)state;
    json_t *root = recorded_json("metrics/metrics.json");
    static double y[MAX], s[MAX], g[MAX];
    static int64_t groups[MAX];
    double value, coverage;
    if (!root)
        skip();
    const json_t *c = json_object_get(root, "group_auc"),
                 *want = json_object_get(c, "expected");
    size_t n = numbers(json_object_get(c, "labels"), y);
    assert_int_equal(n, 60);
    numbers(json_object_get(c, "scores"), s);
    numbers(json_object_get(c, "groups"), g);
    for (size_t i = 0; i < n; i++)
        groups[i] = (int64_t)g[i];
    assert_true(pcvr_group_auc(y, s, groups, n, &value, &coverage));
    same(value, want, "value", 1e-12, "groups");
    same(coverage, want, "coverage", 1e-12, "groups");
    const json_t *sigmoid = json_object_get(root, "sigmoid");
    n = numbers(json_object_get(sigmoid, "input"), s);
    assert_int_equal(numbers(json_object_get(sigmoid, "expected"), y), n);
    for (size_t i = 0; i < n; i++)
        assert_true(close_to(pcvr_sigmoid_clipped(s[i]), y[i], 1e-12 * y[i]));
    json_decref(root);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_groups),
    };
    return cmocka_run_group_tests_name("metric", tests, NULL, NULL);
}

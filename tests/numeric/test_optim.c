// test_optim.c - optimisers, clipping, schedules, running copies and early stopping as
// recorded.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "clip.h"
#include "optim.h"
#include "recorded.h"

enum { MAX = 64 };

static size_t
load(const PcvrTensors *all, float *out, const char *format, ...)
{
    char name[128];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const PcvrTensor *t = tensor_get(all, name);
    assert_true(t->count <= MAX);
    for (size_t i = 0; i < t->count; i++)
        out[i] = (float)tensor_at(t, i);
    return t->count;
}

static void
check(const PcvrTensors *all, const float *got, size_t n, double limit,
      const char *format, ...)
{
    char name[128];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const PcvrTensor *t = tensor_get(all, name);
    assert_int_equal(t->count, n);
    for (size_t i = 0; i < n; i++) {
        double want = tensor_at(t, i);
        if (!close_to((double)got[i], want, limit * fmax(1.0, fabs(want))))
            fail_msg("%s[%zu]: expected %.9g, found %.9g", name, i, want, (double)got[i]);
    }
}

static void
test_adamw(void **state)
{
    (void)state;
    json_t *root = recorded_json("optim/dense.json");
    PcvrTensors all;
    if (!root || !recorded_tensors(&all, "optim/dense.safetensors"))
        skip();
    const char *name;
    json_t *shape, *rates = json_object_get(root, "lr_per_step");
    size_t params = 0;
    PcvrAdamW h = pcvr_adamw_defaults();
    json_object_foreach(json_object_get(root, "shapes"), name, shape)
    {
        float p[MAX], g[MAX], m[MAX] = {0}, v[MAX] = {0};
        size_t n = load(&all, p, "init.%s", name);
        for (size_t k = 0; k < json_array_size(rates); k++) {
            double lr = recorded_number(json_array_get(rates, k));
            load(&all, g, "grad%zu.%s", k, name);
            pcvr_adamw_step(&h, p, g, m, v, n, lr, (int64_t)k + 1, 1.0f);
            check(&all, p, n, 2e-7, "adamw.f32.step%zu.%s", k + 1, name);
            check(&all, p, n, 5e-7, "adamw.f64.step%zu.%s", k + 1, name);
        }
        check(&all, m, n, 2e-7, "adamw.f32.state.%s.exp_avg", name);
        check(&all, v, n, 2e-7, "adamw.f32.state.%s.exp_avg_sq", name);
        params++;
    }
    assert_int_equal(params, 11);
    assert_int_equal(json_array_size(rates), 5);
    pcvr_safetensors_free(&all);
    json_decref(root);
}

// Sums duplicates in order; rows ascending.
static int64_t
merge(const PcvrTensor *rows, const PcvrTensor *values, int64_t width, int64_t *ids,
      float *out)
{
    int64_t n = 0;
    for (int64_t row = 0; row < 64; row++) {
        bool found = false;
        for (size_t k = 0; k < rows->count; k++) {
            if ((int64_t)tensor_at(rows, k) != row)
                continue;
            for (int64_t c = 0; c < width; c++) {
                float v = (float)tensor_at(values, k * (size_t)width + (size_t)c);
                out[n * width + c] = found ? out[n * width + c] + v : v;
            }
            found = true;
        }
        if (found)
            ids[n++] = row;
    }
    return n;
}

static void
adagrad_case(const PcvrTensors *all, const char *lr_text, const char *acc_text)
{
    float w[MAX], acc[MAX], values[MAX];
    int64_t ids[MAX];
    char label[64], name[128];
    size_t n = load(all, w, "init");
    snprintf(label, sizeof label, "lr%s.acc%s.f32", lr_text, acc_text);
    for (size_t i = 0; i < n; i++)
        acc[i] = strtof(acc_text, NULL);
    for (int k = 0; k < 5; k++) {
        snprintf(name, sizeof name, "rows%d", k);
        const PcvrTensor *rows = tensor_get(all, name);
        snprintf(name, sizeof name, "values%d", k);
        int64_t count = merge(rows, tensor_get(all, name), 4, ids, values);
        pcvr_adagrad_rows(w, acc, 4, ids, values, count, strtod(lr_text, NULL), 1.0f);
        check(all, w, n, 1e-7, "%s.step%d.param", label, k + 1);
        check(all, acc, n, 1e-7, "%s.step%d.sum", label, k + 1);
    }
}

static void
test_adagrad(void **state)
{
    (void)state;
    PcvrTensors all;
    if (!recorded_tensors(&all, "optim/sparse_adagrad.safetensors"))
        skip();
    adagrad_case(&all, "0.05", "0.0");
    adagrad_case(&all, "0.05", "0.1");
    adagrad_case(&all, "0.01", "0.0");
    adagrad_case(&all, "0.01", "0.1");
    pcvr_safetensors_free(&all);
}

// A merged gradient of zeros leaves its row alone, a NaN does not.
static void
test_adagrad_rows(void **state)
{
    (void)state;
    float w[6] = {1, 2, 3, 4, 5, 6}, acc[6] = {0}, g[4] = {0, 0, NAN, 0};
    int64_t ids[2] = {0, 2};
    pcvr_adagrad_rows(w, acc, 2, ids, g, 2, 0.1, 1.0f);
    assert_true(w[0] == 1.0f && w[1] == 2.0f && w[2] == 3.0f && w[3] == 4.0f);
    assert_true(isnan(w[4]) && w[5] == 6.0f);
}

// Updates of pieces give the bits of one update of all, whatever their lengths: threads may
// cut anywhere. Sums of squares in blocks stay near the plain sum.
static void
test_pieces(void **state)
{
    (void)state;
    enum { N = 9001, W = 37, ROWS = N / W };
    static float p[2][N], m[2][N], v[2][N], g[N];
    static const size_t cuts[] = {0, 1, 16, 47, 48, 4096, 8999, N};
    static int64_t ids[ROWS];
    PcvrAdamW h = pcvr_adamw_defaults();
    double plain = 0.0;
    for (int i = 0; i < N; i++) {
        p[0][i] = p[1][i] = sinf((float)i);
        g[i] = i % 11 == 0 ? 0.0f : cosf((float)i) * expf((float)(i % 40) - 30.0f);
        m[0][i] = m[1][i] = 0.1f * sinf((float)(3 * i));
        v[0][i] = v[1][i] = 0.1f + 0.1f * sinf((float)(5 * i));
        plain += (double)g[i] * (double)g[i];
    }
    pcvr_adamw_step(&h, p[0], g, m[0], v[0], N, 1e-3, 7, 0.5f);
    for (size_t k = 0; k + 1 < sizeof cuts / sizeof *cuts; k++)
        pcvr_adamw_step(&h, p[1] + cuts[k], g + cuts[k], m[1] + cuts[k], v[1] + cuts[k],
                        cuts[k + 1] - cuts[k], 1e-3, 7, 0.5f);
    assert_memory_equal(p[0], p[1], sizeof p[0]);
    assert_memory_equal(m[0], m[1], sizeof m[0]);
    assert_memory_equal(v[0], v[1], sizeof v[0]);
    for (int64_t i = 0; i < ROWS; i++)
        ids[i] = (i * 5) % ROWS;
    assert_int_equal(ROWS % 5, 3); // so every row comes once
    pcvr_adagrad_rows(p[0], v[0], W, ids, g, ROWS, 0.05, 0.5f);
    for (int64_t i = 0; i < ROWS; i++)
        pcvr_adagrad_rows(p[1], v[1], W, ids + i, g + i * W, 1, 0.05, 0.5f);
    assert_memory_equal(p[0], p[1], sizeof p[0]);
    assert_memory_equal(v[0], v[1], sizeof v[0]);
    double sum = pcvr_clip_add(1.0, g, N);
    assert_true(close_to(sum, 1.0 + plain, 1e-12 * plain));
}

// The norm counts each stored entry, duplicates too; the scaled gradients are those of
// the documented clipping.
static void
test_clip(void **state)
{
    (void)state;
    json_t *root = recorded_json("optim/clip.json");
    PcvrTensors all;
    if (!root || !recorded_tensors(&all, "optim/clip.safetensors"))
        skip();
    static const char *const names[] = {"small", "large"};
    for (int k = 0; k < 2; k++) {
        const json_t *c = json_object_get(json_object_get(root, "cases"), names[k]);
        float a[MAX], b[MAX], e[MAX], dense[MAX] = {0}, rows[MAX];
        size_t na = load(&all, a, "%s.a", names[k]), nb = load(&all, b, "%s.b", names[k]);
        size_t ne = load(&all, e, "%s.e.values", names[k]),
               n = load(&all, rows, "%s.e.rows", names[k]);
        double sum =
            pcvr_clip_add(pcvr_clip_add(pcvr_clip_add(0.0, a, na), b, nb), e, ne);
        double want = recorded_field(c, "total_norm");
        assert_true(close_to(sqrt(sum), want, 1e-6 * want));
        float scale = pcvr_clip_coefficient(sqrt(sum), recorded_field(root, "max_norm"));
        bool changed =
            json_is_true(json_object_get(c, "gradients_changed_with_list_argument"));
        assert_int_equal(scale < 1.0f, changed);
        pcvr_clip_scale(a, na, scale);
        pcvr_clip_scale(b, nb, scale);
        pcvr_clip_scale(e, ne, scale);
        check(&all, a, na, 2e-7, "%s.list.a", names[k]);
        check(&all, b, nb, 2e-7, "%s.list.b", names[k]);
        for (size_t i = 0; i < n; i++) {
            for (size_t d = 0; d < 3; d++)
                dense[(size_t)rows[i] * 3 + d] += e[i * 3 + d];
        }
        check(&all, dense, 24, 4e-7, "%s.list.e_dense", names[k]);
    }
    assert_true(isnan(pcvr_clip_coefficient((double)NAN, 1.0)));
    pcvr_safetensors_free(&all);
    json_decref(root);
}

static void
test_schedules(void **state)
{
    (void)state;
    json_t *root = recorded_json("optim/schedules.json");
    if (!root)
        skip();
    json_t *cases = json_object_get(root, "cases");
    size_t seen[3] = {0};
    assert_int_equal(json_array_size(cases), 18);
    for (size_t k = 0; k < 18; k++) {
        const json_t *c = json_array_get(cases, k);
        const char *type = json_string_value(json_object_get(c, "scheduler_type"));
        PcvrSchedule kind = !strcmp(type, "none")     ? PCVR_SCHEDULE_NONE
                            : !strcmp(type, "linear") ? PCVR_SCHEDULE_LINEAR
                                                      : PCVR_SCHEDULE_COSINE;
        const json_t *want = json_object_get(c, "multiplier_for_step_minus1_to_25");
        assert_int_equal(json_array_size(want), 27);
        for (size_t i = 0; i < 27; i++) {
            double got = pcvr_schedule(kind, (int64_t)i - 1,
                                       (int64_t)recorded_field(c, "warmup_steps"),
                                       (int64_t)recorded_field(c, "max_steps"),
                                       recorded_field(c, "min_lr_ratio"));
            assert_true(close_to(got, recorded_number(json_array_get(want, i)), 1e-12));
        }
        seen[kind]++;
    }
    assert_true(seen[0] && seen[1] && seen[2]);
    json_decref(root);
}

static void
test_ema(void **state)
{
    (void)state;
    json_t *root = recorded_json("optim/ema.json"), *c;
    PcvrTensors all;
    const char *label;
    size_t cases = 0, compared = 0;
    if (!root || !recorded_tensors(&all, "optim/ema.safetensors"))
        skip();
    json_object_foreach(json_object_get(root, "cases"), label, c)
    {
        const json_t *start = json_object_get(c, "start_step");
        const json_t *every = json_object_get(c, "update_every_n_steps");
        const json_t *updated = json_object_get(c, "update_returned");
        for (size_t k = 0; k < json_array_size(updated); k++) {
            PcvrEmaAction action =
                pcvr_ema_action((int64_t)k + 1, start ? json_integer_value(start) : 0,
                                every ? json_integer_value(every) : 1);
            assert_int_equal(action == PCVR_EMA_AVERAGE,
                             json_is_true(json_array_get(updated, k)));
            compared++;
        }
        cases++;
    }
    assert_int_equal(cases, 5);
    assert_int_equal(compared, 40);
    float shadow[2] = {1.0f, -2.0f}, value[2] = {2.0f, 2.0f};
    pcvr_ema_update(shadow, value, 2, 0.75);
    assert_true(shadow[0] == 1.25f && shadow[1] == -1.0f);
    pcvr_safetensors_free(&all);
    json_decref(root);
}

static void
test_stopper(void **state)
{
    (void)state;
    json_t *root = recorded_json("optim/early_stopping.json");
    if (!root)
        skip();
    json_t *cases = json_object_get(root, "cases");
    size_t checked = 0;
    for (size_t k = 0; k < json_array_size(cases); k++) {
        const json_t *c = json_array_get(cases, k), *trace = json_object_get(c, "trace");
        PcvrStopper s = {.patience = (int64_t)recorded_field(c, "patience_steps")};
        bool nan = false;
        for (size_t i = 0; i < json_array_size(trace); i++)
            nan = nan || isnan(recorded_field(json_array_get(trace, i), "score"));
        if (nan)
            continue; // recorded there: NaN as a best score, which is not copied
        for (size_t i = 0; i < json_array_size(trace); i++) {
            const json_t *t = json_array_get(trace, i);
            pcvr_stopper_take(&s, (int64_t)recorded_field(t, "step"),
                              recorded_field(t, "score"));
            assert_true(s.best == recorded_field(t, "best_score"));
            assert_int_equal(s.best_step, (int64_t)recorded_field(t, "best_step"));
            assert_int_equal(s.counter, (int64_t)recorded_field(t, "counter"));
            assert_int_equal(s.stop, json_is_true(json_object_get(t, "early_stop")));
            checked++;
        }
    }
    assert_true(checked > 12);
    PcvrStopper s = {.patience = 100};
    assert_true(pcvr_stopper_take(&s, 50, 0.5));
    assert_false(pcvr_stopper_take(&s, 100, (double)NAN));
    assert_true(s.best == 0.5 && !s.stop);
    assert_false(pcvr_stopper_take(&s, 150, (double)NAN));
    assert_true(s.stop);
    json_decref(root);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw),        cmocka_unit_test(test_adagrad),
        cmocka_unit_test(test_adagrad_rows), cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_clip),
        cmocka_unit_test(test_schedules),    cmocka_unit_test(test_ema),
        cmocka_unit_test(test_stopper),
    };
    return cmocka_run_group_tests_name("optim", tests, NULL, NULL);
}

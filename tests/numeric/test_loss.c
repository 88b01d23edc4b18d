// test_loss.c - every recorded loss and gradient, and chunks adding up.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "loss.h"
#include "recorded.h"

enum { MAX = 300 };

static size_t
read_terms(const json_t *config, PcvrLossTerm *terms)
{
    size_t n = json_array_size(config);
    for (size_t i = 0; i < n; i++) {
        const json_t *t = json_array_get(config, i);
        const char *kind = json_string_value(json_object_get(t, "kind"));
        terms[i] = (PcvrLossTerm){.kind = !strcmp(kind, "bce")     ? PCVR_LOSS_BCE
                                          : !strcmp(kind, "focal") ? PCVR_LOSS_FOCAL
                                                                   : PCVR_LOSS_PAIRWISE,
                                  .weight = recorded_field(t, "weight"),
                                  .alpha = recorded_field(t, "focal_alpha"),
                                  .gamma = recorded_field(t, "focal_gamma"),
                                  .temperature = recorded_field(t, "temperature")};
    }
    return n;
}

static size_t
read_vector(const PcvrTensors *all, const char *vector, const char *what, float *out)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", vector, what);
    const PcvrTensor *t = tensor_get(all, name);
    assert_true(t->count <= MAX);
    for (size_t i = 0; i < t->count; i++)
        out[i] = (float)tensor_at(t, i);
    return t->count;
}

static void
check_gradient(const PcvrTensors *all, const char *vector, const char *config,
               const float *got, size_t n, size_t *finite)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s.grad_f64", vector, config);
    const PcvrTensor *want = tensor_get(all, name);
    assert_int_equal(want->count, n);
    for (size_t i = 0; i < n; i++) {
        double w = tensor_at(want, i);
        if (isnan(w))
            w = 0.0; // the reference divides 0 by 0 where the derivative is 0
        else
            ++*finite;
        if (!close_to((double)got[i], w, 1e-9 + 3e-7 * fabs(w)))
            fail_msg("%s[%zu]: expected %.9g, found %.9g", name, i, w, (double)got[i]);
    }
}

static void
test_recorded(void **state)
{
    (void)state;
    json_t *root = recorded_json("losses/losses.json");
    PcvrTensors all;
    if (!root || !recorded_tensors(&all, "losses/losses.safetensors"))
        skip();
    json_t *cases = json_object_get(root, "cases"),
           *configs = json_object_get(root, "configs");
    size_t finite = 0;
    assert_int_equal(json_array_size(cases), 176);
    for (size_t k = 0; k < json_array_size(cases); k++) {
        const json_t *c = json_array_get(cases, k);
        const char *vector = json_string_value(json_object_get(c, "vector"));
        const char *config = json_string_value(json_object_get(c, "config"));
        const json_t *terms_json = json_object_get(configs, config);
        PcvrLossTerm terms[8];
        float z[MAX], y[MAX], dz[MAX];
        double values[8], scratch[MAX];
        size_t n_terms = read_terms(terms_json, terms);
        size_t n = read_vector(&all, vector, "logits", z);
        assert_int_equal(read_vector(&all, vector, "labels", y), n);
        double total = pcvr_loss_total(terms, n_terms, z, y, n, values, dz, scratch);
        double want = recorded_field(c, "total_f64");
        if (!close_to(total, want, 1e-12 + 1e-11 * fabs(want)))
            fail_msg("%s %s: expected %.17g, found %.17g", vector, config, want, total);
        const json_t *parts = json_object_get(c, "components_f64");
        assert_int_equal(json_object_size(parts), n_terms);
        for (size_t t = 0; t < n_terms; t++) {
            const char *name =
                json_string_value(json_object_get(json_array_get(terms_json, t), "name"));
            assert_true(close_to(values[t], recorded_field(parts, name), 1e-9));
        }
        check_gradient(&all, vector, config, dz, n, &finite);
    }
    assert_true(finite > 5000);
    pcvr_safetensors_free(&all);
    json_decref(root);
}

// Chunks give the bits of the whole, in any cut.
static void
test_chunks(void **state)
{
    (void)state;
    PcvrLossTerm term = {
        .kind = PCVR_LOSS_FOCAL, .weight = 0.7, .alpha = 0.25, .gamma = 1.5};
    float z[67], y[67], whole[67] = {0}, cut[67] = {0};
    double a[67], b[67];
    for (size_t i = 0; i < 67; i++) {
        z[i] = (float)((double)(i * 37 % 67) * 0.2 - 6.0);
        y[i] = i % 3 == 0 ? 1.0f : 0.0f;
    }
    pcvr_loss_samples(&term, z, y, 67, 67, a, whole);
    for (size_t at = 0; at < 67; at += 8) {
        size_t n = at + 8 > 67 ? 67 - at : 8;
        pcvr_loss_samples(&term, z + at, y + at, n, 67, b + at, cut + at);
    }
    assert_memory_equal(whole, cut, sizeof whole);
    assert_memory_equal(a, b, sizeof a);
    assert_false(pcvr_loss_coupled(&term, 1));
    term.kind = PCVR_LOSS_PAIRWISE;
    assert_true(pcvr_loss_coupled(&term, 1));
    term.weight = 0.0;
    assert_false(pcvr_loss_coupled(&term, 1));
}

// Labels between the classes, against central differences.
static void
test_soft_labels(void **state)
{
    (void)state;
    for (int k = 0; k < 20; k++) {
        PcvrLossTerm term = {.kind = k % 2 ? PCVR_LOSS_FOCAL : PCVR_LOSS_BCE,
                             .weight = 1.0,
                             .alpha = 0.25,
                             .gamma = 0.5 + 0.25 * k};
        float y[1] = {0.05f + 0.045f * (float)k}, dz[3] = {0}, z[3];
        double loss[3];
        z[0] = (float)k * 0.3f - 3.0f;
        z[1] = z[0] + 0x1p-10f;
        z[2] = z[0] - 0x1p-10f;
        for (int i = 0; i < 3; i++)
            pcvr_loss_samples(&term, z + i, y, 1, 1, loss + i, dz + i);
        double slope = (loss[1] - loss[2]) / ((double)z[1] - (double)z[2]);
        assert_true(close_to((double)dz[0], slope, 1e-6));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_soft_labels),
    };
    return cmocka_run_group_tests_name("loss", tests, NULL, NULL);
}

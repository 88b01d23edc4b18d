// test_check_case.c - check passes a recorded case, and fails when a weight, the loss or
// a gradient differs.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check_run.h"
#include "compare.h"

static char dir[1024];

static bool
there(void)
{
    const char *root = getenv("PCVR_FIXTURES");
    root = root != NULL && *root ? root : "../shared/fixtures";
    if (access(root, R_OK) != 0)
        root = "tests/golden";
    snprintf(dir, sizeof dir, "%s/models/onetrans/tiny", root);
    if (access(dir, R_OK) == 0)
        return true;
    printf("reason: no %s\n", dir);
    return false;
}

// Runs the case with the interpreter and compares.
static Verdict
verdict(const Case *c, const char *checkpoint)
{
    ModelIn m;
    CheckRun r = {.checkpoint = checkpoint, .interpreter = true};
    Verdict v;
    assert_int_equal(model_open(&m, "models/onetrans.pcvr"), 0);
    assert_int_equal(model_set_json(&m, json_object_get(c->json, "config"), "case"), 0);
    assert_int_equal(model_elaborate(&m, c->schema), 0);
    assert_int_equal(check_run(&r, &m, c), 0);
    compare_case(c,
                 &(Outcome){.logits = r.logits,
                            .loss = r.loss,
                            .grads = r.grads.tensors,
                            .n_grads = r.grads.n},
                 &v);
    check_run_free(&r);
    model_close(&m);
    return v;
}

static float *
element(const PcvrTensors *t, const char *name, size_t k)
{
    const PcvrTensor *x = pcvr_safetensors_find(t, name);
    assert_non_null(x);
    return (float *)(uintptr_t)x->data + k;
}

static void
only_the_recorded_case_passes(void **state)
{
    (void)state;
    Case c;
    PcvrError err = {""};
    if (!there())
        skip();
    assert_true(case_load(&c, dir, &err));
    Verdict good = verdict(&c, "none");
    assert_true(good.pass);
    assert_true(good.gradients > 100);

    // A weight, by what moves the logits ten limits.
    float *w = element(&c.weights, "classifier.3.bias", 0), was = *w;
    *w = (float)((double)was + 10.0 * good.logits_limit);
    Verdict v = verdict(&c, "none");
    assert_false(v.pass);
    assert_non_null(strstr(v.reason, "logits"));
    *w = was;

    // An expected gradient, by ten limits.
    float *g = element(&c.grads, "blocks.0.attention.out.weight", 5);
    was = *g;
    double limit = 2e-5 * case_number(&c, "grad_scale.peak_abs_grad", 0.0);
    limit = fmax(limit, 10.0 * case_number(&c, "f32_noise.grads_max_rel", 0.0) *
                            case_number(&c, "grad_scale.peak_abs_grad", 0.0));
    *g = (float)((double)was + 10.0 * limit);
    v = verdict(&c, "blocks");
    assert_false(v.pass);
    assert_non_null(strstr(v.reason, "blocks.0.attention.out.weight"));
    *g = was;

    // The expected loss, by ten limits; then NaN.
    double loss = case_number(&c, "expected_loss", 0.0);
    json_object_set_new(c.json, "expected_loss",
                        json_real(loss + 10.0 * good.loss_limit));
    v = verdict(&c, "none");
    assert_false(v.pass);
    assert_non_null(strstr(v.reason, "loss"));
    json_object_set_new(c.json, "expected_loss", json_real(loss));
    *w = (float)NAN;
    assert_false(verdict(&c, "none").pass);
    *w = was;
    case_free(&c);
}

static void
another_shape_is_refused(void **state)
{
    (void)state;
    Case c;
    PcvrError err = {""};
    ModelIn m;
    if (!there())
        skip();
    assert_true(case_load(&c, dir, &err));
    CheckRun r = {.checkpoint = "none", .interpreter = true, .logits_only = true};
    assert_int_equal(model_open(&m, "models/onetrans.pcvr"), 0);
    assert_int_equal(model_set_json(&m, json_object_get(c.json, "config"), "case"), 0);
    assert_int_equal(model_set(&m, "hidden_mult", "3", "--model.hidden_mult"), 0);
    assert_int_equal(model_elaborate(&m, c.schema), 0);
    assert_int_equal(check_run(&r, &m, &c), 1);
    check_run_free(&r);
    r.changed = true; // weights that do not fit are drawn
    assert_int_equal(check_run(&r, &m, &c), 0);
    Verdict v;
    compare_finite(&c, &(Outcome){.logits = r.logits, .logits_only = true}, &v);
    assert_true(v.pass);
    check_run_free(&r);
    model_close(&m);
    case_free(&c);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_recorded_case_passes),
        cmocka_unit_test(another_shape_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

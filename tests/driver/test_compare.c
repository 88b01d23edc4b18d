// test_compare.c - the comparison with recorded cases passes the recorded values and
// nothing else.

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

#include "compare.h"
#include "file.h"
#include "numbers.h"
#include "results.h"

// The recorded results of a case as if a model had returned them.
typedef struct Played {
    Case c;
    TensorList grads;
    float *logits;
    Outcome o;
    Verdict v;
} Played;

static const char *
fixtures(void)
{
    const char *root = getenv("PCVR_FIXTURES");
    root = root != NULL && *root ? root : "../shared/fixtures";
    return access(root, R_OK) == 0 ? root : "tests/golden";
}

static bool
there(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/models/%s", fixtures(), name);
    if (access(path, R_OK) == 0)
        return true;
    printf("reason: no %s\n", path);
    return false;
}

static void
play(Played *p, const char *name)
{
    char path[1024];
    PcvrError err = {""};
    *p = (Played){0};
    snprintf(path, sizeof path, "%s/models/%s", fixtures(), name);
    if (!case_load(&p->c, path, &err))
        fail_msg("%s", err.text);
    assert_string_equal(p->c.name, name);
    const json_t *list = json_object_get(p->c.json, "params");
    int n = (int)json_array_size(list);
    assert_true(n > 10);
    TensorShape *shapes = calloc((size_t)n, sizeof *shapes);
    int64_t(*dims)[4] = calloc((size_t)n, sizeof *dims);
    assert_true(shapes != NULL && dims != NULL);
    for (int k = 0; k < n; k++) {
        const json_t *e = json_array_get(list, (size_t)k),
                     *s = json_object_get(e, "shape");
        shapes[k] = (TensorShape){json_string_value(json_object_get(e, "name")),
                                  (int)json_array_size(s), dims[k]};
        for (size_t a = 0; a < json_array_size(s); a++)
            dims[k][a] = json_integer_value(json_array_get(s, a));
    }
    assert_true(tensors_new(&p->grads, shapes, n));
    for (int k = 0; k < n && p->c.grads.count > 0; k++) {
        const PcvrTensor *t = pcvr_safetensors_find(&p->c.grads, shapes[k].name);
        assert_non_null(t);
        memcpy(p->grads.tensors[k].values, t->data, t->bytes);
    }
    free(shapes);
    free(dims);
    const PcvrTensor *logits = pcvr_safetensors_find(&p->c.expected, "logits");
    assert_non_null(logits);
    p->logits = malloc(logits->bytes);
    assert_non_null(p->logits);
    memcpy(p->logits, logits->data, logits->bytes);
    p->o = (Outcome){.logits = p->logits,
                     .loss = case_number(&p->c, "expected_loss", 0.0),
                     .grads = p->grads.tensors,
                     .n_grads = n};
}

static void
played_free(Played *p)
{
    tensors_free(&p->grads);
    free(p->logits);
    case_free(&p->c);
}

static void
expect(Played *p, bool pass, const char *reason)
{
    compare_case(&p->c, &p->o, &p->v);
    if (p->v.pass != pass || (reason != NULL && strstr(p->v.reason, reason) == NULL))
        fail_msg("expected %d (%s), found %d (%s)", pass, reason != NULL ? reason : "",
                 p->v.pass, p->v.reason);
}

static const char *const cases[] = {"onetrans/tiny", "dualq/views_longer_rope_pairwise",
                                    "tokenformer/skip_action2"};

static void
recorded_values_pass(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        Played p;
        if (!there(cases[k]))
            skip();
        play(&p, cases[k]);
        expect(&p, true, NULL);
        assert_int_equal(p.v.gradients, p.o.n_grads);
        assert_non_null(p.v.worst);
        compare_finite(&p.c, &p.o, &p.v);
        assert_true(p.v.pass && !p.v.compared);
        played_free(&p);
    }
}

static void
perturbed_values_fail(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        Played p;
        if (!there(cases[k]))
            skip();
        play(&p, cases[k]);
        expect(&p, true, NULL);
        int last = p.o.n_grads - 1;
        NamedTensor *g = &p.grads.tensors[last];
        float *x = &g->values[g->size - 1], was = *x;
        // The limit of that gradient, found by what it takes to fail.
        double peak = case_number(&p.c, "grad_scale.peak_abs_grad", 0.0),
               scale = 1e-4 * peak;
        for (int64_t i = 0; i < g->size; i++)
            scale = fmax(scale, fabs((double)g->values[i]));
        double limit =
            fmax(10 * case_number(&p.c, "f32_noise.grads_max_rel", 0.0), 2e-5) * scale;
        *x = (float)((double)was + 10.0 * limit);
        expect(&p, false, g->name);
        assert_string_equal(p.v.worst, g->name);
        assert_true(p.v.worst_error > 9.0 * p.v.worst_limit);
        *x = (float)((double)was + 0.3 * limit);
        expect(&p, true, NULL);
        *x = (float)NAN;
        expect(&p, false, g->name);
        compare_finite(&p.c, &p.o, &p.v);
        assert_false(p.v.pass);
        *x = was;
        expect(&p, true, NULL);
        p.o.loss += 10.0 * p.v.loss_limit;
        expect(&p, false, "loss");
        p.o.loss = (double)NAN;
        expect(&p, false, "loss");
        p.o.loss = case_number(&p.c, "expected_loss", 0.0);
        was = p.logits[0];
        p.logits[0] += (float)(10.0 * p.v.logits_limit);
        expect(&p, false, "logits");
        p.logits[0] = (float)NAN;
        expect(&p, false, "logits");
        p.o.logits_only = true;
        expect(&p, false, "logits");
        p.logits[0] = was;
        expect(&p, true, NULL);
        played_free(&p);
    }
}

static void
lists_must_agree(void **state)
{
    (void)state;
    Played p;
    if (!there(cases[0]))
        skip();
    play(&p, cases[0]);
    NamedTensor *last = &p.grads.tensors[p.o.n_grads - 1];
    p.o.n_grads--;
    expect(&p, false, "no gradient of");
    p.o.n_grads++;
    const char *name = last->name;
    last->name = "another";
    expect(&p, false, NULL);
    last->name = name;
    last->shape[last->rank++] = 1;
    expect(&p, false, "another shape");
    last->rank--;
    expect(&p, true, NULL);
    NamedTensor *more = calloc((size_t)p.o.n_grads + 1, sizeof *more);
    assert_non_null(more);
    memcpy(more, p.grads.tensors, (size_t)p.o.n_grads * sizeof *more);
    more[p.o.n_grads] = (NamedTensor){
        .name = "extra", .rank = 1, .shape = {1}, .size = 1, .values = p.logits};
    p.o.grads = more;
    p.o.n_grads++;
    expect(&p, false, "extra");
    free(more);
    played_free(&p);
}

static void
nothing_recorded_fails(void **state)
{
    (void)state;
    Played p;
    if (!there(cases[0]))
        skip();
    play(&p, cases[0]);
    pcvr_safetensors_free(&p.c.grads);
    expect(&p, false, "no expected gradients");
    p.o.logits_only = true;
    expect(&p, true, NULL);
    pcvr_safetensors_free(&p.c.expected);
    expect(&p, false, "no expected logits");
    played_free(&p);
}

// Gradients of a digest case are not recorded: a digest of other numbers must fail, and
// one that is made from the numbers must pass.
static void
digests(void **state)
{
    (void)state;
    Played p;
    if (!there("onetrans/official"))
        skip();
    play(&p, "onetrans/official");
    expect(&p, false, "gradient of");
    json_t *params = json_object_get(p.c.digests, "params");
    for (int k = 0; k < p.o.n_grads; k++) {
        NamedTensor *t = &p.grads.tensors[k];
        char probe[600];
        pcvr_number_fill(t->values, 0, (size_t)t->size, t->name, 0.0, 1e-3);
        snprintf(probe, sizeof probe, "probe:%s", t->name);
        uint64_t h = pcvr_name_hash(probe);
        double l2 = 0, sum = 0, dot = 0, top = 0;
        for (int64_t i = 0; i < t->size; i++) {
            double x = (double)t->values[i];
            l2 += x * x;
            sum += x;
            dot += x * pcvr_number(h, (uint64_t)i);
            top = fmax(top, fabs(x));
        }
        json_t *d = json_object_get(params, t->name);
        assert_non_null(d);
        json_object_set_new(d, "l2", json_real(sqrt(l2)));
        json_object_set_new(d, "sum", json_real(sum));
        json_object_set_new(d, "dot", json_real(dot));
        json_object_set_new(d, "absmax", json_real(top));
        json_t *samples = json_array();
        json_array_append_new(samples, json_pack("[If]", (json_int_t)(t->size / 2),
                                                 (double)t->values[t->size / 2]));
        json_object_set_new(d, "samples", samples);
    }
    expect(&p, true, NULL);
    NamedTensor *t = &p.grads.tensors[3];
    float was = t->values[t->size / 2];
    t->values[t->size / 2] = was + 1e-4f;
    expect(&p, false, t->name);
    t->values[t->size / 2] = was;
    json_t *d = json_object_get(params, t->name);
    double dot = json_number_value(json_object_get(d, "dot"));
    json_object_set_new(d, "dot", json_real(dot + 0.01));
    expect(&p, false, t->name);
    json_object_del(d, "dot");
    expect(&p, false, t->name);
    played_free(&p);
}

static void
weights(void **state)
{
    (void)state;
    Played p;
    PcvrError err = {""};
    if (!there("onetrans/official"))
        skip();
    play(&p, "onetrans/official");
    NamedTensor *t = NULL;
    for (int k = 0; k < p.grads.n && t == NULL; k++)
        if (strstr(p.grads.tensors[k].name, "embeddings.0.weight") != NULL)
            t = &p.grads.tensors[k];
    assert_non_null(t);
    assert_true(case_weight(&p.c, t, &err));
    assert_true(t->values[0] >= 0.0f && t->values[0] <= 0.0f);
    float want;
    pcvr_number_fill(&want, 64, 1, t->name, 0.0, 0.10000000149011612);
    assert_memory_equal(&want, &t->values[64], sizeof want);
    t->shape[0]++;
    assert_false(case_weight(&p.c, t, &err));
    t->shape[0]--;
    played_free(&p);
}

// A broken case is told by its file.
static void
broken_cases(void **state)
{
    (void)state;
    Case c;
    PcvrError err = {""};
    assert_false(case_load(&c, "/nowhere/case", &err));
    assert_non_null(strstr(err.text, "/nowhere/case/case.json"));
    char dir[] = "/tmp/pcvr-case-XXXXXX", path[64], command[96];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/case.json", dir);
    static const char *const texts[] = {"[]", "{", "{\"a\": 1}"};
    for (int k = 0; k < 3; k++) {
        err.text[0] = '\0';
        assert_true(pcvr_file_write(path, texts[k], strlen(texts[k]), NULL));
        assert_false(case_load(&c, dir, &err));
        assert_non_null(strstr(err.text, dir));
    }
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_values_pass),
        cmocka_unit_test(perturbed_values_fail),
        cmocka_unit_test(lists_must_agree),
        cmocka_unit_test(nothing_recorded_fails),
        cmocka_unit_test(digests),
        cmocka_unit_test(weights),
        cmocka_unit_test(broken_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

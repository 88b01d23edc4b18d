// test_experiment.c - the seven model files give the reference's defaults, field by
// field.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../numeric/recorded.h"
#include "experiment.h"
#include "json.h"

// Fields of the model section that a model file leaves out keep the generic default; only
// what differs from the recorded file is a fault.
static void
compare(const json_t *want, const json_t *have, const char *path, int *wrong)
{
    const char *key;
    json_t *v;
    char inner[256];
    json_object_foreach((json_t *)(uintptr_t)want, key, v)
    {
        const json_t *other = json_object_get(have, key);
        snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", key);
        if (json_is_object(v) && json_is_object(other)) {
            compare(v, other, inner, wrong);
        } else if (!other || !json_equal(v, other)) {
            char *a = json_text(v, 0), *b = other ? json_text(other, 0) : NULL;
            printf("%s: expected %s, found %s\n", inner, a, b ? b : "nothing");
            free(a);
            free(b);
            ++*wrong;
        }
    }
}

static void
test_defaults(void **state)
{
    (void)state;
    static const char *const models[] = {"baseline",    "interformer", "onetrans",
                                         "tokenformer", "symbiosis",   "dualq",
                                         "queryformer"};
    int wrong = 0;
    for (size_t i = 0; i < 7; i++) {
        char name[64];
        Experiment e;
        Settings s = {0};
        snprintf(name, sizeof name, "train/train_config/%s.json", models[i]);
        json_t *want = recorded_json(name);
        if (!want)
            skip();
        snprintf(name, sizeof name, "experiments/%s", models[i]);
        if (experiment_open(&e, name, &s) != 0)
            fail_msg("%s does not open", name);
        assert_string_equal(e.name, models[i]);
        printf("%s\n", models[i]);
        compare(json_object_get(want, "train_config"), s.root, "", &wrong);
        // Every field of the file is one of the reference's.
        for (int k = 0; k < s.n_own; k++)
            printf("%s is no field of the reference\n", s.own[k].path);
        wrong += s.n_own;
        settings_free(&s);
        experiment_free(&e);
        json_decref(want);
    }
    assert_int_equal(wrong, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_defaults)};
    return cmocka_run_group_tests_name("experiment", tests, NULL, NULL);
}

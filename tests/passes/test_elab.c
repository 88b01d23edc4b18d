// test_elab.c - the parameters of every recorded model case: names, order, shapes,
// tables, unused ones.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "model_case.h"

// The shape as in case.json.
static bool
shape_is(const json_t *want, Shape s)
{
    if ((int)json_array_size(want) != s.rank)
        return false;
    for (int k = 0; k < s.rank; k++)
        if (json_integer_value(json_array_get(want, (size_t)k)) != s.dim[k])
            return false;
    return true;
}

static bool
param_is(ModelCase *c, int k, const json_t *want)
{
    const Param *p = &c->graph->params[k];
    const char *name = json_string_value(json_object_get(want, "name"));
    bool unused = json_is_true(json_object_get(want, "unused"));
    bool sparse = json_is_true(json_object_get(want, "sparse"));
    bool named = strcmp(p->name, name) == 0;
    bool shaped = shape_is(json_object_get(want, "shape"), p->shape);
    // A table that the reference looks up with dense gradients is a table here too.
    bool ok = named && shaped && p->unused == unused && (p->table || !sparse);
    if (!ok) {
        char *text = json_dumps(want, JSON_COMPACT);
        printf("%s: parameter %d is %s %s%s%s, expected %s\n", c->name, k, p->name,
               shape_text(&c->mem, DT_F32, p->shape), p->unused ? " unused" : "",
               p->table ? " table" : "", text);
        free(text);
    }
    return ok;
}

static bool
check_params(ModelCase *c)
{
    const json_t *params = json_object_get(c->json, "params");
    int n = (int)json_array_size(params), bad = 0;
    if (n != c->graph->n_params)
        printf("%s: %d parameters, expected %d\n", c->name, c->graph->n_params, n);
    for (int k = 0; k < n && k < c->graph->n_params && bad < 5; k++)
        bad += !param_is(c, k, json_array_get(params, (size_t)k));
    return bad == 0 && n > 0 && n == c->graph->n_params;
}

static void
test_params(void **state)
{
    (void)state;
    char room[512];
    bool all;
    int failed;
    const char *root = model_case_root(room, sizeof room, &all);
    int n = model_cases_walk(root, check_params, &failed);
    printf("%d cases under %s, %d failed\n", n, root, failed);
    assert_int_equal(failed, 0);
    assert_true(n >= (all ? N_MODEL_CASES : 7));
}

// A model with its defaults on the official schema; `set` is given as --set if not NULL.
static Graph *
official(Mem *mem, Diag *d, const char *model, const char *set)
{
    char path[200];
    DataError error = {{0}};
    mem_init(mem);
    diag_init(d, mem);
    snprintf(path, sizeof path, "models/%s.pcvr", model);
    Schema *schema = schema_read("models/official.json", &error);
    Program *p = pcvrc_load(mem, d, path, NULL, 0);
    Config *c = p ? config_new(mem, d, p) : NULL;
    if (!schema || !c || (set && config_set_text(c, set))
        || schema_set_lens(schema, config_seq_max_lens(c), &error))
        fail_msg("%s: %s%s", model, error.text, diag_text(d, &mem->perm));
    Graph *g = elaborate(mem, d, p, c, schema);
    schema_free(schema);
    return g;
}

// Every model takes the official schema with its defaults.
static void
test_defaults(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof model_names / sizeof *model_names; k++) {
        Mem mem;
        Diag d;
        const Graph *g = official(&mem, &d, model_names[k], NULL);
        if (!g)
            fail_msg("%s", diag_text(&d, &mem.perm));
        assert_true(g->n_params > 100);
        assert_non_null(g->embedding);
        assert_int_equal(g->logits->shape.dim[0], 1);
        assert_true(g->n_calls >= 1);
        mem_free(&mem);
    }
}

// Groups that name a feature the schema lacks: the feature, the field and the way out are named.
static void
test_unknown_feature(void **state)
{
    (void)state;
    Mem mem;
    Diag d;
    assert_null(official(&mem, &d, "onetrans", "ns.user_groups={\"U1\": [1, 999]}"));
    const char *text = diag_text(&d, &mem.perm);
    assert_non_null(strstr(text, "ns.user_groups names the features [999], allowed are ["));
    assert_non_null(strstr(text, "--model.ns.grouping_strategy singleton"));
    mem_free(&mem);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_params),
                                       cmocka_unit_test(test_defaults),
                                       cmocka_unit_test(test_unknown_feature)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test_models.c - the seven models load, and their defaults are the reference's.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "program.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[] = {"baseline",   "dualq",       "interformer",
                                     "onetrans",   "queryformer", "symbiosis",
                                     "tokenformer"};
enum { N_MODELS = sizeof models / sizeof models[0] };

static Program *
load(Mem *mem, Diag *d, const char *model)
{
    char path[64];
    snprintf(path, sizeof path, "models/%s.pcvr", model);
    mem_init(mem);
    diag_init(d, mem);
    Program *p = pcvrc_load(mem, d, path, NULL, 0);
    if (!p)
        fail_msg("%s", diag_text(d, &mem->perm));
    return p;
}

static void
test_load(void **state)
{
    (void)state;
    for (int i = 0; i < N_MODELS; i++) {
        Mem mem;
        Diag d;
        const Program *p = load(&mem, &d, models[i]);
        assert_non_null(p->model);
        assert_true(p->files.n >= 4);
        assert_int_equal(p->files.n, p->trees.n);
        assert_non_null(strstr(p->files.v[0], models[i]));
        assert_int_equal(program_find(p, "d_model")->kind, DECL_CONFIG);
        assert_non_null(program_find(p, "d_model")->allowed); // kept from lib/config.pcvr
        assert_true(program_has_prefix(p, "ns"));
        assert_null(program_find(p, "nothing"));
        mem_free(&mem);
    }
}

// A literal of the language as JSON.
static json_t *
literal(const Ast *a)
{
    json_t *j = NULL;
    if (a->kind == AST_INT)
        j = json_integer(a->i);
    else if (a->kind == AST_FLOAT)
        j = json_real(a->f);
    else if (a->kind == AST_BOOL)
        j = json_boolean(a->i);
    else if (a->kind == AST_STRING)
        j = json_string(a->text);
    else if (a->kind == AST_LIST)
        j = json_array();
    else if (a->kind == AST_DICT)
        j = json_object();
    for (int i = 0; i < a->n && a->kind == AST_LIST; i++)
        json_array_append_new(j, literal(a->kids[i]));
    for (int i = 0; i < a->n && a->kind == AST_DICT; i++)
        json_object_set_new(j, a->kids[i]->kids[0]->text, literal(a->kids[i]->kids[1]));
    assert_non_null(j);
    return j;
}

// Whether a holds what b says: numbers by value, of dictionaries the keys of b, in its order.
static bool
agrees(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (json_is_array(a) && json_is_array(b)) {
        bool same = json_array_size(a) == json_array_size(b);
        for (size_t i = 0; same && i < json_array_size(a); i++)
            same = agrees(json_array_get(a, i), json_array_get(b, i));
        return same;
    }
    if (json_is_object(a) && json_is_object(b)) {
        bool same = true;
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)b, key, value) same =
            same && agrees(json_object_get(a, key), value);
        return same;
    }
    return json_equal(a, b);
}

// The value under a dotted path, NULL if there is none.
static json_t *
at_path(json_t *root, const char *path)
{
    while (root && *path) {
        char word[64];
        size_t n = strcspn(path, ".");
        snprintf(word, sizeof word, "%.*s", (int)n, path);
        root = json_object_get(root, word);
        path += n + (path[n] == '.');
    }
    return root;
}

static int
compare(json_t *reference, const char *model, const char *path, const Ast *value)
{
    json_t *ours = literal(value), *theirs = at_path(reference, path);
    int wrong = !theirs || !agrees(theirs, ours);
    if (wrong)
        printf("  %s: %s differs from the reference's default\n", model, path);
    json_decref(ours);
    return wrong;
}

static void
test_defaults(void **state)
{
    (void)state;
    const char *fixtures = getenv("PCVR_FIXTURES");
    int wrong = 0, seen = 0;
    for (int i = 0; i < N_MODELS; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/train/train_config/%s.json",
                 fixtures ? fixtures : "../shared/fixtures", models[i]);
        json_t *file = json_load_file(path, 0, NULL);
        if (!file) {
            printf("reason: no %s\n", path);
            skip();
        }
        json_t *reference = json_object_get(file, "train_config");
        Mem mem;
        Diag d;
        const Program *p = load(&mem, &d, models[i]);
        for (int k = 0; k < p->decls.n; k++) {
            const Decl *c = &p->decls.v[k];
            snprintf(path, sizeof path, "model.%s", c->name);
            if (c->kind != DECL_CONFIG)
                continue;
            wrong += compare(reference, models[i], path, c->value);
            seen++;
        }
        for (int k = 0; k < p->train.n; k++)
            wrong += compare(reference, models[i], p->train.v[k]->text,
                             p->train.v[k]->kids[0]);
        seen += p->train.n;
        json_decref(file);
        mem_free(&mem);
    }
    assert_true(seen > 150);
    if (wrong)
        fail_msg("%d defaults differ", wrong);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_defaults),
    };
    return cmocka_run_group_tests_name("models", tests, NULL, NULL);
}

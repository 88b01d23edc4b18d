// test_defaults.c - the defaults of the seven model files against the recorded
// train_config.json of each: every `config`, every key of the train section, and which
// recorded fields a model does not read.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "../numeric/recorded.h"
#include "pcvrc.h"

// Fields that no model file declares: implied, or names of the reference's own kernels.
#define ALL                                                                              \
    "gradient_checkpointing flash_attention_backend rms_norm_backend "                   \
    "rms_norm_block_rows "
#define QUERIES "num_queries seq_encoder_type rank_mixer_mode "

static const struct {
    const char *model, *unread;
} models[] = {
    {"baseline", ALL},
    {"dualq", ALL},
    {"interformer",
     ALL QUERIES "seq_top_k seq_causal use_rope rope_base seq_id_threshold"},
    {"onetrans", ALL QUERIES "seq_causal use_rope rope_base seq_id_threshold"},
    {"queryformer",
     ALL "seq_encoder_type rank_mixer_mode seq_top_k seq_causal use_rope rope_base "
         "seq_id_threshold"},
    {"symbiosis",
     ALL QUERIES "seq_causal use_rope rope_base v2_sparse_seed v2_compile_backbone "
                 "ns.tokenizer_type"},
    {"tokenformer", ALL QUERIES "seq_id_threshold ns.tokenizer_type"},
};

static bool
in_words(const char *words, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = words; (s = strstr(s, name)) != NULL; s += n)
        if ((s == words || s[-1] == ' ') && (s[n] == ' ' || s[n] == '\0'))
            return true;
    return false;
}

// The value at a dotted name, NULL when it is not there.
static const json_t *
at_name(const json_t *o, const char *name)
{
    char key[128];
    for (const char *dot; (dot = strchr(name, '.')) != NULL; name = dot + 1) {
        snprintf(key, sizeof key, "%.*s", (int)(dot - name), name);
        o = json_object_get(o, key);
    }
    return json_object_get(o, name);
}

static void
differs(const char *model, const char *name, const json_t *want, const json_t *have,
        int *wrong)
{
    char *a = json_dumps(want, JSON_ENCODE_ANY),
         *b = have ? json_dumps(have, JSON_ENCODE_ANY) : NULL;
    printf("%s: %s: expected %s, found %s\n", model, name, a ? a : "nothing",
           b ? b : "nothing");
    free(a);
    free(b);
    ++*wrong;
}

// A number may be written 1 or 1.0; an object of a list may leave out what has a default.
static bool
agrees(const json_t *want, const json_t *have)
{
    if (json_is_number(want) && json_is_number(have))
        return json_number_value(want) == json_number_value(have);
    if (json_is_array(want) && json_is_array(have)) {
        bool ok = json_array_size(want) == json_array_size(have);
        for (size_t k = 0; ok && k < json_array_size(want); k++)
            ok = agrees(json_array_get(want, k), json_array_get(have, k));
        return ok;
    }
    if (!json_is_object(want) || !json_is_object(have))
        return json_equal(want, have) != 0;
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)have, key,
                        v) if (!agrees(json_object_get(want, key), v)) return false;
    return true;
}

// Every recorded field of the model section: declared with this value, or listed as
// unread.
static int
check_model(const char *model, const char *unread, const json_t *want, const json_t *have,
            const char *prefix, int *wrong)
{
    const char *key;
    json_t *v;
    int n = 0;
    json_object_foreach((json_t *)(uintptr_t)want, key, v)
    {
        char name[128];
        snprintf(name, sizeof name, "%s%s", prefix, key);
        if (strcmp(name, "ns") == 0) {
            n += check_model(model, unread, v, have, "ns.", wrong);
            continue;
        }
        const json_t *own = at_name(have, name);
        bool listed = in_words(unread, name),
             implied = strcmp(name, "gradient_checkpointing") == 0;
        // Groups in order, too: their text is compared.
        char *a = json_dumps(v, JSON_ENCODE_ANY),
             *b = own ? json_dumps(own, JSON_ENCODE_ANY) : NULL;
        if ((own && listed && !implied) || (!own && !listed))
            differs(model, name, v, own, wrong);
        else if (own && !(json_is_number(v) ? agrees(v, own) : strcmp(a, b) == 0))
            differs(model, name, v, own, wrong);
        n += own != NULL;
        free(a);
        free(b);
    }
    return n;
}

static int
count_fields(const json_t *o)
{
    const char *key;
    json_t *v;
    int n = 0;
    json_object_foreach((json_t *)(uintptr_t)o, key, v) n +=
        strcmp(key, "ns") == 0 ? (int)json_object_size(v) : 1;
    return n;
}

static void
check_file(const char *model, const char *unread, int *wrong)
{
    char path[128];
    snprintf(path, sizeof path, "train/train_config/%s.json", model);
    json_t *recorded = recorded_json(path);
    if (!recorded)
        skip();
    const json_t *want = json_object_get(recorded, "train_config");
    Compile c;
    snprintf(path, sizeof path, "models/%s.pcvr", model);
    assert_int_equal(compile_open(&c, path, NULL, 0), 0);
    json_t *have = config_json(c.config), *train = config_train_json(c.config), *v;
    int n = check_model(model, unread, json_object_get(want, "model"), have, "", wrong);
    if (n != count_fields(have)) {
        printf("%s: %d fields are the reference's, found %d\n", model, n,
               count_fields(have));
        ++*wrong;
    }
    const char *key;
    int keys = 0;
    json_object_foreach(train, key, v)
    {
        const json_t *other = at_name(want, key);
        if (!other || !agrees(other, v))
            differs(model, key, other, v, wrong);
        keys++;
    }
    printf("%s: %d fields, %d keys of the train section\n", model, n, keys);
    assert_true(n >= 13 && keys >= 3);
    json_decref(have);
    json_decref(train);
    json_decref(recorded);
    compile_close(&c);
}

static void
test_defaults(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t k = 0; k < sizeof models / sizeof *models; k++)
        check_file(models[k].model, models[k].unread, &wrong);
    assert_int_equal(wrong, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_defaults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

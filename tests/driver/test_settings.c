// test_settings.c - the recorded command lines, the recorded configuration files,
// checkpoint names.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../numeric/recorded.h"
#include "checkpoint.h"
#include "file.h"
#include "flags.h"
#include "json.h"
#include "settings.h"

static const char *const models[] = {"baseline",    "interformer", "onetrans",
                                     "tokenformer", "symbiosis",   "dualq",
                                     "queryformer"};

static const SettingsClass *
class_of(const char *model)
{
    if (!strcmp(model, "dualq"))
        return settings_class("DualQTrainConfig");
    if (!strcmp(model, "queryformer"))
        return settings_class("QueryFormerTrainConfig");
    if (!strcmp(model, "symbiosis"))
        return settings_class("SymbiosisTrainConfig");
    return settings_class("PCVRTrainConfig");
}

// The recorded defaults of a model; false where there are none. The text is returned too
// if wanted.
static bool
load_defaults(Settings *s, const char *model, char **text_out)
{
    char name[64], path[512];
    size_t n;
    PcvrError err = {{0}};
    snprintf(name, sizeof name, "train/train_config/%s.json", model);
    if (!fixture(path, sizeof path, name))
        return false;
    char *text = pcvr_file_read(path, &n, &err);
    assert_non_null(text);
    assert_true(settings_init(s, class_of(model), &err));
    if (!settings_read(s, text, n, path, &err))
        fail_msg("%s", err.text);
    if (text_out)
        *text_out = text;
    else
        free(text);
    return true;
}

static void
test_round_trip(void **state)
{
    (void)state;
    for (size_t i = 0; i < 7; i++) {
        Settings s;
        char *text = NULL;
        if (!load_defaults(&s, models[i], &text))
            skip();
        char *written = settings_write(&s);
        assert_non_null(written);
        assert_string_equal(written, text);
        free(written);
        free(text);
        settings_free(&s);
    }
}

// The recorded "changed" object: dotted fields, lists as a whole.
static void
check_changed(Settings *before, Settings *after, const json_t *changed, const char *label)
{
    const char *key;
    json_t *want;
    json_object_foreach((json_t *)(uintptr_t)changed, key, want)
    {
        json_t *have = settings_get(after, key);
        if (!have || !json_equal(have, want))
            fail_msg("%s: %s: expected %s, found %s", label, key, json_text(want, 0),
                     have ? json_text(have, 0) : "nothing");
        json_path_set(before->root, key, json_incref(want));
    }
    if (!json_equal(before->root, after->root))
        fail_msg("%s: something else changed", label);
}

static void
test_command_lines(void **state)
{
    (void)state;
    json_t *root = recorded_json("train/cli_parse.json");
    if (!root)
        skip();
    const json_t *cases = json_object_get(root, "cases");
    size_t accepted = 0, refused = 0;
    assert_int_equal(json_array_size(cases), 48);
    for (size_t i = 0; i < 48; i++) {
        const json_t *c = json_array_get(cases, i), *args = json_object_get(c, "argv");
        const char *model = json_string_value(json_object_get(c, "experiment"));
        char *argv[32], label[64];
        int argc = (int)json_array_size(args);
        Settings before, after;
        PcvrError err = {{0}};
        assert_true(argc < 32);
        snprintf(label, sizeof label, "case %zu (%s)", i, model);
        for (int k = 0; k < argc; k++)
            argv[k] =
                (char *)(uintptr_t)json_string_value(json_array_get(args, (size_t)k));
        if (!load_defaults(&before, model, NULL) || !load_defaults(&after, model, NULL))
            skip();
        bool ok = flags_parse(argc, argv, NULL, 0, &after, &err);
        if (ok != json_is_true(json_object_get(c, "ok")))
            fail_msg("%s: %s", label, ok ? "accepted" : err.text);
        if (ok) {
            check_changed(&before, &after, json_object_get(c, "changed"), label);
            accepted++;
        } else {
            assert_true(err.text[0] != 0);
            refused++;
        }
        settings_free(&before);
        settings_free(&after);
    }
    assert_true(accepted >= 25 && refused >= 15);
    json_decref(root);
}

// The arguments of the recorded run, the command's own flags among them.
static void
test_recorded_run(void **state)
{
    (void)state;
    json_t *root = recorded_json("train/cli/cli.json");
    Settings s;
    if (!root || !load_defaults(&s, "onetrans", NULL))
        skip();
    const json_t *args = json_path(root, "train.argv");
    char *argv[64];
    int argc = (int)json_array_size(args), json = 0;
    const char *experiment = NULL, *dataset = NULL, *run_dir = NULL;
    PcvrError err = {{0}};
    Flag flags[] = {{"experiment", FLAG_TEXT, &experiment},
                    {"dataset-path", FLAG_TEXT, &dataset},
                    {"run-dir", FLAG_TEXT, &run_dir},
                    {"json", FLAG_SWITCH, &json}};
    assert_true(argc > 20 && argc < 64);
    for (int k = 0; k < argc; k++)
        argv[k] = (char *)(uintptr_t)json_string_value(json_array_get(args, (size_t)k));
    if (!flags_parse(argc, argv, flags, 4, &s, &err))
        fail_msg("%s", err.text);
    assert_string_equal(experiment, "experiments/onetrans");
    assert_string_equal(flags_peek(argc, argv, "experiment"), "experiments/onetrans");
    assert_int_equal(json, 1);
    char *written = settings_write(&s);
    char path[512];
    size_t n;
    if (fixture(path, sizeof path,
                "train/cli/checkpoint/global_step24.AUC=0.577359/train_config.json")) {
        char *want = pcvr_file_read(path, &n, &err);
        assert_string_equal(written, want);
        free(want);
    }
    free(written);
    settings_free(&s);
    json_decref(root);
}

static json_t *
edited(const json_t *good, size_t i)
{
    json_t *v = json_deep_copy(good), *c = json_object_get(v, "train_config");
    switch (i) {
    case 0:
        json_object_set_new(v, "train_config_format", json_string("x"));
        break;
    case 1:
        json_object_set_new(v, "framework_name", json_string("y"));
        break;
    case 2:
        json_object_set_new(v, "extra", json_integer(1));
        break;
    case 3:
        json_object_set_new(json_object_get(c, "data"), "extra", json_integer(1));
        break;
    case 4:
        json_object_del(json_object_get(c, "model"), "rope_base");
        break;
    case 5:
        json_object_del(c, "ema");
        break;
    case 6:
        json_object_del(json_path(c, "loss.terms.0"), "temperature");
        break;
    case 7:
        json_path_set(c, "data.batch_size", json_string("64"));
        break;
    case 8:
        json_path_set(c, "data.batch_size", json_real(64.5));
        break;
    case 9:
        json_path_set(c, "ema.enabled", json_string("true"));
        break;
    case 10:
        json_path_set(c, "data.split_strategy", json_string("nope"));
        break;
    case 11:
        json_path_set(c, "data.valid_ratio", json_real(1.0));
        break;
    case 12:
        json_path_set(c, "data.train_ratio", json_real(0.0));
        break;
    case 13:
        json_path_set(c, "ema.decay", json_real(1.0));
        break;
    case 14:
        json_path_set(c, "runtime.amp_dtype", json_string("bf16"));
        break;
    default:
        fail_msg("no such change");
    }
    return v;
}

static void
test_strict_reading(void **state)
{
    (void)state;
    static const char *const messages[15] = {"train_config_format",
                                             "framework_name",
                                             "unknown field 'extra'",
                                             "unknown field 'data.extra'",
                                             "missing field 'model.rope_base'",
                                             "missing field 'ema'",
                                             "missing field 'loss.terms[0].temperature'",
                                             NULL,
                                             "expected an integer",
                                             NULL,
                                             "expected one of",
                                             "< 1",
                                             "> 0",
                                             "< 1",
                                             NULL};
    json_t *index = recorded_json("train/train_config/INDEX.json");
    json_t *good = recorded_json("train/train_config/onetrans.json");
    if (!index || !good)
        skip();
    const json_t *cases = json_object_get(index, "validation");
    assert_int_equal(json_array_size(cases), 15);
    for (size_t i = 0; i < 15; i++) {
        const json_t *c = json_array_get(cases, i);
        json_t *v = edited(good, i);
        char *text = json_text(v, 0);
        Settings s;
        PcvrError err = {{0}};
        assert_true(settings_init(&s, class_of("onetrans"), &err));
        bool ok = settings_read(&s, text, strlen(text), "f.json", &err);
        const char *change = json_string_value(json_object_get(c, "change"));
        if (ok != json_is_true(json_object_get(c, "accepted")))
            fail_msg("%s: %s", change, ok ? "accepted" : err.text);
        if (!ok && !strstr(err.text, messages[i]))
            fail_msg("%s: %s", change, err.text);
        settings_free(&s);
        free(text);
        json_decref(v);
    }
    json_decref(index);
    json_decref(good);
}

static void
test_checkpoint_names(void **state)
{
    (void)state;
    json_t *root = recorded_json("train/checkpoint_names.json");
    if (!root)
        skip();
    const json_t *build = json_object_get(root, "build");
    size_t built = 0, checked = 0;
    for (size_t i = 0; i < json_array_size(build); i++) {
        const json_t *c = json_array_get(build, i),
                     *params = json_object_get(c, "params");
        const json_t *auc = json_object_get(params, "auc");
        char name[CHECKPOINT_NAME_LIMIT + 1];
        int64_t step = json_integer_value(json_object_get(c, "step"));
        if (step < 0 || json_is_string(auc))
            continue; // texts as numbers are a matter of the reference's call
        if (!auc)
            auc = json_object_get(params, "AUC");
        checkpoint_name(name, step,
                        json_is_number(auc) ? json_number_value(auc) : (double)NAN);
        assert_string_equal(name, json_string_value(json_object_get(c, "result")));
        built++;
    }
    assert_true(built >= 9);
    char name[CHECKPOINT_NAME_LIMIT + 1];
    checkpoint_name(name, 7, (double)INFINITY);
    assert_string_equal(name, "global_step7");
    const json_t *names = json_object_get(root, "validate");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const json_t *c = json_array_get(names, i);
        bool want = !strcmp(json_string_value(json_object_get(c, "result")), "ok");
        assert_int_equal(
            checkpoint_name_valid(json_string_value(json_object_get(c, "name")), NULL),
            want);
        checked++;
    }
    names = json_object_get(root, "step_of");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const json_t *c = json_array_get(names, i);
        assert_int_equal(checkpoint_step(json_string_value(json_object_get(c, "name"))),
                         json_integer_value(json_object_get(c, "step")));
        checked++;
    }
    assert_int_equal(checked, 18);
    json_decref(root);
}

static void
test_number_text(void **state)
{
    (void)state;
    static const struct {
        double x;
        const char *text;
    } cases[] = {{0.0001, "0.0001"},
                 {1e-05, "1e-05"},
                 {10000.0, "10000.0"},
                 {0.1, "0.1"},
                 {1e16, "1e+16"},
                 {123456789012345680.0, "1.2345678901234568e+17"},
                 {1e15, "1000000000000000.0"},
                 {-0.25, "-0.25"},
                 {0.0, "0.0"},
                 {-0.0, "-0.0"},
                 {0.000483, "0.000483"},
                 {1e-300, "1e-300"},
                 {5e-324, "5e-324"},
                 {0.1 + 0.2, "0.30000000000000004"},
                 {123.456, "123.456"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[32];
        json_number_text(out, cases[i].x);
        assert_string_equal(out, cases[i].text);
    }
}

// Every message of the command line that the recorded cases do not name.
static void
test_messages(void **state)
{
    (void)state;
    static const struct {
        const char *argv[4], *message;
    } cases[] = {
        {{"--optimizer.max_step", "1"}, "did you mean '--optimizer.max_steps'?"},
        {{"--gradient_checkpointing"}, "did you mean '--model.gradient_checkpointing'?"},
        {{"--datset-path", "x"}, "did you mean '--dataset-path'?"},
        {{"--zzzzzzzzzzzz"}, "unknown flag '--zzzzzzzzzzzz'"},
        {{"--optimizer.max_steps"}, "needs a value"},
        {{"--optimizer.lr", "fast"}, "--optimizer.lr: expected a number, found 'fast'"},
        {{"--ema.decay", "1"}, "--ema.decay: expected a number >= 0 and < 1, found 1"},
        {{"--runtime.amp=1"}, "takes no value"},
        {{"--json=1"}, "takes no value"},
        {{"--threads", "two"}, "--threads: expected an integer, found 'two'"},
        {{"--loss.terms.1.weight", "1"}, "unknown flag"},
        {{"--loss.terms.0.name", "  "}, "not blank"},
        {{"--model.ns.user_groups.U1"}, "needs feature ids"},
        {{"--model.ns.user_groups.U1", "x"}, "expected an integer, found 'x'"},
        {{"--model.num_blocks", "0x10"}, "expected an integer"},
        {{"stray"}, "unexpected argument 'stray'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *argv[4];
        int argc = 0, json = 0;
        int64_t threads = 0;
        const char *dataset = NULL;
        Flag flags[] = {{"dataset-path", FLAG_TEXT, &dataset},
                        {"json", FLAG_SWITCH, &json},
                        {"threads", FLAG_INT, &threads}};
        Settings s;
        PcvrError err = {{0}};
        while (argc < 4 && cases[i].argv[argc]) {
            argv[argc] = (char *)(uintptr_t)cases[i].argv[argc];
            argc++;
        }
        assert_true(settings_init(&s, settings_class("PCVRTrainConfig"), &err));
        json_t *groups = json_loads("{\"U1\": [1]}", 0, NULL);
        assert_true(settings_set(&s, "model.ns.user_groups", groups, &err));
        if (flags_parse(argc, argv, flags, 3, &s, &err))
            fail_msg("%s: accepted", cases[i].argv[0]);
        if (!strstr(err.text, cases[i].message))
            fail_msg("%s: %s", cases[i].argv[0], err.text);
        settings_free(&s);
    }
}

static void
test_supported(void **state)
{
    (void)state;
    static const char *const refused[][2] = {
        {"data.split_strategy", "user_hash"},
        {"data_pipeline.cache.mode", "lru"},
        {"optimizer.dense_optimizer_type", "muon"},
        {"optimizer.device", "cuda"},
        {"sparse_optimizer.sparse_weight_decay", "0.1"},
        {"sparse_optimizer.reinit_sparse_every_n_steps", "10"},
        {"loss.terms.0.kind", "model"},
    };
    PcvrError err = {{0}};
    Settings s;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        err.text[0] = 0;
        assert_true(settings_init(&s, settings_class("PCVRTrainConfig"), &err));
        assert_true(settings_supported(&s, &err));
        assert_true(settings_set_text(&s, refused[i][0], refused[i][1], &err));
        assert_false(settings_supported(&s, &err));
        assert_non_null(strstr(err.text, refused[i][0]));
        settings_free(&s);
    }
}

// What only a model file declares is a field too, and goes to pcvr.json.
static void
test_own_fields(void **state)
{
    (void)state;
    Settings s, again;
    PcvrError err = {{0}};
    json_t *fields =
        json_loads("{\"d_model\": 32, \"window\": 8, \"tower\": {\"deep\": 0.5}, "
                   "\"ns\": {\"user_tokens\": 3, \"extra\": true}}",
                   0, NULL);
    json_t *train = json_loads("{\"optimizer.lr\": 0.002, \"model.window\": 9}", 0, NULL);
    assert_true(settings_init(&s, settings_class_for(fields), &err));
    assert_true(settings_init(&again, settings_class_for(fields), &err));
    assert_string_equal(s.kind->name, "PCVRTrainConfig");
    if (!settings_take_model(&s, fields, train, &err))
        fail_msg("%s", err.text);
    assert_true(settings_take_model(&again, fields, train, &err));
    assert_int_equal(settings_int(&s, "model.d_model"), 32);
    assert_int_equal(settings_int(&s, "model.ns.user_tokens"), 3);
    assert_true(settings_float(&s, "optimizer.lr") == 0.002);
    assert_true(settings_set_text(&s, "model.window", "5", &err));
    assert_false(settings_set_text(&s, "model.window", "wide", &err));
    err.text[0] = 0;
    char *argv[] = {(char *)(uintptr_t) "--model.ns.no_extra"};
    if (!flags_parse(1, argv, NULL, 0, &s, &err))
        fail_msg("%s", err.text);
    char *text = settings_write_extra(&s, NULL);
    assert_true(settings_read_extra(&again, text, strlen(text), "pcvr.json", &err));
    assert_int_equal(settings_int(&again, "model.window"), 5);
    assert_false(settings_bool(&again, "model.ns.extra"));
    json_t *model = settings_model_json(&again);
    assert_int_equal(json_integer_value(json_path(model, "window")), 5);
    assert_true(json_number_value(json_path(model, "tower.deep")) == 0.5);
    assert_int_equal(json_integer_value(json_path(model, "ns.user_tokens")), 3);
    char *config = settings_write(&s);
    assert_null(strstr(config, "window"));
    free(config);
    free(text);
    json_decref(model);
    json_decref(fields);
    json_decref(train);
    settings_free(&s);
    settings_free(&again);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_command_lines),
        cmocka_unit_test(test_recorded_run),     cmocka_unit_test(test_strict_reading),
        cmocka_unit_test(test_checkpoint_names), cmocka_unit_test(test_number_text),
        cmocka_unit_test(test_messages),         cmocka_unit_test(test_supported),
        cmocka_unit_test(test_own_fields),
    };
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}

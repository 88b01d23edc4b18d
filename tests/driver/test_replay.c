// test_replay.c - recorded training runs, step by step, through the commands themselves.
//
// The order of rows and the initial weights are the recording's; what must come out is
// each step's loss and gradient norm, the validation logits and the AUC, with and without
// clipping, whatever is recomputed.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "../numeric/recorded.h"
#include "commands.h"
#include "file.h"
#include "json.h"

enum { ARGS = 256 };

typedef struct Words {
    char *v[ARGS];
    int n;
} Words;

static void
word(Words *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    assert_true(w->n < ARGS);
    if (vasprintf(&w->v[w->n++], format, args) < 0)
        fail_msg("out of memory");
    va_end(args);
}

static void
words_free(Words *w)
{
    while (w->n > 0)
        free(w->v[--w->n]);
}

// Every leaf of the recorded configuration as a flag.
static void
config_words(Words *w, const char *prefix, const json_t *config)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)config, key, v)
    {
        char path[256];
        snprintf(path, sizeof path, "%s%s", prefix, key);
        if (strstr(path, "_groups") || (!json_is_object(v) && !json_is_array(v))) {
            if (json_is_boolean(v)) {
                word(w, "--%s%s%s", prefix, json_is_true(v) ? "" : "no_", key);
                continue;
            }
            char *text =
                json_is_string(v) ? strdup(json_string_value(v)) : json_text(v, 0);
            word(w, "--%s=%s", path, json_is_null(v) ? "None" : text);
            free(text);
        } else if (json_is_object(v)) {
            strcat(path, ".");
            config_words(w, path, v);
        }
    }
}

static bool
write_order(const char *path, const json_t *run)
{
    Buffer b = {0};
    PcvrError err = {{0}};
    const json_t *steps = json_object_get(run, "rows_per_step");
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *rows = json_array_get(steps, i);
        for (size_t k = 0; k < json_array_size(rows); k++)
            buffer_printf(&b, "%s%lld", k ? " " : "",
                          (long long)json_integer_value(json_array_get(rows, k)));
        buffer_puts(&b, "\n");
    }
    bool ok = !b.failed && pcvr_file_write(path, b.text, b.length, &err);
    free(b.text);
    return ok;
}

static double
check_steps(const char *dir, const json_t *recorded)
{
    char path[256], *save = NULL;
    size_t n, steps = 0;
    double auc = (double)NAN;
    PcvrError err = {{0}};
    snprintf(path, sizeof path, "%s/steps.jsonl", dir);
    char *text = pcvr_file_read(path, &n, &err);
    assert_non_null(text);
    const json_t *want = json_object_get(recorded, "per_step");
    for (char *line = strtok_r(text, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        json_t *have = json_loads(line, 0, NULL);
        const json_t *w = json_array_get(want, steps++);
        double a = recorded_field(have, "loss"), b = recorded_field(w, "loss");
        if (!close_to(a, b, 1e-5))
            fail_msg("step %zu: expected loss %.9g, found %.9g", steps, b, a);
        b = recorded_field(w, "grad_norm");
        a = recorded_field(have, "grad_norm");
        if (!close_to(a, b, 1e-4 * b))
            fail_msg("step %zu: expected norm %.9g, found %.9g", steps, b, a);
        assert_true(
            close_to(recorded_field(have, "lr"), recorded_field(w, "dense_lr"), 1e-12));
        json_decref(have);
    }
    assert_int_equal(steps, json_array_size(want));
    free(text);
    snprintf(path, sizeof path, "%s/training_summary.json", dir);
    json_t *summary = json_load_file(path, 0, NULL);
    assert_non_null(summary);
    auc = recorded_number(json_path(summary, "validation_metrics.auc"));
    const json_t *v = json_object_get(recorded, "validations");
    const json_t *last = json_array_get(v, json_array_size(v) - 1);
    assert_true(close_to(auc, recorded_field(last, "auc"), 1e-3));
    assert_true(
        close_to(recorded_number(json_path(summary, "validation_metrics.logloss")),
                 recorded_field(last, "logloss"), 1e-5));
    json_decref(summary);
    return auc;
}

// Scores all rows with what was saved; those of the recorded validation must have its
// logits.
static void
check_logits(const char *model, const char *dir, const char *dataset, const json_t *run,
             const char *tensor, const char *logits_file)
{
    PcvrTensors t;
    char path[256], *save = NULL;
    size_t n, row = 0, at = 0;
    PcvrError err = {{0}};
    Words w = {.n = 0};
    word(&w, "--experiment=models/%s.pcvr", model);
    word(&w, "--dataset-path=%s", dataset);
    word(&w, "--run-dir=%s", dir);
    assert_int_equal(cmd_val(w.n, w.v), 0);
    words_free(&w);
    assert_true(recorded_tensors(&t, logits_file));
    const PcvrTensor *want = tensor_get(&t, tensor);
    const json_t *rows = json_object_get(run, "valid_rows");
    assert_int_equal(want->count, json_array_size(rows));
    snprintf(path, sizeof path, "%s/validation_predictions.jsonl", dir);
    char *text = pcvr_file_read(path, &n, &err);
    assert_non_null(text);
    for (char *line = strtok_r(text, "\n", &save); line && at < want->count;
         line = strtok_r(NULL, "\n", &save), row++) {
        if ((int64_t)row != json_integer_value(json_array_get(rows, at)))
            continue;
        json_t *v = json_loads(line, 0, NULL);
        double p = recorded_field(v, "score"), z = log(p / (1.0 - p));
        if (!close_to(z, tensor_at(want, at), 1e-4))
            fail_msg("row %zu: expected logit %.9g, found %.9g", row, tensor_at(want, at),
                     z);
        at++;
        json_decref(v);
    }
    assert_int_equal(at, want->count);
    free(text);
    pcvr_safetensors_free(&t);
}

static void
remove_tree(const char *dir)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

static void
replay(const char *model, const char *run_name, bool clip, const char *const *extra)
{
    char name[128], dataset[512], initial[512], dir[128], order[160];
    snprintf(name, sizeof name, "train/%s/run.json", run_name);
    json_t *run = recorded_json(name);
    snprintf(name, sizeof name, "train/%s/initial.safetensors", run_name);
    if (!run || !fixture(initial, sizeof initial, name) ||
        !fixture(dataset, sizeof dataset, "data/learn/schema.json"))
        skip();
    *strrchr(dataset, '/') = 0;
    snprintf(dir, sizeof dir, "/tmp/pcvr_replay_%ld", (long)getpid());
    snprintf(order, sizeof order, "%s.order", dir);
    assert_true(write_order(order, run));
    Words w = {.n = 0};
    word(&w, "--experiment=models/%s.pcvr", model);
    word(&w, "--dataset-path=%s", dataset);
    word(&w, "--run-dir=%s", dir);
    word(&w, "--order=%s", order);
    word(&w, "--init=%s", initial);
    if (!clip)
        word(&w, "--no-clip");
    config_words(&w, "", json_object_get(run, "config"));
    for (; *extra; extra++)
        word(&w, "%s", *extra);
    assert_int_equal(cmd_train(w.n, w.v), 0);
    words_free(&w);
    double auc = check_steps(dir, json_object_get(run, clip ? "clipped" : "upstream"));
    assert_true(auc > 0.0);
    snprintf(name, sizeof name, "train/%s/valid_logits.safetensors", run_name);
    check_logits(model, dir, dataset, run, clip ? "logits_clipped" : "logits", name);
    remove_tree(dir);
    unlink(order);
    json_decref(run);
}

static void
test_onetrans(void **state)
{
    (void)state;
    static const char *const none[] = {NULL};
    replay("onetrans", "onetrans_adamw", false, none);
}

static void
test_onetrans_clipped(void **state)
{
    (void)state;
    static const char *const blocks[] = {"--checkpoint=blocks",
                                         "--model.gradient_checkpointing", "--threads=1",
                                         "--chunk=3", NULL};
    replay("onetrans", "onetrans_adamw", true, blocks);
}

// Here the norm exceeds the limit, so clipping shows.
static void
test_baseline(void **state)
{
    (void)state;
    static const char *const none[] = {NULL};
    replay("baseline", "baseline_adamw", false, none);
    replay("baseline", "baseline_adamw", true, none);
}

// The recorded inference: its weights and data give its predictions, user by user.
static void
test_inference(void **state)
{
    (void)state;
    char weights[512], dataset[512], dir[128], path[256];
    json_t *root = recorded_json("train/cli/predictions.json");
    if (!root || !fixture(dataset, sizeof dataset, "data/learn_eval/schema.json") ||
        !fixture(weights, sizeof weights,
                 "train/cli/checkpoint/global_step24.AUC=0.577359/model.safetensors"))
        skip();
    *strrchr(dataset, '/') = 0;
    snprintf(dir, sizeof dir, "/tmp/pcvr_replay_%ld", (long)getpid());
    Words w = {.n = 0};
    word(&w, "--experiment=models/onetrans.pcvr");
    word(&w, "--dataset-path=%s", dataset);
    word(&w, "--checkpoint=%s", weights);
    word(&w, "--result-dir=%s", dir);
    assert_int_equal(cmd_infer(w.n, w.v), 0);
    words_free(&w);
    snprintf(path, sizeof path, "%s/predictions.json", dir);
    json_t *have = json_load_file(path, 0, NULL), *v;
    const char *user;
    assert_non_null(have);
    const json_t *want = json_object_get(root, "predictions");
    assert_int_equal(json_object_size(json_object_get(have, "predictions")),
                     json_object_size(want));
    assert_true(json_object_size(want) > 500);
    json_object_foreach((json_t *)(uintptr_t)want, user, v)
    {
        const json_t *p = json_object_get(json_object_get(have, "predictions"), user);
        assert_non_null(p);
        assert_true(close_to(json_number_value(p), json_number_value(v), 1e-6));
    }
    json_decref(have);
    json_decref(root);
    remove_tree(dir);
}

// Sanitizers make the compilation of a module slow, so with them two modules must do.
int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onetrans_clipped),
        cmocka_unit_test(test_inference),
#if !defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(test_onetrans),
        cmocka_unit_test(test_baseline),
#endif
    };
#if defined(__SANITIZE_ADDRESS__)
    (void)test_onetrans;
    (void)test_baseline;
#endif
    return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}

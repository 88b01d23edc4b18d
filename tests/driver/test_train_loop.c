// test_train_loop.c - the training loop on real files, with a small module written by
// hand.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "checkpoint.h"
#include "data_test.h"
#include "file.h"
#include "json.h"
#include "run.h"

// The module of tests/numeric over tests/golden/data/small.
enum { TOY_V = 201, TOY_F = 2, TOY_L = 8, TOY_U = 15 };
static const pcvr_domain_info toy_domains[] = {
    {.name = "seq_a", .features = TOY_F, .length = TOY_L},
    {.name = "seq_b", .features = 2, .length = 8},
    {.name = "seq_c", .features = 2, .length = 8},
};
#define TOY_LAYOUT                                                                       \
    {                                                                                    \
        .user_ints = 11, .user_dense = TOY_U, .item_ints = 5, .item_dense = 2,           \
        .n_domains = 3, .domains = toy_domains                                           \
    }
#include "../numeric/toy_module.h"

typedef struct Setting {
    const char *path, *text;
} Setting;

// A run on data/small in `dir` with the given settings; the caller frees it.
static void
start(Run *r, const char *dir, const Setting *set, size_t n)
{
    static const Setting common[] = {
        {"data.batch_size", "16"},
        {"optimizer.max_steps", "12"},
        {"optimizer.lr", "0.01"},
        {"data.eval_every_n_steps", "6"},
        {"data.seq_max_lens", "seq_a:8,seq_b:8,seq_c:8"},
        {"data.num_workers", "2"},
        {"runtime.progress_log_interval_steps", "5"},
    };
    PcvrError err = {{0}};
    *r = (Run){.command = "train", .module = &toy_module, .say = fopen("/dev/null", "w")};
    r->experiment.name = strdup("toy");
    r->run_dir = strdup(dir);
    r->f.dataset = test_path("small");
    r->schema_path = data_schema_path(r->f.dataset);
    assert_true(settings_init(&r->settings, settings_class("PCVRTrainConfig"), &err));
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        assert_true(
            settings_set_text(&r->settings, common[i].path, common[i].text, &err));
    for (size_t i = 0; i < n; i++)
        assert_true(settings_set_text(&r->settings, set[i].path, set[i].text, &err));
    assert_int_equal(run_schema(r), 0);
    assert_int_equal(run_data(r, false), 0);
}

static void
finish(Run *r)
{
    fclose(r->say);
    free((void *)(uintptr_t)r->f.dataset);
    run_free(r);
}

static char *
in_dir(char room[256], const char *dir, const char *name)
{
    snprintf(room, 256, "%s/%s", dir, name);
    return room;
}

static char *
read_all(const char *dir, const char *name)
{
    char path[256];
    size_t n;
    PcvrError err = {{0}};
    char *text = pcvr_file_read(in_dir(path, dir, name), &n, &err);
    if (!text)
        fail_msg("%s", err.text);
    return text;
}

static void
temporary(char room[128], const char *name)
{
    char command[192];
    snprintf(room, 128, "/tmp/pcvr_loop_%ld_%s", (long)getpid(), name);
    snprintf(command, sizeof command, "rm -rf '%s'", room);
    assert_int_equal(system(command), 0);
}

static size_t
lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void
test_run(void **state)
{
    (void)state;
    Run r;
    char dir[128], path[600];
    temporary(dir, "run");
    start(&r, dir, NULL, 0);
    assert_int_equal(run_train(&r), 0);
    char *steps = read_all(dir, "steps.jsonl"),
         *summary = read_all(dir, "training_summary.json");
    assert_int_equal(lines(steps), 12);
    json_t *v = json_loads(summary, 0, NULL);
    assert_non_null(v);
    assert_int_equal(json_array_size(json_object_get(v, "validations")), 2);
    double auc = json_number_value(json_path(v, "validation_metrics.auc"));
    assert_true(auc > 0.0 && auc < 1.0);
    // The saved directory: named after step and AUC, with its four files.
    char name[CHECKPOINT_NAME_LIMIT + 1], *weights;
    PcvrError err = {{0}};
    checkpoint_name(name, 12, auc);
    weights = checkpoint_find(dir, &err);
    snprintf(path, sizeof path, "%s/%s/model.safetensors", dir, name);
    assert_string_equal(weights, path);
    static const char *const files[] = {"schema.json", "train_config.json", "pcvr.json"};
    for (size_t i = 0; i < 3; i++) {
        char *beside = checkpoint_beside(weights, files[i]);
        assert_int_equal(access(beside, R_OK), 0);
        free(beside);
    }
    char *schema = checkpoint_beside(weights, "schema.json");
    size_t n, m;
    char *a = pcvr_file_read(schema, &n, &err),
         *b = pcvr_file_read(r.schema_path, &m, &err);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
    // The saved configuration is the run's.
    Settings again;
    char *config_path = checkpoint_beside(weights, "train_config.json");
    a = pcvr_file_read(config_path, &n, &err);
    assert_true(settings_init(&again, r.settings.kind, &err));
    assert_true(settings_read(&again, a, n, config_path, &err));
    assert_true(json_equal(again.root, r.settings.root));
    settings_free(&again);
    // Peaks: planned and measured agree, as every batch of this run can be full.
    int64_t planned = json_integer_value(json_path(v, "memory.planned_peak_bytes"));
    int64_t measured = json_integer_value(json_path(v, "memory.measured_peak_bytes"));
    assert_true(planned > 0 && measured > 0 && measured <= planned);
    free(a);
    free(schema);
    free(config_path);
    free(weights);
    free(steps);
    free(summary);
    json_decref(v);
    finish(&r);
    temporary(dir, "run");
}

// The list of steps and the weights do not depend on threads, chunk and reader threads.
static void
test_same_steps(void **state)
{
    (void)state;
    static const struct {
        int threads;
        int64_t chunk;
        const char *workers;
    } ways[] = {{1, 0, "0"}, {2, 1, "1"}, {4, 3, "4"}, {2, PCVR_CHUNK_BATCH, "2"}};
    char *first = NULL;
    for (size_t k = 0; k < 4; k++) {
        Run r;
        char dir[128];
        Setting set[] = {{"data.num_workers", ways[k].workers},
                         {"data.sampling_strategy", "row_group_sweep"},
                         {"data.eval_every_n_steps", "0"},
                         {"data_pipeline.seed", "5"}};
        temporary(dir, "same");
        start(&r, dir, set, 4);
        r.options.threads = ways[k].threads;
        r.options.chunk = ways[k].chunk;
        assert_int_equal(run_train(&r), 0);
        char *steps = read_all(dir, "steps.jsonl");
        assert_true(lines(steps) == 12);
        if (!first)
            first = strdup(steps);
        assert_string_equal(first, steps);
        free(steps);
        finish(&r);
        temporary(dir, "same");
    }
    free(first);
}

static void
test_order_and_init(void **state)
{
    (void)state;
    Run r;
    char dir[128], order[256];
    PcvrError err = {{0}};
    temporary(dir, "order");
    static const char rows[] = "0 1 2 3 4 5 6 7\n8 9 10\n11,12,13,14\n0 1 2 3 4 5 6 7\n";
    assert_true(pcvr_make_dirs(dir, &err));
    assert_true(
        pcvr_file_write(in_dir(order, dir, "order.txt"), rows, sizeof rows - 1, &err));
    Setting set[] = {{"optimizer.max_steps", "0"},
                     {"optimizer.lr", "0.0"},
                     {"sparse_optimizer.sparse_lr", "0.0"}};
    start(&r, dir, set, 3);
    r.f.order = order;
    assert_int_equal(run_train(&r), 0);
    char *steps = read_all(dir, "steps.jsonl");
    assert_int_equal(lines(steps), 4);
    // Without learning the same rows give the same loss.
    char *save = NULL, *line[4];
    line[0] = strtok_r(steps, "\n", &save);
    for (int i = 1; i < 4; i++)
        line[i] = strtok_r(NULL, "\n", &save);
    json_t *a = json_loads(line[0], 0, NULL), *b = json_loads(line[3], 0, NULL);
    json_t *c = json_loads(line[1], 0, NULL);
    assert_true(json_equal(json_object_get(a, "terms"), json_object_get(b, "terms")));
    assert_false(json_equal(json_object_get(a, "terms"), json_object_get(c, "terms")));
    json_decref(a);
    json_decref(b);
    json_decref(c);
    free(steps);
    // Start again from what was saved: the first loss is the same.
    r.f.init = dir;
    assert_int_equal(run_train(&r), 0);
    finish(&r);
    // A row beyond the data set.
    assert_true(pcvr_file_write(order, "0\n999999\n", 9, &err));
    start(&r, dir, set, 2);
    r.f.order = order;
    assert_int_equal(run_train(&r), 1);
    r.f.order = NULL;
    r.f.init = "/nonexistent";
    assert_int_equal(run_train(&r), 1);
    finish(&r);
    temporary(dir, "order");
}

// An interrupt ends the step, saves the weights and gives 130.
static void
interrupt_soon(int number)
{
    (void)number;
    raise(SIGINT);
}

static void
test_interrupt(void **state)
{
    (void)state;
    Run r;
    char dir[128];
    PcvrError err = {{0}};
    Setting set[] = {{"optimizer.max_steps", "100000000"},
                     {"data.eval_every_n_steps", "100000000"}};
    struct itimerval timer = {.it_value = {.tv_usec = 300000}};
    temporary(dir, "interrupt");
    start(&r, dir, set, 2);
    signal(SIGALRM, interrupt_soon);
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
    assert_int_equal(run_train(&r), 130);
    char *weights = checkpoint_find(dir, &err);
    assert_non_null(weights);
    float w[TOY_D], v[TOY_U], b[1], table[TOY_V * TOY_D], unused[20];
    float *all[] = {w, v, b, table, unused};
    assert_true(checkpoint_load(weights, &toy_module, all, &err));
    assert_null(strstr(weights, "AUC"));
    free(weights);
    finish(&r);
    temporary(dir, "interrupt");
}

// A full disk, an unwritable directory: status 1, and what was there stays.
static void
test_unwritable(void **state)
{
    (void)state;
    Run r;
    start(&r, "/proc/nowhere", NULL, 0);
    assert_int_equal(run_train(&r), 1);
    finish(&r);
}

static void
test_early_stop(void **state)
{
    (void)state;
    Run r;
    char dir[128];
    Setting set[] = {{"optimizer.max_steps", "40"},
                     {"data.eval_every_n_steps", "2"},
                     {"optimizer.patience_steps", "4"},
                     {"optimizer.lr", "0.0"},
                     {"sparse_optimizer.sparse_lr", "0.0"}};
    temporary(dir, "stop");
    start(&r, dir, set, 5);
    assert_int_equal(run_train(&r), 0);
    char *steps = read_all(dir, "steps.jsonl");
    assert_int_equal(lines(steps), 6);
    free(steps);
    finish(&r);
    temporary(dir, "stop");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_same_steps),
        cmocka_unit_test(test_order_and_init),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_unwritable),
        cmocka_unit_test(test_early_stop),
    };
    return cmocka_run_group_tests_name("train_loop", tests, NULL, NULL);
}

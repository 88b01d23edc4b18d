// test_data_batches.c - rows to batches against the reference's: tensors, splits,
// orders, counts.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "data.h"
#include "data_test.h"
#include "safetensors.h"

static Data *
open_set(const char *set, const DataOptions *o)
{
    DataError e = {{0}};
    Data *d = NULL;
    char *path = test_path(set), *schema_path = data_schema_path(path);
    json_t *expected = test_json("small_expected.json");
    const char *lens = json_string_value(json_object_get(expected, "seq_max_lens"));
    Schema *s = schema_read(schema_path, &e);
    if (!s || schema_set_lens(s, lens, &e) || data_open(path, s, o, &d, &e))
        fail_msg("%s", e.text);
    schema_free(s);
    json_decref(expected);
    free(path);
    free(schema_path);
    return d;
}

static DataStream *
open_stream(Data *d, const DataStreamOptions *o)
{
    DataError e = {{0}};
    DataStream *s = NULL;
    if (data_stream_open(d, o, &s, &e))
        fail_msg("%s", e.text);
    return s;
}

static const DataBatch *
next(DataStream *s)
{
    DataError e = {{0}};
    const DataBatch *b;
    int rc = data_stream_next(s, &b, &e);
    if (rc < 0)
        fail_msg("%s", e.text);
    return rc ? b : NULL;
}

static void
check_tensor(const PcvrTensors *file, const char *name, PcvrType type, const void *got,
             size_t count)
{
    const PcvrTensor *t = pcvr_safetensors_find(file, name);
    if (!t || t->type != type || t->count != count)
        fail_msg("%s: missing or of another type or size", name);
    // Bytes: no value of a batch is NaN, and -0.0 is not 0.0 here.
    for (size_t i = 0; i < t->bytes; i++)
        if (((const char *)t->data)[i] != ((const char *)got)[i])
            fail_msg("%s: element %zu differs", name, i / pcvr_type_size(type));
}

static void
check_users(const char *path, const DataBatch *b, const json_t *want)
{
    assert_int_equal(json_array_size(want), b->tensors.size);
    for (int64_t i = 0; i < b->tensors.size; i++) {
        const char *w = json_string_value(json_array_get(want, (size_t)i));
        if (!w != !b->user_ids[i] || (w && strcmp(w, b->user_ids[i])))
            fail_msg("%s: user %d is '%s'", path, (int)i, b->user_ids[i]);
    }
}

static void
check_batch(const Data *d, const DataBatch *b, const char *name)
{
    char file[256], tensor[128];
    PcvrTensors t;
    PcvrError e = {{0}};
    snprintf(file, sizeof file, "batches/%s", name);
    char *path = test_path(file);
    if (!pcvr_safetensors_read(&t, path, &e))
        fail_msg("%s", e.text);
    const Schema *s = data_schema(d);
    const pcvr_batch *p = &b->tensors;
    size_t n = (size_t)p->size, ui = (size_t)s->user_int.width * n;
    size_t ii = (size_t)s->item_int.width * n, ud = (size_t)s->user_dense.width * n;
    size_t id = (size_t)s->item_dense.width * n;
    check_tensor(&t, "user_int_values", PCVR_T_I64, p->user_ints, ui);
    check_tensor(&t, "user_int_missing_mask", PCVR_T_BOOL, p->user_int_missing, ui);
    check_tensor(&t, "user_dense_values", PCVR_T_F32, p->user_dense, ud);
    check_tensor(&t, "user_dense_missing_mask", PCVR_T_BOOL, p->user_dense_missing, ud);
    check_tensor(&t, "item_int_values", PCVR_T_I64, p->item_ints, ii);
    check_tensor(&t, "item_int_missing_mask", PCVR_T_BOOL, p->item_int_missing, ii);
    check_tensor(&t, "item_dense_values", PCVR_T_F32, p->item_dense, id);
    check_tensor(&t, "item_dense_missing_mask", PCVR_T_BOOL, p->item_dense_missing, id);
    check_tensor(&t, "request_timestamp", PCVR_T_I64, p->request_time, n);
    check_tensor(&t, "label", PCVR_T_I64, p->label, n);
    assert_int_equal(p->n_domains, s->n_domains);
    for (int i = 0; i < s->n_domains; i++) {
        const SchemaDomain *m = &s->domains[i];
        size_t len = (size_t)m->max_len;
        snprintf(tensor, sizeof tensor, "%s_values", m->name);
        check_tensor(&t, tensor, PCVR_T_I64, p->domains[i].values,
                     n * (size_t)m->n_sides * len);
        snprintf(tensor, sizeof tensor, "%s_lengths", m->name);
        check_tensor(&t, tensor, PCVR_T_I64, p->domains[i].lengths, n);
        snprintf(tensor, sizeof tensor, "%s_timestamps", m->name);
        check_tensor(&t, tensor, PCVR_T_I64, p->domains[i].timestamps, n * len);
    }
    assert_int_equal(t.count, 10 + 3 * (size_t)s->n_domains);
    pcvr_safetensors_free(&t);
    free(path);
}

// Runs a stream against a recorded part: sizes of the batches, row order, the first
// batches. Gives the number of batches whose tensors were compared.
static int
check_part(Data *d, const DataStreamOptions *o, const json_t *part)
{
    const json_t *sizes = json_object_get(part, "batch_sizes");
    const json_t *order = json_object_get(part, "row_order");
    const json_t *firsts = json_object_get(part, "first_batches");
    size_t batch = 0, row = 0;
    DataStream *s = open_stream(d, o);
    for (const DataBatch *b; (b = next(s)); batch++) {
        assert_int_equal(b->index, batch);
        assert_int_equal(b->tensors.size,
                         json_integer_value(json_array_get(sizes, batch)));
        for (int64_t i = 0; i < b->tensors.size; i++, row++) {
            int64_t want = json_integer_value(json_array_get(order, row));
            if (b->rows[i] != want)
                fail_msg("row %zu is %d, not %d", row, (int)b->rows[i], (int)want);
            // The data set says so itself.
            int64_t width = data_schema(d)->user_dense.width;
            assert_true(b->tensors.user_dense[i * width] == (float)want);
        }
        if (batch < json_array_size(firsts)) {
            const json_t *f = json_array_get(firsts, batch);
            const char *name = json_string_value(json_object_get(f, "file"));
            check_batch(d, b, name);
            check_users(name, b, json_object_get(f, "user_id"));
        }
    }
    assert_int_equal(batch, json_array_size(sizes));
    assert_int_equal(row, json_array_size(order));
    data_stream_close(s);
    return (int)json_array_size(firsts);
}

static void
check_split(Data *d, const json_t *want, int *compared)
{
    DataSplit split;
    DataError e = {{0}};
    const json_t *plan = json_object_get(want, "plan");
    if (data_split(d, "row_group_tail",
                   json_number_value(json_object_get(want, "valid_ratio")),
                   json_number_value(json_object_get(want, "train_ratio")), &split, &e))
        fail_msg("%s", e.text);
#define PLAN(key)    json_integer_value(json_object_get(plan, key))
#define EDGE(key, i) json_integer_value(json_array_get(json_object_get(plan, key), i))
    assert_int_equal(data_n_groups(d), PLAN("total_row_groups"));
    assert_int_equal(split.train_first, EDGE("train_row_group_range", 0));
    assert_int_equal(split.train_end, EDGE("train_row_group_range", 1));
    assert_int_equal(split.valid_first, EDGE("valid_row_group_range", 0));
    assert_int_equal(split.valid_end, EDGE("valid_row_group_range", 1));
    assert_int_equal(split.train_rows, PLAN("train_rows"));
    assert_int_equal(split.valid_rows, PLAN("valid_rows"));
    assert_false(split.reused);
    for (int threads = 1; threads <= 3; threads++) {
        DataStreamOptions o = {.batch_size = 32,
                               .first_group = split.train_first,
                               .end_group = split.train_end,
                               .threads = threads};
        *compared += check_part(d, &o, json_object_get(want, "train"));
        o.first_group = split.valid_first;
        o.end_group = split.valid_end;
        *compared += check_part(d, &o, json_object_get(want, "valid"));
    }
}

static void
test_splits(void **state)
{
    (void)state;
    static const char *const sets[] = {"small", "small_plain"};
    json_t *expected = test_json("small_expected.json");
    int compared = 0, splits = 0;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        if (i && !test_has_fixtures())
            continue;
        Data *d = open_set(sets[i], NULL);
        const char *name;
        json_t *want;
        json_object_foreach(json_object_get(expected, "splits"), name, want)
        {
            if (strncmp(name, "row_group_tail@", 15))
                continue;
            check_split(d, want, &compared);
            splits++;
        }
        data_close(d);
    }
    json_decref(expected);
    assert_true(splits >= (test_has_fixtures() ? 4 : 2));
    assert_true(compared >= (test_has_fixtures() ? 24 : 12));
}

// Small caches and none give the same batches.
static void
test_inference_and_cache(void **state)
{
    (void)state;
    static const int64_t caches[] = {0, -1, 20000};
    json_t *expected = test_json("small_expected.json");
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        DataOptions options = {.inference = true, .cache_bytes = caches[i]};
        Data *d = open_set("small", &options);
        DataStreamOptions o = {
            .batch_size = 32, .end_group = data_n_groups(d), .threads = 2};
        assert_int_equal(check_part(d, &o, json_object_get(expected, "inference")), 1);
        data_close(d);
    }
    json_decref(expected);
}

static void
test_strict_time(void **state)
{
    (void)state;
    json_t *expected = test_json("small_expected.json");
    DataOptions options = {.strict_time = true};
    Data *d = open_set("small", &options);
    DataStreamOptions o = {.batch_size = 32, .end_group = 6};
    const json_t *strict = json_object_get(expected, "strict_time_filter");
    assert_int_equal(check_part(d, &o, json_object_get(strict, "train")), 2);
    data_close(d);
    json_decref(expected);
}

static void
test_samplers(void **state)
{
    (void)state;
    static const char *const names[] = {"row_group_tail.sweep.buffer1",
                                        "row_group_tail.sweep.buffer3",
                                        "row_group_tail.step_random"};
    json_t *expected = test_json("small_expected.json");
    Data *d = open_set("small", NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *want =
            json_object_get(json_object_get(expected, "shuffled"), names[i]);
        const json_t *config = json_object_get(want, "config");
        assert_non_null(want);
        DataStreamOptions o = {
            .batch_size = 32, .end_group = 6, .seed_dir = "small", .threads = 2};
        DataError e = {{0}};
        assert_int_equal(data_sampler_parse(json_string_value(json_object_get(
                                                config, "sampling_strategy")),
                                            &o.sampler, &e),
                         0);
        o.buffer_batches = json_integer_value(json_object_get(config, "buffer_batches"));
        o.steps = json_integer_value(json_object_get(config, "train_steps_per_sweep"));
        if (o.sampler == DATA_STEP_RANDOM)
            o.seed = (uint64_t)json_integer_value(json_object_get(config, "seed"));
        check_part(d, &o, want);
    }
    data_close(d);
    json_decref(expected);
}

// Over the sweep's end: rows come again, every sweep all of them, in another order.
static void
test_sweeps_go_on(void **state)
{
    (void)state;
    Data *d = open_set("small", NULL);
    DataStreamOptions o = {.batch_size = 32,
                           .end_group = 2,
                           .sampler = DATA_SWEEP,
                           .buffer_batches = 100,
                           .steps = 8};
    DataStream *s = open_stream(d, &o);
    int64_t per_sweep = data_stream_batches(s), seen[200] = {0}, orders[2][200], n = 0;
    assert_int_equal(per_sweep, 4);
    for (const DataBatch *b; (b = next(s));)
        for (int64_t i = 0; i < b->tensors.size; i++) {
            seen[b->rows[i]]++;
            orders[n >= 100][n % 100] = b->rows[i];
            n++;
        }
    assert_int_equal(n, 200);
    for (int i = 0; i < 200; i++)
        assert_int_equal(seen[i], i < 100 ? 2 : 0);
    assert_true(memcmp(orders[0], orders[1], sizeof(int64_t) * 100) != 0);
    data_stream_close(s);
    data_close(d);
}

// Rows in the caller's order, over files and groups, equal the rows of a scan.
static void
test_order(void **state)
{
    (void)state;
    Data *d = open_set("small", NULL);
    static const int64_t order[] = {299, 0, 150, 0, 42, 7, 298, 170, 169, 1};
    static const int64_t ends[] = {4, 5, 10};
    DataStreamOptions o = {.sampler = DATA_ORDER,
                           .order = order,
                           .order_ends = ends,
                           .order_steps = 3,
                           .threads = 2};
    DataStreamOptions scan = {.batch_size = 1, .end_group = data_n_groups(d)};
    DataStream *s = open_stream(d, &o);
    assert_int_equal(data_stream_batches(s), 3);
    int64_t k = 0, batches = 0, width = data_schema(d)->user_int.width;
    for (const DataBatch *b; (b = next(s)); batches++) {
        assert_int_equal(k + b->tensors.size, ends[batches]);
        for (int64_t i = 0; i < b->tensors.size; i++, k++) {
            assert_int_equal(b->rows[i], order[k]);
            DataStream *one = open_stream(d, &scan);
            const DataBatch *w = NULL;
            for (int64_t row = 0; row <= order[k]; row++)
                w = next(one);
            assert_memory_equal(b->tensors.user_ints + i * width, w->tensors.user_ints,
                                sizeof(int64_t) * (size_t)width);
            assert_int_equal(b->tensors.domains[1].lengths[i],
                             w->tensors.domains[1].lengths[0]);
            assert_int_equal(b->tensors.request_time[i], w->tensors.request_time[0]);
            data_stream_close(one);
        }
    }
    assert_int_equal(k, 10);
    data_stream_close(s);

    static const int64_t outside[] = {0, 300}, empty_ends[] = {0}, end[] = {2};
    DataError e = {{0}};
    o = (DataStreamOptions){
        .sampler = DATA_ORDER, .order = outside, .order_ends = end, .order_steps = 1};
    assert_int_equal(data_stream_open(d, &o, &s, &e), -1);
    assert_non_null(strstr(e.text, "names row 300"));
    e.text[0] = '\0';
    o.order_ends = empty_ends;
    assert_int_equal(data_stream_open(d, &o, &s, &e), -1);
    assert_non_null(strstr(e.text, "step 0 has no rows"));
    data_close(d);
}

static void
write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void
test_order_file(void **state)
{
    (void)state;
    char path[] = "/tmp/pcvr_order_XXXXXX";
    close(mkstemp(path));
    int64_t *order, *ends, steps;
    DataError e = {{0}};
    write_text(path, "# a comment\n3 1,2\r\n\n\t7\n  0, 0");
    assert_int_equal(data_order_read(path, &order, &ends, &steps, &e), 0);
    static const int64_t want[] = {3, 1, 2, 7, 0, 0};
    assert_int_equal(steps, 3);
    assert_int_equal(ends[0], 3);
    assert_int_equal(ends[1], 4);
    assert_int_equal(ends[2], 6);
    assert_memory_equal(order, want, sizeof want);
    free(order);
    free(ends);
    static const struct {
        const char *text, *message;
    } bad[] = {{"1 2\n3 x\n", "line 2: expected a row number"},
               {"1\n-1\n", "line 2: expected a row number"},
               {"99999999999999999999", "line 1: expected a row number"},
               {"# nothing\n\n", "no steps"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e.text[0] = '\0';
        write_text(path, bad[i].text);
        assert_int_equal(data_order_read(path, &order, &ends, &steps, &e), -1);
        if (!strstr(e.text, bad[i].message))
            fail_msg("'%s' does not say '%s'", e.text, bad[i].message);
    }
    unlink(path);
    e.text[0] = '\0';
    assert_int_equal(data_order_read(path, &order, &ends, &steps, &e), -1);
    assert_non_null(strstr(e.text, path));
}

// The larger sets: counts of rows, labels and users.
static void
test_learn_sets(void **state)
{
    (void)state;
    static const struct {
        const char *set;
        int64_t rows, valid_rows;
    } sets[] = {{"learn", 20000, 2000}, {"learn_eval", 600, 0}};
    if (!test_has_fixtures()) {
        print_message("reason: the larger data sets are in the fixtures only\n");
        skip();
    }
    for (size_t i = 0; i < 2; i++) {
        Data *d = open_set(sets[i].set, NULL);
        DataStreamOptions o = {
            .batch_size = 256, .end_group = data_n_groups(d), .threads = 2};
        DataStream *s = open_stream(d, &o);
        DataSplit split;
        DataError e = {{0}};
        int64_t rows = 0, positives = 0, nulls = 0;
        for (const DataBatch *b; (b = next(s));)
            for (int64_t k = 0; k < b->tensors.size; k++, rows++) {
                assert_int_equal(b->rows[k], rows);
                positives += b->tensors.label[k];
                nulls += !b->user_ids[k];
            }
        assert_int_equal(rows, sets[i].rows);
        assert_int_equal(data_rows(d), rows);
        assert_int_equal(data_split(d, "row_group_tail", 0.1, 1, &split, &e), 0);
        if (sets[i].valid_rows) {
            assert_int_equal(split.valid_rows, sets[i].valid_rows);
            assert_int_equal(positives, 5854);
        } else {
            assert_int_equal(nulls, 1);
        }
        data_stream_close(s);
        data_close(d);
    }
}

// Statistics of a whole pass, per column, and the first id of each.
static void
test_oov(void **state)
{
    (void)state;
    json_t *expected = test_json("small_expected.json");
    const json_t *all = json_object_get(expected, "oob_stats_full_pass");
    for (int threads = 1; threads <= 2; threads++) {
        Data *d = open_set("small", NULL);
        DataStreamOptions o = {.batch_size = threads == 1 ? 32 : 1000,
                               .end_group = data_n_groups(d),
                               .threads = threads};
        DataStream *s = open_stream(d, &o);
        while (next(s))
            ;
        int n;
        const DataOov *oov = data_stream_oov(s, &n);
        assert_int_equal(n, json_object_size(all));
        for (int i = 0; i < n; i++) {
            const char *key;
            json_t *want, *found = NULL;
            json_object_foreach((json_t *)all, key,
                                want) if (!strcmp(strchr(key, ':') + 1, oov[i].column))
                found = want;
            assert_non_null(found);
#define WANT(key) json_integer_value(json_object_get(found, key))
            assert_int_equal(oov[i].count, WANT("count"));
            assert_int_equal(oov[i].max, WANT("max"));
            assert_int_equal(oov[i].min, WANT("min_oob"));
            assert_int_equal(oov[i].vocab, WANT("vocab"));
            assert_true(oov[i].first_value >= oov[i].vocab);
            assert_non_null(strstr(oov[i].first_file, "part-0000"));
            assert_true(oov[i].first_row >= 0 && oov[i].first_row < 170);
        }
        data_stream_close(s);
        data_close(d);
    }
    json_decref(expected);
}

// The first offence in the stream's order is the one that is named, whatever the
// threads do.
static void
test_strict_ids(void **state)
{
    (void)state;
    char first[1024] = "";
    for (int threads = 1; threads <= 3; threads++) {
        DataOptions options = {.strict_ids = true};
        Data *d = open_set("small", &options);
        DataStreamOptions o = {
            .batch_size = 4, .end_group = data_n_groups(d), .threads = threads};
        DataStream *s = open_stream(d, &o);
        DataError e = {{0}};
        const DataBatch *b;
        int rc;
        while ((rc = data_stream_next(s, &b, &e)) == 1)
            ;
        assert_int_equal(rc, -1);
        assert_non_null(strstr(e.text, "part-00000.parquet: column 'user_int_feats_"));
        assert_non_null(strstr(e.text, "lies outside the vocabulary of"));
        if (!first[0])
            strcpy(first, e.text);
        assert_string_equal(first, e.text);
        assert_int_equal(data_stream_next(s, &b, &e), -1);
        data_stream_close(s);
        data_close(d);
    }
}

// What the data set holds, as recorded; dense features of items are not in the record.
static void
test_observed(void **state)
{
    (void)state;
    json_t *expected = test_json("small_expected.json");
    char *path = test_path("small"), *schema = test_path("small/schema.json");
    DataError e = {{0}};
    Data *d;
    Schema *s = schema_read(schema, &e);
    assert_int_equal(data_open(path, s, &(DataOptions){0}, &d, &e), 0);
    Schema *o = data_observe(d, 0, data_n_groups(d), &e);
    assert_non_null(o);
    char *text = schema_to_json(o);
    json_t *found = json_loads(text, 0, NULL);
    json_object_del(found, "format");
    json_object_del(found, "item_dense");
    const json_t *want = json_object_get(expected, "observed_schema");
    if (!json_equal(found, json_object_get(want, "schema")))
        fail_msg("observed: %s", text);
    json_decref(found);
    free(text);
    schema_free(o);
    // Fewer row groups hold less.
    o = data_observe(d, 0, 1, &e);
    assert_true(o->item_int.features[0].vocab < 32);
    schema_free(o);
    data_close(d);
    schema_free(s);
    free(path);
    free(schema);
    json_decref(expected);
}

// Lengths of domains that the list leaves out, and the shapes that follow.
static void
test_default_len(void **state)
{
    (void)state;
    json_t *expected = test_json("small_expected.json");
    const json_t *example = json_object_get(expected, "default_len_example");
    char *path = test_path("small/schema.json");
    DataError e = {{0}};
    Schema *s = schema_read(path, &e);
    assert_int_equal(
        schema_set_lens(s, json_string_value(json_object_get(example, "seq_max_lens")),
                        &e),
        0);
    for (int i = 0; i < s->n_domains; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s_values", s->domains[i].name);
        const json_t *shape = json_object_get(json_object_get(example, "shapes"), key);
        assert_int_equal(json_integer_value(json_array_get(shape, 1)),
                         s->domains[i].n_sides);
        assert_int_equal(json_integer_value(json_array_get(shape, 2)),
                         s->domains[i].max_len);
    }
    schema_free(s);
    free(path);
    json_decref(expected);
}

static void
test_refusals(void **state)
{
    (void)state;
    DataError e = {{0}};
    DataSplit split;
    DataSampler sampler;
    Data *d = open_set("small", NULL);
    assert_int_equal(data_split(d, "user_hash", 0.1, 1, &split, &e), -1);
    assert_non_null(strstr(e.text, "'user_hash' is not built"));
    e.text[0] = '\0';
    assert_int_equal(data_split(d, "row_group_tail", 1, 1, &split, &e), -1);
    assert_non_null(strstr(e.text, "valid_ratio"));
    e.text[0] = '\0';
    assert_int_equal(data_split(d, "row_group_tail", 0.1, 0, &split, &e), -1);
    assert_non_null(strstr(e.text, "train_ratio"));
    e.text[0] = '\0';
    assert_int_equal(data_sampler_parse("magic", &sampler, &e), -1);
    assert_non_null(strstr(e.text, "'magic' is unknown"));
    e.text[0] = '\0';
    DataStream *s;
    DataStreamOptions o = {.batch_size = 0, .end_group = 1};
    assert_int_equal(data_stream_open(d, &o, &s, &e), -1);
    e.text[0] = '\0';
    o = (DataStreamOptions){.batch_size = 1, .end_group = 99};
    assert_int_equal(data_stream_open(d, &o, &s, &e), -1);
    data_close(d);
}

// Closing in the middle leaves no thread and no memory behind.
static void
test_close_early(void **state)
{
    (void)state;
    Data *d = open_set("small", NULL);
    for (int taken = 0; taken < 4; taken++) {
        DataStreamOptions o = {.batch_size = 8,
                               .end_group = data_n_groups(d),
                               .sampler = DATA_STEP_RANDOM,
                               .steps = 1000000,
                               .threads = 3,
                               .ready = 2};
        DataStream *s = open_stream(d, &o);
        for (int i = 0; i < taken; i++)
            assert_non_null(next(s));
        data_stream_close(s);
    }
    data_close(d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits),       cmocka_unit_test(test_inference_and_cache),
        cmocka_unit_test(test_strict_time),  cmocka_unit_test(test_samplers),
        cmocka_unit_test(test_sweeps_go_on), cmocka_unit_test(test_order),
        cmocka_unit_test(test_oov),          cmocka_unit_test(test_strict_ids),
        cmocka_unit_test(test_observed),     cmocka_unit_test(test_default_len),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_close_early),
        cmocka_unit_test(test_order_file),   cmocka_unit_test(test_learn_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test_data_edge.c - files with one odd column each: what is read, and what is refused
// by name.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "data.h"
#include "data_test.h"

// Reads a case's file in one batch. 1 with the stream and its set open, or -1 with the
// error.
static int
read_case(const char *file, bool inference, Data **d, DataStream **s, const DataBatch **b,
          DataError *e)
{
    char name[256];
    snprintf(name, sizeof name, "edge/%s", file);
    char *path = test_path(name), *schema_path = test_path("edge/schema.json");
    DataOptions options = {.inference = inference};
    DataStreamOptions o = {.batch_size = 8, .end_group = 1};
    *d = NULL;
    *s = NULL;
    Schema *schema = schema_read(schema_path, e);
    int rc = -1;
    if (schema && !schema_set_lens(schema, "seq_a:3", e) &&
        !data_open(path, schema, &options, d, e) && !data_stream_open(*d, &o, s, e))
        rc = data_stream_next(*s, b, e);
    schema_free(schema);
    free(path);
    free(schema_path);
    return rc;
}

static void
close_case(Data *d, DataStream *s)
{
    data_stream_close(s);
    data_close(d);
}

static double
json_value(const json_t *j)
{
    return json_is_boolean(j) ? json_is_true(j) : json_number_value(j);
}

// Compares nested lists, flattened, with values that `get` reads; gives how many there
// were.
typedef double get_fn(const void *data, size_t i);

static size_t
compare(const char *name, const json_t *list, const void *data, size_t at, get_fn *get)
{
    size_t i;
    json_t *v;
    assert_true(json_is_array(list));
    json_array_foreach(list, i, v)
    {
        if (json_is_array(v))
            at = compare(name, v, data, at, get);
        else if (!(get(data, at++) == json_value(v)))
            fail_msg("%s: element %zu differs", name, at - 1);
    }
    return at;
}

static double
get_i64(const void *p, size_t i)
{
    return (double)((const int64_t *)p)[i];
}

static double
get_f32(const void *p, size_t i)
{
    return (double)((const float *)p)[i];
}

static double
get_u8(const void *p, size_t i)
{
    return ((const uint8_t *)p)[i];
}

static void
check_case(const char *name, const json_t *want, const DataBatch *b)
{
    const pcvr_batch *t = &b->tensors;
    const struct {
        const char *key;
        const void *data;
        get_fn *get;
        size_t count;
    } parts[] = {
        {"request_timestamp", t->request_time, get_i64, 3},
        {"label", t->label, get_i64, 3},
        {"user_int_values", t->user_ints, get_i64, 12},
        {"user_int_missing_mask", t->user_int_missing, get_u8, 12},
        {"user_dense_values", t->user_dense, get_f32, 6},
        {"user_dense_missing_mask", t->user_dense_missing, get_u8, 6},
        {"item_int_values", t->item_ints, get_i64, 3},
        {"item_int_missing_mask", t->item_int_missing, get_u8, 3},
        {"item_dense_values", t->item_dense, get_f32, 0},
        {"item_dense_missing_mask", t->item_dense_missing, get_u8, 0},
        {"seq_a_values", t->domains[0].values, get_i64, 9},
        {"seq_a_lengths", t->domains[0].lengths, get_i64, 3},
        {"seq_a_timestamps", t->domains[0].timestamps, get_i64, 9},
    };
    assert_int_equal(t->size, 3);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_int_equal(compare(name, json_object_get(want, parts[i].key), parts[i].data,
                                 0, parts[i].get),
                         parts[i].count);
    for (size_t i = 0; i < 3; i++) {
        const json_t *user = json_array_get(json_object_get(want, "user_id"), i);
        char digits[32];
        snprintf(digits, sizeof digits, "%d", (int)json_integer_value(user));
        const char *text = json_is_string(user)    ? json_string_value(user)
                           : json_is_integer(user) ? digits
                                                   : NULL;
        if (!text != !b->user_ids[i] || (text && strcmp(text, b->user_ids[i])))
            fail_msg("%s: user %zu", name, i);
    }
}

// What is refused although the reference may read it, or refused as there: the
// message's parts.
static const struct {
    const char *name, *message;
} refused[] = {
    {"scalar_int_given_as_list",
     "column 'user_int_feats_1': expected an integer, found list<int64>"},
    {"list_int_given_as_scalar",
     "column 'user_int_feats_15': expected a list of integers, found int64"},
    {"dense_given_as_scalar",
     "column 'user_dense_feats_61': expected a list of floats, found float"},
    {"timestamp_null", "column 'timestamp', row "},
    {"label_string", "column 'label_type': expected an integer, found string"},
    {"label_bool", "column 'label_type': expected an integer, found bool"},
    {"user_id_missing", "no column 'user_id'"},
    {"label_missing", "no column 'label_type'"},
    {"feature_column_missing", "no column 'item_int_feats_5'"},
    {"seq_column_missing", "no column 'domain_a_seq_38'"},
};

static const char *
refusal(const char *name)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (!strcmp(refused[i].name, name))
            return refused[i].message;
    return NULL;
}

static void
test_cases(void **state)
{
    (void)state;
    json_t *all = test_json("edge/edge_expected.json"), *c;
    const char *name;
    int read = 0, not_read = 0, better = 0;
    json_object_foreach(json_object_get(all, "cases"), name, c)
    {
        Data *d;
        DataStream *s;
        const DataBatch *b;
        DataError e = {{0}};
        const char *file = json_string_value(json_object_get(c, "file"));
        const json_t *want = json_object_get(c, "training");
        const char *message = refusal(name);
        int rc = read_case(file, false, &d, &s, &b, &e);
        if (message) {
            assert_int_equal(rc, -1);
            if (!strstr(e.text, message) || !strstr(e.text, file))
                fail_msg("%s: '%s' does not say '%s'", name, e.text, message);
            not_read++;
        } else if (json_is_true(json_object_get(want, "ok"))) {
            if (rc != 1)
                fail_msg("%s: %s", name, e.text);
            check_case(name, want, b);
            read++;
        } else {
            // The reference fails here; the other columns of these files are the usual
            // ones.
            if (rc != 1)
                fail_msg("%s: %s", name, e.text);
            better++;
        }
        close_case(d, s);
    }
    json_decref(all);
    assert_int_equal(not_read, sizeof refused / sizeof *refused);
    assert_true(read >= 12);
    assert_int_equal(better, 5);
}

// Null elements are 0 (and missing where a mask says so); a fixed-size list is a list.
static void
test_better_than_refused(void **state)
{
    (void)state;
    Data *d;
    DataStream *s;
    const DataBatch *b;
    DataError e = {{0}};
    bool seen = false;
    assert_int_equal(read_case("int_list_null_element.parquet", false, &d, &s, &b, &e),
                     1);
    // Feature 15 stands at positions 1 to 3; where it is 0 it is missing.
    for (int i = 0; i < 12; i++)
        assert_int_equal(b->tensors.user_int_missing[i], b->tensors.user_ints[i] == 0);
    close_case(d, s);
    assert_int_equal(read_case("dense_list_null_element.parquet", false, &d, &s, &b, &e),
                     1);
    for (int i = 0; i < 6; i++) {
        assert_true(b->tensors.user_dense[i] == b->tensors.user_dense[i]);
        if (b->tensors.user_dense_missing[i])
            assert_true(b->tensors.user_dense[i] == 0.0f);
        else
            seen = true;
    }
    assert_true(seen);
    close_case(d, s);
    assert_int_equal(read_case("fixed_size_list.parquet", false, &d, &s, &b, &e), 1);
    assert_true(b->tensors.user_ints[1] != 0);
    close_case(d, s);
    assert_int_equal(read_case("seq_list_null_element.parquet", false, &d, &s, &b, &e),
                     1);
    assert_true(b->tensors.domains[0].lengths[0] > 0);
    close_case(d, s);
}

// Without labels, what only labels offend is read.
static void
test_inference(void **state)
{
    (void)state;
    json_t *all = test_json("edge/edge_expected.json"), *c;
    const char *name;
    int read = 0;
    json_object_foreach(json_object_get(all, "cases"), name, c)
    {
        if (!json_is_true(json_object_get(c, "inference_ok")))
            continue;
        Data *d;
        DataStream *s;
        const DataBatch *b;
        DataError e = {{0}};
        const char *file = json_string_value(json_object_get(c, "file"));
        if (read_case(file, true, &d, &s, &b, &e) != 1)
            fail_msg("%s: %s", name, e.text);
        for (int i = 0; i < 3; i++)
            assert_int_equal(b->tensors.label[i], 0);
        close_case(d, s);
        read++;
    }
    json_decref(all);
    assert_true(read >= 15);
}

// Expects data_open to fail with a part of a message.
static void
expect_open(const char *path, const char *shim, const char *message)
{
    DataError e = {{0}};
    Data *d;
    char *schema_path = test_path("edge/schema.json");
    Schema *schema = schema_read(schema_path, &e);
    DataOptions options = {.shim = shim};
    assert_non_null(schema);
    assert_int_equal(data_open(path, schema, &options, &d, &e), -1);
    assert_null(d);
    if (!strstr(e.text, message) || strchr(e.text, '\n'))
        fail_msg("'%s' does not say '%s'", e.text, message);
    schema_free(schema);
    free(schema_path);
}

static void
test_open_errors(void **state)
{
    (void)state;
    char dir[] = "/tmp/pcvr_data_XXXXXX", file[64];
    char *good = test_path("edge/baseline_ok.parquet");
    assert_non_null(mkdtemp(dir));
    expect_open("no/such/set", NULL, "no/such/set: No such file");
    expect_open(dir, NULL, "no *.parquet files");
    snprintf(file, sizeof file, "%s/a.parquet", dir);
    FILE *f = fopen(file, "wb");
    fputs("PAR1 this is no Parquet PAR1", f);
    fclose(f);
    expect_open(file, NULL, "a.parquet: not readable as Parquet");
    expect_open(dir, NULL, "a.parquet: not readable as Parquet");
    unlink(file);
    rmdir(dir);
    expect_open(good, "no/such/lib.so", "cannot load the Parquet library");
    free(good);
}

// The place of schema.json beside a file and inside a directory.
static void
test_schema_path(void **state)
{
    (void)state;
    static const struct {
        const char *set, *path;
    } cases[] = {
        {"x/y.parquet", "x/schema.json"}, {"y.parquet", "schema.json"},
        {"tests", "tests/schema.json"},   {"tests/", "tests/schema.json"},
        {".", "./schema.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = data_schema_path(cases[i].set);
        assert_string_equal(path, cases[i].path);
        free(path);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),       cmocka_unit_test(test_better_than_refused),
        cmocka_unit_test(test_inference),   cmocka_unit_test(test_open_errors),
        cmocka_unit_test(test_schema_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

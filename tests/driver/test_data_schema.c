// test_data_schema.c - schema.json: the accepted and refused documents, the layout, the
// lengths.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data_test.h"
#include "schema.h"

static Schema *
parse(const char *text, DataError *e)
{
    memset(e, 0, sizeof *e);
    return schema_parse(text, strlen(text), "s.json", e);
}

// Every case of the fixture: accepted or refused as recorded, with a message when
// refused.
static void
test_cases(void **state)
{
    (void)state;
    json_t *cases = test_json("schema_validation.json");
    const char *name;
    json_t *c;
    int n = 0;
    json_object_foreach(cases, name, c)
    {
        char *text = json_dumps(json_object_get(c, "schema"), 0);
        DataError e = {0};
        Schema *s = schema_parse(text, strlen(text), name, &e);
        if (!!s != json_is_true(json_object_get(c, "accepted")))
            fail_msg("%s: %s", name, s ? "accepted" : e.text);
        assert_int_equal(!!s, !e.text[0]);
        schema_free(s);
        free(text);
        n++;
    }
    json_decref(cases);
    assert_true(n >= 29);
}

#define TAIL                                                                             \
    "\"user_dense\": [[61, 2], [62, 3]], \"seq\": {"                                     \
    "\"z\": {\"prefix\": \"p\", \"ts_fid\": 2, \"features\": [[1, 9], [2, 77], [3, "     \
    "0]]}, "                                                                             \
    "\"a\": {\"prefix\": \"q\", \"ts_fid\": 2, \"features\": [[2, 0]]}}}"
#define GOOD                                                                             \
    "{\"format\": \"raw_parquet\", \"user_int\": [[1, 9, 1], [15, 5000, 3], [7, 1, "     \
    "2]], "                                                                              \
    "\"item_int\": [[5, 0, 1]], " TAIL

static void
test_layout(void **state)
{
    (void)state;
    DataError e;
    Schema *s = parse(GOOD, &e);
    assert_non_null(s);
    assert_int_equal(s->user_int.width, 6);
    assert_int_equal(s->user_int.features[2].offset, 4);
    assert_int_equal(s->user_dense.features[1].offset, 2);
    assert_int_equal(s->item_dense.width, 0);
    assert_int_equal(s->n_domains, 2);
    assert_string_equal(s->domains[0].name, "a");
    assert_int_equal(s->domains[0].n_sides, 0);
    assert_int_equal(s->domains[1].n_sides, 2);
    assert_int_equal(s->domains[1].sides[1].fid, 3);
    assert_int_equal(s->domains[1].max_len, SCHEMA_DEFAULT_LEN);

    schema_cap_vocab(s, 100);
    assert_int_equal(s->user_int.features[1].vocab, 100);
    assert_int_equal(s->user_int.features[2].vocab, 2);
    assert_int_equal(s->item_int.features[0].vocab, 0);
    assert_int_equal(s->domains[1].features[1].vocab, 77);

    Schema *c = schema_copy(s);
    char *one = schema_to_json(s), *two = schema_to_json(c);
    assert_string_equal(one, two);
    Schema *again = parse(one, &e);
    assert_non_null(again);
    assert_int_equal(again->user_int.features[1].vocab, 100);
    free(one);
    free(two);
    schema_free(s);
    schema_free(c);
    schema_free(again);
}

static void
test_lens(void **state)
{
    (void)state;
    DataError e;
    Schema *s = parse(GOOD, &e);
    assert_int_equal(schema_set_lens(s, " a : 3 , nobody:9,, z:4,z: 12 ", &e), 0);
    assert_int_equal(s->domains[0].max_len, 3);
    assert_int_equal(s->domains[1].max_len, 12);
    static const char *const bad[] = {"a",
                                      "a:",
                                      "a:0",
                                      "a:-3",
                                      "a:x",
                                      "a:3x",
                                      "z:5,a:1.5",
                                      "a:99999999999",
                                      "a:123456789012345678901234567890123"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memset(&e, 0, sizeof e);
        assert_int_equal(schema_set_lens(s, bad[i], &e), -1);
        assert_non_null(strstr(e.text, "seq_max_lens"));
        assert_int_equal(s->domains[1].max_len, 12);
    }
    assert_int_equal(schema_set_lens(s, NULL, &e), 0);
    assert_int_equal(s->domains[1].max_len, 256);
    schema_free(s);
}

static void
test_messages(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{", "not JSON"},
        {"[]", "expected a JSON object"},
        {"{\"format\": \"raw_parquet\", \"format\": 1}", "duplicate object key"},
        {"{\"format\": \"raw_parquet\", \"user_int\": [[1, true, 1]]}",
         "user_int[0]: vocab_size must be an integer"},
        {"{\"format\": \"raw_parquet\", \"user_int\": [[1, 9, 1.5]]}",
         "dim must be an integer"},
        {"{\"format\": \"raw_parquet\", \"user_int\": [{\"fid\": 1, \"dim\": 1}]}",
         "no 'vocab_size'"},
        {"{\"format\": \"raw_parquet\", \"user_int\": [{\"fid\": 1, \"dim\": 1, \"x\": "
         "1}]}",
         "unknown key 'x'"},
        {"{\"format\": \"raw_parquet\", \"user_int\": [[1, 9, 2147483647], [2, 9, 1]]}",
         "is wider than"},
        {"{\"format\": \"raw_parquet\", \"us\\ner\": 1}", "unknown key 'us?er'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DataError e;
        assert_null(parse(cases[i].text, &e));
        if (!strstr(e.text, cases[i].message))
            fail_msg("'%s' does not say '%s'", e.text, cases[i].message);
    }
    DataError e = {0};
    assert_null(schema_read("no/such/schema.json", &e));
    assert_non_null(strstr(e.text, "no/such/schema.json"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_lens),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

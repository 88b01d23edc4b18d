// fuzz_schema.c - any bytes give a schema that can be written and read again, or one line of
// error; any text gives sequence lengths or an error.

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(int ok)
{
    if (!ok)
        __builtin_trap();
}

static void
try_lens(Schema *s, const uint8_t *data, size_t size)
{
    DataError e = {{0}};
    char *lens = malloc(size + 1);
    if (!lens)
        return;
    memcpy(lens, data, size);
    lens[size] = '\0';
    int rc = schema_set_lens(s, lens, &e);
    check((rc == 0) == !e.text[0]);
    for (int i = 0; i < s->n_domains; i++)
        check(s->domains[i].max_len >= 1);
    free(lens);
}

static void
try_round_trip(const Schema *s)
{
    DataError e = {{0}};
    char *text = schema_to_json(s);
    check(text != NULL);
    Schema *again = schema_parse(text, strlen(text), "again", &e);
    check(again != NULL);
    char *same = schema_to_json(again);
    check(same && !strcmp(text, same));
    free(same);
    free(text);
    schema_free(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char small[] =
        "{\"format\": \"raw_parquet\", \"user_int\": [[1, 9, 1]], \"item_int\": [[5, 9, "
        "1]],"
        " \"user_dense\": [], \"seq\": {\"a\": {\"prefix\": \"p\", \"ts_fid\": 1,"
        " \"features\": [[1, 0]]}}}";
    DataError e = {{0}};
    Schema *s = schema_parse((const char *)data, size, "fuzz", &e);
    check(!s == !!e.text[0]);
    check(!strchr(e.text, '\n'));
    if (s) {
        try_round_trip(s);
        Schema *copy = schema_copy(s);
        check(copy != NULL);
        schema_cap_vocab(copy, 5);
        try_round_trip(copy);
        schema_free(copy);
    } else {
        s = schema_parse(small, sizeof small - 1, "small", NULL);
        check(s != NULL);
        try_lens(s, data, size);
    }
    schema_free(s);
    return 0;
}

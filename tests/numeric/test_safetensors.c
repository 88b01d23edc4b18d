// test_safetensors.c - the reader refuses every malformed file; the writer loses nothing.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "file.h"
#include "fixtures.h"
#include "safetensors.h"

// A file of the given header text and n data bytes, parsed; false with the message in
// err.
static bool
parse_text(const char *header, size_t data, PcvrError *err)
{
    size_t n = strlen(header);
    unsigned char *bytes = calloc(1, 8 + n + data);
    PcvrTensors t;
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(bytes + 8, header, n);
    err->text[0] = 0;
    bool ok = pcvr_safetensors_parse(&t, bytes, 8 + n + data, "t", err);
    if (ok)
        pcvr_safetensors_free(&t);
    else
        assert_null(t.tensors);
    free(bytes);
    return ok;
}

static const struct {
    const char *header;
    size_t data;
    const char *message; // part of it; NULL: accepted
} cases[] = {
    {"{}", 0, NULL},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}   ", 8, NULL},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, NULL},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[0,0]}}", 0, NULL},
    {"{\"__metadata__\":{\"k\":\"v\"}}", 0, NULL},
    {"{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[4,5]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     5, NULL},
    {"{\"__metadata__\":{\"k\":1}}", 0, "not a string"},
    {"{\"__metadata__\":[]}", 0, "not an object"},
    {"[]", 0, "not a JSON object"},
    {"", 0, "not a JSON object"},
    {"{", 0, "header:"},
    {"{} x", 0, "header:"},
    {"{\"a\":1}", 0, "expected exactly"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "expected exactly"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8,
     "expected exactly"},
    {"{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     "unknown dtype 'F31'"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "bad shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8,
     "bad shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}"
     "}",
     0, "bad shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,7]}}", 8,
     "take 8 bytes, found 7"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8,
     "bad data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8,
     "bad data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4,
     "ends at 8 of 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9,
     "1 bytes behind"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12,
     "a hole of 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
     12, "overlaps"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, "duplicate"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
     "\"data_offsets\":[9223372036854775803,9223372036854775807]}}",
     8, "ends at"},
};

static void
test_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        PcvrError err = {{0}};
        bool ok = parse_text(cases[i].header, cases[i].data, &err);
        if (ok != !cases[i].message || (!ok && !strstr(err.text, cases[i].message)))
            fail_msg("%s: %s", cases[i].header, ok ? "accepted" : err.text);
        assert_null(strchr(err.text, '\n'));
    }
}

static void
test_header_length(void **state)
{
    (void)state;
    PcvrTensors t;
    PcvrError err = {{0}};
    unsigned char huge[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    assert_false(pcvr_safetensors_parse(&t, huge, sizeof huge, "t", &err));
    assert_non_null(strstr(err.text, "a header of 18446744073709551615 bytes"));
    err.text[0] = 0;
    unsigned char longer[10] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    assert_false(pcvr_safetensors_parse(&t, longer, sizeof longer, "t", &err));
    err.text[0] = 0;
    assert_false(pcvr_safetensors_parse(&t, longer, 7, "t", &err));
    assert_non_null(strstr(err.text, "no safetensors file"));
    err.text[0] = 0;
    assert_false(pcvr_safetensors_read(&t, "/nonexistent/x", &err));
    err.text[0] = 0;
    assert_false(pcvr_safetensors_read(&t, "/dev/zero", &err));
    assert_non_null(strstr(err.text, "not a regular file"));
}

// Whatever the reference's writer wrote comes back byte for byte.
static void
test_round_trip(void **state)
{
    (void)state;
    static const char *const names[] = {"optim/clip.safetensors",
                                        "optim/sparse_adagrad.safetensors",
                                        "losses/losses.safetensors"};
    char path[512], copy[64];
    snprintf(copy, sizeof copy, "/tmp/pcvr_st_%ld", (long)getpid());
    for (size_t i = 0; i < 3; i++) {
        PcvrError err = {{0}};
        PcvrTensors t;
        size_t n = 0, m = 0;
        if (!fixture(path, sizeof path, names[i]))
            skip();
        if (!pcvr_safetensors_read(&t, path, &err))
            fail_msg("%s", err.text);
        assert_true(t.count > 5);
        if (!pcvr_safetensors_write(copy, t.tensors, t.count, &err))
            fail_msg("%s", err.text);
        char *a = pcvr_file_read(path, &n, &err), *b = pcvr_file_read(copy, &m, &err);
        assert_non_null(a);
        assert_non_null(b);
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
        free(a);
        free(b);
        pcvr_safetensors_free(&t);
    }
    unlink(copy);
}

static void
test_want(void **state)
{
    (void)state;
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    static const uint8_t odd[3] = {7, 8, 9};
    int64_t shape[2] = {2, 3}, flat[1] = {6}, three[1] = {3};
    PcvrTensor in[] = {
        {.name = "x\"\\\n", .type = PCVR_T_F32, .rank = 2, .shape = shape, .data = x},
        {.name = "odd", .type = PCVR_T_U8, .rank = 1, .shape = three, .data = odd}};
    PcvrError err = {{0}};
    PcvrTensors t;
    char path[64];
    snprintf(path, sizeof path, "/tmp/pcvr_st_%ld", (long)getpid());
    assert_true(pcvr_safetensors_write(path, in, 2, &err));
    assert_true(pcvr_safetensors_read(&t, path, &err));
    const PcvrTensor *got =
        pcvr_safetensors_want(&t, "x\"\\\n", PCVR_T_F32, 2, shape, &err);
    assert_non_null(got);
    assert_memory_equal(got->data, x, sizeof x);
    assert_int_equal((uintptr_t)got->data % 64, 0);
    assert_non_null(pcvr_safetensors_want(&t, "odd", PCVR_T_U8, -1, NULL, &err));
    assert_null(pcvr_safetensors_want(&t, "odd", PCVR_T_F32, 1, three, &err));
    assert_string_equal(err.text, "tensor 'odd': expected dtype F32, found U8");
    err.text[0] = 0;
    assert_null(pcvr_safetensors_want(&t, "x\"\\\n", PCVR_T_F32, 1, flat, &err));
    assert_string_equal(err.text, "tensor 'x\"\\?': expected shape [6], found [2, 3]");
    err.text[0] = 0;
    assert_null(pcvr_safetensors_want(&t, "none", PCVR_T_F32, 1, flat, &err));
    assert_string_equal(err.text, "tensor 'none' is missing");
    pcvr_safetensors_free(&t);
    err.text[0] = 0;
    in[1].name = in[0].name;
    assert_false(pcvr_safetensors_write(path, in, 2, &err));
    assert_non_null(strstr(err.text, "two tensors named"));
    unlink(path);
}

// A full disk: the limit on file sizes fails the write half way; the earlier file stays.
static void
test_full_disk(void **state)
{
    (void)state;
    static float x[4096];
    int64_t shape[1] = {4096}, small[1] = {4};
    PcvrTensor big = {
        .name = "x", .type = PCVR_T_F32, .rank = 1, .shape = shape, .data = x};
    PcvrTensor little = big;
    PcvrError err = {{0}};
    PcvrTensors t;
    char path[64], temporary[96];
    struct rlimit old, tight;
    little.shape = small;
    snprintf(path, sizeof path, "/tmp/pcvr_st_%ld", (long)getpid());
    snprintf(temporary, sizeof temporary, "%s.tmp.%ld", path, (long)getpid());
    assert_true(pcvr_safetensors_write(path, &little, 1, &err));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = old;
    tight.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    bool ok = pcvr_safetensors_write(path, &big, 1, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_false(ok);
    assert_non_null(strstr(err.text, "write failed"));
    err.text[0] = 0;
    assert_true(pcvr_safetensors_read(&t, path, &err));
    assert_int_equal(t.tensors[0].count, 4);
    pcvr_safetensors_free(&t);
    assert_int_not_equal(access(temporary, F_OK), 0);
    unlink(path);
    assert_false(pcvr_safetensors_write("/nonexistent/x", &little, 1, &err));
    assert_non_null(strstr(err.text, "cannot write"));
}

// Every single byte of a good file changed and every truncation: an answer, never a
// crash.
static void
test_mutations(void **state)
{
    (void)state;
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    int64_t shape[2] = {2, 3};
    PcvrTensor in[2] = {
        {.name = "a", .type = PCVR_T_F32, .rank = 2, .shape = shape, .data = x},
        {.name = "b", .type = PCVR_T_F32, .rank = 2, .shape = shape, .data = x}};
    PcvrError err = {{0}};
    PcvrTensors t;
    char path[64];
    size_t n = 0, refused = 0;
    snprintf(path, sizeof path, "/tmp/pcvr_st_%ld", (long)getpid());
    assert_true(pcvr_safetensors_write(path, in, 2, &err));
    char *good = pcvr_file_read(path, &n, &err);
    assert_non_null(good);
    for (size_t i = 0; i < n; i++) {
        for (int bit = 0; bit < 8; bit++) {
            char *bad = malloc(n);
            assert_non_null(bad);
            memcpy(bad, good, n);
            bad[i] = (char)(bad[i] ^ (1 << bit));
            if (pcvr_safetensors_parse(&t, bad, n, "t", NULL))
                pcvr_safetensors_free(&t);
            else
                refused++;
            free(bad);
        }
        char *part = malloc(i + 1);
        assert_non_null(part);
        memcpy(part, good, i);
        assert_false(pcvr_safetensors_parse(&t, part, i, "t", NULL));
        free(part);
    }
    assert_true(refused > n);
    free(good);
    unlink(path);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),    cmocka_unit_test(test_header_length),
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_want),
        cmocka_unit_test(test_full_disk),  cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}

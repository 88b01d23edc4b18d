// test_data_rng.c - the generators against recorded vectors.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "data_test.h"
#include "rng.h"

static void
check_uniforms(Mt19937 *g, const json_t *list)
{
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v)
    {
        if (json_is_array(v)) {
            check_uniforms(g, v);
            continue;
        }
        double want = json_number_value(v);
        if (!((double)mt_uniform(g) == want))
            fail_msg("element %zu differs from %.17g", i, want);
    }
}

static void
check_permutation(Mt19937 *g, const json_t *list)
{
    int64_t got[64];
    size_t n = json_array_size(list);
    assert_true(n > 0 && n <= 64);
    mt_permutation(g, (int64_t)n, got);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(got[i], json_integer_value(json_array_get(list, i)));
}

static void
test_mt19937(void **state)
{
    (void)state;
    json_t *all = test_json("rng_vectors.json"), *list, *c;
    size_t i, n = 0;
    list = json_object_get(all, "torch_mt19937");
    json_array_foreach(list, i, c)
    {
        Mt19937 g;
        uint64_t seed = (uint64_t)json_integer_value(json_object_get(c, "seed"));
        mt_seed(&g, seed);
        check_uniforms(&g, json_object_get(c, "rand8"));
        check_permutation(&g, json_object_get(c, "then_randperm10"));
        check_uniforms(&g, json_object_get(c, "then_rand_2x3"));
        mt_seed(&g, seed);
        check_permutation(&g, json_object_get(c, "fresh_randperm37"));
        n++;
    }
    json_decref(all);
    assert_true(n >= 5);
}

static void
test_pcg64(void **state)
{
    (void)state;
    json_t *all = test_json("rng_vectors.json"), *c;
    size_t i, n = 0;
    json_array_foreach(json_object_get(all, "numpy_pcg64"), i, c)
    {
        Pcg64 g;
        pcg_seed(&g, (uint64_t)json_integer_value(json_object_get(c, "seed")));
        uint64_t got =
            pcg_below(&g, (uint64_t)json_integer_value(json_object_get(c, "high")));
        assert_int_equal(got, json_integer_value(json_object_get(c, "first")));
        n++;
    }
    json_decref(all);
    assert_true(n >= 20);
}

// Draws stay in range and every value of a small range comes up, for ranges that
// reject often.
static void
test_below_range(void **state)
{
    (void)state;
    static const uint64_t ranges[] = {
        1, 2, 3, 0x80000001, 0xffffffff, 0x100000000, 0x100000001, UINT64_C(1) << 63 | 1};
    Pcg64 g;
    pcg_seed(&g, 5);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        unsigned seen = 0;
        for (int k = 0; k < 200; k++) {
            uint64_t v = pcg_below(&g, ranges[i]);
            assert_true(v < ranges[i]);
            seen |= v < 32 ? 1u << v : 0;
        }
        if (ranges[i] <= 3)
            assert_int_equal(seen, (1u << ranges[i]) - 1);
    }
}

static void
test_batch_seed(void **state)
{
    (void)state;
    json_t *all = test_json("rng_vectors.json"), *c;
    size_t i, n = 0;
    json_array_foreach(json_object_get(all, "batch_seed"), i, c)
    {
        const char *path = json_string_value(json_object_get(c, "path"));
        uint64_t got = batch_seed(
            (uint64_t)json_integer_value(json_object_get(c, "base_seed")),
            (uint64_t)json_integer_value(json_object_get(c, "worker_id")),
            crc32_bytes(0, path, strlen(path)),
            (uint64_t)json_integer_value(json_object_get(c, "row_group_index")),
            (uint64_t)json_integer_value(json_object_get(c, "batch_index")));
        assert_int_equal(got, json_integer_value(json_object_get(c, "seed")));
        n++;
    }
    json_decref(all);
    assert_true(n >= 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mt19937),
        cmocka_unit_test(test_pcg64),
        cmocka_unit_test(test_below_range),
        cmocka_unit_test(test_batch_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

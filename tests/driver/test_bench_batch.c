// test_bench_batch.c - made-up batches keep to the schema and are the same every time.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "bench_batch.h"
#include "numbers.h"

enum { B = 5 };

static void
check_field(const SchemaGroup *g, const int64_t *ids, const uint8_t *missing)
{
    int64_t zeros = 0, top = 0;
    for (int f = 0; f < g->n; f++) {
        const SchemaFeature *x = &g->features[f];
        for (int64_t s = 0; s < B; s++) {
            for (int64_t k = 0; k < x->dim; k++) {
                int64_t id = ids[s * g->width + x->offset + k];
                assert_in_range(id, 0, x->vocab);
                assert_in_range(missing[s * g->width + x->offset + k], 0, 1);
                zeros += id == 0;
                top += id == x->vocab;
            }
        }
    }
    assert_true(zeros > 0);
    assert_true(top > 0);
}

static void
check_domain(const SchemaDomain *d, const pcvr_domain *x, const int64_t *request,
             bool mixed)
{
    int64_t L = d->max_len, F = d->n_sides, shorter = 0;
    for (int64_t s = 0; s < B; s++) {
        int64_t n = x->lengths[s];
        assert_in_range(n, mixed ? 1 : L, L);
        shorter += n < L;
        for (int64_t j = 0; j < L; j++) {
            int64_t t = x->timestamps[s * L + j];
            if (j >= n) {
                assert_int_equal(t, 0);
                continue;
            }
            assert_in_range(t, request[s] - 30 * 86400, request[s] - 1);
            assert_true(j == 0 || t >= x->timestamps[s * L + j - 1]);
        }
        for (int64_t f = 0; f < F; f++)
            for (int64_t j = 0; j < L; j++)
                assert_in_range(x->values[(s * F + f) * L + j],
                                j < n && d->sides[f].vocab > 0,
                                j < n ? d->sides[f].vocab : 0);
    }
    assert_true(mixed ? shorter > 0 : shorter == 0);
}

static void
keeps_to_the_schema(void **state)
{
    (void)state;
    DataError e = {""};
    Schema *s = schema_read("models/official.json", &e);
    assert_non_null(s);
    schema_cap_vocab(s, 3);
    for (int mixed = 0; mixed < 2; mixed++) {
        BenchBatch b, again;
        assert_true(bench_batch_new(&b, s, B, mixed));
        assert_true(bench_batch_new(&again, s, B, mixed));
        check_field(&s->user_int, b.batch.user_ints, b.batch.user_int_missing);
        check_field(&s->item_int, b.batch.item_ints, b.batch.item_int_missing);
        assert_true(s->n_domains > 0);
        for (int d = 0; d < s->n_domains; d++) {
            const SchemaDomain *x = &s->domains[d];
            check_domain(x, &b.domains[d], b.batch.request_time, mixed);
            assert_memory_equal(b.domains[d].values, again.domains[d].values,
                                (size_t)(B * x->n_sides * x->max_len) * 8);
        }
        float want;
        pcvr_number_fill(&want, 1, 1, "bench.user_dense_values", 0.0, 1.0);
        assert_memory_equal(&want, &b.batch.user_dense[1], sizeof want);
        for (int k = 0; k < B; k++)
            assert_in_range(b.batch.label[k], 0, 1);
        bench_batch_free(&b);
        bench_batch_free(&again);
    }
    schema_free(s);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_to_the_schema)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// random.c - drop bits on vectors against the counted random numbers of the runtime.

#include "kernel_test.h"
#include "philox.h"

static k_drop
drop_of(double p)
{
    return (k_drop){.seed = 0x123456789abcdefu + (uint64_t)kt_int(0, 1000),
                    .site = (uint32_t)kt_int(0, 50),
                    .sample = (uint32_t)kt_int(0, 300),
                    .step = (uint32_t)kt_int(0, 100000),
                    .threshold = pcvr_drop_threshold(p),
                    .scale = pcvr_drop_scale(p)};
}

static int
keeps(const k_drop *d, uint64_t element)
{
    const PcvrSite s = {d->seed, d->site, d->sample, d->step};
    return pcvr_keeps(&s, element, d->threshold);
}

static void
test_dropout_matches_runtime(void **state)
{
    (void)state;
    static const double ps[] = {0.0, 0.1, 0.5, 0.9999, 1.0};
    static const uint64_t starts[] = {0,    1,      7,           8,           13,
                                      4096, 100003, 0xfffffff5u, 0x1fffffff3u};
    int dropped = 0, kept = 0;
    for (size_t i = 0; i < sizeof ps / sizeof *ps; i++)
        for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
            const int n = s % 2 ? kt_int(1, 70) : kt_int(500, 1300);
            const k_drop d = drop_of(ps[i]);
            float *x = kt_floats(n), *y = kt_floats(n), *z = kt_floats(n),
                  *f = kt_floats(n);
            float *z0 = memcpy(kt_floats(n), z, (size_t)n * sizeof *z);
            uint8_t *c = malloc((size_t)n);
            assert_non_null(c);
            k_dropout(n, starts[s], &d, x, y);
            k_dropout_add(n, starts[s], &d, x, z);
            k_drop_factors(n, starts[s], &d, f);
            k_chance(n, starts[s], &d, c);
            for (int e = 0; e < n; e++) {
                const int stays = keeps(&d, starts[s] + (uint64_t)e);
                const float want = stays ? x[e] * d.scale : 0.0f;
                assert_true(kt_same_bits(y[e], want));
                assert_true(kt_same_bits(z[e], z0[e] + want));
                assert_true(kt_same_bits(f[e], stays ? d.scale : 0.0f));
                assert_int_equal(c[e], !stays);
                kept += stays, dropped += !stays;
            }
            free(x), free(y), free(z), free(z0), free(f), free(c);
        }
    assert_true(dropped > 1000 && kept > 1000);
}

// Dropped infinities give zero; in place is allowed.
static void
test_dropped_infinity(void **state)
{
    (void)state;
    const k_drop d = drop_of(0.5);
    float x[100];
    for (int i = 0; i < 100; i++)
        x[i] = HUGE_VALF;
    k_dropout(100, 3, &d, x, x);
    for (int i = 0; i < 100; i++)
        assert_true(x[i] == (keeps(&d, 3 + (uint64_t)i) ? HUGE_VALF : 0.0f));
}

int
KERNEL_GROUP(random_bits)(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropout_matches_runtime),
        cmocka_unit_test(test_dropped_infinity),
    };
    return cmocka_run_group_tests_name("random " PCVR_ISA_NAME, tests, NULL, NULL);
}

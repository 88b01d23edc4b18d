// test_random.c - numbers from names, counted random numbers, initial values.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fixtures.h"
#include "init.h"
#include "numbers.h"
#include "philox.h"

static void
test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t h, i, z, top;
        double value;
    } checks[] = {
        {"blocks.0.weight", 0x7b467508f3d12fa5u, 0, 0x1be823b2110e454eu, 1828899,
         -0.7819782495498657},
        {"blocks.0.weight", 0x7b467508f3d12fa5u, 1, 0xfbbb6a59cec0e850u, 16497514,
         0.9666569232940674},
        {"blocks.0.weight", 0x7b467508f3d12fa5u, 12345, 0x173065fdd8499da4u, 1519717,
         -0.8188356161117554},
        {"probe:blocks.0.weight", 0xf5b6b0679561d329u, 0, 0xe1d07c0e5caddc70u, 14798972,
         0.7641749382019043},
        {"probe:blocks.0.weight", 0xf5b6b0679561d329u, 1, 0x5c38c5527688569du, 6043845,
         -0.2795175313949585},
    };
    for (size_t k = 0; k < sizeof checks / sizeof *checks; k++) {
        uint64_t h = pcvr_name_hash(checks[k].name);
        float out;
        assert_int_equal(h, checks[k].h);
        assert_int_equal(pcvr_number_bits(h, checks[k].i), checks[k].z);
        assert_int_equal(pcvr_number_bits(h, checks[k].i) >> 40, checks[k].top);
        assert_true(pcvr_number(h, checks[k].i) == checks[k].value);
        pcvr_number_fill(&out, checks[k].i, 1, checks[k].name, 1.0, 0.1);
        assert_true(out == (float)(1.0 + 0.1 * checks[k].value));
    }
}

// Known answers published with Random123 for philox4x32, 10 rounds and 7.
static void
test_philox_vectors(void **state)
{
    (void)state;
    static const struct {
        uint32_t c[4], k[2], out[4], seven[4];
    } checks[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u},
         {0x5f6fb709u, 0x0d893f64u, 0x4f121f81u, 0x4f730a48u}},
        {{0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu},
         {0xffffffffu, 0xffffffffu},
         {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu},
         {0x5207ddc2u, 0x45165e59u, 0x4d8ee751u, 0x8c52f662u}},
        {{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
         {0xa4093822u, 0x299f31d0u},
         {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u},
         {0x4dfccabau, 0x190a87f0u, 0xc47362bau, 0xb6b5242au}},
    };
    for (size_t i = 0; i < 3; i++) {
        uint32_t out[4];
        pcvr_philox(out, checks[i].c, checks[i].k);
        assert_memory_equal(out, checks[i].out, sizeof out);
        pcvr_philox_rounds(out, checks[i].c, checks[i].k, PCVR_DRAW_ROUNDS);
        assert_memory_equal(out, checks[i].seven, sizeof out);
    }
}

// The layout of counters and halves, against the generator itself.
static void
test_draws(void **state)
{
    (void)state;
    PcvrSite s = {.seed = 0x299f31d0a4093822u,
                  .site = 0x85a308d3u,
                  .index = 0x13198a2eu,
                  .step = 0x03707344u};
    uint64_t first = (uint64_t)0x243f6a88u * 8;
    static const uint32_t halves[8] = {0xcaba, 0x4dfc, 0x87f0, 0x190a,
                                       0x62ba, 0xc473, 0x242a, 0xb6b5};
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(pcvr_draw(&s, first + i), halves[i]);
    uint32_t threshold = pcvr_drop_threshold(0.3);
    assert_int_equal(threshold, 19661);
    uint8_t keep[1000];
    float x[1000], y[1000];
    for (size_t i = 0; i < 1000; i++)
        x[i] = (float)i + 1.0f;
    for (uint64_t start = 0; start < 11; start++) {
        size_t n = 1000 - 90 * (size_t)start;
        pcvr_keep_mask(keep, &s, first + start, n, threshold);
        pcvr_drop(y, x, &s, first + start, n, threshold, pcvr_drop_scale(0.3));
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(keep[i], pcvr_keeps(&s, first + start + i, threshold));
            assert_true(y[i] == (keep[i] ? x[i] * (float)(1.0 / 0.7) : 0.0f));
        }
    }
}

static void
test_drop_rates(void **state)
{
    (void)state;
    PcvrSite s = {.seed = 42, .site = 3, .index = 9, .step = 1};
    enum { N = 100000 };
    static uint8_t keep[N];
    size_t kept = 0;
    pcvr_keep_mask(keep, &s, 0, N, pcvr_drop_threshold(0.02));
    for (size_t i = 0; i < N; i++)
        kept += keep[i];
    assert_true(kept > 97800 && kept < 98200);
    pcvr_keep_mask(keep, &s, 5, N, pcvr_drop_threshold(1.0));
    for (size_t i = 0; i < N; i++)
        assert_int_equal(keep[i], 0);
    pcvr_keep_mask(keep, &s, 5, N, pcvr_drop_threshold(0.0));
    for (size_t i = 0; i < N; i++)
        assert_int_equal(keep[i], 1);
    float x[3] = {INFINITY, 1.0f, -2.0f}, y[3];
    pcvr_drop(y, x, &s, 0, 3, pcvr_drop_threshold(1.0), pcvr_drop_scale(1.0));
    assert_true(y[0] == 0.0f && y[1] == 0.0f && y[2] == 0.0f);
}

static void
moments(const float *x, int64_t n, double *mean, double *std, double *largest)
{
    double sum = 0.0, square = 0.0;
    *largest = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i];
        square += (double)x[i] * (double)x[i];
        *largest = fmax(*largest, fabs((double)x[i]));
    }
    *mean = sum / (double)n;
    *std = sqrt(square / (double)n - *mean * *mean);
}

static void
test_init(void **state)
{
    (void)state;
    enum { R = 300, C = 200, N = R * C };
    static const struct {
        pcvr_init init;
        double value, std, largest;
    } checks[] = {
        {PCVR_INIT_UNIFORM, 0.25, 0.25 / 1.7320508075688772, 0.25},
        {PCVR_INIT_NORMAL, 0.02, 0.02, 0.02 * 6},
        {PCVR_INIT_XAVIER_NORMAL, 0, 0.06324555320336759, 0.4},
        {PCVR_INIT_XAVIER_UNIFORM, 0, 0.06324555320336759, 0.10954451150103323},
    };
    static float a[N], b[N];
    for (size_t k = 0; k < sizeof checks / sizeof *checks; k++) {
        pcvr_param p = {.name = "a.weight",
                        .rank = 2,
                        .shape = {R, C},
                        .size = N,
                        .init = checks[k].init,
                        .init_value = checks[k].value};
        double mean, std, largest;
        pcvr_init_fill(a, &p, 7);
        moments(a, N, &mean, &std, &largest);
        assert_true(close_to(mean, 0.0, checks[k].std * 0.02));
        assert_true(close_to(std, checks[k].std, checks[k].std * 0.02));
        assert_true(largest <= checks[k].largest && largest > checks[k].std * 1.6);
        pcvr_param half = p;
        half.shape[0] = R / 2;
        half.size = N / 2;
        if (checks[k].init == PCVR_INIT_UNIFORM || checks[k].init == PCVR_INIT_NORMAL) {
            pcvr_init_fill(b, &half, 7);
            assert_memory_equal(a, b, sizeof *b * N / 2);
        }
        pcvr_init_fill(b, &p, 8);
        assert_memory_not_equal(a, b, sizeof a);
        p.name = "b.weight";
        pcvr_init_fill(b, &p, 7);
        assert_memory_not_equal(a, b, sizeof a);
        p.name = "a.weight";
        p.flags = PCVR_PARAM_TABLE | PCVR_PARAM_PADDING;
        pcvr_init_fill(b, &p, 7);
        for (int i = 0; i < C; i++)
            assert_true(b[i] == 0.0f);
        assert_memory_equal(a + C, b + C, sizeof *a * (N - C));
    }
    pcvr_param p = {.name = "c",
                    .rank = 1,
                    .shape = {3},
                    .size = 3,
                    .init = PCVR_INIT_CONSTANT,
                    .init_value = -0.5};
    pcvr_init_fill(a, &p, 7);
    assert_true(a[0] == -0.5f && a[2] == -0.5f);
    p.init = PCVR_INIT_ONES;
    pcvr_init_fill(a, &p, 7);
    assert_true(a[0] == 1.0f && a[2] == 1.0f);
    p.init = PCVR_INIT_ZEROS;
    pcvr_init_fill(a, &p, 7);
    assert_true(a[0] == 0.0f && a[2] == 0.0f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_philox_vectors),
        cmocka_unit_test(test_draws),   cmocka_unit_test(test_drop_rates),
        cmocka_unit_test(test_init),
    };
    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}

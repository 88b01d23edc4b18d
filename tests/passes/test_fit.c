// test_fit.c - what blocks keep fits: a thread stays within its bytes where it can, and the more it has, the more
// is kept and the less is recomputed.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "ops.h"
#include "pcvrc.h"
#include "tile.h"

typedef struct Fit {
    int64_t bytes, kept; // of a thread, of a sample
    double recomputed;   // operations of a sample
} Fit;

static Fit
fit(const char *model, const char *choice, int64_t thread_bytes)
{
    char path[64];
    snprintf(path, sizeof path, "models/%s.pcvr", model);
    Compile c;
    assert_int_equal(compile_open(&c, path, NULL, 0), 0);
    assert_int_equal(compile_schema(&c, "models/official.json"), 0);
    assert_int_equal(compile_graph(&c), 0);
    c.graph->thread_bytes = thread_bytes;
    assert_int_equal(compile_passes(&c, choice, true, NULL, NULL), 0);
    Fit f = {0};
    for (int i = 0; i < c.graph->n_nodes; i++)
        if (c.graph->nodes[i]->part == PART_RECOMPUTE)
            f.recomputed += op_info[c.graph->nodes[i]->op].flops(c.graph->nodes[i]);
    Tiles *t = compile_tiles(&c);
    f.kept = t->kept_bytes;
    f.bytes = t->chunk * t->kept_bytes + t->scratch_bytes;
    compile_close(&c);
    return f;
}

static void
check_model(const char *model)
{
    const Fit all = fit(model, "blocks", INT64_MAX), least = fit(model, "*", 0);
    assert_true(least.kept < all.kept && all.recomputed < least.recomputed);
    Fit before = least;
    int within = 0;
    for (int64_t mib = 8; mib <= 64; mib += 8) {
        Fit f = fit(model, "blocks", mib << 20);
        printf("%s in %d MiB: %lld bytes, %lld kept, %.0f recomputed\n", model, (int)mib, (long long)f.bytes,
               (long long)f.kept, f.recomputed);
        if (f.bytes <= mib << 20)
            within++;
        else // nothing more than what enters
            assert_true(within == 0 && f.kept == least.kept);
        assert_true(f.kept >= before.kept && f.recomputed <= before.recomputed);
        before = f;
    }
    assert_true(within >= 3 && before.kept == all.kept && before.recomputed == all.recomputed);
}

static void
test_models(void **state)
{
    (void)state;
    check_model("dualq");
    check_model("interformer");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

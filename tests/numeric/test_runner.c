// test_runner.c - a hand-written module under every number of threads and chunk, against
// plain loops.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "init.h"
#include "numbers.h"
#include "toy_module.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

// ---- a batch and its gradients by plain loops -----------------------------------------

enum { MAX_B = 200 };

typedef struct Fixture {
    int64_t B;
    pcvr_batch batch;
    pcvr_domain domain;
    int64_t values[MAX_B * TOY_L], lengths[MAX_B], times[MAX_B * TOY_L], label[MAX_B];
    float dense[MAX_B * TOY_U];
} Fixture;

static void
fixture_fill(Fixture *f, int64_t B)
{
    uint64_t h = pcvr_name_hash("test_runner");
    *f = (Fixture){.B = B};
    for (int64_t s = 0; s < B; s++) {
        f->lengths[s] = (int64_t)(pcvr_number_bits(h, (uint64_t)s) >> 32) % (TOY_L + 1);
        f->label[s] = s % 3 == 0;
        for (int64_t j = 0; j < f->lengths[s]; j++)
            f->values[s * TOY_L + j] =
                (int64_t)(pcvr_number_bits(h + 1, (uint64_t)(s * TOY_L + j)) >> 32) %
                TOY_V;
    }
    pcvr_number_fill(f->dense, 0, (size_t)(B * TOY_U), "dense", 0.0, 1.0);
    f->domain = (pcvr_domain){f->values, f->lengths, f->times};
    f->batch = (pcvr_batch){.size = B,
                            .user_dense = f->dense,
                            .n_domains = 1,
                            .domains = &f->domain,
                            .label = f->label};
}

static void
params_fill(pcvr_runner *r, const pcvr_module *m)
{
    for (int p = 0; p < m->n_params; p++)
        pcvr_number_fill(pcvr_runner_param(r, p), 0, (size_t)m->params[p].size,
                         m->params[p].name, 0.1, 0.7);
    memset(pcvr_runner_param(r, 3), 0, TOY_D * sizeof(float));
    pcvr_runner_prepare(r);
}

// Squared error against the label, mean over the batch: as good as any loss here.
static void
toy_loss(void *arg, int64_t first, int64_t count, const float *logits, float *dlogits)
{
    const Fixture *f = arg;
    for (int64_t s = first; s < first + count; s++)
        dlogits[s] = 2.0f * (logits[s] - (float)f->label[s]) / (float)f->B;
}

typedef struct Result {
    float logits[MAX_B];
    float dense[4][20];
    int64_t n, ids[TOY_V];
    float rows[TOY_V][TOY_D];
} Result;

static void
result_take(Result *out, pcvr_runner *r)
{
    static const int dense[4] = {0, 1, 2, 4};
    for (int k = 0; k < 4; k++) {
        const float *g = pcvr_runner_grad(r, dense[k]);
        assert_non_null(g);
        memcpy(out->dense[k], g, (size_t)toy_params[dense[k]].size * sizeof(float));
    }
    assert_null(pcvr_runner_grad(r, 3));
    pcvr_sparse s = pcvr_runner_rows(r, 3);
    out->n = s.n;
    assert_in_range(s.n, 0, TOY_V);
    memcpy(out->ids, s.ids, (size_t)s.n * sizeof *s.ids);
    memcpy(out->rows, s.values, (size_t)s.n * sizeof out->rows[0]);
}

static void
run_step(Result *out, Fixture *f, const pcvr_module *m, pcvr_options o, bool coupled)
{
    pcvr_runner *r;
    char err[256] = "";
    int64_t room = f->B < 4 ? 4 : f->B;
    memset(out, 0, sizeof *out);
    assert_int_equal(pcvr_runner_new(m, room, &o, &r, err, sizeof err), PCVR_OK);
    params_fill(r, m);
    for (int k = 0; k < 2; k++) // the second step must not see the first
        assert_int_equal(
            pcvr_runner_step(r, &f->batch, toy_loss, f, coupled, true, 1, 2, out->logits),
            PCVR_OK);
    result_take(out, r);
    assert_null(pcvr_runner_overrun(r));
    pcvr_runner_free(r);
}

// The rules of the interface, written out: lanes, the tree, uses from zero, rows by lane.
static void
plain_step(Result *out, const Fixture *f, int64_t lanes)
{
    float w[TOY_D], v[TOY_U], b, e[TOY_V * TOY_D], acc[64][64] = {{0}};
    static float rows[64][TOY_V][TOY_D];
    static bool seen[64][TOY_V];
    pcvr_number_fill(w, 0, TOY_D, "w", 0.1, 0.7);
    pcvr_number_fill(v, 0, TOY_U, "v", 0.1, 0.7);
    pcvr_number_fill(&b, 0, 1, "b", 0.1, 0.7);
    pcvr_number_fill(e, 0, TOY_V * TOY_D, "table", 0.1, 0.7);
    memset(e, 0, TOY_D * sizeof *e);
    memset(rows, 0, sizeof rows);
    memset(seen, 0, sizeof seen);
    memset(out, 0, sizeof *out);
    for (int64_t l = 0; l < lanes; l++) {
        for (int64_t s = l * f->B / lanes; s < (l + 1) * f->B / lanes; s++) {
            float sum[TOY_D] = {0}, h[TOY_D], z = 0.0f;
            const int64_t *ids = f->values + s * TOY_L;
            for (int64_t j = 0; j < f->lengths[s]; j++)
                for (int d = 0; d < TOY_D; d++)
                    sum[d] += e[ids[j] * TOY_D + d];
            for (int d = 0; d < TOY_D; d++) {
                h[d] = tanhf(sum[d]);
                z += w[d] * h[d];
            }
            for (int u = 0; u < TOY_U; u++)
                z += v[u] * f->dense[s * TOY_U + u];
            out->logits[s] = z + b + b * b;
            float g = 2.0f * (out->logits[s] - (float)f->label[s]) / (float)f->B;
            for (int d = 0; d < TOY_D; d++)
                acc[l][d] += g * h[d];
            for (int u = 0; u < TOY_U; u++)
                acc[l][16 + u] += g * f->dense[s * TOY_U + u];
            acc[l][32] += g;
            acc[l][48] += g * 2.0f * b;
            for (int64_t j = 0; j < f->lengths[s]; j++) {
                seen[l][ids[j]] = true;
                for (int d = 0; d < TOY_D; d++)
                    rows[l][ids[j]][d] += g * w[d] * (1.0f - h[d] * h[d]);
            }
        }
    }
    for (int64_t stride = 1; stride < lanes; stride *= 2)
        for (int64_t l = 0; l + stride < lanes; l += 2 * stride)
            for (int k = 0; k < 64; k++)
                acc[l][k] += acc[l + stride][k];
    memcpy(out->dense[0], acc[0], TOY_D * sizeof(float));
    memcpy(out->dense[1], acc[0] + 16, TOY_U * sizeof(float));
    out->dense[2][0] = acc[0][32] + acc[0][48];
    for (int64_t id = 1; id < TOY_V; id++) {
        int64_t at = out->n;
        for (int64_t l = 0; l < lanes; l++) {
            if (!seen[l][id])
                continue;
            if (out->n == at) {
                out->ids[out->n++] = id;
                memcpy(out->rows[at], rows[l][id], sizeof rows[l][id]);
            } else {
                for (int d = 0; d < TOY_D; d++)
                    out->rows[at][d] += rows[l][id][d];
            }
        }
    }
}

// ---- tests ----------------------------------------------------------------------------

static void
same_bits_everywhere(void **state)
{
    (void)state;
    static Fixture f;
    static const int64_t sizes[] = {64, 67, 5, 1, 0}, lanes[] = {8, 1, 2, 3};
    static const int64_t chunks[] = {1, 2, 3, 0, PCVR_CHUNK_BATCH};
    static const int threads[] = {1, 2, 4};
    int compared = 0;
    for (size_t b = 0; b < 5; b++) {
        fixture_fill(&f, sizes[b]);
        for (size_t l = 0; l < 4; l++) {
            Result want, got;
            plain_step(&want, &f, lanes[l]);
            for (int k = 0; k < 5 * 3 * 2; k++) {
                pcvr_options o = {.lanes = (int)lanes[l],
                                  .threads = threads[k % 3],
                                  .chunk = chunks[k / 3 % 5]};
                run_step(&got, &f, &toy_module, o, k / 15 == 1);
                assert_memory_equal(&want, &got, sizeof want);
                compared++;
            }
        }
    }
    assert_int_equal(compared, 5 * 4 * 30);
    fixture_fill(&f, 64);
    Result eight, three;
    run_step(&eight, &f, &toy_module, (pcvr_options){.threads = 1}, false);
    run_step(&three, &f, &toy_module, (pcvr_options){.threads = 1, .lanes = 3}, false);
    assert_memory_not_equal(eight.dense, three.dense, sizeof eight.dense);
}

// How many lanes a batch has says the batch alone: not the threads, and not the chunk.
static void
lanes_follow_from_the_batch(void **state)
{
    (void)state;
    static const int64_t want[][2] = {{1, 4},  {32, 4}, {39, 4}, {40, 5},
                                      {63, 7}, {64, 8}, {65, 8}, {4096, 8}};
    for (size_t k = 0; k < sizeof want / sizeof *want; k++)
        for (int o = 0; o < 6; o++) {
            pcvr_plan p;
            pcvr_options with = {.threads = 1 + 15 * (o % 2), .chunk = o / 2};
            assert_int_equal(pcvr_plan_bytes(&toy_module, want[k][0], &with, &p),
                             PCVR_OK);
            assert_int_equal(p.lanes, want[k][1]);
            with.forward_only = true;
            assert_int_equal(pcvr_plan_bytes(&toy_module, want[k][0], &with, &p),
                             PCVR_OK);
            assert_int_equal(p.lanes, 8);
        }
}

static void
forward_equals_step(void **state)
{
    (void)state;
    static Fixture f;
    fixture_fill(&f, 67);
    Result want;
    plain_step(&want, &f, 8);
    for (int only = 0; only < 2; only++) {
        pcvr_runner *r;
        char err[256];
        float logits[MAX_B] = {0};
        pcvr_options o = {.threads = 2, .chunk = 3, .forward_only = only == 1};
        assert_int_equal(pcvr_runner_new(&toy_module, 67, &o, &r, err, sizeof err), 0);
        params_fill(r, &toy_module);
        assert_int_equal(pcvr_runner_forward(r, &f.batch, logits, NULL), PCVR_OK);
        assert_memory_equal(logits, want.logits, 67 * sizeof(float));
        int rc = pcvr_runner_step(r, &f.batch, toy_loss, &f, false, true, 0, 0, logits);
        assert_int_equal(rc, only == 1 ? PCVR_EINVAL : PCVR_OK);
        pcvr_runner_free(r);
    }
}

// Planned and measured bytes after one step of B samples.
static void
measure(const pcvr_module *m, int64_t B, pcvr_options o, int64_t room, int64_t *planned,
        int64_t *measured, const char **overrun)
{
    static Fixture f;
    pcvr_runner *r;
    char err[256];
    float logits[MAX_B];
    fixture_fill(&f, B);
    assert_int_equal(pcvr_runner_new(m, room, &o, &r, err, sizeof err), PCVR_OK);
    params_fill(r, m);
    assert_int_equal(
        pcvr_runner_step(r, &f.batch, toy_loss, &f, false, true, 1, 1, logits), 0);
    pcvr_plan p;
    assert_int_equal(pcvr_plan_bytes(m, room, &o, &p), PCVR_OK);
    assert_memory_equal(&p, pcvr_runner_plan(r), sizeof p);
    assert_int_equal(p.planned_peak_bytes, p.parameter_bytes + p.gradient_bytes +
                                               p.row_store_bytes + p.input_bytes +
                                               p.activation_bytes);
    *planned = p.planned_peak_bytes;
    *measured = pcvr_runner_measured(r);
    *overrun = pcvr_runner_overrun(r);
    pcvr_runner_free(r);
}

static void
measured_equals_planned(void **state)
{
    (void)state;
    int64_t planned, measured;
    const char *overrun;
    static const int64_t chunks[] = {1, 2, 8, PCVR_CHUNK_BATCH};
    for (int k = 0; k < 4 * 3; k++) {
        pcvr_options o = {.threads = 1 << k / 4, .chunk = chunks[k % 4]};
        measure(&toy_module, 67, o, 67, &planned, &measured, &overrun);
        assert_int_equal(planned, measured);
        assert_null(overrun);
        measure(&toy_module, 7, o, 67, &planned, &measured, &overrun);
        assert_true(measured < planned);
    }
    // A smaller chunk keeps less.
    pcvr_plan one, all;
    assert_int_equal(pcvr_plan_bytes(&toy_module, 64, &(pcvr_options){.chunk = 1}, &one),
                     0);
    assert_int_equal(pcvr_plan_bytes(&toy_module, 64, &(pcvr_options){.chunk = -1}, &all),
                     0);
    assert_int_equal(all.activation_bytes - one.activation_bytes,
                     (64 - one.threads) * 64);
}

static void
small_plan_is_seen(void **state)
{
    (void)state;
    int64_t planned, measured;
    const char *overrun;
    pcvr_module m = toy_module;
    m.scratch_bytes = 64; // forward writes 128
    if (SANITIZED)        // the sanitizer would stop at the write itself
        return;
    measure(&m, 64, (pcvr_options){.threads = 1}, 64, &planned, &measured, &overrun);
    assert_int_equal(measured, planned + 64);
    assert_non_null(overrun);
    assert_string_equal(overrun, "scratch");
}

static void
large_plan_is_seen(void **state)
{
    (void)state;
    int64_t planned, measured;
    const char *overrun;
    pcvr_module m = toy_module;
    m.scratch_bytes += 64;
    measure(&m, 64, (pcvr_options){.threads = 2}, 64, &planned, &measured, &overrun);
    assert_int_equal(measured, planned - 2 * 64);
}

static void
steps_allocate_nothing(void **state)
{
    (void)state;
    static Fixture f;
    pcvr_runner *r;
    char err[256];
    float logits[MAX_B];
    fixture_fill(&f, 67);
    assert_int_equal(pcvr_runner_new(&toy_module, 67,
                                     &(pcvr_options){.threads = 2, .clock = true}, &r,
                                     err, sizeof err),
                     PCVR_OK);
    params_fill(r, &toy_module);
    size_t before = 0;
    for (int k = 0; k < 50; k++) {
        assert_int_equal(pcvr_runner_step(r, &f.batch, toy_loss, &f, k % 2 == 1, true, 1,
                                          (uint32_t)k, logits),
                         PCVR_OK);
        if (k == 1 && !SANITIZED)
            before = mallinfo2().uordblks;
    }
    if (!SANITIZED)
        assert_int_equal(mallinfo2().uordblks, before);
    double seconds = -1.0;
    pcvr_runner_clock(r, &seconds);
    assert_true(seconds > 0.0);
    pcvr_runner_clock(r, &seconds);
    assert_true(seconds >= 0.0 && seconds <= 0.0);
    pcvr_runner_free(r);
}

static void
bad_arguments(void **state)
{
    (void)state;
    static Fixture f;
    pcvr_runner *r;
    char err[256];
    float logits[MAX_B];
    pcvr_module m = toy_module;
    m.abi = PCVR_ABI + 1;
    assert_int_equal(pcvr_runner_new(&m, 8, NULL, &r, err, sizeof err), PCVR_EABI);
    assert_null(r);
    m = toy_module;
    m.isa = "vax";
    assert_int_equal(pcvr_runner_new(&m, 8, NULL, &r, err, sizeof err), PCVR_EISA);
    m = toy_module;
    m.acc_floats = 40; // the last use lies outside
    assert_int_equal(pcvr_runner_new(&m, 8, NULL, &r, err, sizeof err), PCVR_EFORMAT);
    assert_non_null(strstr(err, "accumulator 3"));
    assert_int_equal(pcvr_runner_new(&toy_module, -1, NULL, &r, err, sizeof err),
                     PCVR_EINVAL);
    m = toy_module;
    m.kept_bytes = (int64_t)1 << 46;
    assert_int_equal(pcvr_runner_new(&m, 8, NULL, &r, err, sizeof err), PCVR_ENOMEM);
    assert_non_null(strstr(err, "smaller batch"));

    fixture_fill(&f, 20);
    assert_int_equal(pcvr_runner_new(&toy_module, 16, NULL, &r, err, sizeof err),
                     PCVR_OK);
    params_fill(r, &toy_module);
    assert_int_equal(pcvr_runner_forward(r, &f.batch, logits, NULL), PCVR_EINVAL);
    fixture_fill(&f, 16);
    f.lengths[9] = 1;
    f.values[9 * TOY_L] = TOY_BAD_ID;
    assert_int_equal(pcvr_runner_forward(r, &f.batch, logits, NULL), PCVR_EINVAL);
    assert_int_equal(
        pcvr_runner_step(r, &f.batch, toy_loss, &f, false, false, 0, 0, logits),
        PCVR_EINVAL);
    f.values[9 * TOY_L] = 1;
    assert_int_equal(
        pcvr_runner_step(r, &f.batch, toy_loss, &f, false, false, 0, 0, logits), PCVR_OK);
    pcvr_runner_free(r);
}

// A model that looks behind the length of a sequence.
static int
leaky_gather(const pcvr_ctx *c)
{
    int rc = toy_gather(c);
    for (int64_t k = 0; k < c->count; k++) {
        ToyInput *in = (ToyInput *)c->inputs + k;
        in->dense[0] +=
            (float)c->batch->domains[0].values[(c->first + k) * TOY_L + TOY_L - 1];
    }
    return rc;
}

static void
poison_shows_leaks(void **state)
{
    (void)state;
    static Fixture f;
    Result clean, poisoned;
    fixture_fill(&f, 40);
    for (int chunk = -1; chunk < 3; chunk++) {
        pcvr_options o = {.threads = 2, .chunk = chunk};
        run_step(&clean, &f, &toy_module, o, false);
        o.poison = true;
        run_step(&poisoned, &f, &toy_module, o, false);
        assert_memory_equal(&clean, &poisoned, sizeof clean);
        pcvr_module m = toy_module;
        m.gather_inputs = leaky_gather;
        run_step(&clean, &f, &m, (pcvr_options){.threads = 2, .chunk = chunk}, false);
        run_step(&poisoned, &f, &m, o, false);
        assert_memory_not_equal(clean.logits, poisoned.logits, sizeof clean.logits);
    }
}

// The product of two subnormal-making factors is zero inside a module, and the caller's
// mode stays.
static void
tiny_forward(const pcvr_ctx *c)
{
    volatile float tiny = 1e-30f, also = 1e-12f;
    for (int64_t k = 0; k < c->count; k++)
        c->logits[c->first + k] = tiny * also;
}

static void
subnormals_are_zero(void **state)
{
    (void)state;
#if defined(__x86_64__)
    static Fixture f;
    pcvr_runner *r;
    char err[256];
    float logits[MAX_B];
    pcvr_module m = toy_module;
    m.forward = tiny_forward;
    fixture_fill(&f, 40);
    unsigned mode = _mm_getcsr();
    for (int threads = 1; threads <= 4; threads *= 2) {
        assert_int_equal(pcvr_runner_new(&m, 40, &(pcvr_options){.threads = threads}, &r,
                                         err, sizeof err),
                         PCVR_OK);
        memset(logits, 0xff, sizeof logits);
        assert_int_equal(pcvr_runner_forward(r, &f.batch, logits, NULL), PCVR_OK);
        for (int s = 0; s < 40; s++)
            assert_true(logits[s] >= 0.0f && logits[s] <= 0.0f);
        assert_int_equal(_mm_getcsr() & 0xffc0u, mode & 0xffc0u);
        pcvr_runner_free(r);
    }
    volatile float tiny = 1e-30f, also = 1e-12f;
    assert_true(tiny * also > 0.0f);
#else
    skip();
#endif
}

static void
choices(void **state)
{
    (void)state;
    char err[256] = "";
    assert_true(pcvr_default_threads() >= 1);
    assert_true(pcvr_isa_supported("scalar"));
    assert_false(pcvr_isa_supported("vax"));
    setenv("PCVR_ISA", "scalar", 1);
    assert_string_equal(pcvr_isa_choose(err, sizeof err), "scalar");
    pcvr_module wide = toy_module;
    wide.isa = "avx2";
    const pcvr_module *list[] = {&wide, &toy_module};
    assert_ptr_equal(pcvr_module_find(list, 2, err, sizeof err), &toy_module);
    assert_null(pcvr_module_find(list, 1, err, sizeof err));
    setenv("PCVR_ISA", "mmx", 1);
    assert_null(pcvr_isa_choose(err, sizeof err));
    assert_non_null(strstr(err, "mmx"));
    unsetenv("PCVR_ISA");
    assert_true(pcvr_isa_supported(pcvr_isa_choose(err, sizeof err)));
}

// Initial values by all threads of a runner are those of each parameter by itself.
static void
test_init_threads(void **state)
{
    (void)state;
    enum { N = 5003 };
    static float want[N];
    pcvr_param params[5];
    pcvr_module m = toy_module;
    assert_int_equal(m.n_params, 5);
    memcpy(params, toy_params, sizeof params);
    for (int p = 0; p < 5; p++)
        params[p].init = p == 1 ? PCVR_INIT_CONSTANT : PCVR_INIT_NORMAL;
    params[1].init_value = params[4].init_value = 0.5;
    params[3].init = PCVR_INIT_XAVIER_UNIFORM;
    params[4].size = params[4].shape[0] = N;
    m.params = params;
    for (int threads = 1; threads <= 5; threads++) {
        pcvr_runner *r;
        char err[256];
        pcvr_options o = {.threads = threads};
        assert_int_equal(pcvr_runner_new(&m, 4, &o, &r, err, sizeof err), PCVR_OK);
        pcvr_init_params(r, &m, 11);
        for (int p = 0; p < 5; p++) {
            pcvr_init_fill(want, &params[p], 11);
            assert_memory_equal(want, pcvr_runner_param(r, p),
                                (size_t)params[p].size * sizeof *want);
        }
        pcvr_runner_free(r);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_everywhere),
        cmocka_unit_test(lanes_follow_from_the_batch),
        cmocka_unit_test(forward_equals_step),
        cmocka_unit_test(measured_equals_planned),
        cmocka_unit_test(small_plan_is_seen),
        cmocka_unit_test(large_plan_is_seen),
        cmocka_unit_test(steps_allocate_nothing),
        cmocka_unit_test(bad_arguments),
        cmocka_unit_test(poison_shows_leaks),
        cmocka_unit_test(subnormals_are_zero),
        cmocka_unit_test(choices),
        cmocka_unit_test(test_init_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

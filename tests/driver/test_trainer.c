// test_trainer.c - the trainer against a plain double precision loop; saved checkpoints.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../numeric/fixtures.h"
#include "../numeric/toy_module.h"
#include "checkpoint.h"
#include "file.h"
#include "numbers.h"
#include "safetensors.h"
#include "trainer.h"

enum { B = 21, STEPS = 12, N_DENSE = TOY_D + TOY_U + 1 };

typedef struct Raw {
    int64_t values[B * TOY_L], lengths[B], label[B];
    float dense[B * TOY_U];
    pcvr_domain domain;
    pcvr_batch batch;
} Raw;

static void
make_batch(Raw *r, uint64_t seed)
{
    uint64_t h = pcvr_name_hash("trainer") + seed * 1000003;
    for (int i = 0; i < B * TOY_L; i++)
        r->values[i] = 1 + (int64_t)(pcvr_number_bits(h, (uint64_t)i) % (TOY_V - 1));
    for (int i = 0; i < B; i++) {
        r->lengths[i] = (int64_t)(pcvr_number_bits(h, (uint64_t)i + 1000) % (TOY_L + 1));
        r->label[i] = (int64_t)(pcvr_number_bits(h, (uint64_t)i + 2000) % 2);
    }
    for (int i = 0; i < B * TOY_U; i++)
        r->dense[i] = (float)pcvr_number(h, (uint64_t)i + 3000);
    r->domain = (pcvr_domain){.values = r->values, .lengths = r->lengths};
    r->batch = (pcvr_batch){.size = B,
                            .user_dense = r->dense,
                            .n_domains = 1,
                            .domains = &r->domain,
                            .label = r->label};
}

static const PcvrLossTerm bce = {.kind = PCVR_LOSS_BCE, .weight = 1.0};

static TrainerOptions
options(double clip)
{
    return (TrainerOptions){.terms = (PcvrLossTerm *)(uintptr_t)&bce,
                            .n_terms = 1,
                            .lr = 0.05,
                            .sparse_lr = 0.1,
                            .schedule = PCVR_SCHEDULE_LINEAR,
                            .warmup = 3,
                            .max_steps = STEPS,
                            .min_lr_ratio = 0.2,
                            .clip = clip};
}

static void
fill_params(float *const *params)
{
    for (int i = 0; i < toy_module.n_params; i++)
        pcvr_number_fill(params[i], 0, (size_t)toy_params[i].size, toy_params[i].name,
                         0.0, 0.5);
    memset(params[3], 0, TOY_D * sizeof(float));
}

// The toy model and its optimisers in double, written out.
typedef struct Plain {
    double dense[N_DENSE], m[N_DENSE], v[N_DENSE]; // w, v, b
    double table[TOY_V * TOY_D], acc[TOY_V * TOY_D];
    int t;
} Plain;

static double
plain_gradient(const Plain *p, const Raw *r, double *gd, double *gt, double *entries)
{
    double loss = 0.0;
    memset(gd, 0, N_DENSE * sizeof *gd);
    memset(gt, 0, TOY_V * TOY_D * sizeof *gt);
    for (int s = 0; s < B; s++) {
        double h[TOY_D] = {0}, b = p->dense[7], z = b + b * b;
        for (int j = 0; j < r->lengths[s]; j++)
            for (int d = 0; d < TOY_D; d++)
                h[d] += p->table[r->values[s * TOY_L + j] * TOY_D + d];
        for (int d = 0; d < TOY_D; d++) {
            h[d] = tanh(h[d]);
            z += p->dense[d] * h[d];
        }
        for (int u = 0; u < TOY_U; u++)
            z += p->dense[TOY_D + u] * (double)r->dense[s * TOY_U + u];
        double y = (double)r->label[s], g = (1.0 / (1.0 + exp(-z)) - y) / B;
        loss += log1p(exp(z)) - y * z;
        for (int d = 0; d < TOY_D; d++)
            gd[d] += g * h[d];
        for (int u = 0; u < TOY_U; u++)
            gd[TOY_D + u] += g * (double)r->dense[s * TOY_U + u];
        gd[7] += g * (1.0 + 2.0 * b);
        for (int j = 0; j < r->lengths[s]; j++)
            for (int d = 0; d < TOY_D; d++) {
                double dx = g * p->dense[d] * (1.0 - h[d] * h[d]);
                gt[r->values[s * TOY_L + j] * TOY_D + d] += dx;
                *entries += dx * dx;
            }
    }
    return loss / B;
}

static double
plain_step(Plain *p, const Raw *r, const TrainerOptions *o, double *norm)
{
    double gd[N_DENSE], gt[TOY_V * TOY_D], sum = 0.0;
    double loss = plain_gradient(p, r, gd, gt, &sum);
    for (int i = 0; i < N_DENSE; i++)
        sum += gd[i] * gd[i];
    *norm = sqrt(sum);
    double c =
        o->clip > 0.0 && o->clip / (*norm + 1e-6) < 1.0 ? o->clip / (*norm + 1e-6) : 1.0;
    double lr = o->lr * (++p->t <= 3 ? p->t / 3.0 : 0.2 + 0.8 * (1.0 - (p->t - 3) / 9.0));
    for (int i = 0; i < N_DENSE; i++) {
        double g = gd[i] * c;
        p->m[i] = 0.9 * p->m[i] + 0.1 * g;
        p->v[i] = 0.98 * p->v[i] + 0.02 * g * g;
        p->dense[i] -= lr * 0.01 * p->dense[i];
        p->dense[i] -= lr * p->m[i] / (1.0 - pow(0.9, p->t)) /
                       (sqrt(p->v[i] / (1.0 - pow(0.98, p->t))) + 1e-8);
    }
    for (int i = 0; i < TOY_V * TOY_D; i++) {
        double g = gt[i] * c;
        p->acc[i] += g * g;
        p->table[i] -= o->sparse_lr * g / (sqrt(p->acc[i]) + 1e-10);
    }
    return loss;
}

static void
plain_start(Plain *p, float *const *params)
{
    memset(p, 0, sizeof *p);
    for (int i = 0; i < TOY_D; i++)
        p->dense[i] = (double)params[0][i];
    for (int i = 0; i < TOY_U; i++)
        p->dense[TOY_D + i] = (double)params[1][i];
    p->dense[7] = (double)params[2][0];
    for (int i = 0; i < TOY_V * TOY_D; i++)
        p->table[i] = (double)params[3][i];
}

static void
start(Trainer *t, const TrainerOptions *o, int threads, int64_t chunk)
{
    PcvrError err = {{0}};
    pcvr_options run = {.threads = threads, .chunk = chunk};
    if (!trainer_new(t, &toy_module, B, &run, o, &err))
        fail_msg("%s", err.text);
    fill_params(t->params);
    trainer_changed(t);
}

static void
check_training(double clip)
{
    Trainer t;
    TrainerOptions o = options(clip);
    Plain p;
    Raw r;
    int clipped = 0;
    start(&t, &o, 2, 3);
    plain_start(&p, t.params);
    for (int k = 0; k < STEPS; k++) {
        TrainerStep out;
        double norm;
        make_batch(&r, (uint64_t)k);
        assert_true(trainer_step(&t, &r.batch, k, &out, NULL));
        double loss = plain_step(&p, &r, &o, &norm);
        assert_true(out.applied);
        assert_true(close_to(out.loss, loss, 1e-6));
        assert_true(close_to(trainer_term(&t, 0), loss, 1e-6));
        assert_true(close_to(out.norm, norm, 1e-6));
        clipped += clip > 0.0 && norm > clip;
    }
    assert_true(clip > 0.0 ? clipped > STEPS / 2 : clipped == 0);
    for (int i = 0; i < TOY_D; i++)
        assert_true(close_to((double)t.params[0][i], p.dense[i], 2e-5));
    for (int i = 0; i < TOY_U; i++)
        assert_true(close_to((double)t.params[1][i], p.dense[TOY_D + i], 2e-5));
    assert_true(close_to((double)t.params[2][0], p.dense[7], 2e-5));
    for (int i = 0; i < TOY_V * TOY_D; i++)
        assert_true(close_to((double)t.params[3][i], p.table[i], 2e-5));
    float untouched[20];
    pcvr_number_fill(untouched, 0, 20, "unused", 0.0, 0.5);
    assert_memory_equal(untouched, t.params[4], sizeof untouched);
    trainer_free(&t);
}

static void
test_training(void **state)
{
    (void)state;
    check_training(0.0);
    check_training(0.05);
}

// The same bits for every number of threads and every chunk.
static void
test_same_bits(void **state)
{
    (void)state;
    static const struct {
        int threads;
        int64_t chunk;
    } ways[] = {{1, 8}, {2, 1}, {4, 2}, {2, PCVR_CHUNK_BATCH}};
    float first[TOY_V * TOY_D];
    for (size_t k = 0; k < 4; k++) {
        Trainer t;
        TrainerOptions o = options(1.0);
        Raw r;
        TrainerStep out;
        start(&t, &o, ways[k].threads, ways[k].chunk);
        for (int i = 0; i < 5; i++) {
            make_batch(&r, (uint64_t)i);
            assert_true(trainer_step(&t, &r.batch, i, &out, NULL));
        }
        if (k == 0)
            memcpy(first, t.params[3], sizeof first);
        assert_memory_equal(first, t.params[3], sizeof first);
        trainer_free(&t);
    }
}

// A loss that is not finite changes nothing, and the optimiser's step stays.
static void
test_not_finite(void **state)
{
    (void)state;
    Trainer t;
    TrainerOptions o = options(1.0);
    Raw r;
    TrainerStep out;
    float before[TOY_V * TOY_D];
    start(&t, &o, 1, 8);
    make_batch(&r, 1);
    memcpy(before, t.params[3], sizeof before);
    r.dense[4] = NAN;
    assert_true(trainer_step(&t, &r.batch, 0, &out, NULL));
    assert_false(out.applied);
    assert_true(isnan(out.loss));
    assert_int_equal(t.step, 0);
    assert_memory_equal(before, t.params[3], sizeof before);
    make_batch(&r, 1);
    assert_true(trainer_step(&t, &r.batch, 1, &out, NULL));
    assert_true(out.applied);
    assert_int_equal(t.step, 1);
    r.values[0] = TOY_BAD_ID;
    r.lengths[0] = 1;
    PcvrError err = {{0}};
    assert_false(trainer_step(&t, &r.batch, 2, &out, &err));
    assert_non_null(strstr(err.text, "step 3"));
    trainer_free(&t);
}

static void
test_shadow(void **state)
{
    (void)state;
    Trainer t;
    TrainerOptions o = options(0.0);
    Raw r;
    TrainerStep out;
    o.ema = true;
    o.ema_decay = 0.75;
    o.ema_every = 1;
    start(&t, &o, 1, 8);
    float w0 = t.params[0][0];
    make_batch(&r, 1);
    assert_true(trainer_step(&t, &r.batch, 0, &out, NULL));
    float w1 = t.params[0][0];
    assert_true(w1 != w0);
    trainer_swap(&t);
    assert_true(
        close_to((double)t.params[0][0], 0.75 * (double)w0 + 0.25 * (double)w1, 1e-7));
    trainer_swap(&t);
    assert_true(t.params[0][0] == w1);
    trainer_free(&t);
}

static void
test_checkpoints(void **state)
{
    (void)state;
    Trainer t, u;
    TrainerOptions o = options(0.0);
    PcvrError err = {{0}};
    char dir[64], path[128];
    CheckpointFile files[] = {{"schema.json", "{}\n", 3}};
    snprintf(dir, sizeof dir, "/tmp/pcvr_ckpt_%ld", (long)getpid());
    start(&t, &o, 1, 8);
    start(&u, &o, 1, 8);
    for (int k = 0; k < 3; k++) {
        snprintf(path, sizeof path, "%s/global_step%d.AUC=0.%d", dir, k == 1 ? 30 : k,
                 9 - k);
        t.params[2][0] = (float)k;
        if (!checkpoint_save(path, &toy_module, t.params, files, 1, &err))
            fail_msg("%s", err.text);
    }
    assert_true(checkpoint_save(path, &toy_module, t.params, files, 1, &err));
    char *found = checkpoint_find(dir, &err);
    snprintf(path, sizeof path, "%s/global_step30.AUC=0.8/model.safetensors", dir);
    assert_string_equal(found, path);
    assert_true(checkpoint_load(found, &toy_module, u.params, &err));
    assert_true(u.params[2][0] == 1.0f);
    assert_memory_equal(u.params[3], t.params[3], TOY_V * TOY_D * sizeof(float));
    char *beside = checkpoint_beside(found, "schema.json");
    size_t n;
    char *text = pcvr_file_read(beside, &n, &err);
    assert_string_equal(text, "{}\n");
    free(text);
    free(beside);
    // Strict: a missing and an extra tensor, another shape; a padding row that is not
    // zero.
    int64_t shape[2] = {TOY_V, TOY_D};
    PcvrTensor extra[] = {{.name = "table",
                           .type = PCVR_T_F32,
                           .rank = 2,
                           .shape = shape,
                           .data = t.params[3]}};
    assert_true(pcvr_safetensors_write(path, extra, 1, &err));
    assert_false(checkpoint_load(path, &toy_module, u.params, &err));
    assert_non_null(strstr(err.text, "tensor 'w' is missing"));
    assert_false(checkpoint_load("/nonexistent", &toy_module, u.params, &err));
    assert_null(checkpoint_find("/nonexistent", &err));
    free(found);
    snprintf(path, sizeof path, "rm -rf '%s'", dir);
    assert_int_equal(system(path), 0);
    trainer_free(&t);
    trainer_free(&u);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),    cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_not_finite),  cmocka_unit_test(test_shadow),
        cmocka_unit_test(test_checkpoints),
    };
    return cmocka_run_group_tests_name("trainer", tests, NULL, NULL);
}

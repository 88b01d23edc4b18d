// host.c - a program with two configurations of one model linked in: a step of each, its logits and a sum.
//
// usage: host small|large...    prints "NAME isa logits gradient" a line

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pcvr.h"

extern const pcvr_module pcvr_small_scalar, pcvr_large_scalar;

enum { B = 3, L = 16, ROWS = 21 };

// The gradient of a logit's square over two.
static void
half_square(void *arg, int64_t first, int64_t count, const float *logits, float *dlogits)
{
    (void)arg;
    for (int64_t s = first; s < first + count; s++)
        dlogits[s] = logits[s] / B;
}

static void
fill(pcvr_runner *r, const pcvr_module *m)
{
    for (int p = 0; p < m->n_params; p++) {
        float *x = pcvr_runner_param(r, p);
        int64_t from = m->params[p].flags & PCVR_PARAM_PADDING ? m->params[p].shape[1] : 0;
        for (int64_t i = from; i < m->params[p].size; i++)
            x[i] = (float)((i * 7 + p) % 11 - 5) / 8.0f;
    }
    pcvr_runner_prepare(r);
}

static double
gradient_sum(const pcvr_runner *r, const pcvr_module *m)
{
    double sum = 0.0;
    for (int p = 0; p < m->n_params; p++) {
        const float *g = pcvr_runner_grad(r, p);
        pcvr_sparse rows = g ? (pcvr_sparse){0} : pcvr_runner_rows(r, p);
        int64_t n = g ? m->params[p].size : rows.n * rows.width;
        for (int64_t i = 0; i < n; i++)
            sum += fabs((double)(g ? g : rows.values)[i]);
    }
    return sum;
}

static int
run(const pcvr_module *m)
{
    int64_t events[B * L], lengths[B] = {L, 5, 1}, zeros[B * L] = {0};
    uint8_t missing[B] = {0};
    for (int i = 0; i < B * L; i++)
        events[i] = 1 + i * 5 % (ROWS - 1);
    pcvr_domain domain = {events, lengths, zeros};
    pcvr_batch batch = {.size = B, .user_ints = zeros, .user_int_missing = missing, .item_ints = zeros,
                        .item_int_missing = missing, .n_domains = 1, .domains = &domain,
                        .request_time = zeros};
    char err[256];
    float logits[B];
    pcvr_runner *r;
    if (pcvr_runner_new(m, B, &(pcvr_options){.threads = 1}, &r, err, sizeof err)) {
        fprintf(stderr, "%s\n", err);
        return 1;
    }
    fill(r, m);
    int rc = pcvr_runner_step(r, &batch, half_square, NULL, false, true, 7, 0, logits);
    double sum = rc ? 0.0 : gradient_sum(r, m);
    if (!rc)
        printf("%s %s %.9g %.9g %.9g %.9g\n", m->name, m->isa, (double)logits[0],
               (double)logits[1], (double)logits[2], sum);
    pcvr_runner_free(r);
    return rc || !(sum > 0.0) || !isfinite(sum);
}

int
main(int argc, char **argv)
{
    const pcvr_module *const all[] = {&pcvr_small_scalar, &pcvr_large_scalar};
    int bad = 0;
    for (int a = 1; a < argc; a++) {
        int k = strcmp(argv[a], "large") == 0;
        char err[256] = "";
        const pcvr_module *m = pcvr_module_find(&all[k], 1, err, sizeof err);
        if (!m)
            fprintf(stderr, "%s\n", err);
        bad |= !m || run(m);
    }
    return bad;
}

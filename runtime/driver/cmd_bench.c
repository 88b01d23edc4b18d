// cmd_bench.c - pcvr bench: what a step costs in time and memory.
//
// A step is everything from the raw integer batch to finished gradients, without the
// optimiser. With --against a second choice takes turns with the first, so that both see
// the same machine.

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench.h"
#include "bench_batch.h"
#include "commands.h"
#include "fma_peak.h"
#include "init.h"
#include "json.h"
#include "loss_step.h"
#include "results.h"

enum { WARM_UP = 2, SEED = 42 };

static const PcvrLossTerm bce = {.kind = PCVR_LOSS_BCE, .weight = 1.0};

// One choice: its module, its buffers, its times.
typedef struct Side {
    const char *choice;
    pcvr_options o;
    const pcvr_module *m;
    pcvr_runner *r;
    PcvrStepLoss loss;
    float *logits;
    double *forward_s, *step_s; // [iters]
    double *regions;            // [n_regions] seconds of a step
} Side;

typedef struct Bench {
    const BenchFlags *f;
    Schema *schema;
    BenchBatch batch;
    Side side[2];
    int n_sides;
    double peak;      // GFLOP/s
    int64_t rss_peak; // of the first side alone
} Bench;

static int
fail(const char *text)
{
    fprintf(stderr, "pcvr bench: error: %s\n", text);
    return 1;
}

// ---- memory of the process ------------------------------------------------------------

// Forgets the highest memory use so far; what compiling took is no part of a step.
static void
rss_reset(void)
{
    malloc_trim(0);
    FILE *f = fopen("/proc/self/clear_refs", "we");
    if (f != NULL) {
        fputs("5", f);
        fclose(f);
    }
}

static int64_t
rss_peak(void)
{
    char line[256];
    long long kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "VmHWM: %lld kB", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    struct rusage u;
    if (kib == 0 && getrusage(RUSAGE_SELF, &u) == 0)
        kib = u.ru_maxrss;
    return kib * 1024;
}

// ---- running --------------------------------------------------------------------------

static int
side_new(const Bench *b, Side *s)
{
    char err[512];
    if (pcvr_runner_new(s->m, b->f->batch, &s->o, &s->r, err, sizeof err) != PCVR_OK)
        return fail(err);
    size_t iters = (size_t)b->f->iters;
    s->logits = calloc((size_t)(b->f->batch * s->m->actions) + 1, sizeof *s->logits);
    s->forward_s = calloc(iters, sizeof *s->forward_s);
    s->step_s = calloc(iters, sizeof *s->step_s);
    s->regions = calloc((size_t)s->m->n_regions + 1, sizeof *s->regions);
    if (!s->logits || !s->forward_s || !s->step_s || !s->regions ||
        !pcvr_step_loss_new(&s->loss, &bce, 1, b->f->batch, s->m->actions))
        return fail("out of memory");
    pcvr_step_loss_begin(&s->loss, &b->batch.batch);
    pcvr_init_params(s->r, s->m, SEED);
    return 0;
}

static void
side_free(Side *s)
{
    pcvr_runner_free(s->r);
    pcvr_step_loss_free(&s->loss);
    free(s->logits);
    free(s->forward_s);
    free(s->step_s);
    free(s->regions);
}

static int
side_step(const Bench *b, Side *s, double *seconds)
{
    double from = pcvr_now();
    pcvr_runner_prepare(s->r);
    int rc = pcvr_runner_step(s->r, &b->batch.batch, pcvr_step_loss, &s->loss,
                              s->loss.coupled, true, SEED, 0, s->logits);
    *seconds = pcvr_now() - from;
    return rc == PCVR_OK ? 0 : fail("the module refused the batch");
}

static int
side_forward(const Bench *b, Side *s, double *seconds)
{
    double from = pcvr_now();
    pcvr_runner_prepare(s->r);
    int rc = pcvr_runner_forward(s->r, &b->batch.batch, s->logits, NULL);
    *seconds = pcvr_now() - from;
    return rc == PCVR_OK ? 0 : fail("the module refused the batch");
}

static int
side_warm(const Bench *b, Side *s)
{
    double ignored;
    int status = side_new(b, s);
    for (int k = 0; status == 0 && k < WARM_UP; k++)
        status = side_step(b, s, &ignored);
    return status;
}

// One more step with a clock for each region, and the file of results.
static int
side_finish(const Bench *b, Side *s, const char *grads)
{
    double ignored;
    PcvrError err = {""};
    pcvr_runner_clocks(s->r, true);
    int status = side_step(b, s, &ignored);
    pcvr_runner_clock(s->r, s->regions);
    if (status == 0 && pcvr_runner_overrun(s->r) != NULL) {
        pcvr_fail(&err, "the module wrote past the end of its %s",
                  pcvr_runner_overrun(s->r));
        status = fail(err.text);
    }
    if (status == 0 && grads != NULL &&
        !results_write_runner(grads, b->f->batch, s->logits,
                              pcvr_step_loss_value(&s->loss), s->m, s->r, &err))
        status = fail(err.text);
    return status;
}

static int
bench_measure(Bench *b)
{
    const BenchFlags *f = b->f;
    rss_reset();
    int status = side_warm(b, &b->side[0]);
    b->rss_peak = rss_peak();
    if (status == 0 && b->n_sides == 2)
        status = side_warm(b, &b->side[1]);
    int threads = status == 0 ? (int)pcvr_runner_plan(b->side[0].r)->threads : 1;
    b->peak = fma_peak_gflops(b->side[0].m->isa, threads);
    for (int64_t k = 0; status == 0 && k < f->iters; k++) {
        for (int i = 0; status == 0 && i < b->n_sides; i++)
            status = side_step(b, &b->side[i], &b->side[i].step_s[k]);
        for (int i = 0; status == 0 && i < b->n_sides; i++)
            status = side_forward(b, &b->side[i], &b->side[i].forward_s[k]);
    }
    for (int i = 0; status == 0 && i < b->n_sides; i++)
        status = side_finish(b, &b->side[i], i == 0 ? f->grads : NULL);
    if (status == 0 && b->n_sides == 1 && rss_peak() > b->rss_peak)
        b->rss_peak = rss_peak();
    double again = fma_peak_gflops(b->side[0].m->isa, threads);
    b->peak = again > b->peak ? again : b->peak;
    return status;
}

// ---- output ---------------------------------------------------------------------------

static int
ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double
median(double *x, int64_t n)
{
    qsort(x, (size_t)n, sizeof *x, ascending);
    return n % 2 == 1 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}

static json_t *
times(double *x, int64_t n)
{
    double middle = median(x, n);
    return json_pack("{s:f, s:f}", "min", x[0], "median", middle);
}

static json_t *
regions_json(const Side *s, int64_t batch)
{
    json_t *list = json_array();
    for (int k = 0; k < s->m->n_regions; k++) {
        const pcvr_region *g = &s->m->regions[k];
        json_array_append_new(list,
                              json_pack("{s:s, s:f, s:I, s:f}", "name", g->name, "flops",
                                        (g->flops + g->recomputed_flops) * (double)batch,
                                        "bytes", (json_int_t)(g->kept_bytes * batch),
                                        "seconds", s->regions[k]));
    }
    return list;
}

static void
side_json(json_t *o, Side *s, const Bench *b)
{
    const pcvr_plan *p = pcvr_runner_plan(s->r);
    json_object_set_new(o, "checkpoint", json_string(s->choice));
    json_object_set_new(o, "chunk",
                        s->o.chunk == PCVR_CHUNK_BATCH ? json_string("batch")
                                                       : json_integer(p->chunk));
    json_object_set_new(o, "forward_s", times(s->forward_s, b->f->iters));
    json_object_set_new(o, "step_s", times(s->step_s, b->f->iters));
    bench_flops_json(o, s->m, b->f->batch);
    bench_plan_json(o, p);
    json_object_set_new(o, "measured_peak_bytes",
                        json_integer(pcvr_runner_measured(s->r)));
}

static json_t *
bench_json(Bench *b)
{
    Side *s = &b->side[0];
    const pcvr_plan *p = pcvr_runner_plan(s->r);
    json_t *o = json_object();
    json_object_set_new(o, "model", json_string(s->m->name));
    json_object_set_new(o, "batch", json_integer(p->batch));
    json_object_set_new(o, "isa", json_string(s->m->isa));
    json_object_set_new(o, "threads", json_integer(p->threads));
    json_object_set_new(o, "lanes", json_integer(p->lanes));
    side_json(o, s, b);
    json_object_set_new(o, "rss_peak_bytes", json_integer(b->rss_peak));
    json_object_set_new(o, "fma_peak_gflops", json_real(b->peak));
    json_object_set_new(o, "regions", regions_json(s, p->batch));
    if (b->n_sides == 2) {
        json_t *against = json_object();
        side_json(against, &b->side[1], b);
        json_object_set_new(o, "against", against);
        double other = median(b->side[1].step_s, b->f->iters);
        json_object_set_new(o, "ratio",
                            json_real(median(s->step_s, b->f->iters) / other));
    }
    return o;
}

static void
side_text(Side *s, const Bench *b)
{
    const pcvr_plan *p = pcvr_runner_plan(s->r);
    int64_t n = b->f->iters, measured = pcvr_runner_measured(s->r);
    double step = median(s->step_s, n), forward = median(s->forward_s, n), flops = 0.0;
    for (int k = 0; k < s->m->n_regions; k++)
        flops += s->m->regions[k].flops * (double)b->f->batch;
    printf("%s, checkpoint %s, batch %" PRId64 ", chunk %" PRId64 ", %" PRId64
           " lanes, %" PRId64 " threads, %s\n",
           s->m->name, s->choice, p->batch, p->chunk, p->lanes, p->threads, s->m->isa);
    printf("  forward  %9.3f ms (min %.3f)\n", 1e3 * forward, 1e3 * s->forward_s[0]);
    printf("  step     %9.3f ms (min %.3f), %.1f GFLOP/s of %.1f\n", 1e3 * step,
           1e3 * s->step_s[0], 1e-9 * flops / step, b->peak);
    printf("  memory   planned %" PRId64 " bytes, measured %" PRId64 "%s\n",
           p->planned_peak_bytes, measured,
           measured == p->planned_peak_bytes  ? ""
           : measured < p->planned_peak_bytes ? " (less: not every buffer was filled)"
                                              : " (MORE than planned)");
}

static void
bench_report(Bench *b)
{
    if (b->f->json) {
        bench_print(bench_json(b));
        return;
    }
    for (int i = 0; i < b->n_sides; i++)
        side_text(&b->side[i], b);
    if (b->n_sides == 2)
        printf("  ratio    %.3f\n", median(b->side[0].step_s, b->f->iters) /
                                        median(b->side[1].step_s, b->f->iters));
}

static int
bench_run(const BenchFlags *f)
{
    Bench b = {.f = f, .n_sides = f->against_choice != NULL ? 2 : 1};
    b.side[0] = (Side){.choice = f->checkpoint, .o = f->o};
    b.side[1] = (Side){.choice = f->against_choice, .o = f->o};
    b.side[1].o.chunk = f->against_chunk;
    int status = 0;
    for (int i = 0; status == 0 && i < b.n_sides; i++) {
        schema_free(b.schema);
        status = bench_compile(f, b.side[i].choice, &b.side[i].m, &b.schema);
    }
    if (status == 0 &&
        !bench_batch_new(&b.batch, b.schema, f->batch, strcmp(f->lengths, "mixed") == 0))
        status = fail("out of memory");
    if (status == 0)
        status = bench_measure(&b);
    if (status == 0) {
        idle_note(f->threads, pcvr_runner_plan(b.side[0].r));
        bench_report(&b);
    }
    for (int i = 0; i < b.n_sides; i++)
        side_free(&b.side[i]);
    bench_batch_free(&b.batch);
    schema_free(b.schema);
    return status;
}

int
cmd_bench(int argc, char **argv)
{
    BenchFlags f;
    PcvrError err = {""};
    int status = 2;
    if (flags_ask_help(argc, argv)) {
        printf("usage: pcvr bench --model MODEL --schema FILE [flags]\n\n%s%s",
               bench_flags_help, bench_only_help);
        return 0;
    }
    if (bench_flags(&f, argc, argv, false, &err))
        status = bench_run(&f);
    else
        fprintf(stderr, "pcvr bench: error: %s\n", err.text);
    bench_flags_free(&f);
    return status;
}

// bench_batch.c - a batch made up from a schema: the same numbers everywhere.

#include "bench_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"

enum { DAYS = 30, DAY = 86400 };
static const int64_t NOW = 1700000000; // request times lie in the day after it

static void *
block(BenchBatch *b, int64_t n, size_t size)
{
    void *p = calloc((size_t)n + 1, size);
    if (p != NULL)
        b->blocks[b->n_blocks++] = p;
    return p;
}

static uint64_t
stream(const char *prefix, const char *tensor)
{
    char name[600];
    snprintf(name, sizeof name, "bench.%s%s", prefix, tensor);
    return pcvr_name_hash(name);
}

// Uniform in [lo, hi].
static int64_t
uniform(uint64_t h, int64_t i, int64_t lo, int64_t hi)
{
    double u = (double)(pcvr_number_bits(h, (uint64_t)i) >> 40) * 0x1p-24;
    return lo + (int64_t)(u * (double)(hi - lo + 1));
}

static bool
make_ints(BenchBatch *b, const SchemaGroup *g, const char *side, int64_t B,
          const int64_t **ids, const uint8_t **missing)
{
    int64_t *values = block(b, B * g->width, sizeof *values);
    uint8_t *mask = block(b, B * g->width, 1);
    if (values == NULL || mask == NULL)
        return false;
    uint64_t h = stream(side, "_int_values"), hm = stream(side, "_int_missing_mask");
    for (int f = 0; f < g->n; f++) {
        const SchemaFeature *x = &g->features[f];
        for (int64_t s = 0; s < B; s++) {
            for (int64_t k = 0; k < x->dim; k++) {
                int64_t at = s * g->width + x->offset + k;
                values[at] = uniform(h, at, 0, x->vocab);
                mask[at] = uniform(hm, at, 0, 7) == 0;
            }
        }
    }
    *ids = values;
    *missing = mask;
    return true;
}

static bool
make_dense(BenchBatch *b, const SchemaGroup *g, const char *side, int64_t B,
           const float **dense, const uint8_t **missing)
{
    char name[64];
    float *values = block(b, B * g->width, sizeof *values);
    uint8_t *mask = block(b, B * g->width, 1);
    if (values == NULL || mask == NULL)
        return false;
    snprintf(name, sizeof name, "bench.%s_dense_values", side);
    pcvr_number_fill(values, 0, (size_t)(B * g->width), name, 0.0, 1.0);
    uint64_t h = stream(side, "_dense_missing_mask");
    for (int64_t k = 0; k < B * g->width; k++)
        mask[k] = uniform(h, k, 0, 7) == 0;
    *dense = values;
    *missing = mask;
    return true;
}

static int
ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool
make_domain(BenchBatch *b, const SchemaDomain *d, int64_t B, bool mixed, pcvr_domain *out)
{
    int64_t F = d->n_sides, L = d->max_len;
    int64_t *values = block(b, B * F * L, sizeof *values);
    int64_t *lengths = block(b, B, sizeof *lengths);
    int64_t *times = block(b, B * L, sizeof *times);
    if (values == NULL || lengths == NULL || times == NULL)
        return false;
    uint64_t hv = stream(d->name, "_values"), hl = stream(d->name, "_lengths");
    uint64_t ht = stream(d->name, "_timestamps");
    for (int64_t s = 0; s < B; s++) {
        lengths[s] = mixed && L > 0 ? uniform(hl, s, 1, L) : L;
        for (int64_t j = 0; j < lengths[s]; j++)
            times[s * L + j] =
                b->batch.request_time[s] - uniform(ht, s * L + j, 1, DAYS * DAY);
        qsort(times + s * L, (size_t)lengths[s], sizeof *times, ascending);
        for (int64_t f = 0; f < F; f++) {
            int64_t vocab = d->sides[f].vocab, at = (s * F + f) * L;
            for (int64_t j = 0; j < lengths[s]; j++)
                values[at + j] = uniform(hv, at + j, vocab > 0 ? 1 : 0, vocab);
        }
    }
    *out = (pcvr_domain){values, lengths, times};
    return true;
}

bool
bench_batch_new(BenchBatch *b, const Schema *s, int64_t B, bool mixed)
{
    size_t domains = (size_t)s->n_domains;
    *b = (BenchBatch){.batch = {.size = B, .n_domains = s->n_domains}};
    b->blocks = calloc(10 + 3 * domains, sizeof *b->blocks);
    b->domains = calloc(domains + 1, sizeof *b->domains);
    b->batch.domains = b->domains;
    if (b->blocks == NULL || b->domains == NULL)
        return false;
    int64_t *request = block(b, B, sizeof *request), *label = block(b, B, sizeof *label);
    if (request == NULL || label == NULL)
        return false;
    uint64_t hr = stream("", "request_timestamp"), hl = stream("", "label");
    for (int64_t k = 0; k < B; k++) {
        request[k] = NOW + uniform(hr, k, 0, DAY - 1);
        label[k] = uniform(hl, k, 0, 1);
    }
    b->batch.request_time = request;
    b->batch.label = label;
    pcvr_batch *o = &b->batch;
    bool ok =
        make_ints(b, &s->user_int, "user", B, &o->user_ints, &o->user_int_missing) &&
        make_ints(b, &s->item_int, "item", B, &o->item_ints, &o->item_int_missing) &&
        make_dense(b, &s->user_dense, "user", B, &o->user_dense,
                   &o->user_dense_missing) &&
        make_dense(b, &s->item_dense, "item", B, &o->item_dense, &o->item_dense_missing);
    for (int d = 0; ok && d < s->n_domains; d++)
        ok = make_domain(b, &s->domains[d], B, mixed, &b->domains[d]);
    return ok;
}

void
bench_batch_free(BenchBatch *b)
{
    for (int k = 0; k < b->n_blocks; k++)
        free(b->blocks[k]);
    free(b->blocks);
    free(b->domains);
    *b = (BenchBatch){0};
}

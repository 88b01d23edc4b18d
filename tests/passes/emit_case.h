// emit_case.h - a model case as a compiled module and in the interpreter, on one made-up batch.

#ifndef TEST_EMIT_CASE_H
#define TEST_EMIT_CASE_H

#include "interp.h"
#include "model_case.h"
#include "numbers.h"
#include "passes.h"
#include "pcvr.h"
#include "tile.h"

// ---- a batch from a schema -----------------------------------------------------------------------

typedef struct MadeBatch {
    pcvr_batch b;
    pcvr_domain *domains;
    void *blocks[64];
    int n_blocks;
} MadeBatch;

static inline void *
made_block(MadeBatch *m, size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    m->blocks[m->n_blocks++] = p;
    return p;
}

static inline int64_t *
made_ids(MadeBatch *m, const char *name, size_t n, int64_t most)
{
    int64_t *v = made_block(m, n, 8);
    uint64_t h = pcvr_name_hash(name);
    for (size_t k = 0; k < n; k++)
        v[k] = (int64_t)(pcvr_number_bits(h, k) >> 33) % (most + 1);
    return v;
}

static inline uint8_t *
made_mask(MadeBatch *m, const char *name, size_t n)
{
    uint8_t *v = made_block(m, n, 1);
    uint64_t h = pcvr_name_hash(name);
    for (size_t k = 0; k < n; k++)
        v[k] = (pcvr_number_bits(h, k) >> 40) % 3 == 0;
    return v;
}

static inline float *
made_floats(MadeBatch *m, const char *name, size_t n)
{
    float *v = made_block(m, n, 4);
    pcvr_number_fill(v, 0, n, name, 0.0, 1.0);
    return v;
}

// Ids up to 40, so that tables repeat rows and small ones are overstepped; sequences of every length.
static inline void
made_batch(MadeBatch *m, const Schema *s, int64_t B)
{
    memset(m, 0, sizeof *m);
    size_t n = (size_t)B;
    pcvr_batch *b = &m->b;
    b->size = B;
    b->user_ints = made_ids(m, "user_ints", n * (size_t)s->user_int.width, 40);
    b->item_ints = made_ids(m, "item_ints", n * (size_t)s->item_int.width, 40);
    b->user_int_missing = made_mask(m, "um", n * (size_t)s->user_int.width);
    b->item_int_missing = made_mask(m, "im", n * (size_t)s->item_int.width);
    b->user_dense = made_floats(m, "user_dense", n * (size_t)s->user_dense.width);
    b->item_dense = made_floats(m, "item_dense", n * (size_t)s->item_dense.width);
    b->user_dense_missing = made_mask(m, "udm", n * (size_t)s->user_dense.width);
    b->item_dense_missing = made_mask(m, "idm", n * (size_t)s->item_dense.width);
    int64_t *now = made_ids(m, "now", n, 100000);
    b->request_time = now;
    b->n_domains = s->n_domains;
    m->domains = made_block(m, (size_t)s->n_domains, sizeof *m->domains);
    for (int d = 0; d < s->n_domains; d++) {
        size_t L = (size_t)s->domains[d].max_len, F = (size_t)s->domains[d].n_sides;
        int64_t *values = made_ids(m, s->domains[d].name, n * F * L, 12);
        int64_t *times = made_ids(m, s->domains[d].name, n * L, 200000);
        int64_t *lengths = made_ids(m, s->domains[d].name, n, (int64_t)L);
        for (size_t i = 0; i < n; i++) {
            if (i == 1)
                lengths[i] = 0;
            now[i] += 1600000000;
            for (size_t l = 0; l < L; l++) {
                bool on = (int64_t)l < lengths[i];
                times[i * L + l] = on ? times[i * L + l] + 1600000000 : 0;
                for (size_t f = 0; f < F && !on; f++)
                    values[(i * F + f) * L + l] = 0;
            }
        }
        m->domains[d] = (pcvr_domain){values, lengths, times};
    }
    b->domains = m->domains;
}

static inline void
made_batch_free(MadeBatch *m)
{
    for (int k = 0; k < m->n_blocks; k++)
        free(m->blocks[k]);
}

// ---- the module ------------------------------------------------------------------------------------

static inline bool
run_passes(Graph *g, const char *choice)
{
    static PassFn *const passes[] = {simplify, prune, differentiate, checkpoint, sweep};
    g->checkpoint = choice;
    for (size_t k = 0; k < sizeof passes / sizeof *passes; k++)
        if (!passes[k](g)) {
            diag_print(g->diag, stdout);
            return false;
        }
    return true;
}

static inline char *
emit_graph(Graph *g, const Schema *s, const char *name)
{
    Tiles *t = schedule(g);
    plan(t);
    EmitOptions o = {.name = name, .config = "{}", .compiler = "test", .schema = s};
    return emit_c(t, &o);
}

// Values of a parameter: small, around 1 for norm weights, row 0 of padding tables zero.
static inline void
made_param(float *v, const Param *p)
{
    size_t n = (size_t)shape_size(p->shape);
    double scale = p->shape.rank > 1 ? 1.0 / sqrt((double)p->shape.dim[p->shape.rank - 1]) : 0.2;
    pcvr_number_fill(v, 0, n, p->name, p->init == INIT_ONES ? 1.0 : 0.0, scale);
    if (p->padding)
        memset(v, 0, n / (size_t)p->shape.dim[0] * sizeof *v);
}

#endif

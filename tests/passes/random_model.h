// random_model.h - seeded small schemas, configurations and batches for the seven model
// files.
//
//     RandomModel r;
//     random_model(&r, "onetrans", seed);   // r.c.graph is NULL: refused, see r.c.diag
//     random_model_batch(&r);                    // r.batch, r.params, r.dlogits
//     ...
//     random_model_free(&r);
//
// The same seed gives the same case, so a case can be made again for another pass or a
// compiled module. Parameters and dense values are floats. random_config.h has the
// configurations.

#ifndef RANDOM_MODEL_H
#define RANDOM_MODEL_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interp.h"
#include "pcvrc.h"

enum { RM_SAMPLES = 3, RM_MAX = 16, RM_LABELS = 40, RM_WIDE = 1000 };

// The features of one side, as drawn.
typedef struct RmFields {
    int n;
    int64_t fid[RM_MAX], vocab[RM_MAX], dim[RM_MAX];
} RmFields;

typedef struct RandomModel {
    Compile c; // graph NULL: refused
    const char *model;
    char path[64];
    uint64_t state;
    json_t *schema_json, *config_json;
    RmFields user_int, item_int, user_dense, item_dense;
    int n_domains;
    const char
        *label[RM_LABELS]; // the branches this case takes that no single field tells
    int n_labels;
    bool beyond;    // ids may exceed their vocabulary
    bool odd_dense; // dense values may be NaN or infinite
    bool wide;      // rows longer than a vector, sequences longer than a tile (seeds from
                    // RM_WIDE on)
    bool no_empty;  // no sequence is empty (even seeds)
    int64_t actions;
    double *dlogits; // [RM_SAMPLES * actions]
    float **params;  // [n_params] values
    pcvr_batch batch;
} RandomModel;

// ---- numbers ----------------------------------------------------------------------

static inline uint64_t
rm_bits(RandomModel *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// low .. high
static inline int64_t
rm_int(RandomModel *r, int64_t low, int64_t high)
{
    return low + (int64_t)((rm_bits(r) >> 33) % (uint64_t)(high - low + 1));
}

static inline bool
rm_one_in(RandomModel *r, int n)
{
    return rm_int(r, 1, n) == 1;
}

// -1 .. 1, a float
static inline double
rm_real(RandomModel *r)
{
    return (double)(float)((double)(rm_bits(r) >> 40) / 8388608.0 - 1.0);
}

static inline int64_t
rm_pick(RandomModel *r, int n, const int64_t *of)
{
    return of[rm_int(r, 0, n - 1)];
}
#define RM_PICK(r, ...)                                                                  \
    rm_pick(r, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                \
            (int64_t[]){__VA_ARGS__})

static inline void
rm_label(RandomModel *r, bool taken, const char *label)
{
    if (taken)
        r->label[r->n_labels++] = label;
}

static inline void
rm_shuffle(RandomModel *r, int64_t *v, int n)
{
    for (int k = n - 1; k > 0; k--) {
        int64_t j = rm_int(r, 0, k), t = v[k];
        v[k] = v[j];
        v[j] = t;
    }
}

// ---- schemas ----------------------------------------------------------------------

static inline void
rm_field(RmFields *f, int64_t fid, int64_t vocab, int64_t dim)
{
    f->fid[f->n] = fid;
    f->vocab[f->n] = vocab;
    f->dim[f->n++] = dim;
}

// low .. high integer features out of a pool of ids; vocabularies around the thresholds
// of the configurations.
static inline void
rm_int_fields(RandomModel *r, RmFields *f, int n_pool, const int64_t *pool, int low,
              int high)
{
    int64_t ids[RM_MAX];
    memcpy(ids, pool, (size_t)n_pool * sizeof *ids);
    rm_shuffle(r, ids, n_pool);
    int n = (int)rm_int(r, low, high);
    for (int k = 0; k < n; k++)
        rm_field(f, ids[k], RM_PICK(r, 0, 1, 3, 5, 6, 7, 11, 14),
                 rm_one_in(r, 3) ? rm_int(r, 2, 3) : 1);
}

static inline json_t *
rm_fields_json(const RmFields *f, bool vocab)
{
    json_t *list = json_array();
    for (int k = 0; k < f->n; k++)
        json_array_append_new(
            list, vocab
                      ? json_pack("[I,I,I]", (json_int_t)f->fid[k],
                                  (json_int_t)f->vocab[k], (json_int_t)f->dim[k])
                      : json_pack("[I,I]", (json_int_t)f->fid[k], (json_int_t)f->dim[k]));
    return list;
}

// A domain: its timestamp among 0 to 3 other features.
static inline json_t *
rm_domain_json(RandomModel *r, const char *name, int sides)
{
    json_t *features = json_array();
    int at = (int)rm_int(r, 0, sides);
    for (int k = 0; k <= sides; k++)
        json_array_append_new(
            features,
            json_pack("[i,I]", 20 + k,
                      k == at ? (json_int_t)0 : (json_int_t)RM_PICK(r, 0, 2, 4, 7, 11)));
    return json_pack("{s:s+,s:i,s:o}", "prefix", "p_", name, "ts_fid", 20 + at,
                     "features", features);
}

// n domains, in no order, with their lengths in `lens`.
static inline json_t *
rm_domains_json(RandomModel *r, int n, int min_sides, json_t *lens)
{
    static const char *const names[] = {"seq_a", "seq_b", "seq_c",
                                        "seq_d", "zeta",  "Alpha"};
    int64_t order[] = {0, 1, 2, 3, 4, 5};
    json_t *o = json_object();
    rm_shuffle(r, order, 6);
    for (int k = 0; k < n; k++) {
        const char *name = names[order[k]];
        int sides = rm_one_in(r, 4) ? min_sides
                                    : (int)rm_int(r, min_sides > 1 ? min_sides : 1, 3);
        json_object_set_new(o, name, rm_domain_json(r, name, sides));
        json_object_set_new(
            lens, name,
            json_integer(
                (json_int_t)(r->wide ? RM_PICK(r, 8, 9, 16, 17, 33) : rm_int(r, 1, 7))));
    }
    r->n_domains = n;
    return o;
}

// ---- the batch --------------------------------------------------------------------

static inline int64_t
rm_id(RandomModel *r, int64_t vocab)
{
    if (rm_one_in(r, 4))
        return 0;
    return rm_int(r, 0, vocab + (r->beyond && rm_one_in(r, 4) ? 3 : 0));
}

static inline void
rm_ints(RandomModel *r, const SchemaGroup *g, const int64_t **values,
        const uint8_t **missing)
{
    int64_t *v = arena_array(&r->c.mem.perm, int64_t, RM_SAMPLES * g->width + 1);
    uint8_t *m = arena_array(&r->c.mem.perm, uint8_t, RM_SAMPLES * g->width + 1);
    for (int64_t s = 0; s < RM_SAMPLES; s++)
        for (int k = 0; k < g->n; k++)
            for (int64_t j = 0; j < g->features[k].dim; j++) {
                int64_t at = s * g->width + g->features[k].offset + j;
                v[at] = rm_id(r, g->features[k].vocab);
                m[at] = rm_one_in(r, 3);
            }
    *values = v;
    *missing = m;
}

static inline void
rm_dense(RandomModel *r, const SchemaGroup *g, const float **values,
         const uint8_t **missing)
{
    float *v = arena_array(&r->c.mem.perm, float, RM_SAMPLES * g->width + 1);
    uint8_t *m = arena_array(&r->c.mem.perm, uint8_t, RM_SAMPLES * g->width + 1);
    for (int64_t k = 0; k < RM_SAMPLES * g->width; k++) {
        m[k] = rm_one_in(r, 3);
        v[k] = m[k] ? 0.0f : (float)(2.0 * rm_real(r));
        if (r->odd_dense && rm_one_in(r, 6))
            v[k] = rm_one_in(r, 2) ? (float)NAN : (float)-INFINITY;
    }
    *values = v;
    *missing = m;
}

// Small gaps, gaps at a bound, none at all, events after the request; some events equal
// to their neighbour.
static inline void
rm_events(RandomModel *r, const SchemaDomain *d, const int64_t *now, pcvr_domain *out)
{
    int64_t F = d->n_sides, L = d->max_len;
    int64_t *v = arena_array(&r->c.mem.perm, int64_t, RM_SAMPLES * F * L + 1);
    int64_t *t = arena_array(&r->c.mem.perm, int64_t, RM_SAMPLES * L + 1);
    int64_t *n = arena_array(&r->c.mem.perm, int64_t, RM_SAMPLES);
    for (int64_t s = 0; s < RM_SAMPLES; s++) {
        n[s] = rm_one_in(r, 4) ? L : rm_int(r, r->no_empty ? 1 : 0, L);
        for (int64_t i = 0; i < n[s]; i++) {
            bool again = i > 0 && rm_one_in(r, 3);
            for (int64_t f = 0; f < F; f++)
                v[(s * F + f) * L + i] =
                    again ? v[(s * F + f) * L + i - 1] : rm_id(r, d->sides[f].vocab);
            t[s * L + i] = rm_one_in(r, 6)
                               ? 0
                               : now[s] - RM_PICK(r, -20, 0, 4, 5, 6, 1000, 3600, 90000,
                                                  700000, 40000000);
        }
    }
    out->values = v;
    out->timestamps = t;
    out->lengths = n;
}

static inline void
rm_params(RandomModel *r)
{
    const Graph *g = r->c.graph;
    r->params = arena_array(&r->c.mem.perm, float *, g->n_params + 1);
    for (int p = 0; p < g->n_params; p++) {
        int64_t n = shape_size(g->params[p].shape);
        const char *name = g->params[p].name;
        size_t len = strlen(name);
        bool scale = len > 6 && g->params[p].shape.rank == 1 &&
                     strcmp(name + len - 6, "weight") == 0;
        r->params[p] = arena_array(&r->c.mem.perm, float, n + 1);
        for (int64_t k = 0; k < n; k++)
            r->params[p][k] = (float)((scale ? 1.0 : 0.0) + 0.6 * rm_real(r));
    }
}

// Draws values, parameters and dlogits of an elaborated case.
static inline void
random_model_batch(RandomModel *r)
{
    const Schema *s = r->c.schema;
    int64_t *now = arena_array(&r->c.mem.perm, int64_t, RM_SAMPLES);
    pcvr_domain *d = arena_array(&r->c.mem.perm, pcvr_domain, s->n_domains + 1);
    for (int k = 0; k < RM_SAMPLES; k++)
        now[k] = 1700000000 + rm_int(r, 0, 800000);
    r->batch = (pcvr_batch){
        .size = RM_SAMPLES, .n_domains = s->n_domains, .domains = d, .request_time = now};
    rm_ints(r, &s->user_int, &r->batch.user_ints, &r->batch.user_int_missing);
    rm_ints(r, &s->item_int, &r->batch.item_ints, &r->batch.item_int_missing);
    rm_dense(r, &s->user_dense, &r->batch.user_dense, &r->batch.user_dense_missing);
    rm_dense(r, &s->item_dense, &r->batch.item_dense, &r->batch.item_dense_missing);
    for (int k = 0; k < s->n_domains; k++)
        rm_events(r, &s->domains[k], now, &d[k]);
    rm_params(r);
    r->actions = r->c.graph->logits->shape.dim[0];
    r->dlogits = arena_array(&r->c.mem.perm, double, RM_SAMPLES * r->actions);
    for (int64_t k = 0; k < RM_SAMPLES * r->actions; k++)
        r->dlogits[k] = rm_real(r);
}

// ---- a case -----------------------------------------------------------------------

#include "random_config.h"

static inline void
rm_elaborate(RandomModel *r, json_t *lens)
{
    DataError e = {{0}};
    char *text = json_dumps(r->schema_json, JSON_COMPACT);
    snprintf(r->path, sizeof r->path, "models/%s.pcvr", r->model);
    if (compile_open(&r->c, r->path, NULL, 0) == 0) {
        r->c.schema = schema_parse(text, strlen(text), "random schema", &e);
        if (r->c.schema == NULL) {
            diag_error(&r->c.diag, (Place){0}, "%s", e.text);
        } else if (config_set_json(r->c.config, r->config_json, "random") == 0 &&
                   config_set_seq_max_lens_json(r->c.config, lens, "random") == 0 &&
                   schema_set_lens(r->c.schema, config_seq_max_lens(r->c.config), &e) ==
                       0) {
            compile_graph(&r->c);
        }
    }
    free(text);
}

static inline void
random_model(RandomModel *r, const char *model, uint64_t seed)
{
    *r = (RandomModel){.model = model,
                       .state =
                           seed * 7919 + (uint64_t)model[0] * 31 + (uint64_t)model[1]};
    json_t *lens = json_object();
    r->wide = seed >= RM_WIDE;
    r->no_empty = seed % 2 == 0;
    rm_bits(r);
    random_config(r, lens);
    rm_elaborate(r, lens);
    json_decref(lens);
}

static inline void
random_model_free(RandomModel *r)
{
    json_decref(r->schema_json);
    json_decref(r->config_json);
    compile_close(&r->c);
}

// Whether padding may be overwritten without a trace. The encoder `longer` keeps padded
// tokens, and three models let an empty sequence's first token through, as the reference
// does.
static inline bool
rm_padding_is_silent(const RandomModel *r)
{
    static const char *const leaky[] = {"dualq", "interformer", "queryformer"};
    const char *encoder =
        json_string_value(json_object_get(r->config_json, "seq_encoder_type"));
    if (encoder && strcmp(encoder, "longer") == 0)
        return false;
    for (size_t k = 0; k < sizeof leaky / sizeof *leaky; k++)
        if (strcmp(r->model, leaky[k]) == 0)
            return r->no_empty;
    return true;
}

// Writes other events into all padding.
static inline void
rm_overwrite_padding(RandomModel *r)
{
    for (int k = 0; k < r->c.schema->n_domains; k++) {
        const SchemaDomain *d = &r->c.schema->domains[k];
        const pcvr_domain *from = &r->batch.domains[k];
        int64_t *v = (int64_t *)(uintptr_t)from->values,
                *t = (int64_t *)(uintptr_t)from->timestamps;
        for (int64_t s = 0; s < RM_SAMPLES; s++)
            for (int64_t i = from->lengths[s]; i < d->max_len; i++) {
                t[s * d->max_len + i] =
                    r->batch.request_time[s] - rm_int(r, -100, 100000);
                for (int64_t f = 0; f < d->n_sides; f++)
                    v[(s * d->n_sides + f) * d->max_len + i] = rm_int(r, 0, 9);
            }
    }
}

// An interpreter of the graph as it is now, in training with seed 11, step 2.
static inline Interp *
random_model_interp(const RandomModel *r)
{
    Interp *it = interp_new(r->c.graph);
    for (int p = 0; p < r->c.graph->n_params; p++)
        interp_param_f32(it, p, r->params[p]);
    interp_chance(it, true, 11, 2);
    return it;
}

#endif

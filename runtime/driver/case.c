// case.c - reads a recorded case.

#include "case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "numbers.h"

// ---- the batch ------------------------------------------------------------------------

typedef struct Want {
    const char *name;
    PcvrType type;
    int64_t width; // -1: rank 1
    const void **to;
} Want;

static bool
take(const PcvrTensors *t, int64_t B, const Want *w, PcvrError *err)
{
    int64_t shape[2] = {B, w->width};
    const PcvrTensor *x =
        pcvr_safetensors_want(t, w->name, w->type, w->width < 0 ? 1 : 2, shape, err);
    if (x == NULL)
        return false;
    *w->to = x->data;
    return true;
}

static bool
take_domain(const PcvrTensors *t, int64_t B, const SchemaDomain *d, pcvr_domain *out,
            PcvrError *err)
{
    static const char *const endings[3] = {"values", "lengths", "timestamps"};
    const int64_t shapes[3][3] = {{B, d->n_sides, d->max_len}, {B}, {B, d->max_len}};
    static const int ranks[3] = {3, 1, 2};
    const void *data[3];
    for (int k = 0; k < 3; k++) {
        char name[512];
        snprintf(name, sizeof name, "%s_%s", d->name, endings[k]);
        const PcvrTensor *x =
            pcvr_safetensors_want(t, name, PCVR_T_I64, ranks[k], shapes[k], err);
        if (x == NULL)
            return false;
        data[k] = x->data;
    }
    *out = (pcvr_domain){data[0], data[1], data[2]};
    for (int64_t s = 0; s < B; s++)
        if (out->lengths[s] < 0 || out->lengths[s] > d->max_len)
            return pcvr_fail(err, "%s_lengths: row %lld has length %lld of %lld", d->name,
                             (long long)s, (long long)out->lengths[s],
                             (long long)d->max_len);
    return true;
}

bool
case_batch(const PcvrTensors *t, const Schema *s, pcvr_batch *out, pcvr_domain *domains,
           PcvrError *err)
{
    const PcvrTensor *label =
        pcvr_safetensors_want(t, "label", PCVR_T_I64, -1, NULL, err);
    if (label == NULL)
        return false;
    *out = (pcvr_batch){
        .size = (int64_t)label->count, .n_domains = s->n_domains, .domains = domains};
    const Want wants[] = {
        {"user_int_values", PCVR_T_I64, s->user_int.width,
         (const void **)&out->user_ints},
        {"user_int_missing_mask", PCVR_T_U8, s->user_int.width,
         (const void **)&out->user_int_missing},
        {"user_dense_values", PCVR_T_F32, s->user_dense.width,
         (const void **)&out->user_dense},
        {"user_dense_missing_mask", PCVR_T_U8, s->user_dense.width,
         (const void **)&out->user_dense_missing},
        {"item_int_values", PCVR_T_I64, s->item_int.width,
         (const void **)&out->item_ints},
        {"item_int_missing_mask", PCVR_T_U8, s->item_int.width,
         (const void **)&out->item_int_missing},
        {"item_dense_values", PCVR_T_F32, s->item_dense.width,
         (const void **)&out->item_dense},
        {"item_dense_missing_mask", PCVR_T_U8, s->item_dense.width,
         (const void **)&out->item_dense_missing},
        {"request_timestamp", PCVR_T_I64, -1, (const void **)&out->request_time},
        {"label", PCVR_T_I64, -1, (const void **)&out->label},
    };
    for (size_t k = 0; k < sizeof wants / sizeof *wants; k++)
        if (!take(t, out->size, &wants[k], err))
            return false;
    for (int d = 0; d < s->n_domains; d++)
        if (!take_domain(t, out->size, &s->domains[d], &domains[d], err))
            return false;
    return true;
}

// ---- files ----------------------------------------------------------------------------

static char *
path_in(const Case *c, const char *file, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", c->dir, file);
    return path;
}

static json_t *
read_json(const Case *c, const char *file, PcvrError *err)
{
    char path[4200];
    json_error_t e;
    size_t n;
    char *text = pcvr_file_read(path_in(c, file, path, sizeof path), &n, err);
    json_t *v = text ? json_loadb(text, n, JSON_REJECT_DUPLICATES, &e) : NULL;
    free(text);
    if (text == NULL)
        return NULL;
    if (v == NULL)
        pcvr_fail(err, "%s:%d: %s", path, e.line, e.text);
    else if (!json_is_object(v))
        pcvr_fail(err, "%s: expected an object", path);
    return v;
}

static bool
exists(const Case *c, const char *file)
{
    char path[4200];
    return access(path_in(c, file, path, sizeof path), F_OK) == 0;
}

static bool
read_tensors(const Case *c, const char *file, bool needed, PcvrTensors *out,
             PcvrError *err)
{
    char path[4200];
    if (!needed && !exists(c, file))
        return true;
    return pcvr_safetensors_read(out, path_in(c, file, path, sizeof path), err);
}

static bool
read_schema(Case *c, PcvrError *err)
{
    char path[4200];
    DataError e = {0};
    c->schema = schema_read(path_in(c, "schema.json", path, sizeof path), &e);
    if (c->schema == NULL)
        return pcvr_fail(err, "%s", e.text);
    const json_t *lens = json_object_get(c->json, "seq_max_lens");
    for (int d = 0; d < c->schema->n_domains; d++) {
        const json_t *n = json_object_get(lens, c->schema->domains[d].name);
        if (json_is_integer(n))
            c->schema->domains[d].max_len = json_integer_value(n);
    }
    return true;
}

static bool
read_loss(Case *c, PcvrError *err)
{
    const json_t *list = json_object_get(json_object_get(c->json, "loss"), "terms");
    c->n_terms = json_array_size(list);
    if (c->n_terms == 0)
        return pcvr_fail(err, "%s/case.json: no terms in 'loss'", c->dir);
    c->terms = calloc(c->n_terms, sizeof *c->terms);
    if (c->terms == NULL)
        return pcvr_fail(err, "out of memory");
    for (size_t t = 0; t < c->n_terms; t++) {
        const json_t *term = json_array_get(list, t);
        const char *kind = json_string_value(json_object_get(term, "kind"));
        const json_t *weight = json_object_get(term, "weight");
        const json_t *temperature = json_object_get(term, "temperature");
        c->terms[t] = (PcvrLossTerm){
            .weight = json_is_number(weight) ? json_number_value(weight) : 1.0,
            .temperature =
                json_is_number(temperature) ? json_number_value(temperature) : 1.0,
        };
        if (kind != NULL && strcmp(kind, "bce") == 0)
            c->terms[t].kind = PCVR_LOSS_BCE;
        else if (kind != NULL && strcmp(kind, "pairwise_auc") == 0)
            c->terms[t].kind = PCVR_LOSS_PAIRWISE;
        else
            return pcvr_fail(err, "%s/case.json: unknown kind of loss '%s'", c->dir,
                             kind != NULL ? kind : "");
    }
    return true;
}

// The last two parts of a directory's path.
static const char *
short_name(const char *dir)
{
    int slashes = 0;
    for (const char *p = dir + strlen(dir); p > dir; p--)
        if (p[-1] == '/' && ++slashes == 2)
            return p;
    return dir;
}

static bool
load(Case *c, PcvrError *err)
{
    c->json = read_json(c, "case.json", err);
    if (!json_is_object(c->json) || !read_schema(c, err) || !read_loss(c, err))
        return false;
    const json_t *actions =
        json_object_get(json_object_get(c->json, "config"), "action_num");
    c->actions = json_is_integer(actions) ? json_integer_value(actions) : 1;
    c->domains = calloc((size_t)c->schema->n_domains + 1, sizeof *c->domains);
    if (c->domains == NULL)
        return pcvr_fail(err, "out of memory");
    if (!read_tensors(c, "batch.safetensors", true, &c->data, err) ||
        !case_batch(&c->data, c->schema, &c->batch, c->domains, err))
        return false;
    const json_t *weights = json_object_get(c->json, "weights");
    const char *source = json_string_value(json_object_get(weights, "source"));
    bool generated = source != NULL && strcmp(source, "generator") == 0;
    if (!generated && !read_tensors(c, "weights.safetensors", true, &c->weights, err))
        return false;
    if (exists(c, "grads.json")) {
        c->digests = read_json(c, "grads.json", err);
        if (!json_is_object(c->digests))
            return false;
    }
    return read_tensors(c, "expected.safetensors", false, &c->expected, err) &&
           read_tensors(c, "grads.safetensors", false, &c->grads, err);
}

bool
case_load(Case *c, const char *dir, PcvrError *err)
{
    *c = (Case){.dir = strdup(dir)};
    if (c->dir == NULL)
        return pcvr_fail(err, "out of memory");
    for (size_t n = strlen(c->dir); n > 1 && c->dir[n - 1] == '/'; n--)
        c->dir[n - 1] = '\0';
    c->name = short_name(c->dir);
    if (load(c, err))
        return true;
    case_free(c);
    return false;
}

void
case_free(Case *c)
{
    json_decref(c->json);
    json_decref(c->digests);
    schema_free(c->schema);
    pcvr_safetensors_free(&c->data);
    pcvr_safetensors_free(&c->weights);
    pcvr_safetensors_free(&c->expected);
    pcvr_safetensors_free(&c->grads);
    free(c->domains);
    free(c->terms);
    free(c->dir);
    *c = (Case){0};
}

// ---- parameters -----------------------------------------------------------------------

const json_t *
case_param(const Case *c, const char *name)
{
    size_t k;
    json_t *p;
    json_array_foreach(json_object_get(c->json, "params"), k, p)
    {
        const char *n = json_string_value(json_object_get(p, "name"));
        if (n != NULL && strcmp(n, name) == 0)
            return p;
    }
    return NULL;
}

bool
case_param_shape(const json_t *entry, int rank, const int64_t *shape)
{
    const json_t *s = json_object_get(entry, "shape");
    if (json_array_size(s) != (size_t)rank)
        return false;
    for (int a = 0; a < rank; a++)
        if (json_integer_value(json_array_get(s, (size_t)a)) != shape[a])
            return false;
    return true;
}

bool
case_weight(const Case *c, NamedTensor *t, PcvrError *err)
{
    if (c->weights.count > 0) {
        const PcvrTensor *x = pcvr_safetensors_want(&c->weights, t->name, PCVR_T_F32,
                                                    t->rank, t->shape, err);
        if (x == NULL)
            return false;
        memcpy(t->values, x->data, x->bytes);
        return true;
    }
    const json_t *p = case_param(c, t->name);
    if (p == NULL)
        return pcvr_fail(err, "%s/case.json lists no parameter '%s'", c->dir, t->name);
    if (!case_param_shape(p, t->rank, t->shape))
        return pcvr_fail(err, "%s/case.json: parameter '%s' has another shape", c->dir,
                         t->name);
    pcvr_number_fill(t->values, 0, (size_t)t->size, t->name,
                     json_number_value(json_object_get(p, "offset")),
                     json_number_value(json_object_get(p, "scale")));
    if (json_is_true(json_object_get(p, "zero_row0")) && t->rank > 0 && t->shape[0] > 0)
        memset(t->values, 0, (size_t)(t->size / t->shape[0]) * sizeof *t->values);
    return true;
}

double
case_number(const Case *c, const char *path, double otherwise)
{
    const json_t *v = c->json;
    while (v != NULL && *path != '\0') {
        char key[64];
        size_t n = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        v = json_object_get(v, key);
        path += n + (path[n] == '.');
    }
    return json_is_number(v) ? json_number_value(v) : otherwise;
}

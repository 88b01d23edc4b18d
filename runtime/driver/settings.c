// settings.c - the tree of settings: defaults, lookups, changes.

#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

int
settings_n_fields(const Settings *s)
{
    return settings_n_common + s->kind->n_model + s->n_own;
}

const Field *
settings_field_at(const Settings *s, int i)
{
    if (i < settings_n_common)
        return &settings_common[i];
    i -= settings_n_common;
    return i < s->kind->n_model ? &s->kind->model[i] : &s->own[i - s->kind->n_model];
}

// The field called `name` of a list whose paths are plain names.
static const Field *
named(const Field *fields, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (!strcmp(fields[i].path, name))
            return &fields[i];
    }
    return NULL;
}

// Behind "loss.terms." or "data_pipeline.transforms.": "INDEX.NAME".
static const Field *
list_field(const Settings *s, const char *path)
{
    bool terms = !strncmp(path, "loss.terms.", 11);
    const char *rest = path + (terms ? 11 : 25);
    size_t n = strspn(rest, "0123456789");
    if (n == 0 || n > 4 || rest[n] != '.')
        return NULL;
    const json_t *list =
        settings_get(s, terms ? "loss.terms" : "data_pipeline.transforms");
    const json_t *item = json_array_get(list, strtoul(rest, NULL, 10));
    if (!item)
        return NULL;
    if (terms)
        return named(settings_term_fields, settings_n_term_fields, rest + n + 1);
    const char *name = json_string_value(json_object_get(item, "name"));
    const TransformClass *t = name ? settings_transform(name) : NULL;
    return t ? named(t->fields, t->n, rest + n + 1) : NULL;
}

static const Field group_field = {"group", FIELD_GROUPS, "[]", NULL, 0, 0, false, false};

const Field *
settings_field(const Settings *s, const char *path)
{
    int n = settings_n_fields(s);
    for (int i = 0; i < n; i++) {
        const Field *f = settings_field_at(s, i);
        if (!strcmp(f->path, path))
            return f;
    }
    if (!strncmp(path, "loss.terms.", 11) ||
        !strncmp(path, "data_pipeline.transforms.", 25))
        return list_field(s, path);
    if ((!strncmp(path, "model.ns.user_groups.", 21) ||
         !strncmp(path, "model.ns.item_groups.", 21)) &&
        json_path(s->root, path))
        return &group_field;
    return NULL;
}

// Creates the objects on the way to a path and puts the value there. Steals it.
static bool
plant(json_t *root, const char *path, json_t *value)
{
    json_t *v = root;
    for (;;) {
        size_t n = strcspn(path, ".");
        char part[256];
        if (n >= sizeof part || !value)
            break;
        memcpy(part, path, n);
        part[n] = 0;
        if (!path[n])
            return json_object_set_new(v, part, value) == 0;
        if (!json_object_get(v, part))
            json_object_set_new(v, part, json_object());
        v = json_object_get(v, part);
        path += n + 1;
    }
    json_decref(value);
    return false;
}

// "model.ns" stands between rms_norm_block_rows and a class's own fields, as in the
// table.
bool
settings_init(Settings *s, const SettingsClass *kind, PcvrError *err)
{
    *s = (Settings){.kind = kind, .root = json_object(), .extra = json_object()};
    bool ok = s->root && s->extra;
    static const char *const sections[] = {
        "data", "data_pipeline",    "optimizer", "ema",       "runtime",
        "loss", "sparse_optimizer", "model",     "validation"};
    for (size_t i = 0; ok && i < sizeof sections / sizeof *sections; i++)
        ok = json_object_set_new(s->root, sections[i], json_object()) == 0;
    for (int i = 0; ok && i < settings_n_common + kind->n_model; i++) {
        const Field *f = settings_field_at(s, i);
        ok = plant(s->root, f->path, json_loads(f->standard, JSON_DECODE_ANY, NULL));
    }
    return ok || pcvr_fail(err, "out of memory");
}

void
settings_free(Settings *s)
{
    for (int i = 0; i < s->n_own; i++) {
        free((void *)(uintptr_t)s->own[i].path);
        free((void *)(uintptr_t)s->own[i].standard);
    }
    free(s->own);
    json_decref(s->root);
    json_decref(s->extra);
    *s = (Settings){0};
}

json_t *
settings_get(const Settings *s, const char *path)
{
    json_t *own = json_object_get(s->extra, path);
    return own ? own : json_path(s->root, path);
}

int64_t
settings_int(const Settings *s, const char *path)
{
    return json_integer_value(settings_get(s, path));
}

double
settings_float(const Settings *s, const char *path)
{
    return json_number_value(settings_get(s, path));
}

bool
settings_bool(const Settings *s, const char *path)
{
    return json_is_true(settings_get(s, path));
}

const char *
settings_text(const Settings *s, const char *path)
{
    return json_string_value(settings_get(s, path));
}

static bool
is_own(const Settings *s, const Field *f)
{
    return s->n_own > 0 && f >= s->own && f < s->own + s->n_own;
}

bool
settings_set(Settings *s, const char *path, json_t *value, PcvrError *err)
{
    const Field *f = settings_field(s, path);
    if (!f) {
        json_decref(value);
        return pcvr_fail(err, "unknown field '%s'", path);
    }
    if (f == &group_field) { // one group: checked as an object that holds it
        json_t *wrapped = json_object();
        json_object_set_new(wrapped, "group", value);
        json_t *groups = settings_coerce(f, path, wrapped, err);
        value = json_incref(json_object_get(groups, "group"));
        json_decref(groups);
    } else {
        value = settings_coerce(f, path, value, err);
    }
    if (!value)
        return false;
    if (is_own(s, f))
        return json_object_set_new(s->extra, path, value) == 0;
    return json_path_set(s->root, path, value) ||
           pcvr_fail(err, "unknown field '%s'", path);
}

bool
settings_set_text(Settings *s, const char *path, const char *text, PcvrError *err)
{
    const Field *f = settings_field(s, path);
    json_t *value = NULL;
    if (f && (f->kind == FIELD_INT_OR_NULL || f->kind == FIELD_TEXT_OR_NULL) &&
        !strcmp(text, "None"))
        value = json_null();
    else if (f && (f->kind == FIELD_JSON || f->kind == FIELD_TERMS ||
                   f->kind == FIELD_TRANSFORMS || f->kind == FIELD_GROUPS))
        value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    else
        value = json_string(text);
    if (!value)
        return pcvr_fail(err, "%s: cannot read '%s' as JSON", path, text);
    return settings_set(s, path, value, err);
}

bool
settings_choose_transform(Settings *s, int index, const char *selector, PcvrError *err)
{
    const TransformClass *t = settings_transform_selected(selector);
    json_t *list = settings_get(s, "data_pipeline.transforms");
    if (index < 0 || (size_t)index >= json_array_size(list))
        return pcvr_fail(err, "data_pipeline.transforms.%d: there are %zu transforms",
                         index, json_array_size(list));
    if (!t)
        return pcvr_fail(err, "data_pipeline.transforms.%d: unknown transform '%s'",
                         index, selector);
    const char *now =
        json_string_value(json_object_get(json_array_get(list, (size_t)index), "name"));
    if (now && !strcmp(now, t->name))
        return true;
    json_t *record = json_object();
    for (int i = 0; i < t->n; i++)
        json_object_set_new(record, t->fields[i].path,
                            json_loads(t->fields[i].standard, JSON_DECODE_ANY, NULL));
    return json_array_set_new(list, (size_t)index, record) == 0;
}

static FieldKind
kind_of(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_INTEGER:
        return FIELD_INT;
    case JSON_REAL:
        return FIELD_FLOAT;
    case JSON_TRUE:
    case JSON_FALSE:
        return FIELD_BOOL;
    case JSON_STRING:
        return FIELD_TEXT;
    default:
        return FIELD_JSON;
    }
}

static bool
own_field_add(Settings *s, const char *path, const json_t *value, PcvrError *err)
{
    Field *own = realloc(s->own, (size_t)(s->n_own + 1) * sizeof *own);
    char *name = strdup(path),
         *standard = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (own)
        s->own = own;
    if (!own || !name || !standard ||
        json_object_set_new(s->extra, path, json_deep_copy(value))) {
        free(name);
        free(standard);
        return pcvr_fail(err, "out of memory");
    }
    s->own[s->n_own++] =
        (Field){.path = name, .kind = kind_of(value), .standard = standard};
    return true;
}

// Walks nested model fields. Groups and own dictionaries are values, the rest of the
// objects are names.
static bool
take_fields(Settings *s, const char *prefix, const json_t *fields, PcvrError *err)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)fields, key, v)
    {
        char path[256];
        if ((size_t)snprintf(path, sizeof path, "%s.%s", prefix, key) >= sizeof path)
            return pcvr_fail(err, "%s: a name of more than 255 bytes", prefix);
        if (settings_field(s, path)) {
            if (!settings_set(s, path, json_incref(v), err))
                return false;
        } else if (json_is_object(v) && json_is_object(json_path(s->root, path))) {
            if (!take_fields(s, path, v, err))
                return false;
        } else if (!own_field_add(s, path, v, err)) {
            return false;
        }
    }
    return true;
}

bool
settings_take_model(Settings *s, const json_t *fields, const json_t *train,
                    PcvrError *err)
{
    const char *key;
    json_t *v;
    if (!take_fields(s, "model", fields, err))
        return false;
    json_object_foreach((json_t *)(uintptr_t)train, key, v)
    {
        const Field *f = settings_field(s, key);
        if (!f && !strncmp(key, "model.", 6))
            continue; // already in the fields
        if (!f)
            return pcvr_fail(err, "train section: unknown key '%s'", key);
        if (!settings_set(s, key, json_incref(v), err))
            return false;
    }
    return true;
}

json_t *
settings_model_json(const Settings *s)
{
    const char *key;
    json_t *v, *out = json_object(),
               *model = json_deep_copy(json_object_get(s->root, "model"));
    json_object_set_new(out, "model", model);
    json_object_foreach(s->extra, key, v) plant(out, key, json_deep_copy(v));
    json_t *result = json_incref(json_object_get(out, "model"));
    json_decref(out);
    return result;
}

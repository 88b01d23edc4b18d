// settings_file.c - train_config.json, exactly as the reference writes and reads it, and
// pcvr.json.

#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

static const char format_name[] = "taac2026-pcvr-train-config";
static const char framework_name[] = "taac2026";

// Text with the final newline.
static char *
with_newline(json_t *v)
{
    char *text = json_text(v, 2), *out = NULL;
    if (text) {
        size_t n = strlen(text);
        out = realloc(text, n + 2);
        if (out)
            memcpy(out + n, "\n", 2);
        else
            free(text);
    }
    json_decref(v);
    return out;
}

char *
settings_write(const Settings *s)
{
    json_t *file = json_object();
    json_object_set_new(file, "train_config_format", json_string(format_name));
    json_object_set_new(file, "framework_name", json_string(framework_name));
    json_object_set(file, "train_config", s->root);
    return with_newline(file);
}

char *
settings_write_extra(const Settings *s, const json_t *about)
{
    json_t *file = json_object(), *v;
    const char *key;
    json_object_set_new(file, "pcvr_format", json_integer(1));
    json_object_set(file, "model", s->extra);
    json_object_foreach((json_t *)(uintptr_t)about, key, v) json_object_set(file, key, v);
    return with_newline(file);
}

static json_t *
parse_object(const char *text, size_t n, const char *label, PcvrError *err)
{
    json_error_t where;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &where);
    if (!root) {
        pcvr_fail(err, "%s:%d:%d: %s", label, where.line, where.column, where.text);
        return NULL;
    }
    if (!json_is_object(root)) {
        pcvr_fail(err, "%s: expected an object", label);
        json_decref(root);
        return NULL;
    }
    return root;
}

// Whether `have` has every key of `want` and no other, at every level of plain objects.
// Groups, lists and values end the walk.
static bool
same_keys(const Settings *s, const char *prefix, const json_t *want, const json_t *have,
          const char *label, PcvrError *err)
{
    const char *key;
    json_t *v;
    char path[256];
    json_object_foreach((json_t *)(uintptr_t)have, key, v)
    {
        if (!json_object_get(want, key))
            return pcvr_fail(err, "%s: unknown field '%s%s'", label, prefix, key);
    }
    json_object_foreach((json_t *)(uintptr_t)want, key, v)
    {
        const json_t *inner = json_object_get(have, key);
        snprintf(path, sizeof path, "%s%s", prefix, key);
        if (!inner)
            return pcvr_fail(err, "%s: missing field '%s'", label, path);
        if (!json_is_object(v) || settings_field(s, path))
            continue;
        if (!json_is_object(inner))
            return pcvr_fail(err, "%s: expected an object at '%s'", label, path);
        snprintf(path, sizeof path, "%s%s.", prefix, key);
        if (!same_keys(s, path, v, inner, label, err))
            return false;
    }
    return true;
}

static bool
complete(const Field *fields, int n, const json_t *item, const char *what, size_t index,
         const char *label, PcvrError *err)
{
    for (int i = 0; i < n; i++) {
        if (!json_object_get(item, fields[i].path))
            return pcvr_fail(err, "%s: missing field '%s[%zu].%s'", label, what, index,
                             fields[i].path);
    }
    return true;
}

// Fields inside loss terms and transforms have defaults elsewhere; in a file they must be
// written out.
static bool
lists_complete(const json_t *config, const char *label, PcvrError *err)
{
    const json_t *terms = json_path(config, "loss.terms");
    const json_t *transforms = json_path(config, "data_pipeline.transforms");
    for (size_t i = 0; i < json_array_size(terms); i++) {
        if (!complete(settings_term_fields, settings_n_term_fields,
                      json_array_get(terms, i), "loss.terms", i, label, err))
            return false;
    }
    for (size_t i = 0; i < json_array_size(transforms); i++) {
        const json_t *item = json_array_get(transforms, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        const TransformClass *t = name ? settings_transform(name) : NULL;
        if (!t)
            return pcvr_fail(err,
                             "%s: unknown transform in 'data_pipeline.transforms[%zu]'",
                             label, i);
        if (!complete(t->fields, t->n, item, "data_pipeline.transforms", i, label, err))
            return false;
    }
    return true;
}

static bool
check_text(const json_t *file, const char *key, const char *want, const char *label,
           PcvrError *err)
{
    const char *have = json_string_value(json_object_get(file, key));
    if (have && !strcmp(have, want))
        return true;
    return pcvr_fail(err, "%s: %s is '%s', expected '%s'", label, key, have ? have : "",
                     want);
}

static bool
take_values(Settings *s, const json_t *config, const char *label, PcvrError *err)
{
    PcvrError inner = {{0}};
    int n = settings_n_common + s->kind->n_model;
    for (int i = 0; i < n; i++) {
        const Field *f = settings_field_at(s, i);
        json_t *v = json_path(config, f->path);
        if (!settings_set(s, f->path, json_incref(v), &inner))
            return pcvr_fail(err, "%s: %s", label, inner.text);
    }
    if (!settings_check(s, &inner))
        return pcvr_fail(err, "%s: %s", label, inner.text);
    return true;
}

bool
settings_read(Settings *s, const char *text, size_t n, const char *label, PcvrError *err)
{
    json_t *file = parse_object(text, n, label, err), *v;
    const char *key;
    if (!file)
        return false;
    bool ok = check_text(file, "train_config_format", format_name, label, err) &&
              check_text(file, "framework_name", framework_name, label, err);
    json_object_foreach(file, key, v)
    {
        if (ok && strcmp(key, "train_config_format") && strcmp(key, "framework_name") &&
            strcmp(key, "train_config"))
            ok = pcvr_fail(err, "%s: unknown field '%s'", label, key);
    }
    json_t *config = json_object_get(file, "train_config");
    if (ok && !json_is_object(config))
        ok = pcvr_fail(err, "%s: missing field 'train_config'", label);
    ok = ok && same_keys(s, "", s->root, config, label, err) &&
         lists_complete(config, label, err) && take_values(s, config, label, err);
    json_decref(file);
    return ok;
}

bool
settings_read_extra(Settings *s, const char *text, size_t n, const char *label,
                    PcvrError *err)
{
    json_t *file = parse_object(text, n, label, err);
    if (!file)
        return false;
    bool ok = true;
    const json_t *model = json_object_get(file, "model");
    for (int i = 0; ok && i < s->n_own; i++) {
        json_t *v = json_object_get(model, s->own[i].path);
        ok = !v || settings_set(s, s->own[i].path, json_incref(v), err);
    }
    json_decref(file);
    return ok;
}

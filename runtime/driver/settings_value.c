// settings_value.c - bringing JSON values and command line texts to the kind of a field.

#include "settings.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// The whole text as a decimal integer.
static bool
text_integer(const char *s, json_int_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (end == s || *end || errno || isspace((unsigned char)*s))
        return false;
    *out = v;
    return true;
}

static bool
text_number(const char *s, double *out)
{
    char *end;
    if (!*s || isspace((unsigned char)*s) || strpbrk(s, "xX"))
        return false;
    *out = strtod(s, &end);
    return end != s && !*end;
}

static bool
text_boolean(const char *s, bool *out)
{
    static const char *const yes[] = {"true", "1", "yes", "on", "t", "y"};
    static const char *const no[] = {"false", "0", "no", "off", "f", "n"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (!strcasecmp(s, yes[i]) || !strcasecmp(s, no[i])) {
            *out = !strcasecmp(s, yes[i]);
            return true;
        }
    }
    return false;
}

static const char *
number_range(const Field *f, char room[96])
{
    int n = snprintf(room, 96, "%s%g", f->open_low ? "> " : ">= ", f->low);
    if (f->high < 1e299)
        snprintf(room + n, (size_t)(96 - n), " and %s%g",
                 f->open_high ? "< " : "<= ", f->high);
    return room;
}

static bool
number_allowed(const Field *f, const char *path, double x, PcvrError *err)
{
    char room[96];
    if (f->low >= f->high)
        return true;
    bool ok = f->open_low ? x > f->low : x >= f->low;
    ok = ok && (f->open_high ? x < f->high : x <= f->high);
    return ok || pcvr_fail(err, "%s: expected a number %s, found %g", path,
                           number_range(f, room), x);
}

static json_t *
to_integer(const Field *f, const char *path, const json_t *v, PcvrError *err)
{
    json_int_t i = 0;
    if (json_is_integer(v)) {
        i = json_integer_value(v);
    } else if (json_is_real(v)) {
        double x = json_real_value(v);
        if (x != floor(x) || fabs(x) > 9e15) {
            pcvr_fail(err, "%s: expected an integer, found %.17g", path, x);
            return NULL;
        }
        i = (json_int_t)x;
    } else if (!json_is_string(v) || !text_integer(json_string_value(v), &i)) {
        pcvr_fail(err, "%s: expected an integer%s%s%s", path,
                  json_is_string(v) ? ", found '" : "",
                  json_is_string(v) ? json_string_value(v) : "",
                  json_is_string(v) ? "'" : "");
        return NULL;
    }
    return number_allowed(f, path, (double)i, err) ? json_integer(i) : NULL;
}

static json_t *
to_number(const Field *f, const char *path, const json_t *v, PcvrError *err)
{
    double x = 0.0;
    if (json_is_number(v)) {
        x = json_number_value(v);
    } else if (!json_is_string(v) || !text_number(json_string_value(v), &x)) {
        pcvr_fail(err, "%s: expected a number%s%s%s", path,
                  json_is_string(v) ? ", found '" : "",
                  json_is_string(v) ? json_string_value(v) : "",
                  json_is_string(v) ? "'" : "");
        return NULL;
    }
    if (!isfinite(x)) {
        pcvr_fail(err, "%s: expected a finite number", path);
        return NULL;
    }
    return number_allowed(f, path, x, err) ? json_real(x) : NULL;
}

static json_t *
to_boolean(const char *path, const json_t *v, PcvrError *err)
{
    bool b;
    if (json_is_boolean(v))
        return json_boolean(json_is_true(v));
    if (json_is_string(v) && text_boolean(json_string_value(v), &b))
        return json_boolean(b);
    if (json_is_integer(v) && (json_integer_value(v) == 0 || json_integer_value(v) == 1))
        return json_boolean(json_integer_value(v));
    pcvr_fail(err, "%s: expected true or false", path);
    return NULL;
}

// Other names of the two reduced precisions.
static const char *
alias(const char *path, const char *text)
{
    if (!strcmp(path, "runtime.amp_dtype")) {
        if (!strcasecmp(text, "bf16"))
            return "bfloat16";
        if (!strcasecmp(text, "fp16") || !strcasecmp(text, "half"))
            return "float16";
    }
    return text;
}

static json_t *
to_choice(const Field *f, const char *path, const json_t *v, PcvrError *err)
{
    const char *text = json_is_string(v) ? alias(path, json_string_value(v)) : NULL;
    bool any_case = strstr(path, "loss.terms.") == path;
    for (const char *p = f->choices; text && *p;) {
        size_t n = strcspn(p, "|");
        if (strlen(text) == n && !(any_case ? strncasecmp : strncmp)(text, p, n))
            return json_stringn(p, n);
        p += n + (p[n] == '|');
    }
    pcvr_fail(err, "%s: expected one of %s, found %s%s%s", path, f->choices,
              text ? "'" : "", text ? text : "no text", text ? "'" : "");
    return NULL;
}

static json_t *
to_groups(const char *path, const json_t *v, PcvrError *err)
{
    const char *key;
    json_t *list, *out = json_object();
    if (!json_is_object(v)) {
        pcvr_fail(err, "%s: expected groups of feature ids", path);
        json_decref(out);
        return NULL;
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, list)
    {
        json_t *ids = json_array();
        for (size_t i = 0; json_is_array(list) && i < json_array_size(list); i++) {
            Field f = {.kind = FIELD_INT};
            json_t *id = to_integer(&f, path, json_array_get(list, i), err);
            if (!id || json_array_append_new(ids, id))
                break;
        }
        if (!json_is_array(list) || json_array_size(ids) != json_array_size(list)) {
            pcvr_fail(err, "%s.%s: expected a list of feature ids", path, key);
            json_decref(ids);
            json_decref(out);
            return NULL;
        }
        json_object_set_new(out, key, ids);
    }
    return out;
}

// One object whose fields are `fields`: all present and no other when `strict`, else
// defaults fill in.
static json_t *
to_record(const Field *fields, int n, bool strict, const char *path, const json_t *v,
          PcvrError *err)
{
    char inner[160];
    const char *key;
    json_t *item, *out = json_object();
    bool ok = json_is_object(v) || pcvr_fail(err, "%s: expected an object", path);
    if (ok) {
        json_object_foreach((json_t *)(uintptr_t)v, key, item)
        {
            bool known = false;
            for (int i = 0; i < n; i++)
                known = known || !strcmp(fields[i].path, key);
            if (ok && !known)
                ok = pcvr_fail(err, "%s: unknown field '%s'", path, key);
        }
    }
    for (int i = 0; ok && i < n; i++) {
        json_t *given = json_object_get(v, fields[i].path);
        snprintf(inner, sizeof inner, "%s.%s", path, fields[i].path);
        if (!given && strict) {
            ok = pcvr_fail(err, "missing field '%s'", inner);
            break;
        }
        json_t *raw = given ? json_incref(given)
                            : json_loads(fields[i].standard, JSON_DECODE_ANY, NULL);
        json_t *value = raw ? settings_coerce(&fields[i], inner, raw, err) : NULL;
        ok = value && !json_object_set_new(out, fields[i].path, value);
    }
    if (!ok) {
        json_decref(out);
        return NULL;
    }
    return out;
}

static json_t *
to_terms(const char *path, const json_t *v, PcvrError *err)
{
    char inner[128];
    json_t *out = json_array();
    if (!json_is_array(v) || json_array_size(v) == 0)
        pcvr_fail(err, "%s: expected at least one loss term", path);
    for (size_t i = 0; i < json_array_size(v); i++) {
        snprintf(inner, sizeof inner, "%s.%zu", path, i);
        json_t *term = to_record(settings_term_fields, settings_n_term_fields, false,
                                 inner, json_array_get(v, i), err);
        if (!term || json_array_append_new(out, term))
            break;
    }
    if (json_array_size(out) == 0 || json_array_size(out) != json_array_size(v)) {
        json_decref(out);
        return NULL;
    }
    return out;
}

static json_t *
to_transforms(const char *path, const json_t *v, PcvrError *err)
{
    char inner[128];
    json_t *out = json_array();
    bool ok = json_is_array(v) || pcvr_fail(err, "%s: expected a list", path);
    for (size_t i = 0; ok && i < json_array_size(v); i++) {
        const json_t *item = json_array_get(v, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        const TransformClass *t = name ? settings_transform(name) : NULL;
        snprintf(inner, sizeof inner, "%s.%zu", path, i);
        ok = t || pcvr_fail(err, "%s: unknown transform '%s'", inner, name ? name : "");
        json_t *record = ok ? to_record(t->fields, t->n, false, inner, item, err) : NULL;
        ok = record && !json_array_append_new(out, record);
    }
    if (!ok) {
        json_decref(out);
        return NULL;
    }
    return out;
}

// Names of loss terms lose the blanks around them.
static json_t *
to_text(const char *path, const json_t *v, PcvrError *err)
{
    const char *text = json_string_value(v);
    if (text && !strncmp(path, "loss.terms.", 11)) {
        size_t n = strlen(text += strspn(text, " \t\n\r"));
        while (n > 0 && isspace((unsigned char)text[n - 1]))
            n--;
        return json_stringn(text, n);
    }
    if (text)
        return json_string(text);
    pcvr_fail(err, "%s: expected text", path);
    return NULL;
}

static json_t *
coerced(const Field *f, const char *path, const json_t *v, PcvrError *err)
{
    switch (f->kind) {
    case FIELD_INT:
        return to_integer(f, path, v, err);
    case FIELD_FLOAT:
        return to_number(f, path, v, err);
    case FIELD_BOOL:
        return to_boolean(path, v, err);
    case FIELD_TEXT:
        return to_text(path, v, err);
    case FIELD_CHOICE:
        return to_choice(f, path, v, err);
    case FIELD_INT_OR_NULL:
        return json_is_null(v) ? json_null() : to_integer(f, path, v, err);
    case FIELD_TEXT_OR_NULL:
        return json_is_null(v) ? json_null() : to_text(path, v, err);
    case FIELD_GROUPS:
        return to_groups(path, v, err);
    case FIELD_TRANSFORMS:
        return to_transforms(path, v, err);
    case FIELD_TERMS:
        return to_terms(path, v, err);
    case FIELD_JSON:
        return json_deep_copy(v);
    }
    return NULL;
}

json_t *
settings_coerce(const Field *f, const char *path, json_t *value, PcvrError *err)
{
    json_t *out = value ? coerced(f, path, value, err) : NULL;
    json_decref(value);
    return out;
}

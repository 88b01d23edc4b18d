// flags.c - the command line: a command's own flags, and the settings in dotted names.

#include "flags.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_LIMIT = 256, TRANSFORM_LIMIT = 64 };

typedef struct Reader {
    int argc, at;
    char **argv;
    const Flag *flags;
    int n_flags;
    Settings *settings;
    bool chosen[TRANSFORM_LIMIT]; // transforms whose class was given
    PcvrError *err;
} Reader;

// A flag's name without hyphens in front and without "=value"; hyphens become `to`, or
// underscores hyphens.
static bool
flag_name(char out[NAME_LIMIT], const char *arg, char from, char to)
{
    const char *s = arg + 2;
    size_t n = strcspn(s, "=");
    if (n == 0 || n >= NAME_LIMIT)
        return false;
    for (size_t i = 0; i < n; i++)
        out[i] = s[i] == from ? to : s[i];
    out[n] = 0;
    return true;
}

static int
edits(const char *a, const char *b, int limit)
{
    int n = (int)strlen(a), m = (int)strlen(b), row[NAME_LIMIT + 1];
    if (abs(n - m) > limit || m >= NAME_LIMIT)
        return limit + 1;
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[m];
}

const char *
flags_nearest(const char *word, const char *const *candidates, int n)
{
    const char *found = NULL;
    int best = (int)strlen(word) / 3 + 1;
    for (int i = 0; i < n; i++) {
        int d = edits(word, candidates[i], best);
        if (d < best || (d == best && !found)) {
            best = d;
            found = candidates[i];
        }
    }
    return found;
}

static bool
unknown(Reader *r, const char *arg)
{
    char hyphens[NAME_LIMIT], underscores[NAME_LIMIT];
    int n = 0, n_fields = r->settings ? settings_n_fields(r->settings) : 0;
    const char **names =
        malloc(((size_t)r->n_flags + (size_t)n_fields + 1) * sizeof *names);
    const char *near = NULL;
    if (names && flag_name(hyphens, arg, '_', '-') &&
        flag_name(underscores, arg, '-', '_')) {
        for (int i = 0; i < r->n_flags; i++)
            names[n++] = r->flags[i].name;
        near = flags_nearest(hyphens, names, n);
        n = 0;
        for (int i = 0; i < n_fields; i++)
            names[n++] = settings_field_at(r->settings, i)->path;
        if (!near)
            near = flags_nearest(underscores, names, n);
        // A field named without its section, or with another one.
        const char *dot = strrchr(underscores, '.'), *last = dot ? dot + 1 : underscores;
        for (int i = 0; !near && i < n; i++) {
            const char *tail = strrchr(names[i], '.');
            if (tail && !strcmp(tail + 1, last))
                near = names[i];
        }
    }
    free(names);
    if (near)
        return pcvr_fail(r->err, "unknown flag '%s'; did you mean '--%s'?", arg, near);
    return pcvr_fail(r->err, "unknown flag '%s'", arg);
}

// The value behind "=" or the next argument.
static const char *
value_of(Reader *r, const char *arg)
{
    const char *equal = strchr(arg, '=');
    if (equal)
        return equal + 1;
    if (r->at + 1 < r->argc && strncmp(r->argv[r->at + 1], "--", 2))
        return r->argv[++r->at];
    pcvr_fail(r->err, "flag '%s' needs a value", arg);
    return NULL;
}

static bool
own_value(Reader *r, const Flag *f, const char *arg)
{
    static const char *const wanted[] = {[FLAG_INT] = "an integer",
                                         [FLAG_COUNT] = "an integer from 1 on",
                                         [FLAG_SIZE] = "an integer from 0 on",
                                         [FLAG_FLOAT] = "a number"};
    char *end;
    const char *text = value_of(r, arg);
    if (!text)
        return false;
    errno = 0;
    if (f->kind == FLAG_TEXT) {
        *(const char **)f->to = text;
        return true;
    }
    bool ok = !isspace((unsigned char)*text);
    if (f->kind == FLAG_FLOAT) {
        *(double *)f->to = strtod(text, &end);
    } else {
        int64_t v = strtoll(text, &end, 10);
        ok = ok && !(f->kind == FLAG_COUNT && v < 1) && !(f->kind == FLAG_SIZE && v < 0);
        *(int64_t *)f->to = v;
    }
    if (!ok || end == text || *end || errno)
        return pcvr_fail(r->err, "--%s: expected %s, found '%s'", f->name,
                         wanted[f->kind], text);
    return true;
}

// One of the command's own flags: 1 taken, 0 not one of them, -1 wrong.
static int
own_flag(Reader *r, const char *arg)
{
    char name[NAME_LIMIT];
    if (!flag_name(name, arg, '_', '-'))
        return 0;
    for (int i = 0; i < r->n_flags; i++) {
        const Flag *f = &r->flags[i];
        bool bare = f->kind == FLAG_SWITCH || f->kind == FLAG_PLAIN;
        bool no = f->kind == FLAG_SWITCH && !strncmp(name, "no-", 3) &&
                  !strcmp(name + 3, f->name);
        if (!no && strcmp(name, f->name))
            continue;
        if (!bare)
            return own_value(r, f, arg) ? 1 : -1;
        if (strchr(arg, '=')) {
            pcvr_fail(r->err, "flag '--%s' takes no value", name);
            return -1;
        }
        *(int *)f->to = !no;
        return 1;
    }
    return 0;
}

// Drops "no_" from the last part of a dotted name; false when it is not there.
static bool
without_no(char out[NAME_LIMIT], const char *name)
{
    const char *dot = strrchr(name, '.');
    const char *last = dot ? dot + 1 : name;
    if (strncmp(last, "no_", 3))
        return false;
    snprintf(out, NAME_LIMIT, "%.*s%s", (int)(last - name), name, last + 3);
    return true;
}

static bool
set_switch(Reader *r, const char *arg, const char *path, bool on)
{
    if (strchr(arg, '='))
        return pcvr_fail(r->err, "switch '%s' takes no value; use --%s or its no_ form",
                         arg, path);
    return settings_set(r->settings, path, json_boolean(on), r->err);
}

// Every following argument up to the next flag or selector.
static bool
set_group(Reader *r, const char *arg, const char *path)
{
    json_t *ids = json_array();
    const char *equal = strchr(arg, '=');
    if (equal)
        json_array_append_new(ids, json_string(equal + 1));
    while (!equal && r->at + 1 < r->argc && strncmp(r->argv[r->at + 1], "--", 2) &&
           !strchr(r->argv[r->at + 1], ':'))
        json_array_append_new(ids, json_string(r->argv[++r->at]));
    if (json_array_size(ids) == 0) {
        json_decref(ids);
        return pcvr_fail(r->err, "flag '%s' needs feature ids", arg);
    }
    return settings_set(r->settings, path, ids, r->err);
}

static bool
transform_chosen(Reader *r, const char *path)
{
    static const char prefix[] = "data_pipeline.transforms.";
    if (strncmp(path, prefix, sizeof prefix - 1))
        return true;
    unsigned long i = strtoul(path + sizeof prefix - 1, NULL, 10);
    return (i < TRANSFORM_LIMIT && r->chosen[i]) ||
           pcvr_fail(r->err,
                     "--%s: name the transform first, as in "
                     "data_pipeline.transforms.%lu:pcvr_feature_mask_config",
                     path, i);
}

static bool
setting_flag(Reader *r, const char *arg)
{
    char exact[NAME_LIMIT], name[NAME_LIMIT], positive[NAME_LIMIT];
    if (!r->settings || !flag_name(exact, arg, 0, 0) || !flag_name(name, arg, '-', '_'))
        return unknown(r, arg);
    const char *path = exact;
    const Field *f = settings_field(r->settings, path);
    if (!f)
        f = settings_field(r->settings, path = name);
    if (!f && without_no(positive, name) && (f = settings_field(r->settings, positive))) {
        if (f->kind != FIELD_BOOL || !strchr(positive, '.'))
            return unknown(r, arg);
        return transform_chosen(r, positive) && set_switch(r, arg, positive, false);
    }
    if (!f)
        return unknown(r, arg);
    if (f->kind == FIELD_TERMS || f->kind == FIELD_TRANSFORMS)
        return pcvr_fail(r->err, "--%s: a model file sets it (train { %s = [...] })%s",
                         path, path,
                         f->kind == FIELD_TERMS
                             ? ""
                             : "; flags set fields of the transforms that are there");
    if (!transform_chosen(r, path))
        return false;
    if (f->kind == FIELD_BOOL)
        return set_switch(r, arg, path, true);
    if (f->kind == FIELD_GROUPS && strcmp(f->path, path))
        return set_group(r, arg, path);
    const char *value = value_of(r, arg);
    if (!value)
        return false;
    PcvrError inner = {{0}};
    return settings_set_text(r->settings, path, value, &inner) ||
           pcvr_fail(r->err, "--%s", inner.text);
}

// "data_pipeline.transforms.0:pcvr_sequence_crop_config".
static bool
selector(Reader *r, const char *arg)
{
    static const char prefix[] = "data_pipeline.transforms.";
    char *end;
    if (!r->settings || strncmp(arg, prefix, sizeof prefix - 1))
        return pcvr_fail(r->err, "unexpected argument '%s'", arg);
    unsigned long i = strtoul(arg + sizeof prefix - 1, &end, 10);
    if (*end != ':' || i >= TRANSFORM_LIMIT)
        return pcvr_fail(r->err, "unexpected argument '%s'", arg);
    r->chosen[i] = true;
    return settings_choose_transform(r->settings, (int)i, end + 1, r->err);
}

bool
flags_parse(int argc, char **argv, const Flag *flags, int n_flags, Settings *settings,
            PcvrError *err)
{
    Reader r = {.argc = argc,
                .argv = argv,
                .flags = flags,
                .n_flags = n_flags,
                .settings = settings,
                .err = err};
    for (; r.at < argc; r.at++) {
        const char *arg = argv[r.at];
        if (strncmp(arg, "--", 2) || !arg[2]) {
            if (!selector(&r, arg))
                return false;
            continue;
        }
        int own = own_flag(&r, arg);
        if (own < 0 || (own == 0 && !setting_flag(&r, arg)))
            return false;
    }
    return !settings || settings_check(settings, err);
}

const char *
flags_peek(int argc, char **argv, const char *name)
{
    const char *found = NULL;
    size_t n = strlen(name);
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) || strncmp(argv[i] + 2, name, n))
            continue;
        if (argv[i][2 + n] == '=')
            found = argv[i] + 3 + n;
        else if (!argv[i][2 + n] && i + 1 < argc)
            found = argv[i + 1];
    }
    return found;
}

bool
flags_ask_help(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return true;
    return false;
}

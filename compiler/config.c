// config.c - the configuration of a model: defaults, the train section, values from
// outside.
//
// Values are checked when they are given; what nobody gave is evaluated when it is
// read, so a default may use other fields.

#include "elab_int.h"

#include <string.h>

typedef struct Given {
    bool set;
    Value v;
} Given;

struct Config {
    Mem *mem;
    Diag *diag;
    const Program *program;
    Given *given; // one for each of program->decls
    bool checkpointing;
    const char *lens; // NULL: nobody gave any
};

static const char CHECKPOINTING[] = "gradient_checkpointing";
static const char SEQ_MAX_LENS[] = "data.seq_max_lens";

// ---- checking ---------------------------------------------------------------------

static bool
in_list(Elab *e, const Decl *d, Value v, const char **text)
{
    Value list = eval(e, NULL, d->allowed);
    if (list.kind == V_ERROR)
        return true;
    *text = value_text(e->mem, list);
    if (list.kind != V_LIST) {
        fault(e, d->allowed->place,
              "what '%s' allows must be a range or a list, found %s", d->name,
              value_what(e->mem, list));
        return true;
    }
    for (int k = 0; k < list.list->n; k++)
        if (value_equal(list.list->v[k], v))
            return true;
    return false;
}

static bool
in_range(Elab *e, const Decl *d, Value v, const char **text)
{
    const Ast *range = d->allowed;
    Value low = eval(e, NULL, range->kids[0]);
    bool open = range->n < 2 || !range->kids[1];
    Value high = open ? low : eval(e, NULL, range->kids[1]);
    if (low.kind == V_ERROR || high.kind == V_ERROR)
        return true;
    if (!value_is_number(low) || !value_is_number(high) || !value_is_number(v)) {
        fault(e, range->place, "a range needs numbers, found %s and %s for %s",
              value_what(e->mem, low), value_what(e->mem, high), value_what(e->mem, v));
        return true;
    }
    *text = arena_printf(&e->mem->perm, "%s..%s", value_text(e->mem, low),
                         open ? "" : value_text(e->mem, high));
    double x = value_number(v);
    return x >= value_number(low) && (open || x <= value_number(high));
}

// The value, and each element of a list, must be allowed. Reports at `p`.
static bool
check_allowed(Elab *e, const Decl *d, Value v, const char *origin, Place p)
{
    if (v.kind == V_LIST) {
        for (int k = 0; k < v.list->n; k++)
            if (!check_allowed(e, d, v.list->v[k], origin, p))
                return false;
        return true;
    }
    const char *text = "";
    bool ok = d->allowed->kind == AST_RANGE ? in_range(e, d, v, &text)
                                            : in_list(e, d, v, &text);
    if (!ok)
        fault(e, p, "'%s' must be in %s, found %s (%s)", d->name, text,
              v.kind == V_STR ? arena_printf(&e->mem->perm, "\"%s\"", v.s)
                              : value_text(e->mem, v),
              origin);
    return ok;
}

static bool
check_value(Elab *e, const Decl *d, Value *v, const char *origin, Place p)
{
    if (!value_coerce(e->mem, d->type, v)) {
        bool many = v->kind == V_LIST || v->kind == V_DICT;
        fault(e, p, "'%s' must be %s, found %.200s (%s)", d->name, type_text(e->mem, d->type),
              many ? value_text(e->mem, *v) : value_what(e->mem, *v), origin);
        return false;
    }
    return !d->allowed || check_allowed(e, d, *v, origin, p);
}

Value
config_value(Elab *e, const Config *c, const Decl *d)
{
    if (c) {
        const Given *g = &c->given[d - c->program->decls.v];
        if (g->set)
            return g->v;
    }
    Value v = eval(e, NULL, d->value);
    if (v.kind == V_ERROR || !check_value(e, d, &v, "the default", d->value->place))
        return (Value){.kind = V_ERROR};
    return v;
}

// ---- giving values ----------------------------------------------------------------

static int
set_value(Config *c, const Decl *d, Value v, const char *origin, Place p)
{
    Elab e;
    elab_init(&e, c->mem, c->diag, c->program, c);
    if (!check_value(&e, d, &v, origin, p))
        return CONFIG_BAD_VALUE;
    c->given[d - c->program->decls.v] = (Given){true, v};
    return CONFIG_OK;
}

static const Decl *
find_config(const Config *c, const char *name)
{
    const Decl *d = program_find(c->program, name);
    return d && d->kind == DECL_CONFIG ? d : NULL;
}

static int
unknown_name(Config *c, const char *name, const char *flag, Place p)
{
    int n = c->program->decls.n;
    const char **names = arena_array(&c->mem->perm, const char *, n + 2);
    int n_names = 0;
    for (int k = 0; k < n; k++)
        if (c->program->decls.v[k].kind == DECL_CONFIG)
            names[n_names++] = c->program->decls.v[k].name;
    names[n_names++] = CHECKPOINTING;
    names[n_names++] = SEQ_MAX_LENS;
    const char *near = nearest_name(name, names, n_names);
    const char *hint =
        near ? arena_printf(&c->mem->perm, ", did you mean '%s'", near) : "";
    diag_error(c->diag, p, "the model has no configuration field '%s' (%s)%s", name, flag,
               hint);
    return CONFIG_USAGE;
}

static int
set_checkpointing(Config *c, Value v, const char *origin, Place p)
{
    if (v.kind != V_BOOL) {
        diag_error(c->diag, p, "'%s' must be bool, found %s (%s)", CHECKPOINTING,
                   value_what(c->mem, v), origin);
        return CONFIG_BAD_VALUE;
    }
    c->checkpointing = v.i != 0;
    return CONFIG_OK;
}

// The value of a text: JSON, or the text itself where a string is wanted.
static int
parse_value(Config *c, const char *name, const char *text, const char *flag, const Decl *d,
            Value *v)
{
    bool string = d && d->type->kind == AST_TYPE && strcmp(d->type->text, "str") == 0;
    if (string && text[0] != '"') {
        *v = value_str(mem_intern_str(c->mem, text));
        return CONFIG_OK;
    }
    json_error_t error;
    json_t *j = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (!j) {
        diag_error(c->diag, d ? d->ast->place : (Place){0},
                   "'%s' needs a JSON value, found '%s' (%s): %s", name, text, flag, error.text);
        return CONFIG_BAD_VALUE;
    }
    *v = value_from_json(c->mem, j);
    json_decref(j);
    return CONFIG_OK;
}

int
config_set_named(Config *c, const char *name, const char *value, const char *flag)
{
    Value v;
    if (strcmp(name, SEQ_MAX_LENS) == 0)
        return config_set_seq_max_lens(c, value);
    if (strcmp(name, CHECKPOINTING) == 0) {
        int status = parse_value(c, name, value, flag, NULL, &v);
        return status ? status : set_checkpointing(c, v, flag, (Place){0});
    }
    const Decl *d = find_config(c, name);
    if (!d)
        return unknown_name(c, name, flag, (Place){0});
    int status = parse_value(c, name, value, flag, d, &v);
    return status ? status : set_value(c, d, v, flag, d->ast->place);
}

int
config_set_text(Config *c, const char *text)
{
    const char *equal = strchr(text, '=');
    if (!equal || equal == text) {
        diag_error(c->diag, (Place){0}, "--set needs NAME=VALUE, found '%s'", text);
        return CONFIG_USAGE;
    }
    const char *name = arena_copy(&c->mem->perm, text, (size_t)(equal - text));
    return config_set_named(c, name, equal + 1, "--set");
}

static int
set_fields(Config *c, const json_t *fields, const char *prefix, const char *where)
{
    int worst = CONFIG_OK;
    const char *key;
    json_t *x,
        *o = (json_t *)(uintptr_t)fields; // the iteration macro wants one it could change
    json_object_foreach(o, key, x)
    {
        const char *name = arena_printf(&c->mem->perm, "%s%s", prefix, key);
        const Decl *d = find_config(c, name);
        int status = CONFIG_OK;
        if (d)
            status = set_value(c, d, value_from_json(c->mem, x), where, d->ast->place);
        else if (strcmp(name, CHECKPOINTING) == 0)
            status = set_checkpointing(c, value_from_json(c->mem, x), where, (Place){0});
        else if (json_is_object(x) && !*prefix)
            status = set_fields(c, x, arena_printf(&c->mem->perm, "%s.", name), where);
        if (status > worst)
            worst = status;
    }
    return worst;
}

int
config_set_json(Config *c, const json_t *fields, const char *where)
{
    if (!json_is_object(fields)) {
        diag_error(c->diag, (Place){0}, "the configuration must be an object (%s)",
                   where);
        return CONFIG_BAD_VALUE;
    }
    return set_fields(c, fields, "", where);
}

// ---- sequence lengths -------------------------------------------------------------

int
config_set_seq_max_lens(Config *c, const char *lens)
{
    c->lens = arena_printf(&c->mem->perm, "%s", lens);
    return CONFIG_OK;
}

int
config_set_seq_max_lens_json(Config *c, const json_t *lens, const char *where)
{
    if (json_is_string(lens))
        return config_set_seq_max_lens(c, json_string_value(lens));
    Text t = {0};
    text_add(&c->mem->perm, &t, "%s", "");
    const char *key;
    json_t *x, *o = (json_t *)(uintptr_t)lens;
    bool ok = json_is_object(lens);
    json_object_foreach(o, key, x)
    {
        ok = ok && json_is_integer(x) && !strpbrk(key, ":,");
        if (ok)
            text_add(&c->mem->perm, &t, "%s%s:%lld", t.n > 1 ? "," : "", key,
                     (long long)json_integer_value(x));
    }
    if (!ok) {
        diag_error(
            c->diag, (Place){0},
            "'seq_max_lens' must be \"name:length,...\" or an object of lengths (%s)",
            where);
        return CONFIG_BAD_VALUE;
    }
    c->lens = t.v;
    return CONFIG_OK;
}

const char *
config_seq_max_lens(const Config *c)
{
    return c->lens;
}

bool
config_gradient_checkpointing(const Config *c)
{
    return c->checkpointing;
}

// ---- the train section ------------------------------------------------------------

static int
apply_setting(Config *c, const Ast *setting)
{
    const char *key = setting->text;
    bool lens = strcmp(key, SEQ_MAX_LENS) == 0;
    if (!lens && strncmp(key, "model.", 6) != 0)
        return CONFIG_OK;
    Elab e;
    elab_init(&e, c->mem, c->diag, c->program, c);
    Value v = eval(&e, NULL, setting->kids[0]);
    Place p = setting->kids[0]->place;
    if (v.kind == V_ERROR)
        return CONFIG_BAD_VALUE;
    if (lens && v.kind == V_STR)
        return config_set_seq_max_lens(c, v.s);
    if (lens) {
        diag_error(c->diag, p, "'%s' must be str, found %s", key, value_what(c->mem, v));
        return CONFIG_BAD_VALUE;
    }
    if (strcmp(key + 6, CHECKPOINTING) == 0)
        return set_checkpointing(c, v, "the train section", p);
    const Decl *d = find_config(c, key + 6);
    return d ? set_value(c, d, v, "the train section", p)
             : unknown_name(c, key + 6, "the train section", setting->place);
}

Config *
config_new(Mem *mem, Diag *diag, const Program *program)
{
    Config *c = arena_new(&mem->perm, Config);
    c->mem = mem;
    c->diag = diag;
    c->program = program;
    c->given = arena_array(&mem->perm, Given, program->decls.n);
    int before = diag->errors;
    for (int k = 0; k < program->train.n; k++)
        apply_setting(c, program->train.v[k]);
    Elab e;
    elab_init(&e, mem, diag, program, c);
    for (int k = 0; k < program->decls.n; k++)
        if (program->decls.v[k].kind == DECL_CONFIG)
            global_value(&e, &program->decls.v[k]);
    return diag->errors > before ? NULL : c;
}

// ---- writing it out ---------------------------------------------------------------

// Sets a dotted name in nested objects.
static bool
set_nested(json_t *o, const char *name, json_t *value)
{
    const char *dot = strchr(name, '.');
    if (!dot)
        return value && json_object_set_new(o, name, value) == 0;
    char head[256];
    size_t n = (size_t)(dot - name);
    if (n >= sizeof head) {
        json_decref(value);
        return false;
    }
    memcpy(head, name, n);
    head[n] = '\0';
    json_t *inner = json_object_get(o, head);
    if (!json_is_object(inner)) {
        inner = json_object();
        if (!inner || json_object_set_new(o, head, inner)) {
            json_decref(value);
            return false;
        }
    }
    return set_nested(inner, dot + 1, value);
}

json_t *
config_json(const Config *c)
{
    Elab e;
    elab_init(&e, c->mem, c->diag, c->program, c);
    json_t *o = json_object();
    bool ok = o != NULL;
    for (int k = 0; ok && k < c->program->decls.n; k++) {
        const Decl *d = &c->program->decls.v[k];
        if (d->kind != DECL_CONFIG)
            continue;
        Value v = global_value(&e, d);
        ok = v.kind != V_ERROR && set_nested(o, d->name, value_to_json(v));
    }
    ok = ok && set_nested(o, CHECKPOINTING, json_boolean(c->checkpointing));
    if (ok)
        return o;
    json_decref(o);
    return NULL;
}

json_t *
config_train_json(const Config *c)
{
    Elab e;
    elab_init(&e, c->mem, c->diag, c->program, c);
    json_t *o = json_object();
    for (int k = 0; o && k < c->program->train.n; k++) {
        const Ast *setting = c->program->train.v[k];
        Value v = eval(&e, NULL, setting->kids[0]);
        json_t *x = value_to_json(v);
        if (!x && v.kind != V_ERROR)
            fault(&e, setting->kids[0]->place, "'%s' cannot be %s", setting->text,
                  value_what(c->mem, v));
        if (!x || json_object_set_new(o, setting->text, x)) {
            json_decref(o);
            o = NULL;
        }
    }
    return o;
}

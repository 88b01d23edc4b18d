// value.c - values of compile-time evaluation: making, comparing, printing, JSON,
// simple types.

#include "value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

Value
value_int(int64_t i)
{
    return (Value){.kind = V_INT, .i = i};
}

Value
value_float(double f)
{
    return (Value){.kind = V_FLOAT, .f = f};
}

Value
value_bool(bool b)
{
    return (Value){.kind = V_BOOL, .i = b};
}

Value
value_str(const char *s)
{
    return (Value){.kind = V_STR, .s = s};
}

Value
value_node(Node *n)
{
    if (!n)
        return (Value){.kind = V_ERROR};
    return (Value){.kind = V_TENSOR, .node = n};
}

static Value
sequence(Mem *mem, ValueKind kind, const Value *v, int n)
{
    List *l = arena_new(&mem->perm, List);
    l->n = n;
    l->v = arena_array(&mem->perm, Value, n);
    if (n > 0)
        memcpy(l->v, v, (size_t)n * sizeof *v);
    return (Value){.kind = kind, .list = l};
}

Value
value_list(Mem *mem, const Value *v, int n)
{
    return sequence(mem, V_LIST, v, n);
}

Value
value_tuple(Mem *mem, const Value *v, int n)
{
    return sequence(mem, V_TUPLE, v, n);
}

bool
value_is_number(Value v)
{
    return v.kind == V_INT || v.kind == V_FLOAT;
}

double
value_number(Value v)
{
    return v.kind == V_INT ? (double)v.i : v.f;
}

static bool
list_equal(const List *a, const List *b)
{
    if (a->n != b->n)
        return false;
    for (int k = 0; k < a->n; k++)
        if (!value_equal(a->v[k], b->v[k]))
            return false;
    return true;
}

static bool
dict_equal(const Dict *a, const Dict *b)
{
    if (a->n != b->n)
        return false;
    for (int k = 0; k < a->n; k++) {
        const Value *v = dict_find(b, a->keys[k]);
        if (!v || !value_equal(a->v[k], *v))
            return false;
    }
    return true;
}

bool
value_equal(Value a, Value b)
{
    if (a.kind == V_INT && b.kind == V_INT)
        return a.i == b.i;
    if (value_is_number(a) && value_is_number(b))
        return value_number(a) == value_number(b);
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case V_BOOL:
        return a.i == b.i;
    case V_STR:
        return strcmp(a.s, b.s) == 0;
    case V_LIST:
    case V_TUPLE:
        return list_equal(a.list, b.list);
    case V_DICT:
        return dict_equal(a.dict, b.dict);
    case V_FN:
        return a.fn == b.fn;
    case V_BUILTIN:
        return a.builtin == b.builtin;
    case V_DECL:
        return a.decl == b.decl;
    case V_LAYER:
        return a.layer == b.layer;
    case V_PARAM:
        return a.param == b.param;
    case V_TENSOR:
        return a.node == b.node;
    case V_OBJECT:
        return a.object.kind == b.object.kind && a.object.domain == b.object.domain &&
               a.object.field == b.object.field;
    default:
        return false;
    }
}

const Value *
dict_find(const Dict *d, Value key)
{
    for (int k = 0; k < d->n; k++)
        if (d->keys[k].kind == key.kind && value_equal(d->keys[k], key))
            return &d->v[k];
    return NULL;
}

static const char *
object_what(ObjectKind k)
{
    switch (k) {
    case OBJ_SCHEMA:
        return "the schema";
    case OBJ_FIELD:
        return "a field of the schema";
    case OBJ_DOMAIN:
        return "a sequence of the schema";
    case OBJ_USER:
    case OBJ_ITEM:
        break;
    }
    return "the data of a side";
}

const char *
value_what(Mem *mem, Value v)
{
    switch (v.kind) {
    case V_ERROR:
        return "no value";
    case V_INT:
        return arena_printf(&mem->perm, "the integer %lld", (long long)v.i);
    case V_FLOAT:
        return arena_printf(&mem->perm, "the number %s", float_text(mem, v.f));
    case V_BOOL:
        return v.i ? "true" : "false";
    case V_STR:
        return arena_printf(&mem->perm, "\"%.60s\"", v.s);
    case V_LIST:
        return arena_printf(&mem->perm, "a list of %d", v.list->n);
    case V_TUPLE:
        return arena_printf(&mem->perm, "a tuple of %d", v.list->n);
    case V_DICT:
        return arena_printf(&mem->perm, "a dictionary of %d", v.dict->n);
    case V_FN:
        return "a function";
    case V_BUILTIN:
        return arena_printf(&mem->perm, "the function '%s'", v.builtin->name);
    case V_DECL:
        return arena_printf(&mem->perm, "the layer '%s' without arguments", v.decl->name);
    case V_LAYER:
        return arena_printf(&mem->perm, "a layer '%s'", v.layer->kind);
    case V_INIT:
        return "an initial value";
    case V_OBJECT:
        return object_what(v.object.kind);
    case V_PARAM:
        return shape_text(mem, DT_F32, v.param->p.shape);
    case V_TENSOR:
        return shape_text(mem, v.node->type, v.node->shape);
    case V_MASK:
        return v.mask.is_bool ? "a condition on i and j" : "an integer of i and j";
    case V_ABSENT:
        return "an absent member";
    }
    return "a value";
}

const char *
float_text(Mem *mem, double f)
{
    if (isnan(f))
        return "nan";
    if (isinf(f))
        return f > 0 ? "inf" : "-inf";
    char s[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, f);
        if (strtod(s, NULL) == f)
            break;
    }
    bool whole = !strpbrk(s, ".e");
    return arena_printf(&mem->perm, "%s%s", s, whole ? ".0" : "");
}

static void add_text(Mem *mem, Text *t, Value v, bool quoted);

static void
add_sequence(Mem *mem, Text *t, const List *l, const char *open, const char *close)
{
    text_add(&mem->perm, t, "%s", open);
    for (int k = 0; k < l->n; k++) {
        if (k > 0)
            text_add(&mem->perm, t, ", ");
        add_text(mem, t, l->v[k], true);
    }
    text_add(&mem->perm, t, "%s", close);
}

static void
add_text(Mem *mem, Text *t, Value v, bool quoted)
{
    Arena *a = &mem->perm;
    switch (v.kind) {
    case V_INT:
        text_add(a, t, "%lld", (long long)v.i);
        break;
    case V_FLOAT:
        text_add(a, t, "%s", float_text(mem, v.f));
        break;
    case V_BOOL:
        text_add(a, t, "%s", v.i ? "true" : "false");
        break;
    case V_STR:
        text_add(a, t, quoted ? "\"%s\"" : "%s", v.s);
        break;
    case V_LIST:
        add_sequence(mem, t, v.list, "[", "]");
        break;
    case V_TUPLE:
        add_sequence(mem, t, v.list, "(", ")");
        break;
    case V_DICT:
        text_add(a, t, "{");
        for (int k = 0; k < v.dict->n; k++) {
            text_add(a, t, k > 0 ? ", " : "");
            add_text(mem, t, v.dict->keys[k], true);
            text_add(a, t, ": ");
            add_text(mem, t, v.dict->v[k], true);
        }
        text_add(a, t, "}");
        break;
    default:
        text_add(a, t, "%s", value_what(mem, v));
        break;
    }
}

const char *
value_text(Mem *mem, Value v)
{
    Text t = {0};
    text_add(&mem->perm, &t, "%s", "");
    add_text(mem, &t, v, false);
    return t.v;
}

static json_t *
dict_to_json(const Dict *d)
{
    json_t *o = json_object();
    for (int k = 0; o && k < d->n; k++) {
        char digits[32];
        snprintf(digits, sizeof digits, "%lld", (long long)d->keys[k].i);
        json_t *x = value_to_json(d->v[k]);
        if (!x ||
            json_object_set_new(o, d->keys[k].kind == V_STR ? d->keys[k].s : digits, x)) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}

json_t *
value_to_json(Value v)
{
    switch (v.kind) {
    case V_INT:
        return json_integer(v.i);
    case V_FLOAT:
        if (!isfinite(v.f))
            return json_string(isnan(v.f) ? "nan" : v.f > 0 ? "inf" : "-inf");
        return json_real(v.f);
    case V_BOOL:
        return json_boolean(v.i);
    case V_STR:
        return json_string(v.s);
    case V_DICT:
        return dict_to_json(v.dict);
    case V_LIST:
    case V_TUPLE:
        break;
    default:
        return NULL;
    }
    json_t *l = json_array();
    for (int k = 0; l && k < v.list->n; k++) {
        json_t *x = value_to_json(v.list->v[k]);
        if (!x || json_array_append_new(l, x)) {
            json_decref(l);
            return NULL;
        }
    }
    return l;
}

static Value
list_from_json(Mem *mem, const json_t *j)
{
    int n = (int)json_array_size(j);
    Value *v = arena_array(&mem->perm, Value, n);
    for (int k = 0; k < n; k++) {
        v[k] = value_from_json(mem, json_array_get(j, (size_t)k));
        if (v[k].kind == V_ERROR)
            return v[k];
    }
    return value_list(mem, v, n);
}

Value
value_from_json(Mem *mem, const json_t *j)
{
    switch (json_typeof(j)) {
    case JSON_INTEGER:
        return value_int(json_integer_value(j));
    case JSON_REAL:
        return value_float(json_real_value(j));
    case JSON_TRUE:
        return value_bool(true);
    case JSON_FALSE:
        return value_bool(false);
    case JSON_STRING:
        return value_str(mem_intern_str(mem, json_string_value(j)));
    case JSON_ARRAY:
        return list_from_json(mem, j);
    case JSON_NULL:
        return (Value){.kind = V_ERROR};
    case JSON_OBJECT:
        break;
    }
    Dict *d = arena_new(&mem->perm, Dict);
    int n = (int)json_object_size(j);
    d->keys = arena_array(&mem->perm, Value, n);
    d->v = arena_array(&mem->perm, Value, n);
    const char *key;
    json_t *x,
        *o = (json_t *)(uintptr_t)j; // the iteration macro wants one it could change
    json_object_foreach(o, key, x)
    {
        d->keys[d->n] = value_str(mem_intern_str(mem, key));
        d->v[d->n] = value_from_json(mem, x);
        if (d->v[d->n++].kind == V_ERROR)
            return (Value){.kind = V_ERROR};
    }
    return (Value){.kind = V_DICT, .dict = d};
}

static bool
coerce_values(Mem *mem, const Ast *type, const Value *from, int n, Value **to)
{
    *to = arena_array(&mem->perm, Value, n);
    for (int k = 0; k < n; k++) {
        (*to)[k] = from[k];
        if (!value_coerce(mem, type, &(*to)[k]))
            return false;
    }
    return true;
}

static bool
coerce_simple(const char *name, Value *v)
{
    if (strcmp(name, "int") == 0)
        return v->kind == V_INT;
    if (strcmp(name, "bool") == 0)
        return v->kind == V_BOOL;
    if (strcmp(name, "str") == 0)
        return v->kind == V_STR;
    if (strcmp(name, "float") != 0)
        return false;
    if (v->kind == V_INT)
        *v = value_float((double)v->i);
    return v->kind == V_FLOAT;
}

bool
value_coerce(Mem *mem, const Ast *type, Value *v)
{
    if (type->kind == AST_TYPE)
        return type->text && coerce_simple(type->text, v);
    if (type->kind == AST_TYPE_LIST && v->kind == V_LIST) {
        Value *to;
        if (!coerce_values(mem, type->kids[0], v->list->v, v->list->n, &to))
            return false;
        *v = value_list(mem, to, v->list->n);
        return true;
    }
    if (type->kind == AST_TYPE_DICT && v->kind == V_DICT) {
        Dict *d = arena_new(&mem->perm, Dict);
        d->n = v->dict->n;
        if (!coerce_values(mem, type->kids[0], v->dict->keys, d->n, &d->keys) ||
            !coerce_values(mem, type->kids[1], v->dict->v, d->n, &d->v))
            return false;
        v->dict = d;
        return true;
    }
    return false;
}

static void
add_type(Mem *mem, Text *t, const Ast *type)
{
    Arena *a = &mem->perm;
    switch (type->kind) {
    case AST_TYPE_LIST:
        text_add(a, t, "[");
        add_type(mem, t, type->kids[0]);
        text_add(a, t, "]");
        break;
    case AST_TYPE_DICT:
        text_add(a, t, "{");
        add_type(mem, t, type->kids[0]);
        text_add(a, t, ": ");
        add_type(mem, t, type->kids[1]);
        text_add(a, t, "}");
        break;
    case AST_TYPE_TUPLE:
        for (int k = 0; k < type->n; k++) {
            text_add(a, t, k ? ", " : "(");
            add_type(mem, t, type->kids[k]);
        }
        text_add(a, t, ")");
        break;
    default:
        text_add(a, t, "%s", type->text ? type->text : "?");
        break;
    }
}

const char *
type_text(Mem *mem, const Ast *type)
{
    Text t = {0};
    add_type(mem, &t, type);
    return t.v;
}

Env *
env_new(Mem *mem, Env *outer)
{
    Env *env = arena_new(&mem->perm, Env);
    env->outer = outer;
    return env;
}

void
env_define(Mem *mem, Env *env, const char *name, Value v)
{
    array_push(&mem->perm, &env->names, (Binding){name, v, false});
}

Binding *
env_find(Env *env, const char *name)
{
    for (; env; env = env->outer)
        for (int k = env->names.n - 1; k >= 0; k--)
            if (env->names.v[k].name == name)
                return &env->names.v[k];
    return NULL;
}

// elab_builtin.c - functions of compile-time values.

#include "elab_int.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const Value poison = {.kind = V_ERROR};

static Value
b_len(Elab *e, const Args *a)
{
    Value v = a->v[0];
    switch (v.kind) {
    case V_LIST:
    case V_TUPLE:
        return value_int(v.list->n);
    case V_DICT:
        return value_int(v.dict->n);
    case V_STR:
        return value_int((int64_t)strlen(v.s));
    default:
        break;
    }
    return fault(e, a->at[0], "'len' needs a list, a dictionary or a string, found %s%s",
                 value_what(e->mem, v), is_tensor(v) ? "; use shape(x)[0]" : "");
}

// ---- numbers ----------------------------------------------------------------------

static Value
whole(Elab *e, const Args *a, double f)
{
    if (!(f >= -9.2e18 && f <= 9.2e18))
        return fault(e, a->place, "%s does not fit an integer", float_text(e->mem, f));
    return value_int((int64_t)f);
}

static Value
b_floor(Elab *e, const Args *a)
{
    double f;
    if (a->v[0].kind == V_INT)
        return a->v[0];
    return arg_number(e, a, 0, &f) ? whole(e, a, floor(f)) : poison;
}

static Value
b_ceil(Elab *e, const Args *a)
{
    double f;
    if (a->v[0].kind == V_INT)
        return a->v[0];
    return arg_number(e, a, 0, &f) ? whole(e, a, ceil(f)) : poison;
}

// The number a string is, without blanks around it.
static bool
read_number(const char *s, bool whole_only, Value *v)
{
    char *end;
    while (isspace((unsigned char)*s))
        s++;
    if (!isdigit((unsigned char)*s) && *s != '-' && *s != '+' && *s != '.')
        return false;
    errno = 0;
    if (whole_only)
        *v = value_int(strtoll(s, &end, 10));
    else
        *v = value_float(strtod(s, &end));
    bool some = end != s && errno == 0;
    while (isspace((unsigned char)*end))
        end++;
    return some && !*end;
}

// A text that is no number; `what` says where it stands.
static Value
no_number(Elab *e, const Args *a, const char *wanted)
{
    if (a->has[1] && a->v[1].kind == V_STR)
        return fault(e, a->at[0], "%s: expected %s, found \"%.60s\"", a->v[1].s, wanted, a->v[0].s);
    return fault(e, a->at[0], "expected %s, found \"%.60s\"", wanted, a->v[0].s);
}

static Value
b_int(Elab *e, const Args *a)
{
    Value v = a->v[0], r;
    double f;
    if (v.kind == V_INT || v.kind == V_BOOL)
        return value_int(v.i);
    if (v.kind == V_STR)
        return read_number(v.s, true, &r) ? r : no_number(e, a, "an integer");
    return arg_number(e, a, 0, &f) ? whole(e, a, trunc(f)) : poison;
}

static Value
b_float(Elab *e, const Args *a)
{
    Value v = a->v[0], r;
    double f;
    if (v.kind == V_STR)
        return read_number(v.s, false, &r) ? r : no_number(e, a, "a number");
    return arg_number(e, a, 0, &f) ? value_float(f) : poison;
}

// ---- strings ----------------------------------------------------------------------

static Value
b_str(Elab *e, const Args *a)
{
    return value_str(value_text(e->mem, a->v[0]));
}

static bool
arg_str(Elab *e, const Args *a, int k, const char **s)
{
    if (a->v[k].kind != V_STR) {
        fault(e, a->at[k], "'%s' needs a string here, found %s", a->b->name,
              value_what(e->mem, a->v[k]));
        return false;
    }
    *s = a->v[k].s;
    return true;
}

static Value
b_strip(Elab *e, const Args *a)
{
    const char *s;
    if (!arg_str(e, a, 0, &s))
        return poison;
    while (isspace((unsigned char)*s))
        s++;
    size_t n = strlen(s);
    while (n > 0 && isspace((unsigned char)s[n - 1]))
        n--;
    return value_str(arena_copy(&e->mem->perm, s, n));
}

static Value
b_lower(Elab *e, const Args *a)
{
    const char *s;
    if (!arg_str(e, a, 0, &s))
        return poison;
    char *to = arena_copy(&e->mem->perm, s, strlen(s));
    for (char *c = to; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return value_str(to);
}

// ---- lists ------------------------------------------------------------------------

static int
find_in(const List *l, Value x)
{
    for (int k = 0; k < l->n; k++)
        if (value_equal(l->v[k], x))
            return k;
    return -1;
}

static Value
b_find(Elab *e, const Args *a)
{
    const List *l;
    if (!arg_list(e, a, 0, &l) || !count_steps(e, l->n / 8, a->place))
        return poison;
    return value_int(find_in(l, a->v[1]));
}

static Value
b_contains(Elab *e, const Args *a)
{
    if (a->v[0].kind == V_DICT)
        return value_bool(dict_find(a->v[0].dict, a->v[1]) != NULL);
    Value at = b_find(e, a);
    return at.kind == V_ERROR ? at : value_bool(at.i >= 0);
}

static Value
b_unique(Elab *e, const Args *a)
{
    const List *l;
    if (!arg_list(e, a, 0, &l))
        return poison;
    List *to = arena_new(&e->mem->perm, List);
    to->v = arena_array(&e->mem->perm, Value, l->n);
    for (int k = 0; k < l->n && count_steps(e, 1 + to->n / 8, a->place); k++)
        if (find_in(to, l->v[k]) < 0)
            to->v[to->n++] = l->v[k];
    return (Value){.kind = V_LIST, .list = to};
}

// -1, 0, 1 for two numbers or two strings.
static int
order(Value a, Value b)
{
    if (a.kind == V_STR)
        return strcmp(a.s, b.s);
    if (a.kind == V_INT && b.kind == V_INT)
        return (a.i > b.i) - (a.i < b.i);
    return (value_number(a) > value_number(b)) - (value_number(a) < value_number(b));
}

// A stable merge sort of v[0..n) with room in t.
static void
merge_sort(Value *v, Value *t, int n)
{
    if (n < 2)
        return;
    int h = n / 2;
    merge_sort(v, t, h);
    merge_sort(v + h, t, n - h);
    memcpy(t, v, (size_t)n * sizeof *v);
    for (int k = 0, i = 0, j = h; k < n; k++)
        v[k] = j >= n || (i < h && order(t[i], t[j]) <= 0) ? t[i++] : t[j++];
}

static Value
b_sorted(Elab *e, const Args *a)
{
    const List *l;
    if (!arg_list(e, a, 0, &l))
        return poison;
    for (int k = 0; k < l->n; k++) {
        bool fits =
            l->v[0].kind == V_STR ? l->v[k].kind == V_STR : value_is_number(l->v[k]);
        if (!fits)
            return fault(e, a->at[0], "'sorted' needs numbers or strings, found %s",
                         value_what(e->mem, l->v[k]));
    }
    Value v = value_list(e->mem, l->v, l->n);
    merge_sort(v.list->v, arena_array(&e->mem->perm, Value, l->n), l->n);
    return v;
}

static Value
b_enumerate(Elab *e, const Args *a)
{
    const List *l;
    if (!arg_list(e, a, 0, &l) || !count_steps(e, l->n, a->place))
        return poison;
    Value *v = arena_array(&e->mem->perm, Value, l->n);
    for (int k = 0; k < l->n; k++) {
        Value pair[2] = {value_int(k), l->v[k]};
        v[k] = value_tuple(e->mem, pair, 2);
    }
    return value_list(e->mem, v, l->n);
}

static Value
b_zip(Elab *e, const Args *a)
{
    int n = 0;
    for (int k = 0; k < a->n_rest; k++) {
        Value v = a->rest[k].v;
        if (v.kind != V_LIST && v.kind != V_TUPLE)
            return fault(e, a->rest[k].place, "'zip' needs lists, found %s",
                         value_what(e->mem, v));
        if (k > 0 && v.list->n != n)
            return fault(e, a->rest[k].place,
                         "'zip' needs lists of one length, found %d and %d", n,
                         v.list->n);
        n = v.list->n;
    }
    if (!count_steps(e, (int64_t)n * a->n_rest, a->place))
        return poison;
    Value *v = arena_array(&e->mem->perm, Value, n);
    Value *row = arena_array(&e->mem->perm, Value, a->n_rest);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < a->n_rest; k++)
            row[k] = a->rest[k].v.list->v[i];
        v[i] = value_tuple(e->mem, row, a->n_rest);
    }
    return value_list(e->mem, v, n);
}

static Value
dict_part(Elab *e, const Args *a, bool keys)
{
    Value v = a->v[0];
    if (v.kind == V_LIST && v.list->n == 0)
        return v; // members over an empty list do not tell a map from a list
    if (v.kind != V_DICT)
        return fault(e, a->at[0], "'%s' needs a dictionary, found %s", a->b->name,
                     value_what(e->mem, v));
    return value_list(e->mem, keys ? v.dict->keys : v.dict->v, v.dict->n);
}

static Value
b_keys(Elab *e, const Args *a)
{
    return dict_part(e, a, true);
}

static Value
b_values(Elab *e, const Args *a)
{
    return dict_part(e, a, false);
}

const HandlerRow static_handlers[] = {
    {"len", b_len},
    {"floor", b_floor},
    {"ceil", b_ceil},
    {"int", b_int},
    {"float", b_float},
    {"str", b_str},
    {"find", b_find},
    {"contains", b_contains},
    {"unique", b_unique},
    {"sorted", b_sorted},
    {"enumerate", b_enumerate},
    {"zip", b_zip},
    {"keys", b_keys},
    {"values", b_values},
    {"strip", b_strip},
    {"lower", b_lower},
    {NULL, NULL},
};

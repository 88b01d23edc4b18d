// elab_type.c - types of signatures: what a value must be, and the names that shapes
// bind.

#include "elab_int.h"

#include <string.h>

// One check in progress, for its messages.
typedef struct Check {
    Elab *e;
    Env *env;
    const Ast *whole;
    Place place;
    const char *what;
    bool result;
} Check;

// ---- extents ----------------------------------------------------------------------

// What a name in a shape means: 1 an extent to compare with, 0 a name that binds, -1 a
// fault.
static int
name_extent(const Check *c, const Ast *a, int64_t *want)
{
    const Binding *b = env_find(c->env, a->text);
    Value v = {.kind = V_ERROR};
    if (b)
        v = b->v;
    else {
        const Decl *d = program_find(c->e->program, a->text);
        if (d && (d->kind == DECL_LET || d->kind == DECL_CONFIG) &&
            (c->result || d->file == a->place.file))
            v = global_value(c->e, d);
    }
    if (v.kind != V_INT)
        return 0;
    *want = v.i;
    return 1;
}

static int
extent_of(const Check *c, const Ast *a, int64_t *want)
{
    if (a->kind == AST_NAME)
        return strcmp(a->text, "_") == 0 ? 0 : name_extent(c, a, want);
    Value v = eval(c->e, c->env, a);
    if (v.kind == V_ERROR)
        return -1;
    if (v.kind != V_INT) {
        fault(c->e, a->place, "an extent must be an integer, found %s",
              value_what(c->e->mem, v));
        return -1;
    }
    *want = v.i;
    return 1;
}

// "f32[T, 16]" with the extents that are known.
static const char *
wanted_text(const Check *c, const Ast *type)
{
    Text t = {0};
    Arena *a = &c->e->mem->perm;
    text_add(a, &t, "%s", type->text);
    for (int k = 0; k < type->n; k++) {
        int64_t want = 0;
        const Ast *x = type->kids[k];
        text_add(a, &t, k ? ", " : "[");
        if (extent_of(c, x, &want) > 0)
            text_add(a, &t, "%lld", (long long)want);
        else
            text_add(a, &t, "%s", x->text ? x->text : "?");
    }
    text_add(a, &t, type->n ? "]" : type->i ? "[]" : "");
    return t.v;
}

static bool
mismatch(const Check *c, const Ast *type, Value v)
{
    const char *wanted =
        type->kind == AST_TYPE ? wanted_text(c, type) : type_text(c->e->mem, type);
    int before = c->e->diag->errors;
    fault(c->e, c->place, "%s must be %s, found %s", c->what, wanted,
          value_what(c->e->mem, v));
    if (c->e->diag->errors > before && !c->result)
        diag_note(c->e->diag, c->whole->place, "declared here");
    return false;
}

static bool
check_shape(const Check *c, const Ast *type, Value v, Shape s)
{
    if (s.rank != type->n)
        return mismatch(c, type, v);
    for (int k = 0; k < s.rank; k++) {
        int64_t want = 0;
        const Ast *x = type->kids[k];
        int known = extent_of(c, x, &want);
        if (known < 0)
            return false;
        if (known && want != s.dim[k])
            return mismatch(c, type, v);
        if (!known && strcmp(x->text, "_") != 0)
            env_define(c->e->mem, c->env, x->text, value_int(s.dim[k]));
    }
    return true;
}

// ---- types ------------------------------------------------------------------------

static bool
dtype_of(const char *name, DType *t)
{
    static const char *const names[] = {"f32", "i64", "bool"};
    for (int k = 0; k < 3; k++)
        if (strcmp(name, names[k]) == 0) {
            *t = (DType)k;
            return true;
        }
    return false;
}

// A number where a tensor without axes is wanted becomes one.
static bool
number_as_tensor(const Check *c, const Ast *type, DType t, Value *v)
{
    bool fits = (t == DT_F32 && value_is_number(*v)) ||
                (t == DT_I64 && v->kind == V_INT) || (t == DT_BOOL && v->kind == V_BOOL);
    if (!fits || type->n > 0 || !c->e->g)
        return mismatch(c, type, *v);
    *v = value_node(const_node(c->e, *v, t, c->place));
    return v->kind != V_ERROR;
}

static bool
check_simple(const Check *c, const Ast *type, Value *v)
{
    DType t;
    if (strcmp(type->text, "init") == 0)
        return v->kind == V_INIT || mismatch(c, type, *v);
    if (!type->i && strcmp(type->text, "f32") != 0 && strcmp(type->text, "i64") != 0 &&
        value_coerce(c->e->mem, type, v))
        return true;
    if (!dtype_of(type->text, &t))
        return mismatch(c, type, *v);
    if (v->kind == V_PARAM)
        return t == DT_F32 ? check_shape(c, type, *v, v->param->p.shape)
                           : mismatch(c, type, *v);
    if (v->kind != V_TENSOR)
        return number_as_tensor(c, type, t, v);
    if (v->node->type != t)
        return mismatch(c, type, *v);
    return check_shape(c, type, *v, v->node->shape);
}

static bool check_any(const Check *c, const Ast *type, Value *v);

// A list with checked elements in place of l.
static bool
check_elements(const Check *c, const Ast *type, bool tuple, Value *v)
{
    Value *to = arena_array(&c->e->mem->perm, Value, v->list->n);
    bool ok = true;
    for (int k = 0; k < v->list->n; k++) {
        to[k] = v->list->v[k];
        ok = check_any(c, type->kids[tuple ? k : 0], &to[k]) && ok;
    }
    *v = tuple ? value_tuple(c->e->mem, to, v->list->n)
               : value_list(c->e->mem, to, v->list->n);
    return ok;
}

static bool
check_any(const Check *c, const Ast *type, Value *v)
{
    if (v->kind == V_ERROR)
        return false;
    switch (type->kind) {
    case AST_TYPE:
        return check_simple(c, type, v);
    case AST_TYPE_LIST:
        return v->kind == V_LIST ? check_elements(c, type, false, v)
                                 : mismatch(c, type, *v);
    case AST_TYPE_TUPLE:
        return v->kind == V_TUPLE && v->list->n == type->n
                   ? check_elements(c, type, true, v)
                   : mismatch(c, type, *v);
    case AST_TYPE_DICT:
        return value_coerce(c->e->mem, type, v) || mismatch(c, type, *v);
    default:
        break;
    }
    die("%s is no type", ast_kind_name(type->kind));
}

bool
check_type(Elab *e, Env *env, const Ast *type, Value *v, Place p, const char *what,
           bool result)
{
    Check c = {e, env, type, p, what, result};
    return check_any(&c, type, v);
}

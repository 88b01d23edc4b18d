// check_type.c - types, and the names that the shapes of a signature bind.

#include "check.h"

#include <string.h>

enum { MAX_RANK = 4 };

static bool
is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

static const char *const plain_types[] = {"int", "float", "bool", "str", "init", NULL};
static const char *const tensor_types[] = {"f32", "i64", "bool", NULL};
static const char *const all_types[] = {"int",  "float", "bool", "str",
                                        "init", "f32",   "i64",  NULL};

static void
unknown_type(Check *c, const Ast *type)
{
    diag_error(c->diag, type->name_place, "unknown type '%s'", type->text);
    suggest(c, type->text, type->place, all_types, 7);
}

// ---- types of configs and parameters -------------------------------------------------

void
check_config_type(Check *c, const Ast *type)
{
    static const char *const names[] = {"int", "float", "bool", "str", NULL};
    if (type->kind == AST_TYPE_LIST) {
        check_config_type(c, type->kids[0]);
        return;
    }
    if (type->kind == AST_TYPE_DICT) {
        const Ast *key = type->kids[0];
        if (key->kind != AST_TYPE || strcmp(key->text, "str") != 0)
            diag_error(c->diag, key->place, "the keys of a config's dictionary are str");
        check_config_type(c, type->kids[1]);
        return;
    }
    if (type->kind == AST_TYPE && !type->i && is_one_of(type->text, names))
        return;
    if (type->kind == AST_TYPE && !is_one_of(type->text, all_types))
        unknown_type(c, type);
    else
        diag_error(c->diag, type->place,
                   "a config is int, float, bool, str, a list or a dictionary of these");
}

static void
check_rank(Check *c, const Ast *type)
{
    if (type->n > MAX_RANK)
        diag_error(c->diag, type->place, "a tensor has at most %d axes, found %d",
                   MAX_RANK, type->n);
}

void
check_parameter_type(Check *c, const Ast *type)
{
    if (type->kind != AST_TYPE || strcmp(type->text, "f32") != 0) {
        diag_error(c->diag, type->place, "a parameter is an f32 tensor: f32[shape]");
        return;
    }
    check_rank(c, type);
    for (int i = 0; i < type->n; i++)
        check_expr(c, type->kids[i]);
}

// ---- signatures ----------------------------------------------------------------------

// Whether a plain name in a shape is compared with what it means; else it is bound there.
static bool
extent_is_visible(Check *c, const Ast *name)
{
    for (const Scope *s = c->scope; s; s = s->up)
        for (int i = 0; i < s->syms.n; i++)
            if (s->syms.v[i]->name == name->text)
                return true;
    const Decl *d = program_find(c->program, name->text);
    return d && (d->kind == DECL_LET || d->kind == DECL_CONFIG) &&
           d->file == name->place.file;
}

static void
check_extent(Check *c, const Ast *e)
{
    if (e->kind != AST_NAME)
        check_expr(c, e);
    else if (strcmp(e->text, "_") == 0)
        return;
    else if (extent_is_visible(c, e))
        check_name(c, e->text, e->place);
    else
        scope_add(c, SYM_EXTENT, e->text, e->place, e);
}

// Binds plain names first, so that "f32[T + 1, T]" knows T.
static void
check_extents(Check *c, const Ast *type)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < type->n; i++)
            if ((type->kids[i]->kind == AST_NAME) == (pass == 0))
                check_extent(c, type->kids[i]);
}

static void
check_signature_type(Check *c, const Ast *type)
{
    if (type->kind != AST_TYPE) {
        for (int i = 0; i < type->n; i++)
            check_signature_type(c, type->kids[i]);
        return;
    }
    if (!is_one_of(type->text, plain_types) && !is_one_of(type->text, tensor_types)) {
        unknown_type(c, type);
        return;
    }
    if (type->i && !is_one_of(type->text, tensor_types)) {
        diag_error(c->diag, type->place, "'%s' is no tensor type and has no shape",
                   type->text);
        return;
    }
    check_rank(c, type);
    check_extents(c, type);
}

void
check_signature(Check *c, const Ast *params, const Ast *result)
{
    for (int i = 0; i < params->n; i++) {
        const Ast *p = params->kids[i];
        if (p->kids[0])
            check_signature_type(c, p->kids[0]);
        if (p->kids[1])
            check_expr(c, p->kids[1]);
        for (int k = 0; k < i; k++)
            if (params->kids[k]->text == p->text)
                diag_error(c->diag, p->name_place, "argument '%s' stands twice", p->text);
        scope_add(c, SYM_ARG, p->text, p->name_place, p);
    }
    if (result)
        check_signature_type(c, result);
}

// check_scope.c - which declaration a name means.

#include "check.h"

#include <string.h>

void
scope_push(Check *c)
{
    Scope *s = arena_new(&c->mem->perm, Scope);
    s->up = c->scope;
    c->scope = s;
}

void
scope_pop(Check *c)
{
    c->scope = c->scope->up;
}

Sym *
scope_add(Check *c, SymKind kind, const char *name, Place place, const Ast *ast)
{
    Sym *s = arena_new(&c->mem->perm, Sym);
    *s = (Sym){.kind = kind,
               .name = name,
               .place = place,
               .ast = ast,
               .node = -1,
               .level = c->level};
    array_push(&c->mem->perm, &c->scope->syms, s);
    return s;
}

const Sym *
scope_find(Check *c, const char *name)
{
    for (const Scope *s = c->scope; s; s = s->up)
        for (int i = s->syms.n - 1; i >= 0; i--)
            if (s->syms.v[i]->name == name)
                return s->syms.v[i];
    const Decl *d = program_find(c->program, name);
    return d ? c->nodes.v[d - c->program->decls.v] : NULL;
}

void
check_pattern(Check *c, const Ast *pattern, SymKind kind, const Ast *ast)
{
    if (pattern->kind == AST_TUPLE) {
        for (int i = 0; i < pattern->n; i++)
            check_pattern(c, pattern->kids[i], kind, ast);
        return;
    }
    if (strcmp(pattern->text, "_") == 0)
        return;
    for (int i = 0; i < c->scope->syms.n; i++) {
        const Sym *s = c->scope->syms.v[i];
        if (s->name != pattern->text || s->ast != ast)
            continue;
        diag_error(c->diag, pattern->place, "'%s' stands twice in one pattern", s->name);
        return;
    }
    scope_add(c, kind, pattern->text, pattern->place, ast);
}

// ---- suggestions --------------------------------------------------------------------

void
suggest(Check *c, const char *name, Place place, const char *const *names, int n)
{
    const char *near = nearest_name(name, names, n);
    if (near)
        diag_note(c->diag, place, "did you mean '%s'?", near);
}

// Suggests among everything a plain name could mean here.
static void
suggest_visible(Check *c, const char *name, Place place)
{
    Arena *a = &c->mem->scratch;
    Array(const char *) names = {0};
    for (const Scope *s = c->scope; s; s = s->up)
        for (int i = 0; i < s->syms.n; i++)
            array_push(a, &names, s->syms.v[i]->name);
    for (int i = 0; i < c->program->decls.n; i++)
        array_push(a, &names, c->program->decls.v[i].name);
    for (int i = 0; i < n_builtins; i++)
        if (builtins[i].kind != BI_MARK)
            array_push(a, &names, builtins[i].name);
    suggest(c, name, place, names.v, names.n);
}

// ---- names in expressions -----------------------------------------------------------

static void
use(Check *c, const Sym *s, Place place)
{
    Dep d = {c->from, s->node, place};
    if (s->node >= 0 && s->node < c->program->decls.n)
        c->used[s->node] = true;
    if (c->from >= 0 && s->node >= 0)
        array_push(&c->mem->perm, &c->deps, d);
}

const Sym *
check_name(Check *c, const char *name, Place place)
{
    const Sym *s = scope_find(c, name);
    if (!s) {
        if (builtin_find(name, false))
            return NULL;
        if (program_has_prefix(c->program, name)) {
            diag_error(c->diag, place, "'%s' is a group of configs, not a value", name);
            return NULL;
        }
        diag_error(c->diag, place, "unknown name '%s'", name);
        suggest_visible(c, name, place);
        return NULL;
    }
    if (s->open) {
        diag_error(c->diag, place, "'%s' depends on itself", name);
        return NULL;
    }
    if (c->order && s->order >= c->order) {
        diag_error(c->diag, place,
                   "'%s' is not declared yet: members are made from top to bottom", name);
        diag_note(c->diag, s->place, "it is declared here");
        return NULL;
    }
    use(c, s, place);
    return s;
}

// ns.user_groups: one name, though it is parsed as fields of `ns`. `a` is the whole
// chain; its root is the group's first word.
static void
check_config_path(Check *c, const Ast *a, const Ast *root)
{
    Array(const Ast *) fields = {0};
    for (const Ast *f = a; f != root; f = f->kids[0])
        array_push(&c->mem->scratch, &fields, f);
    const char *path = root->text;
    for (int i = fields.n - 1; i >= 0; i--) {
        path = arena_printf(&c->mem->scratch, "%s.%s", path, fields.v[i]->text);
        const Decl *d = program_find(c->program, path);
        if (d) {
            use(c, c->nodes.v[d - c->program->decls.v], a->place);
            return;
        }
        if (program_has_prefix(c->program, path))
            continue;
        diag_error(c->diag, a->place, "unknown config '%s'", path);
        Array(const char *) names = {0};
        for (int k = 0; k < c->program->decls.n; k++)
            if (c->program->decls.v[k].kind == DECL_CONFIG)
                array_push(&c->mem->scratch, &names, c->program->decls.v[k].name);
        suggest(c, path, a->place, names.v, names.n);
        return;
    }
    diag_error(c->diag, a->place, "'%s' is a group of configs, not a value", path);
}

// The fields of what the language gives a model.
static void
check_data_field(Check *c, const char *data, const Ast *field)
{
    static const char *const schema[] = {
        "user_int",         "item_int",       "user_dense",
        "item_dense",       "sequences",      "user_int_width",
        "user_dense_width", "item_int_width", "item_dense_width"};
    static const char *const side[] = {"ints", "int_missing", "dense", "dense_missing"};
    bool is_schema = strcmp(data, "schema") == 0,
         is_time = strcmp(data, "request_time") == 0;
    const char *const *names = is_schema ? schema : side;
    int n = is_time     ? 0
            : is_schema ? (int)(sizeof schema / sizeof *schema)
                        : (int)(sizeof side / sizeof *side);
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], field->text) == 0)
            return;
    diag_error(c->diag, field->name_place, "'%s' has no field '%s'", data, field->text);
    suggest(c, field->text, field->name_place, names, n);
}

void
check_field(Check *c, const Ast *a)
{
    const Ast *root = a, *first = a;
    for (; root->kind == AST_FIELD; root = root->kids[0])
        first = root;
    if (root->kind != AST_NAME) {
        check_expr(c, root);
        return;
    }
    const Builtin *b = builtin_find(root->text, false);
    if (scope_find(c, root->text))
        check_name(c, root->text, root->place);
    else if (program_has_prefix(c->program, root->text))
        check_config_path(c, a, root);
    else if (b && b->kind == BI_DATA)
        check_data_field(c, root->text, first);
    else if (b)
        diag_error(c->diag, first->name_place, "'%s' has no field '%s'", root->text,
                   first->text);
    else
        check_name(c, root->text, root->place);
}

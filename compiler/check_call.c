// check_call.c - calls: number and names of arguments.

#include "check.h"

#include <string.h>

// What may be called, as far as it is known before elaboration.
typedef struct Signature {
    const char *name;
    Place place;  // of its declaration, none for what is built in
    int min, max; // number of arguments, max -1: any
    bool any;     // any number of them unnamed
    int n;        // named ones
    const char **names;
    bool *needed;
} Signature;

// ---- signatures ----------------------------------------------------------------------

static Signature
declared_signature(Check *c, const char *name, const Ast *params, Place place)
{
    Signature s = {.name = name, .place = place, .n = params->n, .max = params->n};
    s.names = arena_array(&c->mem->scratch, const char *, s.n);
    s.needed = arena_array(&c->mem->scratch, bool, s.n);
    for (int i = 0; i < s.n; i++) {
        s.names[i] = params->kids[i]->text;
        s.needed[i] = !params->kids[i]->kids[1];
        s.min += s.needed[i];
    }
    return s;
}

static Signature
builtin_signature(Check *c, const Builtin *b)
{
    Signature s = {.name = b->name, .min = b->min_args, .max = b->max_args};
    Array(const char *) names = {0};
    for (const char *p = b->params; *p;) {
        size_t len = strcspn(p, ",");
        if (strncmp(p, "...", 3) == 0)
            s.any = true;
        else
            array_push(&c->mem->scratch, &names, mem_intern(c->mem, p, len));
        p += len;
        p += strspn(p, ", ");
    }
    s.names = names.v;
    s.n = names.n;
    s.needed = arena_array(&c->mem->scratch, bool, s.n);
    for (int i = 0; i < s.n; i++)
        s.needed[i] = !s.any && i < b->min_args;
    return s;
}

// "no argument", "2 or 3 arguments", "at least 1 argument"
static const char *
count_text(Check *c, int min, int max)
{
    Arena *a = &c->mem->scratch;
    if (max < 0)
        return arena_printf(a, "at least %d argument%s", min, min == 1 ? "" : "s");
    if (max == 0)
        return "no arguments";
    if (min == max)
        return arena_printf(a, "%d argument%s", max, max == 1 ? "" : "s");
    return arena_printf(a, "%d %s %d arguments", min, max == min + 1 ? "or" : "to", max);
}

// ---- matching ------------------------------------------------------------------------

static void
note_declaration(Check *c, const Signature *s)
{
    if (s->place.file)
        diag_note(c->diag, s->place, "'%s' is declared here", s->name);
}

// Marks a named argument as given.
static void
match_named(Check *c, const Signature *s, const Ast *arg, bool *given)
{
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->names[i], arg->text) != 0)
            continue;
        if (given[i])
            diag_error(c->diag, arg->name_place, "argument '%s' is given twice",
                       arg->text);
        given[i] = true;
        return;
    }
    diag_error(c->diag, arg->name_place, "'%s' has no argument '%s'", s->name, arg->text);
    suggest(c, arg->text, arg->name_place, s->names, s->n);
}

static void
match_args(Check *c, const Signature *s, const Ast *call, Ast *const *args, int n)
{
    bool *given = arena_array(&c->mem->scratch, bool, s->n);
    int unnamed = 0, errors = c->diag->errors;
    for (int i = 0; i < n; i++) {
        if (args[i]->kind == AST_ARG)
            match_named(c, s, args[i], given);
        else if (unnamed++ < s->n && !s->any)
            given[unnamed - 1] = true;
    }
    if (c->diag->errors > errors)
        return;
    if ((s->max >= 0 && n > s->max) || (!s->any && unnamed > s->n)) {
        diag_error(c->diag, call->place, "'%s' takes %s, found %d", s->name,
                   count_text(c, s->min, s->max), n);
        note_declaration(c, s);
        return;
    }
    for (int i = 0; i < s->n; i++) {
        if (!s->needed[i] || given[i])
            continue;
        diag_error(c->diag, call->place, "'%s' needs its argument '%s'", s->name,
                   s->names[i]);
        note_declaration(c, s);
        return;
    }
    if (n < s->min)
        diag_error(c->diag, call->place, "'%s' takes %s, found %d", s->name,
                   count_text(c, s->min, s->max), n);
}

// What holds for every call: no name twice, unnamed arguments first.
static void
check_arg_order(Check *c, Ast *const *args, int n)
{
    bool named = false;
    for (int i = 0; i < n; i++) {
        if (args[i]->kind != AST_ARG && named) {
            diag_error(c->diag, args[i]->place,
                       "an unnamed argument stands after a named one");
            return;
        }
        named = named || args[i]->kind == AST_ARG;
    }
}

// ---- calls ---------------------------------------------------------------------------

static const Ast *
layer_of_member(Check *c, const Sym *member)
{
    const Ast *a = member->ast;
    bool plain = a->kind == AST_MEMBER && a->kids[0]->n == 0 &&
                 a->kids[1]->kind == AST_CALL && a->kids[1]->kids[0]->kind == AST_NAME;
    if (!plain)
        return NULL;
    const Sym *s = scope_find(c, a->kids[1]->kids[0]->text);
    return s && s->kind == SYM_LAYER ? s->ast : NULL;
}

// The signature of a called symbol; false if it is not known.
static bool
symbol_signature(Check *c, const Sym *s, Signature *sig)
{
    if (s->kind == SYM_FN || s->kind == SYM_LAYER) {
        *sig = declared_signature(c, s->name, s->ast->kids[0], s->place);
        return true;
    }
    const Ast *layer = s->kind == SYM_MEMBER ? layer_of_member(c, s) : NULL;
    const Ast *forward = layer ? find_forward(layer) : NULL;
    if (!forward)
        return false;
    *sig = declared_signature(c, s->name, forward->kids[0], forward->name_place);
    return true;
}

static void
check_callee(Check *c, const Ast *call)
{
    const Ast *callee = call->kids[0];
    if (callee->kind != AST_NAME) {
        check_expr(c, callee);
        return;
    }
    Signature sig;
    const Sym *s = check_name(c, callee->text, callee->place);
    const Builtin *b =
        s || scope_find(c, callee->text) ? NULL : builtin_find(callee->text, false);
    if (b && (b->kind == BI_CONST || b->kind == BI_DATA)) {
        diag_error(c->diag, callee->place, "'%s' is not a function", callee->text);
    } else if (b) {
        sig = builtin_signature(c, b);
        match_args(c, &sig, call, call->kids + 1, call->n - 1);
    } else if (s && (s->kind == SYM_CONFIG || s->kind == SYM_PARAMETER ||
                     s->kind == SYM_EXTENT)) {
        diag_error(c->diag, callee->place, "'%s' is not a function", callee->text);
        diag_note(c->diag, s->place, "it is declared here");
    } else if (s && symbol_signature(c, s, &sig)) {
        match_args(c, &sig, call, call->kids + 1, call->n - 1);
    }
}

// tensor(list, bool): the second argument of this function is a type.
static bool
is_type_argument(const Ast *callee, const Ast *arg)
{
    return callee->kind == AST_NAME && strcmp(callee->text, "tensor") == 0 &&
           arg->kind == AST_NAME && strcmp(arg->text, "bool") == 0;
}

void
check_call(Check *c, const Ast *call)
{
    check_callee(c, call);
    check_arg_order(c, call->kids + 1, call->n - 1);
    for (int i = 1; i < call->n; i++) {
        const Ast *arg =
            call->kids[i]->kind == AST_ARG ? call->kids[i]->kids[0] : call->kids[i];
        if (!is_type_argument(call->kids[0], arg))
            check_expr(c, arg);
    }
}

void
check_mark(Check *c, const Ast *mark)
{
    const Builtin *b = builtin_find(mark->text, true);
    if (!b) {
        diag_error(c->diag, mark->name_place, "unknown mark '%s'", mark->text);
        static const char *const marks[] = {"table", "padding", "matrices", "adamw",
                                            "frozen"};
        suggest(c, mark->text, mark->name_place, marks, 5);
        return;
    }
    Signature s = builtin_signature(c, b);
    match_args(c, &s, mark, mark->kids, mark->n);
    check_arg_order(c, mark->kids, mark->n);
    for (int i = 0; i < mark->n; i++)
        check_expr(c, mark->kids[i]->kind == AST_ARG ? mark->kids[i]->kids[0]
                                                     : mark->kids[i]);
}

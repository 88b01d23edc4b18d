// check_expr.c - expressions, statements and function bodies.

#include "check.h"

#include <string.h>

// ---- expressions ---------------------------------------------------------------------

void
check_for(Check *c, const Ast *a)
{
    check_expr(c, a->kids[1]);
    check_pattern(c, a->kids[0], SYM_LOCAL, a);
}

static void
check_comprehension(Check *c, const Ast *a)
{
    scope_push(c);
    for (int i = 1; i < a->n; i++) {
        if (a->kids[i]->kind == AST_FOR)
            check_for(c, a->kids[i]);
        else
            check_expr(c, a->kids[i]->kids[0]);
    }
    check_expr(c, a->kids[0]);
    scope_pop(c);
}

static void
check_lambda(Check *c, const Ast *a)
{
    scope_push(c);
    check_signature(c, a->kids[0], NULL);
    check_expr(c, a->kids[1]);
    scope_pop(c);
}

void
check_expr(Check *c, const Ast *a)
{
    switch (a->kind) {
    case AST_NAME:
        check_name(c, a->text, a->place);
        break;
    case AST_FIELD:
        check_field(c, a);
        break;
    case AST_CALL:
        check_call(c, a);
        break;
    case AST_LIST_COMP:
    case AST_DICT_COMP:
        check_comprehension(c, a);
        break;
    case AST_LAMBDA:
        check_lambda(c, a);
        break;
    default:
        for (int i = 0; i < a->n; i++)
            if (a->kids[i])
                check_expr(c, a->kids[i]);
    }
}

void
check_assert(Check *c, const Ast *a)
{
    check_expr(c, a->kids[0]);
    check_expr(c, a->kids[1]);
}

// ---- statements ----------------------------------------------------------------------

static bool check_body(Check *c, const Ast *body);

static void
check_target(Check *c, const Ast *name)
{
    const Sym *s = scope_find(c, name->text);
    if (!s) {
        diag_error(c->diag, name->place, "unknown name '%s': 'var' declares one",
                   name->text);
    } else if (s->kind != SYM_VAR) {
        diag_error(c->diag, name->place, "'%s' is no 'var' and cannot be assigned",
                   name->text);
        if (s->place.file)
            diag_note(c->diag, s->place, "it is declared here");
    } else if (s->level != c->level) {
        diag_error(c->diag, name->place, "'%s' belongs to the function around this one",
                   name->text);
        diag_note(c->diag, s->place, "it is declared here");
    }
}

static void
check_assign(Check *c, const Ast *a)
{
    const Ast *to = a->kids[0];
    check_expr(c, a->kids[1]);
    for (int i = 0; i < (to->kind == AST_TUPLE ? to->n : 1); i++)
        check_target(c, to->kind == AST_TUPLE ? to->kids[i] : to);
}

// A function inside a function; it is known from here on.
static void
check_local_fn(Check *c, const Ast *fn)
{
    if (strcmp(fn->text, "forward") == 0) {
        diag_error(c->diag, fn->name_place,
                   "'forward' stands in a layer, a block or the model only");
        return;
    }
    Sym *s = scope_add(c, SYM_FN, fn->text, fn->name_place, fn);
    s->open = true;
    check_fn(c, fn);
    s->open = false;
}

// Whether it always returns.
static bool
check_statement(Check *c, const Ast *s)
{
    bool yes, no;
    switch (s->kind) {
    case AST_LET:
    case AST_VAR:
        check_expr(c, s->kids[1]);
        check_pattern(c, s->kids[0], s->kind == AST_VAR ? SYM_VAR : SYM_LOCAL, s);
        return false;
    case AST_ASSIGN:
        check_assign(c, s);
        return false;
    case AST_ASSERT:
        check_assert(c, s);
        return false;
    case AST_FN:
        check_local_fn(c, s);
        return false;
    case AST_RETURN:
        check_expr(c, s->kids[0]);
        c->has_return = true;
        return true;
    case AST_FOR_STMT:
        scope_push(c);
        check_for(c, s);
        check_body(c, s->kids[2]);
        scope_pop(c);
        return false;
    case AST_IF_STMT:
        check_expr(c, s->kids[0]);
        yes = check_body(c, s->kids[1]);
        no = s->kids[2] && check_body(c, s->kids[2]);
        return yes && no;
    default:
        die("a statement of kind %s", ast_kind_tag(s->kind));
    }
}

static bool
check_body(Check *c, const Ast *body)
{
    bool returned = false, said = false;
    scope_push(c);
    for (int i = 0; i < body->n; i++) {
        if (returned && !said)
            diag_error(c->diag, body->kids[i]->place,
                       "this is never reached: a return precedes it");
        said = returned;
        returned = check_statement(c, body->kids[i]) || returned;
    }
    scope_pop(c);
    return returned;
}

void
check_fn(Check *c, const Ast *fn)
{
    int order = c->order;
    bool has_return = c->has_return;
    c->order = 0; // a function may use members below it: it is called later
    c->has_return = false;
    c->level++;
    scope_push(c);
    check_signature(c, fn->kids[0], fn->kids[1]);
    if (fn->kids[2]->kind != AST_BODY)
        check_expr(c, fn->kids[2]);
    else if (!check_body(c, fn->kids[2]) && !c->has_return)
        diag_error(c->diag, fn->name_place, "'%s' never returns a value", fn->text);
    scope_pop(c);
    c->level--;
    c->order = order;
    c->has_return = has_return;
}

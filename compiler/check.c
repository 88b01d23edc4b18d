// check.c - checks a merged program: declarations, members, cycles.
//
// It finds what can be found without values: unknown names, wrong numbers and names of
// arguments, duplicates, order, cycles. Everything that depends on configuration or
// schema is left to elaboration. A replaced declaration is not checked.

#include "check.h"

#include <string.h>

// ---- layers, blocks, the model ------------------------------------------------------

static void
collect_forward(const Ast *members, const Ast **found, int *n)
{
    for (int i = 0; i < members->n; i++) {
        const Ast *m = members->kids[i];
        if (m->kind == AST_FN && strcmp(m->text, "forward") == 0) {
            *found = m;
            ++*n;
        }
        for (int k = 1; m->kind == AST_MEMBER_IF && k < 3; k++)
            if (m->kids[k])
                collect_forward(m->kids[k], found, n);
    }
}

const Ast *
find_forward(const Ast *component)
{
    const Ast *found = NULL;
    int n = 0;
    collect_forward(component->kids[component->n - 1], &found, &n);
    return n == 1 ? found : NULL;
}

// A list of members and the list around it.
typedef struct List {
    const struct List *up;
    const Ast *members;
} List;

static bool
is_inside(const Ast *outer, const Ast *inner)
{
    for (int i = 0; i < outer->n; i++) {
        const Ast *m = outer->kids[i];
        for (int k = 1; m->kind == AST_MEMBER_IF && k < 3; k++)
            if (m->kids[k] && (m->kids[k] == inner || is_inside(m->kids[k], inner)))
                return true;
    }
    return false;
}

// Two members of one name may stand in two lists of which at most one is taken.
static bool
can_both_exist(const Sym *s, const List *list)
{
    for (const List *l = list; l; l = l->up)
        if (l->members == s->list)
            return true;
    return is_inside(list->members, s->list);
}

static void
declare_member(Check *c, SymKind kind, const char *name, Place place, const Ast *ast,
               const List *list, int order)
{
    if (strcmp(name, "_") == 0)
        return;
    for (int i = 0; i < c->scope->syms.n; i++) {
        const Sym *s = c->scope->syms.v[i];
        if (s->name != name || !can_both_exist(s, list))
            continue;
        diag_error(c->diag, place, "member '%s' is declared twice", name);
        diag_note(c->diag, s->place, "the first is here");
        return;
    }
    Sym *s = scope_add(c, kind, name, place, ast);
    s->list = list->members;
    s->order = order;
    if (kind == SYM_FN) { // functions take part in the search for cycles
        s->node = c->nodes.n;
        s->order = 0;
        array_push(&c->mem->perm, &c->nodes, s);
    }
}

static void
declare_let(Check *c, const Ast *let, const Ast *pattern, const List *list, int order)
{
    if (pattern->kind != AST_TUPLE) {
        declare_member(c, SYM_LET, pattern->text, pattern->place, let, list, order);
        return;
    }
    for (int i = 0; i < pattern->n; i++)
        declare_let(c, let, pattern->kids[i], list, order);
}

// Declares all members before any is checked; *order counts them from the top.
static void
declare_members(Check *c, const List *list, int *order)
{
    for (int i = 0; i < list->members->n; i++) {
        const Ast *m = list->members->kids[i];
        SymKind kind = m->kind == AST_FN          ? SYM_FN
                       : m->kind == AST_PARAMETER ? SYM_PARAMETER
                                                  : SYM_MEMBER;
        ++*order;
        if (m->kind == AST_LET)
            declare_let(c, m, m->kids[0], list, *order);
        else if (m->kind == AST_FN || m->kind == AST_PARAMETER || m->kind == AST_MEMBER)
            declare_member(c, kind, m->text, m->name_place, m, list, *order);
        for (int k = 1; m->kind == AST_MEMBER_IF && k < 3; k++)
            if (m->kids[k])
                declare_members(c, &(List){list, m->kids[k]}, order);
    }
}

// "name[i]: value for i in list" and "param name[i]: …"
static void
check_indexed(Check *c, const Ast *m)
{
    int first_for = m->kind == AST_PARAMETER ? 4 : 2;
    scope_push(c);
    for (int i = first_for; i < m->n; i++)
        check_for(c, m->kids[i]);
    const Ast *keys = m->kids[0];
    if (keys->n != m->n - first_for)
        diag_error(c->diag, m->name_place, "'%s' has %d keys and %d 'for'", m->text,
                   keys->n, m->n - first_for);
    for (int i = 0; i < keys->n; i++)
        check_expr(c, keys->kids[i]);
    if (m->kind == AST_PARAMETER) {
        check_parameter_type(c, m->kids[1]);
        check_expr(c, m->kids[2]);
        for (int i = 0; i < m->kids[3]->n; i++)
            check_mark(c, m->kids[3]->kids[i]);
    } else {
        check_expr(c, m->kids[1]);
    }
    scope_pop(c);
}

static const Sym *
sym_of(const Check *c, const Ast *ast)
{
    for (int i = c->nodes.n - 1; i >= 0; i--)
        if (c->nodes.v[i]->ast == ast)
            return c->nodes.v[i];
    return NULL;
}

static void
check_members(Check *c, const Ast *members, int *order)
{
    for (int i = 0; i < members->n; i++) {
        const Ast *m = members->kids[i];
        const Sym *s;
        c->order = ++*order;
        switch (m->kind) {
        case AST_LET:
            check_expr(c, m->kids[1]);
            break;
        case AST_ASSERT:
            check_assert(c, m);
            break;
        case AST_FN:
            s = sym_of(c, m);
            c->from = s ? s->node : -1;
            check_fn(c, m);
            c->from = -1;
            break;
        case AST_PARAMETER:
        case AST_MEMBER:
            check_indexed(c, m);
            break;
        default: // AST_MEMBER_IF
            check_expr(c, m->kids[0]);
            check_members(c, m->kids[1], order);
            if (m->kids[2])
                check_members(c, m->kids[2], order);
        }
    }
}

static void
check_component(Check *c, const Ast *a)
{
    const Ast *members = a->kids[a->n - 1], *forward = NULL;
    int order = 0, n_forward = 0;
    scope_push(c);
    if (a->kind != AST_MODEL)
        check_signature(c, a->kids[0], NULL);
    scope_push(c);
    declare_members(c, &(List){NULL, members}, &order);
    order = 0;
    check_members(c, members, &order);
    c->order = 0;
    scope_pop(c);
    scope_pop(c);
    collect_forward(members, &forward, &n_forward);
    if (!n_forward && a->kind != AST_LAYER)
        diag_error(c->diag, a->name_place, "'%s' has no 'forward'", a->text);
    else if (a->kind == AST_MODEL && forward->kids[0]->n)
        diag_error(c->diag, forward->kids[0]->place,
                   "the model's 'forward' takes no arguments");
}

// ---- cycles -------------------------------------------------------------------------

typedef struct Walk {
    int node, next; // next: the dependency to follow
} Walk;

typedef Array(Walk) Path;

// Dependencies sorted by user: those of node i stand in deps[start[i]..start[i + 1]).
static int *
sort_deps(Check *c)
{
    int n = c->nodes.n;
    int *start = arena_array(&c->mem->scratch, int, n + 2);
    for (int i = 0; i < c->deps.n; i++)
        start[c->deps.v[i].from + 2]++;
    for (int i = 0; i < n; i++)
        start[i + 2] += start[i + 1];
    Dep *sorted = arena_array(&c->mem->scratch, Dep, c->deps.n + 1);
    for (int i = 0; i < c->deps.n; i++)
        sorted[start[c->deps.v[i].from + 1]++] = c->deps.v[i];
    c->deps.v = sorted;
    return start;
}

// The path leads from a node to itself.
static void
report_cycle(Check *c, const Path *path, int to)
{
    int at = path->n - 1;
    while (path->v[at].node != to)
        at--;
    const Sym *s = c->nodes.v[to];
    diag_error(c->diag, s->place, "'%s' depends on itself", s->name);
    for (int i = at; i < path->n; i++) {
        const Dep *d = &c->deps.v[path->v[i].next - 1];
        diag_note(c->diag, d->place, "'%s' uses '%s' here", c->nodes.v[d->from]->name,
                  c->nodes.v[d->to]->name);
    }
}

static void
find_cycles_from(Check *c, int root, const int *start, char *state)
{
    enum { NEW, OPEN, DONE };
    Path path = {0};
    array_push(&c->mem->scratch, &path, ((Walk){root, start[root]}));
    state[root] = OPEN;
    while (path.n) {
        Walk *w = &path.v[path.n - 1];
        if (w->next == start[w->node + 1]) {
            state[w->node] = DONE;
            path.n--;
            continue;
        }
        int to = c->deps.v[w->next++].to;
        if (state[to] == OPEN)
            report_cycle(c, &path, to);
        if (state[to] != NEW)
            continue;
        state[to] = OPEN;
        array_push(&c->mem->scratch, &path, ((Walk){to, start[to]}));
    }
}

static void
find_cycles(Check *c)
{
    const int *start = sort_deps(c);
    char *state = arena_array(&c->mem->scratch, char, c->nodes.n + 1);
    for (int i = 0; i < c->nodes.n; i++)
        if (!state[i])
            find_cycles_from(c, i, start, state);
}

// ---- declarations -------------------------------------------------------------------

static void
declare_globals(Check *c)
{
    static const SymKind kinds[] = {[DECL_CONFIG] = SYM_CONFIG,
                                    [DECL_LET] = SYM_LET,
                                    [DECL_FN] = SYM_FN,
                                    [DECL_LAYER] = SYM_LAYER};
    for (int i = 0; i < c->program->decls.n; i++) {
        const Decl *d = &c->program->decls.v[i];
        Sym *s = arena_new(&c->mem->perm, Sym);
        Place place =
            d->ast->kind == AST_LET ? d->ast->kids[0]->place : d->ast->name_place;
        *s = (Sym){.kind = kinds[d->kind],
                   .name = d->name,
                   .place = place,
                   .ast = d->ast,
                   .node = i};
        array_push(&c->mem->perm, &c->nodes, s);
    }
}

static void
check_decl(Check *c, const Decl *d, int node)
{
    c->from = d->kind == DECL_LAYER ? -1 : node;
    switch (d->kind) {
    case DECL_CONFIG:
        check_config_type(c, d->type);
        check_expr(c, d->value);
        if (d->allowed)
            check_expr(c, d->allowed);
        break;
    case DECL_LET:
        check_expr(c, d->ast->kids[1]);
        break;
    case DECL_FN:
        if (strcmp(d->name, "forward") == 0)
            diag_error(c->diag, d->ast->name_place,
                       "'forward' stands in a layer, a block or the model only");
        check_fn(c, d->ast);
        break;
    case DECL_LAYER:
        check_component(c, d->ast);
        break;
    }
    c->from = -1;
    if (d->kind != DECL_CONFIG && program_has_prefix(c->program, d->name))
        diag_error(c->diag, c->nodes.v[node]->place,
                   "'%s' is also the first word of configs '%s.…'", d->name, d->name);
}

// "model.NAME" sets a config, which must exist.
static void
check_setting(Check *c, const Ast *s)
{
    check_expr(c, s->kids[0]);
    if (strncmp(s->text, "model.", 6) != 0)
        return;
    const char *name = s->text + 6;
    const Decl *d = program_find(c->program, name);
    if ((d && d->kind == DECL_CONFIG) || strcmp(name, "gradient_checkpointing") == 0)
        return;
    diag_error(c->diag, s->name_place, "unknown config '%s'", name);
    Array(const char *) names = {0};
    for (int i = 0; i < c->program->decls.n; i++)
        if (c->program->decls.v[i].kind == DECL_CONFIG)
            array_push(&c->mem->scratch, &names, c->program->decls.v[i].name);
    suggest(c, name, s->name_place, names.v, names.n);
}

// ---- declarations that nothing uses -------------------------------------------------

// Beside an imported model, a layer or block that nothing names, and that so replaces none
// of the model's: its name may be misspelt.
static void
warn_unused(Check *c)
{
    const Program *p = c->program;
    const Ast *own = p->trees.v[p->trees.n - 1];
    if (c->diag->errors || !p->model || p->model->place.file == own->place.file)
        return;
    for (int i = 0; i < p->decls.n; i++) {
        const Decl *d = &p->decls.v[i];
        if (d->kind != DECL_LAYER || d->file != own->place.file || c->used[i])
            continue;
        Array(const char *) names = {0};
        for (int k = 0; k < p->decls.n; k++)
            if (p->decls.v[k].kind == d->kind && p->decls.v[k].file != d->file)
                array_push(&c->mem->scratch, &names, p->decls.v[k].name);
        diag_warning(c->diag, c->nodes.v[i]->place, "nothing uses '%s'", d->name);
        suggest(c, d->name, c->nodes.v[i]->place, names.v, names.n);
    }
}

void
check_program(Mem *mem, Diag *d, Program *p)
{
    Check c = {.mem = mem, .diag = d, .program = p, .from = -1};
    c.used = arena_array(&mem->perm, bool, p->decls.n + 1);
    declare_globals(&c);
    for (int i = 0; i < p->decls.n; i++)
        check_decl(&c, &p->decls.v[i], i);
    for (int i = 0; i < p->asserts.n; i++)
        check_assert(&c, p->asserts.v[i]);
    for (int i = 0; i < p->train.n; i++)
        check_setting(&c, p->train.v[i]);
    if (p->model)
        check_component(&c, p->model);
    find_cycles(&c);
    warn_unused(&c);
}

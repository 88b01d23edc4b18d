// elab_member.c - layers: making instances from their members, naming them, calling them.

#include "elab_int.h"

#include <string.h>

static const Value poison = {.kind = V_ERROR};

// ---- what a layer holds -----------------------------------------------------------

static void
hold_param(Elab *e, Layer *l, const char *path, bool plain, LayerParam *p)
{
    array_push(&e->mem->perm, &l->slots, (Slot){path, plain, NULL, p});
}

// The first that holds a layer gives it its name; to the others it is only passed.
static void
hold_layer(Elab *e, Layer *l, const char *path, Layer *inner)
{
    if (inner->held)
        return;
    inner->held = true;
    array_push(&e->mem->perm, &l->slots, (Slot){path, false, inner, NULL});
}

// ---- members with keys ------------------------------------------------------------

// A tree of keys under construction: lists and maps of what stands at their ends.
typedef struct Keyed {
    bool map;
    Array(Value) keys;
    Array(struct Keyed *) kids;
    Value v; // at an end
} Keyed;

static Keyed *
keyed_kid(Elab *e, Keyed *t, Value key, Place p)
{
    Dict d = {t->keys.n, t->keys.v, NULL};
    bool map = key.kind == V_STR;
    if (key.kind != V_STR && key.kind != V_INT) {
        if (key.kind != V_ERROR)
            fault(e, p, "a key must be an integer or a string, found %s",
                  value_what(e->mem, key));
        return NULL;
    }
    for (int k = 0; k < d.n; k++)
        if (value_equal(t->keys.v[k], key))
            return t->kids.v[k];
    if (d.n > 0 && t->map != map) {
        fault(e, p, "keys must be all integers or all strings, found %s",
              value_what(e->mem, key));
        return NULL;
    }
    if (!map && key.i != d.n) {
        fault(e, p, "integer keys count 0, 1, ..., expected %d, found %lld", d.n,
              (long long)key.i);
        return NULL;
    }
    if (map && (!*key.s || strchr(key.s, '.'))) {
        fault(e, p, "a key cannot be empty or hold a dot, found \"%s\"", key.s);
        return NULL;
    }
    t->map = map;
    Keyed *kid = arena_new(&e->mem->perm, Keyed);
    array_push(&e->mem->perm, &t->keys, key);
    array_push(&e->mem->perm, &t->kids, kid);
    return kid;
}

static Value
keyed_value(Elab *e, const Keyed *t, int levels)
{
    if (levels == 0)
        return t->v;
    Value *v = arena_array(&e->mem->perm, Value, t->kids.n);
    for (int k = 0; k < t->kids.n; k++)
        v[k] = keyed_value(e, t->kids.v[k], levels - 1);
    if (!t->map)
        return value_list(e->mem, v, t->kids.n);
    Dict *d = arena_new(&e->mem->perm, Dict);
    *d = (Dict){t->kids.n, t->keys.v, v};
    return (Value){.kind = V_DICT, .dict = d};
}

// The layer or parameter of a member, in the scope of its `for` clauses; `path` with
// its keys.
static Value
member_value(Elab *e, Layer *l, Env *env, const Ast *m, const char *path, bool plain)
{
    if (m->kind == AST_PARAMETER) {
        LayerParam *p = param_new(e, env, m);
        if (!p)
            return poison;
        hold_param(e, l, path, plain, p);
        return (Value){.kind = V_PARAM, .param = p};
    }
    Value v = eval(e, env, m->kids[1]);
    if (v.kind == V_LAYER)
        hold_layer(e, l, path, v.layer);
    else if (v.kind != V_ERROR)
        return fault(e, m->kids[1]->place, "member '%s' must be a layer, found %s",
                     m->text, value_what(e->mem, v));
    return v;
}

typedef struct Indexed {
    Layer *layer;
    const Ast *member;
    int first_for;
    Keyed root;
} Indexed;

static void
indexed_element(Elab *e, Env *env, Indexed *x)
{
    const Ast *keys = x->member->kids[0];
    const char *path = x->member->text;
    Keyed *at = &x->root;
    for (int k = 0; k < keys->n && at; k++) {
        Value key = eval(e, env, keys->kids[k]);
        at = keyed_kid(e, at, key, keys->kids[k]->place);
        if (at)
            path = arena_printf(&e->mem->perm, "%s.%s", path, value_text(e->mem, key));
    }
    if (!at)
        return;
    if (at->v.kind != V_ERROR) {
        fault(e, keys->place, "the key %s is there twice", path);
        return;
    }
    at->v = member_value(e, x->layer, env, x->member, path, false);
}

static void
walk_fors(Elab *e, Env *env, Indexed *x, int k)
{
    if (k == x->member->n) {
        indexed_element(e, env, x);
        return;
    }
    const Ast *clause = x->member->kids[k];
    const List *list = eval_list(e, env, clause->kids[1]);
    for (int n = 0; list && n < list->n && !e->stop; n++) {
        Env *inner = env_new(e->mem, env);
        if (bind_pattern(e, inner, clause->kids[0], list->v[n], clause->kids[0]->place,
                         false))
            walk_fors(e, inner, x, k + 1);
    }
}

static Value
indexed_member(Elab *e, Layer *l, const Ast *m)
{
    Indexed x = {.layer = l, .member = m, .first_for = m->kind == AST_PARAMETER ? 4 : 2};
    walk_fors(e, l->env, &x, x.first_for);
    return keyed_value(e, &x.root, m->kids[0]->n);
}

// ---- members ----------------------------------------------------------------------

static void elaborate_members(Elab *e, Layer *l, const Ast *members);

// Names of a branch that is not taken are absent, unless they exist already.
static void
mark_absent(Elab *e, Layer *l, const Ast *members)
{
    for (int k = 0; members && k < members->n; k++) {
        const Ast *m = members->kids[k];
        if (m->kind == AST_MEMBER_IF) {
            mark_absent(e, l, m->kids[1]);
            mark_absent(e, l, m->n > 2 ? m->kids[2] : NULL);
        } else if (m->kind == AST_MEMBER || m->kind == AST_PARAMETER ||
                   m->kind == AST_FN) {
            const Binding *b = env_find(l->env, m->text);
            if (!b || b->v.kind == V_ABSENT)
                env_define(e->mem, l->env, m->text, (Value){.kind = V_ABSENT});
        }
    }
}

static void
member_if(Elab *e, Layer *l, const Ast *m)
{
    int c = eval_condition(e, l->env, m->kids[0], "a member 'if'");
    if (c < 0)
        return;
    const Ast *other = m->n > 2 ? m->kids[2] : NULL;
    mark_absent(e, l, c ? other : m->kids[1]);
    const Ast *taken = c ? m->kids[1] : other;
    if (taken && taken->kind == AST_MEMBER_IF)
        member_if(e, l, taken);
    else if (taken)
        elaborate_members(e, l, taken);
}

// false when the layer refuses: the members below would only repeat the fault.
static bool
member_assert(Elab *e, Layer *l, const Ast *m)
{
    if (eval_condition(e, l->env, m->kids[0], "'assert'") != 0)
        return true;
    Value text = eval(e, l->env, m->kids[1]);
    if (text.kind != V_ERROR)
        fault(e, m->place, "%s", value_text(e->mem, text));
    return false;
}

static void
member_fn(Elab *e, Layer *l, const Ast *m)
{
    Fn *fn = arena_new(&e->mem->perm, Fn);
    const char *name = m->text == e->forward ? l->kind : m->text;
    *fn = (Fn){m, l->env, name};
    env_define(e->mem, l->env, m->text, (Value){.kind = V_FN, .fn = fn});
}

static void
elaborate_member(Elab *e, Layer *l, const Ast *m)
{
    switch (m->kind) {
    case AST_LET:
        bind_pattern(e, l->env, m->kids[0], eval(e, l->env, m->kids[1]),
                     m->kids[1]->place, false);
        return;
    case AST_FN:
        return; // made before the others
    case AST_MEMBER_IF:
        member_if(e, l, m);
        return;
    case AST_MEMBER:
    case AST_PARAMETER: {
        bool plain = m->kids[0]->n == 0;
        Value v = plain ? member_value(e, l, l->env, m, m->text, true)
                        : indexed_member(e, l, m);
        env_define(e->mem, l->env, m->text, v);
        return;
    }
    default:
        break;
    }
    die("%s is no member", ast_kind_name(m->kind));
}

static void
elaborate_members(Elab *e, Layer *l, const Ast *members)
{
    for (int k = 0; k < members->n; k++)
        if (members->kids[k]->kind == AST_FN)
            member_fn(e, l, members->kids[k]);
    for (int k = 0; k < members->n && !e->stop; k++) {
        const Ast *m = members->kids[k];
        if (m->kind == AST_ASSERT && !member_assert(e, l, m))
            return;
        if (m->kind != AST_ASSERT && count_steps(e, 1, m->place))
            elaborate_member(e, l, m);
    }
}

// ---- instances --------------------------------------------------------------------

static Layer *
instance_new(Elab *e, const Ast *ast, const char *kind)
{
    Layer *l = arena_new(&e->mem->perm, Layer);
    l->ast = ast;
    l->kind = kind;
    l->env = env_new(e->mem, NULL);
    l->env->self = l;
    return l;
}

Value
layer_new(Elab *e, const Decl *d, const CallArg *args, int n, Place p)
{
    Layer *l = instance_new(e, d->ast, d->name);
    int before = e->faults;
    Frame frame;
    if (!bind_params(e, l->env, d->ast->kids[0], args, n, p, d->name) ||
        !frame_enter(e, &frame, d->name, p))
        return poison;
    elaborate_members(e, l, d->ast->kids[1]);
    frame_leave(e);
    return e->faults > before ? poison : (Value){.kind = V_LAYER, .layer = l};
}

Layer *
model_new(Elab *e, const Ast *model)
{
    Layer *l = instance_new(e, model, model->text);
    l->held = true;
    elaborate_members(e, l, model->kids[model->n - 1]);
    return l;
}

Value
sequential_new(Elab *e, const Args *a)
{
    Layer *l = instance_new(e, NULL, "Sequential");
    Value *v = arena_array(&e->mem->perm, Value, a->n_rest);
    for (int k = 0; k < a->n_rest; k++) {
        v[k] = a->rest[k].v;
        if (v[k].kind == V_LAYER)
            hold_layer(e, l, arena_printf(&e->mem->perm, "%d", k), v[k].layer);
        else if (v[k].kind != V_FN && v[k].kind != V_BUILTIN)
            return fault(e, a->rest[k].place,
                         "'Sequential' chains layers and functions, found %s",
                         value_what(e->mem, v[k]));
    }
    l->chain = value_list(e->mem, v, a->n_rest).list;
    return (Value){.kind = V_LAYER, .layer = l};
}

static void
register_param(Elab *e, LayerParam *p, const char *name)
{
    p->p.name = name;
    p->index = graph_param(e->g, p->p);
}

void
layer_register(Elab *e, Layer *l, const char *name)
{
    l->name = name;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < l->slots.n; k++) {
            const Slot *s = &l->slots.v[k];
            if ((s->param && s->plain) != (pass == 0))
                continue;
            const char *path =
                arena_printf(&e->mem->perm, "%s%s%s", name, *name ? "." : "", s->path);
            if (s->param)
                register_param(e, s->param, path);
            else
                layer_register(e, s->layer, path);
        }
}

// ---- calls ------------------------------------------------------------------------

static Value
call_chain(Elab *e, const Layer *l, const CallArg *args, int n, Place p)
{
    if (n != 1 || args[0].name)
        return fault(e, p, "'Sequential' takes one argument, found %d", n);
    CallArg x = args[0];
    for (int k = 0; k < l->chain->n && x.v.kind != V_ERROR; k++)
        x.v = call_value(e, l->chain->v[k], &x, 1, p);
    return x.v;
}

static Call *
block_call(Elab *e, Layer *l, Place p)
{
    Call *c = arena_new(&e->mem->perm, Call);
    *c = (Call){l->name, l->n_calls++, e->g->n_calls, e->g->call, p};
    Call **calls = arena_array(&e->mem->perm, Call *, e->g->n_calls + 1);
    if (e->g->n_calls > 0)
        memcpy(calls, e->g->calls, (size_t)e->g->n_calls * sizeof *calls);
    calls[e->g->n_calls++] = c;
    e->g->calls = calls;
    return c;
}

Value
call_layer(Elab *e, Layer *l, const CallArg *args, int n, Place p)
{
    if (!e->complete)
        return fault(
            e, p,
            "'%s' cannot be called while members are made; call it in forward or fn",
            l->kind);
    if (!l->name)
        return fault(e, p, "no member holds this '%s', so its parameters have no names",
                     l->kind);
    if (!l->ast)
        return call_chain(e, l, args, n, p);
    const Binding *forward = env_find(l->env, e->forward);
    if (!forward || forward->v.kind != V_FN)
        return fault(e, p, "'%s' has no forward", l->kind);
    Call *outer = e->g->call;
    if (l->ast->kind == AST_BLOCK)
        e->g->call = block_call(e, l, p);
    Value v = call_value(e, forward->v, args, n, p);
    e->g->call = outer;
    return v;
}

Value
layer_field(Elab *e, Layer *l, const char *name, Place p)
{
    const Binding *b = env_find(l->env, name);
    if (!b)
        return fault(e, p, "'%s' has no member '%s'", l->kind, name);
    if (b->v.kind == V_ABSENT)
        return fault(e, p, "member '%s' of '%s' is absent in this configuration", name,
                     l->kind);
    return b->v;
}

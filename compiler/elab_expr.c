// elab_expr.c - evaluation of expressions.

#include "elab_int.h"

#include <string.h>

static const Value poison = {.kind = V_ERROR};

int
eval_condition(Elab *e, Env *env, const Ast *a, const char *what)
{
    Value v = eval(e, env, a);
    if (v.kind == V_BOOL)
        return v.i != 0;
    if (is_tensor(v))
        fault(e, a->place,
              "%s takes a compile-time value, found %s; "
              "'if ... then ... else' selects by a tensor",
              what, value_what(e->mem, v));
    else if (v.kind != V_ERROR)
        fault(e, a->place, "%s needs a boolean, found %s", what, value_what(e->mem, v));
    return -1;
}

const List *
eval_list(Elab *e, Env *env, const Ast *a)
{
    Value v = eval(e, env, a);
    if (v.kind == V_LIST || v.kind == V_TUPLE)
        return v.list;
    if (v.kind == V_DICT)
        fault(e, a->place,
              "'for' needs a list, found a dictionary; use keys() or values()");
    else if (v.kind != V_ERROR)
        fault(e, a->place, "'for' needs a list, found %s", value_what(e->mem, v));
    return NULL;
}

bool
bind_pattern(Elab *e, Env *env, const Ast *pattern, Value v, Place p, bool var)
{
    if (pattern->kind == AST_NAME) {
        if (v.kind == V_TENSOR && !v.node->name && op_info[v.node->op].max_in != 0)
            v.node->name = pattern->text;
        array_push(&e->mem->perm, &env->names, (Binding){pattern->text, v, var});
        return true;
    }
    bool fits = (v.kind == V_TUPLE || v.kind == V_LIST) && v.list->n == pattern->n;
    if (!fits && v.kind != V_ERROR)
        fault(e, p, "%d names need as many values, found %s", pattern->n,
              value_what(e->mem, v));
    for (int k = 0; k < pattern->n; k++)
        if (!bind_pattern(e, env, pattern->kids[k], fits ? v.list->v[k] : poison, p, var))
            fits = false;
    return fits;
}

// ---- lists and dictionaries -------------------------------------------------------

// A list or tuple; all its elements are evaluated, and one with a fault spoils it.
static Value
eval_sequence(Elab *e, Env *env, const Ast *a)
{
    Value *v = arena_array(&e->mem->perm, Value, a->n);
    bool spoiled = false;
    for (int k = 0; k < a->n; k++) {
        v[k] = eval(e, env, a->kids[k]);
        spoiled = spoiled || v[k].kind == V_ERROR;
    }
    if (spoiled)
        return poison;
    return a->kind == AST_TUPLE ? value_tuple(e->mem, v, a->n)
                                : value_list(e->mem, v, a->n);
}

// What a comprehension or a dictionary has gathered.
typedef struct Gather {
    const Ast *ast;
    Array(Value) keys;
    Array(Value) v;
    bool failed;
} Gather;

static void
add_pair(Elab *e, Gather *g, Value key, Value v, Place p)
{
    if (key.kind != V_STR && key.kind != V_INT) {
        if (key.kind != V_ERROR)
            fault(e, p, "a key must be a string or an integer, found %s",
                  value_what(e->mem, key));
        g->failed = true;
        return;
    }
    Dict d = {g->keys.n, g->keys.v, g->v.v};
    if (!count_steps(e, 1 + g->keys.n / 16, p))
        return;
    if (dict_find(&d, key)) {
        fault(e, p, "the key %s is there twice", value_what(e->mem, key));
        g->failed = true;
        return;
    }
    array_push(&e->mem->perm, &g->keys, key);
    array_push(&e->mem->perm, &g->v, v);
}

static void
add_element(Elab *e, Env *env, Gather *g, const Ast *element)
{
    if (element->kind != AST_PAIR) {
        array_push(&e->mem->perm, &g->v, eval(e, env, element));
        g->failed |= g->v.v[g->v.n - 1].kind == V_ERROR;
        return;
    }
    Value key = eval(e, env, element->kids[0]);
    Value v = eval(e, env, element->kids[1]);
    g->failed |= v.kind == V_ERROR;
    add_pair(e, g, key, v, element->place);
}

// Clauses from number k on, then the element.
static void
walk_clauses(Elab *e, Env *env, Gather *g, int k)
{
    if (k == g->ast->n) {
        add_element(e, env, g, g->ast->kids[0]);
        return;
    }
    const Ast *clause = g->ast->kids[k];
    if (clause->kind == AST_FILTER) {
        int c = eval_condition(e, env, clause->kids[0], "a filter");
        g->failed |= c < 0;
        if (c > 0)
            walk_clauses(e, env, g, k + 1);
        return;
    }
    const List *list = eval_list(e, env, clause->kids[1]);
    g->failed |= !list;
    for (int n = 0; list && n < list->n && !e->stop; n++) {
        Env *inner = env_new(e->mem, env);
        if (bind_pattern(e, inner, clause->kids[0], list->v[n], clause->kids[0]->place,
                         false))
            walk_clauses(e, inner, g, k + 1);
        else
            g->failed = true;
    }
}

static Value
gathered_dict(Elab *e, const Gather *g)
{
    Dict *d = arena_new(&e->mem->perm, Dict);
    *d = (Dict){g->keys.n, g->keys.v, g->v.v};
    return (Value){.kind = V_DICT, .dict = d};
}

static Value
eval_comprehension(Elab *e, Env *env, const Ast *a)
{
    Gather g = {.ast = a};
    walk_clauses(e, env, &g, 1);
    if (g.failed || e->stop)
        return poison;
    return a->kind == AST_DICT_COMP ? gathered_dict(e, &g)
                                    : value_list(e->mem, g.v.v, g.v.n);
}

static Value
eval_dict(Elab *e, Env *env, const Ast *a)
{
    Gather g = {.ast = a};
    for (int k = 0; k < a->n; k++)
        add_element(e, env, &g, a->kids[k]);
    return g.failed ? poison : gathered_dict(e, &g);
}

static Value
eval_range(Elab *e, Env *env, const Ast *a)
{
    Value low = eval(e, env, a->kids[0]);
    Value high = a->n > 1 && a->kids[1] ? eval(e, env, a->kids[1]) : poison;
    if (low.kind == V_ERROR || high.kind == V_ERROR)
        return poison;
    if (low.kind != V_INT || high.kind != V_INT)
        return fault(e, a->place, "'..' needs integers, found %s and %s",
                     value_what(e->mem, low), value_what(e->mem, high));
    int64_t n;
    if (high.i < low.i)
        return value_list(e->mem, NULL, 0);
    if (__builtin_sub_overflow(high.i, low.i, &n) || n >= MAX_STEPS)
        return fault(e, a->place, "the range %lld..%lld is too long", (long long)low.i,
                     (long long)high.i);
    n += a->i;
    if (!count_steps(e, n, a->place))
        return poison;
    List *l = arena_new(&e->mem->perm, List);
    l->n = (int)n;
    l->v = arena_array(&e->mem->perm, Value, n);
    for (int k = 0; k < l->n; k++)
        l->v[k] = value_int(low.i + k);
    return (Value){.kind = V_LIST, .list = l};
}

// ---- the others -------------------------------------------------------------------

static Value
eval_if(Elab *e, Env *env, const Ast *a)
{
    Value c = eval(e, env, a->kids[0]);
    if (c.kind == V_ERROR)
        return c;
    if (c.kind == V_BOOL)
        return eval(e, env, a->kids[c.i ? 1 : 2]);
    if (!is_tensor(c) && c.kind != V_MASK)
        return fault(e, a->kids[0]->place, "'if' needs a boolean, found %s",
                     value_what(e->mem, c));
    Value x = eval(e, env, a->kids[1]);
    Value y = eval(e, env, a->kids[2]);
    return value_select(e, c, x, y, a->place);
}

// `and`, `or`: a compile-time left side decides alone where it can.
static Value
eval_logic(Elab *e, Env *env, const Ast *a)
{
    Value x = eval(e, env, a->kids[0]);
    if (x.kind == V_ERROR)
        return x;
    if (x.kind == V_BOOL) {
        if ((a->op == OPER_OR) == (x.i != 0))
            return x;
        Value y = eval(e, env, a->kids[1]);
        if (y.kind != V_BOOL && y.kind != V_ERROR && !is_tensor(y) && y.kind != V_MASK)
            return fault(e, a->kids[1]->place, "'%s' needs booleans, found %s",
                         ast_oper_text(a->op), value_what(e->mem, y));
        return y;
    }
    return value_binary(e, a->op, x, eval(e, env, a->kids[1]), a->place);
}

static Value
eval_binary(Elab *e, Env *env, const Ast *a)
{
    if (a->op == OPER_AND || a->op == OPER_OR)
        return eval_logic(e, env, a);
    Value x = eval(e, env, a->kids[0]);
    Value y = eval(e, env, a->kids[1]);
    return value_binary(e, a->op, x, y, a->place);
}

static Value
eval_lambda(Elab *e, Env *env, const Ast *a)
{
    Fn *fn = arena_new(&e->mem->perm, Fn);
    *fn = (Fn){a, env, "=>"};
    return (Value){.kind = V_FN, .fn = fn};
}

// "ns.user_groups" of nested field accesses that start at a name; NULL for others.
static const char *
dotted_name(Elab *e, const Ast *a)
{
    if (a->kind == AST_NAME)
        return a->text;
    if (a->kind != AST_FIELD)
        return NULL;
    const char *head = dotted_name(e, a->kids[0]);
    return head ? arena_printf(&e->mem->perm, "%s.%s", head, a->text) : NULL;
}

static const Ast *
root_of(const Ast *a)
{
    while (a->kind == AST_FIELD)
        a = a->kids[0];
    return a;
}

// A configuration field with a dotted name, where nothing nearer has the name before
// the dot.
static bool
dotted_config(Elab *e, Env *env, const Ast *a, Value *v)
{
    const Ast *root = root_of(a);
    if (root->kind != AST_NAME || env_find(env, root->text) ||
        !program_has_prefix(e->program, root->text))
        return false;
    const char *name = dotted_name(e, a);
    const Decl *d = name ? program_find(e->program, name) : NULL;
    if (!d) {
        if (program_find(e->program, root->text))
            return false;
        *v = fault(e, a->place, "the model has no configuration field '%s'", name);
        return true;
    }
    *v = global_value(e, d);
    return true;
}

static Value
eval_field(Elab *e, Env *env, const Ast *a)
{
    Value v;
    if (dotted_config(e, env, a, &v))
        return v;
    v = eval(e, env, a->kids[0]);
    if (v.kind == V_ERROR)
        return v;
    if (v.kind == V_OBJECT)
        return object_field(e, v, a->text, a->place);
    if (v.kind == V_LAYER)
        return layer_field(e, v.layer, a->text, a->place);
    return fault(e, a->place, "'.%s' needs a layer or data of the schema, found %s",
                 a->text, value_what(e->mem, v));
}

static Value
eval_kind(Elab *e, Env *env, const Ast *a)
{
    switch (a->kind) {
    case AST_INT:
        return value_int(a->i);
    case AST_FLOAT:
        return value_float(a->f);
    case AST_BOOL:
        return value_bool(a->i != 0);
    case AST_STRING:
        return value_str(a->text ? a->text : "");
    case AST_NAME:
        return name_value(e, env, a->text, a->place);
    case AST_TUPLE:
    case AST_LIST:
        return eval_sequence(e, env, a);
    case AST_DICT:
        return eval_dict(e, env, a);
    case AST_LIST_COMP:
    case AST_DICT_COMP:
        return eval_comprehension(e, env, a);
    case AST_IF:
        return eval_if(e, env, a);
    case AST_LAMBDA:
        return eval_lambda(e, env, a);
    case AST_UNARY:
        return value_unary(e, a->op, eval(e, env, a->kids[0]), a->place);
    case AST_BINARY:
        return eval_binary(e, env, a);
    case AST_RANGE:
        return eval_range(e, env, a);
    case AST_TRANSPOSE:
        return value_transpose(e, eval(e, env, a->kids[0]), a->place);
    case AST_FIELD:
        return eval_field(e, env, a);
    case AST_CALL:
        return eval_call(e, env, a);
    case AST_INDEX:
        return eval_index(e, env, a);
    default:
        break;
    }
    die("%s is no expression", ast_kind_name(a->kind));
}

Value
eval(Elab *e, Env *env, const Ast *a)
{
    if (!count_steps(e, 1, a->place) || !go_deeper(e, a->place))
        return poison;
    Value v = eval_kind(e, env, a);
    e->depth--;
    if (v.kind == V_PARAM && e->complete)
        return value_node(to_node(e, v, a->place));
    return v;
}

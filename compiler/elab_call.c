// elab_call.c - calls: arguments, bodies of functions, statements.

#include "elab_int.h"

#include <string.h>

static const Value poison = {.kind = V_ERROR};

// ---- statements -------------------------------------------------------------------

typedef enum Flow { FLOW_NEXT, FLOW_RETURN } Flow;

static Flow exec_body(Elab *e, Env *env, const Ast *body, Value *result);

// A function that was told what it cannot take ends there: the rest would only repeat the fault.
static Flow
exec_assert(Elab *e, Env *env, const Ast *s, Value *result)
{
    if (eval_condition(e, env, s->kids[0], "'assert'") != 0)
        return FLOW_NEXT;
    Value text = eval(e, env, s->kids[1]);
    if (text.kind != V_ERROR)
        fault(e, s->place, "%s", value_text(e->mem, text));
    *result = poison;
    return FLOW_RETURN;
}

static void
assign(Elab *e, Env *env, const Ast *target, Value v)
{
    if (target->kind == AST_NAME) {
        Binding *b = env_find(env, target->text);
        if (!b || !b->var)
            die("'%s' is no 'var'", target->text);
        if (v.kind == V_TENSOR && !v.node->name && op_info[v.node->op].max_in != 0)
            v.node->name = target->text;
        b->v = v;
        return;
    }
    bool fits = (v.kind == V_TUPLE || v.kind == V_LIST) && v.list->n == target->n;
    if (!fits && v.kind != V_ERROR)
        fault(e, target->place, "%d names need as many values, found %s", target->n,
              value_what(e->mem, v));
    for (int k = 0; k < target->n; k++)
        assign(e, env, target->kids[k], fits ? v.list->v[k] : poison);
}

static Flow
exec_if(Elab *e, Env *env, const Ast *s, Value *result)
{
    int c = eval_condition(e, env, s->kids[0], "the statement 'if'");
    if (c > 0)
        return exec_body(e, env, s->kids[1], result);
    if (c == 0 && s->n > 2 && s->kids[2])
        return exec_body(e, env, s->kids[2], result);
    return FLOW_NEXT;
}

static Flow
exec_for(Elab *e, Env *env, const Ast *s, Value *result)
{
    const List *list = eval_list(e, env, s->kids[1]);
    for (int k = 0; list && k < list->n && !e->stop; k++) {
        Env *inner = env_new(e->mem, env);
        bind_pattern(e, inner, s->kids[0], list->v[k], s->kids[0]->place, false);
        if (exec_body(e, inner, s->kids[2], result) == FLOW_RETURN)
            return FLOW_RETURN;
    }
    return FLOW_NEXT;
}

static void
define_fn(Elab *e, Env *env, const Ast *s)
{
    Fn *fn = arena_new(&e->mem->perm, Fn);
    *fn = (Fn){s, env, s->text};
    env_define(e->mem, env, s->text, (Value){.kind = V_FN, .fn = fn});
}

static Flow
exec(Elab *e, Env *env, const Ast *s, Value *result)
{
    switch (s->kind) {
    case AST_LET:
    case AST_VAR:
        bind_pattern(e, env, s->kids[0], eval(e, env, s->kids[1]), s->kids[1]->place,
                     s->kind == AST_VAR);
        return FLOW_NEXT;
    case AST_ASSIGN:
        assign(e, env, s->kids[0], eval(e, env, s->kids[1]));
        return FLOW_NEXT;
    case AST_ASSERT:
        return exec_assert(e, env, s, result);
    case AST_FN:
        define_fn(e, env, s);
        return FLOW_NEXT;
    case AST_IF_STMT:
        return exec_if(e, env, s, result);
    case AST_FOR_STMT:
        return exec_for(e, env, s, result);
    case AST_RETURN:
        *result = eval(e, env, s->kids[0]);
        return FLOW_RETURN;
    default:
        break;
    }
    die("%s is no statement", ast_kind_name(s->kind));
}

static Flow
exec_body(Elab *e, Env *env, const Ast *body, Value *result)
{
    // An `else if` may be the statement itself.
    if (body->kind != AST_BODY)
        return exec(e, env, body, result);
    if (!go_deeper(e, body->place))
        return FLOW_NEXT;
    Env *inner = env_new(e->mem, env);
    Flow flow = FLOW_NEXT;
    for (int k = 0; k < body->n && flow == FLOW_NEXT && !e->stop; k++)
        if (count_steps(e, 1, body->kids[k]->place))
            flow = exec(e, inner, body->kids[k], result);
    e->depth--;
    return flow;
}

// ---- binding arguments ------------------------------------------------------------

static int
param_index(const Ast *params, const char *name)
{
    for (int k = 0; k < params->n; k++)
        if (params->kids[k]->text == name)
            return k;
    return -1;
}

// Finds the parameter of each argument; given[k] is the argument of parameter k or NULL.
static bool
match_args(Elab *e, const Ast *params, const CallArg *args, int n, Place p,
           const char *what, const CallArg **given)
{
    bool named = false;
    for (int k = 0; k < n; k++) {
        named = named || args[k].name;
        if (named && !args[k].name)
            die("an argument without a name behind one with a name");
        int to = args[k].name ? param_index(params, args[k].name) : k;
        if (args[k].name && to < 0) {
            fault(e, args[k].place, "'%s' has no parameter '%s'", what, args[k].name);
            return false;
        }
        if (to >= params->n) {
            fault(e, p, "'%s' takes %d argument%s, found %d", what, params->n,
                  params->n == 1 ? "" : "s", n);
            return false;
        }
        if (given[to]) {
            fault(e, args[k].place, "the argument '%s' is given twice",
                  params->kids[to]->text);
            return false;
        }
        given[to] = &args[k];
    }
    return true;
}

bool
bind_params(Elab *e, Env *env, const Ast *params, const CallArg *args, int n, Place p,
            const char *what)
{
    const CallArg **given = arena_array(&e->mem->perm, const CallArg *, params->n);
    if (!match_args(e, params, args, n, p, what, given))
        return false;
    for (int k = 0; k < params->n; k++) {
        const Ast *param = params->kids[k];
        const Ast *fallback = param->n > 1 ? param->kids[1] : NULL;
        if (!given[k] && !fallback) {
            fault(e, p, "'%s' needs an argument '%s'", what, param->text);
            return false;
        }
        Value v = given[k] ? given[k]->v : eval(e, env, fallback);
        env_define(e->mem, env, param->text, v);
    }
    // Types last: an extent may be an integer argument that stands behind.
    bool ok = true;
    for (int k = 0; k < params->n; k++) {
        const Ast *param = params->kids[k];
        const Ast *type = param->n > 0 ? param->kids[0] : NULL;
        Place at = given[k] ? given[k]->place : param->place;
        const char *text = arena_printf(&e->mem->perm, "'%s' of '%s'", param->text, what);
        if (type && !check_type(e, env, type, &env->names.v[k].v, at, text, false))
            ok = false;
        ok = ok && env->names.v[k].v.kind != V_ERROR;
    }
    return ok;
}

// ---- functions --------------------------------------------------------------------

static Value
fn_result(Elab *e, Env *env, const Fn *fn)
{
    const Ast *body = fn->ast->kids[fn->ast->n - 1];
    if (body->kind != AST_BODY)
        return eval(e, env, body);
    Value v = poison;
    int before = e->faults;
    if (exec_body(e, env, body, &v) == FLOW_NEXT && e->faults == before && !e->stop)
        return fault(e, fn->ast->name_place.file ? fn->ast->name_place : fn->ast->place,
                     "'%s' ends without 'return'", fn->name);
    return v;
}

static Value
call_fn(Elab *e, const Fn *fn, const CallArg *args, int n, Place p)
{
    Env *env = env_new(e->mem, fn->env);
    Frame frame;
    if (!bind_params(e, env, fn->ast->kids[0], args, n, p, fn->name) ||
        !frame_enter(e, &frame, fn->name, p))
        return poison;
    Value v = fn_result(e, env, fn);
    const Ast *type = fn->ast->kind == AST_FN ? fn->ast->kids[1] : NULL;
    const char *what = arena_printf(&e->mem->perm, "the result of '%s'", fn->name);
    if (type && v.kind != V_ERROR &&
        !check_type(e, env, type, &v, type->place, what, true))
        v = poison;
    frame_leave(e);
    return v;
}

// ---- built-in functions -----------------------------------------------------------

// Splits "x, axis" into interned names; a leading "..." sets *rest.
static int
builtin_params(Elab *e, const Builtin *b, const char **names, bool *rest)
{
    int n = 0;
    *rest = false;
    for (const char *s = b->params; *s;) {
        size_t length = strcspn(s, ", ");
        if (length == 3 && strncmp(s, "...", 3) == 0)
            *rest = true;
        else if (length > 0 && n < MAX_ARGS)
            names[n++] = mem_intern(e->mem, s, length);
        s += length + strspn(s + length, ", ");
    }
    return n;
}

static bool
bind_builtin(Elab *e, Args *a, const CallArg *args, int n)
{
    const char *names[MAX_ARGS];
    bool rest;
    a->n = builtin_params(e, a->b, names, &rest);
    if (n < a->b->min_args || (a->b->max_args >= 0 && n > a->b->max_args)) {
        fault(e, a->place, "'%s' takes %d%s argument%s, found %d", a->b->name,
              a->b->min_args,
              a->b->max_args < 0 ? " or more"
              : a->b->max_args == a->b->min_args
                  ? ""
                  : arena_printf(&e->mem->perm, " to %d", a->b->max_args),
              a->b->max_args == 1 ? "" : "s", n);
        return false;
    }
    for (int k = 0; k < n; k++) {
        int to = k;
        if (k > 0 && args[k - 1].name && !args[k].name)
            die("an argument without a name behind one with a name");
        if (args[k].name) {
            for (to = 0; to < a->n && names[to] != args[k].name;)
                to++;
        } else if (rest) {
            a->n_rest++;
            continue;
        }
        if (to >= a->n) {
            fault(e, args[k].place, "'%s' has no argument '%s'", a->b->name,
                  args[k].name ? args[k].name : "of this place");
            return false;
        }
        if (a->has[to]) {
            fault(e, args[k].place, "the argument '%s' is given twice", names[to]);
            return false;
        }
        a->has[to] = true;
        a->v[to] = args[k].v;
        a->at[to] = args[k].place;
    }
    a->rest = args; // arguments with names come after those without
    return true;
}

static Value
call_builtin(Elab *e, const Builtin *b, const CallArg *args, int n, Place p)
{
    for (int k = 0; k < n; k++)
        if (args[k].v.kind == V_ERROR)
            return poison;
    Args a = {.b = b, .place = p};
    if (!bind_builtin(e, &a, args, n))
        return poison;
    if (b->kind == BI_INIT || (strcmp(b->name, "zeros") == 0 && n == 0))
        return init_value(e, &a);
    if (b->kind == BI_LAYER)
        return sequential_new(e, &a);
    Handler h = e->handlers[b - builtins];
    if (!h)
        die("no handler of '%s'", b->name);
    return h(e, &a);
}

// ---- calls ------------------------------------------------------------------------

Value
call_value(Elab *e, Value callee, const CallArg *args, int n, Place p)
{
    switch (callee.kind) {
    case V_ERROR:
        return callee;
    case V_FN:
        return call_fn(e, callee.fn, args, n, p);
    case V_BUILTIN:
        return call_builtin(e, callee.builtin, args, n, p);
    case V_LAYER:
        return call_layer(e, callee.layer, args, n, p);
    case V_DECL:
        return layer_new(e, callee.decl, args, n, p);
    default:
        break;
    }
    return fault(e, p, "only functions and layers are called, found %s",
                 value_what(e->mem, callee));
}

Value
eval_call(Elab *e, Env *env, const Ast *a)
{
    Value callee = eval(e, env, a->kids[0]);
    int n = a->n - 1;
    CallArg *args = arena_array(&e->mem->perm, CallArg, n);
    for (int k = 0; k < n; k++) {
        const Ast *arg = a->kids[k + 1];
        const Ast *value = arg->kind == AST_ARG ? arg->kids[0] : arg;
        args[k].name = arg->kind == AST_ARG ? arg->text : NULL;
        args[k].v = eval(e, env, value);
        args[k].place = value->place;
    }
    return call_value(e, callee, args, n, a->place);
}

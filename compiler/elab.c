// elab.c - elaboration: from a program, its configuration and a schema to the graph of
// one sample.
//
// Everything that depends on configuration and schema only is evaluated here; what is
// left are tensor operations. First the members of the model are made, then they get
// their names (a layer is named by the first member that holds it) and the parameters
// their order, then forward() is evaluated.

#include "elab_int.h"

#include <math.h>
#include <string.h>

void
elab_init(Elab *e, Mem *mem, Diag *diag, const Program *program, const Config *config)
{
    *e = (Elab){.mem = mem, .diag = diag, .program = program, .config = config};
    e->globals = arena_array(&mem->perm, Global, program->decls.n);
    e->forward = mem_intern_str(mem, "forward");
    Handler *h = arena_array(&mem->perm, Handler, n_builtins);
    const HandlerRow *const tables[] = {static_handlers, shape_handlers, math_handlers,
                                        learn_handlers};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const HandlerRow *r = tables[t]; r->name; r++)
            for (int k = 0; k < n_builtins; k++)
                if (builtins[k].kind != BI_MARK && strcmp(builtins[k].name, r->name) == 0)
                    h[k] = r->fn;
    e->handlers = h;
}

// ---- faults -----------------------------------------------------------------------

void
note_frames(Elab *e)
{
    int shown = 0;
    for (const Frame *f = e->frame; f && shown < 8; f = f->outer, shown++)
        diag_note(e->diag, f->place, "in '%s', called here", f->name);
    if (e->frame && e->n_frames > shown)
        diag_note(e->diag, (Place){0}, "and %d calls around it", e->n_frames - shown);
}

Value
fault(Elab *e, Place p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(&e->mem->perm, fmt, ap);
    va_end(ap);
    int before = e->diag->errors;
    diag_error(e->diag, p, "%s", text);
    if (e->diag->errors > before)
        note_frames(e);
    if (++e->faults >= MAX_FAULTS * 100 || e->diag->errors >= MAX_FAULTS)
        e->stop = true;
    return (Value){.kind = V_ERROR};
}

bool
count_steps(Elab *e, int64_t n, Place p)
{
    if (e->stop)
        return false;
    if (n > MAX_STEPS - e->steps) {
        fault(e, p, "elaboration takes more than %d steps", MAX_STEPS);
        e->stop = true;
        return false;
    }
    e->steps += n;
    return true;
}

bool
go_deeper(Elab *e, Place p)
{
    if (e->depth < MAX_DEPTH) {
        e->depth++;
        return true;
    }
    fault(e, p, "evaluation nests more than %d deep", MAX_DEPTH);
    e->stop = true;
    return false;
}

bool
frame_enter(Elab *e, Frame *f, const char *name, Place p)
{
    if (e->n_frames >= MAX_FRAMES) {
        fault(e, p, "calls nest more than %d deep", MAX_FRAMES);
        e->stop = true;
        return false;
    }
    *f = (Frame){e->frame, name, p};
    e->frame = f;
    e->n_frames++;
    return true;
}

void
frame_leave(Elab *e)
{
    e->frame = e->frame->outer;
    e->n_frames--;
}

bool
need_graph(Elab *e, Place p)
{
    if (!e->g)
        fault(e, p,
              "tensors cannot be used here: a configuration does not depend on them");
    return e->g != NULL;
}

// ---- names ------------------------------------------------------------------------

// Binds every name that a file-level let declares.
static void
bind_globals(Elab *e, const Ast *pattern, Value v, const Decl *d)
{
    if (pattern->kind == AST_NAME) {
        for (int k = 0; k < e->program->decls.n; k++) {
            const Decl *other = &e->program->decls.v[k];
            if (other->ast == d->ast && other->name == pattern->text)
                e->globals[k] = (Global){GLOBAL_DONE, v};
        }
        return;
    }
    bool fits = (v.kind == V_TUPLE || v.kind == V_LIST) && v.list->n == pattern->n;
    if (!fits && v.kind != V_ERROR)
        v = fault(e, pattern->place, "%d names need as many values, found %s", pattern->n,
                  value_what(e->mem, v));
    for (int k = 0; k < pattern->n; k++)
        bind_globals(e, pattern->kids[k], v.kind == V_ERROR ? v : v.list->v[k], d);
}

static Value
global_compute(Elab *e, const Decl *d)
{
    Global *g = &e->globals[d - e->program->decls.v];
    switch (d->kind) {
    case DECL_LAYER:
        return (Value){.kind = V_DECL, .decl = d};
    case DECL_CONFIG:
        return config_value(e, e->config, d);
    case DECL_FN: {
        Fn *fn = arena_new(&e->mem->perm, Fn);
        *fn = (Fn){d->ast, NULL, d->name};
        return (Value){.kind = V_FN, .fn = fn};
    }
    case DECL_LET:
        break;
    }
    bind_globals(e, d->ast->kids[0], eval(e, NULL, d->ast->kids[1]), d);
    return g->v;
}

Value
global_value(Elab *e, const Decl *d)
{
    Global *g = &e->globals[d - e->program->decls.v];
    if (g->state == GLOBAL_DONE)
        return g->v;
    if (g->state == GLOBAL_BUSY)
        die("'%s' needs itself, which the checks refuse", d->name);
    g->state = GLOBAL_BUSY;
    // A value of the file belongs to no block call and no predicate, whoever reads it
    // first.
    Call *call = e->g ? e->g->call : NULL;
    MaskBuild *mask = e->mask;
    if (e->g)
        e->g->call = NULL;
    e->mask = NULL;
    Value v = global_compute(e, d);
    if (e->g)
        e->g->call = call;
    e->mask = mask;
    *g = (Global){GLOBAL_DONE, v};
    return v;
}

static bool
member_below(Elab *e, Env *env, const char *name, Place p)
{
    for (; env; env = env->outer) {
        const Ast *decl = env->self ? env->self->ast : NULL;
        if (!decl)
            continue;
        const Ast *members = decl->kids[decl->n - 1];
        for (int k = 0; k < members->n; k++)
            if (members->kids[k]->text == name) {
                fault(e, p, "'%s' is declared further down", name);
                diag_note(e->diag, members->kids[k]->place, "here");
                return true;
            }
    }
    return false;
}

static Value
builtin_value(Elab *e, const Builtin *b, Place p)
{
    bool data = b->kind == BI_DATA;
    if (data && !e->schema)
        return fault(e, p,
                     "'%s' cannot be read here: a configuration does not depend on it",
                     b->name);
    if (strcmp(b->name, "pi") == 0)
        return value_float(3.14159265358979323846);
    if (strcmp(b->name, "inf") == 0)
        return value_float(HUGE_VAL);
    if (strcmp(b->name, "request_time") == 0)
        return request_time(e);
    Value v = {.kind = V_OBJECT};
    if (strcmp(b->name, "schema") == 0)
        v.object.kind = OBJ_SCHEMA;
    else if (strcmp(b->name, "user") == 0)
        v.object.kind = OBJ_USER;
    else if (strcmp(b->name, "item") == 0)
        v.object.kind = OBJ_ITEM;
    else
        v = (Value){.kind = V_BUILTIN, .builtin = b};
    return v;
}

Value
name_value(Elab *e, Env *env, const char *name, Place p)
{
    Binding *b = env_find(env, name);
    if (b && b->v.kind == V_ABSENT)
        return fault(e, p, "member '%s' is absent in this configuration", name);
    if (b)
        return b->v;
    const Decl *d = program_find(e->program, name);
    if (d)
        return global_value(e, d);
    const Builtin *built = builtin_find(name, false);
    if (built)
        return builtin_value(e, built, p);
    if (member_below(e, env, name, p))
        return (Value){.kind = V_ERROR};
    return fault(e, p, "unknown name '%s'", name);
}

// ---- the whole --------------------------------------------------------------------

static void
check_asserts(Elab *e)
{
    for (int k = 0; k < e->program->asserts.n; k++) {
        const Ast *a = e->program->asserts.v[k];
        if (eval_condition(e, NULL, a->kids[0], "'assert'") != 0)
            continue;
        Value text = eval(e, NULL, a->kids[1]);
        if (text.kind != V_ERROR)
            fault(e, a->place, "%s", value_text(e->mem, text));
    }
}

static Node *
result_node(Elab *e, Value v, const char *what, Place p)
{
    Node *x = to_typed(e, v, DT_F32, what, p);
    if (x && x->shape.rank != 1) {
        fault(e, p, "%s of a model must be f32[n], found %s", what, node_text(e, x));
        return NULL;
    }
    return x;
}

// Reads what forward returned: the logits, or the logits and the embedding.
static void
set_results(Elab *e, Value v, Place p)
{
    if (v.kind == V_ERROR)
        return;
    Value logits = v;
    if (v.kind == V_TUPLE || v.kind == V_LIST) {
        if (v.list->n != 2) {
            fault(
                e, p,
                "forward of a model returns the logits, or the logits and the embedding, "
                "found %s",
                value_what(e->mem, v));
            return;
        }
        logits = v.list->v[0];
        e->g->embedding = result_node(e, v.list->v[1], "the embedding", p);
    }
    e->g->logits = result_node(e, logits, "the logits", p);
    if (e->g->logits && e->g->logits->shape.dim[0] < 1)
        fault(e, p, "a model needs a logit, found %s", node_text(e, e->g->logits));
}

Graph *
elaborate(Mem *mem, Diag *diag, const Program *program, const Config *config,
          const Schema *schema)
{
    Elab state, *e = &state;
    int before = diag->errors;
    elab_init(e, mem, diag, program, config);
    e->schema = schema;
    e->g = graph_new(mem, diag);
    e->domain_inputs = arena_array(&mem->perm, Node *, 3 * schema->n_domains);
    for (int k = 0; k < program->decls.n; k++)
        if (program->decls.v[k].kind == DECL_CONFIG)
            global_value(e, &program->decls.v[k]);
    check_asserts(e);
    // The members of a model that its asserts refuse would only repeat the fault.
    Layer *model = diag->errors > before ? NULL : model_new(e, program->model);
    if (model && diag->errors == before) {
        layer_register(e, model, "");
        e->complete = true;
        Place p = program->model->name_place;
        set_results(e, call_layer(e, model, NULL, 0, p), p);
    }
    if (diag->errors > before)
        return NULL;
    if (!e->g->logits)
        die("a model without logits or an error");
    graph_compact(e->g);
    mark_unused(e->g);
    return e->g;
}

// init.c - parameters: shape, initial value and marks.

#include "elab_int.h"

#include <math.h>
#include <string.h>

// ---- initial values ---------------------------------------------------------------

Value
init_value(Elab *e, const Args *a)
{
    static const struct {
        const char *name;
        InitKind kind;
    } kinds[] = {
        {"zeros", INIT_ZEROS},
        {"ones", INIT_ONES},
        {"constant", INIT_CONSTANT},
        {"uniform", INIT_UNIFORM},
        {"normal", INIT_NORMAL},
        {"xavier_normal", INIT_XAVIER_NORMAL},
        {"xavier_uniform", INIT_XAVIER_UNIFORM},
    };
    Value v = {.kind = V_INIT};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strcmp(kinds[k].name, a->b->name) == 0)
            v.init.kind = kinds[k].kind;
    if (!a->has[0])
        return v;
    if (!arg_number(e, a, 0, &v.init.x))
        return (Value){.kind = V_ERROR};
    bool spread = v.init.kind == INIT_UNIFORM || v.init.kind == INIT_NORMAL;
    if (!isfinite(v.init.x) || (spread && v.init.x < 0))
        return fault(e, a->at[0], "'%s' needs %s number, found %s", a->b->name,
                     spread ? "a finite, non-negative" : "a finite",
                     float_text(e->mem, v.init.x));
    return v;
}

// ---- shape and marks --------------------------------------------------------------

static bool
param_shape(Elab *e, Env *env, const Ast *type, Shape *s)
{
    if (type->kind != AST_TYPE || type->n > 4)
        die("the type of a parameter passed the checks");
    int64_t size = 1;
    s->rank = type->n;
    for (int k = 0; k < type->n; k++) {
        Value v = eval(e, env, type->kids[k]);
        if (v.kind == V_ERROR)
            return false;
        if (v.kind != V_INT || v.i < 0) {
            fault(e, type->kids[k]->place,
                  "an extent must be an integer of at least 0, found %s",
                  value_what(e->mem, v));
            return false;
        }
        s->dim[k] = v.i;
        if (v.i > MAX_ELEMENTS ||
            __builtin_mul_overflow(size, v.i > 0 ? v.i : 1, &size) ||
            size > MAX_ELEMENTS) {
            fault(e, type->place, "the parameter is too large");
            return false;
        }
    }
    return true;
}

static bool
table_mark(Elab *e, Env *env, const Ast *mark, Param *p)
{
    if (p->shape.rank != 2) {
        fault(e, mark->place, "a table has two axes, found %s",
              shape_text(e->mem, DT_F32, p->shape));
        return false;
    }
    p->table = true;
    p->table_ids = p->shape.dim[0] > 0 ? p->shape.dim[0] - 1 : 0;
    if (mark->n == 0)
        return true;
    const Ast *arg =
        mark->kids[0]->kind == AST_ARG ? mark->kids[0]->kids[0] : mark->kids[0];
    Value v = eval(e, env, arg);
    if (v.kind == V_ERROR)
        return false;
    if (v.kind != V_INT || v.i < 0) {
        fault(e, arg->place, "'table' needs the number of its ids, found %s",
              value_what(e->mem, v));
        return false;
    }
    p->table_ids = v.i;
    return true;
}

static bool
set_mark(Elab *e, Env *env, const Ast *mark, Param *p)
{
    if (strcmp(mark->text, "table") == 0)
        return table_mark(e, env, mark, p);
    bool *flag = strcmp(mark->text, "padding") == 0    ? &p->padding
                 : strcmp(mark->text, "matrices") == 0 ? &p->matrices
                 : strcmp(mark->text, "adamw") == 0    ? &p->adamw
                 : strcmp(mark->text, "frozen") == 0   ? &p->frozen
                                                       : NULL;
    if (!flag)
        die("unknown mark '%s'", mark->text);
    *flag = true;
    return true;
}

static bool
marks_agree(Elab *e, const Ast *marks, const Param *p)
{
    if (p->padding && !p->table)
        fault(e, marks->place, "'padding' belongs to a 'table'");
    else if (p->matrices && p->shape.rank != 3)
        fault(e, marks->place, "'matrices' needs three axes, found %s",
              shape_text(e->mem, DT_F32, p->shape));
    else
        return true;
    return false;
}

LayerParam *
param_new(Elab *e, Env *env, const Ast *a)
{
    const Ast *type = a->kids[1], *init = a->kids[2], *marks = a->kids[3];
    LayerParam *p = arena_new(&e->mem->perm, LayerParam);
    p->index = -1;
    p->p.place = a->name_place.file ? a->name_place : a->place;
    if (!param_shape(e, env, type, &p->p.shape))
        return NULL;
    Value v = eval(e, env, init);
    if (v.kind == V_ERROR)
        return NULL;
    if (v.kind != V_INIT) {
        fault(e, init->place,
              "an initial value is written normal(0.02), zeros(), ..., found %s",
              value_what(e->mem, v));
        return NULL;
    }
    p->p.init = v.init.kind;
    p->p.init_value = v.init.x;
    bool xavier = v.init.kind == INIT_XAVIER_NORMAL || v.init.kind == INIT_XAVIER_UNIFORM;
    if (xavier && p->p.shape.rank != 2) {
        fault(e, init->place, "xavier needs a matrix, found %s",
              shape_text(e->mem, DT_F32, p->p.shape));
        return NULL;
    }
    for (int k = 0; k < marks->n; k++)
        if (!set_mark(e, env, marks->kids[k], &p->p))
            return NULL;
    return marks_agree(e, marks, &p->p) ? p : NULL;
}

// elab_object.c - the schema at compile time, and the inputs of a sample.

#include "elab_int.h"

#include <string.h>

static Value
make_object(ObjectKind kind, int domain, const SchemaFeature *field)
{
    Value v = {.kind = V_OBJECT};
    v.object.kind = kind;
    v.object.domain = domain;
    v.object.field = field;
    return v;
}

static Value
unknown(Elab *e, const char *what, const char *name, Place p)
{
    return fault(e, p, "%s has no '%s'", what, name);
}

// ---- schema -----------------------------------------------------------------------

static Value
group_list(Elab *e, const SchemaGroup *g)
{
    Value *v = arena_array(&e->mem->perm, Value, g->n);
    for (int k = 0; k < g->n; k++)
        v[k] = make_object(OBJ_FIELD, 0, &g->features[k]);
    return value_list(e->mem, v, g->n);
}

static Value
schema_field(Elab *e, const char *name, Place p)
{
    const Schema *s = e->schema;
    const struct {
        const char *list, *width;
        const SchemaGroup *group;
    } groups[] = {
        {"user_int", "user_int_width", &s->user_int},
        {"item_int", "item_int_width", &s->item_int},
        {"user_dense", "user_dense_width", &s->user_dense},
        {"item_dense", "item_dense_width", &s->item_dense},
    };
    for (size_t k = 0; k < sizeof groups / sizeof *groups; k++) {
        if (strcmp(name, groups[k].list) == 0)
            return group_list(e, groups[k].group);
        if (strcmp(name, groups[k].width) == 0)
            return value_int(groups[k].group->width);
    }
    if (strcmp(name, "sequences") != 0)
        return unknown(e, "the schema", name, p);
    Value *v = arena_array(&e->mem->perm, Value, s->n_domains);
    for (int k = 0; k < s->n_domains; k++)
        v[k] = make_object(OBJ_DOMAIN, k, NULL);
    return value_list(e->mem, v, s->n_domains);
}

static Value
feature_field(Elab *e, const SchemaFeature *f, const char *name, Place p)
{
    if (strcmp(name, "fid") == 0)
        return value_int(f->fid);
    if (strcmp(name, "vocab") == 0)
        return value_int(f->vocab);
    if (strcmp(name, "offset") == 0)
        return value_int(f->offset);
    if (strcmp(name, "length") == 0)
        return value_int(f->dim);
    return unknown(e, "a field of the schema", name, p);
}

// ---- inputs -----------------------------------------------------------------------

static Value
field_input(Elab *e, InputKind kind, const char *name, DType type, Shape s)
{
    if (!e->inputs[kind])
        e->inputs[kind] = graph_input(e->g, kind, -1, name, type, s);
    return value_node(e->inputs[kind]);
}

static Shape
vector(int64_t n)
{
    return (Shape){.rank = 1, .dim = {n}};
}

Value
request_time(Elab *e)
{
    return field_input(e, IN_REQUEST_TIME, "request_time", DT_I64, (Shape){0});
}

static Value
side_field(Elab *e, bool item, const char *name, Place p)
{
    const Schema *s = e->schema;
    int64_t ints = item ? s->item_int.width : s->user_int.width;
    int64_t dense = item ? s->item_dense.width : s->user_dense.width;
    const struct {
        const char *name, *user, *item;
        InputKind
            kind; // of the user; the item's stand IN_ITEM_INTS - IN_USER_INTS further
        DType type;
        int64_t width;
    } data[] = {
        {"ints", "user.ints", "item.ints", IN_USER_INTS, DT_I64, ints},
        {"int_missing", "user.int_missing", "item.int_missing", IN_USER_INT_MISSING,
         DT_BOOL, ints},
        {"dense", "user.dense", "item.dense", IN_USER_DENSE, DT_F32, dense},
        {"dense_missing", "user.dense_missing", "item.dense_missing",
         IN_USER_DENSE_MISSING, DT_BOOL, dense},
    };
    for (size_t k = 0; k < sizeof data / sizeof *data; k++)
        if (strcmp(name, data[k].name) == 0)
            return field_input(e, data[k].kind + (item ? IN_ITEM_INTS - IN_USER_INTS : 0),
                               item ? data[k].item : data[k].user, data[k].type,
                               vector(data[k].width));
    return unknown(e, item ? "item" : "user", name, p);
}

static Value
domain_input(Elab *e, int domain, InputKind kind, const char *name, DType type, Shape s)
{
    Node **at = &e->domain_inputs[3 * domain + (kind - IN_EVENTS)];
    const char *full =
        arena_printf(&e->mem->perm, "%s.%s", e->schema->domains[domain].name, name);
    if (!*at)
        *at = graph_input(e->g, kind, domain, full, type, s);
    return value_node(*at);
}

static Value
domain_field(Elab *e, int domain, const char *name, Place p)
{
    const SchemaDomain *d = &e->schema->domains[domain];
    if (strcmp(name, "name") == 0)
        return value_str(mem_intern_str(e->mem, d->name));
    if (strcmp(name, "max_len") == 0)
        return value_int(d->max_len);
    if (strcmp(name, "vocabs") == 0) {
        Value *v = arena_array(&e->mem->perm, Value, d->n_sides);
        for (int k = 0; k < d->n_sides; k++)
            v[k] = value_int(d->sides[k].vocab);
        return value_list(e->mem, v, d->n_sides);
    }
    if (strcmp(name, "events") == 0)
        return domain_input(e, domain, IN_EVENTS, name, DT_I64,
                            (Shape){.rank = 2, .dim = {d->n_sides, d->max_len}});
    if (strcmp(name, "times") == 0)
        return domain_input(e, domain, IN_TIMES, name, DT_I64, vector(d->max_len));
    if (strcmp(name, "length") == 0)
        return domain_input(e, domain, IN_LENGTH, name, DT_I64, (Shape){0});
    return unknown(e, "a sequence of the schema", name, p);
}

Value
object_field(Elab *e, Value object, const char *name, Place p)
{
    switch (object.object.kind) {
    case OBJ_SCHEMA:
        return schema_field(e, name, p);
    case OBJ_FIELD:
        return feature_field(e, object.object.field, name, p);
    case OBJ_DOMAIN:
        return domain_field(e, object.object.domain, name, p);
    case OBJ_USER:
        return side_field(e, false, name, p);
    case OBJ_ITEM:
        return side_field(e, true, name, p);
    }
    return (Value){.kind = V_ERROR};
}

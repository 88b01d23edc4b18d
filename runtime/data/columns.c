// columns.c - plans the Parquet columns of a schema and finds them in each file.
//
// Each file has a plan of its own: types may differ from file to file.

#include "columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Adds a column; an empty name or short memory makes it fail.
static bool
add(Columns *c, ColumnRole role, int part, const SchemaFeature *f, bool list,
    const char *prefix)
{
    Column *to = &c->columns[c->n];
    *to = (Column){.role = role, .part = part, .list = list};
    if (f) {
        to->vocab = f->vocab;
        to->dim = f->dim;
        to->offset = f->offset;
    }
    int n = f ? asprintf(&to->name, "%s_%" PRId64, prefix, f->fid)
              : asprintf(&to->name, "%s", prefix);
    if (n < 0) {
        to->name = NULL;
        return false;
    }
    c->n++;
    return true;
}

static bool
add_group(Columns *c, ColumnRole role, int part, const SchemaGroup *g, const char *prefix)
{
    for (int i = 0; i < g->n; i++) {
        const SchemaFeature *f = &g->features[i];
        if (!add(c, role, part, f, role == COLUMN_DENSE || f->dim > 1, prefix))
            return false;
    }
    return true;
}

static bool
add_domain(Columns *c, int part, const SchemaDomain *d)
{
    for (int i = 0; i < d->n_features; i++) {
        const SchemaFeature *f = &d->features[i];
        ColumnRole role = f->offset < 0 ? COLUMN_EVENT_TIME : COLUMN_EVENT;
        if (!add(c, role, part, f, true, d->prefix))
            return false;
    }
    return true;
}

bool
columns_plan(const Schema *s, bool label, Columns *out)
{
    size_t n = 3 + (size_t)s->user_int.n + (size_t)s->item_int.n +
               (size_t)s->user_dense.n + (size_t)s->item_dense.n;
    for (int i = 0; i < s->n_domains; i++)
        n += (size_t)s->domains[i].n_features;
    *out = (Columns){calloc(n, sizeof(Column)), 0};
    bool ok = out->columns && add(out, COLUMN_TIME, 0, NULL, false, "timestamp") &&
              (!label || add(out, COLUMN_LABEL, 0, NULL, false, "label_type")) &&
              add(out, COLUMN_USER, 0, NULL, false, "user_id") &&
              add_group(out, COLUMN_ID, 0, &s->user_int, "user_int_feats") &&
              add_group(out, COLUMN_ID, 1, &s->item_int, "item_int_feats") &&
              add_group(out, COLUMN_DENSE, 0, &s->user_dense, "user_dense_feats") &&
              add_group(out, COLUMN_DENSE, 1, &s->item_dense, "item_dense_feats");
    for (int i = 0; i < s->n_domains && ok; i++)
        ok = add_domain(out, i, &s->domains[i]);
    if (!ok)
        columns_free(out);
    return ok;
}

void
columns_free(Columns *c)
{
    for (int i = 0; i < c->n; i++)
        free(c->columns[i].name);
    free(c->columns);
    *c = (Columns){NULL, 0};
}

// Field numbers sorted by name, for finding columns in wide files.
typedef struct Field {
    const char *name;
    int32_t index;
} Field;

static int
compare_fields(const void *a, const void *b)
{
    return strcmp(((const Field *)a)->name, ((const Field *)b)->name);
}

static const char *
expected_type(const Column *c)
{
    if (c->role == COLUMN_USER)
        return "a string or an integer";
    if (c->role == COLUMN_DENSE)
        return "a list of floats";
    return c->list ? "a list of integers" : "an integer";
}

static bool
type_serves(const Column *c, const ArrowType *t)
{
    bool text = t->element >= ARROW_TEXT32;
    if (c->role == COLUMN_USER)
        return t->form == ARROW_SCALAR && (text || t->element <= ARROW_U64);
    return !text && c->list == (t->form != ARROW_SCALAR);
}

static int
find_column(const Column *c, const Field *fields, size_t n,
            const struct ArrowSchema *schema, const char *path, int32_t *index,
            ArrowType *type, DataError *e)
{
    Field key = {c->name, 0};
    char name[128];
    const Field *f = bsearch(&key, fields, n, sizeof *fields, compare_fields);
    if (!f)
        return data_fail(e, "%s: no column '%s' (%s expected)", path, c->name,
                         expected_type(c));
    if ((f > fields && !strcmp(f[-1].name, f->name)) ||
        (f + 1 < fields + n && !strcmp(f[1].name, f->name)))
        return data_fail(e, "%s: column '%s' occurs twice", path, c->name);
    bool known = arrow_type_read(schema->children[f->index], type, name, sizeof name);
    if (!known || !type_serves(c, type))
        return data_fail(e, "%s: column '%s': expected %s, found %s", path, c->name,
                         expected_type(c), name);
    *index = f->index;
    return 0;
}

int
columns_find(const Columns *c, const struct ArrowSchema *schema, const char *path,
             FileColumns *out, DataError *e)
{
    size_t n = (size_t)schema->n_children;
    Field *fields = calloc(n ? n : 1, sizeof *fields);
    *out = (FileColumns){calloc((size_t)c->n, sizeof *out->fields),
                         calloc((size_t)c->n, sizeof *out->types)};
    int rc = 0;
    if (!fields || !out->fields || !out->types)
        rc = data_fail(e, "%s: out of memory", path);
    for (size_t i = 0; i < n && !rc; i++)
        fields[i] = (Field){schema->children[i]->name ? schema->children[i]->name : "",
                            (int32_t)i};
    if (!rc)
        qsort(fields, n, sizeof *fields, compare_fields);
    for (int i = 0; i < c->n && !rc; i++)
        rc = find_column(&c->columns[i], fields, n, schema, path, &out->fields[i],
                         &out->types[i], e);
    free(fields);
    if (rc)
        file_columns_free(out);
    return rc;
}

void
file_columns_free(FileColumns *f)
{
    free(f->fields);
    free(f->types);
    *f = (FileColumns){NULL, NULL};
}

// schema.c - reads schema.json, checks it and derives the layout of a batch from it.
//
// The rules are those of the reference's data sets: unknown keys are refused at every
// level, columns are [fid, vocab_size, dim] or objects of these, integral floats and
// strings of digits count as integers. The first fault found is reported with the path
// inside the document.

#include "schema.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// What a message needs: the file's name and where the text goes.
typedef struct Reader {
    const char *file;
    DataError *e;
} Reader;

static bool
text_to_int(const char *s, int64_t *out)
{
    char *end;
    while (isspace((unsigned char)*s))
        s++;
    if (!isdigit((unsigned char)*s) && *s != '-' && *s != '+')
        return false;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (errno || end == s)
        return false;
    while (isspace((unsigned char)*end))
        end++;
    *out = v;
    return *end == '\0';
}

static bool
json_to_int(const json_t *j, int64_t *out)
{
    if (json_is_integer(j)) {
        *out = json_integer_value(j);
        return true;
    }
    if (json_is_real(j)) {
        double d = json_real_value(j);
        *out = fabs(d) < 9e15 ? (int64_t)d : 0;
        return fabs(d) < 9e15 && d == floor(d);
    }
    return json_is_string(j) && text_to_int(json_string_value(j), out);
}

static int
check_keys(const Reader *r, const json_t *object, const char *where,
           const char *const *keys)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        const char *const *k = keys;
        while (*k && strcmp(*k, key))
            k++;
        if (!*k)
            return data_fail(r->e, "%s: %s: unknown key '%s'", r->file, where, key);
    }
    return 0;
}

// Reads column i of a list: [fid, vocab_size, dim] cut to the fields that `fields` names.
static int
read_column(const Reader *r, const json_t *j, const char *where, size_t i,
            const char *const *fields, int64_t *out)
{
    size_t n = 0;
    while (fields[n])
        n++;
    if (!(json_is_array(j) && json_array_size(j) == n) && !json_is_object(j))
        return data_fail(
            r->e, "%s: %s[%zu]: expected a list of %zu integers (%s, %s%s%s)", r->file,
            where, i, n, fields[0], fields[1], n > 2 ? ", " : "", n > 2 ? fields[2] : "");
    if (json_is_object(j) && check_keys(r, j, where, fields))
        return -1;
    for (size_t k = 0; k < n; k++) {
        json_t *v =
            json_is_object(j) ? json_object_get(j, fields[k]) : json_array_get(j, k);
        if (!v)
            return data_fail(r->e, "%s: %s[%zu]: no '%s'", r->file, where, i, fields[k]);
        if (!json_to_int(v, &out[k]))
            return data_fail(r->e, "%s: %s[%zu]: %s must be an integer", r->file, where,
                             i, fields[k]);
    }
    return 0;
}

static int
compare_int64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Finds a fid that occurs twice; sorted copy, so that a huge list costs no quadratic
// time.
static int
check_duplicates(const Reader *r, const SchemaFeature *f, int n, const char *where)
{
    int64_t *fids = malloc(sizeof *fids * (size_t)(n ? n : 1));
    if (!fids)
        return data_fail(r->e, "%s: out of memory", r->file);
    for (int i = 0; i < n; i++)
        fids[i] = f[i].fid;
    qsort(fids, (size_t)n, sizeof *fids, compare_int64);
    int rc = 0;
    for (int i = 1; i < n && !rc; i++)
        if (fids[i] == fids[i - 1])
            rc = data_fail(r->e, "%s: %s has duplicate fid %" PRId64, r->file, where,
                           fids[i]);
    free(fids);
    return rc;
}

static const char *const INT_FIELDS[] = {"fid", "vocab_size", "dim", NULL};
static const char *const DENSE_FIELDS[] = {"fid", "dim", NULL};
static const char *const SEQ_FIELDS[] = {"fid", "vocab_size", NULL};

// Reads a list of columns of one kind into *out, *n; widths and offsets are set.
static int
read_columns(const Reader *r, const json_t *list, const char *where,
             const char *const *fields, SchemaFeature **out, int *n, int64_t *width)
{
    size_t count = json_array_size(list);
    if (!json_is_array(list))
        return data_fail(r->e, "%s: %s must be a list of columns", r->file, where);
    if (count > INT_MAX / 2)
        return data_fail(r->e, "%s: %s has too many columns", r->file, where);
    SchemaFeature *f = calloc(count ? count : 1, sizeof *f);
    if (!f)
        return data_fail(r->e, "%s: out of memory", r->file);
    *out = f;
    *n = (int)count;
    *width = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t v[3] = {0};
        if (read_column(r, json_array_get(list, i), where, i, fields, v))
            return -1;
        f[i].fid = v[0];
        f[i].vocab = fields == DENSE_FIELDS ? 0 : v[1];
        f[i].dim = fields == INT_FIELDS ? v[2] : fields == DENSE_FIELDS ? v[1] : 1;
        f[i].offset = *width;
        if (f[i].dim < 1)
            return data_fail(r->e, "%s: %s fid %" PRId64 " has dim < 1", r->file, where,
                             v[0]);
        if (f[i].vocab < 0)
            return data_fail(r->e, "%s: %s fid %" PRId64 " has negative vocab_size",
                             r->file, where, v[0]);
        if (f[i].dim > INT32_MAX - *width)
            return data_fail(r->e, "%s: %s is wider than %d", r->file, where, INT32_MAX);
        *width += f[i].dim;
    }
    return check_duplicates(r, f, *n, where);
}

static int
read_group(const Reader *r, const json_t *root, const char *key,
           const char *const *fields, bool required, bool empty, SchemaGroup *g)
{
    json_t *list = json_object_get(root, key);
    if (!list && !required)
        return 0;
    if (!list)
        return data_fail(r->e, "%s: no '%s'", r->file, key);
    if (read_columns(r, list, key, fields, &g->features, &g->n, &g->width))
        return -1;
    if (!g->n && !empty)
        return data_fail(r->e, "%s: %s must not be empty", r->file, key);
    return 0;
}

// Splits the features of a domain into its timestamp and its side features.
static int
split_sides(const Reader *r, SchemaDomain *d, const char *where)
{
    bool found = false;
    d->sides = calloc((size_t)(d->n_features ? d->n_features : 1), sizeof *d->sides);
    if (!d->sides)
        return data_fail(r->e, "%s: out of memory", r->file);
    for (int i = 0; i < d->n_features; i++) {
        SchemaFeature *f = &d->features[i];
        f->offset = f->fid == d->ts_fid ? -1 : d->n_sides;
        found |= f->fid == d->ts_fid;
        if (f->offset >= 0)
            d->sides[d->n_sides++] = *f;
    }
    if (!found)
        return data_fail(r->e, "%s: %s: ts_fid %" PRId64 " is not one of its features",
                         r->file, where, d->ts_fid);
    return 0;
}

static int
read_domain(const Reader *r, const char *name, const json_t *j, SchemaDomain *d)
{
    static const char *const keys[] = {"prefix", "ts_fid", "features", NULL};
    char where[160];
    int64_t width;
    snprintf(where, sizeof where, "seq '%.140s'", name);
    d->max_len = SCHEMA_DEFAULT_LEN;
    if (!name[0])
        return data_fail(r->e, "%s: seq: a domain's name must not be empty", r->file);
    if (!json_is_object(j))
        return data_fail(r->e, "%s: %s must be an object", r->file, where);
    if (check_keys(r, j, where, keys))
        return -1;
    for (int k = 0; keys[k]; k++)
        if (!json_object_get(j, keys[k]))
            return data_fail(r->e, "%s: %s: no '%s'", r->file, where, keys[k]);
    json_t *prefix = json_object_get(j, "prefix");
    if (!json_is_string(prefix) || !json_string_length(prefix))
        return data_fail(r->e, "%s: %s: prefix must be a text that is not empty", r->file,
                         where);
    if (!json_to_int(json_object_get(j, "ts_fid"), &d->ts_fid))
        return data_fail(r->e, "%s: %s: ts_fid must be an integer", r->file, where);
    d->name = strdup(name);
    d->prefix = strdup(json_string_value(prefix));
    if (!d->name || !d->prefix)
        return data_fail(r->e, "%s: out of memory", r->file);
    if (read_columns(r, json_object_get(j, "features"), where, SEQ_FIELDS, &d->features,
                     &d->n_features, &width))
        return -1;
    if (!d->n_features)
        return data_fail(r->e, "%s: %s has no features", r->file, where);
    return split_sides(r, d, where);
}

static int
compare_domains(const void *a, const void *b)
{
    return strcmp(((const SchemaDomain *)a)->name, ((const SchemaDomain *)b)->name);
}

static int
read_domains(const Reader *r, const json_t *seq, Schema *s)
{
    const char *name;
    json_t *j;
    if (!json_is_object(seq))
        return data_fail(r->e, "%s: %s", r->file,
                         seq ? "seq must be an object" : "no 'seq'");
    s->domains = calloc(json_object_size(seq) + 1, sizeof *s->domains);
    if (!s->domains)
        return data_fail(r->e, "%s: out of memory", r->file);
    json_object_foreach(
        (json_t *)seq, name,
        j) if (read_domain(r, name, j, &s->domains[s->n_domains++])) return -1;
    qsort(s->domains, (size_t)s->n_domains, sizeof *s->domains, compare_domains);
    for (int i = 0; i < s->n_domains; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(s->domains[i].prefix, s->domains[k].prefix))
                return data_fail(r->e, "%s: duplicate sequence prefix '%s'", r->file,
                                 s->domains[i].prefix);
    return 0;
}

static int
read_root(const Reader *r, const json_t *root, Schema *s)
{
    static const char *const keys[] = {"format",     "user_int", "item_int", "user_dense",
                                       "item_dense", "seq",      NULL};
    if (!json_is_object(root))
        return data_fail(r->e, "%s: expected a JSON object", r->file);
    if (check_keys(r, root, "schema", keys))
        return -1;
    json_t *format = json_object_get(root, "format");
    if (!json_is_string(format) || strcmp(json_string_value(format), "raw_parquet"))
        return data_fail(r->e, "%s: format must be \"raw_parquet\"", r->file);
    if (read_group(r, root, "user_int", INT_FIELDS, true, false, &s->user_int) ||
        read_group(r, root, "item_int", INT_FIELDS, true, false, &s->item_int) ||
        read_group(r, root, "user_dense", DENSE_FIELDS, true, true, &s->user_dense) ||
        read_group(r, root, "item_dense", DENSE_FIELDS, false, true, &s->item_dense))
        return -1;
    return read_domains(r, json_object_get(root, "seq"), s);
}

Schema *
schema_parse(const char *text, size_t n, const char *name, DataError *e)
{
    Reader r = {name, e};
    json_error_t je;
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &je);
    if (!root) {
        data_fail(e, "%s:%d:%d: not JSON: %s", name, je.line, je.column, je.text);
        return NULL;
    }
    Schema *s = calloc(1, sizeof *s);
    if (!s)
        data_fail(e, "%s: out of memory", name);
    else if (read_root(&r, root, s)) {
        schema_free(s);
        s = NULL;
    }
    json_decref(root);
    return s;
}

Schema *
schema_read(const char *path, DataError *e)
{
    if (data_regular_file(path, e))
        return NULL;
    FILE *f = fopen(path, "rb");
    size_t n = 0, room = 0;
    char *text = NULL;
    Schema *s = NULL;
    while (f && !ferror(f) && !feof(f)) {
        if (n + 4096 > room) {
            char *bigger = realloc(text, room = 2 * room + 8192);
            if (!bigger)
                break;
            text = bigger;
        }
        n += fread(text + n, 1, 4096, f);
    }
    if (f && feof(f) && !ferror(f))
        s = schema_parse(text, n, path, e);
    else
        data_fail(e, "%s: cannot read the schema: %s", path, strerror(errno));
    if (f)
        fclose(f);
    free(text);
    return s;
}

// Reads one "name:len" of the list; *p moves behind it and its comma.
static int
next_len(const char **p, const char **name, int *n, int64_t *len)
{
    const char *end = *p + strcspn(*p, ","), *colon = memchr(*p, ':', (size_t)(end - *p));
    char digits[32];
    if (!colon || (size_t)(end - colon - 1) >= sizeof digits)
        return -1;
    memcpy(digits, colon + 1, (size_t)(end - colon - 1));
    digits[end - colon - 1] = '\0';
    while (*p < colon && isspace((unsigned char)**p))
        ++*p;
    *name = *p;
    while (colon > *name && isspace((unsigned char)colon[-1]))
        colon--;
    *n = (int)(colon - *name);
    *p = *end ? end + 1 : end;
    return text_to_int(digits, len) && *len >= 1 && *len <= INT32_MAX ? 0 : -1;
}

// Steps over blank entries of the list.
static const char *
skip_blank(const char *p)
{
    for (;;) {
        const char *end = p + strspn(p, " \t\r\n");
        if (*end == '\0')
            return end;
        if (*end != ',')
            return p;
        p = end + 1;
    }
}

static SchemaDomain *
domain_named(const Schema *s, const char *name, int n)
{
    for (int i = 0; i < s->n_domains; i++)
        if (strlen(s->domains[i].name) == (size_t)n && !memcmp(s->domains[i].name, name, (size_t)n))
            return &s->domains[i];
    return NULL;
}

int
schema_set_lens(Schema *s, const char *lens, DataError *e)
{
    const char *list = lens ? lens : "", *name;
    int n;
    int64_t len;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < s->n_domains && pass; i++)
            s->domains[i].max_len = SCHEMA_DEFAULT_LEN;
        for (const char *p = list; *(p = skip_blank(p));) {
            if (next_len(&p, &name, &n, &len))
                return data_fail(e, "seq_max_lens '%s': expected name:len,name:len with len >= 1",
                                 list);
            SchemaDomain *named = pass ? domain_named(s, name, n) : NULL;
            if (named)
                named->max_len = len;
        }
    }
    return 0;
}

char *
schema_unknown_lens(const Schema *s, const char *lens)
{
    char *out = lens ? malloc(2 * strlen(lens) + 1) : NULL;
    size_t used = 0;
    const char *name;
    int n;
    int64_t len;
    for (const char *p = lens; out && *(p = skip_blank(p));) {
        if (next_len(&p, &name, &n, &len))
            break;
        if (!domain_named(s, name, n))
            used += (size_t)sprintf(out + used, "%s%.*s", used ? ", " : "", n, name);
    }
    if (used)
        return out;
    free(out);
    return NULL;
}

static void
cap_features(SchemaFeature *f, int n, int64_t cap)
{
    for (int i = 0; i < n; i++) {
        int64_t v = f[i].vocab < cap ? f[i].vocab : cap;
        if (f[i].vocab)
            f[i].vocab = v > 2 ? v : 2;
    }
}

void
schema_cap_vocab(Schema *s, int64_t cap)
{
    cap_features(s->user_int.features, s->user_int.n, cap);
    cap_features(s->item_int.features, s->item_int.n, cap);
    for (int i = 0; i < s->n_domains; i++) {
        SchemaDomain *d = &s->domains[i];
        cap_features(d->sides, d->n_sides, cap);
        for (int k = 0; k < d->n_features; k++)
            if (d->features[k].offset >= 0)
                d->features[k].vocab = d->sides[d->features[k].offset].vocab;
    }
}

static json_t *
group_json(const SchemaFeature *f, int n, const char *form)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_t *c = json_array();
        json_array_append_new(c, json_integer(f[i].fid));
        if (strchr(form, 'v'))
            json_array_append_new(c, json_integer(f[i].vocab));
        if (strchr(form, 'd'))
            json_array_append_new(c, json_integer(f[i].dim));
        json_array_append_new(list, c);
    }
    return list;
}

char *
schema_to_json(const Schema *s)
{
    json_t *root = json_object(), *seq = json_object();
    json_object_set_new(root, "format", json_string("raw_parquet"));
    json_object_set_new(root, "user_int",
                        group_json(s->user_int.features, s->user_int.n, "vd"));
    json_object_set_new(root, "item_int",
                        group_json(s->item_int.features, s->item_int.n, "vd"));
    json_object_set_new(root, "user_dense",
                        group_json(s->user_dense.features, s->user_dense.n, "d"));
    if (s->item_dense.n)
        json_object_set_new(root, "item_dense",
                            group_json(s->item_dense.features, s->item_dense.n, "d"));
    for (int i = 0; i < s->n_domains; i++) {
        const SchemaDomain *d = &s->domains[i];
        json_t *o = json_object();
        json_object_set_new(o, "prefix", json_string(d->prefix));
        json_object_set_new(o, "ts_fid", json_integer(d->ts_fid));
        json_object_set_new(o, "features", group_json(d->features, d->n_features, "v"));
        json_object_set_new(seq, d->name, o);
    }
    json_object_set_new(root, "seq", seq);
    char *text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    size_t n = text ? strlen(text) : 0;
    char *line = text ? realloc(text, n + 2) : NULL;
    if (line)
        memcpy(line + n, "\n", 2);
    else
        free(text);
    return line;
}

static void *
copy_bytes(const void *from, size_t n)
{
    void *to = malloc(n ? n : 1);
    return to && n ? memcpy(to, from, n) : to;
}

static bool
copy_group(SchemaGroup *to, const SchemaGroup *from)
{
    *to = *from;
    to->features = copy_bytes(from->features, sizeof *from->features * (size_t)from->n);
    return to->features;
}

Schema *
schema_copy(const Schema *s)
{
    Schema *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    bool ok = copy_group(&c->user_int, &s->user_int) &&
              copy_group(&c->item_int, &s->item_int) &&
              copy_group(&c->user_dense, &s->user_dense) &&
              copy_group(&c->item_dense, &s->item_dense);
    c->domains = calloc((size_t)s->n_domains + 1, sizeof *c->domains);
    for (int i = 0; ok && c->domains && i < s->n_domains; i++) {
        const SchemaDomain *from = &s->domains[i];
        SchemaDomain *to = &c->domains[c->n_domains++];
        size_t each = sizeof *from->features;
        *to = *from;
        to->name = strdup(from->name);
        to->prefix = strdup(from->prefix);
        to->features = copy_bytes(from->features, each * (size_t)from->n_features);
        to->sides = copy_bytes(from->sides, each * (size_t)from->n_sides);
        ok = to->name && to->prefix && to->features && to->sides;
    }
    if (ok && c->domains)
        return c;
    schema_free(c);
    return NULL;
}

void
schema_free(Schema *s)
{
    if (!s)
        return;
    free(s->user_int.features);
    free(s->item_int.features);
    free(s->user_dense.features);
    free(s->item_dense.features);
    for (int i = 0; i < s->n_domains; i++) {
        free(s->domains[i].name);
        free(s->domains[i].prefix);
        free(s->domains[i].features);
        free(s->domains[i].sides);
    }
    free(s->domains);
    free(s);
}

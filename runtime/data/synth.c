// synth.c - writes a learnable data set in the reference's layout.
//
// A label is drawn from p = sigmoid(z). z is a sum of effects that a model of this kind can
// find:
//   fields   a weight for each id of ten small features of user and item
//   topic    each user has one of four topics, which most events of seq_a (fid 41) and of
//            seq_d (fid 17) tell; topics have weights, and an item whose fid 9 has the
//            user's topic gains a bonus
//   recency  the newest event of seq_b lies within the hour or not
//   dense    the first value of user_dense 61
// All other columns are noise. The weights do not depend on the seed, so that sets of
// different seeds belong together. Events go forward in time.

#include "synth.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "builder.h"
#include "columns.h"
#include "file.h"
#include "metric.h"
#include "parquet.h"
#include "rng.h"

enum { TOPICS = 4, FIRST_TIME = 1772000000, SPAN = 30 * 86400, HOUR = 3600 };

typedef struct Effect {
    const char *column;
    double size;
} Effect;

static const Effect effects[] = {
    {"user_int_feats_1", 1.2},  {"user_int_feats_49", 0.9}, {"user_int_feats_50", 1.0},
    {"user_int_feats_58", 0.9}, {"user_int_feats_82", 1.2}, {"user_int_feats_94", 1.0},
    {"item_int_feats_9", 1.2},  {"item_int_feats_13", 1.2}, {"item_int_feats_81", 1.0},
    {"item_int_feats_83", 1.0},
};

static const double topic_effects[TOPICS] = {-1.2, -0.4, 0.4, 1.2};
static const double base = -0.7, match = 1.0, recency = 0.6, dense_effect = 0.5;

// What one row is made from.
typedef struct Row {
    int64_t number, time;
    int topic;
    double z;
    bool fresh; // the newest event of seq_b lies within the hour
} Row;

typedef struct Synth {
    SynthOptions o;
    Schema *schema;
    Columns columns;
    double *sizes; // of the columns' effects, 0 for none
    Table table;
    Pcg64 rng;
    double *labels, *probabilities; // [rows]
    int64_t *times;                 // scratch: one row's event times
    const pcvr_parquet *parquet;
    SynthReport report;
} Synth;

static double
uniform(Synth *s)
{
    return (double)(pcg_next(&s->rng) >> 11) * 0x1p-53;
}

static int64_t
below(Synth *s, int64_t n)
{
    return (int64_t)pcg_below(&s->rng, (uint64_t)n);
}

static int64_t
common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

// The weight of an id among ids 1 .. vocab - 1: evenly spread over [-size, size], in
// an order that has nothing to do with the ids' order (steps of a stride without a
// common divisor).
static double
id_weight(int64_t id, int64_t vocab, double size)
{
    int64_t n = vocab - 1, stride = n * 5 / 8;
    if (id <= 0 || n < 2)
        return 0;
    while (common_divisor(stride, n) != 1)
        stride++;
    int64_t place = (id - 1) * stride % n;
    return size * (2.0 * (double)place / (double)(n - 1) - 1.0);
}

// Small ids are more frequent.
static int64_t
skewed_id(Synth *s, int64_t vocab)
{
    double u = uniform(s);
    return vocab < 2 ? 0 : 1 + (int64_t)((double)(vocab - 1) * u * u);
}

static void
put_id_column(Synth *s, int column, Row *row)
{
    const Column *c = &s->columns.columns[column];
    double size = s->sizes[column];
    if (c->list) {
        int64_t n = below(s, c->dim + 1);
        for (int64_t i = 0; i < n; i++)
            put_element(&s->table, column, skewed_id(s, c->vocab));
        put_list(&s->table, column);
        return;
    }
    if (uniform(s) < 0.03) {
        put_null(&s->table, column);
        return;
    }
    int64_t id = size > 0 ? 1 + below(s, c->vocab - 1) : skewed_id(s, c->vocab);
    row->z += id_weight(id, c->vocab, size);
    if (!strcmp(c->name, "item_int_feats_9"))
        row->z += id % TOPICS == row->topic ? match : -match / (TOPICS - 1);
    put_int(&s->table, column, id);
}

// Roughly normal with variance 1: enough for features that are only noise.
static double
bell(Synth *s)
{
    return (uniform(s) + uniform(s) + uniform(s) - 1.5) * 2.0;
}

static void
put_dense_column(Synth *s, int column, Row *row)
{
    const Column *c = &s->columns.columns[column];
    for (int64_t i = 0; i < c->dim; i++) {
        double v = bell(s);
        if (i == 0 && !strcmp(c->name, "user_dense_feats_61"))
            row->z += dense_effect * (double)(float)v;
        put_float(&s->table, column, (float)v);
    }
    put_list(&s->table, column);
}

// The id of an event: where the domain tells the topic, mostly one of the topic's ids.
static int64_t
event_id(Synth *s, const Column *c, const Row *row)
{
    bool tells =
        !strcmp(c->name, "domain_a_seq_41") || !strcmp(c->name, "domain_d_seq_17");
    if (!tells || uniform(s) < 0.2)
        return skewed_id(s, c->vocab);
    int64_t per_topic = (c->vocab - 1) / TOPICS;
    return 1 + row->topic + TOPICS * below(s, per_topic > 0 ? per_topic : 1);
}

// A domain: columns first .. end - 1. Events go forward in time and end before the
// request.
static void
put_domain(Synth *s, int first, int end, const Row *row, int64_t max_len)
{
    const Column *columns = s->columns.columns;
    int64_t shortest = max_len / 4 > 1 ? max_len / 4 : 1;
    int64_t n = shortest + below(s, max_len - shortest + 1), time = row->time;
    bool b = !strncmp(columns[first].name, "domain_b_seq_", 13);
    for (int64_t i = n - 1; i >= 0; i--) {
        int64_t gap = 1 + below(s, 4 * HOUR);
        if (i == n - 1 && b)
            gap = row->fresh ? 1 + below(s, HOUR) : HOUR + 1 + below(s, 40 * HOUR);
        time -= gap;
        s->times[i] = time;
    }
    for (int k = first; k < end; k++) {
        // Now and then a side list is shorter than the others.
        int64_t cut = columns[k].role == COLUMN_EVENT && uniform(s) < 0.01 ? n / 2 : n;
        for (int64_t i = 0; i < cut; i++)
            put_element(&s->table, k,
                        columns[k].role == COLUMN_EVENT_TIME
                            ? s->times[i]
                            : event_id(s, &columns[k], row));
        put_list(&s->table, k);
    }
}

static int64_t
longest(const Synth *s)
{
    return s->o.max_len ? s->o.max_len : s->o.official ? 256 : 32;
}

// Events come in an order of columns, a whole domain at its first one.
static void
put_events(Synth *s, int column, const Row *row)
{
    const Column *c = s->columns.columns;
    int end = column;
    if (c[column - 1].role >= COLUMN_EVENT && c[column - 1].part == c[column].part)
        return;
    while (end < s->columns.n && c[end].role >= COLUMN_EVENT &&
           c[end].part == c[column].part)
        end++;
    put_domain(s, column, end, row, longest(s));
}

// One row but its label, which depends on all of it.
static void
put_features(Synth *s, Row *row)
{
    char user[32];
    for (int k = 0; k < s->columns.n; k++) {
        switch (s->columns.columns[k].role) {
        case COLUMN_TIME:
            put_int(&s->table, k, row->time);
            break;
        case COLUMN_USER:
            snprintf(user, sizeof user, "user_%06" PRId64, below(s, s->o.rows / 2 + 1));
            put_text(&s->table, k, user);
            break;
        case COLUMN_ID:
            put_id_column(s, k, row);
            break;
        case COLUMN_DENSE:
            put_dense_column(s, k, row);
            break;
        case COLUMN_EVENT:
        case COLUMN_EVENT_TIME:
            put_events(s, k, row);
            break;
        case COLUMN_LABEL:
            break;
        }
    }
}

static void
put_row(Synth *s, int64_t number)
{
    Row row = {.number = number, .z = base};
    row.time = FIRST_TIME + number * (int64_t)SPAN / s->o.rows;
    row.topic = (int)below(s, TOPICS);
    row.fresh = uniform(s) < 0.5;
    row.z += topic_effects[row.topic] + (row.fresh ? recency : -recency);
    put_features(s, &row);
    double p = 1.0 / (1.0 + exp(-row.z));
    bool positive = uniform(s) < p;
    s->labels[number] = positive;
    s->probabilities[number] = p;
    s->report.positives += positive;
    for (int k = 0; k < s->columns.n; k++)
        if (s->columns.columns[k].role == COLUMN_LABEL)
            put_int(&s->table, k, positive ? 2 : 1);
}

static BuilderKind
column_kind(const Column *c)
{
    if (c->role == COLUMN_USER)
        return BUILD_TEXT;
    if (c->role == COLUMN_LABEL)
        return BUILD_INT32;
    if (c->role == COLUMN_DENSE)
        return BUILD_FLOAT_LIST;
    return c->list ? BUILD_INT64_LIST : BUILD_INT64;
}

static int
prepare(Synth *s, const char *dir, DataError *e)
{
    SynthOptions *o = &s->o;
    o->rows = o->rows ? o->rows : o->official ? 4000 : 16000;
    o->files = o->files ? o->files : o->rows < 4 ? o->rows : 4;
    o->group_rows = o->group_rows ? o->group_rows : o->official ? 200 : 800;
    if (o->rows < 1 || o->rows > INT64_C(1) << 40 || o->files < 1 || o->files > o->rows ||
        o->group_rows < 1 || o->max_len < 0 || o->max_len > 1 << 20)
        return data_fail(
            e,
            "%s: expected 1 to 2^40 rows, lengths of 1 to 2^20, row groups of at least "
            "1 row, and no more files than rows",
            dir);
    s->schema = synth_schema(o, e);
    if (!s->schema)
        return -1;
    s->parquet = parquet_load(o->shim, e);
    if (!s->parquet)
        return -1;
    bool ok =
        columns_plan(s->schema, true, &s->columns) && table_init(&s->table, s->columns.n);
    s->sizes = calloc((size_t)s->columns.n + 1, sizeof *s->sizes);
    s->labels = calloc((size_t)o->rows, sizeof *s->labels);
    s->probabilities = calloc((size_t)o->rows, sizeof *s->probabilities);
    s->times = calloc((size_t)longest(s), sizeof *s->times);
    ok = ok && s->sizes && s->labels && s->probabilities && s->times;
    for (int k = 0; k < s->columns.n && ok; k++) {
        const Column *c = &s->columns.columns[k];
        ok = table_column(&s->table, k, column_kind(c), c->name);
        for (size_t i = 0; i < sizeof effects / sizeof *effects; i++)
            if (!strcmp(effects[i].column, c->name))
                s->sizes[k] = effects[i].size;
    }
    pcg_seed(&s->rng, o->seed);
    return ok ? 0 : data_fail(e, "%s: out of memory", dir);
}

static int
write_groups(Synth *s, pcvr_parquet_writer *w, const char *path, int64_t first,
             int64_t end, DataError *e)
{
    for (int64_t at = first; at < end;) {
        int64_t stop = end - at < s->o.group_rows ? end : at + s->o.group_rows;
        table_reset(&s->table);
        while (at < stop)
            put_row(s, at++);
        if (table_write(&s->table, s->parquet, w, path, e))
            return -1;
        s->report.groups++;
    }
    return 0;
}

static int
write_file(Synth *s, const char *path, int64_t first, int64_t end, DataError *e)
{
    char text[512];
    pcvr_parquet_writer *w = table_create(&s->table, s->parquet, path, e);
    if (!w)
        return -1;
    if (write_groups(s, w, path, first, end, e)) {
        s->parquet->finish(w, NULL, 0);
        return -1;
    }
    if (s->parquet->finish(w, text, sizeof text))
        return data_fail(e, "%s: cannot be written: %s", path, text);
    s->report.files++;
    return 0;
}

// Fails where the directory holds Parquet files, which would become part of the set.
static int
check_directory(const char *dir, DataError *e)
{
    if (!pcvr_make_dirs(dir, e))
        return -1;
    DIR *d = opendir(dir);
    if (!d)
        return data_fail(e, "%s: %s", dir, strerror(errno));
    int rc = 0;
    for (struct dirent *entry; !rc && (entry = readdir(d));) {
        size_t n = strlen(entry->d_name);
        if (n > 8 && !strcmp(entry->d_name + n - 8, ".parquet"))
            rc = data_fail(e, "%s: holds Parquet files already; choose another directory",
                           dir);
    }
    closedir(d);
    return rc;
}

static char *
part_path(const char *dir, int64_t part)
{
    char *path;
    return asprintf(&path, "%s/part-%05" PRId64 ".parquet", dir, part) < 0 ? NULL : path;
}

static int
write_schema(const Synth *s, const char *dir, DataError *e)
{
    char *path = NULL, *text = schema_to_json(s->schema);
    int rc = -1;
    if (!text || asprintf(&path, "%s/schema.json", dir) < 0)
        data_fail(e, "%s: out of memory", dir);
    else
        rc = pcvr_file_write(path, text, strlen(text), e) ? 0 : -1;
    free(text);
    free(path);
    return rc;
}

static int
write_set(Synth *s, const char *dir, DataError *e)
{
    int64_t part = 0, rows = s->o.rows, files = s->o.files;
    int rc = 0;
    for (; part < files && !rc; part++) {
        char *path = part_path(dir, part);
        rc = path ? write_file(s, path, rows * part / files, rows * (part + 1) / files, e)
                  : data_fail(e, "%s: out of memory", dir);
        free(path);
    }
    if (!rc)
        rc = write_schema(s, dir, e);
    while (rc && part-- > 0) {
        char *path = part_path(dir, part);
        if (path)
            unlink(path);
        free(path);
    }
    return rc;
}

int
synth_write(const char *dir, const SynthOptions *o, SynthReport *out, DataError *e)
{
    Synth s = {.o = *o};
    int rc = prepare(&s, dir, e);
    if (!rc)
        rc = check_directory(dir, e);
    if (!rc)
        rc = write_set(&s, dir, e);
    if (!rc) {
        size_t n = (size_t)s.o.rows;
        s.report.rows = s.o.rows;
        s.report.best_logloss = pcvr_logloss_probabilities(s.labels, s.probabilities, n);
        if (!pcvr_auc(s.labels, s.probabilities, n, &s.report.best_auc))
            rc = data_fail(e, "%s: out of memory", dir);
    }
    if (!rc)
        *out = s.report;
    table_free(&s.table);
    columns_free(&s.columns);
    schema_free(s.schema);
    free(s.sizes);
    free(s.labels);
    free(s.probabilities);
    free(s.times);
    return rc;
}

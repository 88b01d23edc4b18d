// data.c - opens a data set: its files, their columns, the row groups, the split.

#include "data_internal.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool
is_parquet(const char *name)
{
    size_t n = strlen(name);
    return n > 8 && !strcmp(name + n - 8, ".parquet");
}

static bool
add_file(Data *d, const char *dir, const char *name)
{
    DataFile *files = realloc(d->files, sizeof *files * ((size_t)d->n_files + 1));
    if (!files)
        return false;
    d->files = files;
    DataFile *f = &files[d->n_files];
    *f = (DataFile){0};
    if (asprintf(&f->path, "%s%s%s", dir,
                 dir[0] && dir[strlen(dir) - 1] != '/' ? "/" : "", name) < 0)
        return false;
    d->n_files++;
    return true;
}

static int
compare_files(const void *a, const void *b)
{
    return strcmp(((const DataFile *)a)->path, ((const DataFile *)b)->path);
}

static int
list_files(Data *d, const char *path, DataError *e)
{
    struct stat st;
    if (stat(path, &st))
        return data_fail(e, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return add_file(d, "", path) ? 0 : data_fail(e, "%s: out of memory", path);
    DIR *dir = opendir(path);
    if (!dir)
        return data_fail(e, "%s: %s", path, strerror(errno));
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(dir));)
        if (is_parquet(entry->d_name))
            ok = add_file(d, path, entry->d_name);
    closedir(dir);
    if (!ok)
        return data_fail(e, "%s: out of memory", path);
    if (!d->n_files)
        return data_fail(e, "%s: no *.parquet files in this directory", path);
    qsort(d->files, (size_t)d->n_files, sizeof *d->files, compare_files);
    return 0;
}

static int
open_file(Data *d, int number, DataError *e)
{
    DataFile *f = &d->files[number];
    struct ArrowSchema schema = {0};
    char text[512];
    const char *slash = strrchr(f->path, '/');
    f->name = slash ? slash + 1 : f->path;
    if (data_regular_file(f->path, e))
        return -1;
    if (d->parquet->open(f->path, &f->parquet, text, sizeof text) ||
        d->parquet->schema(f->parquet, &schema, text, sizeof text))
        return data_fail(e, "%s: not readable as Parquet: %s", f->path, text);
    int rc = columns_find(&d->columns, &schema, f->path, &f->columns, e);
    schema.release(&schema);
    int32_t n = d->parquet->n_groups(f->parquet);
    if (rc || n < 0 || n > INT_MAX - d->n_groups)
        return data_fail(e, "%s: too many row groups", f->path);
    DataGroup *groups =
        realloc(d->groups, sizeof *groups * ((size_t)d->n_groups + (size_t)n + 1));
    if (!groups)
        return data_fail(e, "%s: out of memory", f->path);
    d->groups = groups;
    int64_t in_file = 0;
    for (int32_t i = 0; i < n; i++) {
        int64_t rows = d->parquet->group_rows(f->parquet, i);
        if (rows < 0 || rows > INT64_MAX / 4 - d->rows)
            return data_fail(e, "%s: row group %d has an impossible size", f->path, i);
        // An empty row group gives no batch and takes no part in the split's arithmetic.
        if (rows)
            groups[d->n_groups++] = (DataGroup){number, i, rows, d->rows, in_file};
        d->rows += rows;
        in_file += rows;
    }
    return 0;
}

static int
open_all(Data *d, const char *path, DataError *e)
{
    if (list_files(d, path, e))
        return -1;
    for (int i = 0; i < d->n_files; i++)
        if (open_file(d, i, e))
            return -1;
    if (!d->rows)
        return data_fail(e, "%s: the data set has no rows", path);
    d->cache = calloc((size_t)d->n_groups, sizeof *d->cache);
    return d->cache ? 0 : data_fail(e, "%s: out of memory", path);
}

int
data_open(const char *path, const Schema *schema, const DataOptions *o, Data **out,
          DataError *e)
{
    *out = NULL;
    Data *d = calloc(1, sizeof *d);
    if (!d)
        return data_fail(e, "%s: out of memory", path);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->loaded, NULL);
    if (o)
        d->options = *o;
    if (!d->options.cache_bytes)
        d->options.cache_bytes = INT64_C(512) << 20;
    d->schema = schema_copy(schema);
    int rc = 0;
    if (!d->schema || !columns_plan(schema, !d->options.inference, &d->columns))
        rc = data_fail(e, "%s: out of memory", path);
    else if (!(d->parquet = parquet_load(d->options.shim, e)))
        rc = -1;
    else
        rc = open_all(d, path, e);
    if (rc)
        data_close(d);
    else
        *out = d;
    return rc;
}

void
data_close(Data *d)
{
    if (!d)
        return;
    for (int i = 0; i < d->n_groups && d->cache; i++)
        group_free(d->cache[i].data);
    for (int i = 0; i < d->n_files; i++) {
        if (d->files[i].parquet)
            d->parquet->close(d->files[i].parquet);
        file_columns_free(&d->files[i].columns);
        free(d->files[i].path);
    }
    free(d->files);
    free(d->groups);
    free(d->cache);
    columns_free(&d->columns);
    schema_free(d->schema);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->loaded);
    free(d);
}

const Schema *
data_schema(const Data *d)
{
    return d->schema;
}

int64_t
data_rows(const Data *d)
{
    return d->rows;
}

int
data_n_files(const Data *d)
{
    return d->n_files;
}

const char *
data_file(const Data *d, int file)
{
    return d->files[file].path;
}

int
data_n_groups(const Data *d)
{
    return d->n_groups;
}

const DataGroup *
data_group(const Data *d, int group)
{
    return &d->groups[group];
}

char *
data_schema_path(const char *dataset)
{
    struct stat st;
    char *path;
    const char *slash = strrchr(dataset, '/');
    bool dir = stat(dataset, &st) == 0 && S_ISDIR(st.st_mode);
    int n = dir ? (int)strlen(dataset) : slash ? (int)(slash - dataset) + 1 : 0;
    bool bare = n && dataset[n - 1] != '/';
    return asprintf(&path, "%.*s%sschema.json", n, dataset, bare ? "/" : "") < 0 ? NULL
                                                                                 : path;
}

static int64_t
rows_of(const Data *d, int first, int end)
{
    int64_t rows = 0;
    for (int i = first; i < end; i++)
        rows += d->groups[i].rows;
    return rows;
}

static int
at_least_one(double x)
{
    return x < 1 ? 1 : (int)floor(x);
}

int
data_split(const Data *d, const char *strategy, double valid_ratio, double train_ratio,
           DataSplit *out, DataError *e)
{
    if (strcmp(strategy, "row_group_tail"))
        return data_fail(e, "split strategy '%s' is not built; there is row_group_tail",
                         strategy);
    if (!(valid_ratio > 0 && valid_ratio < 1))
        return data_fail(e, "valid_ratio must lie between 0 and 1, found %g",
                         valid_ratio);
    if (!(train_ratio > 0 && train_ratio <= 1))
        return data_fail(e, "train_ratio must lie above 0 and up to 1, found %g",
                         train_ratio);
    int n = d->n_groups;
    *out = (DataSplit){0, n, 0, n, 0, 0, n == 1};
    if (n > 1) {
        int train = n - at_least_one(n * valid_ratio);
        if (train_ratio < 1)
            train = at_least_one(train * train_ratio);
        out->train_end = out->valid_first = train;
    }
    out->train_rows = rows_of(d, out->train_first, out->train_end);
    out->valid_rows = rows_of(d, out->valid_first, out->valid_end);
    return 0;
}

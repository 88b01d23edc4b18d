// checkpoint.c - saved weights: directory names, finding, loading, saving.

#include "checkpoint.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "safetensors.h"

static const char prefix[] = "global_step";

void
checkpoint_name(char out[CHECKPOINT_NAME_LIMIT + 1], int64_t step, double auc)
{
    int n = snprintf(out, CHECKPOINT_NAME_LIMIT + 1, "%s%lld", prefix, (long long)step);
    if (!isfinite(auc) || fabs(auc) > 1e100)
        return;
    n += snprintf(out + n, (size_t)(CHECKPOINT_NAME_LIMIT + 1 - n), ".AUC=%.6f", auc);
    while (out[n - 1] == '0')
        out[--n] = 0;
    if (out[n - 1] == '.')
        out[--n] = 0;
}

bool
checkpoint_name_valid(const char *name, PcvrError *err)
{
    size_t n = strlen(name), at = sizeof prefix - 1;
    if (strncmp(name, prefix, at) || !isdigit((unsigned char)name[at]))
        return pcvr_fail(
            err, "%s: a checkpoint directory is called global_step and a number", name);
    while (isdigit((unsigned char)name[at]))
        at++;
    for (; name[at]; at++) {
        unsigned char c = (unsigned char)name[at];
        if (c >= 128 || (!isalnum(c) && !strchr("_.=-", c)))
            return pcvr_fail(
                err,
                "%s: a checkpoint directory's name has only letters, digits, "
                "'_', '.', '=' and '-'",
                name);
    }
    if (n > CHECKPOINT_NAME_LIMIT)
        return pcvr_fail(err,
                         "a checkpoint directory's name has at most %d bytes, found %zu",
                         CHECKPOINT_NAME_LIMIT, n);
    return true;
}

int64_t
checkpoint_step(const char *name)
{
    size_t at = sizeof prefix - 1;
    int64_t step = 0;
    if (strncmp(name, prefix, at) || !isdigit((unsigned char)name[at]))
        return -1;
    for (; isdigit((unsigned char)name[at]); at++) {
        if (step > (INT64_MAX - 9) / 10)
            return -1;
        step = step * 10 + (name[at] - '0');
    }
    for (; name[at]; at++) {
        unsigned char c = (unsigned char)name[at];
        if (c >= 128 || (!isalnum(c) && !strchr("_.=-", c)))
            return -1;
    }
    return step;
}

static char *
join(const char *a, const char *b)
{
    char *out = malloc(strlen(a) + strlen(b) + 2);
    if (out)
        sprintf(out, "%s%s%s", a, *a && a[strlen(a) - 1] == '/' ? "" : "/", b);
    return out;
}

static bool
is_file(const char *path)
{
    struct stat st;
    return path && !stat(path, &st) && S_ISREG(st.st_mode);
}

static bool
is_directory(const char *path)
{
    struct stat st;
    return path && !stat(path, &st) && S_ISDIR(st.st_mode);
}

// Whether something hides what is at `path`: that it is not there is no reason.
static bool
hidden(const char *path, PcvrError *err)
{
    struct stat st;
    if (!stat(path, &st) || errno == ENOENT || errno == ENOTDIR)
        return false;
    pcvr_fail(err, "%s: cannot look for weights: %s", path, strerror(errno));
    return true;
}

// The weights in a child directory, or NULL; *failed where that cannot be told.
static char *
child_weights(const char *directory, const char *name, bool *failed, PcvrError *err)
{
    char *child = join(directory, name);
    char *weights = child ? join(child, "model.safetensors") : NULL;
    free(child);
    if (is_file(weights))
        return weights;
    *failed = !weights ? !pcvr_fail(err, "out of memory") : hidden(weights, err);
    free(weights);
    return NULL;
}

// Those of the child with the largest step that holds weights; among equal steps of the
// greatest name.
static char *
latest_child(const char *directory, bool *failed, PcvrError *err)
{
    DIR *d = opendir(directory);
    char *best = NULL, best_name[CHECKPOINT_NAME_LIMIT + 1] = "";
    int64_t best_step = -1;
    *failed = !d;
    if (!d)
        pcvr_fail(err, "%s: cannot look for weights: %s", directory, strerror(errno));
    for (struct dirent *e; !*failed && (e = readdir(d));) {
        int64_t step = checkpoint_step(e->d_name);
        if (step < 0 || strlen(e->d_name) > CHECKPOINT_NAME_LIMIT || step < best_step ||
            (step == best_step && strcmp(e->d_name, best_name) < 0))
            continue;
        char *weights = child_weights(directory, e->d_name, failed, err);
        if (!weights)
            continue;
        free(best);
        best = weights;
        best_step = step;
        strcpy(best_name, e->d_name);
    }
    if (d)
        closedir(d);
    return best;
}

char *
checkpoint_find(const char *path, PcvrError *err)
{
    size_t n = strlen(path);
    if (n > 12 && !strcmp(path + n - 12, ".safetensors") && is_file(path))
        return strdup(path);
    if (!is_directory(path)) {
        pcvr_fail(err, "%s: no checkpoint: expected a .safetensors file or a directory",
                  path);
        return NULL;
    }
    bool failed;
    char *weights = latest_child(path, &failed, err);
    if (weights && !failed)
        return weights;
    free(weights);
    if (failed)
        return NULL;
    weights = join(path, "model.safetensors");
    if (is_file(weights))
        return weights;
    free(weights);
    pcvr_fail(err, "%s: no model.safetensors in it or in a global_step directory of it",
              path);
    return NULL;
}

char *
checkpoint_beside(const char *weights, const char *name)
{
    const char *slash = strrchr(weights, '/');
    char *directory = slash ? strndup(weights, (size_t)(slash - weights)) : strdup(".");
    char *out = directory ? join(directory, name) : NULL;
    free(directory);
    return out;
}

static void
clear_padding(const pcvr_param *p, float *values)
{
    if (!(p->flags & PCVR_PARAM_PADDING) || p->rank == 0 || p->shape[0] == 0)
        return;
    int64_t width = p->size / p->shape[0];
    for (int64_t i = 0; i < width; i++) {
        if (values[i] != 0.0f) {
            fprintf(
                stderr,
                "pcvr: warning: row 0 of '%s' is padding and not zero; zero is used\n",
                p->name);
            memset(values, 0, (size_t)width * sizeof *values);
            return;
        }
    }
}

static bool
load_all(const PcvrTensors *t, const char *weights, const pcvr_module *m,
         float *const *params, PcvrError *err)
{
    PcvrError inner = {{0}};
    for (int i = 0; i < m->n_params; i++) {
        const pcvr_param *p = &m->params[i];
        const PcvrTensor *found =
            pcvr_safetensors_want(t, p->name, PCVR_T_F32, p->rank, p->shape, &inner);
        if (!found)
            return pcvr_fail(err, "%s: %s", weights, inner.text);
    }
    for (size_t k = 0; k < t->count; k++) {
        bool known = false;
        for (int i = 0; i < m->n_params && !known; i++)
            known = !strcmp(m->params[i].name, t->tensors[k].name);
        if (!known)
            return pcvr_fail(err, "%s: tensor '%s' is no parameter of this model",
                             weights, t->tensors[k].name);
    }
    for (int i = 0; i < m->n_params; i++) {
        const PcvrTensor *found = pcvr_safetensors_find(t, m->params[i].name);
        if (found->bytes)
            memcpy(params[i], found->data, found->bytes);
        clear_padding(&m->params[i], params[i]);
    }
    return true;
}

bool
checkpoint_load(const char *weights, const pcvr_module *m, float *const *params,
                PcvrError *err)
{
    PcvrTensors t;
    if (!pcvr_safetensors_read(&t, weights, err))
        return false;
    bool ok = load_all(&t, weights, m, params, err);
    pcvr_safetensors_free(&t);
    return ok;
}

static bool
write_weights(const char *directory, const pcvr_module *m, float *const *params,
              PcvrError *err)
{
    PcvrTensor *t = calloc((size_t)m->n_params + 1, sizeof *t);
    char *path = join(directory, "model.safetensors");
    bool ok = (t && path) || pcvr_fail(err, "%s: out of memory", directory);
    for (int i = 0; ok && i < m->n_params; i++) {
        const pcvr_param *p = &m->params[i];
        t[i] = (PcvrTensor){.name = p->name,
                            .type = PCVR_T_F32,
                            .rank = p->rank,
                            .shape = p->shape,
                            .data = params[i]};
    }
    ok = ok && pcvr_safetensors_write(path, t, (size_t)m->n_params, err);
    free(t);
    free(path);
    return ok;
}

// Removes the directory with the files that a save puts there.
static void
discard(const char *directory, const CheckpointFile *files, int n_files)
{
    for (int i = -1; i < n_files; i++) {
        char *path = join(directory, i < 0 ? "model.safetensors" : files[i].name);
        if (path)
            unlink(path);
        free(path);
    }
    rmdir(directory);
}

// Puts the finished directory in its place; where one of that name stands, file by file,
// weights last.
static bool
take_place(const char *from, const char *to, const CheckpointFile *files, int n_files,
           PcvrError *err)
{
    if (rename(from, to) == 0)
        return true;
    bool ok = is_directory(to) ||
              pcvr_fail(err, "%s: cannot create the checkpoint: %s", to, strerror(errno));
    for (int i = 0; ok && i <= n_files; i++) {
        const char *name = i < n_files ? files[i].name : "model.safetensors";
        char *a = join(from, name), *b = join(to, name);
        ok = (a && b && rename(a, b) == 0) ||
             pcvr_fail(err, "%s: cannot replace %s: %s", to, name, strerror(errno));
        free(a);
        free(b);
    }
    discard(from, files, n_files);
    return ok;
}

bool
checkpoint_save(const char *directory, const pcvr_module *m, float *const *params,
                const CheckpointFile *files, int n_files, PcvrError *err)
{
    char *temporary = malloc(strlen(directory) + 40);
    if (!temporary)
        return pcvr_fail(err, "%s: out of memory", directory);
    sprintf(temporary, "%s.tmp.%ld", directory, (long)getpid());
    bool ok = pcvr_make_dirs(temporary, err) && write_weights(temporary, m, params, err);
    for (int i = 0; ok && i < n_files; i++) {
        char *path = join(temporary, files[i].name);
        ok = (path || pcvr_fail(err, "%s: out of memory", directory)) &&
             pcvr_file_write(path, files[i].bytes, files[i].n, err);
        free(path);
    }
    if (!ok)
        discard(temporary, files, n_files);
    ok = ok && take_place(temporary, directory, files, n_files, err);
    free(temporary);
    return ok;
}

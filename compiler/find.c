// find.c - where model files are: installed ones, and what a command line names.

#include "find.h"

#include "program.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef PCVRC_MODELDIR
#define PCVRC_MODELDIR "/usr/local/share/pcvrc/models"
#endif

const char *
path_join(Mem *mem, const char *dir, const char *name)
{
    if (name[0] == '/' || !dir[0])
        return name;
    return arena_printf(&mem->perm, "%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/",
                        name);
}

const char *
path_dir(Mem *mem, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? arena_copy(&mem->perm, path, (size_t)(slash - path) + 1) : "";
}

// Adds DIR/PLACE as a clean path, if it exists.
static void
add_existing(Mem *mem, Strings *dirs, const char *dir, const char *place)
{
    char *real = realpath(arena_printf(&mem->scratch, "%s%s", dir, place), NULL);
    if (real)
        array_push(&mem->perm, dirs, arena_copy(&mem->perm, real, strlen(real)));
    free(real);
}

Strings
model_dirs(Mem *mem)
{
    Strings dirs = {0};
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n > 0) {
        exe[n] = '\0';
        add_existing(mem, &dirs, path_dir(mem, exe), "../models");
        add_existing(mem, &dirs, path_dir(mem, exe), "../share/pcvrc/models");
    }
    array_push(&mem->perm, &dirs, PCVRC_MODELDIR);
    return dirs;
}

const char *
models_file(Mem *mem, const char *name)
{
    Strings dirs = model_dirs(mem);
    for (int i = 0; i < dirs.n; i++) {
        const char *path = path_join(mem, dirs.v[i], name);
        if (access(path, R_OK) == 0)
            return path;
    }
    return NULL;
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

Strings
models_installed(Mem *mem)
{
    Strings dirs = model_dirs(mem), names = {0};
    DIR *d = NULL;
    for (int i = 0; i < dirs.n && !d; i++)
        d = opendir(dirs.v[i]);
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n > 5 && strcmp(e->d_name + n - 5, ".pcvr") == 0)
            array_push(&mem->perm, &names, arena_copy(&mem->perm, e->d_name, n));
    }
    if (d)
        closedir(d);
    if (names.n)
        qsort(names.v, (size_t)names.n, sizeof *names.v, by_name);
    return names;
}

// ---- what a command line names ------------------------------------------------------

static bool
is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool
is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

const char *
model_path(Mem *mem, const char *given)
{
    Arena *a = &mem->perm;
    size_t n = strlen(given);
    while (n > 1 && given[n - 1] == '/')
        n--;
    const char *path = arena_copy(a, given, n);
    if (n > 5 && strcmp(path + n - 5, ".pcvr") == 0)
        return path;
    const char *name = path + n;
    while (name > path && name[-1] != '/' && name[-1] != '.')
        name--;
    const char *inside = arena_printf(a, "%s/model.pcvr", path);
    const char *places[] = {inside, arena_printf(a, "%s.pcvr", path),
                            arena_printf(a, "models/%s.pcvr", name)};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (is_file(places[i]))
            return places[i];
    const char *installed =
        *name ? models_file(mem, arena_printf(a, "%s.pcvr", name)) : NULL;
    return installed ? installed : is_folder(path) ? inside : path;
}

const char *
model_stem(Mem *mem, const char *given, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (slash && slash > path && strcmp(name, "model.pcvr") == 0 &&
        strcmp(given, path) != 0) {
        const char *start = slash;
        while (start > path && start[-1] != '/')
            start--;
        size_t n = (size_t)(slash - start);
        if (strncmp(start, ".", n) != 0 && strncmp(start, "..", n) != 0)
            return arena_copy(&mem->perm, start, n);
    }
    return arena_copy(&mem->perm, name, strcspn(name, "."));
}

// output.c - files written whole or not at all, and paths in make's rules.

#include "pcvrc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Makes the directories above a path.
static int
make_dirs(Mem *mem, const char *path)
{
    char *dir = arena_copy(&mem->scratch, path, strlen(path));
    for (char *p = dir + 1; *dir && *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(dir, 0777) != 0 && errno != EEXIST)
            return -1;
        *p = '/';
    }
    return 0;
}

static int
write_all(int fd, const char *text, size_t length)
{
    while (length) {
        ssize_t n = write(fd, text, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        text += n;
        length -= (size_t)n;
    }
    return 0;
}

// What a link leads to, so that the file is replaced and not the link.
static const char *
target_of(Mem *mem, const char *path)
{
    struct stat st;
    char *real =
        lstat(path, &st) == 0 && S_ISLNK(st.st_mode) ? realpath(path, NULL) : NULL;
    const char *target = real ? arena_copy(&mem->perm, real, strlen(real)) : path;
    free(real);
    return target;
}

// Writes one file under a temporary name, which it gives; NULL after an error. A device
// or a pipe is written to as it is: the name is empty then.
static const char *
write_temporary(Diag *d, const Output *o, const char *path)
{
    struct stat st;
    bool replaced = stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);
    char *temp = arena_printf(&d->mem->perm, "%s%s", replaced ? path : "",
                              replaced ? ".XXXXXX" : "");
    bool made = make_dirs(d->mem, path) == 0;
    int fd = !made      ? -1
             : replaced ? mkostemp(temp, O_CLOEXEC)
                        : open(path, O_WRONLY | O_CLOEXEC);
    mode_t mask = umask(0);
    umask(mask);
    bool ok = fd >= 0 && write_all(fd, o->text, o->length) == 0 &&
              (!replaced || fchmod(fd, 0666 & ~mask) == 0);
    int fault = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
        ok = false;
        fault = errno;
    }
    if (ok)
        return temp;
    if (fd >= 0 && replaced)
        unlink(temp);
    diag_error(d, (Place){0}, "cannot write '%s': %s", o->path, strerror(fault));
    return NULL;
}

int
write_files(Diag *d, const Output *files, int n)
{
    const char **temps = arena_array(&d->mem->perm, const char *, n + 1);
    const char **targets = arena_array(&d->mem->perm, const char *, n + 1);
    int written = 0, renamed = 0;
    for (int i = 0; i < n; i++)
        targets[i] = target_of(d->mem, files[i].path);
    while (written < n &&
           (temps[written] = write_temporary(d, &files[written], targets[written])))
        written++;
    while (written == n && renamed < n &&
           (!*temps[renamed] || rename(temps[renamed], targets[renamed]) == 0))
        renamed++;
    if (renamed == n)
        return 0;
    if (written == n)
        diag_error(d, (Place){0}, "cannot write '%s': %s", files[renamed].path,
                   strerror(errno));
    for (int i = renamed; i < written; i++)
        if (*temps[i])
            unlink(temps[i]);
    return 1;
}

const char *
make_quoted(Arena *a, const char *path)
{
    Text t = {0};
    text_add(a, &t, "%s", "");
    for (; *path; path++) {
        const char *before = *path == '$' ? "$" : strchr(" #\\:%", *path) ? "\\" : "";
        text_add(a, &t, "%s%c", before, *path);
    }
    return t.v;
}

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

// Writes one file under a temporary name, which it gives; NULL after an error.
static const char *
write_temporary(Diag *d, const Output *o)
{
    char *temp = arena_printf(&d->mem->perm, "%s.XXXXXX", o->path);
    bool made = make_dirs(d->mem, o->path) == 0;
    int fd = made ? mkostemp(temp, O_CLOEXEC) : -1;
    mode_t mask = umask(0);
    umask(mask);
    bool ok = fd >= 0 && write_all(fd, o->text, o->length) == 0 &&
              fchmod(fd, 0666 & ~mask) == 0;
    int fault = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
        ok = false;
        fault = errno;
    }
    if (ok)
        return temp;
    if (fd >= 0)
        unlink(temp);
    diag_error(d, (Place){0}, "cannot write '%s': %s", o->path, strerror(fault));
    return NULL;
}

int
write_files(Diag *d, const Output *files, int n)
{
    const char **temps = arena_array(&d->mem->perm, const char *, n + 1);
    int written = 0, renamed = 0;
    while (written < n && (temps[written] = write_temporary(d, &files[written])))
        written++;
    while (written == n && renamed < n &&
           rename(temps[renamed], files[renamed].path) == 0)
        renamed++;
    if (renamed == n)
        return 0;
    if (written == n)
        diag_error(d, (Place){0}, "cannot write '%s': %s", files[renamed].path,
                   strerror(errno));
    for (int i = renamed; i < written; i++)
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

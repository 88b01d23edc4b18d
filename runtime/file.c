// file.c - whole files in, atomic files out.
//
// A reader never sees half a file: writing goes to a temporary name in the same
// directory, is flushed to the disk, and only then takes the final name. Whatever fails,
// the earlier file stays.

#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void
out_clear(PcvrOut *out)
{
    free(out->path);
    free(out->temporary);
    *out = (PcvrOut){.fd = -1};
}

// What a link leads to, so that the file is replaced and not the link.
static char *
target_of(const char *path)
{
    struct stat st;
    char *real = !lstat(path, &st) && S_ISLNK(st.st_mode) ? realpath(path, NULL) : NULL;
    return real ? real : strdup(path);
}

bool
pcvr_out_open(PcvrOut *out, const char *path, PcvrError *err)
{
    struct stat st;
    *out = (PcvrOut){.fd = -1};
    out->path = target_of(path);
    size_t room = out->path ? strlen(out->path) + 40 : 0;
    out->temporary = out->path ? malloc(room) : NULL;
    if (!out->temporary) {
        out_clear(out);
        return pcvr_fail(err, "%s: out of memory", path);
    }
    if (!stat(out->path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        free(out->temporary); // /dev/null and pipes are written to, not replaced
        out->temporary = NULL;
        out->fd = open(out->path, O_WRONLY | O_CLOEXEC);
    } else {
        snprintf(out->temporary, room, "%s.tmp.%ld", out->path, (long)getpid());
        out->fd = open(out->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    }
    if (out->fd < 0) {
        pcvr_fail(err, "%s: cannot write: %s", path, strerror(errno));
        out_clear(out);
        return false;
    }
    return true;
}

bool
pcvr_out_write(PcvrOut *out, const void *data, size_t n, PcvrError *err)
{
    const char *p = data;
    while (n > 0) {
        ssize_t k = write(out->fd, p, n > 1u << 30 ? 1u << 30 : n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return pcvr_fail(err, "%s: write failed: %s", out->path,
                             k < 0 ? strerror(errno) : "no space");
        p += k;
        n -= (size_t)k;
    }
    return true;
}

void
pcvr_out_abort(PcvrOut *out)
{
    if (out->fd >= 0)
        close(out->fd);
    if (out->temporary)
        unlink(out->temporary);
    out_clear(out);
}

// The rename is on the disk only when the directory is. A file system that cannot do it
// is no fault.
static void
sync_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    free(dir);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

bool
pcvr_out_commit(PcvrOut *out, PcvrError *err)
{
    bool ok = true;
    if (fsync(out->fd) && errno != EINVAL)
        ok = pcvr_fail(err, "%s: write failed: %s", out->path, strerror(errno));
    if (close(out->fd) && ok)
        ok = pcvr_fail(err, "%s: write failed: %s", out->path, strerror(errno));
    out->fd = -1;
    if (ok && out->temporary && rename(out->temporary, out->path))
        ok = pcvr_fail(err, "%s: cannot replace: %s", out->path, strerror(errno));
    if (!ok) {
        pcvr_out_abort(out);
        return false;
    }
    sync_directory(out->path);
    out_clear(out);
    return true;
}

bool
pcvr_file_write(const char *path, const void *data, size_t n, PcvrError *err)
{
    PcvrOut out;
    if (!pcvr_out_open(&out, path, err))
        return false;
    if (!pcvr_out_write(&out, data, n, err)) {
        pcvr_out_abort(&out);
        return false;
    }
    return pcvr_out_commit(&out, err);
}

char *
pcvr_file_read(const char *path, size_t *n, PcvrError *err)
{
    struct stat st;
    char *text = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st)) {
        pcvr_fail(err, "%s: cannot read: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        pcvr_fail(err, "%s: not a regular file", path);
    } else if (!(text = malloc((size_t)st.st_size + 1))) {
        pcvr_fail(err, "%s: out of memory for %lld bytes", path, (long long)st.st_size);
    } else {
        size_t got = 0, want = (size_t)st.st_size;
        while (got < want) {
            ssize_t k = read(fd, text + got, want - got);
            if (k < 0 && errno == EINTR)
                continue;
            if (k <= 0)
                break;
            got += (size_t)k;
        }
        if (got < want) {
            pcvr_fail(err, "%s: read failed after %zu of %zu bytes", path, got, want);
            free(text);
            text = NULL;
        } else {
            text[got] = 0;
            *n = got;
        }
    }
    if (fd >= 0)
        close(fd);
    return text;
}

bool
pcvr_make_dirs(const char *path, PcvrError *err)
{
    char *copy = strdup(path);
    if (!copy)
        return pcvr_fail(err, "%s: out of memory", path);
    for (char *p = copy + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char kept = *p;
        *p = 0;
        if (mkdir(copy, 0777) && errno != EEXIST) {
            pcvr_fail(err, "%s: cannot create the directory: %s", copy, strerror(errno));
            free(copy);
            return false;
        }
        if (!kept)
            break;
        *p = kept;
    }
    struct stat st;
    bool ok = !stat(copy, &st) && S_ISDIR(st.st_mode);
    free(copy);
    return ok || pcvr_fail(err, "%s: exists and is not a directory", path);
}

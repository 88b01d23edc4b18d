// file.h - whole files in, atomic files out.

#ifndef PCVR_FILE_H
#define PCVR_FILE_H

#include <stddef.h>

#include "error.h"

// A file being written under a temporary name beside its final one; temporary is NULL for
// a device or a pipe, which is written to as it is.
typedef struct PcvrOut {
    int fd;
    char *path, *temporary;
} PcvrOut;

// Opens `path`.tmp.PID beside `path`, or beside what a link leads to. The existing `path` stays as it is until commit.
bool pcvr_out_open(PcvrOut *out, const char *path, PcvrError *err);
// Appends n bytes. On false the caller still calls pcvr_out_abort.
bool pcvr_out_write(PcvrOut *out, const void *data, size_t n, PcvrError *err);
// Flushes to disk and renames over `path`; on false the temporary is gone and `path`
// untouched.
bool pcvr_out_commit(PcvrOut *out, PcvrError *err);
void pcvr_out_abort(PcvrOut *out);

// All of it at once: n bytes to `path`, atomically.
bool pcvr_file_write(const char *path, const void *data, size_t n, PcvrError *err);
// The whole regular file, with a zero byte behind it; free() it. NULL on error.
char *pcvr_file_read(const char *path, size_t *n, PcvrError *err);

// Every missing directory on the way to `path`, itself included.
bool pcvr_make_dirs(const char *path, PcvrError *err);

#endif

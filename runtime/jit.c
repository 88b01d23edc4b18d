// jit.c - modules from C text: compiled by the system compiler, cached by content,
// loaded.
//
// The cache is a directory of our own, mode 0700. A module's file name is a hash of
// everything that decides its content: the text, the headers it may include, instruction
// set, flags, compiler and ABI. Files appear by rename, so that a module is either whole
// or absent; what another user could have written is never loaded. A module ends with a
// sum of its bytes: mapping a file that a crash or a full disk cut short would kill the
// program, so one whose sum is wrong is compiled again.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"
#include "isa.h"
#include "jit.h"

enum { PATH_SIZE = 4096, SUM_SIZE = 16 };

static int fail(Jit *j, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int
fail(Jit *j, int code, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    if (j->err != NULL && j->err_size > 0)
        vsnprintf(j->err, j->err_size, format, ap);
    va_end(ap);
    return code;
}

// ---- where headers are ----------------------------------------------------------------

static bool
has_header(const char *dir)
{
    char path[PATH_SIZE + 16];
    snprintf(path, sizeof path, "%s/pcvr.h", dir);
    return access(path, R_OK) == 0;
}

// Headers near a program or library: include/pcvr as installed, runtime/ of the source
// tree; in its directory or up to three above it.
static bool
include_near(const char *file, char *dir)
{
    static const char *const places[] = {"include/pcvr", "runtime"};
    char base[PATH_SIZE];
    if (realpath(file, base) == NULL)
        return false;
    for (int up = 0; up < 4; up++) {
        char *slash = strrchr(base, '/');
        if (slash == NULL)
            return false;
        *slash = '\0';
        for (int k = 0; k < 2; k++) {
            int n = snprintf(dir, PATH_SIZE, "%s/%s", base, places[k]);
            if (n < PATH_SIZE && has_header(dir))
                return true;
        }
    }
    return false;
}

static int
find_include(Jit *j)
{
    const char *named = getenv("PCVR_INCLUDE");
    if (named != NULL && named[0] != '\0') {
        snprintf(j->include, sizeof j->include, "%s", named);
        if (has_header(j->include))
            return PCVR_OK;
        return fail(j, PCVR_EIO, "PCVR_INCLUDE names %s, which holds no pcvr.h", named);
    }
    Dl_info self;
    void *here = (void *)(uintptr_t)&pcvr_module_build;
    if (include_near("/proc/self/exe", j->include) ||
        (dladdr(here, &self) != 0 && self.dli_fname != NULL &&
         include_near(self.dli_fname, j->include)))
        return PCVR_OK;
    return fail(j, PCVR_EIO,
                "the runtime's headers are not beside the program: set PCVR_INCLUDE "
                "to the directory of pcvr.h");
}

// ---- the cache's directory ------------------------------------------------------------

// Ours alone: a directory (or file) of this user that nobody else may write.
static bool
is_private(const char *path, mode_t type)
{
    struct stat st;
    return lstat(path, &st) == 0 && (st.st_mode & S_IFMT) == type &&
           st.st_uid == geteuid() && (st.st_mode & 022) == 0;
}

static int
find_cache(Jit *j)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = 0;
    if (xdg != NULL && xdg[0] == '/') {
        n = snprintf(j->cache, sizeof j->cache, "%s/pcvr", xdg);
    } else if (home != NULL && home[0] == '/') {
        n = snprintf(j->cache, sizeof j->cache, "%s/.cache/pcvr", home);
    } else {
        snprintf(j->cache, sizeof j->cache, "/tmp/pcvr-XXXXXX");
        if (mkdtemp(j->cache) == NULL)
            return fail(j, PCVR_EIO,
                        "cannot make a directory for modules in /tmp: %s; set "
                        "XDG_CACHE_HOME to one you can write",
                        strerror(errno));
        j->cache_is_temporary = true;
        return PCVR_OK;
    }
    if (n < 0 || n >= (int)sizeof j->cache - 64)
        return fail(j, PCVR_EIO,
                    "the path of the module cache is too long; set XDG_CACHE_HOME");
    char *slash = strrchr(j->cache, '/');
    *slash = '\0';
    PcvrError ignored = {""};
    bool ok = pcvr_make_dirs(j->cache, &ignored);
    *slash = '/';
    if (!ok || (mkdir(j->cache, 0700) != 0 && errno != EEXIST))
        return fail(j, PCVR_EIO,
                    "cannot make the module cache %s: %s; set XDG_CACHE_HOME to a "
                    "directory you can write",
                    j->cache, strerror(errno));
    if (!is_private(j->cache, S_IFDIR))
        return fail(j, PCVR_EIO,
                    "the module cache %s is not a directory that only you can write; "
                    "remove it or set XDG_CACHE_HOME",
                    j->cache);
    return PCVR_OK;
}

// ---- compile and load -----------------------------------------------------------------

// Writes the text for the compiler to read.
static int
write_text(Jit *j, const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    size_t n = strlen(text), done = 0;
    while (fd >= 0 && done < n) {
        ssize_t k = write(fd, text + done, n - done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            break;
        done += (size_t)k;
    }
    int saved = errno;
    if (fd >= 0 && close(fd) != 0 && done == n) {
        saved = errno;
        done = 0;
    }
    if (fd >= 0 && done == n)
        return PCVR_OK;
    if (fd >= 0)
        unlink(path);
    return fail(j, PCVR_EIO,
                "cannot write %s: %s; make room there or set XDG_CACHE_HOME to a "
                "directory you can write",
                path, strerror(saved));
}

// The first line of a file that says "error", else its first line, without its newline.
static void
first_error(const char *path, char *line, size_t size)
{
    char text[600];
    FILE *f = fopen(path, "re");
    line[0] = '\0';
    while (f != NULL && fgets(text, sizeof text, f) != NULL) {
        text[strcspn(text, "\n")] = '\0';
        bool error = strstr(text, "error") != NULL || strstr(text, "rror:") != NULL;
        if (line[0] == '\0' || error)
            snprintf(line, size, "%s", text);
        if (error)
            break;
    }
    if (f != NULL)
        fclose(f);
}

// Appends the sum; the loader of the system ignores what follows a library's sections.
static bool
seal(const char *path)
{
    unsigned char sum[SUM_SIZE];
    size_t n = 0;
    char *bytes = pcvr_file_read(path, &n, NULL);
    if (bytes == NULL)
        return false;
    pcvr_jit_sum(bytes, n, sum);
    free(bytes);
    FILE *f = fopen(path, "abe");
    if (f == NULL)
        return false;
    bool ok = fwrite(sum, 1, SUM_SIZE, f) == SUM_SIZE;
    return fclose(f) == 0 && ok;
}

static bool
is_sealed(const char *path)
{
    unsigned char sum[SUM_SIZE];
    size_t n = 0;
    char *bytes = pcvr_file_read(path, &n, NULL);
    bool ok = bytes != NULL && n >= SUM_SIZE;
    if (ok) {
        pcvr_jit_sum(bytes, n - SUM_SIZE, sum);
        ok = memcmp(sum, bytes + n - SUM_SIZE, SUM_SIZE) == 0;
    }
    free(bytes);
    return ok;
}

// Compiles to `so`; nothing is left behind on failure.
static int
compile(Jit *j, const char *text, const char *so)
{
    char c[PATH_SIZE + 64], out[PATH_SIZE + 64], log[PATH_SIZE + 64],
        kept[PATH_SIZE + 64];
    snprintf(c, sizeof c, "%s/%s.%ld.c", j->cache, j->key, (long)getpid());
    snprintf(out, sizeof out, "%s/%s.%ld.so", j->cache, j->key, (long)getpid());
    snprintf(log, sizeof log, "%s/%s.%ld.log", j->cache, j->key, (long)getpid());
    snprintf(kept, sizeof kept, "%s/%s.c", j->cache, j->key);
    int rc = write_text(j, c, text);
    if (rc != PCVR_OK)
        return rc;
    const char *tail[] = {"-o", out, c, "-lm", NULL};
    int status = pcvr_jit_run(j, tail, log);
    if (status == 0 && chmod(out, 0700) == 0 && seal(out) && rename(out, so) == 0) {
        if (rename(c, kept) != 0) // the text is kept for who debugs it
            unlink(c);
        unlink(log);
        return PCVR_OK;
    }
    if (status == 0) {
        rc = fail(j, PCVR_EIO, "cannot store the module %s: %s", so, strerror(errno));
    } else if (status == PCVR_JIT_NO_COMPILER) {
        rc = pcvr_jit_no_compiler(j);
    } else {
        char line[700];
        first_error(log, line, sizeof line);
        if (line[0] == '\0')
            snprintf(line, sizeof line, "%s",
                     status < 0 ? "it was killed" : "it gave no reason");
        rc = fail(j, PCVR_EIO,
                  "%s could not compile the module: %s; is there room in %s, and does "
                  "the compiler know the instruction set %s (PCVR_ISA chooses another)",
                  j->argv[0], line, j->cache, j->isa);
    }
    unlink(c);
    unlink(out);
    unlink(log);
    return rc;
}

// Loads a file of the cache and finds the module in it. PCVR_EFORMAT: the file is no
// good.
static int
load(Jit *j, const char *so, const char *symbol, const pcvr_module **out)
{
    if (!is_private(so, S_IFREG))
        return fail(j, PCVR_EIO,
                    "the cached module %s does not belong to you alone; remove it", so);
    if (!is_sealed(so))
        return fail(j, PCVR_EFORMAT, "%s is damaged", so);
    void *library = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return fail(j, PCVR_EFORMAT, "cannot load the module: %s", dlerror());
    char name[256];
    snprintf(name, sizeof name, "%s_%s", symbol, j->isa);
    const pcvr_module *m = dlsym(library, name);
    if (m == NULL || m->abi != PCVR_ABI) {
        bool missing = m == NULL;
        dlclose(library);
        return missing ? fail(j, PCVR_EFORMAT, "%s has no module %s", so, name)
                       : fail(j, PCVR_EABI, "%s has another ABI", so);
    }
    *out = m;
    return PCVR_OK;
}

// The directory made for a caller without a home goes once its module is loaded.
static void
drop_temporary(const Jit *j, const char *so)
{
    char c[PATH_SIZE + 64];
    if (!j->cache_is_temporary)
        return;
    snprintf(c, sizeof c, "%s/%s.c", j->cache, j->key);
    unlink(so);
    unlink(c);
    rmdir(j->cache);
}

static int
build(Jit *j, const char *text, const char *symbol, const pcvr_module **out)
{
    int rc = find_include(j);
    if (rc == PCVR_OK)
        rc = pcvr_jit_key(j, text);
    if (rc == PCVR_OK)
        rc = find_cache(j);
    if (rc != PCVR_OK)
        return rc;
    char so[PATH_SIZE + 64];
    snprintf(so, sizeof so, "%s/%s.so", j->cache, j->key);
    bool cached = access(so, F_OK) == 0;
    if (!cached)
        rc = compile(j, text, so);
    if (rc == PCVR_OK)
        rc = load(j, so, symbol, out);
    if (rc == PCVR_EFORMAT && cached) { // cut short or of another machine: made anew once
        unlink(so);
        rc = compile(j, text, so);
        if (rc == PCVR_OK)
            rc = load(j, so, symbol, out);
    }
    drop_temporary(j, so);
    return rc;
}

int
pcvr_module_build(const char *c_text, const char *symbol, const char *isa,
                  const pcvr_module **out, char *err, size_t err_size)
{
    *out = NULL;
    Jit *j = calloc(1, sizeof *j);
    if (j == NULL) {
        snprintf(err, err_size, "out of memory");
        return PCVR_ENOMEM;
    }
    j->isa = isa;
    j->err = err;
    j->err_size = err_size;
    int rc = pcvr_isa_supported(isa)
                 ? build(j, c_text, symbol, out)
                 : fail(j, PCVR_EISA, "this CPU lacks the instruction set %s", isa);
    pcvr_jit_free(j);
    free(j);
    return rc;
}

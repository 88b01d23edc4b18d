// parquet.c - finds and loads libpcvr_parquet.so, the only part that needs Arrow.

#include "parquet.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libpcvr_parquet.so"

static const pcvr_parquet *
load(const char *path, DataError *e)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        data_fail(e, "cannot load the Parquet library: %s; build it with make",
                  dlerror());
        return NULL;
    }
    // POSIX has dlsym return functions as object pointers.
    union {
        void *object;
        pcvr_parquet_functions_fn *function;
    } symbol = {dlsym(library, "pcvr_parquet_functions")};
    const pcvr_parquet *p = symbol.object ? symbol.function() : NULL;
    if (p && p->abi == PCVR_PARQUET_ABI)
        return p;
    data_fail(e, "%s is of another version of this project; build it again with make",
              path);
    dlclose(library);
    return NULL;
}

// Cuts the last part of a path off; false when nothing is left.
static bool
go_up(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    return slash && path[0];
}

const pcvr_parquet *
parquet_load(const char *path, DataError *e)
{
    const char *named = path ? path : getenv("PCVR_PARQUET");
    if (named && named[0])
        return load(named, e);
    // Beside the program or one above it; as installed, in lib/pcvr beside bin.
    static const char *const places[] = {"", "lib/pcvr/"};
    char dir[PATH_MAX], candidate[PATH_MAX + sizeof LIBRARY + 16];
    ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);
    dir[n > 0 ? n : 0] = '\0';
    for (int k = 0; k < 4 && (k % 2 || go_up(dir)); k++) {
        snprintf(candidate, sizeof candidate, "%s/%s%s", dir, places[k % 2], LIBRARY);
        if (access(candidate, R_OK) == 0)
            return load(candidate, e);
    }
    if (access("build/" LIBRARY, R_OK) == 0)
        return load("./build/" LIBRARY, e);
    data_fail(
        e,
        "%s, which reads Parquet, is not beside the program, nor in build/; build it "
        "with make, or name it in PCVR_PARQUET",
        LIBRARY);
    return NULL;
}

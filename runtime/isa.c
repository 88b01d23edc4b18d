// isa.c - which instruction set generated code is taken for.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "isa.h"

// Best first.
static const char *const names[] = {"avx512", "avx2", "scalar"};
enum { N_NAMES = 3 };

bool
pcvr_isa_supported(const char *isa)
{
    if (strcmp(isa, "scalar") == 0)
        return true;
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(isa, "avx2") == 0)
        return avx2;
    if (strcmp(isa, "avx512") == 0)
        return avx2 && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#endif
    return false;
}

const char *
pcvr_isa_choose(char *err, size_t err_size)
{
    const char *wanted = getenv("PCVR_ISA");
    for (int k = 0; k < N_NAMES; k++) {
        bool named = wanted != NULL && wanted[0] != '\0';
        if (named && strcmp(wanted, names[k]) != 0)
            continue;
        if (pcvr_isa_supported(names[k]))
            return names[k];
        if (named) {
            snprintf(err, err_size, "PCVR_ISA names %s, which this CPU lacks", wanted);
            return NULL;
        }
    }
    snprintf(err, err_size, "PCVR_ISA is '%s', expected avx512, avx2 or scalar", wanted);
    return NULL;
}

const pcvr_module *
pcvr_module_find(const pcvr_module *const *list, int n, char *err, size_t err_size)
{
    const char *best = pcvr_isa_choose(err, err_size);
    bool below = false;
    for (int k = 0; k < N_NAMES && best != NULL; k++) {
        below = below || strcmp(names[k], best) == 0;
        for (int i = 0; below && i < n; i++)
            if (strcmp(list[i]->isa, names[k]) == 0)
                return list[i];
    }
    if (best != NULL)
        snprintf(err, err_size, "no module for %s or below among the %d linked in", best,
                 n);
    return NULL;
}

const char *const *
pcvr_isa_flags(const char *isa)
{
    static const char *const scalar[] = {"-DPCVR_ISA_SCALAR", NULL};
    static const char *const avx2[] = {"-DPCVR_ISA_AVX2", "-mavx2", "-mfma", NULL};
    static const char *const avx512[] = {
        "-DPCVR_ISA_AVX512",
        "-mavx512f",
        "-mavx512bw",
        "-mavx512dq",
        "-mavx512vl",
        "-mavx2",
        "-mfma",
        "-mprefer-vector-width=512",
        NULL,
    };
    if (strcmp(isa, "avx512") == 0)
        return avx512;
    return strcmp(isa, "avx2") == 0 ? avx2 : scalar;
}

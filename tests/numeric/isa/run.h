// run.h - the main function of a kernel test: its body for every instruction set there is.
#ifndef KERNEL_RUN_H
#define KERNEL_RUN_H

#include <stdio.h>

#define KERNEL_MAIN(name)                                                                \
    int name##_scalar(void);                                                             \
    int name##_avx2(void);                                                               \
    int name##_avx512(void);                                                             \
    int main(void)                                                                       \
    {                                                                                    \
        __builtin_cpu_init();                                                            \
        int failed = name##_scalar();                                                    \
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))             \
            failed += name##_avx2();                                                     \
        else                                                                             \
            puts("skip " #name "_avx2: this CPU has no AVX2 and FMA");                   \
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&   \
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))    \
            failed += name##_avx512();                                                   \
        else                                                                             \
            puts("skip " #name "_avx512: this CPU has no AVX-512 F, BW, DQ and VL");     \
        return failed != 0;                                                              \
    }

#endif

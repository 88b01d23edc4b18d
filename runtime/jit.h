// jit.h - what jit.c (cache, loading) and jit_cc.c (the compiler's command line, the key)
// share.

#ifndef PCVR_JIT_H
#define PCVR_JIT_H

#include "pcvr.h"

enum { PCVR_JIT_NO_COMPILER = -1000 };

typedef struct Jit {
    const char *isa;
    char include[4096]; // directory of pcvr.h
    char cache[4096];
    bool cache_is_temporary;
    char key[33];
    char *words;       // memory of PCVR_CC and PCVR_CFLAGS, cut into words
    const char **argv; // the command so far, NULL-terminated
    int n_argv;
    char include_kernels[4200];
    char *err;
    size_t err_size;
} Jit;

// Works out the command and the key. The text and the headers that it may include are
// hashed.
int pcvr_jit_key(Jit *j, const char *text);
// Runs the command with `tail` appended, output and errors to the file `log`. The exit
// status, PCVR_JIT_NO_COMPILER, or another negative value.
int pcvr_jit_run(Jit *j, const char *const *tail, const char *log);
// A 16-byte sum of n bytes, to tell a damaged file from a whole one.
void pcvr_jit_sum(const void *data, size_t n, unsigned char sum[16]);

// Says that there is no compiler and what to do.
int pcvr_jit_no_compiler(Jit *j);
void pcvr_jit_free(Jit *j);

#endif

// pool.h - a few threads that run one function together.

#ifndef PCVR_POOL_H
#define PCVR_POOL_H

typedef struct PcvrPool PcvrPool;

// A pool of `threads` threads, the caller counted: threads - 1 are started. They take no
// signals and flush subnormal numbers to zero. NULL when a thread cannot be started.
PcvrPool *pcvr_pool_new(int threads);
void pcvr_pool_free(PcvrPool *p);
int pcvr_pool_threads(const PcvrPool *p);

// Runs fn(arg, thread) once for every thread 0 .. threads - 1, thread 0 being the caller,
// and returns when all are done. The caller's floating-point mode is set for the while
// and restored. What the caller wrote before is seen by all; what they wrote is seen by
// the caller afterwards.
void pcvr_pool_run(PcvrPool *p, void (*fn)(void *arg, int thread), void *arg);

#endif

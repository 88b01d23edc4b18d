// pool.c - a few threads that run one function together.

#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pcvr.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

typedef struct Member {
    PcvrPool *pool;
    int thread;
    pthread_t id;
} Member;

struct PcvrPool {
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    int threads, running;
    uint64_t round; // of work handed out
    bool stop;
    void (*fn)(void *, int);
    void *arg;
    Member *members; // [threads]; 0 is the caller
};

// Nearest rounding, no traps, subnormal results and operands count as zero. Returns the
// old mode.
static unsigned
mode_set(void)
{
#if defined(__x86_64__)
    unsigned old = _mm_getcsr();
    _mm_setcsr(0x1f80u | 0x8040u);
    return old;
#else
    return 0;
#endif
}

static void
mode_restore(unsigned mode)
{
#if defined(__x86_64__)
    _mm_setcsr(mode);
#else
    (void)mode;
#endif
}

static void *
member_main(void *arg)
{
    Member *m = arg;
    PcvrPool *p = m->pool;
    uint64_t round = 0;
    mode_set();
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->stop && p->round == round)
            pthread_cond_wait(&p->start, &p->lock);
        if (p->stop)
            break;
        round = p->round;
        pthread_mutex_unlock(&p->lock);
        p->fn(p->arg, m->thread);
        pthread_mutex_lock(&p->lock);
        if (--p->running == 0)
            pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void
pool_stop(PcvrPool *p, int started)
{
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
    for (int t = 1; t < started; t++)
        pthread_join(p->members[t].id, NULL);
    pthread_cond_destroy(&p->start);
    pthread_cond_destroy(&p->done);
    pthread_mutex_destroy(&p->lock);
    free(p->members);
    free(p);
}

PcvrPool *
pcvr_pool_new(int threads)
{
    PcvrPool *p = calloc(1, sizeof *p);
    Member *members = calloc(threads > 0 ? (size_t)threads : 1, sizeof *members);
    if (p == NULL || members == NULL) {
        free(p);
        free(members);
        return NULL;
    }
    p->threads = threads > 0 ? threads : 1;
    p->members = members;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->start, NULL);
    pthread_cond_init(&p->done, NULL);
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int started = 1;
    for (; started < p->threads; started++) {
        Member *m = &members[started];
        *m = (Member){.pool = p, .thread = started};
        if (pthread_create(&m->id, NULL, member_main, m) != 0)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (started < p->threads) {
        pool_stop(p, started);
        return NULL;
    }
    return p;
}

void
pcvr_pool_free(PcvrPool *p)
{
    if (p != NULL)
        pool_stop(p, p->threads);
}

int
pcvr_pool_threads(const PcvrPool *p)
{
    return p->threads;
}

void
pcvr_pool_run(PcvrPool *p, void (*fn)(void *arg, int thread), void *arg)
{
    if (p->threads > 1) {
        pthread_mutex_lock(&p->lock);
        p->fn = fn;
        p->arg = arg;
        p->running = p->threads - 1;
        p->round++;
        pthread_cond_broadcast(&p->start);
        pthread_mutex_unlock(&p->lock);
    }
    unsigned mode = mode_set();
    fn(arg, 0);
    mode_restore(mode);
    if (p->threads > 1) {
        pthread_mutex_lock(&p->lock);
        while (p->running > 0)
            pthread_cond_wait(&p->done, &p->lock);
        pthread_mutex_unlock(&p->lock);
    }
}

// CPUs by which the group at `path` (below the mount point of version 2) limits us, or 0.
static double
quota_v2(const char *path)
{
    char name[4300], line[64];
    snprintf(name, sizeof name, "/sys/fs/cgroup%s/cpu.max", path);
    FILE *f = fopen(name, "re");
    if (f == NULL)
        return 0;
    double quota = 0, period = 0;
    if (fgets(line, sizeof line, f) == NULL ||
        sscanf(line, "%lf %lf", &quota, &period) != 2)
        quota = period = 0; // "max 100000"
    fclose(f);
    return period > 0 ? quota / period : 0;
}

static double
quota_v1(void)
{
    double v[2] = {0, 0};
    static const char *const names[2] = {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                                         "/sys/fs/cgroup/cpu/cpu.cfs_period_us"};
    for (int k = 0; k < 2; k++) {
        FILE *f = fopen(names[k], "re");
        if (f == NULL)
            return 0;
        if (fscanf(f, "%lf", &v[k]) != 1)
            v[k] = 0;
        fclose(f);
    }
    return v[0] > 0 && v[1] > 0 ? v[0] / v[1] : 0;
}

// The tightest limit of our group and those above it, or 0.
static double
cpu_quota(void)
{
    char line[4200], path[4200] = "";
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "0::", 3) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(path, sizeof path, "%s", line + 3);
        }
    }
    if (f != NULL)
        fclose(f);
    double best = quota_v1();
    for (;;) {
        double q = quota_v2(strcmp(path, "/") == 0 ? "" : path);
        if (q > 0 && (best == 0 || q < best))
            best = q;
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            return best;
        *slash = '\0';
    }
}

int
pcvr_default_threads(void)
{
    cpu_set_t set;
    int n = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = CPU_COUNT(&set);
    double quota = cpu_quota();
    if (quota > 0 && quota < n)
        n = (int)quota + ((double)(int)quota < quota);
    return n > 1 ? n : 1;
}

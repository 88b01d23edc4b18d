// jit_cc.c - the compiler's command line for a module, and the key of what it will
// produce.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file.h"
#include "isa.h"
#include "jit.h"

extern char **environ;

static int
fail(Jit *j, int code, const char *what, const char *more)
{
    if (j->err != NULL && j->err_size > 0)
        snprintf(j->err, j->err_size, "%s%s", what, more);
    return code;
}

// ---- command line ---------------------------------------------------------------------

static const char *const common[] = {
    "-std=c11",
    "-D_GNU_SOURCE",
    "-O2",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fPIC",
    "-shared",
    "-w",
    NULL,
};

// Cuts text at blanks, in place; words go to the command.
static void
add_words(Jit *j, char *text)
{
    char *rest = NULL;
    for (char *w = strtok_r(text, " \t\n", &rest); w != NULL;
         w = strtok_r(NULL, " \t\n", &rest))
        j->argv[j->n_argv++] = w;
}

static int
make_command(Jit *j)
{
    const char *cc = getenv("PCVR_CC"), *flags = getenv("PCVR_CFLAGS");
    cc = cc != NULL && cc[strspn(cc, " \t\n")] != '\0' ? cc : "cc";
    flags = flags != NULL ? flags : "";
    size_t n_cc = strlen(cc) + 1, n_flags = strlen(flags) + 1;
    j->words = malloc(n_cc + n_flags);
    // No more words than half the characters; 32 for our own flags and the tail.
    j->argv = calloc((n_cc + n_flags) / 2 + 48, sizeof *j->argv);
    if (j->words == NULL || j->argv == NULL)
        return fail(j, PCVR_ENOMEM, "out of memory", "");
    memcpy(j->words, cc, n_cc);
    memcpy(j->words + n_cc, flags, n_flags);
    add_words(j, j->words);
    for (const char *const *f = common; *f != NULL; f++)
        j->argv[j->n_argv++] = *f;
    for (const char *const *f = pcvr_isa_flags(j->isa); *f != NULL; f++)
        j->argv[j->n_argv++] = *f;
    snprintf(j->include_kernels, sizeof j->include_kernels, "%s/kernels", j->include);
    j->argv[j->n_argv++] = "-I";
    j->argv[j->n_argv++] = j->include;
    j->argv[j->n_argv++] = "-I";
    j->argv[j->n_argv++] = j->include_kernels;
    add_words(j, j->words + n_cc);
    return PCVR_OK;
}

void
pcvr_jit_free(Jit *j)
{
    free(j->words);
    free(j->argv);
}

int
pcvr_jit_no_compiler(Jit *j)
{
    char more[300];
    int why = errno; // of spawn
    snprintf(more, sizeof more, "'%.200s': %s", j->argv[0],
             why == EAGAIN || why == ENOMEM
                 ? strerror(why)
                 : "install gcc or clang, or name one with PCVR_CC");
    return fail(j, PCVR_EIO, "cannot run the C compiler ", more);
}

static int
spawn(const char *const *argv, int out)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_adddup2(&actions, out, 2);
    int rc = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv,
                          environ);
    posix_spawn_file_actions_destroy(&actions);
    errno = rc;
    if (rc != 0)
        return PCVR_JIT_NO_COMPILER;
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    if (!WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status) == 127 ? PCVR_JIT_NO_COMPILER : WEXITSTATUS(status);
}

int
pcvr_jit_run(Jit *j, const char *const *tail, const char *log)
{
    int n = j->n_argv;
    for (; *tail != NULL; tail++)
        j->argv[n++] = *tail;
    j->argv[n] = NULL;
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    int status = spawn(j->argv, fd);
    close(fd);
    j->argv[j->n_argv] = NULL;
    return status;
}

// ---- key ------------------------------------------------------------------------------

typedef struct Hash {
    uint64_t a, b;
} Hash;

static uint64_t
mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// Absorbs n bytes and their number, so that no two lists of parts look alike.
static void
hash_add(Hash *h, const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t w = n;
    for (size_t at = 0;; at += 8) {
        h->a = mix(h->a ^ w) + 0x9e3779b97f4a7c15u;
        h->b = mix(h->b + w * 0xd6e8feb86659fd93u) ^ h->a;
        if (at >= n)
            return;
        w = 0;
        memcpy(&w, p + at, n - at < 8 ? n - at : 8);
    }
}

void
pcvr_jit_sum(const void *data, size_t n, unsigned char sum[16])
{
    Hash h = {PCVR_ABI, 2};
    hash_add(&h, data, n);
    memcpy(sum, &h.a, 8);
    memcpy(sum + 8, &h.b, 8);
}

static int
is_header(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 2 && strcmp(e->d_name + n - 2, ".h") == 0;
}

// Every header of a directory, in the order of their names. A directory that is not there
// adds none.
static bool
hash_headers(Hash *h, const char *dir)
{
    struct dirent **list;
    int n = scandir(dir, &list, is_header, alphasort);
    bool ok = true;
    for (int k = 0; k < n; k++) {
        char path[4600];
        size_t size = 0;
        snprintf(path, sizeof path, "%s/%s", dir, list[k]->d_name);
        char *text = pcvr_file_read(path, &size, NULL);
        ok = ok && text != NULL;
        hash_add(h, list[k]->d_name, strlen(list[k]->d_name));
        if (text != NULL)
            hash_add(h, text, size);
        free(text);
        free(list[k]);
    }
    if (n >= 0)
        free(list);
    return ok;
}

// What `cc --version` prints.
static int
hash_compiler(Jit *j, Hash *h)
{
    int fd[2];
    const char *argv[3] = {j->argv[0], "--version", NULL};
    const char *words[3] = {j->argv[0], j->argv[1], "--version"};
    const char *two[4] = {words[0], words[1], words[2], NULL};
    bool wrapped = j->argv[1][0] != '-'; // "ccache gcc"
    if (pipe2(fd, O_CLOEXEC) != 0)
        return fail(j, PCVR_EIO, "cannot make a pipe: ", strerror(errno));
    // Version texts fit in a pipe's buffer, so the child never waits for us.
    int status = spawn(wrapped ? two : argv, fd[1]);
    close(fd[1]);
    char text[4096];
    for (ssize_t n; status == 0 && (n = read(fd[0], text, sizeof text)) > 0;)
        hash_add(h, text, (size_t)n);
    close(fd[0]);
    if (status == PCVR_JIT_NO_COMPILER)
        return pcvr_jit_no_compiler(j);
    if (status != 0)
        return fail(j, PCVR_EIO, j->argv[0],
                    " --version fails: name a C compiler with PCVR_CC");
    return PCVR_OK;
}

int
pcvr_jit_key(Jit *j, const char *text)
{
    Hash h = {PCVR_ABI, 1};
    int rc = make_command(j);
    if (rc == PCVR_OK)
        rc = hash_compiler(j, &h);
    if (rc != PCVR_OK)
        return rc;
    hash_add(&h, text, strlen(text));
    for (int k = 0; k < j->n_argv; k++)
        if (j->argv[k] != j->include && j->argv[k] != j->include_kernels)
            hash_add(&h, j->argv[k], strlen(j->argv[k]));
    if (!hash_headers(&h, j->include) || !hash_headers(&h, j->include_kernels))
        return fail(j, PCVR_EIO, "cannot read the headers in ", j->include);
    snprintf(j->key, sizeof j->key, "%016llx%016llx", (unsigned long long)h.a,
             (unsigned long long)h.b);
    return PCVR_OK;
}

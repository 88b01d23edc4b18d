// run_flags.c - flags that check, bench and plan share.

#include "run_flags.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
model_flags_take(ModelFlags *out, int argc, char **argv, PcvrError *err)
{
    size_t n = (size_t)argc + 1, bytes = 1;
    for (int k = 0; k < argc; k++)
        bytes += strlen(argv[k]) + 1;
    *out = (ModelFlags){.list = calloc(n, sizeof *out->list),
                        .rest = calloc(n, sizeof *out->rest),
                        .memory = malloc(bytes)};
    if (out->list == NULL || out->rest == NULL || out->memory == NULL)
        return pcvr_fail(err, "out of memory");
    char *at = out->memory;
    for (int k = 0; k < argc; k++) {
        if (strncmp(argv[k], "--model.", 8) != 0) {
            out->rest[out->n_rest++] = argv[k];
            continue;
        }
        ModelFlag *f = &out->list[out->n++];
        size_t length = strcspn(argv[k], "=");
        if (length - 8 >= sizeof f->name)
            return pcvr_fail(err, "flag '%s' is too long", argv[k]);
        memcpy(at, argv[k], length);
        at[length] = '\0';
        f->flag = at;
        at += length + 1;
        for (size_t i = 8; i < length; i++)
            f->name[i - 8] = argv[k][i] == '-' ? '_' : argv[k][i];
        if (argv[k][length] == '=')
            f->value = argv[k] + length + 1;
        else if (k + 1 < argc && strncmp(argv[k + 1], "--", 2) != 0)
            f->value = argv[++k];
        else
            return pcvr_fail(err, "flag '%s' needs a value", argv[k]);
    }
    return true;
}

void
model_flags_free(ModelFlags *f)
{
    free(f->list);
    free(f->rest);
    free(f->memory);
    *f = (ModelFlags){0};
}

bool
chunk_parse(const char *text, int64_t *chunk, PcvrError *err)
{
    *chunk = 0;
    if (text == NULL)
        return true;
    if (strcmp(text, "batch") == 0) {
        *chunk = PCVR_CHUNK_BATCH;
        return true;
    }
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || n < 1 || n > INT32_MAX)
        return pcvr_fail(err, "--chunk is '%s', expected a number of samples or 'batch'",
                         text);
    *chunk = n;
    return true;
}

bool
lanes_take(int64_t lanes, int64_t threads, pcvr_options *o, PcvrError *err)
{
    if (lanes != NOT_GIVEN && (lanes < 1 || lanes > 4096))
        return pcvr_fail(err, "--lanes is %lld, expected 1 to 4096", (long long)lanes);
    if (threads != NOT_GIVEN && (threads < 1 || threads > 4096))
        return pcvr_fail(err, "--threads is %lld, expected 1 to 4096",
                         (long long)threads);
    o->lanes = lanes == NOT_GIVEN ? 0 : (int)lanes;
    o->threads = threads == NOT_GIVEN ? 0 : (int)threads;
    return true;
}

void
idle_note(int64_t threads, const pcvr_plan *plan)
{
    if (threads > plan->threads)
        fprintf(stderr, "pcvr: note: %lld of %lld threads idle, there are %lld lanes\n",
                (long long)(threads - plan->threads), (long long)threads,
                (long long)plan->lanes);
}

// cmd_synth.c - pcvr synth: writes a learnable data set and says how well it can be
// learnt.

#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "flags.h"
#include "synth.h"

static const char usage[] =
    "usage: pcvr synth --output DIR [flags]\n\n"
    "  --output DIR        directory for part-*.parquet and schema.json\n"
    "  --rows N            default 16000 (official: 4000)\n"
    "  --files N           default 4\n"
    "  --group-rows N      rows of a row group; default 800 (official: 200)\n"
    "  --vocab-cap N       largest vocabulary; default 100 (official: 1000), at least "
    "50\n"
    "  --max-len N         longest sequence; default 32 (official: 256)\n"
    "  --seed N            of the rows; the truth behind the labels is always the same\n"
    "  --official          every official column at full width\n"
    "  --json              print one line of JSON\n";

static int
fail(int status, const char *text)
{
    fprintf(stderr, "pcvr synth: %s\n", text);
    return status;
}

static void
print(const char *dir, const SynthReport *r, bool json)
{
    if (json) {
        printf("{\"rows\":%lld,\"positives\":%lld,\"files\":%lld,\"row_groups\":%lld,"
               "\"best_auc\":%.6f,\"best_logloss\":%.6f}\n",
               (long long)r->rows, (long long)r->positives, (long long)r->files,
               (long long)r->groups, r->best_auc, r->best_logloss);
        return;
    }
    printf("%s: %lld rows (%lld positive) in %lld files, %lld row groups\n", dir,
           (long long)r->rows, (long long)r->positives, (long long)r->files,
           (long long)r->groups);
    printf("best reachable AUC %.4f, logloss %.4f\n", r->best_auc, r->best_logloss);
}

int
cmd_synth(int argc, char **argv)
{
    const char *dir = NULL;
    int64_t seed = 42;
    int official = 0, json = 0;
    SynthOptions o = {0};
    PcvrError err = {{0}};
    DataError e = {{0}};
    SynthReport report;
    const Flag flags[] = {
        {"output", FLAG_TEXT, &dir},
        {"rows", FLAG_COUNT, &o.rows},
        {"files", FLAG_COUNT, &o.files},
        {"group-rows", FLAG_COUNT, &o.group_rows},
        {"vocab-cap", FLAG_COUNT, &o.vocab_cap},
        {"max-len", FLAG_COUNT, &o.max_len},
        {"seed", FLAG_INT, &seed},
        {"official", FLAG_PLAIN, &official},
        {"json", FLAG_SWITCH, &json},
    };
    if (flags_ask_help(argc, argv)) {
        fputs(usage, stdout);
        return 0;
    }
    // A word in front is the directory too.
    if (argc > 0 && strncmp(argv[0], "--", 2)) {
        dir = argv[0];
        argc--;
        argv++;
    }
    if (!flags_parse(argc, argv, flags, (int)(sizeof flags / sizeof *flags), NULL, &err))
        return fail(2, err.text);
    if (!dir)
        return fail(2, "no directory: give --output DIR");
    if (o.vocab_cap && o.vocab_cap < 50)
        return fail(2, "--vocab-cap: expected an integer from 50 on");
    o.seed = (uint64_t)seed;
    o.official = official != 0;
    if (synth_write(dir, &o, &report, &e))
        return fail(1, e.text);
    print(dir, &report, json != 0);
    return 0;
}

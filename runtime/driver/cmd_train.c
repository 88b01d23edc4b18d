// cmd_train.c - pcvr train: reads the command line, opens everything, trains.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "flags.h"
#include "run.h"

static const char usage[] =
    "usage: pcvr train --experiment MODEL --dataset-path PATH [flags]\n\n"
    "  --experiment MODEL     FILE.pcvr, a folder with a model.pcvr, or an installed "
    "model's "
    "name\n"
    "  --dataset-path PATH    Parquet file or directory (TRAIN_DATA_PATH)\n"
    "  --schema-path PATH     schema.json; default: beside the data (TAAC_SCHEMA_PATH)\n"
    "  --run-dir DIR          where checkpoints go (TRAIN_CKPT_PATH); default "
    "outputs/NAME\n"
    "  --checkpoint C         what the backward pass keeps: none, blocks, sample, or\n"
    "                         names and globs of blocks (blocks.0,blocks.*)\n"
    "  --init PATH            start from saved weights: a .safetensors file, or a "
    "directory "
    "that holds one\n"
    "  --order FILE           rows of each step, one line a step\n"
    "  --no-clip              do not clip gradients at global norm 1\n"
    "  --dry-run              print the memory plan and whether it fits\n"
    "  --chunk N|batch        samples of a chunk; batch: all forward, then all backward\n"
    "  --lanes N              parts a batch is cut into (8; below 64 samples 4 to 7)\n"
    "  --batch-hint N         samples of a batch, for what is compiled "
    "(data.batch_size);\n"
    "                         tables with fewer rows than lookups are projected; 0: "
    "none\n"
    "  --threads N            all that affinity and quota allow\n"
    "  --strict-ids           an id outside its vocabulary is an error\n"
    "  --json                 print the summary as one line of JSON\n"
    "  --SECTION.FIELD VALUE  any setting of train_config.json, as in --optimizer.lr "
    "1e-3;\n"
    "                         switches: --model.gradient_checkpointing, "
    "--model.no_gradient_checkpointing\n\n"
    "Settings and their defaults, which a model file may change:\n";

// 1 or 0 when the last switch of that name turns it on or off, -1 when there is none.
static int
switch_given(int argc, char **argv, const char *on, const char *off)
{
    int given = -1;
    for (int i = 0; i < argc; i++) {
        char name[128];
        size_t n = strlen(argv[i]);
        if (n < 3 || n > sizeof name || strncmp(argv[i], "--", 2))
            continue;
        for (size_t k = 0; k <= n - 2; k++)
            name[k] = argv[i][k + 2] == '-' ? '_' : argv[i][k + 2];
        if (!strcmp(name, on))
            given = 1;
        else if (!strcmp(name, off))
            given = 0;
    }
    return given;
}

// --checkpoint and the reference's switch: either decides, both must agree.
static int
choose_checkpoint(Run *r, int argc, char **argv)
{
    PcvrError err = {{0}};
    int given = switch_given(argc, argv, "model.gradient_checkpointing",
                             "model.no_gradient_checkpointing");
    if (!r->f.checkpoint) {
        r->f.checkpoint = settings_bool(&r->settings, "model.gradient_checkpointing")
                              ? "blocks"
                              : "none";
        return 0;
    }
    if (given >= 0 && strcmp(r->f.checkpoint, given ? "blocks" : "none")) {
        pcvr_fail(&err,
                  "--checkpoint %s and --model.%sgradient_checkpointing (which is "
                  "--checkpoint %s) say different things",
                  r->f.checkpoint, given ? "" : "no_", given ? "blocks" : "none");
        return run_fail(r, 2, err.text);
    }
    settings_set(&r->settings, "model.gradient_checkpointing",
                 json_boolean(strcmp(r->f.checkpoint, "none") != 0), &err);
    return 0;
}

static int
paths(Run *r)
{
    int status = run_dataset(r);
    if (status)
        return status;
    const char *schema = run_path(r->f.schema, "TAAC_SCHEMA_PATH");
    r->schema_path = schema ? strdup(schema) : data_schema_path(r->f.dataset);
    const char *run_dir = run_path(r->f.run_dir, "TRAIN_CKPT_PATH");
    r->run_dir = run_dir ? strdup(run_dir) : malloc(strlen(r->experiment.name) + 16);
    if (!r->schema_path || !r->run_dir)
        return run_fail(r, 1, "out of memory");
    if (!run_dir)
        sprintf(r->run_dir, "outputs/%s", r->experiment.name);
    return 0;
}

static void
say_ignored(const Run *r)
{
    if (settings_bool(&r->settings, "runtime.amp"))
        fprintf(r->say,
                "runtime.amp: no effect on the CPU, everything runs in float32\n");
}

static int
parse(Run *r, int argc, char **argv)
{
    PcvrError err = {{0}};
    const Flag flags[] = {
        {"experiment", FLAG_TEXT, &r->f.experiment},
        {"dataset-path", FLAG_TEXT, &r->f.dataset},
        {"schema-path", FLAG_TEXT, &r->f.schema},
        {"run-dir", FLAG_TEXT, &r->f.run_dir},
        {"checkpoint", FLAG_TEXT, &r->f.checkpoint},
        {"init", FLAG_TEXT, &r->f.init},
        {"order", FLAG_TEXT, &r->f.order},
        {"chunk", FLAG_TEXT, &r->f.chunk},
        {"threads", FLAG_COUNT, &r->f.threads},
        {"batch-hint", FLAG_SIZE, &r->f.batch_hint},
        {"lanes", FLAG_COUNT, &r->f.lanes},
        {"json", FLAG_SWITCH, &r->f.json},
        {"no-clip", FLAG_PLAIN, &r->f.no_clip},
        {"dry-run", FLAG_PLAIN, &r->f.dry_run},
        {"strict-ids", FLAG_PLAIN, &r->f.strict_ids},
        {"help", FLAG_PLAIN, &r->f.help},
    };
    const char *path = run_path(flags_peek(argc, argv, "experiment"), "TAAC_EXPERIMENT");
    if (!path)
        return run_fail(r, 2, "no model: give --experiment PATH");
    r->f.batch_hint = -1;
    int status = experiment_open(&r->experiment, path, &r->settings);
    if (status)
        return status;
    if (!flags_parse(argc, argv, flags, (int)(sizeof flags / sizeof *flags), &r->settings,
                     &err) ||
        !settings_supported(&r->settings, &err))
        return run_fail(r, 2, err.text);
    r->say = r->f.json ? stderr : stdout;
    status = choose_checkpoint(r, argc, argv);
    return status ? status : run_options(r);
}

static int
train(Run *r, int argc, char **argv)
{
    int status = parse(r, argc, argv);
    if (!status)
        status = paths(r);
    if (!status)
        status = run_schema(r);
    r->experiment.batch_hint = r->f.batch_hint;
    if (!status)
        status = experiment_build(&r->experiment, &r->settings, r->schema,
                                  r->f.checkpoint, &r->module);
    if (!status)
        status = run_data(r, false);
    if (status)
        return status;
    say_ignored(r);
    return run_train(r);
}

int
cmd_train(int argc, char **argv)
{
    Run r = {.command = "train"};
    if (flags_ask_help(argc, argv)) {
        fputs(usage, stdout);
        settings_print(stdout);
        return 0;
    }
    int status = train(&r, argc, argv);
    run_free(&r);
    return status;
}

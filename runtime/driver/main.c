// main.c - the program pcvr: finds the subcommand and runs it.

#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "flags.h"
#include "process.h"

typedef struct Command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *what;
} Command;

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const Command commands[] = {
    {"train", cmd_train, "trains a model on Parquet data"},
    {"val", cmd_val, "scores a data set with saved weights and evaluates the scores"},
    {"eval", cmd_val, "the same as val"},
    {"infer", cmd_infer, "scores a data set without labels with saved weights"},
    {"check", cmd_check, "compares a recorded case with what a model returns for it"},
    {"bench", cmd_bench, "measures a step of a model"},
    {"plan", cmd_plan, "prints the bytes of a step without running one"},
    {"synth", cmd_synth, "writes a learnable data set"},
    {"help", cmd_help, "this list"},
    {"version", cmd_version, "the version"},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static int
cmd_help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("pcvr - trains, validates and measures compiled PCVR models\n\nusage: pcvr "
         "COMMAND ...\n");
    for (int i = 0; i < N_COMMANDS; i++)
        printf("  %-8s %s\n", commands[i].name, commands[i].what);
    puts("\n'pcvr COMMAND --help' lists the flags of a command");
    return 0;
}

static int
cmd_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("pcvr " PCVR_VERSION);
    return 0;
}

int
main(int argc, char **argv)
{
    const char *names[N_COMMANDS];
    pcvr_process_start();
    if (argc < 2) {
        fputs("pcvr: expected a command; 'pcvr help' lists them\n", stderr);
        return 2;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h"))
        name = "help";
    if (!strcmp(name, "--version"))
        name = "version";
    for (int i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i].name;
        if (!strcmp(name, commands[i].name))
            return pcvr_process_end(commands[i].run(argc - 2, argv + 2));
    }
    const char *near = flags_nearest(name, names, N_COMMANDS);
    fprintf(stderr, "pcvr: unknown command '%s'%s%s%s\n", name,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return 2;
}

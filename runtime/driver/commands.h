// commands.h - the subcommands of pcvr, one file each.

#ifndef PCVR_COMMANDS_H
#define PCVR_COMMANDS_H

#define PCVR_VERSION "0.1.0"

// Arguments are those behind the command's name. Results are exit statuses: 0, 1 a fault
// in the input, 2 in the command line, 70 an internal fault, 128 and the number of
// a signal that ended training (130: interrupted).
int cmd_train(int argc, char **argv);
int cmd_val(int argc, char **argv);
int cmd_infer(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_synth(int argc, char **argv);

#endif

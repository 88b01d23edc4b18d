// model_in.h - a model compiled inside this program: file, configuration, schema, graph,
// module.
//
// Every function prints its errors to stderr and returns an exit status: 0, 1 a fault in
// the input, 2 in the command line.

#ifndef PCVR_DRIVER_MODEL_IN_H
#define PCVR_DRIVER_MODEL_IN_H

#include "pcvr.h"
#include "pcvrc.h"

typedef struct ModelIn {
    Compile c;
} ModelIn;

// Reads and checks a model file, with the configuration's defaults. model_close in any
// case.
int model_open(ModelIn *m, const char *path);
// A field of the configuration; `flag` says in messages where it was given.
int model_set(ModelIn *m, const char *name, const char *value, const char *flag);
// The fields of an object.
int model_set_json(ModelIn *m, const json_t *fields, const char *where);
// Sets every rate of chance (float fields called …dropout_rate) but dropout_rate itself
// to zero.
int model_quiet(ModelIn *m);
// The graph, elaborated; the schema's max_len fields are set.
int model_elaborate(ModelIn *m, const Schema *schema);
// simplify, prune; with `backward` differentiate, checkpoint and sweep too. An unknown
// choice is 2.
int model_passes(ModelIn *m, const char *choice, bool backward);
// The C text of the graph after model_passes, compiled or taken from the cache, and
// loaded.
int model_build(ModelIn *m, const Schema *schema, const pcvr_module **out);
// Prints the errors and warnings found so far, once, and returns the status.
int model_report(ModelIn *m, int status);
// Gives back everything but the module.
void model_close(ModelIn *m);

#endif

// find.h - where model files are: installed ones, and what a command line names.

#ifndef PCVRC_FIND_H
#define PCVRC_FIND_H

#include "mem.h"

typedef Array(const char *) Strings;

// DIR/NAME; NAME alone where it is absolute or DIR is "".
const char *path_join(Mem *mem, const char *dir, const char *name);
// The directory of a path with its slash, "" if it has none.
const char *path_dir(Mem *mem, const char *path);
// Where installed models may be: beside the program in a source tree, under its prefix, as
// built.
Strings model_dirs(Mem *mem);
// File names of the installed models, sorted: "baseline.pcvr", …
Strings models_installed(Mem *mem);

// The model file that a command line names: "x.pcvr" as it is; a folder: model.pcvr in it;
// "experiments/onetrans" or "onetrans": onetrans.pcvr there, in models/, or installed. A
// folder without any of them gives the model.pcvr that it lacks.
const char *model_path(Mem *mem, const char *given);
// What to call it: "onetrans" for models/onetrans.pcvr, "mine" for the folder mine.
const char *model_stem(Mem *mem, const char *given, const char *path);

#endif

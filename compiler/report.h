// report.h - what a module computes, keeps, makes again, and how much memory a step takes.

#ifndef PCVRC_REPORT_H
#define PCVRC_REPORT_H

#include <jansson.h>

#include "pcvr.h"
#include "tile.h"

typedef struct ReportOptions {
    const char *name, *model_path, *compiler;
    const json_t *config;
    const struct Schema *schema;
    int64_t batch;   // of the peak; chunk, lanes: the runtime's defaults; one thread
} ReportOptions;

// The report of a planned tile program; NULL when memory is short. The caller owns it.
json_t *report_json(Tiles *t, const ReportOptions *o);
// The same for a reader, in mem->perm.
const char *report_text(Mem *mem, const json_t *report);
// The sizes, regions and kept values of the module that emit_c would write; no functions. Lives in mem->perm.
pcvr_module tiles_module(const Tiles *t, const struct Schema *schema, const char *name);

#endif

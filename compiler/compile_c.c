// compile_c.c - the last steps of a compilation: tile programs, offsets, C text, report.

#include "pcvrc.h"
#include "report.h"
#include "tile.h"

#include <stdlib.h>
#include <string.h>

Tiles *
compile_tiles(Compile *c)
{
    Tiles *t = schedule(c->graph);
    plan(t);
    return t;
}

char *
compile_c(Compile *c, const Schema *schema, Tiles *t)
{
    json_t *config = config_json(c->config);
    char *json = config ? json_dumps(config, JSON_COMPACT) : NULL;
    EmitOptions o = {
        .name = c->name,
        .config = json ? json : "{}",
        .model_path = c->path,
        .compiler = PCVRC_VERSION,
        .schema = schema,
    };
    char *text = emit_c(t, &o);
    free(json);
    json_decref(config);
    return text;
}

json_t *
compile_report(Compile *c, Tiles *t)
{
    json_t *config = config_json(c->config), *train = config_train_json(c->config);
    const json_t *batch = json_object_get(train, "data.batch_size");
    const char *slash = strrchr(c->path, '/');
    ReportOptions o = {
        .name = c->name,
        .model_path = slash ? slash + 1 : c->path,
        .compiler = PCVRC_VERSION,
        .config = config,
        .schema = c->schema,
        .batch = batch ? json_integer_value(batch) : 256,
    };
    json_t *report = report_json(t, &o);
    json_decref(config);
    json_decref(train);
    return report;
}

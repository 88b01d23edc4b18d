// compile_c.c - the last steps of a compilation: tile programs, offsets, C text.

#include "pcvrc.h"
#include "tile.h"

#include <stdlib.h>

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

// model_build.c - the last part of compiling inside this program: C text, module.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "model_in.h"
#include "numbers.h"
#include "tile.h"

// Hash of everything the module depends on: sources, schema, configuration, choice, version.
static uint64_t
model_hash(const ModelIn *m, const char *schema, const char *config)
{
    uint64_t h = pcvr_name_hash(PCVR_VERSION);
    for (int k = 1; k < m->c.diag.sources.n; k++)
        h = pcvr_number_bits(h, pcvr_name_hash(m->c.diag.sources.v[k].text));
    h = pcvr_number_bits(h, pcvr_name_hash(schema));
    h = pcvr_number_bits(h, pcvr_name_hash(config));
    return pcvr_number_bits(h, pcvr_name_hash(m->c.graph->checkpoint));
}

static const char *
base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

int
model_build(ModelIn *m, const Schema *schema, const pcvr_module **out)
{
    char err[1024] = "";
    const char *isa = pcvr_isa_choose(err, sizeof err);
    json_t *config = config_json(m->c.config);
    char *config_text = config != NULL ? json_dumps(config, JSON_COMPACT) : NULL;
    char *schema_text = schema_to_json(schema);
    json_decref(config);
    int status = 1;
    if (config_text == NULL || schema_text == NULL) {
        snprintf(err, sizeof err, "out of memory");
    } else if (isa != NULL) {
        Tiles *t = schedule(m->c.graph);
        plan(t);
        const char *text = emit_c(t, &(EmitOptions){
            .name = m->c.name,
            .config = config_text,
            .model_path = base_name(m->c.path),
            .compiler = PCVR_VERSION,
            .hash = model_hash(m, schema_text, config_text),
            .schema = schema,
        });
        snprintf(m->symbol, sizeof m->symbol, "%s", module_symbol(&m->c.mem, m->c.name));
        status = pcvr_module_build(text, m->symbol, isa, out, err, sizeof err) == PCVR_OK ? 0 : 1;
    }
    if (status != 0)
        fprintf(stderr, "pcvr: error: %s\n", err);
    free(config_text);
    free(schema_text);
    return model_report(m, status);
}


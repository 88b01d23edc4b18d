// model_in.c - a model compiled inside this program: file, configuration, schema, graph, module.

#include "model_in.h"

#include <stdio.h>
#include <string.h>

int
model_report(ModelIn *m, int status)
{
    diag_print(&m->diag, stderr);
    m->diag.messages.n = 0;
    return status;
}

int
model_open(ModelIn *m, const char *path)
{
    *m = (ModelIn){.path = path};
    mem_init(&m->mem);
    diag_init(&m->diag, &m->mem);
    m->program = pcvrc_load(&m->mem, &m->diag, path, NULL, 0);
    if (m->program != NULL)
        m->config = config_new(&m->mem, &m->diag, m->program);
    return model_report(m, m->config != NULL ? 0 : 1);
}

int
model_set(ModelIn *m, const char *name, const char *value, const char *flag)
{
    return model_report(m, config_set_named(m->config, name, value, flag));
}

int
model_set_json(ModelIn *m, const json_t *fields, const char *where)
{
    return model_report(m, config_set_json(m->config, fields, where));
}

int
model_quiet(ModelIn *m)
{
    static const char ending[] = "dropout_rate";
    for (int k = 0; k < m->program->decls.n; k++) {
        const Decl *d = &m->program->decls.v[k];
        size_t n = strlen(d->name), e = sizeof ending - 1;
        if (d->kind != DECL_CONFIG || n <= e || strcmp(d->name + n - e, ending) != 0)
            continue;
        int status = model_set(m, d->name, "0.0", "--dropout");
        if (status != 0)
            return status;
    }
    return 0;
}

int
model_elaborate(ModelIn *m, const Schema *schema)
{
    m->graph = elaborate(&m->mem, &m->diag, m->program, m->config, schema);
    return model_report(m, m->graph != NULL ? 0 : 1);
}

int
model_passes(ModelIn *m, const char *choice, bool backward)
{
    static PassFn *const passes[] = {simplify, prune, differentiate, checkpoint, sweep};
    if (!checkpoint_valid(m->graph, choice))
        return model_report(m, 2);
    m->graph->checkpoint = choice;
    for (int k = 0; k < (backward ? 5 : 2); k++)
        if (!passes[k](m->graph))
            return model_report(m, 1);
    return model_report(m, 0);
}

void
model_close(ModelIn *m)
{
    mem_free(&m->mem);
    m->graph = NULL;
}

// model_in.c - a model compiled inside this program: the compiler's steps, with errors
// printed.

#include "model_in.h"

#include <stdio.h>
#include <string.h>

int
model_report(ModelIn *m, int status)
{
    diag_print(&m->c.diag, stderr);
    m->c.diag.messages.n = 0;
    return status;
}

int
model_open(ModelIn *m, const char *path)
{
    *m = (ModelIn){0};
    return model_report(m, compile_open(&m->c, path, NULL, 0));
}

int
model_set(ModelIn *m, const char *name, const char *value, const char *flag)
{
    return model_report(m, config_set_named(m->c.config, name, value, flag));
}

int
model_set_json(ModelIn *m, const json_t *fields, const char *where)
{
    return model_report(m, config_set_json(m->c.config, fields, where));
}

int
model_quiet(ModelIn *m)
{
    static const char ending[] = "dropout_rate";
    for (int k = 0; k < m->c.program->decls.n; k++) {
        const Decl *d = &m->c.program->decls.v[k];
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
    m->c.schema = (Schema *)(uintptr_t)schema; // the caller's, while the graph is made
    int status = compile_graph(&m->c);
    m->c.schema = NULL;
    return model_report(m, status);
}

int
model_passes(ModelIn *m, const char *choice, bool backward)
{
    return model_report(m, compile_passes(&m->c, choice, backward, NULL, NULL));
}

void
model_close(ModelIn *m)
{
    compile_close(&m->c);
    *m = (ModelIn){0};
}

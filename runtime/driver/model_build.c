// model_build.c - the last part of compiling inside this program: C text, module.

#include <stdio.h>

#include "model_in.h"
#include "tile.h"

int
model_build(ModelIn *m, const Schema *schema, const pcvr_module **out)
{
    char err[4096] = "";
    *out = NULL;
    Tiles *t = compile_tiles(&m->c);
    const char *text = compile_c(&m->c, schema, t),
               *symbol = module_symbol(&m->c.mem, m->c.name);
    const char *isa = pcvr_isa_choose(err, sizeof err);
    if (isa && pcvr_module_build(text, symbol, isa, out, err, sizeof err) == PCVR_OK)
        return 0;
    fprintf(stderr, "pcvr: error: %s\n", err);
    return 1;
}

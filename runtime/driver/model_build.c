// model_build.c - the last part of compiling inside this program: C text, module.

#include <stdio.h>

#include "model_in.h"

int
model_build(ModelIn *m, const Schema *schema, const pcvr_module **out)
{
    (void)schema;
    *out = NULL;
    fprintf(stderr, "pcvr: error: %s: emitting C is not part of this build; use --target interp\n",
            m->c.path);
    return 1;
}

// fuzz_parser.c - feeds bytes to lexer, parser and checker (libFuzzer).
//
// Whatever the bytes are, there is a program or an error, messages can be printed, and every place
// lies inside its source. Seeds: the models and tests/language.

#include "program.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_places(const Ast *a, const Diag *d)
{
    const Source *s = &d->sources.v[a->place.file];
    if (!a->place.file || (uint64_t)a->place.offset + a->place.length > (uint64_t)s->length + 1)
        abort();
    for (int i = 0; i < a->n; i++)
        if (a->kids[i])
            check_places(a->kids[i], d);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (memmem(data, size, "import", 6)) // no files: what they hold is not in the bytes
        return 0;
    Mem mem;
    Diag d;
    mem_init(&mem);
    diag_init(&d, &mem);
    const Program *p = pcvrc_load_text(&mem, &d, "fuzz", (const char *)data, size, NULL, 0);
    if (!p != (d.errors > 0) || (d.errors > 0) != (diag_text(&d, &mem.perm)[0] != '\0'))
        abort();
    if (p)
        check_places(p->trees.v[0], &d);
    mem_free(&mem);
    return 0;
}

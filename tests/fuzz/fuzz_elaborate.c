// fuzz_elaborate.c - feeds bytes to the whole front end: parser, checker,
// configuration, elaboration (libFuzzer).
//
// Whatever the bytes are, there is a graph or an error, and a graph is one that the
// passes take: operands stand before their users. Imports are looked for beside the
// models. Seeds: the models and tests/language.

#include "elab.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char SCHEMA[] = "tests/golden/models/onetrans/tiny/schema.json";

static void
check_graph(const Graph *g)
{
    for (int k = 0; k < g->n_nodes; k++) {
        const Node *n = g->nodes[k];
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i]->id >= n->id || n->in[i] != g->nodes[n->in[i]->id])
                abort();
    }
    if (!g->logits || g->logits != g->nodes[g->logits->id])
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static Schema *schema;
    DataError error = {{0}};
    Mem mem;
    Diag d;
    if (!schema && !(schema = schema_read(SCHEMA, &error)))
        abort();
    schema_set_lens(schema, "seq_a:8,seq_b:6,seq_c:10", &error);
    mem_init(&mem);
    diag_init(&d, &mem);
    const Program *p =
        pcvrc_load_text(&mem, &d, "models/fuzz.pcvr", (const char *)data, size, NULL, 0);
    Config *c = p ? config_new(&mem, &d, p) : NULL;
    Graph *g = c ? elaborate(&mem, &d, p, c, schema) : NULL;
    if (!g != (d.errors > 0) || (d.errors > 0) != (diag_text(&d, &mem.perm)[0] != '\0'))
        abort();
    if (g) {
        check_graph(g);
        json_t *values = config_json(c), *train = config_train_json(c);
        json_decref(values);
        json_decref(train);
    }
    mem_free(&mem);
    return 0;
}

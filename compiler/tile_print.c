// tile_print.c - a tile program as stable text, for --dump=schedule and --dump=plan.

#include "tile.h"

static const char *const space_names[] = {"raw",     "input", "const",   "param",  "packed",   "kept",
                                          "scratch", "chunk", "acc",   "dlogits", "logits", "embedding"};

static const char *const kind_names[] = {
    "loop",   "zero",        "product", "normalize",    "normalize_back", "softmax",
    "rope",   "rope_table",  "gather",  "scatter_add",  "embed",          "bag",
    "rows",   "rows_bag",    "projected", "rows_projected", "argsort",    "unique_last",
    "dropout", "chance",     "attend",  "attend_back",
};

// "scratch#12+64[52, 64:192]": buffer, first element, extents with strides that are not contiguous.
static void
print_view(const Tiles *t, const View *v, bool planned, FILE *f)
{
    if (!v->buf) {
        fprintf(f, " -");
        return;
    }
    fprintf(f, " %s", space_names[v->buf->space]);
    if (v->buf->space == SP_PARAM)
        fprintf(f, "(%s)", t->g->params[v->buf->index].name);
    else if (v->buf->space == SP_RAW)
        fprintf(f, "(%s)", t->g->inputs[v->buf->index].name);
    else if (planned)
        fprintf(f, "@%lld", (long long)v->buf->offset);
    if (v->first)
        fprintf(f, "+%lld", (long long)v->first);
    fprintf(f, "[");
    int64_t step = 1;
    bool plain[MAX_RANK];
    for (int k = v->rank - 1; k >= 0; k--) {
        plain[k] = v->dim[k] == 1 || v->stride[k] == step;
        step *= v->dim[k];
    }
    for (int k = 0; k < v->rank; k++) {
        fprintf(f, "%s%lld", k ? ", " : "", (long long)v->dim[k]);
        if (!plain[k])
            fprintf(f, ":%lld", (long long)v->stride[k]);
    }
    fprintf(f, "]");
}

static void
print_stmt(const Tiles *t, const Stmt *s, bool planned, FILE *f)
{
    fprintf(f, "  %s", kind_names[s->kind]);
    for (int i = 0; i < s->n_expr; i++)
        fprintf(f, "%s%s", i ? "." : " ", op_info[s->expr[i]->op].name);
    if (s->reduce)
        fprintf(f, " %s", op_info[s->node->op].name);
    for (int k = 0; k < s->n_out; k++)
        print_view(t, &s->out[k], planned, f);
    fprintf(f, s->add ? " +=" : " =");
    for (int k = 0; k < s->n_in; k++)
        print_view(t, &s->in[k], planned, f);
    for (int k = 0; k < s->n_leaf; k++) {
        if (s->leaf[k].node && node_is_scalar_const(s->leaf[k].node))
            fprintf(f, " literal");
        else
            print_view(t, &s->leaf[k].view, planned, f);
    }
    fprintf(f, "\n");
}

void
tiles_print(const Tiles *t, bool planned, FILE *f)
{
    for (int i = 0; i < t->regions.n; i++) {
        const Region *r = t->regions.v[i];
        fprintf(f, "region %s\n", r->name);
        for (int k = 0; k < r->stmts.n; k++) {
            const Stmt *s = r->stmts.v[k];
            if (k == 0 || s->phase != r->stmts.v[k - 1]->phase)
                fprintf(f, " phase %d, %s\n", s->phase, s->batched ? "batch" : "sample");
            print_stmt(t, s, planned, f);
        }
    }
    if (!planned)
        return;
    fprintf(f, "input %lld  kept %lld  scratch %lld  packed %lld  accumulators %lld bytes\n",
            (long long)t->input_bytes, (long long)t->kept_bytes, (long long)t->scratch_bytes,
            (long long)t->packed_floats * 4, (long long)t->acc_floats * 4);
}

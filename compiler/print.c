// print.c - the graph as stable text, one line a node.
//
//     %12 = matmul %3 %7 tb : f32[52, 64]  # h blocks.0 onetrans.pcvr:41
//     acc %40 out.weight use=0 start=0 : f32[64, 64]  # backward blocks.0 toy.pcvr:33

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

enum { SHOWN = 16 }; // values of a constant or list; more are counted

// The shortest decimal that reads back as v.
static void
print_double(FILE *f, double v)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (isnan(v) || strtod(text, NULL) == v)
            break;
    }
    fputs(text, f);
}

static void
print_list(FILE *f, const int64_t *v, int64_t n)
{
    fputc('(', f);
    for (int64_t k = 0; k < n && k < SHOWN; k++)
        fprintf(f, "%s%" PRId64, k ? ", " : "", v[k]);
    if (n > SHOWN)
        fprintf(f, ", … %" PRId64 " in all", n);
    fputc(')', f);
}

static void
print_const(FILE *f, const Const *c)
{
    bool many = c->n != 1;
    if (many)
        fputc('{', f);
    for (int64_t k = 0; k < c->n && k < SHOWN; k++) {
        if (k)
            fputs(", ", f);
        if (c->f)
            print_double(f, c->f[k]);
        else
            fprintf(f, "%" PRId64, c->i[k]);
    }
    if (c->n > SHOWN) {
        uint64_t h = 0xcbf29ce484222325u; // of the rest, so that a difference shows
        const unsigned char *b = c->f ? (const void *)c->f : (const void *)c->i;
        for (size_t k = 0; k < (size_t)c->n * 8; k++)
            h = (h ^ b[k]) * 0x100000001b3u;
        fprintf(f, ", … %" PRId64 " in all, hash %016" PRIx64, c->n, h);
    }
    if (many)
        fputc('}', f);
}

static void
print_shape(FILE *f, Shape s)
{
    fputc('[', f);
    for (int k = 0; k < s.rank; k++)
        fprintf(f, "%s%" PRId64, k ? ", " : "", s.dim[k]);
    fputc(']', f);
}

// ---- masks --------------------------------------------------------------------------

static const char *
infix(MaskKind kind)
{
    static const char *const text[] = {
        [MASK_ADD] = "+", [MASK_SUB] = "-", [MASK_MUL] = "*", [MASK_FLOORDIV] = "//",
        [MASK_MOD] = "%", [MASK_EQ] = "==", [MASK_NE] = "!=", [MASK_LT] = "<",
        [MASK_LE] = "<=", [MASK_GT] = ">",  [MASK_GE] = ">=", [MASK_AND] = "and",
        [MASK_OR] = "or", [MASK_IF] = NULL,
    };
    return text[kind];
}

static void
mask_add(Arena *a, Text *t, const Mask *m, bool inner)
{
    const char *op = infix(m->kind);
    if (inner && (op || m->kind == MASK_IF))
        text_add(a, t, "(");
    switch (m->kind) {
    case MASK_INT:
        text_add(a, t, "%" PRId64, m->value);
        break;
    case MASK_I:
        text_add(a, t, "i");
        break;
    case MASK_J:
        text_add(a, t, "j");
        break;
    case MASK_TENSOR:
        text_add(a, t, "in%" PRId64, m->value);
        break;
    case MASK_NEG:
        text_add(a, t, "-");
        break;
    case MASK_NOT:
        text_add(a, t, "not ");
        break;
    case MASK_ABS:
        text_add(a, t, "abs");
        break;
    case MASK_MIN:
        text_add(a, t, "min");
        break;
    case MASK_MAX:
        text_add(a, t, "max");
        break;
    case MASK_LIST:
        text_add(a, t, "(");
        for (int64_t k = 0; k < m->n_list; k++)
            text_add(a, t, "%s%" PRId64, k ? ", " : "", m->list[k]);
        text_add(a, t, ")");
        break;
    default:
        break;
    }
    static const char *const words[] = {"if ", " then ", " else "};
    bool call = m->kind == MASK_ABS || m->kind == MASK_MIN || m->kind == MASK_MAX;
    bool indexed = m->n_kids && (m->kind == MASK_TENSOR || m->kind == MASK_LIST);
    if (call || indexed)
        text_add(a, t, call ? "(" : "[");
    for (int k = 0; k < m->n_kids; k++) {
        if (m->kind == MASK_IF)
            text_add(a, t, "%s", words[k]);
        else if (k)
            text_add(a, t, call ? ", " : " %s ", op);
        mask_add(a, t, m->kid[k], !call && !indexed);
    }
    if (call || indexed)
        text_add(a, t, call ? ")" : "]");
    if (inner && (op || m->kind == MASK_IF))
        text_add(a, t, ")");
}

const char *
mask_text(Arena *a, const Mask *m)
{
    Text t = {0};
    mask_add(a, &t, m, false);
    return t.v;
}

// ---- attributes ---------------------------------------------------------------------

static void
print_int(FILE *f, const char *name, int64_t v)
{
    fprintf(f, " %s=%" PRId64, name, v);
}

static void
print_real(FILE *f, const char *name, double v)
{
    fprintf(f, " %s=", name);
    print_double(f, v);
}

static void
print_index(const Graph *g, const Node *n, FILE *f)
{
    int64_t k = n->a.index;
    if (n->op == OP_INPUT)
        fprintf(f, " %s", g->inputs[k].name);
    else if (n->op == OP_PART)
        fprintf(f, " %" PRId64, k);
    else
        fprintf(f, " %s", g->params[k].name);
}

// One attribute by its name in the table; zeros that mean "not used" are left out.
static void
print_attr(const Graph *g, const Node *n, const char *name, FILE *f)
{
    const Attr *a = &n->a;
    const struct {
        const char *name;
        int64_t v;
        bool always;
    } integers[] = {
        {"axis", a->axis, true},        {"start", a->start, true},
        {"count", a->count, true},      {"use", a->use, true},
        {"heads", a->heads, true},      {"site", a->site, false},
        {"first", a->first, false},     {"pitch", a->pitch, false},
        {"q_first", a->q_first, false}, {"q_rows", a->q_rows, false},
        {"k_first", a->k_first, false}, {"k_rows", a->k_rows, false},
    };
    const struct {
        const char *name;
        bool v;
    } flags[] = {
        {"ta", a->ta},           {"tb", a->tb},
        {"keep", a->keep},       {"adjacent", a->adjacent},
        {"inverse", a->inverse}, {"joined", a->joined},
    };
    for (size_t k = 0; k < sizeof integers / sizeof *integers; k++)
        if (!strcmp(name, integers[k].name) && (integers[k].v || integers[k].always))
            print_int(f, name, integers[k].v);
    for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
        if (!strcmp(name, flags[k].name) && flags[k].v)
            fprintf(f, " %s", name);
    if (!strcmp(name, "index"))
        print_index(g, n, f);
    else if (!strcmp(name, "p"))
        print_real(f, name, a->p);
    else if (!strcmp(name, "lo"))
        print_real(f, name, a->lo);
    else if (!strcmp(name, "hi"))
        print_real(f, name, a->hi);
    else if (!strcmp(name, "list")) {
        fputc(' ', f);
        print_list(f, a->list, a->n_list);
    } else if (!strcmp(name, "shape")) {
        fputc(' ', f);
        print_shape(f, a->shape);
    } else if (!strcmp(name, "data")) {
        fputc(' ', f);
        print_const(f, a->data);
    } else if (!strcmp(name, "mask") && a->mask) {
        fprintf(f, " mask=\"%s\"", mask_text(&g->mem->perm, a->mask));
    }
}

static void
print_attrs(const Graph *g, const Node *n, FILE *f)
{
    const char *at = op_info[n->op].attrs;
    while (*at) {
        char name[16];
        size_t len = strcspn(at, " ");
        if (len >= sizeof name)
            die("attribute name too long in '%s'", op_info[n->op].attrs);
        memcpy(name, at, len);
        name[len] = '\0';
        print_attr(g, n, name, f);
        at += len + strspn(at + len, " ");
    }
}

static void
print_remark(const Graph *g, const Node *n, FILE *f)
{
    static const char *const part[] = {NULL, "recompute", "backward"};
    const char *sep = "  # ";
    int line = 0, col = 0;
    if (part[n->part]) {
        fprintf(f, "%s%s", sep, part[n->part]);
        sep = " ";
    }
    if (n->kept) {
        fprintf(f, "%skept", sep);
        sep = " ";
    }
    if (n->name) {
        fprintf(f, "%s%s", sep, n->name);
        sep = " ";
    }
    if (n->call) {
        fprintf(f, "%s%s", sep, n->call->name);
        if (n->call->ordinal)
            fprintf(f, "(%d)", n->call->ordinal + 1);
        sep = " ";
    }
    if (!n->place.file || !g->diag)
        return;
    place_line_col(g->diag, n->place, &line, &col);
    fprintf(f, "%s%s:%d", sep, place_path(g->diag, n->place), line);
}

void
node_print(const Graph *g, const Node *n, FILE *f)
{
    if (!(op_info[n->op].flags & OPF_SINK))
        fprintf(f, "%%%d = ", n->id);
    fputs(op_info[n->op].name, f);
    for (int k = 0; k < n->n_in; k++)
        fprintf(f, " %%%d", n->in[k]->id);
    print_attrs(g, n, f);
    fprintf(f, " : %s", dtype_name(n->type));
    print_shape(f, n->shape);
    print_remark(g, n, f);
    fputc('\n', f);
}

void
graph_print(const Graph *g, FILE *f)
{
    for (int k = 0; k < g->n_nodes; k++)
        node_print(g, g->nodes[k], f);
    if (g->logits)
        fprintf(f, "logits %%%d\n", g->logits->id);
    if (g->embedding)
        fprintf(f, "embedding %%%d\n", g->embedding->id);
}

// emit_loop.c - elementwise expressions and reductions as loop nests, on vectors or on scalars.

#include "emit.h"

#include <string.h>

// One loop being written: axes after merging, and the views walked along them.
typedef struct Loop {
    Emit *e;
    const Stmt *s;
    View out, also[2];
    View *leaf; // [s->n_leaf]
    bool axes[MAX_RANK];
    int rank;
    const char *index[MAX_RANK];
    int depth;      // of indentation
    bool declared;  // something is declared outside of all loops
    bool *leaf_named, *expr_named; // has a variable; else it is written where it is used
} Loop;

static const char *const axis_index[] = {"i0", "i1", "i2", "i3", "i4"};

static void
line(Loop *l, const char *text)
{
    for (int i = 0; i < l->depth; i++)
        put(l->e, "    ");
    put(l->e, "%s", text);
}

static void
declare(Loop *l)
{
    line(l, "");
    l->declared = l->declared || l->depth == 1;
}

static void
open_axis(Loop *l, int k)
{
    if (l->out.dim[k] == 1)
        return;
    line(l, "");
    put(l->e, "for (int %s = 0; %s < %D; %s++) {\n", axis_index[k], axis_index[k], l->out.dim[k],
        axis_index[k]);
    l->depth++;
}

static void
close_to(Loop *l, int depth)
{
    while (l->depth > depth) {
        l->depth--;
        line(l, "}\n");
    }
}

static bool
is_literal(const Leaf *l)
{
    return l->node && node_is_scalar_const(l->node);
}

static int
leaf_index(const Stmt *s, const Node *n)
{
    for (int i = 0; i < s->n_leaf; i++)
        if (s->leaf[i].node == n)
            return i;
    return -1;
}

static const char *
scalar_type(DType t)
{
    return t == DT_F32 ? "float" : t == DT_I64 ? "int64_t" : "int";
}

static const char *
form_of(const Loop *l, const Node *n)
{
    return op_form(&l->e->mem->scratch, l->s, n);
}

// ---- values --------------------------------------------------------------------------------------

static DType
leaf_type(const Leaf *l)
{
    return l->node ? l->node->type : l->view.buf->type;
}

static int64_t
last_step(const Loop *l, const View *v)
{
    return v->stride[l->rank - 1];
}

static void
put_literal(Loop *l, const Node *n)
{
    const Const *c = n->a.data;
    Arena *a = &l->e->mem->scratch;
    int64_t i = c->i ? c->i[0] : (int64_t)c->f[0];
    if (n->type == DT_F32) {
        const char *v = c_float_text(a, c->f ? c->f[0] : (double)c->i[0]);
        put(l->e, l->s->vector ? "v_set1(%s)" : "%s", v);
    } else if (l->s->vector) {
        put(l->e, "vm_all(%d)", (int)i);
    } else if (n->type == DT_I64 && i >= INT32_MIN && i <= INT32_MAX) {
        put(l->e, "%$", i);
    } else {
        put(l->e, i == INT64_MIN ? "INT64_MIN" : "%D", i);
    }
}

// Reads leaf i: a scalar, one element for all lanes, or a vector from column c on.
static void
put_leaf(Loop *l, int i)
{
    const View *v = &l->leaf[i];
    bool truth = leaf_type(&l->s->leaf[i]) == DT_BOOL;
    if (is_literal(&l->s->leaf[i])) {
        put_literal(l, l->s->leaf[i].node);
        return;
    }
    if (!l->s->vector) {
        put_at(l->e, v, l->index, true);
        return;
    }
    bool row = last_step(l, v) == 1;
    put(l->e, "%s(",
        truth ? (row ? "vm_bytes" : "vm_all") : (row ? "v_load_n" : "v_set1"));
    put_at(l->e, v, l->index, !row);
    put(l->e, row ? ", n)" : ")");
}

static void
put_operand(Loop *l, const Node *n);

static void
put_expr(Loop *l, const Node *n)
{
    for (const char *f = form_of(l, n); *f; f++) {
        if (*f == '#')
            put_operand(l, n->in[*++f - '0']);
        else
            put(l->e, *f == '%' ? "%%" : arena_printf(&l->e->mem->scratch, "%c", *f));
    }
}

static void
put_operand(Loop *l, const Node *n)
{
    int i = leaf_index(l->s, n);
    if (i >= 0) {
        if (l->leaf_named[i])
            put(l->e, "x%d", i);
        else
            put_leaf(l, i);
        return;
    }
    i = expr_index(l->s, n);
    if (l->expr_named[i])
        put(l->e, "y%d", i);
    else
        put_expr(l, n);
}

static void
put_result(Loop *l)
{
    int last = l->s->n_expr - 1;
    if (last >= 0 && l->expr_named[last])
        put(l->e, "y%d", last);
    else if (last >= 0)
        put_expr(l, l->s->expr[last]);
    else if (l->leaf_named[0])
        put(l->e, "x0");
    else
        put_leaf(l, 0);
}

static void
declare_leaf(Loop *l, int i)
{
    DType type = leaf_type(&l->s->leaf[i]);
    declare(l);
    const char *name = !l->s->vector       ? scalar_type(type)
                       : type == DT_BOOL ? "v_mask"
                                           : "v_f32";
    put(l->e, "const %s x%d = ", name, i);
    put_leaf(l, i);
    put(l->e, ";\n");
}

// The variables of a loop body: leaves that stay along the last axis, or those that move.
static void
declare_leaves(Loop *l, bool moving)
{
    for (int i = 0; i < l->s->n_leaf; i++)
        if (l->leaf_named[i] && (last_step(l, &l->leaf[i]) != 0) == moving)
            declare_leaf(l, i);
}

static void
declare_values(Loop *l)
{
    for (int i = 0; i < l->s->n_expr; i++) {
        const Node *n = l->s->expr[i];
        if (!l->expr_named[i])
            continue;
        const char *type = scalar_type(n->type);
        if (l->s->vector)
            type = n->type == DT_F32 ? "v_f32" : "v_mask";
        declare(l);
        put(l->e, "const %s y%d = ", type, i);
        put_expr(l, n);
        put(l->e, ";\n");
    }
}

enum { NESTED_MOST = 6 }; // operations in one expression

// What is used twice, grows too long, or stays along a row of vectors gets a variable. A loop with several
// results names all operands, so that they are read before anything is written over them.
static void
choose_names(Loop *l, bool name_result)
{
    const Stmt *s = l->s;
    Arena *a = &l->e->mem->scratch;
    int *leaf_uses = arena_array(a, int, s->n_leaf), *uses = arena_array(a, int, s->n_expr + 1);
    int *weight = arena_array(a, int, s->n_expr + 1);
    l->leaf_named = arena_array(a, bool, s->n_leaf);
    l->expr_named = arena_array(a, bool, s->n_expr + 1);
    for (int i = 0; i < s->n_expr; i++)
        for (const char *f = form_of(l, s->expr[i]); *f; f++)
            if (*f == '#') {
                const Node *n = s->expr[i]->in[*++f - '0'];
                int k = leaf_index(s, n);
                if (k >= 0)
                    leaf_uses[k]++;
                else
                    uses[expr_index(s, n)]++;
            }
    for (int i = 0; i < s->n_leaf; i++) {
        bool fixed = s->vector && last_step(l, &l->leaf[i]) == 0;
        l->leaf_named[i] =
            !is_literal(&s->leaf[i]) && (fixed || leaf_uses[i] > 1 || s->n_out > 1);
    }
    for (int i = 0; i < s->n_expr; i++) {
        const Node *n = s->expr[i];
        weight[i] = 1;
        for (int k = 0; k < n->n_in; k++)
            if (leaf_index(s, n->in[k]) < 0 && !l->expr_named[expr_index(s, n->in[k])])
                weight[i] += weight[expr_index(s, n->in[k])];
        bool last = i == s->n_expr - 1;
        l->expr_named[i] = uses[i] > 1 || weight[i] > NESTED_MOST || (last && name_result);
    }
    for (int k = 1; k < s->n_out; k++)
        l->expr_named[expr_index(s, s->also[k - 1])] = true;
    if (s->n_expr == 0 && name_result && !is_literal(&s->leaf[0]))
        l->leaf_named[0] = true;
}

// ---- elementwise -------------------------------------------------------------------------------

static void
open_vectors(Loop *l)
{
    line(l, "");
    put(l->e, "K_EACH(c, n, %D, {\n", l->out.dim[l->rank - 1]);
    l->index[l->rank - 1] = "c";
    l->depth++;
}

static void
close_vectors(Loop *l)
{
    l->depth--;
    line(l, "});\n");
}

static void
vector_elements(Loop *l)
{
    for (int k = 0; k + 1 < l->rank; k++)
        open_axis(l, k);
    declare_leaves(l, false);
    open_vectors(l);
    declare_leaves(l, true);
    declare_values(l);
    for (int k = 1; k < l->s->n_out; k++) {
        line(l, "v_store_n(");
        put_at(l->e, &l->also[k - 1], l->index, false);
        put(l->e, ", n, y%d);\n", expr_index(l->s, l->s->also[k - 1]));
    }
    bool truth = l->out.buf->type == DT_BOOL;
    line(l, truth ? "vm_store_n(" : "v_store_n(");
    put_at(l->e, &l->out, l->index, false);
    put(l->e, ", n, ");
    if (l->s->add) {
        put(l->e, "v_add(v_load_n(");
        put_at(l->e, &l->out, l->index, false);
        put(l->e, ", n), ");
        put_result(l);
        put(l->e, ")");
    } else {
        put_result(l);
    }
    put(l->e, ");\n");
    close_vectors(l);
}

static void
scalar_elements(Loop *l)
{
    for (int k = 0; k < l->rank; k++)
        open_axis(l, k);
    declare_leaves(l, true);
    declare_leaves(l, false);
    declare_values(l);
    line(l, "");
    put_at(l->e, &l->out, l->index, true);
    put(l->e, " %s %s", l->s->add ? "+=" : "=", l->out.buf->type == DT_BOOL ? "(uint8_t)" : "");
    put_result(l);
    put(l->e, ";\n");
}

// ---- reductions --------------------------------------------------------------------------------

static const char *
combine_name(const Node *n)
{
    return n->op == OP_SUM ? "v_add" : n->op == OP_MAX ? "v_max" : "v_min";
}

static const char *
neutral(const Node *n)
{
    return n->op == OP_SUM ? "v_zero()"
           : n->op == OP_MAX ? "v_set1(-HUGE_VALF)"
                             : "v_set1(HUGE_VALF)";
}

// Along rows: partial sums in the lanes, joined at the end.
static void
reduce_rows(Loop *l)
{
    const Node *n = l->s->node;
    for (int k = 0; k < l->rank; k++)
        if (!l->axes[k])
            open_axis(l, k);
    declare(l);
    put(l->e, "v_f32 r = %s;\n", neutral(n));
    int depth = l->depth;
    for (int k = 0; k + 1 < l->rank; k++)
        if (l->axes[k])
            open_axis(l, k);
    declare_leaves(l, false);
    open_vectors(l);
    declare_leaves(l, true);
    declare_values(l);
    line(l, "");
    put(l->e, "r = %s(v_blend(vm_first(n), ", combine_name(n));
    put_result(l);
    put(l->e, ", %s), r);\n", neutral(n));
    close_vectors(l);
    close_to(l, depth);
    line(l, "");
    put_at(l->e, &l->out, l->index, true);
    put(l->e, " %s %s(r);\n", l->s->add ? "+=" : "=",
        n->op == OP_SUM   ? "v_hsum"
        : n->op == OP_MAX ? "v_hmax"
                          : "v_hmin");
}

// Down columns: one chain a column, lanes side by side.
static void
reduce_columns(Loop *l)
{
    const Node *n = l->s->node;
    for (int k = 0; k + 1 < l->rank; k++)
        if (!l->axes[k])
            open_axis(l, k);
    open_vectors(l);
    line(l, "v_f32 r = ");
    if (l->s->add) {
        put(l->e, "v_load_n(");
        put_at(l->e, &l->out, l->index, false);
        put(l->e, ", n);\n");
    } else {
        put(l->e, "%s;\n", neutral(n));
    }
    int depth = l->depth;
    for (int k = 0; k + 1 < l->rank; k++)
        if (l->axes[k])
            open_axis(l, k);
    declare_leaves(l, false);
    declare_leaves(l, true);
    declare_values(l);
    line(l, "");
    put(l->e, "r = %s(r, ", combine_name(n));
    put_result(l);
    put(l->e, ");\n");
    close_to(l, depth);
    line(l, "v_store_n(");
    put_at(l->e, &l->out, l->index, false);
    put(l->e, ", n, r);\n");
    close_vectors(l);
}

static const char *
scalar_start(const Node *n)
{
    bool real = n->in[0]->type == DT_F32;
    switch (n->op) {
    case OP_ALL: return "1";
    case OP_MAX:
    case OP_ARGMAX: return real ? "-HUGE_VALF" : "INT64_MIN";
    case OP_MIN: return real ? "HUGE_VALF" : "INT64_MAX";
    default: return real ? "0.0f" : "0";
    }
}

static bool
step_repeats(const Node *n)
{
    return n->op == OP_MAX || n->op == OP_MIN || n->op == OP_ARGMAX;
}

// The step of a reduction, # standing for the value.
static const char *
scalar_step(const Node *n)
{
    switch (n->op) {
    case OP_SUM: return n->type == DT_I64 ? "r = k_iadd(r, #)" : "r += #";
    case OP_COUNT_TRUE: return "r += #";
    case OP_ANY: return "r |= #";
    case OP_ALL: return "r &= #";
    case OP_MAX: return "r = # > r ? # : r";
    case OP_MIN: return "r = # < r ? # : r";
    default: return "best = # > r ? place : best, r = # > r ? # : r, place++";
    }
}

static void
reduce_scalars(Loop *l)
{
    const Node *n = l->s->node;
    DType in = l->s->n_expr ? l->s->expr[l->s->n_expr - 1]->type : leaf_type(&l->s->leaf[0]);
    bool argmax = n->op == OP_ARGMAX;
    for (int k = 0; k < l->rank; k++)
        if (!l->axes[k])
            open_axis(l, k);
    declare(l);
    put(l->e, "%s r = %s;\n", scalar_type(n->op == OP_COUNT_TRUE ? DT_I64 : in), scalar_start(n));
    if (argmax)
        line(l, "int64_t best = 0, place = 0;\n");
    int depth = l->depth;
    for (int k = 0; k < l->rank; k++)
        if (l->axes[k])
            open_axis(l, k);
    declare_leaves(l, true);
    declare_leaves(l, false);
    declare_values(l);
    line(l, "");
    for (const char *f = scalar_step(n); *f; f++) {
        if (*f == '#')
            put_result(l);
        else
            put(l->e, "%s", arena_printf(&l->e->mem->scratch, "%c", *f));
    }
    put(l->e, ";\n");
    close_to(l, depth);
    line(l, "");
    put_at(l->e, &l->out, l->index, true);
    put(l->e, " %s %s%s;\n", l->s->add ? "+=" : "=", n->type == DT_BOOL ? "(uint8_t)" : "",
        argmax ? "best" : "r");
}

// ---- the whole ---------------------------------------------------------------------------------

static Loop
loop_make(Emit *e, const Stmt *s)
{
    Arena *a = &e->mem->scratch;
    Loop l = {.e = e, .s = s, .out = s->out[0], .depth = 1};
    View **v = arena_array(a, View *, s->n_leaf + 3);
    l.leaf = arena_array(a, View, s->n_leaf);
    int n = 0;
    v[n++] = &l.out;
    for (int k = 1; k < s->n_out; k++) {
        l.also[k - 1] = s->out[k];
        v[n++] = &l.also[k - 1];
    }
    for (int i = 0; i < s->n_leaf; i++) {
        l.leaf[i] = s->leaf[i].view;
        if (!is_literal(&s->leaf[i]))
            v[n++] = &l.leaf[i];
    }
    memcpy(l.axes, s->axes, sizeof l.axes);
    view_collapse(v, n, s->reduce ? l.axes : NULL);
    l.rank = l.out.rank;
    for (int k = 0; k < l.rank; k++)
        l.index[k] = axis_index[k];
    return l;
}

// A plain copy of rows that stand side by side.
static bool
copy_rows(Emit *e, const Loop *l)
{
    const Stmt *s = l->s;
    if (s->n_expr || s->reduce || s->add || is_literal(&s->leaf[0]) || l->rank > 2)
        return false;
    int last = l->rank - 1;
    if (l->out.stride[last] != 1 || l->leaf[0].stride[last] != 1)
        return false;
    if (l->rank == 2 && l->out.buf->type == DT_F32) {
        put(e, "k_copy(%D, %D, %p, %D, %p, %D);\n", l->out.dim[0], l->out.dim[1], &l->leaf[0],
            l->leaf[0].stride[0], &l->out, l->out.stride[0]);
        return true;
    }
    if (l->rank == 2)
        return false;
    const char *type = l->out.buf->type == DT_F32   ? "float"
                       : l->out.buf->type == DT_I64 ? "int64_t"
                                                    : "uint8_t";
    put(e, "memcpy(%p, %p, %D * sizeof(%s));\n", &l->out, &l->leaf[0], l->out.dim[0], type);
    return true;
}

static void
put_bounds(Loop *l)
{
    for (int i = 0; i < l->s->n_expr; i++) {
        const Node *n = l->s->expr[i];
        if (n->op != OP_BUCKETIZE)
            continue;
        const Const *c = n->a.data;
        declare(l);
        put(l->e, "static const double bounds_%d[] = {", i);
        for (int64_t k = 0; k < c->n; k++)
            put(l->e, "%s%g", k ? ", " : "", c->f ? c->f[k] : (double)c->i[k]);
        put(l->e, "%s};\n", c->n ? "" : "0");
    }
}

// The loop stands in braces of its own where it declares something outside of its loops.
static void
finish_block(Loop *l)
{
    Text body = l->e->text;
    l->e->text = (Text){0};
    if (l->declared) {
        put(l->e, "{\n%s}\n", body.v);
        return;
    }
    for (const char *at = body.v; *at;) {
        size_t n = strcspn(at, "\n") + 1;
        text_add_bytes(&l->e->mem->scratch, &l->e->text, at + 4, n - 4);
        at += n;
    }
}

void
emit_loop(Emit *e, const Stmt *s)
{
    Loop l = loop_make(e, s);
    if (copy_rows(e, &l))
        return;
    Text before = e->text;
    e->text = (Text){0};
    choose_names(&l, s->n_out > 1 || (s->reduce && !s->vector && step_repeats(s->node)));
    put_bounds(&l);
    bool rows = s->reduce && l.axes[l.rank - 1];
    if (!s->reduce && s->vector)
        vector_elements(&l);
    else if (!s->reduce)
        scalar_elements(&l);
    else if (!s->vector)
        reduce_scalars(&l);
    else if (rows)
        reduce_rows(&l);
    else
        reduce_columns(&l);
    close_to(&l, 1);
    finish_block(&l);
    if (before.n) {
        Text block = e->text;
        e->text = before;
        text_add_bytes(&e->mem->scratch, &e->text, block.v, (size_t)block.n);
    }
}

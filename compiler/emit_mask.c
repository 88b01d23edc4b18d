// emit_mask.c - the predicate of a mask on vectors of queries: a row of bits a key.
//
// What depends on the key alone is computed once a row, as C; the rest is vector code over i. Both
// sides of an "and" are then evaluated, so lists and tensors are read only at i and j themselves,
// where they are long enough: a predicate that reads elsewhere is left to the bytes of emit_attend.c.

#include "emit_mask.h"

enum { ROWS_FROM = 32 };              // queries
static const int64_t SMALL = 1 << 20; // numbers that stay far from the ends of 32 bits

typedef struct Rows {
    Emit *e;
    const Stmt *s;
    int64_t queries, keys;
    int lists;  // met so far
    int n;      // values of the key alone
    Text once;  // their declarations
    bool fail;
} Rows;

static bool
has(const Mask *m, MaskKind kind)
{
    bool found = m->kind == kind;
    for (int k = 0; k < m->n_kids; k++)
        found |= has(m->kid[k], kind);
    return found;
}

static bool
is_small(const Mask *m)
{
    for (int64_t k = 0; k < m->n_list; k++)
        if (m->list[k] > SMALL || m->list[k] < -SMALL)
            return false;
    return true;
}

// Whether lists and tensors are read at i and j only, within their lengths.
static bool
is_plain(const Rows *r, const Mask *m)
{
    const Node *n = r->s->node;
    if (m->kind == MASK_INT && (m->value > SMALL || m->value < -SMALL))
        return false;
    if ((m->kind == MASK_LIST || m->kind == MASK_TENSOR) && m->n_kids > 0) {
        const Mask *at = m->kid[0];
        int64_t end = at->kind == MASK_I ? n->a.q_first + r->queries : n->a.k_first + r->keys;
        if (at->kind != MASK_I && at->kind != MASK_J)
            return false;
        if (m->kind == MASK_LIST)
            return end <= m->n_list && is_small(m);
        const View *v = captured_view(r->s, m);
        return v->rank == 1 && end <= v->dim[0];
    }
    for (int k = 0; k < m->n_kids; k++)
        if (!is_plain(r, m->kid[k]))
            return false;
    return true;
}

static const char *
no_form(Rows *r)
{
    r->fail = true;
    return "";
}

// A value that does not depend on i, made before the row.
static const char *
row_value(Rows *r, const Mask *m, const char *type, const char *make)
{
    Arena *a = &r->e->mem->scratch;
    const char *name = arena_printf(a, "m%d", r->n++);
    text_add(a, &r->once, "        const %s %s = %s%s);\n", type, name, make,
             mask_expr(r->e, r->s, m, &r->lists));
    return name;
}

// An integer of the queries i.
static const char *
int_form(Rows *r, const Mask *m)
{
    Arena *a = &r->e->mem->scratch;
    if (!has(m, MASK_I)) {
        if (has(m, MASK_TENSOR) || has(m, MASK_MUL))
            return no_form(r);
        return row_value(r, m, "v_i32", "vi_set1((int32_t)");
    }
    switch (m->kind) {
    case MASK_I: return "i";
    case MASK_LIST: {
        int number = r->lists++;
        return arena_printf(a, "vi_load_n(list_%d + i0 + %lld, lanes)", number,
                            (long long)r->s->node->a.q_first);
    }
    case MASK_ADD:
    case MASK_SUB: {
        const char *x = int_form(r, m->kid[0]), *y = int_form(r, m->kid[1]);
        return arena_printf(a, "vi_%s(%s, %s)", m->kind == MASK_ADD ? "add" : "sub", x, y);
    }
    case MASK_NEG: return arena_printf(a, "vi_sub(vi_set1(0), %s)", int_form(r, m->kid[0]));
    default: return no_form(r);
    }
}

static const char *bool_form(Rows *r, const Mask *m);

// x < y and the like by what there is: < and ==, swapped and negated.
static const char *
compare_form(Rows *r, const Mask *m, const char *form)
{
    const char *x = int_form(r, m->kid[0]), *y = int_form(r, m->kid[1]);
    Text t = {0};
    for (; *form; form++) {
        if (*form == 'X')
            text_add(&r->e->mem->scratch, &t, "%s", x);
        else if (*form == 'Y')
            text_add(&r->e->mem->scratch, &t, "%s", y);
        else
            text_add(&r->e->mem->scratch, &t, "%c", *form);
    }
    return t.v;
}

// A captured truth value of each query: bytes side by side.
static const char *
tensor_form(Rows *r, const Mask *m)
{
    const View *v = captured_view(r->s, m);
    if (v->buf->type != DT_BOOL || v->stride[0] != 1 || v->dim[0] < 2)
        return no_form(r);
    Arena *a = &r->e->mem->scratch;
    const char *at = arena_printf(a, "(i0 + %lld)", (long long)r->s->node->a.q_first);
    return arena_printf(a, "vm_bytes(%s, lanes)", captured_at(r->e, v, at, false));
}

static const char *
choice_form(Rows *r, const Mask *m)
{
    const char *c = bool_form(r, m->kid[0]), *x = bool_form(r, m->kid[1]),
               *y = bool_form(r, m->kid[2]);
    return arena_printf(&r->e->mem->scratch, "vm_or(vm_and(%s, %s), vm_andnot(%s, %s))", c, x, y, c);
}

// A truth value of the queries i.
static const char *
bool_form(Rows *r, const Mask *m)
{
    Arena *a = &r->e->mem->scratch;
    if (!has(m, MASK_I))
        return row_value(r, m, "v_mask", "vm_all(");
    switch (m->kind) {
    case MASK_LIST:
        return arena_printf(a, "vm_not(vi_eq(%s, vi_set1(0)))", int_form(r, m));
    case MASK_TENSOR: return tensor_form(r, m);
    case MASK_EQ: return compare_form(r, m, "vi_eq(X, Y)");
    case MASK_NE: return compare_form(r, m, "vm_not(vi_eq(X, Y))");
    case MASK_LT: return compare_form(r, m, "vi_lt(X, Y)");
    case MASK_LE: return compare_form(r, m, "vm_not(vi_lt(Y, X))");
    case MASK_GT: return compare_form(r, m, "vi_lt(Y, X)");
    case MASK_GE: return compare_form(r, m, "vm_not(vi_lt(X, Y))");
    case MASK_AND:
    case MASK_OR: {
        const char *x = bool_form(r, m->kid[0]), *y = bool_form(r, m->kid[1]);
        return arena_printf(a, "vm_%s(%s, %s)", m->kind == MASK_AND ? "and" : "or", x, y);
    }
    case MASK_NOT: return arena_printf(a, "vm_not(%s)", bool_form(r, m->kid[0]));
    case MASK_IF: return choice_form(r, m);
    default: return no_form(r);
    }
}

static void
put_text_of(Emit *e, const char *text)
{
    text_add(&e->mem->scratch, &e->text, "%s", text);
}

bool
mask_takes_rows(Tiles *t, const Stmt *s, int64_t queries, int64_t keys)
{
    const Node *n = s->node;
    Emit aside = {.t = t, .mem = t->mem, .line = INFO(n)->line};
    Rows r = {.e = &aside, .s = s, .queries = queries, .keys = keys};
    if (!n->a.mask || queries < ROWS_FROM || queries + n->a.q_first > SMALL ||
        keys + n->a.k_first > SMALL || !is_plain(&r, n->a.mask))
        return false;
    bool_form(&r, n->a.mask);
    return !r.fail;
}

bool
emit_mask_rows(Emit *e, const Stmt *s, int64_t queries, int64_t keys)
{
    const Node *n = s->node;
    Rows r = {.e = e, .s = s, .queries = queries, .keys = keys};
    if (!mask_takes_rows(e->t, s, queries, keys))
        return false;
    text_add(&e->mem->scratch, &r.once, "%s", "");
    const char *form = bool_form(&r, n->a.mask);
    put(e, "    for (int j0 = 0; j0 < %D; j0++) {\n", keys);
    put(e, "        const int64_t j = j0 + %D;\n", n->a.k_first);
    put_text_of(e, r.once.v);
    put(e, "        K_EACH(i0, lanes, %D, {\n", queries);
    put(e, "            const v_i32 i = vi_add(vi_iota(), vi_set1((int)i0 + %D));\n", n->a.q_first);
    put(e, "            k_mask_put(mask + j0 * K_MASK_ROW(%D), i0, ", queries);
    put_text_of(e, form);
    put(e, ");\n            (void)i, (void)lanes;\n        });\n        (void)j;\n    }\n");
    return true;
}

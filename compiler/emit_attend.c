// emit_attend.c - attention: the mask as tables and bytes, then one call of the kernel.
//
// The predicate is evaluated for every pair at compile time, with captured tensors unknown. What it allows
// at most gives each query a range of keys; where that says everything there is no mask at all, else the
// predicate is written as C and fills a mask from the sample's data: rows of bits on vectors of queries
// (emit_mask.c), or bytes where it is too odd for that or the queries are few.

#include "emit.h"
#include "emit_mask.h"

#include <string.h>

static const char *
mask_pair(Emit *e, const Stmt *s, const Mask *m, int *lists, const char *fmt)
{
    const char *x = mask_expr(e, s, m->kid[0], lists);
    const char *y = m->n_kids > 1 ? mask_expr(e, s, m->kid[1], lists) : "";
    Text t = {0};
    text_add(&e->mem->scratch, &t, "%s", "");
    for (; *fmt; fmt++) {
        if (*fmt == 'x')
            text_add(&e->mem->scratch, &t, "%s", x);
        else if (*fmt == 'y')
            text_add(&e->mem->scratch, &t, "%s", y);
        else
            text_add(&e->mem->scratch, &t, "%c", *fmt);
    }
    return t.v;
}

const View *
captured_view(const Stmt *s, const Mask *m)
{
    bool back = s->kind == ST_ATTEND_BACK && m->value >= 3;
    return &s->in[m->value + (back ? ATTEND_BACK_EXTRA : 0)];
}

// An element of a captured tensor or where it lies, its holes filled; the piece's own text is put
// aside meanwhile.
const char *
captured_at(Emit *e, const View *v, const char *at, bool element)
{
    const char *index[MAX_RANK] = {at};
    Text kept = e->text, full = {0};
    int args = e->args.n;
    e->text = (Text){0};
    put_at(e, v, index, element);
    for (int c = 0, hole = args; c < e->text.n; c++) {
        if (e->text.v[c] == HOLE)
            text_add(&e->mem->scratch, &full, "%lld", (long long)e->args.v[hole++]);
        else
            text_add(&e->mem->scratch, &full, "%c", e->text.v[c]);
    }
    e->args.n = args;
    e->text = kept;
    return full.v;
}

// Whether an index lies in 0 .. n for all queries and keys.
static bool
is_within(const Stmt *s, const Mask *at, int64_t n)
{
    const Attr *a = &s->node->a;
    const Shape q = s->node->in[0]->shape, k = s->node->in[1]->shape;
    switch (at->kind) {
    case MASK_I: return a->q_first + q.dim[q.rank - 2] <= n;
    case MASK_J: return a->k_first + k.dim[k.rank - 2] <= n;
    case MASK_MOD: return at->kid[1]->kind == MASK_INT && at->kid[1]->value > 0 && at->kid[1]->value <= n;
    default: return false;
    }
}

// The index of one of n elements, clamped as mask_value does.
static const char *
element_index(Emit *e, const Stmt *s, const Mask *at, int64_t n, int *lists)
{
    Arena *a = &e->mem->scratch;
    const char *text = mask_expr(e, s, at, lists);
    return is_within(s, at, n) ? arena_printf(a, "(%s)", text)
                               : arena_printf(a, "k_clamp(%s, %lld)", text, (long long)n);
}

static const char *
captured(Emit *e, const Stmt *s, const Mask *m, int *lists)
{
    const View *v = captured_view(s, m);
    const char *at = m->n_kids > 0 ? element_index(e, s, m->kid[0], v->dim[0], lists) : NULL;
    return captured_at(e, v, at, true);
}

const char *
mask_expr(Emit *e, const Stmt *s, const Mask *m, int *lists)
{
    Arena *a = &e->mem->scratch;
    switch (m->kind) {
    case MASK_INT: return arena_printf(a, "%lld", (long long)m->value);
    case MASK_I: return "i";
    case MASK_J: return "j";
    case MASK_LIST: {
        int number = (*lists)++;
        return arena_printf(a, "list_%d[%s]", number, element_index(e, s, m->kid[0], m->n_list, lists));
    }
    case MASK_TENSOR: return captured(e, s, m, lists);
    case MASK_ADD: return mask_pair(e, s, m, lists, "(x + y)");
    case MASK_SUB: return mask_pair(e, s, m, lists, "(x - y)");
    case MASK_MUL: return mask_pair(e, s, m, lists, "(x * y)");
    case MASK_FLOORDIV: return mask_pair(e, s, m, lists, "k_floordiv(x, y)");
    case MASK_MOD: return mask_pair(e, s, m, lists, "k_mod(x, y)");
    case MASK_NEG: return mask_pair(e, s, m, lists, "(-x)");
    case MASK_ABS: return mask_pair(e, s, m, lists, "(x < 0 ? -x : x)");
    case MASK_MIN: return mask_pair(e, s, m, lists, "(x < y ? x : y)");
    case MASK_MAX: return mask_pair(e, s, m, lists, "(x > y ? x : y)");
    case MASK_EQ: return mask_pair(e, s, m, lists, "(x == y)");
    case MASK_NE: return mask_pair(e, s, m, lists, "(x != y)");
    case MASK_LT: return mask_pair(e, s, m, lists, "(x < y)");
    case MASK_LE: return mask_pair(e, s, m, lists, "(x <= y)");
    case MASK_GT: return mask_pair(e, s, m, lists, "(x > y)");
    case MASK_GE: return mask_pair(e, s, m, lists, "(x >= y)");
    case MASK_AND: return mask_pair(e, s, m, lists, "(x && y)");
    case MASK_OR: return mask_pair(e, s, m, lists, "(x || y)");
    case MASK_NOT: return mask_pair(e, s, m, lists, "!x");
    case MASK_IF: {
        const char *c = mask_expr(e, s, m->kid[0], lists);
        const char *x = mask_expr(e, s, m->kid[1], lists);
        const char *y = mask_expr(e, s, m->kid[2], lists);
        return arena_printf(a, "(%s ? %s : %s)", c, x, y);
    }
    }
    die("a mask has an unknown operation");
}

// Lists in the order in which mask_expr numbers them: a list before those in its index.
static void
put_lists(Emit *e, const Mask *m, int *number)
{
    if (m->kind == MASK_LIST) {
        put(e, "    static const int32_t list_%d[] = {", (*number)++);
        for (int64_t k = 0; k < m->n_list; k++)
            put(e, "%s%D", k ? ", " : "", m->list[k]);
        put(e, "%s};\n", m->n_list ? "" : "0");
    }
    for (int k = 0; k < m->n_kids; k++)
        put_lists(e, m->kid[k], number);
}

typedef struct Range {
    int32_t *lo, *hi; // [queries]
    bool all;         // everything is allowed
    bool whole;       // each range is all keys
    bool exact;       // the ranges say it all
    bool bits;        // the mask is rows of bits
} Range;

static Range
find_ranges(Arena *a, const Node *n, int64_t queries, int64_t keys)
{
    Range r = {.lo = arena_array(a, int32_t, queries + 1),
               .hi = arena_array(a, int32_t, queries + 1),
               .all = true, .whole = true, .exact = true};
    for (int64_t i = 0; i < queries; i++) {
        int64_t lo = keys, hi = 0, sure = 0;
        for (int64_t j = 0; j < keys; j++) {
            int allowed = mask_allows(n, n->a.q_first + i, n->a.k_first + j);
            if (allowed) {
                lo = lo < j ? lo : j;
                hi = j + 1;
            }
            sure += allowed == 1;
        }
        if (hi == 0)
            lo = 0;
        r.lo[i] = (int32_t)lo;
        r.hi[i] = (int32_t)hi;
        r.all &= sure == keys;
        r.whole &= lo == 0 && hi == keys;
        r.exact &= sure == hi - lo;
    }
    return r;
}

static void
put_numbers(Emit *e, const char *name, const int32_t *v, int64_t n)
{
    put(e, "    static const int32_t %s[] = {", name);
    for (int64_t k = 0; k < n; k++)
        put(e, "%s%d", k ? ", " : "", (int)v[k]);
    put(e, "};\n");
}

static void
put_mask_bytes(Emit *e, const Stmt *s, int64_t queries, int64_t keys)
{
    const Node *n = s->node;
    int numbered = 0;
    put(e, "    for (int j0 = 0; j0 < %D; j0++) {\n", keys);
    put(e, "        for (int i0 = 0; i0 < %D; i0++) {\n", queries);
    put(e, "            const int64_t i = i0 + %D, j = j0 + %D;\n", n->a.q_first, n->a.k_first);
    const char *text = mask_expr(e, s, n->a.mask, &numbered);
    put(e, "            mask[j0 * %D + i0] = (uint8_t)", queries);
    text_add(&e->mem->scratch, &e->text, "%s", text);
    put(e, ";\n            (void)i, (void)j;\n        }\n    }\n");
}

// The adjoint of the result, the result and its stats.
static void
put_result(Emit *e, const Stmt *s, const char **at)
{
    int row = s->in[0].rank - 2;
    put(e, "    const k_attend_result result = {\n        .dout = ");
    put_at(e, &s->in[3], at, false);
    put(e, ", .lddo = %D,\n        .out = ", s->in[3].stride[row]);
    put_at(e, &s->in[4], at, false);
    put(e, ", .ldo = %D,\n        .stats = ", s->in[4].stride[row]);
    put_at(e, &s->in[5], at, false);
    put(e, ",\n    };\n");
}

static void
put_call(Emit *e, const Stmt *s, const Range *r)
{
    const Node *n = s->node;
    bool back = s->kind == ST_ATTEND_BACK;
    const View *q = &s->in[0], *k = &s->in[1], *v = &s->in[2];
    int rank = q->rank, batch = rank - 2;
    int64_t queries = q->dim[rank - 2], keys = k->dim[rank - 2], width = q->dim[rank - 1] / n->a.heads;
    int64_t T0 = n->a.q_rows ? n->a.q_rows : queries, S0 = n->a.k_rows ? n->a.k_rows : keys;
    static const char *const names[] = {"i0", "i1", "i2"};
    const char *at[MAX_RANK] = {0}, *number = "0";
    Arena *a = &e->mem->scratch;
    for (int b = 0; b < batch; b++) {
        put(e, "    for (int %s = 0; %s < %D; %s++)\n", names[b], names[b], q->dim[b], names[b]);
        at[b] = names[b];
        number = b ? arena_printf(a, "(%s * %lld + %s)", number, (long long)q->dim[b], names[b])
                   : names[b];
    }
    put(e, "    {\n    const k_attend attend = {\n        .T = %D, .S = %D, .H = %D, .W = %D,\n",
        queries, keys, n->a.heads, width);
    put(e, "        .q = ");
    put_at(e, q, at, false);
    put(e, ", .ldq = %D,\n        .k = ", q->stride[rank - 2]);
    put_at(e, k, at, false);
    put(e, ", .ldk = %D,\n        .v = ", k->stride[rank - 2]);
    put_at(e, v, at, false);
    put(e, ", .ldv = %D,\n", v->stride[rank - 2]);
    if (!r->whole)
        put(e, "        .lo = lo, .hi = hi,\n");
    if (!r->all && !r->exact && r->bits)
        put(e, "        .rows = mask,\n");
    else if (!r->all && !r->exact)
        put(e, "        .mask = mask, .ldm = %D,\n", queries);
    if (n->a.p > 0.0)
        put(e, "        .drop = x->training ? &drop : NULL,\n");
    put(e, "        .T0 = %D, .S0 = %D, .q_first = (int)(%D%s%s), .k_first = %D,\n", T0, S0,
        n->a.q_first, batch ? " + " : "",
        batch ? arena_printf(a, "%s * %lld", number, (long long)(n->a.heads * T0)) : "", n->a.k_first);
    put(e, "        .scratch = %p,\n    };\n", &s->in[s->n_in - 2]);
    if (back)
        put_result(e, s, at);
    put(e, back ? "    k_attention_back(&attend, &result" : "    k_attention(&attend");
    for (int o = 0; o < (back ? s->n_out : 1); o++) {
        put(e, ", ");
        put_at(e, &s->out[o], at, false);
        put(e, ", %D", s->out[o].stride[rank - 2]);
    }
    if (back && n->a.joined) {
        put(e, ", NULL, 0");
    } else if (!back && s->n_out > 1) {
        put(e, ", ");
        put_at(e, &s->out[1], at, false);
    } else if (!back) {
        put(e, ", NULL");
    }
    put(e, ");\n    }\n");
}

void
emit_attend(Emit *e, const Stmt *s)
{
    const Node *n = s->node;
    int rank = s->in[0].rank;
    int64_t queries = s->in[0].dim[rank - 2], keys = s->in[1].dim[rank - 2];
    Range r = {.all = true, .whole = true, .exact = true};
    if (n->a.mask)
        r = find_ranges(&e->mem->scratch, n, queries, keys);
    put(e, "{\n");
    if (!r.whole) {
        put_numbers(e, "lo", r.lo, queries);
        put_numbers(e, "hi", r.hi, queries);
    }
    if (!r.all && !r.exact) {
        int lists = 0;
        put_lists(e, n->a.mask, &lists);
        put(e, "    uint8_t *const mask = %p;\n", &s->in[s->n_in - 1]);
        r.bits = emit_mask_rows(e, s, queries, keys);
        if (!r.bits)
            put_mask_bytes(e, s, queries, keys);
    }
    if (n->a.p > 0.0)
        put(e, "    const k_drop drop = k_site(x, s, %d, %D, %f);\n", n->a.site,
            (int64_t)(65536.0 * n->a.p + 0.5),
            n->a.p < 1.0 ? 1.0 / (1.0 - n->a.p) : 0.0);
    put_call(e, s, &r);
    put(e, "}\n");
}

// emit_text.c - pieces of C text: holes, addresses of views, rolled loops, escaping.

#include "emit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- escaping ----------------------------------------------------------------------------------

const char *
text_quoted(Arena *a, const char *s)
{
    Text t = {0};
    text_add(a, &t, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            text_add(a, &t, "\\%c", c);
        else if (c < 32 || c > 126 || c == '?')
            text_add(a, &t, "\\%03o", c);
        else
            text_add(a, &t, "%c", c);
    }
    text_add(a, &t, "\"");
    return t.v;
}

const char *
text_comment(Arena *a, const char *s)
{
    size_t n = 0;
    while (s[n] && s[n] != '\\' && (unsigned char)s[n] >= 32 && s[n] != '?')
        n++;
    return arena_copy(a, s, n);
}

// Letters and digits stay; '_' becomes "__", any other byte "_xHH".
const char *
text_mangled(Arena *a, const char *s)
{
    Text t = {0};
    text_add(a, &t, "%s", "");
    for (; *s; s++) {
        bool plain = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9');
        if (plain)
            text_add(a, &t, "%c", *s);
        else if (*s == '_')
            text_add(a, &t, "__");
        else
            text_add(a, &t, "_x%02x", (unsigned char)*s);
    }
    return t.v;
}

const char *
c_float_text(Arena *a, double v)
{
    float f = (float)v;
    if (isnan(f))
        return "NAN";
    if (isinf(f))
        return f > 0 ? "HUGE_VALF" : "-HUGE_VALF";
    char room[32], *s = room;
    for (int digits = 6; digits <= 9; digits++) { // the shortest that reads back
        snprintf(room, sizeof room, "%.*g", digits, (double)f);
        if (strtof(room, NULL) == f)
            break;
    }
    return arena_printf(a, strpbrk(s, ".e") ? "%sf" : "%s.0f", s);
}

// ---- pieces ------------------------------------------------------------------------------------

static void
put_hole(Emit *e, int64_t v)
{
    text_add(&e->mem->scratch, &e->text, "%c", HOLE);
    array_push(&e->mem->scratch, &e->args, v);
}

static void
put_text(Emit *e, const char *s)
{
    text_add(&e->mem->scratch, &e->text, "%s", s);
}

static const char *const base_names[] = {"t", "ti", "tb", "k", "ki", "kb",
                                         "g", "gi", "gb", "in", "ini", "inb"};

static void
use_base(Emit *e, Base b)
{
    e->bases |= 1u << b;
}

// The raw tensor of the batch, and the index of the sample's first element.
static void
put_raw(Emit *e, const Buf *b)
{
    static const char *const field[] = {
        "user_ints", "user_int_missing", "user_dense", "user_dense_missing",
        "item_ints", "item_int_missing", "item_dense", "item_dense_missing", "request_time",
    };
    const Input *in = &e->t->g->inputs[b->index];
    use_base(e, BASE_BATCH);
    use_base(e, BASE_SAMPLE);
    if (in->kind <= IN_REQUEST_TIME) {
        put(e, "b->%s", field[in->kind]);
    } else {
        const char *what = in->kind == IN_EVENTS  ? "values"
                           : in->kind == IN_TIMES ? "timestamps"
                                                  : "lengths";
        put(e, "b->domains[%$].%s", (int64_t)in->domain, what);
    }
}

// Writes the base pointer and returns whether an index must begin with the sample's own offset.
static bool
put_base(Emit *e, const Buf *b)
{
    switch (b->space) {
    case SP_RAW:
        put_raw(e, b);
        return true;
    case SP_CONST:
        put_text(e, b->type == DT_F32 ? "const_f" : b->type == DT_I64 ? "const_i" : "const_b");
        return false;
    case SP_PARAM:
        use_base(e, BASE_P);
        put(e, "p[%$]", (int64_t)b->index);
        return false;
    case SP_PACKED:
        use_base(e, BASE_W);
        put_text(e, "w");
        return false;
    case SP_ACC:
        use_base(e, BASE_A);
        put_text(e, "a");
        return false;
    case SP_DLOGITS:
        use_base(e, BASE_DLOGITS);
        put_text(e, "dlogits");
        return false;
    case SP_LOGITS:
        use_base(e, BASE_LOGITS);
        put_text(e, "logits");
        return false;
    case SP_EMBEDDING:
        use_base(e, BASE_EMBEDDING);
        put_text(e, "embedding");
        return false;
    default: {
        Base first = b->space == SP_SCRATCH ? BASE_T
                     : b->space == SP_KEPT  ? BASE_K
                     : b->space == SP_CHUNK ? BASE_G
                                            : BASE_IN;
        Base base = first + (b->type == DT_F32 ? 0 : b->type == DT_I64 ? 1 : 2);
        use_base(e, base);
        put_text(e, base_names[base]);
        return false;
    }
    }
}

int64_t
record_stride(const Tiles *t, const Buf *b, Timeline line)
{
    switch (b->space) {
    case SP_KEPT: return t->kept_bytes / 4;
    case SP_INPUT: return t->input_bytes / 4;
    case SP_CHUNK: return t->chunk_bytes[line] / 4;
    case SP_DLOGITS: return b->size;
    default: die("a value of one sample is read for many");
    }
}

static void
put_step(Emit *e, int64_t step, const char *index)
{
    if (step == 1)
        put(e, " + %s", index);
    else if (step)
        put(e, " + %D * %s", step, index);
}

void
put_at(Emit *e, const View *v, const char *const *index, bool element)
{
    bool raw = put_base(e, v->buf);
    put_text(e, element ? "[" : " + ");
    if (raw)
        put(e, "n * %D + ", v->buf->size);
    int64_t offset = v->buf->space == SP_PARAM || v->buf->space == SP_RAW ? 0 : v->buf->offset;
    put_hole(e, offset + v->first);
    put_step(e, v->outer_step, "o0");
    put_step(e, v->row_step, "r0");
    for (int k = 0; index && k < v->rank; k++) {
        if (v->stride[k] == 0 || v->dim[k] == 1 || !index[k])
            continue;
        put_step(e, v->stride[k], index[k]);
    }
    if (element)
        put_text(e, "]");
}

static const char *const loop_names[] = {"i0", "i1", "i2", "i3", "i4"};

static void
put_one(Emit *e, char c, va_list *ap)
{
    Arena *a = &e->mem->scratch;
    switch (c) {
    case 's':
        put_text(e, va_arg(*ap, const char *));
        break;
    case 'd':
        text_add(a, &e->text, "%d", va_arg(*ap, int));
        break;
    case 'D':
        text_add(a, &e->text, "%lld", (long long)va_arg(*ap, int64_t));
        break;
    case '$':
        put_hole(e, va_arg(*ap, int64_t));
        break;
    case 'f':
        put_text(e, c_float_text(a, va_arg(*ap, double)));
        break;
    case 'g':
        text_add(a, &e->text, "%.17g", va_arg(*ap, double));
        break;
    case 'p':
        put_at(e, va_arg(*ap, const View *), NULL, false);
        break;
    case 'e':
        put_at(e, va_arg(*ap, const View *), loop_names, true);
        break;
    default:
        text_add(a, &e->text, "%c", c);
    }
}

void
put(Emit *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    while (*fmt) {
        size_t n = strcspn(fmt, "%");
        text_add_bytes(&e->mem->scratch, &e->text, fmt, n);
        fmt += n;
        if (*fmt == '%') {
            put_one(e, fmt[1], &ap);
            fmt += 2;
        }
    }
    va_end(ap);
}

static const char *
note_of(Emit *e, const Node *n)
{
    Arena *a = &e->mem->scratch;
    const Diag *d = e->t->g->diag;
    if (!n)
        return NULL;
    Text t = {0};
    text_add(a, &t, "%s", "");
    if (d && n->place.file > 0 && n->place.file < (uint32_t)d->sources.n) {
        int line, col;
        place_line_col(d, n->place, &line, &col);
        const char *path = place_path(d, n->place), *slash = strrchr(path, '/');
        text_add(a, &t, "%s:%d  ", slash ? slash + 1 : path, line);
    }
    if (n->name)
        text_add(a, &t, "%s = ", n->name);
    text_add(a, &t, "%s", op_info[n->op].name);
    text_add(a, &t, "  %s", shape_text(e->mem, n->type, n->shape));
    return text_comment(a, t.v);
}

void
put_end(Emit *e, const Stmt *s)
{
    Arena *a = &e->mem->scratch;
    if (e->text.n == 0)
        return;
    Piece p = {.text = mem_intern(e->mem, e->text.v, (size_t)e->text.n), .n_arg = e->args.n};
    int64_t *copy = arena_array(a, int64_t, e->args.n + 1);
    if (e->args.n)
        memcpy(copy, e->args.v, (size_t)e->args.n * sizeof *copy);
    p.arg = copy;
    p.note = note_of(e, s->node);
    array_push(a, &e->pieces, p);
    e->text = (Text){0};
    e->args.n = 0;
}

// ---- printing ----------------------------------------------------------------------------------

enum { WIDTH = 90 };

// Between two arguments or declarations, after an assignment, before a branch of a condition.
static bool
can_break(const char *line, size_t cut)
{
    if (line[cut - 1] != ' ')
        return false;
    char before = line[cut - 2], after = line[cut];
    return before == ',' || before == ';' || before == '=' || after == '?' || after == ':';
}

// The outermost place to break a line of n bytes at within `most`, the last of equals, else the first behind;
// 0 where there is none.
static size_t
best_break(const char *line, size_t n, size_t most)
{
    size_t best = 0;
    int depth = 0, best_depth = 0;
    for (size_t i = 0; i < most; i++) {
        depth += (line[i] == '(' || line[i] == '[' || line[i] == '{') -
                 (line[i] == ')' || line[i] == ']' || line[i] == '}');
        size_t cut = i + 1;
        if (cut < 24 || !can_break(line, cut))
            continue;
        if (best == 0 || depth <= best_depth) {
            best = cut;
            best_depth = depth;
        }
    }
    for (size_t cut = most + 1; best == 0 && cut < n; cut++)
        if (can_break(line, cut)) // none in time: the first behind
            return cut;
    return best;
}

static void
print_line(Arena *a, Text *out, const char *line, size_t n, int indent)
{
    while (n > 0 && *line == ' ' && indent < 40) {
        line++;
        n--;
        indent++;
    }
    int more = indent + 8;
    while ((size_t)indent + n > WIDTH && line[0] != '/' && line[0] != '#') {
        size_t cut = best_break(line, n, WIDTH - (size_t)indent);
        if (cut == 0)
            break;
        text_add(a, out, "%*s%.*s\n", indent, "", (int)cut - 1, line);
        line += cut;
        n -= cut;
        indent = more;
    }
    if (n == 0)
        text_add(a, out, "\n");
    else
        text_add(a, out, "%*s%.*s\n", indent, "", (int)n, line);
}

void
print_lines(Arena *a, Text *out, const char *text, int indent)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        print_line(a, out, text, n, indent);
        text += n + (text[n] == '\n');
    }
}

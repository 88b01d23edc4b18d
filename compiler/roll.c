// roll.c - repeated pieces become loops over tables of the integers in which they differ.
//
// A family (the members of an indexed layer, the features of a bank) gives statement sequences with one
// text and different offsets or parameter numbers. A run of a sequence that repeats at once becomes a loop
// over m; an integer that moves evenly becomes base + step * m, others stand in a constant table.

#include "emit.h"

#include <string.h>

enum { LONGEST = 64 }; // pieces of a repeated sequence

typedef struct Column {
    int64_t base, step; // where even
    bool even;
    int table;          // column of the table, else
    int64_t shift;      // added to the table's entry
} Column;

typedef struct Roll {
    const Piece *p;
    int period, repeats, n_col;
    Column *col;
    int n_table;
    const int64_t **entry; // [n_table][repeats]
} Roll;

static int64_t
arg_at(const Roll *r, int col, int m)
{
    for (int k = 0; k < r->period; k++) {
        const Piece *p = &r->p[m * r->period + k];
        if (col < p->n_arg)
            return p->arg[col];
        col -= p->n_arg;
    }
    die("a rolled piece has fewer integers than its like");
}

static int
repeats_of(const Piece *p, int n, int period)
{
    int r = 1;
    for (; (r + 1) * period <= n; r++)
        for (int k = 0; k < period; k++)
            if (p[r * period + k].text != p[k].text)
                return r;
    return r;
}

static void
find_column(Arena *a, Roll *r, int c)
{
    Column *col = &r->col[c];
    int64_t *v = arena_array(a, int64_t, r->repeats);
    for (int m = 0; m < r->repeats; m++)
        v[m] = arg_at(r, c, m);
    *col = (Column){.base = v[0], .step = v[1] - v[0], .even = true};
    for (int m = 2; m < r->repeats; m++)
        col->even &= v[m] - v[m - 1] == col->step;
    if (col->even)
        return;
    for (int k = 0; k < r->n_table; k++) {
        bool same = true;
        for (int m = 1; m < r->repeats; m++)
            same &= v[m] - r->entry[k][m] == v[0] - r->entry[k][0];
        if (same) {
            col->table = k;
            col->shift = v[0] - r->entry[k][0];
            return;
        }
    }
    col->table = r->n_table;
    r->entry[r->n_table++] = v;
}

static Roll
roll_make(Arena *a, const Piece *p, int period, int repeats)
{
    Roll r = {.p = p, .period = period, .repeats = repeats};
    for (int k = 0; k < period; k++)
        r.n_col += p[k].n_arg;
    r.col = arena_array(a, Column, r.n_col);
    r.entry = (const int64_t **)arena_array(a, int64_t *, r.n_col + 1);
    for (int c = 0; c < r.n_col; c++)
        find_column(a, &r, c);
    return r;
}

// Behind " + " a zero is left out and a minus takes the plus's place.
static void
add_number(Arena *a, Text *t, const char *s)
{
    bool zero = !strcmp(s, "0");
    if (zero && t->n >= 3 && !strcmp(t->v + t->n - 3, " + ")) {
        t->n -= 3;
        t->v[t->n] = 0;
        return;
    }
    if (s[0] == '-' && t->n >= 3 && !strcmp(t->v + t->n - 3, " + ")) {
        t->v[t->n - 2] = '-';
        s++;
    }
    text_add(a, t, "%s", s);
}

static const char *
column_text(Arena *a, const Roll *r, const Column *c)
{
    if (c->even && c->step == 0)
        return arena_printf(a, "%lld", (long long)c->base);
    if (c->even) {
        const char *move = c->step == 1    ? "m"
                           : c->step == -1 ? "-m"
                                           : arena_printf(a, "%lld * m", (long long)c->step);
        if (c->base == 0)
            return move;
        return c->step < 0 ? arena_printf(a, "%lld - %s", (long long)c->base, move + 1)
                           : arena_printf(a, "%lld + %s", (long long)c->base, move);
    }
    const char *cell = r->n_table == 1 ? "at[m]" : arena_printf(a, "at[m][%d]", c->table);
    if (c->shift == 0)
        return cell;
    return arena_printf(a, "%s %c %lld", cell, c->shift > 0 ? '+' : '-',
                        (long long)(c->shift > 0 ? c->shift : -c->shift));
}

// The text of piece k with its holes filled from columns (or, without a roll, from its own integers).
static const char *
fill(Arena *a, const Roll *r, const Piece *p, int first)
{
    Text t = {0};
    int c = 0;
    text_add(a, &t, "%s", "");
    for (const char *s = p->text; *s;) {
        const char hole[] = {HOLE, 0};
        size_t n = strcspn(s, hole);
        text_add_bytes(a, &t, s, n);
        s += n;
        if (*s != HOLE)
            break;
        s++;
        const char *number = r ? column_text(a, r, &r->col[first + c])
                               : arena_printf(a, "%lld", (long long)p->arg[c]);
        c++;
        if (!strcmp(number, "0") && t.n > 0 && t.v[t.n - 1] == '[' && !strncmp(s, " + ", 3))
            s += 3;
        else
            add_number(a, &t, number);
    }
    return t.v;
}

static void
print_piece(Arena *a, Text *out, const Roll *r, const Piece *p, int first, int indent)
{
    if (p->note)
        text_add(a, out, "%*s// %s\n", indent, "", p->note);
    if (p->ready)
        text_add(a, out, "%s", p->text);
    else
        print_lines(a, out, fill(a, r, p, first), indent);
}

static void
print_table(Arena *a, Text *out, const Roll *r, int indent)
{
    if (r->n_table == 0)
        return;
    Text t = {0};
    if (r->n_table == 1)
        text_add(a, &t, "static const int32_t at[%d] = {", r->repeats);
    else
        text_add(a, &t, "static const int32_t at[%d][%d] = {", r->repeats, r->n_table);
    for (int m = 0; m < r->repeats; m++) {
        text_add(a, &t, "%s%s", m ? ", " : "", r->n_table > 1 ? "{" : "");
        for (int k = 0; k < r->n_table; k++)
            text_add(a, &t, "%s%lld", k ? ", " : "", (long long)r->entry[k][m]);
        text_add(a, &t, "%s", r->n_table > 1 ? "}" : "");
    }
    text_add(a, &t, "};");
    print_lines(a, out, t.v, indent);
}

static void
print_roll(Arena *a, Text *out, const Roll *r, int indent)
{
    text_add(a, out, "%*s{\n", indent, "");
    print_table(a, out, r, indent + 4);
    text_add(a, out, "%*sfor (int m = 0; m < %d; m++) {\n", indent + 4, "", r->repeats);
    int first = 0;
    for (int k = 0; k < r->period; k++) {
        print_piece(a, out, r, &r->p[k], first, indent + 8);
        first += r->p[k].n_arg;
    }
    text_add(a, out, "%*s}\n%*s}\n", indent + 4, "", indent, "");
}

void
print_pieces(Emit *e, const Piece *p, int n, int indent, Text *out)
{
    Arena *a = &e->mem->scratch;
    for (int i = 0; i < n;) {
        int period = 0, repeats = 1, best = 1;
        for (int k = 1; k <= LONGEST && 2 * k <= n - i; k++) {
            int r = repeats_of(p + i, n - i, k);
            if ((r - 1) * k > best) {
                best = (r - 1) * k;
                period = k;
                repeats = r;
            }
        }
        if (period == 0) {
            print_piece(a, out, NULL, &p[i], 0, indent);
            i++;
            continue;
        }
        Roll r = roll_make(a, p + i, period, repeats);
        print_roll(a, out, &r, indent);
        i += period * repeats;
    }
}

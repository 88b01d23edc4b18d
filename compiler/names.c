// names.c - a map from names to numbers, the name a writer may have meant, the built-in
// names.

#include "names.h"
#include "program.h"

#include <string.h>

// ---- map ----------------------------------------------------------------------------

static size_t
hash_name(const char *s)
{
    uint32_t h = 2166136261u; // FNV-1a
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h ^ (h >> 15);
}

static struct NameSlot *
find_slot(const NameMap *m, const char *name)
{
    size_t mask = (size_t)m->cap - 1;
    size_t i = hash_name(name) & mask;
    while (m->slots[i].name && strcmp(m->slots[i].name, name) != 0)
        i = (i + 1) & mask;
    return &m->slots[i];
}

int
name_map_get(const NameMap *m, const char *name)
{
    if (!m->cap)
        return -1;
    const struct NameSlot *s = find_slot(m, name);
    return s->name ? s->value : -1;
}

void
name_map_put(NameMap *m, const char *name, int value)
{
    if (2 * (m->n + 1) > m->cap) {
        NameMap old = *m;
        m->cap = m->cap ? 2 * m->cap : 64;
        m->slots = arena_array(m->arena, struct NameSlot, m->cap);
        for (int i = 0; i < old.cap; i++)
            if (old.slots[i].name)
                *find_slot(m, old.slots[i].name) = old.slots[i];
    }
    struct NameSlot *s = find_slot(m, name);
    m->n += !s->name;
    *s = (struct NameSlot){name, value};
}

// ---- suggestions --------------------------------------------------------------------

enum { MAX_NAME = 63 }; // longer names get no suggestion

static int
min3(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

// Insertions, deletions, changes and swaps of neighbours between two names.
static int
edit_distance(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b);
    int rows[3][MAX_NAME + 1];
    int *before = rows[0], *last = rows[1], *now = rows[2];
    for (int j = 0; j <= m; j++)
        last[j] = j;
    for (int i = 1; i <= n; i++) {
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            now[j] =
                min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
        int *free_row = before;
        before = last;
        last = now;
        now = free_row;
    }
    return last[m];
}

const char *
nearest_name(const char *name, const char *const *names, int n)
{
    size_t len = strlen(name);
    const char *best = NULL;
    int best_distance = len < 3 ? 1 : (int)len / 3; // at least this near
    if (len > MAX_NAME || len < 2)
        return NULL;
    for (int i = 0; i < n; i++) {
        size_t other = strlen(names[i]);
        if (other > MAX_NAME || other < 2)
            continue;
        int d = edit_distance(name, names[i]);
        if (d < best_distance || (d == best_distance && !best)) {
            best = names[i];
            best_distance = d;
        }
    }
    return best;
}

// ---- built-in names -----------------------------------------------------------------

#define BUILTIN(name, min, max, kind, params) {#name, min, max, kind, params},
const Builtin builtins[] = {
#include "builtins.def"
};
const int n_builtins = sizeof builtins / sizeof builtins[0];
#undef BUILTIN

const Builtin *
builtin_find(const char *name, bool mark)
{
    for (int i = 0; i < n_builtins; i++)
        if ((builtins[i].kind == BI_MARK) == mark && strcmp(builtins[i].name, name) == 0)
            return &builtins[i];
    return NULL;
}

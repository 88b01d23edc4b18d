// choice.c - what --checkpoint takes: none, blocks, sample, or names and globs of blocks.

#include "keep.h"
#include "program.h"

#include <fnmatch.h>
#include <string.h>

static void
list_blocks(Graph *g)
{
    Text t = {0};
    Arena *a = &g->mem->scratch;
    for (int i = 0; i < g->n_calls; i++)
        if (g->calls[i]->ordinal == 0)
            text_add(a, &t, "%s%s", t.n > 0 ? ", " : "", g->calls[i]->name);
    diag_note(g->diag, (Place){0}, "choices are none, blocks, sample and names of blocks: %s",
              t.n > 0 ? t.v : "this model has none");
}

// The choice or block that a name may have meant.
static void
suggest_choice(Graph *g, const char *name)
{
    Arena *a = &g->mem->scratch;
    Array(const char *) names = {0};
    static const char *const words[] = {"none", "blocks", "sample"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        array_push(a, &names, words[i]);
    for (int i = 0; i < g->n_calls; i++)
        array_push(a, &names, g->calls[i]->name);
    const char *near = nearest_name(name, names.v, names.n);
    if (near)
        diag_note(g->diag, (Place){0}, "did you mean '%s'?", near);
}

static bool
choose_names(Graph *g, const char *text, bool *chosen)
{
    for (const char *at = text; *at != '\0';) {
        size_t n = strcspn(at, ",");
        const char *pattern = arena_copy(&g->mem->scratch, at, n);
        bool found = strcmp(pattern, "*") == 0;
        for (int i = 0; i < g->n_calls; i++)
            if (fnmatch(pattern, g->calls[i]->name, 0) == 0)
                found = chosen[i] = true;
        if (!found) {
            diag_error(g->diag, (Place){0}, "no block is called '%s'", pattern);
            suggest_choice(g, pattern);
            list_blocks(g);
            return false;
        }
        at += n + (at[n] == ',');
    }
    return true;
}

bool
read_choice(Graph *g, const char *text, Choice *c)
{
    c->chosen = arena_array(&g->mem->scratch, bool, g->n_calls + 1);
    if (text == NULL || strcmp(text, "none") == 0) {
        c->kind = CHOICE_NONE;
        return true;
    }
    if (strcmp(text, "sample") == 0) {
        c->kind = CHOICE_SAMPLE;
        return true;
    }
    if (strcmp(text, "blocks") == 0) {
        c->kind = CHOICE_BLOCKS;
        for (int i = 0; i < g->n_calls; i++)
            c->chosen[i] = true;
        return true;
    }
    if (strncmp(text, "budget:", 7) == 0 || strcmp(text, "auto") == 0 || text[0] == '\0') {
        diag_error(g->diag, (Place){0}, "checkpoint choice '%s' is not available in this version", text);
        list_blocks(g);
        return false;
    }
    c->kind = CHOICE_NAMES;
    return choose_names(g, text, c->chosen);
}

bool
checkpoint_choice_valid(Graph *g, const char *choice)
{
    Choice c;
    return read_choice(g, choice, &c);
}

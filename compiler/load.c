// load.c - reads a model file and its imports, and merges their declarations.
//
// Each file is read once. A declaration wins over those of the files its own file
// imports, directly or not; two that neither outranks the other are an error. Train
// settings and the model follow the same rule.

#include "check.h"
#include "find.h"
#include "names.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Import {
    int file; // into Loader.files
    const Ast *ast;
} Import;

typedef struct File {
    uint32_t source;
    const Ast *tree;
    bool loading; // an import of it now is a cycle
    Array(Import) imports;
    bool *reaches; // for each file: imported by this one, directly or not
} File;

// One declaration, setting or model as one file gives it.
typedef struct Entry {
    int file; // into Loader.files
    Decl decl;
    Place place; // of its name
    int next;    // the next entry of this name, -1 at the end
} Entry;

typedef struct Loader {
    Mem *mem;
    Diag *diag;
    Program *program;
    const char *const *dirs;
    int n_dirs;
    Array(File) files;
    Array(int) stack; // files being loaded
    Array(int) order; // files, imported ones first
    Array(Entry) entries;
    Array(int) firsts; // first entry of each name
} Loader;

// ---- finding files ------------------------------------------------------------------

// Where an import is looked for: beside the importing file, -I, installed models.
static Strings
search_dirs(Loader *l, const char *importer)
{
    Arena *a = &l->mem->perm;
    Strings dirs = {0}, installed = model_dirs(l->mem);
    array_push(a, &dirs, path_dir(l->mem, importer));
    for (int i = 0; i < l->n_dirs; i++)
        array_push(a, &dirs, l->dirs[i]);
    for (int i = 0; i < installed.n; i++)
        array_push(a, &dirs, installed.v[i]);
    return dirs;
}

// Says which installed models an import could have meant.
static void
suggest_models(Loader *l, const Ast *import)
{
    Strings names = models_installed(l->mem);
    Text t = {0};
    for (int i = 0; i < names.n; i++)
        text_add(&l->mem->perm, &t, "%s%s", i ? ", " : "", names.v[i]);
    if (names.n)
        diag_note(l->diag, import->name_place, "installed models are %s", t.v);
    const char *near = nearest_name(import->text, names.v, names.n);
    if (near)
        diag_note(l->diag, import->name_place, "did you mean '%s'?", near);
}

// The path of an import; NULL and an error if there is no such file.
static const char *
find_import(Loader *l, const char *importer, const Ast *import)
{
    Strings dirs = search_dirs(l, importer);
    for (int i = 0; i < dirs.n; i++) {
        const char *path = path_join(l->mem, dirs.v[i], import->text);
        if (access(path, F_OK) == 0)
            return path;
    }
    diag_error(l->diag, import->name_place, "cannot find '%s'", import->text);
    for (int i = 0; i < 1 + l->n_dirs && import->text[0] != '/'; i++)
        diag_note(l->diag, import->name_place, "looked in '%s'",
                  dirs.v[i][0] ? dirs.v[i] : ".");
    if (import->text[0] != '/')
        suggest_models(l, import);
    return NULL;
}

// ---- reading ------------------------------------------------------------------------

static int load_file(Loader *l, uint32_t source, Place from);

// A file that was read already, by its canonical path; -1 if it is new.
static int
known_file(const Loader *l, const char *real_path)
{
    for (int i = 0; i < l->files.n; i++)
        if (strcmp(l->diag->sources.v[l->files.v[i].source].real_path, real_path) == 0)
            return i;
    return -1;
}

static void
report_cycle(Loader *l, int file, Place from)
{
    Text t = {0};
    bool inside = false;
    for (int i = 0; i < l->stack.n; i++) {
        inside = inside || l->stack.v[i] == file;
        if (inside)
            text_add(&l->mem->scratch, &t, "%s -> ",
                     l->diag->sources.v[l->files.v[l->stack.v[i]].source].path);
    }
    diag_error(l->diag, from, "imports form a cycle: %s%s", t.v,
               l->diag->sources.v[l->files.v[file].source].path);
}

static void
load_import(Loader *l, int importer, const Ast *import)
{
    const char *from = l->diag->sources.v[l->files.v[importer].source].path;
    const char *path = find_import(l, from, import);
    if (!path)
        return;
    char *real = realpath(path, NULL);
    int file = real ? known_file(l, real) : -1;
    free(real);
    if (file >= 0 && l->files.v[file].loading) {
        report_cycle(l, file, import->name_place);
        return;
    }
    if (file < 0) {
        uint32_t source = source_read(l->diag, path, import->name_place);
        file = source ? load_file(l, source, import->name_place) : -1;
    }
    if (file >= 0)
        array_push(&l->mem->perm, &l->files.v[importer].imports,
                   ((Import){file, import}));
}

enum { MAX_IMPORT_DEPTH = 200 };

// Parses a source and loads what it imports; its number, -1 after an error.
static int
load_file(Loader *l, uint32_t source, Place from)
{
    if (l->stack.n >= MAX_IMPORT_DEPTH) {
        diag_error(l->diag, from, "imports nest deeper than %d files", MAX_IMPORT_DEPTH);
        return -1;
    }
    int file = l->files.n;
    File f = {.source = source, .loading = true};
    array_push(&l->mem->perm, &l->files, f);
    array_push(&l->mem->perm, &l->program->files, l->diag->sources.v[source].path);
    array_push(&l->mem->perm, &l->stack, file);
    const Ast *tree = parse_file(l->mem, l->diag, source);
    l->files.v[file].tree = tree;
    for (int i = 0; tree && i < tree->n; i++)
        if (tree->kids[i]->kind == AST_IMPORT)
            load_import(l, file, tree->kids[i]);
    l->stack.n--;
    l->files.v[file].loading = false;
    array_push(&l->mem->perm, &l->order, file);
    if (tree)
        array_push(&l->mem->perm, &l->program->trees, tree);
    return tree ? file : -1;
}

// Which files each file imports, directly or not; imported files come first in the order.
static void
find_reach(Loader *l)
{
    for (int i = 0; i < l->order.n; i++) {
        File *f = &l->files.v[l->order.v[i]];
        f->reaches = arena_array(&l->mem->perm, bool, l->files.n);
        for (int k = 0; k < f->imports.n; k++) {
            const File *g = &l->files.v[f->imports.v[k].file];
            f->reaches[f->imports.v[k].file] = true;
            for (int j = 0; j < l->files.n; j++)
                f->reaches[j] = f->reaches[j] || g->reaches[j];
        }
    }
}

// ---- collecting ---------------------------------------------------------------------

// Adds what a file says about a name to the entries of that name; twice in a file is an
// error.
static void
add_entry(Loader *l, NameMap *names, int file, Decl decl, Place place, const char *twice)
{
    int first = name_map_get(names, decl.name), last = -1;
    for (int e = first; e >= 0; last = e, e = l->entries.v[e].next) {
        if (l->entries.v[e].file != file)
            continue;
        diag_error(l->diag, place, "'%s' is %s twice in this file", decl.name, twice);
        diag_note(l->diag, l->entries.v[e].place, "the first is here");
        return;
    }
    int new = l->entries.n;
    Entry e = {file, decl, place, -1};
    array_push(&l->mem->perm, &l->entries, e);
    if (last >= 0) {
        l->entries.v[last].next = new;
    } else {
        name_map_put(names, decl.name, new);
        array_push(&l->mem->perm, &l->firsts, new);
    }
}

// A let declares each name of its pattern.
static void
add_pattern(Loader *l, NameMap *names, int file, const Ast *let, const Ast *pattern)
{
    if (pattern->kind == AST_TUPLE) {
        for (int i = 0; i < pattern->n; i++)
            add_pattern(l, names, file, let, pattern->kids[i]);
        return;
    }
    if (strcmp(pattern->text, "_") == 0)
        return;
    Decl d = {
        .kind = DECL_LET, .name = pattern->text, .ast = let, .file = let->place.file};
    add_entry(l, names, file, d, pattern->place, "declared");
}

static void
add_decl(Loader *l, NameMap *names, int file, const Ast *a)
{
    Decl d = {.name = a->text, .ast = a, .file = a->place.file};
    switch (a->kind) {
    case AST_LET:
        add_pattern(l, names, file, a, a->kids[0]);
        return;
    case AST_CONFIG:
        d.kind = DECL_CONFIG;
        d.type = a->kids[0];
        d.value = a->kids[1];
        d.allowed = a->kids[2];
        break;
    case AST_FN:
        d.kind = DECL_FN;
        break;
    case AST_LAYER:
    case AST_BLOCK:
        d.kind = DECL_LAYER;
        break;
    default:
        return;
    }
    add_entry(l, names, file, d, a->name_place, "declared");
}

// ---- merging ------------------------------------------------------------------------

static bool
outranks(const Loader *l, const Entry *a, const Entry *b)
{
    return l->files.v[a->file].reaches[b->file];
}

// The import by which the first file that knows two others learns of the second; NULL
// if none does.
static const Ast *
joining_import(const Loader *l, int one, int other)
{
    for (int i = 0; i < l->order.n; i++) {
        const File *f = &l->files.v[l->order.v[i]];
        if (!f->reaches[one] || !f->reaches[other])
            continue;
        const Ast *last = NULL;
        for (int k = 0; k < f->imports.n; k++) {
            int file = f->imports.v[k].file;
            if (file == other || l->files.v[file].reaches[other])
                last = f->imports.v[k].ast;
        }
        return last;
    }
    return NULL;
}

// The entry of a name that outranks all others; NULL and an error if there is none.
static const Entry *
winner(const Loader *l, int first, const char *what)
{
    const Entry *best = &l->entries.v[first];
    for (int i = best->next; i >= 0; i = l->entries.v[i].next)
        if (outranks(l, &l->entries.v[i], best))
            best = &l->entries.v[i];
    for (int i = first; i >= 0; i = l->entries.v[i].next) {
        const Entry *e = &l->entries.v[i];
        if (e == best || outranks(l, best, e))
            continue;
        const Ast *import = joining_import(l, best->file, e->file);
        diag_error(l->diag, import ? import->name_place : e->place,
                   "two imported files %s '%s', neither importing the other", what,
                   e->decl.name);
        diag_note(l->diag, best->place, "one stands here");
        diag_note(l->diag, e->place,
                  "another here; the file that imports both may decide");
        return NULL;
    }
    return best;
}

static bool
same_type(const Ast *a, const Ast *b)
{
    if (a->kind != b->kind || a->n != b->n || a->text != b->text)
        return false;
    for (int i = 0; i < a->n; i++)
        if (!same_type(a->kids[i], b->kids[i]))
            return false;
    return true;
}

// A config that replaces one keeps its type, and its allowed values unless it gives its
// own.
static Decl
merged_config(const Loader *l, const Entry *best, int first)
{
    Decl d = best->decl;
    for (int i = first; i >= 0; i = l->entries.v[i].next) {
        const Entry *e = &l->entries.v[i];
        if (e == best || e->decl.kind != DECL_CONFIG)
            continue;
        if (!same_type(d.type, e->decl.type)) {
            diag_error(l->diag, d.type->place, "config '%s' must keep the type %s",
                       d.name,
                       place_slice(l->diag, e->decl.type->place, &l->mem->scratch));
            diag_note(l->diag, e->place, "it replaces this one");
        }
        if (!best->decl.allowed && e->decl.allowed)
            d.allowed = e->decl.allowed;
    }
    return d;
}

static void
merge_decls(Loader *l)
{
    NameMap names = {.arena = &l->mem->perm};
    for (int i = 0; i < l->order.n; i++) {
        int file = l->order.v[i];
        const Ast *tree = l->files.v[file].tree;
        for (int k = 0; k < tree->n; k++) {
            add_decl(l, &names, file, tree->kids[k]);
            if (tree->kids[k]->kind == AST_ASSERT)
                array_push(&l->mem->perm, &l->program->asserts, tree->kids[k]);
        }
    }
    for (int i = 0; i < l->firsts.n; i++) {
        const Entry *e = winner(l, l->firsts.v[i], "declare");
        if (!e)
            continue;
        bool config = e->decl.kind == DECL_CONFIG;
        Decl d = config ? merged_config(l, e, l->firsts.v[i]) : e->decl;
        array_push(&l->mem->perm, &l->program->decls, d);
    }
}

static void
merge_train(Loader *l)
{
    NameMap names = {.arena = &l->mem->perm};
    l->entries.n = l->firsts.n = 0;
    for (int i = 0; i < l->order.n; i++) {
        const Ast *tree = l->files.v[l->order.v[i]].tree;
        for (int k = 0; k < tree->n; k++) {
            const Ast *train = tree->kids[k];
            for (int j = 0; train->kind == AST_TRAIN && j < train->n; j++) {
                const Ast *s = train->kids[j];
                Decl d = {.name = s->text, .ast = s, .file = s->place.file};
                add_entry(l, &names, l->order.v[i], d, s->name_place, "set");
            }
        }
    }
    for (int i = 0; i < l->firsts.n; i++) {
        const Entry *e = winner(l, l->firsts.v[i], "set");
        if (e)
            array_push(&l->mem->perm, &l->program->train, e->decl.ast);
    }
}

static void
merge_model(Loader *l)
{
    NameMap names = {.arena = &l->mem->perm};
    l->entries.n = l->firsts.n = 0;
    for (int i = 0; i < l->order.n; i++) {
        const Ast *tree = l->files.v[l->order.v[i]].tree;
        for (int k = 0; k < tree->n; k++) {
            const Ast *m = tree->kids[k];
            if (m->kind != AST_MODEL)
                continue;
            Decl d = {.name = "model", .ast = m, .file = m->place.file};
            add_entry(l, &names, l->order.v[i], d, m->name_place, "declared");
        }
    }
    if (!l->firsts.n) {
        Place top = {l->files.v[0].source, 0, 1};
        diag_error(l->diag, top,
                   "no model: neither this file nor one it imports declares one");
        return;
    }
    const Entry *e = winner(l, l->firsts.v[0], "declare");
    l->program->model = e ? e->decl.ast : NULL;
}

// ---- the program --------------------------------------------------------------------

static void
make_index(Mem *mem, Program *p)
{
    p->index.arena = &mem->perm;
    for (int i = 0; i < p->decls.n; i++)
        name_map_put(&p->index, p->decls.v[i].name, i);
}

static Program *
load(Mem *mem, Diag *d, uint32_t source, const char *const *dirs, int n_dirs)
{
    int errors = d->errors;
    Program *p = arena_new(&mem->perm, Program);
    Loader l = {.mem = mem, .diag = d, .program = p, .dirs = dirs, .n_dirs = n_dirs};
    load_file(&l, source, (Place){0});
    if (d->errors > errors)
        return NULL;
    find_reach(&l);
    merge_decls(&l);
    merge_train(&l);
    merge_model(&l);
    make_index(mem, p);
    if (d->errors > errors)
        return NULL;
    check_program(mem, d, p);
    return d->errors > errors ? NULL : p;
}

Program *
pcvrc_load(Mem *mem, Diag *d, const char *path, const char *const *include_dirs,
           int n_include_dirs)
{
    uint32_t source = source_read(d, path, (Place){0});
    return source ? load(mem, d, source, include_dirs, n_include_dirs) : NULL;
}

Program *
pcvrc_load_text(Mem *mem, Diag *d, const char *path, const char *text, size_t length,
                const char *const *include_dirs, int n_include_dirs)
{
    char *copy = arena_copy(&mem->perm, text, length);
    const char *name = mem_intern_str(mem, path);
    uint32_t source = source_add(d, name, name, copy, length);
    return source_check(d, source) ? load(mem, d, source, include_dirs, n_include_dirs)
                                   : NULL;
}

const Decl *
program_find(const Program *p, const char *name)
{
    int i = name_map_get(&p->index, name);
    return i >= 0 ? &p->decls.v[i] : NULL;
}

bool
program_has_prefix(const Program *p, const char *prefix)
{
    size_t n = strlen(prefix);
    for (int i = 0; i < p->decls.n; i++)
        if (strncmp(p->decls.v[i].name, prefix, n) == 0 && p->decls.v[i].name[n] == '.')
            return true;
    return false;
}

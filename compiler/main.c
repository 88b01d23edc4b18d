// main.c - the program pcvrc: its command line, and the files it writes.
//
// Exit status: 0, 1 a fault in the model or the schema, 2 in the command line, 70 in
// pcvrc.

#include "find.h"
#include "pcvrc.h"
#include "process.h"
#include "report.h"
#include "tile.h"

#include <stdlib.h>
#include <string.h>

enum { EMIT_C = 1, EMIT_REPORT = 2, EMIT_GRAPH = 4, EMIT_AST = 8 };

typedef struct Options {
    Mem mem;
    const char *model, *schema, *dir, *name, *checkpoint;
    const char *dep_file, *dep_target;
    Strings include, set, dump;
    unsigned emit;
    int64_t batch_hint; // negative: not given
    bool deps, phony;
    bool done;  // --help, --version, --mk: nothing else to do
    int status; // 2 after a fault
} Options;

// ---- the command line ---------------------------------------------------------------

static const char help[] =
    "usage: pcvrc MODEL [option ...]\n"
    "\n"
    "MODEL: FILE.pcvr, a folder with a model.pcvr, or an installed model's name.\n"
    "Compiles a model to C, forward and backward, with activation checkpointing decided "
    "here.\n"
    "\n"
    "  --checkpoint=C     none, blocks, sample, or block names and globs "
    "(blocks.0,blocks.*);\n"
    "                     default: blocks if the model says gradient_checkpointing, else "
    "none\n"
    "  --batch-hint=N     samples of a batch: tables with fewer rows than lookups are "
    "projected\n"
    "                     once a step; 0: none; default: the model's data.batch_size\n"
    "  --schema=FILE      schema.json of the data; default: beside the model, else the "
    "official one\n"
    "  --set NAME=VALUE   a configuration field; the value is JSON\n"
    "  --emit=LIST        of c, report, graph, ast; default: c,report\n"
    "  -o DIR             where files go; default: generated/NAME\n"
    "  --name=NAME        of the module and its files; default: the model file's\n"
    "  -I DIR             where imports are looked for, after the importing file's "
    "directory\n"
    "  --dump=PASS        print the graph after a pass, write no files; PASS: "
    "elaborate,\n"
    "                     simplify, prune, project, absorb, differentiate, checkpoint,\n"
    "                     sweep, schedule, plan\n"
    "  -MD -MF FILE -MT TARGET -MP\n"
    "                     write a rule for make: what the module is made from\n"
    "  --mk               print the path of the rules to include in a Makefile\n"
    "  --version, --help\n";

__attribute__((format(printf, 2, 3))) static void
usage_fault(Options *o, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(&o->mem.perm, fmt, ap);
    va_end(ap);
    fprintf(stderr, "pcvrc: error: %s\n", text);
    o->status = 2;
}

static bool
is_pass(const char *name)
{
    for (int i = 0; i < n_passes; i++)
        if (strcmp(passes[i].name, name) == 0)
            return true;
    return strcmp(name, "elaborate") == 0 || strcmp(name, "schedule") == 0 ||
           strcmp(name, "plan") == 0;
}

static void
set_emit(Options *o, const char *list)
{
    static const struct {
        const char *name;
        unsigned bit;
    } kinds[] = {
        {"c", EMIT_C}, {"report", EMIT_REPORT}, {"graph", EMIT_GRAPH}, {"ast", EMIT_AST}};
    enum { N_KINDS = sizeof kinds / sizeof kinds[0] };
    o->emit = 0;
    while (*list) {
        size_t n = strcspn(list, ","), k = 0;
        while (k < N_KINDS &&
               (strlen(kinds[k].name) != n || strncmp(kinds[k].name, list, n) != 0))
            k++;
        if (k == N_KINDS) {
            usage_fault(o, "--emit: expected c, report, graph or ast, found '%.*s'",
                        (int)n, list);
            return;
        }
        o->emit |= kinds[k].bit;
        list += n + (list[n] == ',');
    }
}

static void
set_name(Options *o, const char *name)
{
    if (!*name || strchr(name, '/') || name[0] == '.')
        usage_fault(o, "--name: expected a name of a module, found '%s'", name);
    o->name = name;
}

static void
set_dump(Options *o, const char *pass)
{
    if (!is_pass(pass))
        usage_fault(o, "--dump: there is no pass '%s'", pass);
    array_push(&o->mem.perm, &o->dump, pass);
}

static void
set_batch_hint(Options *o, const char *text)
{
    char *end;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || n < 0 || n > INT32_MAX)
        usage_fault(o, "--batch-hint: expected a number of samples, found '%s'", text);
    o->batch_hint = n;
}

// An option with a value; false if there is none of this name.
static bool
take_value(Options *o, const char *name, const char *value)
{
    Arena *a = &o->mem.perm;
    if (strcmp(name, "--checkpoint") == 0)
        o->checkpoint = value;
    else if (strcmp(name, "--schema") == 0)
        o->schema = value;
    else if (strcmp(name, "--batch-hint") == 0)
        set_batch_hint(o, value);
    else if (strcmp(name, "--set") == 0)
        array_push(a, &o->set, value);
    else if (strcmp(name, "--emit") == 0)
        set_emit(o, value);
    else if (strcmp(name, "-o") == 0)
        o->dir = value;
    else if (strcmp(name, "--name") == 0)
        set_name(o, value);
    else if (strcmp(name, "-I") == 0)
        array_push(a, &o->include, value);
    else if (strcmp(name, "--dump") == 0)
        set_dump(o, value);
    else if (strcmp(name, "-MF") == 0)
        o->dep_file = value;
    else if (strcmp(name, "-MT") == 0)
        o->dep_target = value;
    else
        return false;
    return true;
}

static int
print_mk(Options *o)
{
    const char *path = models_file(&o->mem, "pcvrc.mk");
    if (!path)
        usage_fault(o, "--mk: pcvrc.mk is not installed");
    else
        puts(path);
    return o->status;
}

// An option without a value; false if there is none of this name.
static bool
take_switch(Options *o, const char *name)
{
    if (strcmp(name, "-MD") == 0)
        o->deps = true;
    else if (strcmp(name, "-MP") == 0)
        o->phony = true;
    else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        o->done = fputs(help, stdout) >= 0;
    else if (strcmp(name, "--version") == 0)
        o->done = puts("pcvrc " PCVRC_VERSION) >= 0;
    else if (strcmp(name, "--mk") == 0)
        o->done = print_mk(o) == 0;
    else
        return false;
    return true;
}

// Takes one argument, and its value where that is the next; how many were taken.
static int
take_argument(Options *o, const char *arg, const char *next)
{
    if (arg[0] != '-' || !arg[1]) {
        if (o->model)
            usage_fault(o, "expected one model file, found '%s' and '%s'", o->model, arg);
        o->model = arg;
        return 1;
    }
    if (take_switch(o, arg))
        return 1;
    size_t n = arg[1] == '-' ? strcspn(arg, "=") : arg[1] == 'M' ? 3 : 2;
    n = n < strlen(arg) ? n : strlen(arg);
    const char *name = arena_copy(&o->mem.perm, arg, n);
    bool inside = arg[n] != '\0'; // --name=value, -Idir
    const char *value = inside ? arg + n + (arg[n] == '=') : next;
    Options known = *o; // whether the name exists, before its value is asked for
    if (!value && take_value(&known, name, "none"))
        usage_fault(o, "%s needs a value", name);
    else if (!value || !take_value(o, name, value))
        usage_fault(o, "unknown option '%s'; --help lists them", arg);
    return inside || !value ? 1 : 2;
}

static void
read_options(Options *o, int argc, char **argv)
{
    for (int i = 1; i < argc && !o->done && !o->status;)
        i += take_argument(o, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
    if (o->done || o->status)
        return;
    if (!o->model)
        usage_fault(o, "expected a model file; --help lists the options");
    else if ((o->dep_file || o->dep_target || o->phony) && !o->deps)
        usage_fault(o, "-MF, -MT and -MP need -MD");
}

// ---- output -------------------------------------------------------------------------

typedef Array(Output) Outputs;

static const char *
output_path(const Options *o, Compile *c, const char *ending)
{
    Arena *a = &c->mem.perm;
    const char *dir = o->dir ? o->dir : arena_printf(a, "generated/%s", c->name);
    return arena_printf(a, "%s/%s%s", dir, c->name, ending);
}

static void
add_output(Compile *c, Outputs *l, const char *path, const char *text)
{
    array_push(&c->mem.perm, l, ((Output){path, text, strlen(text)}));
}

// What a printing function writes, as a text.
static const char *
printed(Compile *c, const Graph *g, const Ast *tree)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f)
        die("no memory for a text stream");
    if (g)
        graph_print(g, f);
    else
        ast_print(tree, f);
    if (fclose(f) != 0)
        die("no memory for a text stream");
    char *copy = arena_copy(&c->mem.perm, text, n);
    free(text);
    return copy;
}

static const char *
trees_text(Compile *c)
{
    Text t = {0};
    for (int i = 0; i < c->program->trees.n; i++) {
        const Ast *tree = c->program->trees.v[i];
        text_add(&c->mem.perm, &t, "# %s\n%s", place_path(&c->diag, tree->place),
                 printed(c, NULL, tree));
    }
    return t.v;
}

// target: what it is made from, and with -MP an empty rule for each, so that a file that
// goes away is no error.
static const char *
rule_text(const Options *o, Compile *c, const char *target)
{
    Arena *a = &c->mem.perm;
    Text t = {0};
    text_add(a, &t, "%s:", o->dep_target ? o->dep_target : make_quoted(a, target));
    for (int i = 0; i < c->program->files.n; i++)
        text_add(a, &t, " \\\n  %s", make_quoted(a, c->program->files.v[i]));
    text_add(a, &t, " \\\n  %s\n", make_quoted(a, c->schema_path));
    for (int i = 1; o->phony && i < c->program->files.n; i++)
        text_add(a, &t, "%s:\n", make_quoted(a, c->program->files.v[i]));
    if (o->phony)
        text_add(a, &t, "%s:\n", make_quoted(a, c->schema_path));
    return t.v;
}

static void
add_report(const Options *o, Compile *c, Tiles *t, Outputs *l)
{
    json_t *report = compile_report(c, t);
    char *text = json_dumps(report, JSON_INDENT(1));
    if (!text)
        die("no memory for the report");
    add_output(c, l, output_path(o, c, ".report.json"),
               arena_printf(&c->mem.perm, "%s\n", text));
    add_output(c, l, output_path(o, c, ".report.txt"), report_text(&c->mem, report));
    free(text);
    json_decref(report);
}

static Outputs
collect_outputs(const Options *o, Compile *c)
{
    Outputs l = {0};
    Tiles *t = o->emit & (EMIT_C | EMIT_REPORT) ? compile_tiles(c) : NULL;
    if (o->emit & EMIT_C)
        add_output(c, &l, output_path(o, c, ".c"), compile_c(c, c->schema, t));
    if (o->emit & EMIT_REPORT)
        add_report(o, c, t, &l);
    if (o->emit & EMIT_AST)
        add_output(c, &l, output_path(o, c, ".ast.txt"), trees_text(c));
    if (o->emit & EMIT_GRAPH)
        add_output(c, &l, output_path(o, c, ".graph.txt"), printed(c, c->graph, NULL));
    if (o->deps && l.n)
        add_output(c, &l, o->dep_file ? o->dep_file : output_path(o, c, ".d"),
                   rule_text(o, c, l.v[0].path));
    return l;
}

// ---- the run ------------------------------------------------------------------------

static void
dump(void *arg, const char *pass, const Graph *g)
{
    const Options *o = arg;
    for (int i = 0; i < o->dump.n; i++) {
        if (strcmp(o->dump.v[i], pass) != 0)
            continue;
        if (o->dump.n > 1)
            printf("# %s\n", pass);
        graph_print(g, stdout);
    }
}

// The tile program, as scheduled or with the offsets that plan gives.
static void
dump_tiles(const Options *o, Compile *c)
{
    for (int i = 0; i < o->dump.n; i++) {
        bool planned = strcmp(o->dump.v[i], "plan") == 0;
        if (!planned && strcmp(o->dump.v[i], "schedule") != 0)
            continue;
        if (o->dump.n > 1)
            printf("# %s\n", o->dump.v[i]);
        tiles_print(compile_tiles(c), planned, stdout);
    }
}

static int
run(const Options *o, Compile *c)
{
    const char *path = model_path((Mem *)(uintptr_t)&o->mem, o->model);
    int status = compile_open(c, path, o->include.v, o->include.n);
    c->name = o->name ? o->name : model_stem(&c->mem, o->model, path);
    c->batch_hint = o->batch_hint;
    for (int i = 0; i < o->set.n && !status; i++)
        status = config_set_text(c->config, o->set.v[i]);
    if (!status)
        status = compile_schema(c, o->schema);
    if (!status && !o->schema)
        fprintf(stderr, "pcvrc: schema: %s\n", c->schema_path);
    if (!status)
        status = compile_graph(c);
    if (!status)
        status = compile_passes(c, o->checkpoint, true, dump, (void *)o);
    if (!status)
        dump_tiles(o, c);
    if (status || o->dump.n)
        return status;
    Outputs l = collect_outputs(o, c);
    return write_files(&c->diag, l.v, l.n);
}

int
main(int argc, char **argv)
{
    Options o = {.emit = EMIT_C | EMIT_REPORT, .batch_hint = -1};
    pcvr_process_start();
    mem_init(&o.mem);
    read_options(&o, argc, argv);
    int status = o.status;
    if (!o.done && !status) {
        Compile c;
        status = run(&o, &c);
        diag_print(&c.diag, stderr);
        compile_close(&c);
    }
    mem_free(&o.mem);
    return pcvr_process_end(status);
}

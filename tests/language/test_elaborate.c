// test_elaborate.c - runs tests/language/elaborate/*.pcvr: what elaboration reports,
// makes and computes.
//
// A case starts with "# case: why" and is a model file of its own. Lines that tell what
// is expected:
//
//     … # error: TEXT          this error, at this line; no others may occur
//     # fault: TEXT            this error, which has no place
//     # set: NAME=VALUE        given as --set
//     # params: NAME f32[2, 3] table; NAME …  every parameter, in order, with its marks
//     # calls: blocks.0 blocks.1 blocks.0(2)  every block call, in order
//     # logits: 1 2.5          what forward gives; element k of a parameter is k + 1, of
//                              an i64 input k + 1, of an f32 one k / 2, of a boolean one
//                              k % 2; lengths are 2, the time is 1000
//     # embedding: 1 2.5       the same of the embedding
//
// A case without "# error" must elaborate. The schema is that of
// tests/golden/models/onetrans/tiny.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elab.h"
#include "interp.h"
#include "messages.h"

#define CASES  "tests/language/elaborate"
#define SCHEMA "tests/golden/models/onetrans/tiny/schema.json"

enum { MIN_CASES = 101, MIN_MESSAGES = 190 }; // fewer means that some were not found

// Every message that was produced.
static Texts said;
static Arena said_arena;

typedef struct Case {
    const char *why, *file;
    char *text; // the case alone, its lines keep their numbers
    Mem mem;
    Diag diag;
    Schema *schema;
    Graph *g;
    int wrong;
} Case;

static void wrong(Case *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
wrong(Case *c, const char *fmt, ...)
{
    va_list ap;
    if (c->wrong++ == 0)
        printf("%s: %s\n", c->file, c->why);
    va_start(ap, fmt);
    printf("  ");
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
}

// ---- directives -------------------------------------------------------------------

// The text behind "# name: " on the next line that starts with it, from *at on; NULL at
// the end.
static char *
directive(Case *c, const char *name, const char **at)
{
    const char *head = arena_printf(&c->mem.perm, "\n# %s: ", name);
    const char *found = strstr(*at, head);
    if (!found)
        return NULL;
    const char *from = found + strlen(head);
    size_t n = strcspn(from, "\n");
    *at = from + n;
    return arena_copy(&c->mem.perm, from, n);
}

static char *
only_directive(Case *c, const char *name)
{
    const char *at = c->text;
    return directive(c, name, &at);
}

// ---- errors -----------------------------------------------------------------------

// The text expected at a line, or NULL.
static const char *
expected_error(Case *c, int line)
{
    const char *at = c->text;
    for (int k = 1; k < line && *at; k++) {
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    const char *text = arena_copy(&c->mem.perm, at, strcspn(at, "\n"));
    const char *mark = strstr(text, "# error: ");
    return mark ? mark + strlen("# error: ") : NULL;
}

static int
count_expected(const char *text)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, "# error: ")); at++)
        n++;
    for (const char *at = text; (at = strstr(at, "\n# fault: ")); at++)
        n++;
    return n;
}

static bool
expected_fault(Case *c, const char *text)
{
    const char *at = c->text, *want;
    while ((want = directive(c, "fault", &at)))
        if (strcmp(want, text) == 0)
            return true;
    return false;
}

static void
check_errors(Case *c)
{
    int found = 0;
    for (int k = 0; k < c->diag.messages.n; k++) {
        const Message *m = &c->diag.messages.v[k];
        int line, col;
        if (m->severity == SEV_NOTE)
            continue;
        place_line_col(&c->diag, m->place, &line, &col);
        const char *want = m->place.file == 1 ? expected_error(c, line) : NULL;
        if (want ? strcmp(want, m->text) == 0 : !line && expected_fault(c, m->text))
            found++;
        else
            wrong(c, "not expected: line %d: %s", line, m->text);
    }
    if (found != count_expected(c->text))
        wrong(c, "%d of %d errors were reported", found, count_expected(c->text));
}

// ---- parameters and calls ---------------------------------------------------------

static void
check_text(Case *c, const char *what, const char *want, const char *found)
{
    if (want && strcmp(want, found) != 0)
        wrong(c, "%s are: %s", what, found);
}

static void
check_params(Case *c)
{
    Text t = {0};
    Arena *a = &c->mem.perm;
    text_add(a, &t, "%s", "");
    for (int k = 0; k < c->g->n_params; k++) {
        const Param *p = &c->g->params[k];
        text_add(a, &t, "%s%s %s", k ? "; " : "", p->name,
                 shape_text(&c->mem, DT_F32, p->shape));
        if (p->table)
            text_add(a, &t, " table(%lld)", (long long)p->table_ids);
        text_add(a, &t, "%s%s%s%s%s", p->padding ? " padding" : "",
                 p->matrices ? " matrices" : "", p->adamw ? " adamw" : "",
                 p->frozen ? " frozen" : "", p->unused ? " unused" : "");
    }
    check_text(c, "parameters", only_directive(c, "params"), t.v);
}

static void
check_calls(Case *c)
{
    Text t = {0};
    Arena *a = &c->mem.perm;
    text_add(a, &t, "%s", "");
    for (int k = 0; k < c->g->n_calls; k++) {
        const Call *call = c->g->calls[k];
        text_add(a, &t, "%s%s", k ? " " : "", call->name);
        if (call->ordinal)
            text_add(a, &t, "(%d)", call->ordinal + 1);
        if (call->outer)
            text_add(a, &t, "<%s", call->outer->name);
    }
    check_text(c, "calls", only_directive(c, "calls"), t.v);
}

// ---- values -----------------------------------------------------------------------

static void
give_input(Case *c, Interp *it, int k)
{
    const Input *in = &c->g->inputs[k];
    int64_t n = shape_size(in->shape);
    union {
        double f;
        int64_t i;
    } *v = calloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; i < n; i++)
        if (in->type == DT_F32)
            v[i].f = 0.5 * (double)i;
        else
            v[i].i = in->type == DT_BOOL           ? i % 2
                     : in->kind == IN_LENGTH       ? 2
                     : in->kind == IN_REQUEST_TIME ? 1000
                                                   : i + 1;
    interp_input(it, k, v);
    free(v);
}

static void
check_values(Case *c, const char *what, const char *want, const Interp *it, const Node *n)
{
    const Tensor *t = n ? interp_value(it, n) : NULL;
    if (!t) {
        wrong(c, "there is no %s", what);
        return;
    }
    const char *at = want;
    bool same = true;
    for (int64_t k = 0; k < t->size; k++) {
        char *end;
        double x = strtod(at, &end);
        same = same && end != at && fabs(x - t->f[k]) <= 1e-6 * (1 + fabs(x));
        at = end;
    }
    if (same && strspn(at, " ") == strlen(at))
        return;
    Text found = {0};
    for (int64_t k = 0; k < t->size; k++)
        text_add(&c->mem.perm, &found, "%s%.8g", k ? " " : "", t->f[k]);
    wrong(c, "%s are: %s", what, found.v ? found.v : "");
}

static void
check_results(Case *c)
{
    const char *logits = only_directive(c, "logits"),
               *embedding = only_directive(c, "embedding");
    if (!logits && !embedding)
        return;
    Interp *it = interp_new(c->g);
    interp_begin(it, 0);
    for (int k = 0; k < c->g->n_params; k++) {
        int64_t n = shape_size(c->g->params[k].shape);
        double *v = arena_array(&c->mem.perm, double, n);
        for (int64_t i = 0; i < n; i++)
            v[i] = (double)(i + 1);
        interp_param_f64(it, k, v);
    }
    for (int k = 0; k < c->g->n_inputs; k++)
        give_input(c, it, k);
    Node *outputs[2] = {c->g->logits, c->g->embedding};
    interp_run(it, outputs, c->g->embedding ? 2 : 1);
    if (logits)
        check_values(c, "logits", logits, it, c->g->logits);
    if (embedding)
        check_values(c, "embedding", embedding, it, c->g->embedding);
    interp_free(it);
}

// ---- running a case ---------------------------------------------------------------

static void
elaborate_case(Case *c)
{
    DataError error = {{0}};
    c->schema = schema_read(SCHEMA, &error);
    if (!c->schema)
        fail_msg("%s", error.text);
    Program *p =
        pcvrc_load_text(&c->mem, &c->diag, c->file, c->text, strlen(c->text), NULL, 0);
    Config *config = p ? config_new(&c->mem, &c->diag, p) : NULL;
    const char *at = c->text, *set;
    while (config && (set = directive(c, "set", &at)))
        if (config_set_text(config, set))
            config = NULL;
    if (!config || schema_set_lens(c->schema, config_seq_max_lens(config), &error))
        return;
    c->g = elaborate(&c->mem, &c->diag, p, config, c->schema);
}

static void
remember(const Diag *d)
{
    for (int k = 0; k < d->messages.n; k++) {
        const char *text = d->messages.v[k].text;
        array_push(&said_arena, &said, arena_copy(&said_arena, text, strlen(text)));
    }
}

static int
run_case(const char *file, const char *why, const char *text)
{
    Case c = {.file = file, .why = why};
    mem_init(&c.mem);
    diag_init(&c.diag, &c.mem);
    c.text = arena_copy(&c.mem.perm, text, strlen(text));
    elaborate_case(&c);
    remember(&c.diag);
    check_errors(&c);
    if (!c.g != (c.diag.errors > 0))
        wrong(&c, "a graph is given exactly when there is no error");
    if (c.g) {
        check_params(&c);
        check_calls(&c);
        check_results(&c);
    }
    schema_free(c.schema);
    mem_free(&c.mem);
    return c.wrong > 0;
}

static char *
read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot read %s", path);
    char *text = calloc(1, 1 << 18);
    size_t n = fread(text, 1, (1 << 18) - 1, f);
    fclose(f);
    text[n] = '\0';
    return text;
}

// Every case of a file, each with the lines before it blank.
static void
run_file(const char *path, int *n_cases, int *n_wrong)
{
    char *text = read_file(path), *at = strstr(text, "# case: ");
    while (at) {
        char *next = strstr(at + 1, "\n# case: ");
        char kept = next ? next[1] : '\0';
        if (next)
            next[1] = '\0';
        char *copy = strdup(text);
        for (char *x = copy; x < copy + (at - text); x++)
            *x = *x == '\n' ? '\n' : ' ';
        char *why = strndup(at + 8, strcspn(at + 8, "\n"));
        *n_wrong += run_case(path, why, copy);
        ++*n_cases;
        free(why);
        free(copy);
        if (next)
            next[1] = kept;
        at = next ? next + 1 : NULL;
    }
    free(text);
}

static int
is_case_file(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 5 && strcmp(e->d_name + n - 5, ".pcvr") == 0;
}

static void
test_cases(void **state)
{
    (void)state;
    struct dirent **entries;
    int n = scandir(CASES, &entries, is_case_file, alphasort), n_cases = 0, n_wrong = 0;
    assert_true(n > 0);
    for (int k = 0; k < n; k++) {
        char path[400];
        snprintf(path, sizeof path, CASES "/%s", entries[k]->d_name);
        run_file(path, &n_cases, &n_wrong);
        free(entries[k]);
    }
    free(entries);
    printf("%d cases, %d wrong\n", n_cases, n_wrong);
    assert_int_equal(n_wrong, 0);
    assert_true(n_cases >= MIN_CASES);
}

// ---- every message is produced ----------------------------------------------------

static int
is_source(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 2 && strcmp(e->d_name + n - 2, ".c") == 0 &&
           (strncmp(e->d_name, "elab", 4) == 0 || strcmp(e->d_name, "init.c") == 0 ||
            strcmp(e->d_name, "config.c") == 0);
}

static void
test_every_message(void **state)
{
    (void)state;
    struct dirent **entries;
    int n = scandir("compiler", &entries, is_source, alphasort), missing = 0, seen = 0;
    for (int k = 0; k < n; k++) {
        char path[400];
        snprintf(path, sizeof path, "compiler/%s", entries[k]->d_name);
        char *text = read_file(path);
        static const char *const calls[] = {" fault(", "(fault(", "diag_error(",
                                            "diag_note("};
        for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
            for (const char *at = text; (at = strstr(at, calls[c])); at++)
                missing += messages_missing(&said_arena, &said, at, path, &seen);
        free(text);
        free(entries[k]);
    }
    free(entries);
    printf("%d messages, %d missing\n", seen, missing);
    assert_int_equal(missing, 0);
    assert_true(seen >= MIN_MESSAGES);
}

// Values from JSON: what a case or a train_config.json holds.
static void
test_json(void **state)
{
    (void)state;
    static const char text[] =
        "config a: int = 1 in 1..\nconfig ns.b: {str: [int]} = {}\n"
        "config c: float = 0.5\nmodel M { forward() = zeros([1]) }\n";
    Mem mem;
    Diag d;
    mem_init(&mem);
    diag_init(&d, &mem);
    Program *p = pcvrc_load_text(&mem, &d, "json.pcvr", text, strlen(text), NULL, 0);
    Config *c = p ? config_new(&mem, &d, p) : NULL;
    assert_non_null(c);
    json_t *good = json_loads(
        "{\"a\": 3, \"other\": null, \"c\": 2, \"gradient_checkpointing\": true,"
        " \"ns\": {\"b\": {\"y\": [2], \"x\": []}, \"other\": 1}}",
        0, NULL);
    assert_int_equal(config_set_json(c, good, "good"), CONFIG_OK);
    json_t *all = config_json(c);
    char *dump = json_dumps(all, JSON_COMPACT);
    assert_string_equal(dump, "{\"a\":3,\"ns\":{\"b\":{\"y\":[2],\"x\":[]}},\"c\":2.0,"
                              "\"gradient_checkpointing\":true}");
    assert_true(config_gradient_checkpointing(c));
    json_t *bad =
        json_loads("{\"a\": 0, \"c\": \"x\", \"ns\": {\"b\": {\"z\": 1}}}", 0, NULL);
    assert_int_equal(config_set_json(c, bad, "bad"), CONFIG_BAD_VALUE);
    assert_int_equal(d.errors, 3);
    assert_int_equal(config_set_json(c, json_object_get(bad, "c"), "bad"),
                     CONFIG_BAD_VALUE);
    json_t *lens = json_loads("{\"s\": 8, \"t\": 9}", 0, NULL);
    assert_int_equal(config_set_seq_max_lens_json(c, lens, "case"), CONFIG_OK);
    assert_string_equal(config_seq_max_lens(c), "s:8,t:9");
    assert_int_equal(config_set_seq_max_lens_json(c, bad, "case"), CONFIG_BAD_VALUE);
    assert_string_equal(config_seq_max_lens(c), "s:8,t:9");
    assert_int_equal(config_set_text(c, "a=x"), CONFIG_BAD_VALUE);
    assert_int_equal(config_set_text(c, "b=1"), CONFIG_USAGE);
    remember(&d);
    free(dump);
    json_decref(good);
    json_decref(all);
    json_decref(bad);
    json_decref(lens);
    mem_free(&mem);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases),
                                       cmocka_unit_test(test_json),
                                       cmocka_unit_test(test_every_message)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_reset(&said_arena);
    return failed;
}

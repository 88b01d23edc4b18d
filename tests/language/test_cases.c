// test_cases.c - runs the language cases: each error at its line with its text, and no other.
//
// The last test reads the sources of the front end: every message they hold must have been produced
// by some case, or by one of the file faults tried here.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "messages.h"
#include "program.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIR_CASES "tests/language"

enum { MIN_CASES = 99 }; // fewer means that some were not found

typedef struct Case {
    const char *file, *why;
    const char *text; // the case alone, behind empty lines: its lines keep their numbers
    size_t length;
} Case;

typedef struct State {
    Mem mem;
    Array(Case) cases;
    Texts said; // every message that was produced
} State;

// ---- reading cases -------------------------------------------------------------------

static char *
read_text(Arena *a, const char *path, size_t *length)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    Text t = {0};
    char buf[4096];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, f)) > 0)
        text_add_bytes(a, &t, buf, n);
    fclose(f);
    *length = (size_t)t.n;
    return t.v ? t.v : arena_copy(a, "", 0);
}

static void
add_case(State *s, const char *file, const char *text, const char *from, const char *to)
{
    Arena *a = &s->mem.perm;
    size_t before = (size_t)(from - text), n = (size_t)(to - text);
    char *copy = arena_copy(a, text, n);
    for (size_t i = 0; i < before; i++)
        if (copy[i] != '\n')
            copy[i] = ' ';
    const char *why = from + strlen("# case: ");
    Case c = {file, arena_copy(a, why, strcspn(why, "\n")), copy, n};
    array_push(a, &s->cases, c);
}

static void
read_cases(State *s, const char *path)
{
    size_t length;
    char *text = read_text(&s->mem.perm, path, &length);
    if (!text)
        fail_msg("cannot read %s", path);
    const char *at = strstr(text, "# case: ");
    if (!at)
        fail_msg("%s holds no case", path);
    while (at) {
        const char *next = strstr(at, "\n# case: ");
        add_case(s, path, text, at, next ? next + 1 : text + length);
        at = next ? next + 1 : NULL;
    }
}

static int
by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int
is_case_file(const struct dirent *e)
{
    size_t n = strlen(e->d_name);
    return n > 5 && strcmp(e->d_name + n - 5, ".pcvr") == 0;
}

static int
setup(void **state)
{
    State *s = calloc(1, sizeof *s);
    struct dirent **entries;
    int n = scandir(DIR_CASES, &entries, is_case_file, by_name);
    if (!s || n < 0)
        return -1;
    for (int i = 0; i < n; i++) {
        read_cases(s, arena_printf(&s->mem.perm, DIR_CASES "/%s", entries[i]->d_name));
        free(entries[i]);
    }
    free(entries);
    *state = s;
    return 0;
}

static int
teardown(void **state)
{
    State *s = *state;
    mem_free(&s->mem);
    free(s);
    return 0;
}

// ---- comparing -----------------------------------------------------------------------

typedef struct Expected {
    uint32_t file;
    int line;
    Severity severity;
    const char *text;
    bool found;
} Expected;

typedef Array(Expected) ExpectedList;

// The expectations of one line; `line` is its number, `above` the one "above" speaks of.
static void
expect_line(Arena *a, ExpectedList *l, uint32_t file, int line, int above,
            const char *text)
{
    for (const char *at = text; (at = strstr(at, "# error"));) {
        bool is_above = strncmp(at, "# error above: ", 15) == 0;
        if (!is_above && strncmp(at, "# error: ", 9) != 0) {
            at++;
            continue;
        }
        at += is_above ? 15 : 9;
        const char *end = strstr(at, "# error");
        size_t n = end ? (size_t)(end - at) : strlen(at);
        while (n && at[n - 1] == ' ')
            n--;
        Expected e = {file, is_above ? above : line, SEV_ERROR, arena_copy(a, at, n),
                      false};
        array_push(a, l, e);
    }
    const char *warning = strstr(text, "# warning: ");
    if (warning)
        array_push(a, l, ((Expected){file, line, SEV_WARNING, warning + 11, false}));
}

static ExpectedList
expectations(Arena *a, const Diag *d)
{
    ExpectedList l = {0};
    for (int f = 1; f < d->sources.n; f++) {
        int line = 1, above = 1;
        for (const char *at = d->sources.v[f].text; *at; line++) {
            size_t n = strcspn(at, "\n");
            const char *text = arena_copy(a, at, n);
            expect_line(a, &l, (uint32_t)f, line, above, text);
            if (strncmp(text, "# error above", 13) != 0)
                above = line;
            at += n + (at[n] == '\n');
        }
    }
    return l;
}

// Marks the expectation that a message fulfils; false if there is none.
static bool
fulfil(const Diag *d, ExpectedList *l, const Message *m)
{
    int line, col;
    place_line_col(d, m->place, &line, &col);
    for (int i = 0; i < l->n; i++) {
        Expected *e = &l->v[i];
        if (e->found || e->severity != m->severity || e->file != m->place.file ||
            e->line != line || strcmp(e->text, m->text) != 0)
            continue;
        e->found = true;
        return true;
    }
    return false;
}

static int
differences(Arena *a, const Diag *d)
{
    ExpectedList l = expectations(a, d);
    int n = 0;
    for (int i = 0; i < d->messages.n; i++) {
        const Message *m = &d->messages.v[i];
        if (m->severity == SEV_NOTE || fulfil(d, &l, m))
            continue;
        printf("  not expected: %s: %s\n", place_text(d, m->place, a), m->text);
        n++;
    }
    for (int i = 0; i < l.n; i++) {
        if (l.v[i].found)
            continue;
        printf("  not reported: %s:%d: %s\n", d->sources.v[l.v[i].file].path, l.v[i].line,
               l.v[i].text);
        n++;
    }
    return n;
}

static void
remember(State *s, const Diag *d)
{
    for (int i = 0; i < d->messages.n; i++) {
        const char *text = d->messages.v[i].text;
        array_push(&s->mem.perm, &s->said, arena_copy(&s->mem.perm, text, strlen(text)));
    }
}

static void
test_cases(void **state)
{
    State *s = *state;
    int wrong = 0;
    for (int i = 0; i < s->cases.n; i++) {
        const Case *c = &s->cases.v[i];
        Mem mem;
        Diag d;
        mem_init(&mem);
        diag_init(&d, &mem);
        Program *p = pcvrc_load_text(&mem, &d, c->file, c->text, c->length, NULL, 0);
        remember(s, &d);
        int n = differences(&mem.perm, &d);
        if (n || !p != (d.errors > 0))
            printf("%s: %s\n", c->file, c->why);
        if (!p != (d.errors > 0))
            printf("  a program is given exactly when there is no error\n");
        wrong += n != 0 || !p != (d.errors > 0);
        mem_free(&mem);
    }
    if (s->cases.n < MIN_CASES)
        fail_msg("found %d cases, there are at least %d", s->cases.n, MIN_CASES);
    if (wrong)
        fail_msg("%d of %d cases failed", wrong, s->cases.n);
}

// ---- faults of files -----------------------------------------------------------------

// Loads a path; expects one error whose text starts so.
static void
expect_fault(State *s, const char *path, const char *start)
{
    Mem mem;
    Diag d;
    mem_init(&mem);
    diag_init(&d, &mem);
    assert_null(pcvrc_load(&mem, &d, path, NULL, 0));
    remember(s, &d);
    assert_int_equal(d.errors, 1);
    if (strncmp(d.messages.v[0].text, start, strlen(start)) != 0)
        fail_msg("%s: expected '%s…', found '%s'", path, start, d.messages.v[0].text);
    assert_non_null(strstr(diag_text(&d, &mem.perm), d.messages.v[0].text));
    mem_free(&mem);
}

static void
write_file(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void
test_file_faults(void **state)
{
    State *s = *state;
    char dir[] = "/tmp/pcvrc-cases-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a.pcvr", dir);
    expect_fault(s, path, "cannot read '");
    expect_fault(s, dir, "cannot read '");
    expect_fault(s, "/dev/null", "cannot read '/dev/null': it is not a regular file");
    write_file(path, "let a = \"x\0y\"\n", 14);
    expect_fault(s, path, "a NUL byte in the text");
    write_file(path, "let a = \"\xff\"\n", 11);
    expect_fault(s, path, "byte 0xff is not UTF-8");
    write_file(path, "let a = \"\xe2\x82", 11);
    expect_fault(s, path, "byte 0xe2 is not UTF-8");
    write_file(path, "let a = \"\xed\xa0\x80\"", 13);
    expect_fault(s, path, "byte 0xed is not UTF-8");
    write_file(path, "import \".\"", 10);
    expect_fault(s, path, "cannot read '");
    write_file(path, "import \"a.pcvr\"", 15);
    expect_fault(s, path, "imports form a cycle");
    assert_int_equal(truncate(path, (off_t)3 << 30), 0);
    expect_fault(s, path, "cannot read '");
    unlink(path);
    for (int i = 0; i < 250; i++) {
        char text[64];
        int n = snprintf(text, sizeof text, "import \"%d\"", i + 1);
        snprintf(path, sizeof path, "%s/%d", dir, i);
        write_file(path, text, (size_t)n);
    }
    snprintf(path, sizeof path, "%s/0", dir);
    expect_fault(s, path, "imports nest deeper than 200 files");
    for (int i = 0; i < 250; i++) {
        snprintf(path, sizeof path, "%s/%d", dir, i);
        unlink(path);
    }
    rmdir(dir);
}

static void
test_deep_nesting(void **state)
{
    State *s = *state;
    static const char *const shapes[][3] = {
        {"(", "1", ")"},    {"[", "1", "]"},    {"-", "1", ""},
        {"x => ", "1", ""}, {"f(", "1", ")"},   {"", "1", "[0]"},
        {"", "1", "'"},     {"{1: ", "1", "}"}, {"if a then b else ", "1", ""}};
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        Mem mem;
        Diag d;
        Text t = {0};
        mem_init(&mem);
        diag_init(&d, &mem);
        text_add(&mem.perm, &t,
                 "model M { forward() = 0 } let a = true let b = 1 let deep = ");
        for (int side = 0; side < 3; side++)
            for (int i = 0; i < (side == 1 ? 1 : 20000); i++)
                text_add(&mem.perm, &t, "%s", shapes[k][side]);
        Program *p = pcvrc_load_text(&mem, &d, "deep", t.v, (size_t)t.n, NULL, 0);
        remember(s, &d);
        assert_int_equal(p == NULL, k > 0); // parentheses alone nest nothing
        assert_int_equal(d.errors, k > 0);
        assert_non_null(diag_text(&d, &mem.perm));
        mem_free(&mem);
    }
}

// ---- every message is produced -------------------------------------------------------

// What no input can provoke, and what tests/language/test_pcvrc.sh tries.
static const char *const unprovoked[] = {
    "installed models are %s",
    "out of memory",
    "nested too deeply for the memory there is",
};

static int
check_messages(State *s, const char *path, int *seen)
{
    static const char *const calls[] = {"diag_error(", "diag_warning(", "diag_note(",
                                        "lex_fault(", "FAULT("};
    size_t length;
    Arena *a = &s->mem.perm;
    const char *text = read_text(a, path, &length);
    int missing = 0;
    if (!text)
        fail_msg("cannot read %s", path);
    for (size_t k = 0; k < sizeof calls / sizeof calls[0]; k++)
        for (const char *at = text; (at = strstr(at, calls[k])); at++)
            missing += messages_missing(a, &s->said, at, path, seen);
    return missing;
}

static void
test_every_message(void **state)
{
    static const char *const files[] = {
        "compiler/lexer.re",     "compiler/parser.y",      "compiler/parse.c",
        "compiler/ast.c",        "compiler/source.c",      "compiler/load.c",
        "compiler/check.c",      "compiler/check_scope.c", "compiler/check_type.c",
        "compiler/check_call.c", "compiler/check_expr.c"};
    State *s = *state;
    int missing = 0, seen = 0;
    for (size_t i = 0; i < sizeof unprovoked / sizeof unprovoked[0]; i++)
        array_push(&s->mem.perm, &s->said, unprovoked[i]);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        missing += check_messages(s, files[i], &seen);
    if (seen < 80)
        fail_msg("found %d messages in the sources, there are at least 80", seen);
    if (missing)
        fail_msg("%d messages are produced by no case", missing);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_file_faults),
        cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_every_message),
    };
    return cmocka_run_group_tests_name("language cases", tests, setup, teardown);
}

// test_parse.c - precedence and shape of trees, and their places.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "program.h"

#include <stdlib.h>
#include <string.h>

typedef struct World {
    Mem mem;
    Diag diag;
} World;

static Ast *
parse(World *w, const char *text)
{
    mem_init(&w->mem);
    diag_init(&w->diag, &w->mem);
    return parse_expr(&w->mem, &w->diag,
                      source_add(&w->diag, "t", "t", text, strlen(text)));
}

// The tree on one line.
static char *
tree_text(const Ast *a)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    ast_print(a, f);
    fclose(f);
    char *to = text;
    for (const char *from = text; *from; from++)
        if (!(*from == '\n' || (*from == ' ' && to > text && to[-1] == ' ')))
            *to++ = *from;
        else if (*from == '\n' && from[1])
            *to++ = ' ';
    *to = '\0';
    return text;
}

static void
test_precedence(void **state)
{
    // Each expression, and the same with all parentheses.
    static const char *const pairs[][2] = {
        {"a + b * c", "a + (b * c)"},
        {"a - b - c", "(a - b) - c"},
        {"a ** b ** c", "a ** (b ** c)"},
        {"-a ** b", "-(a ** b)"},
        {"a ** -b", "a ** (-b)"},
        {"a ** -b * c", "(a ** (-b)) * c"},
        {"-a * b", "(-a) * b"},
        {"a @ b' + c", "(a @ (b')) + c"},
        {"a // b % c", "(a // b) % c"},
        {"not a == b", "not (a == b)"},
        {"not a and b or c", "((not a) and b) or c"},
        {"a or b and c", "a or (b and c)"},
        {"a..b + 1", "a..(b + 1)"},
        {"a or b..c", "(a or b)..c"},
        {"a < b + c and d", "(a < (b + c)) and d"},
        {"if a then b else c + d", "if a then b else (c + d)"},
        {"a + if b then c else d + e", "a + (if b then c else (d + e))"},
        {"if a then b else if c then d else e", "if a then b else (if c then d else e)"},
        {"x => x + 1", "x => (x + 1)"},
        {"(x, y) => x => y", "(x, y) => (x => y)"},
        {"a.b(c)[d]'", "(((a.b)(c))[d])'"},
        {"-a.b", "-(a.b)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        World a, b;
        char *x = tree_text(parse(&a, pairs[i][0])),
             *y = tree_text(parse(&b, pairs[i][1]));
        if (strcmp(x, y) != 0)
            fail_msg("%s is %s", pairs[i][0], x);
        free(x);
        free(y);
        mem_free(&a.mem);
        mem_free(&b.mem);
    }
}

static void
test_shapes(void **state)
{
    static const char *const pairs[][2] = {
        {"12", "(int 12)"},
        {"1_000", "(int 1_000)"},
        {"true", "(bool true)"},
        {"\"a b\"", "(string \"a b\")"},
        {"(a, b)", "(tuple (name a) (name b))"},
        {"[]", "(list)"},
        {"{}", "(dict)"},
        {"{1: a}", "(dict (pair (int 1) (name a)))"},
        {"[a for a in b if c]",
         "(list-comp (name a) (for (name a) (name b)) (filter (name c)))"},
        {"{a: b for a, (b, c) in d}", "(dict-comp (pair (name a) (name b)) (for (tuple "
                                      "(name a) (tuple (name b) (name c))) "
                                      "(name d)))"},
        {"f(a, b = c,)", "(call (name f) (name a) (arg b (name c)))"},
        {"a[b, :, c:, :d, e:f]",
         "(index (name a) (name b) (slice - -) (slice (name c) -) (slice - (name d)) "
         "(slice (name e) (name f)))"},
        {"a..=b", "(range closed (name a) (name b))"},
        {"x => y", "(lambda (params (param x - -)) (name y))"},
        {"a.block.model", "(field model (field block (name a)))"},
        {"not -a", "(unary not (unary - (name a)))"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        World w;
        char *text = tree_text(parse(&w, pairs[i][0]));
        assert_string_equal(text, pairs[i][1]);
        free(text);
        mem_free(&w.mem);
    }
}

static void
test_values(void **state)
{
    (void)state;
    World w;
    assert_int_equal(parse(&w, "9_223_372_036_854_775_807")->i, INT64_MAX);
    mem_free(&w.mem);
    assert_true(parse(&w, "1_0.5e-1")->f == 1.05);
    mem_free(&w.mem);
}

static void
test_places(void **state)
{
    (void)state;
    World w;
    const Ast *a = parse(&w, "é\n + 1");
    assert_null(a); // names are ASCII
    mem_free(&w.mem);
    a = parse(&w, "[\"é\",\n\tf(x)' , (b)]");
    const Ast *call = a->kids[1], *b = a->kids[2];
    int line, col;
    place_line_col(&w.diag, call->place, &line, &col);
    assert_int_equal(line, 2);
    assert_int_equal(col, 2);
    assert_string_equal(place_slice(&w.diag, call->place, &w.mem.perm), "f(x)'");
    assert_string_equal(place_slice(&w.diag, b->place, &w.mem.perm), "(b)");
    assert_true(b->grouped);
    place_line_col(&w.diag, a->kids[0]->place, &line, &col);
    assert_int_equal(col, 2);
    assert_string_equal(place_text(&w.diag, b->place, &w.mem.perm), "t:2:10");
    mem_free(&w.mem);
}

static void
test_excerpt(void **state)
{
    (void)state;
    World w;
    assert_null(parse(&w, "[\"é\",\n\tf(x), ?, \"two\"]"));
    assert_string_equal(diag_text(&w.diag, &w.mem.perm), "t:2:8: error: unexpected '?'\n"
                                                         "    2 | \tf(x), ?, \"two\"]\n"
                                                         "      | \t      ^\n");
    mem_free(&w.mem);
    assert_null(parse(&w, "a + (b <\n c < d)"));
    assert_string_equal(
        diag_text(&w.diag, &w.mem.perm),
        "t:1:6: error: comparisons do not chain: write 'a < b and b < c'\n"
        "    1 | a + (b <\n"
        "      |      ^~~\n");
    mem_free(&w.mem);
}

static void
test_suggestions(void **state)
{
    (void)state;
    static const char *const names[] = {"softmax", "max", "mask", "d"};
    assert_string_equal(nearest_name("sotfmax", names, 4), "softmax");
    assert_string_equal(nearest_name("msak", names, 4), "mask");
    assert_null(nearest_name("sum", names, 4));
    assert_null(nearest_name("e", names, 4));
    assert_null(nearest_name("completely_other", names, 4));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_precedence), cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_values),     cmocka_unit_test(test_places),
        cmocka_unit_test(test_excerpt),    cmocka_unit_test(test_suggestions),
    };
    return cmocka_run_group_tests_name("parser", tests, NULL, NULL);
}

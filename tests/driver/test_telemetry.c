// test_telemetry.c - texts made fit for JSON, rates, log files.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "telemetry.h"

static void
test_clean(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"", ""},
        {"u1 \"\\", "u1 \"\\"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82"},
        {"a\xff"
         "b",
         "a\xef\xbf\xbd"
         "b"},
        {"\xc3", "\xef\xbf\xbd"},                                 // cut short
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                 // overlong
        {"\xe0\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, // overlong
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, // a surrogate
        {"\xf4\x90\x80\x80z", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz"},
        {"\xf0\x9f\x99", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *s = json_clean(cases[i].in);
        assert_string_equal(s, cases[i].out);
        json_t *v = json_string(s);
        assert_non_null(v);
        json_decref(v);
        free(s);
    }
}

static void
test_rates(void **state)
{
    (void)state;
    Telemetry t = telemetry_start("training");
    json_t *v = telemetry_end(&t, json_object());
    json_object_set_new(v, "elapsed_sec", json_real(4.0));
    json_object_set_new(v, "rows", json_integer(10));
    json_object_set_new(v, "steps", json_integer(2));
    telemetry_rates(v);
    assert_true(json_real_value(json_object_get(v, "rows_per_sec")) == 2.5);
    assert_true(json_real_value(json_object_get(v, "steps_per_sec")) == 0.5);
    assert_null(json_object_get(v, "batches_per_sec"));
    assert_true(json_real_value(json_object_get(v, "cpu_peak_rss_mb")) > 0.5);
    assert_true(json_real_value(json_object_get(v, "started_at_unix")) > 1e9);
    json_decref(v);
}

static void
test_log(void **state)
{
    (void)state;
    char dir[] = "/tmp/pcvr-log-XXXXXX", path[64], *screen_text = NULL;
    size_t n = 0;
    PcvrError err = {{0}};
    assert_non_null(mkdtemp(dir));
    FILE *screen = open_memstream(&screen_text, &n);
    Run r = {.command = "train", .say = screen};
    snprintf(path, sizeof path, "%s/logs", dir);
    assert_true(run_log_open(&r, path, "train.log", &err));
    fprintf(r.say, "one %d\ntw", 1);
    fflush(r.say);
    fprintf(r.say, "o\n");
    run_log_close(&r);
    assert_true(r.say == screen);
    fprintf(r.say, "after\n");
    fclose(screen);
    assert_string_equal(screen_text, "one 1\ntwo\nafter\n");
    strcat(path, "/train.log");
    char *text = pcvr_file_read(path, &n, &err);
    assert_non_null(text);
    // "11/30/26 17:28:25 - 0:00:00 - one 1"
    assert_int_equal(text[2], '/');
    const char *first = strstr(text, " - 0:00:0"), *second = strstr(text, " - two\n");
    assert_non_null(first);
    assert_int_equal(first - text, 17);
    assert_non_null(strstr(text, " - one 1\n"));
    assert_non_null(second);
    assert_string_equal(second + 7, "");
    free(text);
    free(screen_text);
    unlink(path);
    *strrchr(path, '/') = 0;
    rmdir(path);
    rmdir(dir);
    run_log_close(&r); // nothing is open
    assert_false(run_log_open(&r, "/proc/nowhere", "train.log", &err));
    assert_non_null(strstr(err.text, "/proc/nowhere"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

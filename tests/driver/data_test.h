// data_test.h - where the data tests find their fixtures, and small helpers.
//
// $PCVR_FIXTURES/data (default ../shared/fixtures/data) where it is, else the part of it
// that tests/golden/data holds.

#ifndef DATA_TEST_H
#define DATA_TEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline bool
test_has_fixtures(void)
{
    char path[4096];
    const char *root = getenv("PCVR_FIXTURES");
    snprintf(path, sizeof path, "%s/data/README.md", root ? root : "../shared/fixtures");
    return access(path, R_OK) == 0;
}

// The path of a data fixture; the caller frees it.
static inline char *
test_path(const char *name)
{
    char *path = NULL;
    const char *root = getenv("PCVR_FIXTURES");
    int n = test_has_fixtures()
                ? asprintf(&path, "%s/data/%s", root ? root : "../shared/fixtures", name)
                : asprintf(&path, "tests/golden/data/%s", name);
    if (n < 0)
        abort();
    return path;
}

static inline json_t *
test_json(const char *name)
{
    json_error_t e;
    char *path = test_path(name);
    json_t *j = json_load_file(path, 0, &e);
    if (!j) {
        fprintf(stderr, "%s: %s\n", path, e.text);
        abort();
    }
    free(path);
    return j;
}

#endif

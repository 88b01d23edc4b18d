// fixtures.h - where the recorded cases lie, for the numeric tests.

#ifndef TEST_FIXTURES_H
#define TEST_FIXTURES_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// Path of a recorded file: under $PCVR_FIXTURES (default ../shared/fixtures), else its
// small copy under tests/golden; NULL, with the reason printed, where neither is there.
static inline const char *
fixture(char *room, size_t n, const char *name)
{
    const char *root = getenv("PCVR_FIXTURES");
    snprintf(room, n, "%s/%s", root && *root ? root : "../shared/fixtures", name);
    if (access(room, R_OK) == 0)
        return room;
    snprintf(room, n, "tests/golden/numeric/%s", name);
    if (access(room, R_OK) == 0)
        return room;
    printf("reason: no %s under $PCVR_FIXTURES, ../shared/fixtures or "
           "tests/golden/numeric\n",
           name);
    return NULL;
}

// True only for two numbers within the limit; a NaN on either side is never close.
static inline bool
close_to(double a, double b, double limit)
{
    return fabs(a - b) <= limit;
}

#endif

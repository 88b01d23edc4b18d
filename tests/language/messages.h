// messages.h - which messages the sources hold, and whether a text is one of them.

#ifndef MESSAGES_H
#define MESSAGES_H

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"

typedef Array(const char *) Texts;

// Whether a text is one that a printf format makes; a directive stands for anything.
static bool
is_made_by(const char *text, const char *fmt)
{
    if (!*fmt)
        return !*text;
    if (*fmt == '%' && fmt[1] != '%') {
        size_t n = 1 + strspn(fmt + 1, "0123456789.*-l");
        fmt += n + (fmt[n] != '\0');
        do
            if (is_made_by(text, fmt))
                return true;
        while (*text++);
        return false;
    }
    fmt += *fmt == '%';
    return *text == *fmt && is_made_by(text + 1, fmt + 1);
}

// The literal behind *at, which stands on its opening quote, joined with those that
// follow it.
static const char *
message_literal(Arena *a, const char **at)
{
    Text t = {0};
    const char *x = *at;
    text_add(a, &t, "%s", "");
    while (*x == '"' || strncmp(x, "PRI", 3) == 0) {
        if (*x == 'P') {
            text_add(a, &t, "d");
            x += strspn(x, "PRIdux0123456789");
        } else {
            for (x++; *x && *x != '"'; x++) {
                x += *x == '\\';
                text_add_bytes(a, &t, x, 1);
            }
            x += *x == '"';
        }
        x += strspn(x, " \n");
    }
    *at = x;
    return t.v;
}

// Counts the formats of the call at `at`, those before its values, that made none of the
// texts `said`, and prints them.
static int
messages_missing(Arena *a, const Texts *said, const char *at, const char *path, int *seen)
{
    int missing = 0;
    while (*at && *at != ';') {
        if (*at != '"') {
            if (*at == '\'' && at[1] && at[2] == '\'')
                at += 2;
            at++;
            continue;
        }
        const char *fmt = message_literal(a, &at);
        bool found = strcmp(fmt, "%s") == 0, more = *at == ':' || *at == '?';
        for (int k = 0; k < said->n && !found; k++)
            found = is_made_by(said->v[k], fmt);
        if (!found)
            printf("  no case produces \"%s\" (%s)\n", fmt, path);
        missing += !found;
        ++*seen;
        if (!more)
            break;
    }
    return missing;
}

#endif

// fuzz_flags.c - any command line, and any train_config.json, give settings or one line
// of error.

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "flags.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
one_line(bool ok, const PcvrError *err)
{
    if (!ok && (!err->text[0] || strchr(err->text, '\n')))
        __builtin_trap();
}

// Words of the input, one a line, as arguments.
static void
command_line(char *text, Settings *s)
{
    char *argv[64], *save = NULL;
    int argc = 0, json = 0;
    int64_t threads = 0;
    const char *dataset = NULL;
    const Flag flags[] = {{"dataset-path", FLAG_TEXT, &dataset},
                          {"json", FLAG_SWITCH, &json},
                          {"threads", FLAG_INT, &threads}};
    PcvrError err = {{0}};
    for (char *w = strtok_r(text, "\n", &save); w && argc < 64;
         w = strtok_r(NULL, "\n", &save))
        argv[argc++] = w;
    one_line(flags_parse(argc, argv, flags, 3, s, &err), &err);
    (void)flags_peek(argc, argv, "dataset-path");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"PCVRTrainConfig", "DualQTrainConfig",
                                        "QueryFormerTrainConfig", "SymbiosisTrainConfig"};
    Settings s;
    PcvrError err = {{0}};
    if (size < 1)
        return 0;
    char *text = malloc(size);
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    bool ok = settings_init(&s, settings_class(names[data[0] & 3]), &err);
    if (ok && data[0] & 4)
        one_line(settings_read(&s, text, size - 1, "fuzz", &err), &err);
    else if (ok)
        command_line(text, &s);
    char *written = settings_write(&s);
    err.text[0] = 0;
    (void)settings_supported(&s, &err);
    free(written);
    free(text);
    settings_free(&s);
    return 0;
}

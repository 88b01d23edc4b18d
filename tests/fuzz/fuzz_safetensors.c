// fuzz_safetensors.c - any bytes give tensors or one line of error.

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    PcvrTensors t;
    PcvrError err = {{0}};
    if (!pcvr_safetensors_parse(&t, data, size, "fuzz", &err)) {
        if (!err.text[0] || strchr(err.text, '\n'))
            __builtin_trap();
        return 0;
    }
    unsigned sum = 0;
    for (size_t i = 0; i < t.count; i++) {
        const unsigned char *bytes = t.tensors[i].data;
        for (size_t k = 0; k < t.tensors[i].bytes; k++)
            sum += bytes[k];
        if (pcvr_safetensors_find(&t, t.tensors[i].name) == NULL)
            __builtin_trap();
    }
    pcvr_safetensors_free(&t);
    return (int)(sum & 0);
}

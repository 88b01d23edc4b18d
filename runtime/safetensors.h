// safetensors.h - named tensors in a file: a strict reader and an atomic writer.

#ifndef PCVR_SAFETENSORS_H
#define PCVR_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

typedef enum PcvrType {
    PCVR_T_BOOL,
    PCVR_T_U8,
    PCVR_T_I8,
    PCVR_T_I16,
    PCVR_T_U16,
    PCVR_T_F16,
    PCVR_T_BF16,
    PCVR_T_I32,
    PCVR_T_U32,
    PCVR_T_F32,
    PCVR_T_F64,
    PCVR_T_I64,
    PCVR_T_U64,
    PCVR_T_COUNT
} PcvrType;

// "F32", "I64", …, as the file format spells them.
const char *pcvr_type_name(PcvrType type);
// Bytes of one element.
size_t pcvr_type_size(PcvrType type);

typedef struct PcvrTensor {
    const char *name;
    PcvrType type;
    int rank;
    const int64_t *shape; // [rank]
    size_t count;         // product of the shape, 1 for rank 0
    size_t bytes;
    const void *data; // C order, aligned to 64 bytes
} PcvrTensor;

// A file in memory, its tensors in the order of their data.
typedef struct PcvrTensors {
    PcvrTensor *tensors;
    size_t count;
    void *memory; // names and shapes
    void *data;
    size_t data_bytes; // what `data` occupies
} PcvrTensors;

// Reads and checks a whole file. Errors name the file and, where there is one, the
// tensor: header longer than the file or than 100 MB, JSON faults, duplicate names,
// unknown dtypes, shapes whose size does not match the bytes, offsets that overlap, leave
// holes or pass the end. On false `out` is empty; otherwise pcvr_safetensors_free.
bool pcvr_safetensors_read(PcvrTensors *out, const char *path, PcvrError *err);
// The same from n bytes in memory; `label` stands for the file in errors.
bool pcvr_safetensors_parse(PcvrTensors *out, const void *bytes, size_t n,
                            const char *label, PcvrError *err);
void pcvr_safetensors_free(PcvrTensors *t);

// The tensor of that name, or NULL.
const PcvrTensor *pcvr_safetensors_find(const PcvrTensors *t, const char *name);
// The tensor of that name, type and shape; NULL with the difference named. A rank below 0
// takes any shape.
const PcvrTensor *pcvr_safetensors_want(const PcvrTensors *t, const char *name,
                                        PcvrType type, int rank, const int64_t *shape,
                                        PcvrError *err);

// Writes n tensors (name, type, rank, shape, data are read; count and bytes are worked
// out) to `path` atomically: wider types first, names ascending, as the format's
// reference writer orders them.
bool pcvr_safetensors_write(const char *path, const PcvrTensor *tensors, size_t n,
                            PcvrError *err);

#endif

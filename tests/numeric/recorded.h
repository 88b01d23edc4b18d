// recorded.h - reading recorded JSON and tensors in tests; every failure fails the test.

#ifndef TEST_RECORDED_H
#define TEST_RECORDED_H

#include <jansson.h>
#include <string.h>

#include "fixtures.h"
#include "safetensors.h"

// A JSON file, NULL (with the reason printed) where it is not there.
static inline json_t *
recorded_json(const char *name)
{
    char path[512];
    json_error_t where;
    if (!fixture(path, sizeof path, name))
        return NULL;
    json_t *root = json_load_file(path, 0, &where);
    if (!root)
        fail_msg("%s: %s", path, where.text);
    return root;
}

// "nan", "inf" and "-inf" stand for values that JSON lacks.
static inline double
recorded_number(const json_t *v)
{
    if (json_is_number(v))
        return json_number_value(v);
    if (json_is_string(v)) {
        const char *s = json_string_value(v);
        if (!strcmp(s, "nan"))
            return (double)NAN;
        if (!strcmp(s, "inf"))
            return (double)INFINITY;
        if (!strcmp(s, "-inf"))
            return -(double)INFINITY;
    }
    fail_msg("not a number in a recorded file");
    return 0.0;
}

static inline double
recorded_field(const json_t *object, const char *key)
{
    json_t *v = json_object_get(object, key);
    if (!v)
        fail_msg("recorded file lacks '%s'", key);
    return recorded_number(v);
}

// Element i of a tensor as double.
static inline double
tensor_at(const PcvrTensor *t, size_t i)
{
    if (i >= t->count)
        fail_msg("%s: no element %zu", t->name, i);
    if (t->type == PCVR_T_F32)
        return (double)((const float *)t->data)[i];
    if (t->type == PCVR_T_F64)
        return ((const double *)t->data)[i];
    if (t->type == PCVR_T_I64)
        return (double)((const int64_t *)t->data)[i];
    fail_msg("%s: unexpected type", t->name);
    return 0.0;
}

static inline const PcvrTensor *
tensor_get(const PcvrTensors *all, const char *name)
{
    const PcvrTensor *t = pcvr_safetensors_find(all, name);
    if (!t)
        fail_msg("no tensor '%s'", name);
    return t;
}

static inline bool
recorded_tensors(PcvrTensors *out, const char *name)
{
    char path[512];
    PcvrError err = {{0}};
    if (!fixture(path, sizeof path, name))
        return false;
    if (!pcvr_safetensors_read(out, path, &err))
        fail_msg("%s", err.text);
    return true;
}

#endif

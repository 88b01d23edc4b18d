// interp_eval.h - the interpreter's state, and what evaluation functions share.

#ifndef PCVRC_INTERP_EVAL_H
#define PCVRC_INTERP_EVAL_H

#include "interp.h"

typedef struct ParamValue {
    const float *f32;
    const double *f64;
} ParamValue;

struct Interp {
    const Graph *g;
    Arena keep;    // values of constants and parameters, inputs
    Arena sample;  // values of the sample
    Arena scratch; // of one evaluation
    Tensor *value; // [n_nodes]
    bool *done;    // [n_nodes]
    bool *needed;  // [n_nodes]
    ParamValue *param;
    Tensor *input; // [n_inputs], this sample's
    Tensor dlogits;
    double **grad; // [n_params] or NULL
    bool training;
    bool exact; // constants are not rounded to float
    uint64_t seed;
    uint32_t step, index;
    int nudged; // parameter whose element is shifted, or -1
    int64_t nudged_element;
    double nudge;
};

// One function an operation: reads in(it, n, k), writes it->value[n->id], which is zero
// before.
#define OP(NAME, text, ...) void eval_##text(Interp *it, const Node *n);
#include "ops.def"
#undef OP

static inline const Tensor *
in(const Interp *it, const Node *n, int k)
{
    return &it->value[n->in[k]->id];
}

static inline Tensor *
out(const Interp *it, const Node *n)
{
    return &it->value[n->id];
}

// Operand k as if it had n's shape: itself, or a broadcast copy in scratch.
const Tensor *in_as_out(Interp *it, const Node *n, int k);
// Element of a parameter as it is read: nudged, a padding row as zero.
double param_element(const Interp *it, int param, int64_t element);
// The gradient of a parameter, zero at first.
double *grad_of(Interp *it, int param);

// Rows and their width seen along an axis: element (o, k, i) is at (o * length + k) *
// inner + i.
typedef struct AxisView {
    int64_t outer, length, inner;
} AxisView;

static inline AxisView
axis_view(Shape s, int axis)
{
    AxisView v = {1, s.dim[axis], 1};
    for (int k = 0; k < axis; k++)
        v.outer *= s.dim[k];
    for (int k = axis + 1; k < s.rank; k++)
        v.inner *= s.dim[k];
    return v;
}

static inline int64_t
clamp_index(int64_t k, int64_t n)
{
    return k < 0 ? 0 : k < n ? k : n - 1;
}

// Copies elements of src at strides into dst in the C order of shape s.
void copy_strided(uint64_t *dst, Shape s, const uint64_t *src, const int64_t *stride);

#endif

// clip.h - the global norm of all gradients, and what scales them down to a limit.

#ifndef PCVR_CLIP_H
#define PCVR_CLIP_H

#include <stddef.h>

enum { PCVR_CLIP_BLOCK = 4096 }; // elements whose squares are summed apart

// Sum of squares in double, n at most PCVR_CLIP_BLOCK, in a fixed order.
double pcvr_clip_squares(const float *g, size_t n);

// The sums of the blocks of g[n], in order, added to `sum`. Dense gradients are given
// element by element, those of a table as its stored entries: an entry that occurs twice
// counts twice.
double pcvr_clip_add(double sum, const float *g, size_t n);

// Coefficient for a norm: limit / (norm + 1e-6) if below 1, else 1. A norm that is not
// finite gives NaN (or 0 for infinity), which the caller must not apply.
float pcvr_clip_coefficient(double norm, double limit);

// g *= coefficient.
void pcvr_clip_scale(float *g, size_t n, float coefficient);

#endif

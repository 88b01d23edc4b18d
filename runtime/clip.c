// clip.c - the global norm of all gradients, and what scales them down to a limit.

#include "clip.h"

double
pcvr_clip_add(double sum, const float *g, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum += (double)g[i] * (double)g[i];
    return sum;
}

float
pcvr_clip_coefficient(double norm, double limit)
{
    double c = limit / (norm + 1e-6);
    return c >= 1.0 ? 1.0f : (float)c;
}

void
pcvr_clip_scale(float *g, size_t n, float coefficient)
{
    if (coefficient == 1.0f)
        return;
    for (size_t i = 0; i < n; i++)
        g[i] *= coefficient;
}

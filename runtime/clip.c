// clip.c - the global norm of all gradients, and what scales them down to a limit.

#include "clip.h"

enum { PARTS = 8 }; // chains side by side, so that they make vectors

double
pcvr_clip_squares(const float *g, size_t n)
{
    double part[PARTS] = {0}, sum = 0.0;
    size_t i = 0;
    for (; i + PARTS <= n; i += PARTS)
        for (int k = 0; k < PARTS; k++)
            part[k] += (double)g[i + (size_t)k] * (double)g[i + (size_t)k];
    for (int k = 0; i < n; i++, k++)
        part[k] += (double)g[i] * (double)g[i];
    for (int k = 0; k < PARTS; k++)
        sum += part[k];
    return sum;
}

double
pcvr_clip_add(double sum, const float *g, size_t n)
{
    for (size_t i = 0; i < n; i += PCVR_CLIP_BLOCK)
        sum +=
            pcvr_clip_squares(g + i, n - i < PCVR_CLIP_BLOCK ? n - i : PCVR_CLIP_BLOCK);
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

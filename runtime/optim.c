// optim.c - optimiser updates, learning rate schedules, the running copy of weights.

#include "optim.h"

#include <math.h>

PcvrAdamW
pcvr_adamw_defaults(void)
{
    return (PcvrAdamW){.beta1 = 0.9, .beta2 = 0.98, .eps = 1e-8, .weight_decay = 0.01};
}

// What one step needs besides the moments, rounded once.
typedef struct Step {
    float keep, rise, b2, c2, step, root, eps, scale;
} Step;

enum { BLOCK = 16 };

static inline void
adamw_elements(const Step *s, float *restrict p, const float *restrict g,
               float *restrict m, float *restrict v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] * s->scale;
        float mi = m[i] + (gi - m[i]) * s->rise;
        float vi = v[i] * s->b2 + s->c2 * gi * gi;
        m[i] = mi;
        v[i] = vi;
        p[i] = p[i] * s->keep - s->step * (mi / (sqrtf(vi) / s->root + s->eps));
    }
}

// Whole blocks have a length the compiler knows, so it makes vectors of them.
void
pcvr_adamw_step(const PcvrAdamW *h, float *restrict p, const float *restrict g,
                float *restrict m, float *restrict v, size_t n, double lr, int64_t t,
                float scale)
{
    const Step s = {
        .keep = (float)(1.0 - lr * h->weight_decay),
        .rise = (float)(1.0 - h->beta1),
        .b2 = (float)h->beta2,
        .c2 = (float)(1.0 - h->beta2),
        .step = (float)(lr / (1.0 - pow(h->beta1, (double)t))),
        .root = (float)sqrt(1.0 - pow(h->beta2, (double)t)),
        .eps = (float)h->eps,
        .scale = scale,
    };
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        adamw_elements(&s, p + i, g + i, m + i, v + i, BLOCK);
    adamw_elements(&s, p + i, g + i, m + i, v + i, n - i);
}

static bool
row_zero(const float *g, int64_t width)
{
    for (int64_t c = 0; c < width; c++) {
        if (!(g[c] == 0.0f))
            return false;
    }
    return true;
}

void
pcvr_adagrad_rows(float *w, float *acc, int64_t width, const int64_t *ids,
                  const float *values, int64_t n, double lr, float scale)
{
    float rate = (float)lr;
    for (int64_t i = 0; i < n; i++) {
        const float *g = values + i * width;
        float *restrict wr = w + ids[i] * width, *restrict ar = acc + ids[i] * width;
        if (row_zero(g, width))
            continue;
        for (int64_t c = 0; c < width; c++) {
            float gc = g[c] * scale;
            float a = ar[c] + gc * gc;
            ar[c] = a;
            wr[c] -= rate * (gc / (sqrtf(a) + 1e-10f));
        }
    }
}

double
pcvr_schedule(PcvrSchedule kind, int64_t step, int64_t warmup, int64_t max_steps,
              double min_ratio)
{
    if (step <= 0)
        return 1.0;
    if (warmup > 0 && step <= warmup)
        return (double)step / (double)warmup;
    if (kind == PCVR_SCHEDULE_NONE || max_steps <= 0)
        return 1.0;
    int64_t length = max_steps - warmup > 1 ? max_steps - warmup : 1;
    double q = (double)(step - warmup) / (double)length;
    q = q < 0.0 ? 0.0 : q > 1.0 ? 1.0 : q;
    if (kind == PCVR_SCHEDULE_LINEAR)
        return min_ratio + (1.0 - min_ratio) * (1.0 - q);
    return min_ratio +
           (1.0 - min_ratio) * (0.5 * (1.0 + cos(3.14159265358979323846 * q)));
}

PcvrEmaAction
pcvr_ema_action(int64_t step, int64_t start, int64_t every)
{
    if (step < start)
        return PCVR_EMA_COPY;
    return (step - start) % every ? PCVR_EMA_NOTHING : PCVR_EMA_AVERAGE;
}

void
pcvr_ema_update(float *shadow, const float *value, size_t n, double decay)
{
    float keep = (float)decay, take = (float)(1.0 - decay);
    for (size_t i = 0; i < n; i++)
        shadow[i] = shadow[i] * keep + value[i] * take;
}

bool
pcvr_stopper_take(PcvrStopper *s, int64_t step, double score)
{
    if (!isnan(score) && (!s->any || score > s->best)) {
        s->any = true;
        s->best = score;
        s->best_step = step;
        s->counter = 0;
        return true;
    }
    s->counter = step - s->best_step;
    if (s->counter >= s->patience)
        s->stop = true;
    return false;
}

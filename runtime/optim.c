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

// Whole blocks have a length the compiler knows, so it makes vectors of them: of 8 floats
// where the CPU has them. Elements are independent and nothing is fused: the same bits.
enum { BLOCK = 16 };

#if defined(__x86_64__)
#define WIDE __attribute__((target("avx2")))
static bool
wide(void)
{
    return __builtin_cpu_supports("avx2");
}
#else
#define WIDE
static bool
wide(void)
{
    return false;
}
#endif
#define BODY static inline __attribute__((always_inline)) void

BODY
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

BODY
adamw_body(const Step *s, float *restrict p, const float *restrict g, float *restrict m,
           float *restrict v, size_t n)
{
    const Step own = *s;
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        adamw_elements(&own, p + i, g + i, m + i, v + i, BLOCK);
    adamw_elements(&own, p + i, g + i, m + i, v + i, n - i);
}

WIDE static void
adamw_wide(const Step *s, float *p, const float *g, float *m, float *v, size_t n)
{
    adamw_body(s, p, g, m, v, n);
}

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
    if (wide())
        adamw_wide(&s, p, g, m, v, n);
    else
        adamw_body(&s, p, g, m, v, n);
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

BODY
adagrad_elements(float *restrict w, float *restrict acc, const float *restrict g,
                 int64_t n, float rate, float scale)
{
    for (int64_t c = 0; c < n; c++) {
        float gc = g[c] * scale;
        float a = acc[c] + gc * gc;
        acc[c] = a;
        w[c] -= rate * (gc / (sqrtf(a) + 1e-10f));
    }
}

enum { AHEAD = 4, LINE_FLOATS = 16 };

// Asks for the lines of a row some rows before its turn: tables lie far from the core.
static inline void
row_fetch(const float *w, const float *acc, int64_t width)
{
    for (int64_t c = 0; c < width; c += LINE_FLOATS) {
        __builtin_prefetch(w + c, 1);
        __builtin_prefetch(acc + c, 1);
    }
}

BODY
adagrad_body(float *w, float *acc, int64_t width, const int64_t *ids, const float *values,
             int64_t n, float rate, float scale)
{
    for (int64_t i = 0; i < n; i++) {
        const float *g = values + i * width;
        float *wr = w + ids[i] * width, *ar = acc + ids[i] * width;
        if (i + AHEAD < n)
            row_fetch(w + ids[i + AHEAD] * width, acc + ids[i + AHEAD] * width, width);
        if (row_zero(g, width))
            continue;
        int64_t c = 0;
        for (; c + BLOCK <= width; c += BLOCK)
            adagrad_elements(wr + c, ar + c, g + c, BLOCK, rate, scale);
        adagrad_elements(wr + c, ar + c, g + c, width - c, rate, scale);
    }
}

WIDE static void
adagrad_wide(float *w, float *acc, int64_t width, const int64_t *ids, const float *values,
             int64_t n, float rate, float scale)
{
    adagrad_body(w, acc, width, ids, values, n, rate, scale);
}

void
pcvr_adagrad_rows(float *w, float *acc, int64_t width, const int64_t *ids,
                  const float *values, int64_t n, double lr, float scale)
{
    if (wide())
        adagrad_wide(w, acc, width, ids, values, n, (float)lr, scale);
    else
        adagrad_body(w, acc, width, ids, values, n, (float)lr, scale);
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
pcvr_ema_update(float *restrict shadow, const float *restrict value, size_t n,
                double decay)
{
    const float keep = (float)decay, take = (float)(1.0 - decay);
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        for (size_t k = i; k < i + BLOCK; k++)
            shadow[k] = shadow[k] * keep + value[k] * take;
    for (; i < n; i++)
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

// pcvr_random.h - counted random numbers on vectors: drop bits, dropout, chance.
//
// Philox4x32-10 (Salmon et al. 2011), the same numbers as runtime/philox.h: key = seed, counter
// = (element / 8, site, sample, step); the draw of an element is the 16-bit half element mod
// 8 of the 128 bits, low half first; it is dropped if draw < threshold = round(65536 p), the
// rest is multiplied by scale = 1 / (1 - p), 0 for p = 1.  `element` is the flat index in the
// tensor as the model writes it.
#ifndef PCVR_RANDOM_H
#define PCVR_RANDOM_H

#include "pcvr_isa.h"

typedef struct k_drop {
    uint64_t seed;
    uint32_t site;      // which call of chance in the model
    uint32_t sample;    // index in the batch
    uint32_t step;
    uint32_t threshold; // round(65536 p), 0 to 65536
    float scale;        // 1 / (1 - p), 0 for p = 1
} k_drop;

// The four words of the counters (c0[lane], site, sample, step).
static inline void
k_philox(const k_drop *d, v_i32 c0, v_i32 out[4])
{
    const v_i32 m0 = vi_set1((int32_t)0xd2511f53u), m1 = vi_set1((int32_t)0xcd9e8d57u);
    uint32_t k0 = (uint32_t)d->seed, k1 = (uint32_t)(d->seed >> 32);
    v_i32 c1 = vi_set1((int32_t)d->site), c2 = vi_set1((int32_t)d->sample);
    v_i32 c3 = vi_set1((int32_t)d->step);
    for (int round = 0; round < 10; round++) {
        v_i32 hi0, lo0, hi1, lo1;
        vi_mul_wide(c0, m0, &hi0, &lo0);
        vi_mul_wide(c2, m1, &hi1, &lo1);
        c0 = vi_xor(vi_xor(hi1, c1), vi_set1((int32_t)k0));
        c2 = vi_xor(vi_xor(hi0, c3), vi_set1((int32_t)k1));
        c1 = lo1;
        c3 = lo0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

// bits[b], b < blocks: bit e is set when element 8 (first_block + b) + e is dropped.
K_FN void
k_drop_bits(const k_drop *d, uint32_t first_block, int blocks, uint8_t *bits)
{
    const v_i32 low = vi_set1(0xffff), limit = vi_set1((int32_t)d->threshold);
    for (int b = 0; b < blocks; b += PCVR_VL) {
        v_i32 w[4], set = vi_set1(0);
        int32_t lane[PCVR_VL];
        k_philox(d, vi_add(vi_set1((int32_t)(first_block + (uint32_t)b)), vi_iota()), w);
        for (int i = 0; i < 4; i++) { // draw - limit is negative when dropped
            const v_i32 a = vi_shr(vi_sub(vi_and(w[i], low), limit), 31);
            const v_i32 c = vi_shr(vi_sub(vi_shr(w[i], 16), limit), 31);
            set = vi_or(set, vi_shl(vi_or(a, vi_shl(c, 1)), 2 * i));
        }
        vi_store(lane, set);
        for (int l = 0; l < k_min(PCVR_VL, blocks - b); l++)
            bits[b + l] = (uint8_t)lane[l];
    }
}

enum { K_DROP_RUN = 64 };

// Drop bits of up to 8 * K_DROP_RUN elements from any element on.
typedef struct k_drop_run {
    int count;                      // elements that have their bits here
    int offset;                     // the first of them is bit `offset` of bits[0]
    uint8_t bits[K_DROP_RUN + 4];
} k_drop_run;

static inline void
k_drop_run_fill(k_drop_run *run, const k_drop *d, uint64_t element, ptrdiff_t n)
{
    run->offset = (int)(element & 7);
    const ptrdiff_t most = 8 * K_DROP_RUN - run->offset;
    run->count = (int)(n < most ? n : most);
    memset(run->bits + K_DROP_RUN, 0, 4);
    k_drop_bits(d, (uint32_t)(element >> 3), (run->offset + run->count + 7) / 8, run->bits);
}

// The bits of elements i, i + 1, ... of the run, at least 16 of them, from bit 0 on.
static inline uint32_t
k_drop_run_at(const k_drop_run *run, ptrdiff_t i)
{
    const ptrdiff_t place = run->offset + i;
    uint32_t word;
    memcpy(&word, run->bits + (place >> 3), sizeof word);
    return word >> (place & 7);
}

// y[i] = x[i] * scale, or +0.0 where element + i is dropped; y may be x.
K_FN void
k_dropout(ptrdiff_t n, uint64_t element, const k_drop *d, const float *x, float *y)
{
    k_drop_run run = {0};
    const v_f32 scale = v_set1(d->scale);
    for (; n > 0; n -= run.count, element += (uint64_t)run.count) {
        k_drop_run_fill(&run, d, element, n);
        K_EACH(i, lanes, run.count, {
            const v_mask drop = vm_bits(k_drop_run_at(&run, i));
            const v_f32 kept = v_mul(v_load_n(x + i, lanes), scale);
            v_store_n(y + i, lanes, v_blend(drop, v_zero(), kept));
        });
        x += run.count;
        y += run.count;
    }
}

// y[i] += dropout of x[i]: the adjoint, added.
K_FN void
k_dropout_add(ptrdiff_t n, uint64_t element, const k_drop *d, const float *x, float *y)
{
    k_drop_run run = {0};
    const v_f32 scale = v_set1(d->scale);
    for (; n > 0; n -= run.count, element += (uint64_t)run.count) {
        k_drop_run_fill(&run, d, element, n);
        K_EACH(i, lanes, run.count, {
            const v_mask drop = vm_bits(k_drop_run_at(&run, i));
            const v_f32 kept = v_mul(v_load_n(x + i, lanes), scale);
            const v_f32 old = v_load_n(y + i, lanes);
            v_store_n(y + i, lanes, v_add(old, v_blend(drop, v_zero(), kept)));
        });
        x += run.count;
        y += run.count;
    }
}

// y[i] = the factor of element + i: scale, or 0 where it is dropped.
K_FN void
k_drop_factors(ptrdiff_t n, uint64_t element, const k_drop *d, float *y)
{
    k_drop_run run = {0};
    const v_f32 scale = v_set1(d->scale);
    for (; n > 0; n -= run.count, element += (uint64_t)run.count) {
        k_drop_run_fill(&run, d, element, n);
        K_EACH(i, lanes, run.count, {
            const v_mask drop = vm_bits(k_drop_run_at(&run, i));
            v_store_n(y + i, lanes, v_blend(drop, v_zero(), scale));
        });
        y += run.count;
    }
}

// y[i] = 1 with probability p (where the draw is below the threshold), else 0.
K_FN void
k_chance(ptrdiff_t n, uint64_t element, const k_drop *d, uint8_t *y)
{
    k_drop_run run = {0};
    for (; n > 0; n -= run.count, element += (uint64_t)run.count) {
        k_drop_run_fill(&run, d, element, n);
        for (int i = 0; i < run.count; i++)
            y[i] = (uint8_t)(k_drop_run_at(&run, i) & 1u);
        y += run.count;
    }
}

#endif

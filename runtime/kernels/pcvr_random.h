// pcvr_random.h - counted random numbers on vectors: drop bits, dropout, chance.
//
// Philox4x32-7 (Salmon et al. 2011), the same numbers as runtime/philox.h: key = seed, counter
// = (element / 8, site, sample, step); the draw of an element is the 16-bit half element mod
// 8 of the 128 bits, low half first; it is dropped if draw < threshold = round(65536 p), the
// rest is multiplied by scale = 1 / (1 - p), 0 for p = 1.  `element` is the flat index in the
// tensor as the model writes it.
#ifndef PCVR_RANDOM_H
#define PCVR_RANDOM_H

#include "pcvr_isa.h"

enum { K_DRAW_ROUNDS = 7 };
#define K_PHILOX_M0 0xd2511f53u
#define K_PHILOX_M1 0xcd9e8d57u
#define K_PHILOX_W0 0x9e3779b9u
#define K_PHILOX_W1 0xbb67ae85u

typedef struct k_drop {
    uint64_t seed;
    uint32_t site;   // which call of chance in the model
    uint32_t sample; // index in the batch
    uint32_t step;
    uint32_t threshold; // round(65536 p), 0 to 65536
    float scale;        // 1 / (1 - p), 0 for p = 1
} k_drop;

// What two rounds make of what all blocks share; the rest they do to a block's number alone.
typedef struct k_philox_shared {
    // Round 1: c2 = high(m0 c0) ^ x2, c3 = low(m0 c0).
    uint32_t x2;
    // Round 2: c0 = high(m1 c2) ^ x0, c1 = low(m1 c2), c2 = (c3 of round 1) ^ y2, c3.
    uint32_t x0, y2, c3;
    uint32_t k0, k1; // keys of round 3
} k_philox_shared;

enum { K_SHARED_ROUNDS = 2 };

static inline k_philox_shared
k_philox_share(const k_drop *d)
{
    const uint32_t k0 = (uint32_t)d->seed, k1 = (uint32_t)(d->seed >> 32);
    const uint64_t p1 = (uint64_t)K_PHILOX_M1 * d->sample;
    const uint64_t p0 = (uint64_t)K_PHILOX_M0 * ((uint32_t)(p1 >> 32) ^ d->site ^ k0);
    return (k_philox_shared){.x2 = d->step ^ k1,
                             .x0 = (uint32_t)p1 ^ (k0 + K_PHILOX_W0),
                             .y2 = (uint32_t)(p0 >> 32) ^ (k1 + K_PHILOX_W1),
                             .c3 = (uint32_t)p0,
                             .k0 = k0 + 2 * K_PHILOX_W0,
                             .k1 = k1 + 2 * K_PHILOX_W1};
}

#if PCVR_VL == 1

// bits[0]: bit e is set when element 8 block + e is dropped.
static inline void
k_drop_vector(const k_drop *d, const k_philox_shared *s, uint32_t block, uint8_t *bits)
{
    const uint64_t b0 = (uint64_t)K_PHILOX_M0 * block;
    const uint64_t b1 = (uint64_t)K_PHILOX_M1 * ((uint32_t)(b0 >> 32) ^ s->x2);
    uint32_t c[4] = {(uint32_t)(b1 >> 32) ^ s->x0, (uint32_t)b1, (uint32_t)b0 ^ s->y2,
                     s->c3};
    uint32_t k0 = s->k0, k1 = s->k1, set = 0;
    for (int round = K_SHARED_ROUNDS; round < K_DRAW_ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)K_PHILOX_M0 * c[0],
                       p1 = (uint64_t)K_PHILOX_M1 * c[2];
        c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
        c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)p1;
        c[3] = (uint32_t)p0;
        k0 += K_PHILOX_W0;
        k1 += K_PHILOX_W1;
    }
    for (int i = 0; i < 8; i++)
        set |= (uint32_t)((c[i / 2] >> (16 * (i % 2)) & 0xffffu) < d->threshold) << i;
    *bits = (uint8_t)set;
}

#else

// Counters of every second lane: 64-bit lanes whose low halves count.
typedef struct k_philox_half {
    v_i32 c0, c1, c2, c3;
} k_philox_half;

static inline void
k_philox_round(k_philox_half *h, v_i32 k0, v_i32 k1)
{
    const v_i32 p0 = vi_mul_even(h->c0, vi_set1((int32_t)K_PHILOX_M0));
    const v_i32 p1 = vi_mul_even(h->c2, vi_set1((int32_t)K_PHILOX_M1));
    h->c0 = vi_xor3(vi_odd_to_even(p1), h->c1, k0);
    h->c2 = vi_xor3(vi_odd_to_even(p0), h->c3, k1);
    h->c1 = p1;
    h->c3 = p0;
}

// The state after two rounds.
static inline k_philox_half
k_philox_start(const k_philox_shared *s, v_i32 count)
{
    const v_i32 p0 = vi_mul_even(count, vi_set1((int32_t)K_PHILOX_M0));
    const v_i32 c2 = vi_xor(vi_odd_to_even(p0), vi_set1((int32_t)s->x2));
    const v_i32 p1 = vi_mul_even(c2, vi_set1((int32_t)K_PHILOX_M1));
    return (k_philox_half){vi_xor(vi_odd_to_even(p1), vi_set1((int32_t)s->x0)), p1,
                           vi_xor(p0, vi_set1((int32_t)s->y2)), vi_set1((int32_t)s->c3)};
}

static inline void
k_philox_put(const k_drop *d, const k_philox_half *x, const k_philox_half *y, uint8_t *bits)
{
    vi_draws_below(vi_zip_even(x->c0, y->c0), vi_zip_even(x->c1, y->c1),
                   vi_zip_even(x->c2, y->c2), vi_zip_even(x->c3, y->c3),
                   (uint16_t)d->threshold, bits);
}

// bits[b], b < PCVR_VL, or twice as many where `two`: bit e is set when element 8 (block + b)
// + e is dropped, for a threshold below 65536. Two vectors hide each other's latency.
K_INLINE void
k_drop_vectors(const k_drop *d, const k_philox_shared *s, uint32_t block, const int two,
               uint8_t *bits)
{
    v_i32 k0 = vi_set1((int32_t)s->k0), k1 = vi_set1((int32_t)s->k1);
    const v_i32 count = vi_add(vi_set1((int32_t)block), vi_draw_order());
    const v_i32 next = vi_add(count, vi_set1(PCVR_VL));
    k_philox_half x = k_philox_start(s, count),
                  y = k_philox_start(s, vi_odd_to_even(count));
    k_philox_half u = k_philox_start(s, next),
                  v = k_philox_start(s, vi_odd_to_even(next));
    for (int round = K_SHARED_ROUNDS; round < K_DRAW_ROUNDS; round++) {
        k_philox_round(&x, k0, k1);
        k_philox_round(&y, k0, k1);
        if (two) {
            k_philox_round(&u, k0, k1);
            k_philox_round(&v, k0, k1);
        }
        k0 = vi_add(k0, vi_set1((int32_t)K_PHILOX_W0));
        k1 = vi_add(k1, vi_set1((int32_t)K_PHILOX_W1));
    }
    k_philox_put(d, &x, &y, bits);
    if (two)
        k_philox_put(d, &u, &v, bits + PCVR_VL);
}

static inline void
k_drop_vector(const k_drop *d, const k_philox_shared *s, uint32_t block, uint8_t *bits)
{
    k_drop_vectors(d, s, block, 0, bits);
}

#endif

// bits[b], b < blocks: bit e is set when element 8 (first_block + b) + e is dropped.
K_FN void
k_drop_bits(const k_drop *d, uint32_t first_block, int blocks, uint8_t *bits)
{
    if (d->threshold >= 65536) {
        memset(bits, 0xff, (size_t)blocks);
        return;
    }
    const k_philox_shared s = k_philox_share(d);
    int b = 0;
#if PCVR_VL == 16
    for (; b + 2 * PCVR_VL <= blocks; b += 2 * PCVR_VL)
        k_drop_vectors(d, &s, first_block + (uint32_t)b, 1, bits + b);
#endif
    for (; b + PCVR_VL <= blocks; b += PCVR_VL)
        k_drop_vector(d, &s, first_block + (uint32_t)b, bits + b);
    if (b < blocks) {
        uint8_t rest[PCVR_VL];
        k_drop_vector(d, &s, first_block + (uint32_t)b, rest);
        memcpy(bits + b, rest, (size_t)(blocks - b));
    }
}

enum { K_DROP_RUN = 64 };

// Drop bits of up to 8 * K_DROP_RUN elements from any element on.
typedef struct k_drop_run {
    int count;  // elements that have their bits here
    int offset; // the first of them is bit `offset` of bits[0]
    uint8_t bits[K_DROP_RUN + 4];
} k_drop_run;

static inline void
k_drop_run_fill(k_drop_run *run, const k_drop *d, uint64_t element, ptrdiff_t n)
{
    run->offset = (int)(element & 7);
    const ptrdiff_t most = 8 * K_DROP_RUN - run->offset;
    run->count = (int)(n < most ? n : most);
    memset(run->bits + K_DROP_RUN, 0, 4);
    k_drop_bits(d, (uint32_t)(element >> 3), (run->offset + run->count + 7) / 8,
                run->bits);
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

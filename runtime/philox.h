// philox.h - counted random numbers: Philox4x32, and the drop masks drawn from it.
//
// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
// Ten rounds for initial values and resampling; seven for drop masks, the fewest that its authors
// found to pass every test of BigCrush, since drawing is a good part of a step with dropout.
//
// Drop masks: key = seed, counter = (element / 8, site, index in the batch, step). The draw of an
// element is the 16-bit half number (element mod 8) of the 128 bits, low half first; the
// element is dropped if draw < round(65536 p). The same counters give the same draws
// wherever and however often they are computed.

#ifndef PCVR_PHILOX_H
#define PCVR_PHILOX_H

#include <stddef.h>
#include <stdint.h>

#define PCVR_PHILOX_M0 0xd2511f53u
#define PCVR_PHILOX_M1 0xcd9e8d57u
#define PCVR_PHILOX_W0 0x9e3779b9u
#define PCVR_PHILOX_W1 0xbb67ae85u

// Counters of one place of chance: everything but the element.
typedef struct PcvrSite {
    uint64_t seed;
    uint32_t site, index, step;
} PcvrSite;

enum { PCVR_PHILOX_ROUNDS = 10, PCVR_DRAW_ROUNDS = 7 };

// out[4] of counter c[4] under key k[2] after some rounds.
static inline void
pcvr_philox_rounds(uint32_t out[4], const uint32_t c[4], const uint32_t k[2], int rounds)
{
    uint32_t c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3], k0 = k[0], k1 = k[1];
    for (int round = 0; round < rounds; round++) {
        uint64_t p0 = (uint64_t)PCVR_PHILOX_M0 * c0, p1 = (uint64_t)PCVR_PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += PCVR_PHILOX_W0;
        k1 += PCVR_PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

static inline void
pcvr_philox(uint32_t out[4], const uint32_t c[4], const uint32_t k[2])
{
    pcvr_philox_rounds(out, c, k, PCVR_PHILOX_ROUNDS);
}

// The 16-bit draw of one element.
static inline uint32_t
pcvr_draw(const PcvrSite *s, uint64_t element)
{
    uint32_t c[4] = {(uint32_t)(element >> 3), s->site, s->index, s->step};
    uint32_t k[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)}, out[4];
    pcvr_philox_rounds(out, c, k, PCVR_DRAW_ROUNDS);
    return out[(element & 7) >> 1] >> (16 * (element & 1)) & 0xffffu;
}

// round(65536 p) for p in [0, 1].
static inline uint32_t
pcvr_drop_threshold(double p)
{
    return (uint32_t)(65536.0 * p + 0.5);
}

// What kept values are multiplied by: 1 / (1 - p), 0 for p = 1.
static inline float
pcvr_drop_scale(double p)
{
    return p < 1.0 ? (float)(1.0 / (1.0 - p)) : 0.0f;
}

// True when the element stays.
static inline int
pcvr_keeps(const PcvrSite *s, uint64_t element, uint32_t threshold)
{
    return pcvr_draw(s, element) >= threshold;
}

enum { PCVR_DRAW_BLOCKS = 16, PCVR_DRAW_RUN = 8 * PCVR_DRAW_BLOCKS };

// The draws of elements 8 block .. 8 block + 127: sixteen counters side by side, so that
// the compiler can hold a round of all of them in vector registers.
static inline void
pcvr_draw_run(uint16_t out[PCVR_DRAW_RUN], const PcvrSite *s, uint32_t block)
{
    uint32_t c0[PCVR_DRAW_BLOCKS], c1[PCVR_DRAW_BLOCKS];
    uint32_t c2[PCVR_DRAW_BLOCKS], c3[PCVR_DRAW_BLOCKS];
    uint32_t k0 = (uint32_t)s->seed, k1 = (uint32_t)(s->seed >> 32);
    for (int i = 0; i < PCVR_DRAW_BLOCKS; i++) {
        c0[i] = block + (uint32_t)i;
        c1[i] = s->site;
        c2[i] = s->index;
        c3[i] = s->step;
    }
    for (int round = 0; round < PCVR_DRAW_ROUNDS; round++) {
        for (int i = 0; i < PCVR_DRAW_BLOCKS; i++) {
            uint64_t p0 = (uint64_t)PCVR_PHILOX_M0 * c0[i];
            uint64_t p1 = (uint64_t)PCVR_PHILOX_M1 * c2[i];
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)p1;
            c3[i] = (uint32_t)p0;
        }
        k0 += PCVR_PHILOX_W0;
        k1 += PCVR_PHILOX_W1;
    }
    for (int i = 0; i < PCVR_DRAW_BLOCKS; i++) {
        out[8 * i + 0] = (uint16_t)c0[i];
        out[8 * i + 1] = (uint16_t)(c0[i] >> 16);
        out[8 * i + 2] = (uint16_t)c1[i];
        out[8 * i + 3] = (uint16_t)(c1[i] >> 16);
        out[8 * i + 4] = (uint16_t)c2[i];
        out[8 * i + 5] = (uint16_t)(c2[i] >> 16);
        out[8 * i + 6] = (uint16_t)c3[i];
        out[8 * i + 7] = (uint16_t)(c3[i] >> 16);
    }
}

// keep[i] = 1 when element first + i stays, else 0, for i in [0, n).
static inline void
pcvr_keep_mask(uint8_t *keep, const PcvrSite *s, uint64_t first, size_t n,
               uint32_t threshold)
{
    uint16_t draws[PCVR_DRAW_RUN];
    uint32_t block = (uint32_t)(first >> 3);
    size_t skip = (size_t)(first & 7);
    while (n > 0) {
        size_t count = PCVR_DRAW_RUN - skip;
        if (count > n)
            count = n;
        pcvr_draw_run(draws, s, block);
        for (size_t i = 0; i < count; i++)
            keep[i] = draws[skip + i] >= threshold;
        keep += count;
        n -= count;
        skip = 0;
        block += PCVR_DRAW_BLOCKS;
    }
}

// y[i] = x[i] scale where element first + i stays, else +0.0, for i in [0, n). y may be
// x. Selecting and not multiplying by zero keeps the rule that a dropped infinity gives
// zero.
static inline void
pcvr_drop(float *y, const float *x, const PcvrSite *s, uint64_t first, size_t n,
          uint32_t threshold, float scale)
{
    uint16_t draws[PCVR_DRAW_RUN];
    uint32_t block = (uint32_t)(first >> 3);
    size_t skip = (size_t)(first & 7);
    while (n > 0) {
        size_t count = PCVR_DRAW_RUN - skip;
        if (count > n)
            count = n;
        pcvr_draw_run(draws, s, block);
        for (size_t i = 0; i < count; i++) {
            float v = x[i] * scale;
            y[i] = draws[skip + i] >= threshold ? v : 0.0f;
        }
        y += count;
        x += count;
        n -= count;
        skip = 0;
        block += PCVR_DRAW_BLOCKS;
    }
}

#endif

// rng.h - the generators that decide the order of training batches.

#ifndef PCVR_DATA_RNG_H
#define PCVR_DATA_RNG_H

#include <stddef.h>
#include <stdint.h>

// MT19937 (Matsumoto and Nishimura 1998), seeded with the low 32 bits of a seed.
typedef struct Mt19937 {
    uint32_t state[624];
    int at;
} Mt19937;

void mt_seed(Mt19937 *g, uint64_t seed);
uint32_t mt_next(Mt19937 *g);
// Uniform in [0, 1): 24 bits of a draw.
float mt_uniform(Mt19937 *g);
// A permutation of 0 .. n - 1: element i is swapped with element i + draw mod (n - i).
void mt_permutation(Mt19937 *g, int64_t n, int64_t *out);

// PCG64 XSL-RR 128/64 (O'Neill 2014), seeded through NumPy's SeedSequence.
typedef struct Pcg64 {
    uint64_t high, low, inc_high, inc_low;
    uint32_t half; // the high half of a draw, kept for the next 32-bit draw
    int has_half;
} Pcg64;

void pcg_seed(Pcg64 *g, uint64_t seed);
uint64_t pcg_next(Pcg64 *g);
// Uniform in [0, n), n >= 1: Lemire's multiply-shift with rejection, on 32-bit draws
// where n - 1 fits them.
uint64_t pcg_below(Pcg64 *g, uint64_t n);

// The seed of a batch: (base + worker 1000003 + crc + group 10007 + index 101) mod 2^63
// - 1.
uint64_t batch_seed(uint64_t base, uint64_t worker, uint32_t crc, uint64_t group,
                    uint64_t index);

// CRC-32 of n bytes (ISO 3309), continuing from `crc`, which starts at 0.
uint32_t crc32_bytes(uint32_t crc, const void *data, size_t n);

#endif

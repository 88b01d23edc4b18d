// numbers.h - deterministic numbers from a name and an index, as recorded cases use them.
//
// h is FNV-1a (64 bit) of the name; element i is splitmix64's finaliser of h + i + golden
// ratio; the top 24 bits give u in [0, 1); the value is offset + scale (2u - 1) in
// double, rounded once.

#ifndef PCVR_NUMBERS_H
#define PCVR_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

// FNV-1a of the bytes of a name.
uint64_t pcvr_name_hash(const char *name);

// The 64 mixed bits of element i.
static inline uint64_t
pcvr_number_bits(uint64_t h, uint64_t i)
{
    uint64_t z = h + i + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

// 2u - 1 of element i, in [-1, 1).
static inline double
pcvr_number(uint64_t h, uint64_t i)
{
    return (double)(pcvr_number_bits(h, i) >> 40) * 0x1p-23 - 1.0;
}

// out[k] = offset + scale (2u - 1) of element first + k, for k in [0, n).
void pcvr_number_fill(float *out, uint64_t first, size_t n, const char *name,
                      double offset, double scale);

#endif

// rng.c - MT19937, PCG64 and the seeds that the order of batches is made of.

#include "rng.h"

void
mt_seed(Mt19937 *g, uint64_t seed)
{
    g->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < 624; i++)
        g->state[i] = 1812433253u * (g->state[i - 1] ^ g->state[i - 1] >> 30) + i;
    g->at = 624;
}

static void
mt_refill(Mt19937 *g)
{
    for (int i = 0; i < 624; i++) {
        uint32_t y =
            (g->state[i] & 0x80000000u) | (g->state[(i + 1) % 624] & 0x7fffffffu);
        g->state[i] = g->state[(i + 397) % 624] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    g->at = 0;
}

uint32_t
mt_next(Mt19937 *g)
{
    if (g->at == 624)
        mt_refill(g);
    uint32_t y = g->state[g->at++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

float
mt_uniform(Mt19937 *g)
{
    return (float)(mt_next(g) & 0xffffffu) * 0x1p-24f;
}

void
mt_permutation(Mt19937 *g, int64_t n, int64_t *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    for (int64_t i = 0; i < n - 1; i++) {
        int64_t k = i + (int64_t)(mt_next(g) % (uint64_t)(n - i));
        int64_t t = out[i];
        out[i] = out[k];
        out[k] = t;
    }
}

// The constants of NumPy's SeedSequence.
#define HASH_INIT_A 0x43b0d7e5u
#define HASH_MULT_A 0x931e8875u
#define HASH_INIT_B 0x8b51f9ddu
#define HASH_MULT_B 0x58f38dedu
#define MIX_LEFT    0xca01f9ddu
#define MIX_RIGHT   0x4973f715u

static uint32_t
seed_hash(uint32_t value, uint32_t *h)
{
    value ^= *h;
    *h *= HASH_MULT_A;
    value *= *h;
    return value ^ value >> 16;
}

static uint32_t
seed_mix(uint32_t x, uint32_t y)
{
    uint32_t r = MIX_LEFT * x - MIX_RIGHT * y;
    return r ^ r >> 16;
}

// 256 bits of state from the entropy's words (low first), as generate_state(4, uint64)
// gives.
static void
seed_sequence(uint64_t seed, uint64_t out[4])
{
    uint32_t entropy[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t pool[4], h = HASH_INIT_A;
    for (int i = 0; i < 4; i++)
        pool[i] = seed_hash(i < 2 ? entropy[i] : 0, &h);
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++)
            if (from != to)
                pool[to] = seed_mix(pool[to], seed_hash(pool[from], &h));
    uint32_t words[8];
    h = HASH_INIT_B;
    for (int i = 0; i < 8; i++) {
        uint32_t v = pool[i % 4] ^ h;
        h *= HASH_MULT_B;
        v *= h;
        words[i] = v ^ v >> 16;
    }
    for (int i = 0; i < 4; i++)
        out[i] = words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
}

// The high half of a 64 x 64 bit product; the low half goes to *low.
static uint64_t
multiply(uint64_t a, uint64_t b, uint64_t *low)
{
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t ll = al * bl, lh = al * bh, hl = ah * bl;
    uint64_t middle = (ll >> 32) + (uint32_t)lh + (uint32_t)hl;
    *low = (uint32_t)ll | middle << 32;
    return ah * bh + (lh >> 32) + (hl >> 32) + (middle >> 32);
}

static void
pcg_step(Pcg64 *g)
{
    const uint64_t mult_high = 2549297995355413924u, mult_low = 4865540595714422341u;
    uint64_t low;
    uint64_t high = multiply(g->low, mult_low, &low);
    high += g->high * mult_low + g->low * mult_high;
    g->low = low + g->inc_low;
    g->high = high + g->inc_high + (g->low < low);
}

void
pcg_seed(Pcg64 *g, uint64_t seed)
{
    uint64_t s[4];
    seed_sequence(seed, s);
    *g = (Pcg64){.inc_high = s[2] << 1 | s[3] >> 63, .inc_low = s[3] << 1 | 1};
    pcg_step(g);
    g->low += s[1];
    g->high += s[0] + (g->low < s[1]);
    pcg_step(g);
}

uint64_t
pcg_next(Pcg64 *g)
{
    pcg_step(g);
    uint64_t x = g->high ^ g->low;
    unsigned turn = (unsigned)(g->high >> 58);
    return x >> turn | x << (-turn & 63);
}

static uint32_t
pcg_next32(Pcg64 *g)
{
    if (g->has_half) {
        g->has_half = 0;
        return g->half;
    }
    uint64_t x = pcg_next(g);
    g->has_half = 1;
    g->half = (uint32_t)(x >> 32);
    return (uint32_t)x;
}

static uint64_t
below32(Pcg64 *g, uint32_t n)
{
    uint64_t m = (uint64_t)pcg_next32(g) * n;
    if ((uint32_t)m < n) {
        uint32_t threshold = -n % n;
        while ((uint32_t)m < threshold)
            m = (uint64_t)pcg_next32(g) * n;
    }
    return m >> 32;
}

uint64_t
pcg_below(Pcg64 *g, uint64_t n)
{
    if (n <= 1)
        return 0;
    if (n - 1 == UINT32_MAX)
        return pcg_next32(g);
    if (n - 1 < UINT32_MAX)
        return below32(g, (uint32_t)n);
    uint64_t low, high = multiply(pcg_next(g), n, &low);
    if (low < n) {
        uint64_t threshold = -n % n;
        while (low < threshold)
            high = multiply(pcg_next(g), n, &low);
    }
    return high;
}

uint64_t
batch_seed(uint64_t base, uint64_t worker, uint32_t crc, uint64_t group, uint64_t index)
{
    const uint64_t m = INT64_MAX;
    uint64_t terms[5] = {base % m, worker % m * 1000003u % m, crc, group % m * 10007u % m,
                         index % m * 101u % m};
    uint64_t sum = 0;
    // Products of ordinary sizes stay far below 2^63; each sum of two residues fits 64
    // bits.
    for (int i = 0; i < 5; i++)
        sum = (sum + terms[i]) % m;
    return sum;
}

uint32_t
crc32_bytes(uint32_t crc, const void *data, size_t n)
{
    const unsigned char *p = data;
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

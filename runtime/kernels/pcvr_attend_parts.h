// pcvr_attend_parts.h - what the forms of attention share: the problem, which keys are seen.
#ifndef PCVR_ATTEND_PARTS_H
#define PCVR_ATTEND_PARTS_H

#include "pcvr_gemm.h"
#include "pcvr_kernel_sizes.h"
#include "pcvr_random.h"
#include "pcvr_vmath.h"

typedef struct k_attend {
    int T, S, H, W;         // queries, keys, heads, lanes of a head; all >= 1, S may be 0
    const float *q, *k, *v; // [T, H W], [S, H W], [S, H W]
    ptrdiff_t ldq, ldk, ldv; // distances between rows
    const uint8_t *mask; // [S, T], key-major: mask[j * ldm + i] is 1 where query i sees
    ptrdiff_t ldm;       //     key j, else 0; NULL: everything
    const uint8_t *rows; // or, with T >= 32, bits: [S] rows of K_MASK_ROW(T) bytes, bit i as
                         //     mask[j * ldm + i] above; 8 bytes more may be read
    const int32_t *lo, *hi; // [T] query i sees at most keys lo[i] <= j < hi[i]; NULL: all
    const k_drop *drop;     // NULL: no dropout of probabilities
    int T0, S0; // with dropout: the tensor as the model writes it is [H, T0, S0]
    int q_first,
        k_first; //     row i of q is query q_first + i of it, row j key k_first + j
    const int32_t *q_index; //     or, where not NULL, q_index[i] and k_index[j]
    const int32_t *k_index;
    float *scratch; // K_ATTEND_SCRATCH or K_ATTEND_BACK_SCRATCH floats
} k_attend;

// What the backward pass reads of the forward pass, and the adjoint of its result.
typedef struct k_attend_result {
    const float *dout, *out; // [T, H W]
    ptrdiff_t lddo, ldo;
    const float *stats; // [2, H, T] a query's highest score, times log2 e, and the inverse of its
                        //     sum of 2^(score - highest), 0 where it sees nothing
} k_attend_result;

// The bits of PCVR_VL queries from i on put into a key's row of mask bits.
static inline void
k_mask_put(uint8_t *row, ptrdiff_t i, v_mask m)
{
    const uint32_t bits = vm_to_bits(m);
#if PCVR_VL == 16
    const uint16_t two = (uint16_t)bits;
    memcpy(row + (i >> 3), &two, sizeof two);
#elif PCVR_VL == 8
    row[i >> 3] = (uint8_t)bits;
#else
    row[i >> 3] = (uint8_t)((i & 7 ? row[i >> 3] : 0u) | (bits & 1u) << (i & 7));
#endif
}

static inline v_mask
vm_not(v_mask m)
{
    return vm_andnot(vm_first(PCVR_VL), m);
}

// The softmax is taken with powers of 2, so queries are scaled by log2 e too.
#define K_LOG2_E 1.44269504f

enum {
    K_ATTEND_NV = 4,
    K_ATTEND_QUERIES = K_ATTEND_NV * PCVR_VL,
    // Where each query has a range of keys, as under a causal mask, a smaller block wastes less.
    K_ATTEND_RANGED = K_ATTEND_QUERIES < 32 ? K_ATTEND_QUERIES : 32,
    K_ATTEND_HALVES = (K_ATTEND_QUERIES + 31) / 32, // words of a key's bits
};

// A step of keys: what the first cache holds with all that is computed from it.
typedef struct k_attend_keys {
    int run, from, to; // keys from <= j < to of a run; run -1: before the first
} k_attend_keys;

// One block of queries and where its parts lie in the scratch.
typedef struct k_attend_block {
    int q0, n, nv; // first query, live queries, vectors they fill
    int whole;     // every query sees every key
    int runs;      // runs of keys that some query sees: run[2 r] <= j < run[2 r + 1]
    int care;      // a masked pair meets something that is not finite
    int drop_base; // the key, as written, that bit 0 of word 0 stands for
    float *p;      // [S][K_ATTEND_QUERIES] scores; backward: scores of a step, then probabilities
    float *g;      // [K_ATTEND_STEP][K_ATTEND_QUERIES] probabilities; backward: gradients
    float *qt, *ot, *dt; // [W][K_ATTEND_QUERIES] q', out' or dq', dout'
    uint32_t all[K_ATTEND_HALVES];   // the bits of all live queries
    uint32_t *seen[K_ATTEND_HALVES]; // [S] bit i of half h: query q0 + 32 h + i sees the key
    int32_t *run;
    uint32_t *words; // [keys / 32][K_ATTEND_QUERIES] drop bits
    uint8_t *row;    // drop bits of one query
} k_attend_block;

// Up to this many queries rows are faster than lanes.
enum { K_ATTEND_FEW = PCVR_VL == 16 ? 8 : PCVR_VL == 8 ? 6 : 0 };

static inline int
k_attend_is_few(const k_attend *a)
{
    return a->T <= K_ATTEND_FEW && !a->k_index;
}

static inline k_attend_block
k_attend_place(const k_attend *a, int back)
{
    k_attend_block b = {0};
    float *s = a->scratch;
    const int few = k_attend_is_few(a), step = K_ATTEND_STEP * K_ATTEND_QUERIES;
    b.p = s, s += few ? a->T * a->S : back ? step : a->S * K_ATTEND_QUERIES;
    b.g = s, s += few ? back * a->T * a->S : step;
    b.qt = s, s += a->W * K_ATTEND_QUERIES;
    b.ot = s, s += a->W * K_ATTEND_QUERIES;
    if (back)
        b.dt = s, s += a->W * K_ATTEND_QUERIES;
    for (int h = 0; h < K_ATTEND_HALVES; h++)
        b.seen[h] = (uint32_t *)(void *)s, s += a->S;
    b.run = (int32_t *)(void *)s, s += a->S + 2;
    if (a->drop) {
        b.words = (uint32_t *)(void *)s, s += (a->S0 / 32 + 2) * K_ATTEND_QUERIES;
        b.row = (uint8_t *)(void *)s;
    }
    return b;
}

// Goes to the next step; returns 0 behind the last.
static inline int
k_attend_next(const k_attend_block *b, k_attend_keys *k)
{
    if (k->run < 0 || k->to == b->run[2 * k->run + 1]) {
        if (++k->run == b->runs)
            return 0;
        k->to = b->run[2 * k->run];
    }
    k->from = k->to;
    k->to = k_min(k->from + K_ATTEND_STEP, b->run[2 * k->run + 1]);
    return 1;
}

// The bits of n mask bytes.
static inline uint32_t
k_attend_mask_bits(const uint8_t *m, int n)
{
    uint32_t bits = 0;
    for (int i = 0; i < n; i += PCVR_VL)
        bits |= vm_to_bits(vm_bytes(m + i, k_min(PCVR_VL, n - i))) << i;
    return bits;
}

// The bits of the queries from q0 on in key j's row.
static inline uint32_t
k_attend_row_bits(const k_attend *a, int q0, int j)
{
    uint64_t word;
    memcpy(&word, a->rows + (ptrdiff_t)j * K_MASK_ROW(a->T) + (q0 >> 3), sizeof word);
    return (uint32_t)(word >> (q0 & 7));
}

// The n queries from q0 on that have key j in their range.
static inline uint32_t
k_attend_range_bits(const k_attend *a, int q0, int n, int j)
{
    uint32_t bits = 0;
    const v_i32 key = vi_set1(j);
    for (int i = 0; i < n; i += PCVR_VL) {
        const int lanes = k_min(PCVR_VL, n - i);
        const v_i32 lo = vi_load_n(a->lo + q0 + i, lanes);
        const v_i32 hi = vi_load_n(a->hi + q0 + i, lanes);
        bits |= vm_to_bits(vm_andnot(vi_lt(key, hi), vi_lt(key, lo))) << i;
    }
    return bits;
}

// Fills half h of key j's bits; returns them.
static inline uint32_t
k_attend_see_key(const k_attend *a, k_attend_block *b, int h, int j, int ranged)
{
    const int q0 = b->q0 + 32 * h, n = k_min(32, b->n - 32 * h);
    uint32_t bits = b->all[h];
    if (bits && a->mask)
        bits = k_attend_mask_bits(a->mask + j * a->ldm + q0, n);
    else if (bits && a->rows)
        bits &= k_attend_row_bits(a, q0, j);
    if (bits && ranged)
        bits &= k_attend_range_bits(a, q0, n, j);
    b->seen[h][j] = bits;
    return bits;
}

// 1 when every query of the block sees key j.
static inline int
k_attend_all_see(const k_attend_block *b, int j)
{
    int all = 1;
    for (int h = 0; h < K_ATTEND_HALVES; h++)
        all &= b->seen[h][j] == b->all[h];
    return all;
}

// Fills the bits of all keys where no query has a range and there is no byte a pair; returns 1 when every
// query of the block sees every key.
static inline int
k_attend_see_rows(const k_attend *a, k_attend_block *b)
{
    uint32_t unseen = 0;
    for (int h = 0; h < K_ATTEND_HALVES; h++) {
        const uint32_t all = b->all[h];
        uint32_t *seen = b->seen[h];
        for (int j = 0; j < a->S; j++) {
            seen[j] =
                all && a->rows ? all & k_attend_row_bits(a, b->q0 + 32 * h, j) : all;
            unseen |= all ^ seen[j];
        }
    }
    return !unseen;
}

// Which keys the n queries from q0 on see: bits a key, and runs of keys that are seen at all.
// A gap of up to 3 unseen keys stays inside a run.
K_FN void
k_attend_see(const k_attend *a, k_attend_block *b, int q0, int n)
{
    b->q0 = q0;
    b->n = n;
    b->nv = (n + PCVR_VL - 1) / PCVR_VL;
    for (int h = 0; h < K_ATTEND_HALVES; h++) {
        const int live = n - 32 * h;
        b->all[h] = live >= 32 ? 0xffffffffu : live > 0 ? (1u << live) - 1u : 0u;
    }
    int first = 0, last = a->S, inner0 = 0, inner1 = a->S;
    if (a->lo) {
        first = a->S, last = 0;
        for (int i = q0; i < q0 + n; i++) {
            first = k_min(first, a->lo[i]), last = k_max(last, a->hi[i]);
            inner0 = k_max(inner0, a->lo[i]), inner1 = k_min(inner1, a->hi[i]);
        }
        first = k_max(first, 0), last = k_min(last, a->S);
    }
    b->runs = 0;
    const int rows = !a->lo && !a->mask;
    b->whole = rows && k_attend_see_rows(a, b) && a->S > 0;
    if (b->whole) {
        b->run[0] = 0, b->run[1] = a->S;
        b->runs = 1;
        return;
    }
    for (int j = first; j < last; j++) {
        uint32_t any = 0;
        for (int h = 0; h < K_ATTEND_HALVES; h++)
            any |= rows ? b->seen[h][j]
                        : k_attend_see_key(a, b, h, j, j < inner0 || j >= inner1);
        if (!any)
            continue;
        if (b->runs && j - b->run[2 * b->runs - 1] < 4) {
            b->run[2 * b->runs - 1] = j + 1;
        } else {
            b->run[2 * b->runs] = j;
            b->run[2 * b->runs + 1] = j + 1;
            b->runs++;
        }
    }
}

// Queries of the block at q0: the odd ones come first, which wastes least under a causal mask.
static inline int
k_attend_block_size(const k_attend *a, int q0)
{
    const int most = a->lo ? K_ATTEND_RANGED : K_ATTEND_QUERIES, odd = a->T % most;
    return q0 == 0 && odd ? odd : most;
}

// 1 when every number of a row is finite.
static inline int
k_all_finite(int n, const float *x)
{
    v_f32 worst = v_zero(); // x * 0 is NaN unless x is finite
    K_EACH(i, lanes, n, worst = v_fma(v_load_n(x + i, lanes), v_zero(), worst););
    return !vm_any(v_ne(worst, worst));
}

// 1 when a key that only some queries of the block see, or that a run bridges, is not finite.
static inline int
k_attend_keys_need_care(const k_attend *a, const k_attend_block *b)
{
    const int D = a->H * a->W;
    for (int r = 0; r < b->runs && !b->whole; r++)
        for (int j = b->run[2 * r]; j < b->run[2 * r + 1]; j++)
            if (!k_attend_all_see(b, j) && !(k_all_finite(D, a->k + j * a->ldk) &&
                                             k_all_finite(D, a->v + j * a->ldv)))
                return 1;
    return 0;
}

// 1 when a query or its dout is not finite.
static inline int
k_attend_queries_need_care(const k_attend *a, const k_attend_block *b,
                           const k_attend_result *y)
{
    const int D = a->H * a->W;
    for (int i = b->q0; i < b->q0 + b->n; i++)
        if (!k_all_finite(D, a->q + i * a->ldq) ||
            !k_all_finite(D, y->dout + i * y->lddo))
            return 1;
    return 0;
}

// The key as the model writes it.
static inline int
k_attend_key(const k_attend *a, int j)
{
    return a->k_index ? a->k_index[j] : a->k_first + j;
}

#endif

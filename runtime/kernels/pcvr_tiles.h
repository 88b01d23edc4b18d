// pcvr_tiles.h - kernels on the module's own types: 64-bit ids, byte truth values, row stores.
//
// Ids are clamped to the table's rows [0, V). `step` is the distance between ids in the array.
#ifndef PCVR_TILES_H
#define PCVR_TILES_H

#include "../pcvr.h"
#include "pcvr_embed.h"
#include "pcvr_project.h"
#include "pcvr_random.h"
#include "pcvr_rows.h"

#include <time.h>

// Monotonic seconds; a module needs no symbol of the program that loads it.
static inline double
k_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Where the sum of an accumulator starts that the first group of a lane's first chunk writes:
// nowhere then, else at what is there.
static inline const float *
k_sum_start(const pcvr_ctx *x, int64_t s, const float *acc)
{
    return x->fresh && s == 0 ? NULL : acc;
}

static inline int
k_sum_goes_on(const pcvr_ctx *x, int64_t s)
{
    return !(x->fresh && s == 0);
}

// B[N, K] -> P[K, N]: the rows of P that are this thread's, number `first` of `count`.
static inline void
k_pack_share(const pcvr_ctx *x, int N, int K, const float *B, ptrdiff_t ldb, float *P)
{
    enum { UNIT = 16 };
    const int64_t units = (K + UNIT - 1) / UNIT;
    const int k0 = (int)(units * x->first / x->count * UNIT);
    const int k1 = k_min(K, (int)(units * (x->first + 1) / x->count * UNIT));
    if (k0 < k1)
        k_pack_bt(N, k1 - k0, B + k0, ldb, P + (ptrdiff_t)k0 * N);
}

// One lane of a vector function.
#define K_LANE(f, x) k_first(f(v_set1(x)))

static inline float
k_first(v_f32 v)
{
    float lane[PCVR_VL];
    v_store(lane, v);
    return lane[0];
}

// The first n lanes as bytes 0 and 1.
static inline void
vm_store_n(uint8_t *p, int n, v_mask m)
{
    const uint32_t bits = vm_to_bits(m);
    for (int l = 0; l < n; l++)
        p[l] = (uint8_t)(bits >> l & 1u);
}

// All lanes, or none.
static inline v_mask
vm_all(int yes)
{
    return vm_first(yes ? PCVR_VL : 0);
}

// ---- chance ------------------------------------------------------------------------------

// The counters of one site for sample s of the chunk; threshold = round(65536 p), scale = 1 / (1 - p).
static inline k_drop
k_site(const pcvr_ctx *x, int64_t s, uint32_t site, uint32_t threshold, float scale)
{
    return (k_drop){x->seed, site, (uint32_t)(x->first + s), x->step, threshold, scale};
}

// y[R, C] = x[R, C] with elements dropped, a copy outside training; y may be x. Row r has the elements from
// first + number * pitch on; its number is rows[r * step], r where rows is NULL.
static inline void
k_dropout_rows(const pcvr_ctx *x, k_drop drop, int R, int C, int64_t first, int64_t pitch,
               const int64_t *rows, ptrdiff_t step, const float *v, ptrdiff_t ldv, float *y,
               ptrdiff_t ldy)
{
    if (!x->training) {
        if (v != y)
            k_copy(R, C, v, ldv, y, ldy);
        return;
    }
    if (!rows && pitch == C && ldv == C && ldy == C) { // one run of elements and of floats
        k_dropout((ptrdiff_t)R * C, (uint64_t)first, &drop, v, y);
        return;
    }
    for (int r = 0; r < R; r++) {
        const int64_t row = rows ? rows[r * step] : r;
        k_dropout(C, (uint64_t)(first + row * pitch), &drop, v + r * ldv, y + r * ldy);
    }
}

// y[R, C] = 1 where chance strikes, else 0; all 0 outside training.
static inline void
k_chance_rows(const pcvr_ctx *x, k_drop drop, int R, int C, int64_t first, int64_t pitch,
              const int64_t *rows, ptrdiff_t step, uint8_t *y, ptrdiff_t ldy)
{
    for (int r = 0; r < R; r++) {
        const int64_t row = rows ? rows[r * step] : r;
        if (x->training)
            k_chance(C, (uint64_t)(first + row * pitch), &drop, y + r * ldy);
        else
            memset(y + r * ldy, 0, (size_t)C);
    }
}

// ---- integers ----------------------------------------------------------------------------

static inline int64_t
k_clamp(int64_t id, int64_t V)
{
    return id < 0 ? 0 : id >= V ? V - 1 : id;
}

// Sums, differences and products wrap around.
static inline int64_t
k_iadd(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t
k_isub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline int64_t
k_imul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

// The larger and the smaller.
static inline int64_t
k_imax(int64_t a, int64_t b)
{
    return b > a ? b : a;
}

static inline int64_t
k_imin(int64_t a, int64_t b)
{
    return b < a ? b : a;
}

// Floors; 0 for a divisor of 0.
static inline int64_t
k_floordiv(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return k_isub(0, a);
    const int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

// The sign of the divisor; 0 for a divisor of 0.
static inline int64_t
k_mod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline float
k_fmodf(float a, float b)
{
    return a - floorf(a / b) * b;
}

// Truncates; what does not fit is clamped, NaN gives 0.
static inline int64_t
k_to_i64(float x)
{
    if (!(x > -9.2e18f))
        return x < 0.0f ? INT64_MIN : 0;
    return x < 9.2e18f ? (int64_t)x : INT64_MAX;
}

// How many of n ascending bounds lie strictly below x.
static inline int64_t
k_bucketize(double x, const double *bounds, int n)
{
    int lo = 0, hi = n;
    while (lo < hi) {
        const int mid = (lo + hi) / 2;
        if (bounds[mid] < x)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

// y[n] = the stable ascending order of x; work[n]. Bottom-up merge sort.
#define K_ARGSORT(NAME, T)                                                               \
    static __attribute__((unused)) void NAME(ptrdiff_t n, const T *x, ptrdiff_t step,    \
                                             int64_t *y, ptrdiff_t ystep, int64_t *work) \
    {                                                                                    \
        int64_t *from = work, *to = work + n;                                            \
        for (ptrdiff_t i = 0; i < n; i++)                                                \
            from[i] = i;                                                                 \
        for (ptrdiff_t w = 1; w < n; w *= 2) {                                           \
            for (ptrdiff_t i = 0; i < n; i += 2 * w) {                                   \
                ptrdiff_t a = i, b = i + w < n ? i + w : n, k = i;                       \
                const ptrdiff_t ae = b, be = i + 2 * w < n ? i + 2 * w : n;              \
                while (a < ae && b < be)                                                 \
                    to[k++] = x[from[b] * step] < x[from[a] * step] ? from[b++]          \
                                                                    : from[a++];         \
                while (a < ae)                                                           \
                    to[k++] = from[a++];                                                 \
                while (b < be)                                                           \
                    to[k++] = from[b++];                                                 \
            }                                                                            \
            int64_t *swap = from;                                                        \
            from = to;                                                                   \
            to = swap;                                                                   \
        }                                                                                \
        for (ptrdiff_t i = 0; i < n; i++)                                                \
            y[i * ystep] = from[i];                                                      \
    }
K_ARGSORT(k_argsort_i64, int64_t)
K_ARGSORT(k_argsort_f32, float)

// out[l] = active[l] and no later active column of events[F, L] is equal. work holds `slots` heads of
// chains (a power of two) and L hashes; each distinct column stays where it was met first from the end.
static __attribute__((unused)) void
k_unique_last(int F, int L, const int64_t *events, ptrdiff_t ldf, ptrdiff_t ldl,
              const uint8_t *active, ptrdiff_t step, uint8_t *out, ptrdiff_t ostep,
              int64_t *work, int64_t slots)
{
    int64_t *hash = work + slots;
    for (int l = 0; l < L; l++)
        hash[l] = 0;
    for (int f = 0; f < F; f++)
        for (int l = 0; l < L; l++) {
            const uint64_t h = (uint64_t)hash[l] ^ (uint64_t)events[f * ldf + l * ldl];
            hash[l] = (int64_t)((h ^ h >> 29) * 0x9e3779b97f4a7c15u);
        }
    for (int64_t k = 0; k < slots; k++)
        work[k] = -1;
    for (int l = L - 1; l >= 0; l--) {
        out[l * ostep] = 0;
        if (!active[l * step])
            continue;
        int64_t k = (int64_t)((uint64_t)hash[l] >> 32) & (slots - 1);
        for (; work[k] >= 0; k = (k + 1) & (slots - 1)) {
            const int64_t o = work[k];
            int f = 0;
            if (hash[o] != hash[l])
                continue;
            while (f < F && events[f * ldf + o * ldl] == events[f * ldf + l * ldl])
                f++;
            if (f == F)
                break;
        }
        if (work[k] >= 0)
            continue;
        work[k] = l;
        out[l * ostep] = 1;
    }
}

// ---- tables ------------------------------------------------------------------------------

enum { K_EMBED_AHEAD = 8, K_LINE_FLOATS = 16 };

// y[R, C] = table[ids[r]]; rows are fetched a few ahead, for tables lie far from the core.
static inline void
k_embed(int R, int C, int64_t V, const float *table, const int64_t *ids, ptrdiff_t step,
        float *y, ptrdiff_t ldy)
{
    for (int r = 0; r < R; r++) {
        const int ahead = k_min(r + K_EMBED_AHEAD, R - 1);
        const float *next = table + k_clamp(ids[ahead * step], V) * C;
        for (int c = 0; c < C; c += K_LINE_FLOATS)
            __builtin_prefetch(next + c);
        k_copy(1, C, table + k_clamp(ids[r * step], V) * C, 0, y + r * ldy, 0);
    }
}

// 1 / (how many of n ids are not 0 after clamping), 0 if none is.
static inline float
k_bag_share(int n, int64_t V, const int64_t *ids, ptrdiff_t step)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        count += k_clamp(ids[i * step], V) != 0;
    return count ? 1.0f / (float)count : 0.0f;
}

// y[R, C] = the mean of table[ids[r, i]] over the ids that are not 0, zeros if all are.
static inline void
k_bag(int R, int n, int C, int64_t V, const float *table, const int64_t *ids, ptrdiff_t ldi,
      ptrdiff_t step, float *y, ptrdiff_t ldy)
{
    for (int r = 0; r < R; r++) {
        const int64_t *row = ids + r * ldi;
        const v_f32 w = v_set1(k_bag_share(n, V, row, step));
        K_EACH(c, lanes, C, {
            v_f32 s = v_zero();
            for (int i = 0; i < n; i++) {
                const int64_t id = k_clamp(row[i * step], V);
                if (id)
                    s = v_add(s, v_load_n(table + id * C + c, lanes));
            }
            v_store_n(y + r * ldy + c, lanes, v_mul(s, w));
        });
    }
}

// Adds dy[r] to the stored row of ids[r], r ascending; not to row 0 where `padding` is set.
static inline void
k_store_rows(int R, int C, int64_t V, int padding, const float *dy, ptrdiff_t ld,
             const int64_t *ids, ptrdiff_t step, pcvr_rows *store)
{
    for (int r = 0; r < R; r++) {
        const int64_t id = k_clamp(ids[r * step], V);
        if (id || !padding) {
            k_add(1, C, dy + r * ld, 0, pcvr_rows_get(store, id), 0);
            store->squares += (double)k_dot(C, dy + r * ld, dy + r * ld);
        }
    }
}

// The adjoint of k_bag: dy[r] times the bag's share to the row of each id that is not 0.
static inline void
k_store_bags(int R, int n, int C, int64_t V, const float *dy, ptrdiff_t ld, const int64_t *ids,
             ptrdiff_t ldi, ptrdiff_t step, pcvr_rows *store)
{
    for (int r = 0; r < R; r++) {
        const int64_t *row = ids + r * ldi;
        const float w = k_bag_share(n, V, row, step);
        if (w == 0.0f)
            continue;
        for (int i = 0; i < n; i++) {
            const int64_t id = k_clamp(row[i * step], V);
            if (id)
                k_axpy(C, w, dy + r * ld, pcvr_rows_get(store, id));
        }
        // As many entries as 1 / w, each with w times the adjoint.
        store->squares += (double)w * (double)k_dot(C, dy + r * ld, dy + r * ld);
    }
}

// ---- rows --------------------------------------------------------------------------------

// The mean of a row (0 for rms) and 1 / sqrt(variance about it + eps), in two passes.
static inline float
k_row_scale(int C, int layer, float eps, const float *x, float *mean)
{
    *mean = layer ? k_sum(C, x) / (float)C : 0.0f;
    const v_f32 m = v_set1(*mean);
    v_f32 s = v_zero();
    K_EACH(c, lanes, C, {
        const v_f32 d = v_sub(v_load_n(x + c, lanes), m);
        s = v_fma(d, v_blend(vm_first(lanes), d, v_zero()), s);
    });
    return 1.0f / sqrtf(v_hsum(s) / (float)C + eps);
}

// y[R, C] = (x - m) / sqrt(v + eps) a row; m its mean (layer) or 0 (rms), v the mean of (x - m)^2.
K_FN void
k_normalize(int R, int C, int layer, float eps, const float *x, ptrdiff_t ldx, float *y,
            ptrdiff_t ldy)
{
    for (int r = 0; r < R; r++) {
        float mean;
        const v_f32 inv = v_set1(k_row_scale(C, layer, eps, x + r * ldx, &mean));
        const v_f32 m = v_set1(mean);
        K_EACH(c, lanes, C, {
            const v_f32 d = v_sub(v_load_n(x + r * ldx + c, lanes), m);
            v_store_n(y + r * ldy + c, lanes, v_mul(d, inv));
        });
    }
}

// Its adjoint from its operand: with y made again, dx = (dy - mean(dy) [layer] - y mean(dy y)) / sqrt(v + eps).
// A row whose adjoint is all zero gives zeros, whatever its operand.
K_FN void
k_normalize_back(int R, int C, int layer, float eps, const float *x, ptrdiff_t ldx,
                 const float *dy, ptrdiff_t lddy, float *dx, ptrdiff_t lddx)
{
    for (int r = 0; r < R; r++) {
        const float *xr = x + r * ldx, *gr = dy + r * lddy;
        float *dr = dx + r * lddx, mean;
        const v_f32 inv = v_set1(k_row_scale(C, layer, eps, xr, &mean)), m = v_set1(mean);
        v_f32 sum = v_zero(), dot = v_zero(), top = v_zero();
        K_EACH(c, lanes, C, {
            const v_f32 g = v_load_n(gr + c, lanes);
            const v_f32 y = v_mul(v_sub(v_load_n(xr + c, lanes), m), inv);
            sum = v_add(sum, g);
            dot = v_fma(g, v_blend(vm_first(lanes), y, v_zero()), dot);
            top = v_max(v_abs(g), top);
        });
        if (v_hmax(top) == 0.0f) {
            k_fill(1, C, 0.0f, dr, 0);
            continue;
        }
        const v_f32 m0 = v_set1(layer ? v_hsum(sum) / (float)C : 0.0f);
        const v_f32 m1 = v_set1(v_hsum(dot) / (float)C);
        K_EACH(c, lanes, C, {
            const v_f32 y = v_mul(v_sub(v_load_n(xr + c, lanes), m), inv);
            const v_f32 d = v_sub(v_load_n(gr + c, lanes), m0);
            v_store_n(dr + c, lanes, v_mul(v_fnma(y, m1, d), inv));
        });
    }
}

#endif

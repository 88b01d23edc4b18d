// pcvr_embed.h - rows of tables: lookups, bags, and rotary positions.
//
// A table is [V, C], contiguous.  Ids are clamped to [0, V).
#ifndef PCVR_EMBED_H
#define PCVR_EMBED_H

#include "pcvr_move.h"
#include "pcvr_vmath.h"

static inline int32_t
k_clamp_id(int64_t id, int32_t V)
{
    return id < 0 ? 0 : id >= V ? V - 1 : (int32_t)id;
}

// y[R, C] = table[ids[r]]; ids at a distance of `step` in the array
static inline void
k_lookup(int R, int C, int32_t V, const float *table, const int32_t *ids, ptrdiff_t step,
         float *y, ptrdiff_t ldy)
{
    for (int r = 0; r < R; r++) {
        const ptrdiff_t id = k_clamp_id(ids[r * step], V);
        memcpy(y + r * ldy, table + id * C, (size_t)C * sizeof(float));
    }
}

// y[r] = x[index[r]] for rows of x[*, C]: a gather whose indices are known to be in range
static inline void
k_gather_rows(int R, int C, const float *x, ptrdiff_t ldx, const int32_t *index, float *y,
              ptrdiff_t ldy)
{
    for (int r = 0; r < R; r++)
        memcpy(y + r * ldy, x + index[r] * ldx, (size_t)C * sizeof(float));
}

// y[index[r]] += x[r] in ascending r: the adjoint of k_gather_rows
static inline void
k_scatter_rows(int R, int C, const float *x, ptrdiff_t ldx, const int32_t *index,
               float *y, ptrdiff_t ldy)
{
    for (int r = 0; r < R; r++)
        k_add(1, C, x + r * ldx, 0, y + index[r] * ldy, 0);
}

// 1 / (how many of the ids are not 0 after clamping), 0 if none is.
static inline float
k_bag_weight(int n, int32_t V, const int32_t *ids, ptrdiff_t step)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        count += k_clamp_id(ids[i * step], V) != 0;
    return count ? 1.0f / (float)count : 0.0f;
}

// y[C] = the mean of table[ids[i]] over the n ids that are not 0, zeros if all are: the sum
// in ascending i, then one product with k_bag_weight.  The adjoint adds k_bag_weight * dy to
// the row of every id that is not 0 (k_axpy).
static inline void
k_bag_mean(int n, int C, int32_t V, const float *table, const int32_t *ids,
           ptrdiff_t step, float *y)
{
    const v_f32 w = v_set1(k_bag_weight(n, V, ids, step));
    K_EACH(c, lanes, C, {
        v_f32 s = v_zero();
        for (int i = 0; i < n; i++) {
            const ptrdiff_t id = k_clamp_id(ids[i * step], V);
            if (id)
                s = v_add(s, v_load_n(table + id * C + c, lanes));
        }
        v_store_n(y + c, lanes, v_mul(s, w));
    });
}

// Rotary positions (Su et al. 2021) on x[R, H * W]: each head of W lanes is cut into W / 2
// pairs; pair i of row r turns by the angle whose cosine and sine stand at cos[r * ldt + i]
// and sin[r * ldt + i].  "halves": pair i is lanes i and W / 2 + i; "adjacent": 2 i, 2 i + 1.
// An odd last lane stays.  sign = 1 turns forward, -1 back (the adjoint).  y may be x.
static inline void
k_rope_pair(float a, float b, float c, float s, float *ya, float *yb)
{
    *ya = fmaf(a, c, -(b * s));
    *yb = fmaf(b, c, a * s);
}

K_FN void
k_rope_halves(int R, int H, int W, const float *x, ptrdiff_t ldx, const float *cosines,
              const float *sines, ptrdiff_t ldt, float sign, float *y, ptrdiff_t ldy)
{
    const int half = W / 2;
    const v_f32 turn = v_set1(sign);
    for (int r = 0; r < R; r++) {
        const float *cr = cosines + r * ldt, *sr = sines + r * ldt;
        for (int h = 0; h < H; h++) {
            const float *xa = x + r * ldx + h * W, *xb = xa + half;
            float *ya = y + r * ldy + h * W, *yb = ya + half;
            K_EACH(i, lanes, half, {
                const v_f32 a = v_load_n(xa + i, lanes), b = v_load_n(xb + i, lanes);
                const v_f32 c = v_load_n(cr + i, lanes);
                const v_f32 s = v_mul(v_load_n(sr + i, lanes), turn);
                v_store_n(ya + i, lanes, v_fma(a, c, v_neg(v_mul(b, s))));
                v_store_n(yb + i, lanes, v_fma(b, c, v_mul(a, s)));
            });
            if (W % 2)
                ya[W - 1] = xa[W - 1];
        }
    }
}

// Pairs of whole vectors, `turn` the signs of their sines; returns how many floats of the head it
// has turned.
static inline int
k_rope_vectors(int W, const float *x, const float *c, const float *s, v_f32 turn, float *y)
{
    int i = 0;
#if PCVR_VL > 1
    for (; i + PCVR_VL <= W; i += PCVR_VL) {
        const v_f32 a = v_load(x + i);
        const v_f32 side = v_mul(v_swap(a), v_mul(v_load_twice(s + i / 2), turn));
        v_store(y + i, v_fma(a, v_load_twice(c + i / 2), side));
    }
#endif
    (void)W, (void)x, (void)c, (void)s, (void)turn, (void)y;
    return i;
}

K_FN void
k_rope_adjacent(int R, int H, int W, const float *x, ptrdiff_t ldx, const float *cosines,
                const float *sines, ptrdiff_t ldt, float sign, float *y, ptrdiff_t ldy)
{
    const v_f32 turn = v_blend(vi_has(vi_iota(), vi_set1(1)), v_set1(sign), v_set1(-sign));
    for (int r = 0; r < R; r++) {
        const float *cr = cosines + r * ldt, *sr = sines + r * ldt;
        for (int h = 0; h < H; h++) {
            const float *xh = x + r * ldx + h * W;
            float *yh = y + r * ldy + h * W;
            for (int i = k_rope_vectors(W, xh, cr, sr, turn, yh) / 2; i < W / 2; i++)
                k_rope_pair(xh[2 * i], xh[2 * i + 1], cr[i], sr[i] * sign, yh + 2 * i,
                            yh + 2 * i + 1);
            if (W % 2)
                yh[W - 1] = xh[W - 1];
        }
    }
}

enum { K_ROPE_RUN = 32 }; // pairs whose frequencies are at hand

// out[r] = x[r] less whole quarter turns, in radians, and quarter[r] = those, -2 to 2.
static inline void
k_quarters(int n, double position, const double *turns, float *out, float *quarter)
{
    for (int k = 0; k < n; k++) {
        const double t = position * turns[k], u = 4.0 * (t - rint(t));
        const double q = rint(u);
        out[k] = (float)((u - q) * 1.57079632679489661923);
        quarter[k] = (float)q;
    }
}

// table[R, W / 2] = cosines, then as many sines, of position / base^(2 k / (W - W % 2)). Angles are
// reduced in double precision, in turns: an error of 1 ulp for positions below 2^24.
K_FN void
k_rope_table(int R, int W, double base, const int64_t *positions, ptrdiff_t step, float *table)
{
    const int half = W / 2;
    double turns[K_ROPE_RUN];
    float x[K_ROPE_RUN], q[K_ROPE_RUN];
    for (int k0 = 0; k0 < half; k0 += K_ROPE_RUN) {
        const int n = k_min(K_ROPE_RUN, half - k0);
        for (int k = 0; k < n; k++)
            turns[k] = pow(base, -2.0 * (k0 + k) / (2 * half)) / 6.28318530717958647693;
        for (int r = 0; r < R; r++) {
            float *row = table + r * half + k0;
            k_quarters(n, (double)positions[r * step], turns, x, q);
            K_EACH(i, lanes, n, {
                v_f32 c;
                v_f32 s;
                v_turn(v_load_n(x + i, lanes), v_load_n(q + i, lanes), &c, &s);
                v_store_n(row + i, lanes, c);
                v_store_n(row + R * half + i, lanes, s);
            });
        }
    }
}

#endif

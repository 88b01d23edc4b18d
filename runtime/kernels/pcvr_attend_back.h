// pcvr_attend_back.h - the adjoint of attention; probabilities are computed again.
//
// With p the normalised probabilities, d the drop factors (1 without dropout):
//     dv = (p d)' dout,  g = dout v',  D = sum over keys of p d g,
//     ds = p (d g - D) / sqrt(W),  dq = ds k,  dk = ds' q
#ifndef PCVR_ATTEND_BACK_H
#define PCVR_ATTEND_BACK_H

#include "pcvr_attend.h"

// What dout v' says of one vector of a key: times the drop factor, 0 where unseen.
K_INLINE v_f32
k_attend_slope_in(const k_attend *a, const k_attend_block *b, int i, int j,
                  const int drop, v_f32 g)
{
    if (drop)
        g = v_blend(k_attend_dropped(a, b, i, j), v_zero(),
                    v_mul(g, v_set1(a->drop->scale)));
    return k_attend_seen(b, i, j, g, v_zero());
}

// Vector i of key j: p becomes p d and g becomes ds.
K_INLINE void
k_attend_slope_out(const k_attend *a, const k_attend_block *b, int i, int j,
                   const int drop, v_f32 pn, v_f32 dot, v_f32 factor, float *p, float *g)
{
    const v_f32 ds = v_mul(v_mul(pn, v_sub(v_load(g), dot)), factor);
    v_store(g, k_attend_seen(b, i, j, ds, v_zero()));
    if (drop)
        pn = v_blend(k_attend_dropped(a, b, i, j), v_zero(),
                     v_mul(pn, v_set1(a->drop->scale)));
    v_store(p, pn);
}

// From 2^(score - maximum) in p and g = dout v', for one vector of queries or two: p becomes
// p d, normalised, and g becomes ds.
K_INLINE void
k_attend_slope_pair(const k_attend *a, const k_attend_block *b, int i, const int two,
                    const int drop, const v_f32 *inv, v_f32 factor)
{
    const v_f32 inv0 = inv[i], inv1 = inv[two ? i + 1 : i];
    v_f32 dot0 = v_zero(), dot1 = v_zero();
    for (int r = 0; r < b->runs; r++)
        for (int j = b->run[2 * r]; j < b->run[2 * r + 1]; j++) {
            const ptrdiff_t at = j * K_ATTEND_QUERIES + i * PCVR_VL, next = at + PCVR_VL;
            v_f32 g = k_attend_slope_in(a, b, i, j, drop, v_load(b->g + at));
            dot0 = v_fma(v_mul(v_load(b->p + at), inv0), g, dot0);
            v_store(b->g + at, g);
            if (!two)
                continue;
            g = k_attend_slope_in(a, b, i + 1, j, drop, v_load(b->g + next));
            dot1 = v_fma(v_mul(v_load(b->p + next), inv1), g, dot1);
            v_store(b->g + next, g);
        }
    for (int r = 0; r < b->runs; r++)
        for (int j = b->run[2 * r]; j < b->run[2 * r + 1]; j++) {
            const ptrdiff_t at = j * K_ATTEND_QUERIES + i * PCVR_VL, next = at + PCVR_VL;
            k_attend_slope_out(a, b, i, j, drop, v_mul(v_load(b->p + at), inv0), dot0,
                               factor, b->p + at, b->g + at);
            if (two)
                k_attend_slope_out(a, b, i + 1, j, drop, v_mul(v_load(b->p + next), inv1),
                                   dot1, factor, b->p + next, b->g + next);
        }
}

K_FN void
k_attend_slope(const k_attend *a, const k_attend_block *b, const v_f32 *inv, float factor)
{
    const v_f32 f = v_set1(factor);
    for (int i = 0; i < b->nv; i += 2) {
        if (i + 1 < b->nv && a->drop)
            k_attend_slope_pair(a, b, i, 1, 1, inv, f);
        else if (i + 1 < b->nv)
            k_attend_slope_pair(a, b, i, 1, 0, inv, f);
        else if (a->drop)
            k_attend_slope_pair(a, b, i, 0, 1, inv, f);
        else
            k_attend_slope_pair(a, b, i, 0, 0, inv, f);
    }
}

// y[j, W] += p[j][queries] x[n, W] for the keys of every run, a chain over ascending queries.
K_FN void
k_attend_spread_careful(const k_attend *a, const k_attend_block *b, const float *p,
                        const float *x, ptrdiff_t ldx, float *y, ptrdiff_t ldy)
{
    for (int r = 0; r < b->runs; r++)
        for (int j = b->run[2 * r]; j < b->run[2 * r + 1]; j++)
            for (int i = 0; i < b->n; i++)
                if (b->seen[j] >> i & 1u)
                    k_axpy(a->W, p[j * K_ATTEND_QUERIES + i], x + i * ldx, y + j * ldy);
}

static inline void
k_attend_spread(const k_attend *a, const k_attend_block *b, const float *p,
                const float *x, ptrdiff_t ldx, float *y, ptrdiff_t ldy)
{
    if (b->care) {
        k_attend_spread_careful(a, b, p, x, ldx, y, ldy);
        return;
    }
    for (int r = 0; r < b->runs; r++) {
        const int j = b->run[2 * r], keys = b->run[2 * r + 1] - j;
        k_gemm_nn(keys, a->W, b->n, p + j * K_ATTEND_QUERIES, K_ATTEND_QUERIES, x, ldx,
                  y + j * ldy, ldy, y + j * ldy, ldy);
    }
}

// dq[T, H W], dk[S, H W], dv[S, H W], overwritten, from dout[T, H W].  None overlaps another
// or an input.
K_FN void
k_attention_back(const k_attend *a, const float *dout, ptrdiff_t lddo, float *dq,
                 ptrdiff_t lddq, float *dk, ptrdiff_t lddk, float *dv, ptrdiff_t lddv)
{
    if (k_attend_is_few(a)) {
        k_attention_few_back(a, dout, lddo, dq, lddq, dk, lddk, dv, lddv);
        return;
    }
    k_attend_block b = k_attend_place(a, 1);
    const float factor = 1.0f / sqrtf((float)a->W);
    k_fill(a->S, a->H * a->W, 0.0f, dk, lddk);
    k_fill(a->S, a->H * a->W, 0.0f, dv, lddv);
    for (int q0 = 0; q0 < a->T; q0 += b.n) {
        k_attend_see(a, &b, q0, k_attend_block_size(a, q0));
        b.care = k_attend_keys_need_care(a, &b) ||
                 k_attend_queries_need_care(a, &b, dout, lddo);
        for (int h = 0; h < a->H; h++) {
            v_f32 inv[K_ATTEND_NV];
            const int c = h * a->W;
            const float *q = a->q + q0 * a->ldq + c, *g = dout + q0 * lddo + c;
            k_attend_transpose(a, &b, q, a->ldq, factor * K_LOG2_E, b.qt);
            k_attend_transpose(a, &b, g, lddo, 1.0f, b.dt);
            k_attend_scores(a, &b, a->k + c, a->ldk, b.qt, b.p);
            k_attend_softmax(a, &b, 0, inv);
            k_attend_scores(a, &b, a->v + c, a->ldv, b.dt, b.g);
            if (a->drop)
                k_attend_draw(a, &b, h);
            k_attend_slope(a, &b, inv, factor);
            k_attend_spread(a, &b, b.p, g, lddo, dv + c, lddv);
            k_attend_spread(a, &b, b.g, q, a->ldq, dk + c, lddk);
            k_attend_mix(a, &b, a->k + c, a->ldk, b.g, b.ot);
            k_attend_put(a, &b, NULL, b.ot, dq + q0 * lddq + c, lddq);
        }
    }
}

#endif

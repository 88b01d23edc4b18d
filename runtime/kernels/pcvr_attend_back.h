// pcvr_attend_back.h - the adjoint of attention; probabilities are computed again.
//
// With p the normalised probabilities, d the drop factors (1 without dropout):
//     dv = (p d)' dout,  g = dout v',  D = sum over keys of p d g = dout out',
//     ds = p (d g - D) / sqrt(W),  dq = ds k,  dk = ds' q
// d is 0 or one scale c: with m = d / c, p c is taken for p and D / c for D, so that the scale costs
// nothing a pair: p d = m (p c), ds = (p c) (m g - D / c) / sqrt(W).
// The forward pass leaves a query's maximum and sum, so that each step of keys is done in one go
// while it is in the first cache.
#ifndef PCVR_ATTEND_BACK_H
#define PCVR_ATTEND_BACK_H

#include "pcvr_attend.h"

// What the queries of a block have in common over their keys.
typedef struct k_attend_sums {
    v_f32 top[K_ATTEND_NV], inv[K_ATTEND_NV]; // k_attend_result's; with dropout inv c
    v_f32 dot[K_ATTEND_NV];                   // dout out'; with dropout over c
} k_attend_sums;

// One vector of scores in p and of dout v' in g: p becomes p d, normalised, and g becomes ds.
K_INLINE void
k_attend_slope_one(const k_attend_block *b, int i, int j, v_i32 *drops, v_f32 top,
                   v_f32 inv, v_f32 dot, v_f32 factor, float *p, float *g)
{
    const v_f32 zero = v_zero(), e = v_exp2_down(v_sub(v_load(p), top));
    v_f32 pn = v_mul(k_attend_seen(b, i, j, e, zero), inv);
    v_f32 dg = v_load(g), pd = pn;
    if (drops) {
        const v_mask dropped = k_attend_drops_next(drops);
        dg = v_blend(dropped, zero, dg);
        pd = v_blend(dropped, zero, pn);
    }
    v_store(p, pd);
    pn = v_mul(v_mul(pn, v_sub(dg, dot)), factor);
    v_store(g, k_attend_seen(b, i, j, pn, zero));
}

// The same for a step, two vectors side by side or one.
K_INLINE void
k_attend_slope_pair(const k_attend *a, const k_attend_block *b, const k_attend_keys *s,
                    int i, const int two, const int drop, const k_attend_sums *of,
                    v_f32 factor, float *p, float *g)
{
    const int other = two ? i + 1 : i;
    const v_f32 top0 = of->top[i], inv0 = of->inv[i], dot0 = of->dot[i];
    const v_f32 top1 = of->top[other], inv1 = of->inv[other], dot1 = of->dot[other];
    p += i * PCVR_VL, g += i * PCVR_VL;
    for (int j = s->from; j < s->to;) {
        k_attend_drops d;
        int n = s->to - j;
        if (drop)
            n = k_attend_drops_from(a, b, i, two, j, n, &d);
        for (n += j; j < n; j++, p += K_ATTEND_QUERIES, g += K_ATTEND_QUERIES) {
            k_attend_slope_one(b, i, j, drop ? &d.x : NULL, top0, inv0, dot0, factor, p,
                               g);
            if (two)
                k_attend_slope_one(b, other, j, drop ? &d.y : NULL, top1, inv1, dot1,
                                   factor, p + PCVR_VL, g + PCVR_VL);
        }
    }
}

K_FN void
k_attend_slope(const k_attend *a, const k_attend_block *b, const k_attend_keys *s,
               const k_attend_sums *of, float factor, float *p, float *g)
{
    const v_f32 f = v_set1(factor);
    for (int i = 0; i < b->nv; i += 2) {
        if (i + 1 < b->nv && a->drop)
            k_attend_slope_pair(a, b, s, i, 1, 1, of, f, p, g);
        else if (i + 1 < b->nv)
            k_attend_slope_pair(a, b, s, i, 1, 0, of, f, p, g);
        else if (a->drop)
            k_attend_slope_pair(a, b, s, i, 0, 1, of, f, p, g);
        else
            k_attend_slope_pair(a, b, s, i, 0, 0, of, f, p, g);
    }
}

// y[j, W] += p[j][queries] x[n, W] for the keys of a step, a chain over ascending queries.
K_FN void
k_attend_spread_careful(const k_attend *a, const k_attend_block *b,
                        const k_attend_keys *s, const float *p, const float *x,
                        ptrdiff_t ldx, float *y, ptrdiff_t ldy)
{
    for (int j = s->from; j < s->to; j++)
        for (int i = 0; i < b->n; i++)
            if (b->seen[i / 32][j] >> (i & 31) & 1u)
                k_axpy(a->W, p[(j - s->from) * K_ATTEND_QUERIES + i], x + i * ldx,
                       y + j * ldy);
}

static inline void
k_attend_spread(const k_attend *a, const k_attend_block *b, const k_attend_keys *s,
                const float *p, const float *x, ptrdiff_t ldx, float *y, ptrdiff_t ldy)
{
    if (b->care)
        k_attend_spread_careful(a, b, s, p, x, ldx, y, ldy);
    else
        k_gemm_nn(s->to - s->from, a->W, b->n, p, K_ATTEND_QUERIES, x, ldx,
                  y + s->from * ldy, ldy, y + s->from * ldy, ldy);
}

// A head's maxima, sums and dout out' of the block's queries; dt holds dout', ot is overwritten.
K_FN void
k_attend_sums_of(const k_attend *a, const k_attend_block *b, const k_attend_result *y,
                 int head, k_attend_sums *of)
{
    k_transpose(b->n, a->W, y->out + b->q0 * y->ldo + head * a->W, y->ldo, b->ot,
                K_ATTEND_QUERIES);
    for (int i = 0; i < b->nv; i++) {
        const int lanes = k_min(PCVR_VL, b->n - i * PCVR_VL);
        const float *stats = y->stats + head * a->T + b->q0 + i * PCVR_VL;
        of->top[i] = v_load_n(stats, lanes);
        of->inv[i] = v_load_n(stats + a->H * a->T, lanes);
        of->dot[i] = v_zero();
        for (int d = 0; d < a->W; d++) {
            const ptrdiff_t at = d * K_ATTEND_QUERIES + i * PCVR_VL;
            of->dot[i] = v_fma(v_load_n(b->dt + at, lanes), v_load_n(b->ot + at, lanes),
                               of->dot[i]);
        }
        if (a->drop) { // a scale of 0 leaves nothing of out, and so of D
            const float c = a->drop->scale, back = c > 0.0f ? 1.0f / c : 0.0f;
            of->inv[i] = v_mul(of->inv[i], v_set1(c));
            of->dot[i] = v_mul(of->dot[i], v_set1(back));
        }
    }
}

// dq[T, H W], dk[S, H W], dv[S, H W], overwritten.  None overlaps another or an input.  Where keys are the
// values too, dv may be NULL: dk gets the sum of both.
K_FN void
k_attention_back(const k_attend *a, const k_attend_result *y, float *dq, ptrdiff_t lddq,
                 float *dk, ptrdiff_t lddk, float *dv, ptrdiff_t lddv)
{
    if (k_attend_is_few(a)) {
        k_attention_few_back(a, y, dq, lddq, dk, lddk, dv, lddv);
        return;
    }
    k_attend_block b = k_attend_place(a, 1);
    const float factor = 1.0f / sqrtf((float)a->W);
    k_fill(a->S, a->H * a->W, 0.0f, dk, lddk);
    if (dv)
        k_fill(a->S, a->H * a->W, 0.0f, dv, lddv);
    else
        dv = dk, lddv = lddk;
    for (int q0 = 0; q0 < a->T; q0 += b.n) {
        k_attend_see(a, &b, q0, k_attend_block_size(a, q0));
        b.care = k_attend_keys_need_care(a, &b) || k_attend_queries_need_care(a, &b, y);
        for (int h = 0; h < a->H; h++) {
            const int c = h * a->W;
            const float *q = a->q + q0 * a->ldq + c, *g = y->dout + q0 * y->lddo + c;
            k_attend_sums of;
            k_attend_keys s = {.run = -1};
            k_attend_transpose(a, &b, q, a->ldq, factor * K_LOG2_E, b.qt);
            k_attend_transpose(a, &b, g, y->lddo, 1.0f, b.dt);
            k_attend_sums_of(a, &b, y, h, &of);
            if (a->drop)
                k_attend_draw(a, &b, h);
            k_fill(a->W, b.nv * PCVR_VL, 0.0f, b.ot, K_ATTEND_QUERIES);
            while (k_attend_next(&b, &s)) {
                k_attend_scores(a, &b, &s, a->k + c, a->ldk, b.qt, b.p);
                k_attend_scores(a, &b, &s, a->v + c, a->ldv, b.dt, b.g);
                k_attend_slope(a, &b, &s, &of, factor, b.p, b.g);
                k_attend_spread(a, &b, &s, b.p, g, y->lddo, dv + c, lddv);
                k_attend_spread(a, &b, &s, b.g, q, a->ldq, dk + c, lddk);
                k_attend_mix(a, &b, &s, a->k + c, a->ldk, b.g, b.ot);
            }
            k_attend_put(a, &b, NULL, b.ot, dq + q0 * lddq + c, lddq);
        }
    }
}

#endif

// pcvr_attend_few.h - attention of a handful of queries: keys on vector lanes.
//
// Scores are [queries][keys] rows.  Sums along a row are kept in PCVR_VL partial sums over
// ascending vectors of each run of seen keys, then v_hsum; outputs are one chain an element
// over ascending keys, dk and dv over ascending queries.
#ifndef PCVR_ATTEND_FEW_H
#define PCVR_ATTEND_FEW_H

#include "pcvr_attend_parts.h"

// Lanes j.. of a row that query i sees.
K_INLINE v_mask
k_few_seen(const k_attend_block *b, int i, ptrdiff_t j, int lanes)
{
    const v_i32 bit = vi_set1((int32_t)(1u << i));
    const int32_t *seen = (const int32_t *)(const void *)b->seen[0];
    return vi_has(vi_load_n(seen + j, lanes), bit);
}

// Lanes j.. of a row that are dropped; the row's bits begin with key run[0] at drop_base.
K_INLINE v_mask
k_few_dropped(const k_attend_block *b, ptrdiff_t j)
{
    const ptrdiff_t place = b->drop_base + j - b->run[0];
    uint32_t word;
    memcpy(&word, b->row + (place >> 3), sizeof word);
    return vm_bits(word >> (place & 7));
}

// The drop bits of query i of a head.
static inline void
k_few_draw(const k_attend *a, k_attend_block *b, int head, int i)
{
    const int i0 = a->q_index ? a->q_index[i] : a->q_first + i;
    const uint64_t row = (uint64_t)head * (uint64_t)a->T0 + (uint64_t)i0;
    const uint64_t e = row * (uint64_t)a->S0 + (uint64_t)(a->k_first + b->run[0]);
    const int keys = b->run[2 * b->runs - 1] - b->run[0];
    b->drop_base = (int)(e & 7);
    k_drop_bits(a->drop, (uint32_t)(e >> 3), (b->drop_base + keys + 7) / 8, b->row);
}

// y[T, keys] = x[T, W] rows' for the keys of every run.
static inline void
k_few_scores(const k_attend *a, const k_attend_block *b, const float *x, ptrdiff_t ldx,
             const float *rows, ptrdiff_t ld, float *y)
{
    for (int r = 0; r < b->runs; r++) {
        const int j = b->run[2 * r], keys = b->run[2 * r + 1] - j;
        k_gemm_nt(a->T, keys, a->W, x, ldx, rows + j * ld, ld, NULL, 0, y + j, a->S);
    }
}

#define K_EACH_RUN(b, j, keys)                                                           \
    for (int run_ = 0, j, keys;                                                          \
         run_ < (b)->runs &&                                                             \
         (j = (b)->run[2 * run_], keys = (b)->run[2 * run_ + 1] - j, 1);                 \
         run_++)

// Row p of query i becomes 2^(score - maximum), 0 where unseen, after dropout if `drop`; stats
// become the maximum and 1 / sum, 0 if nothing is seen.
K_INLINE void
k_few_softmax_row(const k_attend *a, const k_attend_block *b, int i, const int drop,
                  float *p, float stats[2])
{
    const v_f32 low = v_set1(-HUGE_VALF);
    const v_f32 scale = v_set1(drop ? a->drop->scale : 1.0f);
    v_f32 top = low, sum = v_zero();
    K_EACH_RUN(b, j, keys)
    K_EACH(l, lanes, keys, {
        const v_f32 s = v_load_n(p + j + l, lanes);
        top = v_max(v_blend(k_few_seen(b, i, j + l, lanes), s, low), top);
    });
    stats[0] = v_hmax(top);
    const v_f32 most = v_set1(stats[0]);
    K_EACH_RUN(b, j, keys)
    K_EACH(l, lanes, keys, {
        v_f32 e = v_exp2_down(v_sub(v_load_n(p + j + l, lanes), most));
        e = v_blend(k_few_seen(b, i, j + l, lanes), e, v_zero());
        sum = v_add(sum, e);
        if (drop)
            e = v_blend(k_few_dropped(b, j + l), v_zero(), v_mul(e, scale));
        v_store_n(p + j + l, lanes, e);
    });
    const float total = v_hsum(sum);
    stats[1] = total == 0.0f ? 0.0f : 1.0f / total;
}

// Rows of queries scaled for the softmax by powers of 2.
static inline void
k_few_scale(const k_attend *a, const float *q, float factor, float *to)
{
    for (int i = 0; i < a->T; i++)
        for (int d = 0; d < a->W; d++)
            to[i * a->W + d] = q[i * a->ldq + d] * factor;
}

// y[T, W] = p[T, keys] rows[keys, W], a chain over ascending keys.
static inline void
k_few_mix(const k_attend *a, const k_attend_block *b, const float *p, const float *rows,
          ptrdiff_t ld, float *y, ptrdiff_t ldy)
{
    if (b->care || !b->runs)
        k_fill(a->T, a->W, 0.0f, y, ldy);
    K_EACH_RUN(b, j, keys)
    {
        if (!b->care) {
            k_gemm_nn(a->T, a->W, keys, p + j, a->S, rows + j * ld, ld,
                      j == b->run[0] ? NULL : y, ldy, y, ldy);
            continue;
        }
        for (int i = 0; i < a->T; i++)
            for (int n = j; n < j + keys; n++)
                if (b->seen[0][n] >> i & 1u)
                    k_axpy(a->W, p[i * a->S + n], rows + n * ld, y + i * ldy);
    }
}

// y[keys, W] = p[T, keys]' x[T, W], a chain over ascending queries; y holds zeros before (k_few_clear).
static inline void
k_few_spread(const k_attend *a, const k_attend_block *b, const float *p, const float *x,
             ptrdiff_t ldx, float *y, ptrdiff_t ldy)
{
    K_EACH_RUN(b, j, keys)
    {
        if (!b->care) {
            k_gemm_tn(keys, a->W, a->T, p + j, a->S, x, ldx, NULL, 0, y + j * ldy, ldy);
            continue;
        }
        for (int n = j; n < j + keys; n++)
            for (int i = 0; i < a->T; i++)
                if (b->seen[0][n] >> i & 1u)
                    k_axpy(a->W, p[i * a->S + n], x + i * ldx, y + n * ldy);
    }
}

K_FN void
k_attention_few(const k_attend *a, float *out, ptrdiff_t ldo, float *stats)
{
    k_attend_block b = k_attend_place(a, 0);
    const float factor = K_LOG2_E / sqrtf((float)a->W);
    k_attend_see(a, &b, 0, a->T);
    b.care = k_attend_keys_need_care(a, &b);
    for (int h = 0; h < a->H; h++) {
        const int c = h * a->W;
        float row[K_ATTEND_FEW_MOST][2];
        k_few_scale(a, a->q + c, factor, b.qt);
        k_few_scores(a, &b, b.qt, a->W, a->k + c, a->ldk, b.p);
        for (int i = 0; i < a->T; i++) {
            float *p = b.p + i * a->S;
            if (a->drop && b.runs) {
                k_few_draw(a, &b, h, i);
                k_few_softmax_row(a, &b, i, 1, p, row[i]);
            } else {
                k_few_softmax_row(a, &b, i, 0, p, row[i]);
            }
        }
        k_few_mix(a, &b, b.p, a->v + c, a->ldv, out + c, ldo);
        for (int i = 0; i < a->T; i++) {
            for (int d = 0; d < a->W; d++)
                out[i * ldo + c + d] *= row[i][1];
            if (stats)
                stats[h * a->T + i] = row[i][0], stats[(a->H + h) * a->T + i] = row[i][1];
        }
    }
}

// From scores in p and g = dout v' of query i, whose dout out is dot: p becomes p d, normalised,
// and g becomes ds.
K_INLINE void
k_few_slope_row(const k_attend *a, const k_attend_block *b, int i, const int drop,
                const float stats[2], float dot, float factor, float *p, float *g)
{
    const v_f32 top = v_set1(stats[0]), inv = v_set1(stats[1]), zero = v_zero();
    const v_f32 scale = v_set1(drop ? a->drop->scale : 1.0f);
    const v_f32 d = v_set1(dot), f = v_set1(factor);
    K_EACH_RUN(b, j, keys)
    K_EACH(l, lanes, keys, {
        const v_mask seen = k_few_seen(b, i, j + l, lanes);
        const v_f32 e = v_exp2_down(v_sub(v_load_n(p + j + l, lanes), top));
        v_f32 pn = v_mul(v_blend(seen, e, zero), inv);
        v_f32 dg = v_load_n(g + j + l, lanes), pd = pn;
        if (drop) {
            const v_mask dropped = k_few_dropped(b, j + l);
            dg = v_blend(dropped, zero, v_mul(dg, scale));
            pd = v_blend(dropped, zero, v_mul(pn, scale));
        }
        pn = v_mul(v_mul(pn, v_sub(dg, d)), f);
        v_store_n(g + j + l, lanes, v_blend(seen, pn, zero));
        v_store_n(p + j + l, lanes, pd);
    });
}

// Zeros where k_few_spread writes nothing: in rows that no query sees, or all where care is taken.
static inline void
k_few_clear(const k_attend *a, const k_attend_block *b, float *y, ptrdiff_t ldy)
{
    const int D = a->H * a->W, runs = b->care ? 0 : b->runs;
    int from = 0;
    for (int r = 0; r < runs; r++) {
        k_fill(b->run[2 * r] - from, D, 0.0f, y + from * ldy, ldy);
        from = b->run[2 * r + 1];
    }
    k_fill(a->S - from, D, 0.0f, y + from * ldy, ldy);
}

// y[keys, W] = p[T, keys]' dout + g[T, keys]' q: of a key that is its own value. g follows p.
static inline void
k_few_spread_both(const k_attend *a, const k_attend_block *b, const float *dout,
                  ptrdiff_t lddo, const float *q, float *y, ptrdiff_t ldy)
{
    if (b->care) {
        k_few_spread(a, b, b->p, dout, lddo, y, ldy);
        k_few_spread(a, b, b->g, q, a->ldq, y, ldy);
        return;
    }
    k_copy(a->T, a->W, dout, lddo, b->ot, a->W);
    k_copy(a->T, a->W, q, a->ldq, b->ot + a->T * a->W, a->W);
    K_EACH_RUN(b, j, keys)
    k_gemm_tn(keys, a->W, 2 * a->T, b->p + j, a->S, b->ot, a->W, NULL, 0, y + j * ldy,
              ldy);
}

K_FN void
k_attention_few_back(const k_attend *a, const k_attend_result *y, float *dq,
                     ptrdiff_t lddq, float *dk, ptrdiff_t lddk, float *dv, ptrdiff_t lddv)
{
    k_attend_block b = k_attend_place(a, 1);
    const float factor = 1.0f / sqrtf((float)a->W);
    k_attend_see(a, &b, 0, a->T);
    b.care = k_attend_keys_need_care(a, &b) || k_attend_queries_need_care(a, &b, y);
    k_few_clear(a, &b, dk, lddk);
    if (dv)
        k_few_clear(a, &b, dv, lddv);
    for (int h = 0; h < a->H; h++) {
        const int c = h * a->W;
        k_few_scale(a, a->q + c, factor * K_LOG2_E, b.qt);
        k_few_scores(a, &b, b.qt, a->W, a->k + c, a->ldk, b.p);
        k_few_scores(a, &b, y->dout + c, y->lddo, a->v + c, a->ldv, b.g);
        for (int i = 0; i < a->T; i++) {
            const float stats[] = {y->stats[h * a->T + i],
                                   y->stats[(a->H + h) * a->T + i]};
            float *p = b.p + i * a->S, *g = b.g + i * a->S, dot = 0.0f;
            for (int d = 0; d < a->W; d++)
                dot = fmaf(y->dout[i * y->lddo + c + d], y->out[i * y->ldo + c + d], dot);
            if (a->drop && b.runs) {
                k_few_draw(a, &b, h, i);
                k_few_slope_row(a, &b, i, 1, stats, dot, factor, p, g);
            } else {
                k_few_slope_row(a, &b, i, 0, stats, dot, factor, p, g);
            }
        }
        if (!dv) {
            k_few_spread_both(a, &b, y->dout + c, y->lddo, a->q + c, dk + c, lddk);
        } else {
            k_few_spread(a, &b, b.p, y->dout + c, y->lddo, dv + c, lddv);
            k_few_spread(a, &b, b.g, a->q + c, a->ldq, dk + c, lddk);
        }
        k_few_mix(a, &b, b.g, a->k + c, a->ldk, dq + c, lddq);
    }
}

#endif

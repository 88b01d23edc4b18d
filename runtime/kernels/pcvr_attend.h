// pcvr_attend.h - attention of one sample, all heads: softmax(q k' / sqrt(W)) v a head.
//
// Queries stand on vector lanes.  A block of up to K_ATTEND_QUERIES queries is transposed, the
// scores are kept transposed too, [keys][queries], so the softmax runs down the keys with no
// horizontal step.  Orders that no blocking changes: a score is one chain over the head's
// lanes; sums run over ascending keys, the maximum is that of all; an output element is one chain over
// ascending keys; in the backward pass dk and dv are chains over ascending queries and dq
// over ascending keys.
//
// A key that a query may not see never enters its arithmetic, not even as 0 * NaN: keys that
// no query of a block sees are skipped; for the others the plain products are used only when
// all that meets a zero probability is finite, else a slower loop steps over masked pairs.
//
// A handful of queries would leave most lanes idle: pcvr_attend_few.h takes those.
#ifndef PCVR_ATTEND_H
#define PCVR_ATTEND_H

#include "pcvr_attend_few.h"

// xt[W][K_ATTEND_QUERIES] = factor * x[n, W]', zeros in the lanes beyond n.
static inline void
k_attend_transpose(const k_attend *a, const k_attend_block *b, const float *x,
                   ptrdiff_t ldx, float factor, float *xt)
{
    const v_f32 f = v_set1(factor);
    k_transpose(b->n, a->W, x, ldx, xt, K_ATTEND_QUERIES);
    for (int d = 0; d < a->W; d++)
        for (int i = 0; i < b->nv; i++) {
            float *at = xt + d * K_ATTEND_QUERIES + i * PCVR_VL;
            v_store(at, v_mul(v_load_n(at, k_min(PCVR_VL, b->n - i * PCVR_VL)), f));
        }
}

// y[keys][queries] = rows of x[S, W] times xt, for the keys of a step.
static inline void
k_attend_scores(const k_attend *a, const k_attend_block *b, const k_attend_keys *s,
                const float *x, ptrdiff_t ldx, const float *xt, float *y)
{
    k_gemm_nn(s->to - s->from, b->nv * PCVR_VL, a->W, x + s->from * ldx, ldx, xt,
              K_ATTEND_QUERIES, NULL, 0, y, K_ATTEND_QUERIES);
}

// Moves a query's drop bits, from bit `at` of `bits` on, to its lane of the words.
static inline void
k_attend_lane_bits(const k_attend_block *b, int lane, int keys, const uint8_t *bits,
                   uint64_t at)
{
    for (int w = 0; w * 32 < keys; w++) {
        uint64_t word;
        memcpy(&word, bits + (at >> 3) + 4 * w, sizeof word);
        b->words[w * K_ATTEND_QUERIES + lane] = (uint32_t)(word >> (at & 7));
    }
}

// Drop bits of one head for the block's queries, from the first key of the first run on: all
// rows in one stretch where they follow each other closely, else row by row.
K_FN void
k_attend_draw(const k_attend *a, k_attend_block *b, int head)
{
    if (!b->runs)
        return;
    b->drop_base = a->k_index ? 0 : k_attend_key(a, b->run[0]);
    const int end = a->k_index ? a->S0 : a->k_first + b->run[2 * b->runs - 1];
    const int keys = end - b->drop_base, S0 = a->S0;
    const int one = (keys + 14) / 8, all = ((b->n - 1) * S0 + keys + 14) / 8; // blocks
    const int vectors = (one + PCVR_VL - 1) / PCVR_VL;
    const int flat = !a->q_index && all <= b->n * vectors * PCVR_VL;
    uint64_t start = 0;
    for (int i = 0; i < b->n; i++) {
        const int i0 = a->q_index ? a->q_index[b->q0 + i] : a->q_first + b->q0 + i;
        const uint64_t row = (uint64_t)head * (uint64_t)a->T0 + (uint64_t)i0;
        const uint64_t element = row * (uint64_t)S0 + (uint64_t)b->drop_base;
        if (i == 0 || !flat) {
            start = element & ~(uint64_t)7;
            k_drop_bits(a->drop, (uint32_t)(start >> 3), flat ? all : one, b->row);
        }
        k_attend_lane_bits(b, i, keys, b->row, element - start);
    }
}

// The drop bits of two vectors of queries, or one, key after key: lane bit 0 is that of the next key.
typedef struct k_attend_drops {
    v_i32 x, y;
} k_attend_drops;

// Drop bits of vectors i and i + 1 (where `two`) from key j on; returns for how many of n keys.
K_INLINE int
k_attend_drops_from(const k_attend *a, const k_attend_block *b, int i, const int two,
                    int j, int n, k_attend_drops *d)
{
    const int key = k_attend_key(a, j) - b->drop_base, at = key & 31;
    const uint32_t *w = b->words + (key >> 5) * K_ATTEND_QUERIES + i * PCVR_VL;
    d->x = vi_shr(vi_load_n((const int32_t *)(const void *)w, PCVR_VL), at);
    if (two)
        d->y =
            vi_shr(vi_load_n((const int32_t *)(const void *)(w + PCVR_VL), PCVR_VL), at);
    return a->k_index ? 1 : k_min(n, 32 - at);
}

K_INLINE v_mask
k_attend_drops_next(v_i32 *d)
{
    const v_mask dropped = vi_has(*d, vi_set1(1));
    *d = vi_shr(*d, 1);
    return dropped;
}

// Vector i of key j, with `other` in the lanes that do not see the key.
K_INLINE v_f32
k_attend_seen(const k_attend_block *b, int i, int j, v_f32 x, v_f32 other)
{
    const int h = i * PCVR_VL / 32;
    if (b->seen[h][j] == b->all[h])
        return x;
    return v_blend(vm_bits(b->seen[h][j] >> (i * PCVR_VL & 31)), x, other);
}

// The highest score of each query so far; p are the scores of a step. Even and odd keys apart, so
// that one chain hides the other's latency: the highest of all is the same.
K_FN void
k_attend_tops(const k_attend_block *b, const k_attend_keys *s, const float *p, v_f32 *top)
{
    const v_f32 low = v_set1(-HUGE_VALF);
    for (int i = 0; i < b->nv; i++, p += PCVR_VL) {
        v_f32 even = top[i], odd = low;
        int j = s->from;
        const float *x = p;
        for (; j + 2 <= s->to; j += 2, x += 2 * K_ATTEND_QUERIES) {
            even = v_max(k_attend_seen(b, i, j, v_load(x), low), even);
            odd =
                v_max(k_attend_seen(b, i, j + 1, v_load(x + K_ATTEND_QUERIES), low), odd);
        }
        if (j < s->to)
            even = v_max(k_attend_seen(b, i, j, v_load(x), low), even);
        top[i] = v_max(odd, even);
    }
}

// One vector of scores becomes 2^(score - top), 0 where unseen, or where dropped if there are drops (the
// scale comes with the sums' inverses); returns it without dropout.
K_INLINE v_f32
k_attend_weigh_one(const k_attend_block *b, int i, int j, v_i32 *drops, v_f32 top,
                   const float *p, float *e)
{
    const v_f32 zero = v_zero();
    v_f32 x = k_attend_seen(b, i, j, v_exp2_down(v_sub(v_load(p), top)), zero);
    const v_f32 whole = x;
    if (drops)
        x = v_blend(k_attend_drops_next(drops), zero, x);
    v_store(e, x);
    return whole;
}

// The same for the scores p of a step; sums before dropout are added to sum. Two vectors side by
// side, or one: the chains of one hide the other's latency.
K_INLINE void
k_attend_weigh_pair(const k_attend *a, const k_attend_block *b, const k_attend_keys *s,
                    int i, const int two, const int drop, const v_f32 *top,
                    const float *p, v_f32 *sum, float *e)
{
    const v_f32 top0 = top[i], top1 = top[two ? i + 1 : i];
    v_f32 sum0 = sum[i], sum1 = v_zero();
    if (two)
        sum1 = sum[i + 1];
    p += i * PCVR_VL, e += i * PCVR_VL;
    for (int j = s->from; j < s->to;) {
        k_attend_drops d;
        int n = s->to - j;
        if (drop)
            n = k_attend_drops_from(a, b, i, two, j, n, &d);
        for (n += j; j < n; j++, p += K_ATTEND_QUERIES, e += K_ATTEND_QUERIES) {
            sum0 =
                v_add(sum0, k_attend_weigh_one(b, i, j, drop ? &d.x : NULL, top0, p, e));
            if (two)
                sum1 = v_add(sum1, k_attend_weigh_one(b, i + 1, j, drop ? &d.y : NULL,
                                                      top1, p + PCVR_VL, e + PCVR_VL));
        }
    }
    sum[i] = sum0;
    if (two)
        sum[i + 1] = sum1;
}

K_FN void
k_attend_weigh(const k_attend *a, const k_attend_block *b, const k_attend_keys *s,
               const v_f32 *top, const float *p, v_f32 *sum, float *e)
{
    for (int i = 0; i < b->nv; i += 2) {
        if (i + 1 < b->nv && a->drop)
            k_attend_weigh_pair(a, b, s, i, 1, 1, top, p, sum, e);
        else if (i + 1 < b->nv)
            k_attend_weigh_pair(a, b, s, i, 1, 0, top, p, sum, e);
        else if (a->drop)
            k_attend_weigh_pair(a, b, s, i, 0, 1, top, p, sum, e);
        else
            k_attend_weigh_pair(a, b, s, i, 0, 0, top, p, sum, e);
    }
}

// yt[W][queries] += x[S, W]' p, one chain over the keys of a step, past pairs that are unseen.
K_FN void
k_attend_mix_careful(const k_attend *a, const k_attend_block *b, const k_attend_keys *s,
                     const float *x, ptrdiff_t ldx, const float *p, float *yt)
{
    for (int d = 0; d < a->W; d++)
        for (int i = 0; i < b->nv; i++) {
            v_f32 sum = v_load(yt + d * K_ATTEND_QUERIES + i * PCVR_VL);
            for (int j = s->from; j < s->to; j++) {
                const v_f32 w =
                    v_load(p + (j - s->from) * K_ATTEND_QUERIES + i * PCVR_VL);
                const v_f32 t = v_fma(v_set1(x[j * ldx + d]), w, sum);
                sum = k_attend_seen(b, i, j, t, sum);
            }
            v_store(yt + d * K_ATTEND_QUERIES + i * PCVR_VL, sum);
        }
}

// yt[W][queries] += x[S, W]' p, p the weights of a step.
static inline void
k_attend_mix(const k_attend *a, const k_attend_block *b, const k_attend_keys *s,
             const float *x, ptrdiff_t ldx, const float *p, float *yt)
{
    if (b->care)
        k_attend_mix_careful(a, b, s, x, ldx, p, yt);
    else
        k_gemm_tn(a->W, b->nv * PCVR_VL, s->to - s->from, x + s->from * ldx, ldx, p,
                  K_ATTEND_QUERIES, yt, K_ATTEND_QUERIES, yt, K_ATTEND_QUERIES);
}

// out' of a head, not yet divided by the sums: scores of all keys for their maximum, then step by
// step what is in the first cache.
K_FN void
k_attend_head(const k_attend *a, k_attend_block *b, int head, v_f32 *top, v_f32 *sum)
{
    const int c = head * a->W;
    k_attend_keys s = {.run = -1}, again = s;
    float *p = b->p;
    for (int i = 0; i < b->nv; i++)
        top[i] = v_set1(-HUGE_VALF), sum[i] = v_zero();
    for (; k_attend_next(b, &s); p += (s.to - s.from) * K_ATTEND_QUERIES) {
        k_attend_scores(a, b, &s, a->k + c, a->ldk, b->qt, p);
        k_attend_tops(b, &s, p, top);
    }
    if (a->drop)
        k_attend_draw(a, b, head);
    k_fill(a->W, b->nv * PCVR_VL, 0.0f, b->ot, K_ATTEND_QUERIES);
    for (p = b->p; k_attend_next(b, &again);
         p += (again.to - again.from) * K_ATTEND_QUERIES) {
        k_attend_weigh(a, b, &again, top, p, sum, b->g);
        k_attend_mix(a, b, &again, a->v + c, a->ldv, b->g, b->ot);
    }
}

// y[n, W] = (inv[query] * yt)'
static inline void
k_attend_put(const k_attend *a, const k_attend_block *b, const v_f32 *inv, float *yt,
             float *y, ptrdiff_t ldy)
{
    if (inv)
        for (int d = 0; d < a->W; d++)
            for (int i = 0; i < b->nv; i++) {
                float *at = yt + d * K_ATTEND_QUERIES + i * PCVR_VL;
                v_store(at, v_mul(v_load(at), inv[i]));
            }
    k_transpose(a->W, b->n, yt, K_ATTEND_QUERIES, y, ldy);
}

// out[T, H W], overwritten; a query that sees no key gets zeros. stats[2, H, T], where not NULL, get
// what the backward pass wants to know (k_attend_result).
K_FN void
k_attention(const k_attend *a, float *out, ptrdiff_t ldo, float *stats)
{
    if (k_attend_is_few(a)) {
        k_attention_few(a, out, ldo, stats);
        return;
    }
    k_attend_block b = k_attend_place(a, 0);
    const float factor = K_LOG2_E / sqrtf((float)a->W);
    for (int q0 = 0; q0 < a->T; q0 += b.n) {
        k_attend_see(a, &b, q0, k_attend_block_size(a, q0));
        b.care = k_attend_keys_need_care(a, &b);
        for (int h = 0; h < a->H; h++) {
            v_f32 top[K_ATTEND_NV], inv[K_ATTEND_NV];
            const int c = h * a->W;
            k_attend_transpose(a, &b, a->q + q0 * a->ldq + c, a->ldq, factor, b.qt);
            k_attend_head(a, &b, h, top, inv);
            for (int i = 0; i < b.nv; i++) {
                const int lanes = k_min(PCVR_VL, b.n - i * PCVR_VL),
                          at = q0 + i * PCVR_VL;
                const v_f32 sum = inv[i], zero = v_zero();
                inv[i] = v_blend(v_eq(sum, zero), zero, v_div(v_set1(1.0f), sum));
                if (stats) {
                    v_store_n(stats + h * a->T + at, lanes, top[i]);
                    v_store_n(stats + (a->H + h) * a->T + at, lanes, inv[i]);
                }
                if (a->drop)
                    inv[i] = v_mul(inv[i], v_set1(a->drop->scale));
            }
            k_attend_put(a, &b, inv, b.ot, out + q0 * ldo + c, ldo);
        }
    }
}

#endif

// attend.c - attention forward and backward against a plain double-precision version.

#include "kernel_test.h"
#include "philox.h"

// One problem; sizes, then arrays of exactly the extent their row distances give.
typedef struct {
    k_attend a;
    k_drop drop;
    ptrdiff_t ldo;
    float *q, *k, *v, *dout;
    uint8_t *mask;
    int32_t *lo, *hi, *qi, *ki;
} Problem;

enum { MASK = 1, RANGE = 2, DROP = 4, INDEX = 8, CAUSAL = 16, SHIFT = 32 };

static int32_t *
ints(int n)
{
    int32_t *x = malloc((size_t)(n ? n : 1) * sizeof *x);
    assert_non_null(x);
    return x;
}

static void
add_masks(Problem *p, int kind)
{
    k_attend *a = &p->a;
    if (kind & MASK) {
        a->ldm = a->T + kt_int(0, 5);
        p->mask = malloc((size_t)kt_extent(a->S, a->T, a->ldm) + 1);
        assert_non_null(p->mask);
        for (ptrdiff_t i = 0; i < kt_extent(a->S, a->T, a->ldm); i++)
            p->mask[i] = (uint8_t)(kt_int(0, 3) != 0);
        for (int j = 0; j < a->S; j++) // keys nobody sees, some next to each other
            if (kt_int(0, 3) == 0 || (j >= 5 && j < 12))
                memset(p->mask + j * a->ldm, 0, (size_t)a->T);
        for (int j = 0; j < a->S; j++) // a query that sees nothing
            p->mask[j * a->ldm + a->T / 2] = 0;
        a->mask = p->mask;
    }
    if (kind & (RANGE | CAUSAL)) {
        p->lo = ints(a->T), p->hi = ints(a->T);
        for (int i = 0; i < a->T; i++) {
            p->lo[i] = kind & CAUSAL ? 0 : kt_int(0, a->S);
            p->hi[i] = kind & CAUSAL ? k_min(a->S, i + 1) : kt_int(0, a->S);
        }
        a->lo = p->lo, a->hi = p->hi;
    }
}

static void
add_drop(Problem *p, int kind)
{
    k_attend *a = &p->a;
    const double rate = kt_int(0, 9) ? 0.3 : 1.0;
    p->drop = (k_drop){.seed = kt_random(),
                       .site = 3,
                       .sample = 17,
                       .step = 9,
                       .threshold = pcvr_drop_threshold(rate),
                       .scale = pcvr_drop_scale(rate)};
    a->drop = &p->drop;
    a->T0 = a->T, a->S0 = a->S;
    if (kind & SHIFT) {
        a->q_first = kt_int(0, 9), a->k_first = kt_int(0, 9);
        a->T0 += a->q_first + kt_int(0, 3), a->S0 += a->k_first + kt_int(0, 3);
    }
    if (kind & INDEX) {
        a->T0 = 2 * a->T + 3, a->S0 = 3 * a->S + 1;
        p->qi = ints(a->T), p->ki = ints(a->S);
        for (int i = 0; i < a->T; i++)
            p->qi[i] = 2 * i + 1;
        for (int j = 0; j < a->S; j++)
            p->ki[j] = 3 * ((j * 7 + 3) % a->S);
        a->q_index = p->qi, a->k_index = p->ki;
    }
}

static void
make_problem(Problem *p, int T, int S, int H, int W, int kind)
{
    *p = (Problem){.a = {.T = T, .S = S, .H = H, .W = W}};
    k_attend *a = &p->a;
    a->ldq = H * W + kt_int(0, 7), a->ldk = H * W + kt_int(0, 7),
    a->ldv = H * W + kt_int(0, 7);
    p->ldo = H * W + kt_int(0, 7);
    a->q = p->q = kt_floats(kt_extent(T, H * W, a->ldq));
    a->k = p->k = kt_floats(kt_extent(S, H * W, a->ldk));
    a->v = p->v = kt_floats(kt_extent(S, H * W, a->ldv));
    p->dout = kt_floats(kt_extent(T, H * W, p->ldo));
    for (ptrdiff_t i = 0; i < kt_extent(T, H * W, a->ldq); i++)
        p->q[i] *= 4.0f;
    add_masks(p, kind);
    if (kind & DROP)
        add_drop(p, kind);
}

static void
free_problem(Problem *p)
{
    free(p->q), free(p->k), free(p->v), free(p->dout), free(p->mask);
    free(p->lo), free(p->hi), free(p->qi), free(p->ki);
}

static int
sees(const k_attend *a, int i, int j)
{
    return (!a->mask || a->mask[j * a->ldm + i]) &&
           (!a->lo || (j >= a->lo[i] && j < a->hi[i]));
}

// What a probability is multiplied by.
static double
factor_of(const k_attend *a, int h, int i, int j)
{
    if (!a->drop)
        return 1.0;
    const PcvrSite s = {a->drop->seed, a->drop->site, a->drop->sample, a->drop->step};
    const int i0 = a->q_index ? a->q_index[i] : a->q_first + i;
    const int j0 = a->k_index ? a->k_index[j] : a->k_first + j;
    const uint64_t e = ((uint64_t)h * (uint64_t)a->T0 + (uint64_t)i0) * (uint64_t)a->S0;
    const int stays = pcvr_keeps(&s, e + (uint64_t)j0, a->drop->threshold);
    return stays ? (double)a->drop->scale : 0.0;
}

// Double-precision copies of the operands, and of results [rows, H W] without padding.
typedef struct {
    double *q, *k, *v, *dout, *out, *dq, *dk, *dv;
    double *stats; // [2 H, T]
} Exact;

static double *
doubles(int R, int C, const float *x, ptrdiff_t ld)
{
    double *y = calloc((size_t)(R * C) + 1, sizeof *y);
    assert_non_null(y);
    for (int r = 0; x && r < R; r++)
        for (int c = 0; c < C; c++)
            y[r * C + c] = (double)x[r * ld + c];
    return y;
}

static Exact
exact_of(const Problem *p)
{
    const k_attend *a = &p->a;
    const int D = a->H * a->W;
    return (Exact){doubles(a->T, D, p->q, a->ldq), doubles(a->S, D, p->k, a->ldk),
                   doubles(a->S, D, p->v, a->ldv), doubles(a->T, D, p->dout, p->ldo),
                   doubles(a->T, D, NULL, 0),      doubles(a->T, D, NULL, 0),
                   doubles(a->S, D, NULL, 0),      doubles(a->S, D, NULL, 0),
                   doubles(2 * a->H, a->T, NULL, 0)};
}

static void
free_exact(Exact *e)
{
    free(e->q), free(e->k), free(e->v), free(e->dout);
    free(e->out), free(e->dq), free(e->dk), free(e->dv), free(e->stats);
}

// The probabilities of one query of one head; zeros where it sees nothing. And its stats.
static void
probabilities(const k_attend *a, Exact *e, int h, int i, double *p)
{
    const int D = a->H * a->W;
    double top = -HUGE_VAL, sum = 0.0;
    for (int j = 0; j < a->S; j++) {
        p[j] = 0.0;
        for (int d = 0; d < a->W && sees(a, i, j); d++)
            p[j] += e->q[i * D + h * a->W + d] * e->k[j * D + h * a->W + d] / sqrt(a->W);
        if (sees(a, i, j) && !(p[j] <= top))
            top = p[j];
    }
    for (int j = 0; j < a->S; j++) {
        p[j] = sees(a, i, j) ? exp(p[j] - top) : 0.0;
        sum += p[j];
    }
    for (int j = 0; j < a->S; j++)
        p[j] = sees(a, i, j) ? p[j] / sum : 0.0;
    e->stats[h * a->T + i] = top / log(2.0);
    e->stats[(a->H + h) * a->T + i] = sum == 0.0 ? 0.0 : 1.0 / sum;
}

static void
exact_attention(const k_attend *a, Exact *e, int back)
{
    const int D = a->H * a->W;
    double *p = doubles(1, a->S, NULL, 0), *g = doubles(1, a->S, NULL, 0);
    memset(e->out, 0, sizeof(double) * (size_t)(a->T * D));
    for (int h = 0; h < a->H; h++)
        for (int i = 0; i < a->T; i++) {
            const int qi = i * D + h * a->W;
            double dot = 0.0;
            probabilities(a, e, h, i, p);
            for (int j = 0; j < a->S; j++) {
                const int kj = j * D + h * a->W;
                if (!sees(a, i, j))
                    continue;
                const double f = factor_of(a, h, i, j);
                g[j] = 0.0;
                for (int d = 0; d < a->W; d++) {
                    e->out[qi + d] += p[j] * f * e->v[kj + d];
                    g[j] += f * e->dout[qi + d] * e->v[kj + d];
                    if (back)
                        e->dv[kj + d] += p[j] * f * e->dout[qi + d];
                }
                dot += p[j] * g[j];
            }
            for (int j = 0; back && j < a->S; j++)
                for (int d = 0; d < a->W && sees(a, i, j); d++) {
                    const int kj = j * D + h * a->W;
                    const double ds = p[j] * (g[j] - dot) / sqrt(a->W);
                    e->dq[qi + d] += ds * e->k[kj + d];
                    e->dk[kj + d] += ds * e->q[qi + d];
                }
        }
    free(p), free(g);
}

static void
compare(const char *what, int R, int C, const float *x, ptrdiff_t ld, const double *y)
{
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            const double got = (double)x[r * ld + c], want = y[r * C + c];
            const int same =
                isnan(want) ? isnan(got) : kt_close(got, want, 2e-5 * (1.0 + fabs(want)));
            if (!same)
                fail_msg("%s[%d, %d] = %g, expected %g", what, r, c, got, want);
        }
}

static void
check_problem(Problem *p)
{
    k_attend *a = &p->a;
    const int D = a->H * a->W, S0 = a->drop ? a->S0 : a->S;
    float *out = kt_floats(kt_extent(a->T, D, p->ldo));
    float *dq = kt_floats(kt_extent(a->T, D, D + 1)),
          *dk = kt_floats(kt_extent(a->S, D, D + 2));
    float *dv = kt_floats(kt_extent(a->S, D, D));
    Exact e = exact_of(p);
    exact_attention(a, &e, 1);
    float *stats = kt_floats(2 * a->H * a->T);
    const k_attend_result y = {p->dout, out, p->ldo, p->ldo, stats};
    a->scratch = kt_floats(K_ATTEND_SCRATCH(a->S, S0, a->W));
    k_attention(a, out, p->ldo, stats);
    free(a->scratch);
    a->scratch = kt_floats(K_ATTEND_BACK_SCRATCH(a->S, S0, a->W));
    k_attention_back(a, &y, dq, D + 1, dk, D + 2, dv, D);
    float *both = kt_floats(kt_extent(a->S, D, D + 3)), *again = kt_floats(a->T * D);
    k_attention_back(a, &y, again, D, both, D + 3, NULL, 0);
    free(a->scratch);
    compare("inverse sum", a->H, a->T, stats + a->H * a->T, a->T, e.stats + a->H * a->T);
    for (int i = 0; i < a->H * a->T; i++)
        if (e.stats[a->H * a->T + i] > 0.0) // sees something that is a number
            compare("highest", 1, 1, stats + i, 1, e.stats + i);
    compare("out", a->T, D, out, p->ldo, e.out);
    compare("dq", a->T, D, dq, D + 1, e.dq);
    compare("dk", a->S, D, dk, D + 2, e.dk);
    compare("dv", a->S, D, dv, D, e.dv);
    compare("dq again", a->T, D, again, D, e.dq);
    for (int k = 0; k < a->S * D; k++)
        e.dk[k] += e.dv[k];
    compare("dk + dv", a->S, D, both, D + 3, e.dk);
    free(both), free(again), free(out), free(dq), free(dk), free(dv), free(stats);
    free_exact(&e);
}

static const int kinds[] = {
    0,
    MASK,
    RANGE,
    CAUSAL,
    MASK | CAUSAL,
    MASK | RANGE,
    DROP,
    DROP | SHIFT,
    DROP | INDEX,
    MASK | DROP,
    CAUSAL | DROP | SHIFT,
    MASK | RANGE | DROP | INDEX,
};

static void
test_against_double(void **state)
{
    (void)state;
    static const int sizes[][4] = {
        {1, 1, 1, 1},    {1, 40, 2, 8},   {5, 70, 2, 20},
        {7, 9, 3, 5},    {18, 52, 4, 16}, {33, 20, 1, 17},
        {52, 61, 2, 16}, {40, 40, 4, 12}, {65, 37, 2, 32},
    };
    int done = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            const int *n = sizes[s];
            Problem p;
            make_problem(&p, n[0], n[1], n[2], n[3], kinds[k]);
            check_problem(&p);
            free_problem(&p);
            done++;
        }
    assert_int_equal(done, 108);
}

// What stands in a row that nobody may see does not show, in any output.
static void
test_unseen_rows_hold_anything(void **state)
{
    (void)state;
    static const float poison[] = {NAN, HUGE_VALF, -HUGE_VALF};
    for (int round = 0; round < 18; round++) {
        Problem p;
        make_problem(&p, round < 9 ? 45 : 5, 50, 2, 16, MASK | (round % 2 ? DROP : 0));
        k_attend *a = &p.a;
        int poisoned = 0;
        for (int j = 0; j < a->S; j++) {
            int seen = 0;
            for (int i = 0; i < a->T; i++)
                seen |= a->mask[j * a->ldm + i];
            for (int c = 0; c < 32 && !seen; c++, poisoned++)
                p.k[j * a->ldk + c] = p.v[j * a->ldv + c] = poison[round % 3];
        }
        for (int c = 0; c < 32; c++) { // the query that sees nothing
            p.q[a->T / 2 * a->ldq + c] = poison[round % 3];
            if (round % 4 == 0)
                p.dout[a->T / 2 * p.ldo + c] = poison[round % 3];
        }
        assert_true(poisoned > 100);
        check_problem(&p);
        free_problem(&p);
    }
}

// A padded token that sees itself alone: its own numbers spoil its own row and no other.
static void
test_partly_seen_rows(void **state)
{
    (void)state;
    enum { T = 40 };
    Problem p;
    make_problem(&p, T, T, 2, 16, MASK);
    k_attend *a = &p.a;
    for (int j = 0; j < T; j++)
        for (int i = 0; i < T; i++) {
            const int pad_i = i % 7 == 3, pad_j = j % 7 == 3;
            p.mask[j * a->ldm + i] = (uint8_t)(pad_i ? i == j : j <= i && !pad_j);
        }
    for (int j = 3; j < T; j += 7)
        for (int c = 0; c < 32; c++)
            p.q[j * a->ldq + c] = p.k[j * a->ldk + c] = p.v[j * a->ldv + c] = NAN;
    check_problem(&p);
    free_problem(&p);
}

// Long rows: the drop bits of a whole block of queries lie side by side.
static void
test_many_keys(void **state)
{
    (void)state;
    static const int many[] = {DROP, DROP | SHIFT, DROP | INDEX, MASK | DROP,
                               CAUSAL | DROP};
    for (int i = 0; i < 5; i++) {
        Problem p;
        make_problem(&p, 33, 700 + i, 1, 4, many[i]);
        check_problem(&p);
        free_problem(&p);
        make_problem(&p, 3, 900 + i, 2, 4, many[i]);
        check_problem(&p);
        free_problem(&p);
    }
}

// Zero keys: zeros out.
static void
test_no_keys(void **state)
{
    (void)state;
    Problem p;
    make_problem(&p, 5, 0, 2, 8, 0);
    check_problem(&p);
    free_problem(&p);
}

// A query's bits do not depend on the queries beside it: among many, and among few.
static void
test_query_beside_others(void **state)
{
    (void)state;
    enum { T = 52, S = 60, H = 2, W = 16, D = H * W, MANY = 11 };
    Problem p;
    make_problem(&p, T, S, H, W, CAUSAL);
    k_attend a = p.a;
    float *all = kt_floats(T * D), *some = kt_floats(MANY * D);
    a.scratch = kt_floats(K_ATTEND_SCRATCH(S, S, W));
    k_attention(&a, all, D, NULL);
    for (int few = 0; few < 2; few++)
        for (int i = 0; i + MANY <= T; i++) {
            const int n = few ? 3 : MANY;
            k_attend b = a;
            b.T = n;
            b.q = a.q + i * a.ldq, b.lo = a.lo + i, b.hi = a.hi + i;
            if (few) { // against the query alone
                b.T = 1;
                k_attention(&b, all + i * D, D, NULL);
                b.T = n;
            }
            k_attention(&b, some, D, NULL);
            assert_memory_equal(some, all + i * D,
                                (few ? 1 : (size_t)n) * D * sizeof *some);
        }
    free(a.scratch), free(all), free(some);
    free_problem(&p);
}

// The adjoint of the double-precision version itself, by central differences.
static void
test_finite_differences(void **state)
{
    (void)state;
    Problem p;
    make_problem(&p, 6, 7, 2, 3, MASK | DROP);
    p.drop.threshold = 16384, p.drop.scale = 4.0f / 3.0f; // not all of them
    const k_attend *a = &p.a;
    Exact e = exact_of(&p);
    exact_attention(a, &e, 1);
    double *x[] = {e.q, e.k, e.v}, *dx[] = {e.dq, e.dk, e.dv};
    const int n[] = {6 * 6, 7 * 6, 7 * 6};
    double largest = 0.0;
    for (int m = 0; m < 3; m++)
        for (int i = 0; i < n[m]; i++) {
            double slope = 0.0;
            const double old = x[m][i], step = 1e-5;
            for (int side = -1; side <= 1; side += 2) {
                x[m][i] = old + side * step;
                exact_attention(a, &e, 0);
                for (int o = 0; o < 36; o++)
                    slope += side * e.out[o] * e.dout[o] / (2 * step);
            }
            x[m][i] = old;
            assert_true(kt_close(slope, dx[m][i], 1e-7));
            largest = fmax(largest, fabs(slope));
        }
    assert_true(largest > 0.1);
    free_exact(&e);
    free_problem(&p);
}

// A mask of bits says what the same mask of bytes says, wherever a block of queries begins.
static void
test_mask_rows(void **state)
{
    (void)state;
    for (int T = 32; T <= 140; T += T < 40 ? 1 : 25)
        for (int kind = 0; kind < 2; kind++) {
            const int S = 2 * T - 31, H = 2, W = 5, D = H * W;
            Problem p;
            make_problem(&p, T, S, H, W, MASK | (kind ? RANGE : 0));
            k_attend a = p.a;
            const size_t size = (size_t)S * K_MASK_ROW(T) + 8;
            assert_true(size <= (size_t)S * (size_t)T);
            uint8_t *rows = malloc(size);
            assert_non_null(rows);
            memset(rows, 0xff, size);
            for (int j = 0; j < S; j++)
                K_EACH(i, lanes, T, {
                    const v_mask m = vm_bytes(a.mask + j * a.ldm + i, lanes);
                    k_mask_put(rows + (ptrdiff_t)j * K_MASK_ROW(T), i, m);
                });
            const int n = (2 * T + 2 * S) * D;
            float *want = kt_floats(n), *got = kt_floats(n);
            float *stats = kt_floats(2 * H * T);
            a.scratch = kt_floats(K_ATTEND_SCRATCH(S, S, W) + K_ATTEND_BACK_SCRATCH(S, S, W));
            for (int bits = 0; bits < 2; bits++) {
                float *y = bits ? got : want, *dq = y + T * D, *dk = dq + T * D, *dv = dk + S * D;
                a.rows = bits ? rows : NULL;
                a.mask = bits ? NULL : p.mask;
                const k_attend_result result = {p.dout, y, p.ldo, D, stats};
                k_attention(&a, y, D, stats);
                k_attention_back(&a, &result, dq, D, dk, D, dv, D);
            }
            assert_memory_equal(want, got, (size_t)n * sizeof *got);
            free(want), free(got), free(rows), free(stats), free(a.scratch);
            free_problem(&p);
        }
}

int
KERNEL_GROUP(attend)(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_unseen_rows_hold_anything),
        cmocka_unit_test(test_partly_seen_rows),
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_no_keys),
        cmocka_unit_test(test_query_beside_others),
        cmocka_unit_test(test_finite_differences),
        cmocka_unit_test(test_mask_rows),
    };
    return cmocka_run_group_tests_name("attend " PCVR_ISA_NAME, tests, NULL, NULL);
}

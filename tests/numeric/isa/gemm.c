// gemm.c - matrix products: bit for bit one chain an element, and close to double precision.

#include "kernel_test.h"

enum { NN, TN, NT, PACKED, FORMS };
enum { ZERO, ACCUMULATE, BIAS, RESIDUAL, STARTS };

typedef struct {
    int M, N, K, form, start;
    int pad[4]; // beyond the least row distance of A, B, S, C
} Case;

static float
a_at(const Case *c, const float *A, ptrdiff_t lda, int i, int k)
{
    return c->form == TN ? A[k * lda + i] : A[i * lda + k];
}

static float
b_at(const Case *c, const float *B, ptrdiff_t ldb, int k, int j)
{
    return c->form == NT || c->form == PACKED ? B[j * ldb + k] : B[k * ldb + j];
}

static void
multiply(const Case *c, const float *A, ptrdiff_t lda, const float *B, ptrdiff_t ldb,
         const float *S, ptrdiff_t lds, float *C, ptrdiff_t ldc)
{
    if (c->form == NN)
        k_gemm_nn(c->M, c->N, c->K, A, lda, B, ldb, S, lds, C, ldc);
    else if (c->form == TN)
        k_gemm_tn(c->M, c->N, c->K, A, lda, B, ldb, S, lds, C, ldc);
    else if (c->form == NT)
        k_gemm_nt(c->M, c->N, c->K, A, lda, B, ldb, S, lds, C, ldc);
    else {
        float *P = kt_floats(k_pack_bt_size(c->N, c->K));
        k_pack_bt(c->N, c->K, B, ldb, P);
        k_gemm_nn(c->M, c->N, c->K, A, lda, P, c->N, S, lds, C, ldc);
        free(P);
    }
}

// Every element equals its chain; nothing between the rows of C is written.
static void
check_product(const Case *c)
{
    const int ar = c->form == TN ? c->K : c->M, ac = c->form == TN ? c->M : c->K;
    const int bt = c->form == NT || c->form == PACKED;
    const int br = bt ? c->N : c->K, bc = bt ? c->K : c->N;
    const ptrdiff_t lda = ac + c->pad[0], ldb = bc + c->pad[1], ldc = c->N + c->pad[3];
    const ptrdiff_t lds = c->start == BIAS         ? 0
                          : c->start == ACCUMULATE ? ldc
                                                   : c->N + c->pad[2];
    const ptrdiff_t nc = kt_extent(c->M, c->N, ldc);
    float *A = kt_floats(kt_extent(ar, ac, lda)), *B = kt_floats(kt_extent(br, bc, ldb));
    float *C = kt_floats(nc), *old = kt_floats(nc);
    float *own = kt_floats(kt_extent(c->M, c->N, c->N + c->pad[2]));
    memcpy(old, C, (size_t)nc * sizeof *C);
    const float *S = c->start == ZERO ? NULL : c->start == ACCUMULATE ? C : own;
    const float *S0 = c->start == ACCUMULATE ? old : S;
    multiply(c, A, lda, B, ldb, S, lds, C, ldc);
    for (int i = 0; i < c->M; i++) {
        for (int j = 0; j < ldc && i * ldc + j < nc; j++) {
            const ptrdiff_t at = i * ldc + j;
            if (j >= c->N) {
                assert_true(kt_same_bits(C[at], old[at]));
                continue;
            }
            float chain = S0 ? S0[i * lds + j] : 0.0f;
            double sum = (double)chain, size = fabs(sum) + 1e-30;
            for (int k = 0; k < c->K; k++) {
                const float a = a_at(c, A, lda, i, k), b = b_at(c, B, ldb, k, j);
                chain = fmaf(a, b, chain);
                sum += (double)a * (double)b;
                size += fabs((double)a * (double)b);
            }
            if (!kt_same_bits(C[at], chain))
                fail_msg("form %d start %d [%d x %d x %d] element %d, %d: %a, chain %a",
                         c->form, c->start, c->M, c->N, c->K, i, j, (double)C[at],
                         (double)chain);
            assert_true(kt_close((double)chain, sum, size * (c->K + 1) * 0x1p-24));
        }
    }
    free(A), free(B), free(C), free(old), free(own);
}

static void
test_one_chain_an_element(void **state)
{
    (void)state;
    static const int ms[] = {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 17, 25, 33};
    static const int ns[] = {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 47, 64, 65, 70, 130, 150};
    static const int ks[] = {0, 1, 2, 3, 8, 17, 40, 127, 128, 130, 257, 300};
    int done = 0;
    for (int i = 0; i < 600; i++) {
        Case c = {.form = i % FORMS, .start = i / FORMS % STARTS};
        c.M = ms[kt_int(0, (int)(sizeof ms / sizeof *ms) - 1)];
        c.N = ns[kt_int(0, (int)(sizeof ns / sizeof *ns) - 1)];
        c.K = ks[kt_int(0, (int)(sizeof ks / sizeof *ks) - 1)];
        for (int p = 0; p < 4; p++)
            c.pad[p] = kt_int(0, 1) * kt_int(1, 19);
        check_product(&c);
        done++;
    }
    assert_int_equal(done, 600);
}

// Every number of rows and every width of a panel, so that each micro-kernel runs: the rest of a
// product after the tiles that are full is shared out among several heights.
static void
test_every_tile(void **state)
{
    (void)state;
    for (int M = 1; M <= 40; M++)
        for (int N = 1; N <= 9 * PCVR_VL; N += PCVR_VL > 1 ? PCVR_VL / 2 - M % 2 : 1) {
            Case c = {.M = M, .N = N, .K = 5, .form = M % 3, .start = N % STARTS};
            check_product(&c);
        }
}

// Panels that are copied while their first tile is computed: rows of B that fall on each other
// in the cache, or more steps than a pass; full and partial last vectors, uneven passes.
static void
test_copied_panels(void **state)
{
    (void)state;
    static const int ks[] = {0, 1, 7, 127, 128, 129, 192, 256, 257, 300, 513};
    int i = 0;
    for (int M = K_GEMM_COPIED_ROWS - 1; M <= K_GEMM_COPIED_ROWS + 26; M += 5)
        for (size_t k = 0; k < sizeof ks / sizeof *ks; k++)
            for (int N = K_GEMM_WIDE - 1; N <= 2 * K_GEMM_WIDE + 1; N += 1 + K_GEMM_WIDE / 2) {
                Case c = {.M = M, .N = N, .K = ks[k], .form = i / STARTS % 2, .start = i % STARTS};
                i++;
                c.pad[0] = M % 3, c.pad[3] = N % 5;
                c.pad[1] = (3 * K_GEMM_COPIED_STRIDE - N) % K_GEMM_COPIED_STRIDE;
                check_product(&c);
            }
}

// Shallow products of large matrices go by a few rows, others by panels: the same chains.
static void
test_shallow(void **state)
{
    (void)state;
    const int M = K_GEMM_FAR / 96 + 1;
    for (int start = 0; start < STARTS; start++)
        for (int K = 0; K <= K_GEMM_SHALLOW + 1; K += K < 4 ? 1 : 6) {
            const Case c = {M, 96 + K, K, TN, start, {K % 3, 1, 0, K % 2}};
            check_product(&c);
        }
}

// A row of a large product has the bits of the product of that row alone.
static void
test_row_alone(void **state)
{
    (void)state;
    enum { M = 23, N = 77, K = 95 };
    float *A = kt_floats(M * K), *B = kt_floats(K * N), *C = kt_floats(M * N);
    float *row = kt_floats(N);
    k_gemm_nn(M, N, K, A, K, B, N, NULL, 0, C, N);
    for (int i = 0; i < M; i++) {
        k_gemm_nn(1, N, K, A + i * K, K, B, N, NULL, 0, row, N);
        assert_memory_equal(row, C + i * N, N * sizeof *row);
    }
    free(A), free(B), free(C), free(row);
}

int
KERNEL_GROUP(gemm)(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_chain_an_element),
        cmocka_unit_test(test_every_tile),
        cmocka_unit_test(test_copied_panels),
        cmocka_unit_test(test_row_alone),
        cmocka_unit_test(test_shallow),
    };
    return cmocka_run_group_tests_name("gemm " PCVR_ISA_NAME, tests, NULL, NULL);
}

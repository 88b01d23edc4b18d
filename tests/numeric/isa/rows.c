// rows.c - row kernels: sums, norms, softmax, lookups, rotations, transposes, and adjoints.

#include "kernel_test.h"

static const int widths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 64, 67, 130};

#define EACH_WIDTH(C) for (int w_ = 0, C; w_ < 12 && (C = widths[w_]); w_++)

typedef struct {
    int R, C;
    ptrdiff_t ld;
    float *x;
} Mat;

static Mat
mat(int R, int C)
{
    const ptrdiff_t ld = C + kt_int(0, 3);
    return (Mat){R, C, ld, kt_floats(kt_extent(R, C, ld))};
}

static double
at(const Mat *m, int r, int c)
{
    return (double)m->x[r * m->ld + c];
}

static void
test_sums(void **state)
{
    (void)state;
    EACH_WIDTH(C)
    {
        Mat x = mat(9, C);
        float *rows = kt_floats(9), *cols = kt_floats(C), *more = kt_floats(C);
        float *top = kt_floats(C), *start = memcpy(kt_floats(C), more, (size_t)C * 4);
        k_row_sum(9, C, x.x, x.ld, rows);
        k_col_sum(9, C, x.x, x.ld, cols, 0);
        k_col_sum(9, C, x.x, x.ld, more, 1);
        k_col_max(9, C, x.x, x.ld, top);
        for (int r = 0; r < 9; r++) {
            double sum = 0, size = 0, dot = 0, high = -9, low = 9;
            for (int c = 0; c < C; c++) {
                const double v = at(&x, r, c);
                sum += v, size += fabs(v), dot += v * v, high = fmax(high, v),
                                                         low = fmin(low, v);
            }
            const float *xr = x.x + r * x.ld;
            const double unit = (C + 1) * 0x1p-24; // roundings of a chain of C
            assert_true(kt_close((double)rows[r], sum, unit * size));
            assert_true(kt_close((double)k_dot(C, xr, xr), dot, unit * dot));
            assert_true((double)k_largest(C, xr) == high);
            assert_true((double)k_smallest(C, xr) == low);
        }
        for (int c = 0; c < C; c++) { // one chain an element, bit for bit
            float s = 0.0f, m = start[c], t = x.x[c];
            for (int r = 0; r < 9; r++) {
                s += x.x[r * x.ld + c], m += x.x[r * x.ld + c];
                t = fmaxf(t, x.x[r * x.ld + c]);
            }
            assert_true(kt_same_bits(cols[c], s) && kt_same_bits(more[c], m));
            assert_true(top[c] == t);
        }
        free(x.x), free(rows), free(cols), free(more), free(top), free(start);
    }
}

// ---- Norms and softmax in double, on one row; the adjoint by central differences ----------

typedef void (*RowFn)(int C, const double *x, const uint8_t *ok, double *y);

static void
layer_norm_d(int C, const double *x, const uint8_t *ok, double *y)
{
    (void)ok;
    double m = 0, v = 0;
    for (int c = 0; c < C; c++)
        m += x[c] / C;
    for (int c = 0; c < C; c++)
        v += (x[c] - m) * (x[c] - m) / C;
    for (int c = 0; c < C; c++)
        y[c] = (x[c] - m) / sqrt(v + 1e-5);
}

static void
rms_norm_d(int C, const double *x, const uint8_t *ok, double *y)
{
    (void)ok;
    double v = 0;
    for (int c = 0; c < C; c++)
        v += x[c] * x[c] / C;
    for (int c = 0; c < C; c++)
        y[c] = x[c] / sqrt(v + 1e-6);
}

static void
softmax_d(int C, const double *x, const uint8_t *ok, double *y)
{
    double sum = 0;
    for (int c = 0; c < C; c++)
        sum += ok && !ok[c] ? 0.0 : exp(x[c]);
    for (int c = 0; c < C; c++)
        y[c] = ok && !ok[c] ? 0.0 : exp(x[c]) / sum;
}

// y = f(x) row by row, and dx = sum of dy dy/dx against differences of f.
static void
check_rows(RowFn f, const Mat *x, const uint8_t *mask, ptrdiff_t ldm, const Mat *y,
           const Mat *dy, const Mat *dx, const Mat *before)
{
    const int C = x->C;
    double *in = calloc((size_t)C, 8), *out = calloc((size_t)C, 8);
    assert_true(in && out);
    for (int r = 0; r < x->R; r++) {
        const uint8_t *ok = mask ? mask + r * ldm : NULL;
        for (int c = 0; c < C; c++)
            in[c] = at(x, r, c);
        f(C, in, ok, out);
        for (int c = 0; c < C; c++)
            assert_true(kt_close(at(y, r, c), out[c], 3e-6 * (1 + fabs(out[c]))));
        for (int c = 0; c < C; c++) {
            double slope = 0, scale = 1;
            const double old = in[c], h = 1e-5;
            for (int side = -1; side <= 1; side += 2) {
                in[c] = old + side * h;
                f(C, in, ok, out);
                for (int o = 0; o < C; o++) {
                    slope += side * out[o] * at(dy, r, o) / (2 * h);
                    scale += fabs(out[o]);
                }
            }
            in[c] = old;
            slope += before ? at(before, r, c) : 0.0;
            if (!kt_close(at(dx, r, c), slope, 2e-5 * scale))
                fail_msg("C %d row %d, %d: dx %g, expected %g", C, r, c, at(dx, r, c),
                         slope);
        }
    }
    free(in), free(out);
}

static Mat
copy_of(const Mat *m)
{
    Mat c = {m->R, m->C, m->ld, kt_floats(kt_extent(m->R, m->C, m->ld))};
    memcpy(c.x, m->x, (size_t)kt_extent(m->R, m->C, m->ld) * sizeof(float));
    return c;
}

static void
test_norms(void **state)
{
    (void)state;
    EACH_WIDTH(C)
    for (int form = 0; form < 4; form++) {
        const int add = form & 1;
        Mat x = mat(3, C), y = mat(3, C), dy = mat(3, C), dx = mat(3, C),
            old = copy_of(&dx);
        float *rstd = kt_floats(3);
        if (form < 2) {
            k_layer_norm(3, C, x.x, x.ld, y.x, y.ld, rstd);
            k_layer_norm_back(3, C, y.x, y.ld, rstd, dy.x, dy.ld, dx.x, dx.ld, add);
            if (C > 1) // one number less its mean has no slope worth a difference
                check_rows(layer_norm_d, &x, NULL, 0, &y, &dy, &dx, add ? &old : NULL);
            k_layer_norm(3, C, x.x, x.ld, y.x, y.ld, NULL);
        } else {
            k_rms_norm(3, C, x.x, x.ld, y.x, y.ld, rstd);
            k_rms_norm_back(3, C, y.x, y.ld, rstd, dy.x, dy.ld, dx.x, dx.ld, add);
            if (C > 1)
                check_rows(rms_norm_d, &x, NULL, 0, &y, &dy, &dx, add ? &old : NULL);
            k_rms_norm(3, C, x.x, x.ld, y.x, y.ld, NULL);
        }
        free(x.x), free(y.x), free(dy.x), free(dx.x), free(old.x), free(rstd);
    }
}

static void
test_softmax(void **state)
{
    (void)state;
    EACH_WIDTH(C)
    for (int form = 0; form < 4; form++) {
        const int add = form & 1;
        const ptrdiff_t ldm = C + 2;
        Mat x = mat(3, C), y = mat(3, C), dy = mat(3, C), dx = mat(3, C),
            old = copy_of(&dx);
        uint8_t *mask = calloc(1, (size_t)kt_extent(3, C, ldm));
        assert_non_null(mask);
        for (int i = 0; i < kt_extent(3, C, ldm); i++)
            mask[i] = (uint8_t)kt_int(0, 1);
        for (int r = 0; r < 3; r++)
            mask[r * ldm + C / 2] = 1;
        const uint8_t *m = form < 2 ? NULL : mask;
        k_softmax(3, C, x.x, x.ld, m, ldm, y.x, y.ld);
        k_softmax_back(3, C, y.x, y.ld, dy.x, dy.ld, dx.x, dx.ld, add);
        check_rows(softmax_d, &x, m, ldm, &y, &dy, &dx, add ? &old : NULL);
        // What is not allowed does not show, whatever stands there.
        for (int c = 0; m && c < C; c++)
            if (!m[c])
                x.x[c] = NAN, dy.x[c] = NAN;
        Mat again = copy_of(&y);
        k_softmax(3, C, x.x, x.ld, m, ldm, again.x, again.ld);
        for (int c = 0; c < C; c++)
            assert_true(kt_same_bits(again.x[c], y.x[c]));
        for (int c = 0; c < C; c++) // nothing allowed: zeros
            mask[c] = 0;
        k_softmax(1, C, x.x, x.ld, mask, ldm, again.x, again.ld);
        k_softmax_back(1, C, again.x, again.ld, dy.x, dy.ld, dx.x, dx.ld, 0);
        for (int c = 0; c < C; c++)
            assert_true(again.x[c] == 0.0f && dx.x[c] == 0.0f);
        free(x.x), free(y.x), free(dy.x), free(dx.x), free(old.x), free(again.x),
            free(mask);
    }
}

static void
test_moves(void **state)
{
    (void)state;
    EACH_WIDTH(C)
    for (int R = 1; R < 40; R += 6) {
        Mat x = mat(R, C), y = mat(R, C), t = mat(C, R), s = copy_of(&y);
        k_transpose(R, C, x.x, x.ld, t.x, t.ld);
        k_add(R, C, x.x, x.ld, s.x, s.ld);
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++) {
                assert_true(at(&t, c, r) == at(&x, r, c));
                assert_true(s.x[r * s.ld + c] == x.x[r * x.ld + c] + y.x[r * y.ld + c]);
            }
        k_copy(R, C, x.x, x.ld, y.x, y.ld);
        k_fill(1, C, 3.0f, x.x, x.ld);
        k_axpy(C, 0.1f, y.x, x.x);
        for (int c = 0; c < C; c++)
            assert_true(kt_same_bits(x.x[c], fmaf(0.1f, y.x[c], 3.0f)));
        free(x.x), free(y.x), free(t.x), free(s.x);
    }
}

static void
test_tables(void **state)
{
    (void)state;
    enum { V = 11 };
    static const int32_t ids[] = {3, -1, 10, 0, 11, 2000000000, 3, 5, INT32_MIN};
    static const int32_t none[] = {0, -4, 0};
    static const int32_t rows[] = {4, 0, 4};
    EACH_WIDTH(C)
    {
        float *table = kt_floats(V * C), *y = kt_floats(9 * C), *bag = kt_floats(C);
        float *sum = kt_floats(V * C),
              *old = memcpy(kt_floats(V * C), sum, (size_t)(V * C) * 4);
        k_lookup(9, C, V, table, ids, 1, y, C);
        k_bag_mean(9, C, V, table, ids, 1, bag);
        assert_true(k_bag_weight(9, V, ids, 1) == 1.0f / 6.0f);
        assert_true(k_bag_weight(3, V, none, 1) == 0.0f);
        for (int c = 0; c < C; c++) {
            float s = 0.0f;
            for (int i = 0; i < 9; i++) {
                const int id = ids[i] < 0 ? 0 : ids[i] >= V ? V - 1 : ids[i];
                assert_true(y[i * C + c] == table[id * C + c]);
                if (id)
                    s += table[id * C + c];
            }
            assert_true(kt_same_bits(bag[c], s * (1.0f / 6.0f)));
        }
        k_bag_mean(3, C, V, table, none, 1, bag);
        k_gather_rows(3, C, table, C, rows, y, C);
        k_scatter_rows(3, C, table, C, rows, sum, C);
        for (int c = 0; c < C; c++) {
            assert_true(bag[c] == 0.0f);
            assert_true(y[c] == table[4 * C + c] && y[C + c] == table[c]);
            const float twice = old[4 * C + c] + table[c] + table[2 * C + c];
            assert_true(kt_same_bits(sum[4 * C + c], twice));
        }
        free(table), free(y), free(bag), free(sum), free(old);
    }
}

static void
test_rope(void **state)
{
    (void)state;
    for (int W = 1; W <= 35; W++) {
        enum { R = 4, H = 3 };
        const int half = W / 2, D = H * W;
        float *x = kt_floats(R * D), *y = kt_floats(R * D), *z = kt_floats(R * D);
        float *cosines = kt_floats(R * half), *sines = kt_floats(R * half);
        for (int i = 0; i < R * half; i++) {
            sines[i] = sinf((float)i);
            cosines[i] = cosf((float)i);
        }
        for (int adjacent = 0; adjacent < 2; adjacent++) {
            if (adjacent) {
                k_rope_adjacent(R, H, W, x, D, cosines, sines, half, 1.0f, y, D);
                k_rope_adjacent(R, H, W, y, D, cosines, sines, half, -1.0f, z, D);
            } else {
                k_rope_halves(R, H, W, x, D, cosines, sines, half, 1.0f, y, D);
                k_rope_halves(R, H, W, y, D, cosines, sines, half, -1.0f, z, D);
            }
            for (int r = 0; r < R; r++)
                for (int h = 0; h < H; h++)
                    for (int i = 0; i < half; i++) {
                        const int base = r * D + h * W;
                        const int a = base + (adjacent ? 2 * i : i);
                        const int b = base + (adjacent ? 2 * i + 1 : half + i);
                        const double c = (double)cosines[r * half + i];
                        const double s = (double)sines[r * half + i];
                        const double xa = (double)x[a], xb = (double)x[b];
                        assert_true(kt_close((double)y[a], xa * c - xb * s, 1e-6));
                        assert_true(kt_close((double)y[b], xb * c + xa * s, 1e-6));
                    }
            for (int i = 0; i < R * D; i++)
                assert_true(kt_close((double)z[i], (double)x[i], 1e-6));
            for (int i = W - 1; W % 2 && i < R * D; i += W)
                assert_true(y[i] == x[i]);
        }
        free(x), free(y), free(z), free(cosines), free(sines);
    }
}

// Tables of rotary positions: far ones and negative ones, heads of odd width, more pairs than a run.
static void
test_rope_table(void **state)
{
    (void)state;
    static const int64_t positions[] = {0, 1, -1, 2, 3, 50, 279, -1024, 65535, 1 << 24};
    enum { R = sizeof positions / sizeof *positions };
    for (int W = 1; W <= 150; W += W < 40 ? 1 : 13) {
        const int half = W / 2;
        const double base = W % 3 ? 10000.0 : 20.0;
        int64_t apart[3 * R];
        float *table = kt_floats(2 * R * half);
        for (int r = 0; r < R; r++)
            apart[3 * r] = positions[r];
        k_rope_table(R, W, base, apart, 3, table);
        for (int r = 0; r < R; r++)
            for (int k = 0; k < half; k++) {
                const double turn = pow(base, -2.0 * k / (2 * half));
                const double angle = (double)positions[r] * turn;
                // The angle itself is known to half a unit in the last place of a double.
                const double slack = fabs(angle) * 0x1p-52;
                const float c = table[r * half + k], s = table[(R + r) * half + k];
                assert_true(fabs((double)c - cos(angle)) <= 6.0e-8 + slack);
                assert_true(fabs((double)s - sin(angle)) <= 6.0e-8 + slack);
                if (labs((long)positions[r]) < 4)
                    assert_true(kt_ulps(s, sin(angle)) <= 1.5);
            }
        free(table);
    }
}

int
KERNEL_GROUP(rows)(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),    cmocka_unit_test(test_norms),
        cmocka_unit_test(test_softmax), cmocka_unit_test(test_moves),
        cmocka_unit_test(test_tables),  cmocka_unit_test(test_rope),
        cmocka_unit_test(test_rope_table),
    };
    return cmocka_run_group_tests_name("rows " PCVR_ISA_NAME, tests, NULL, NULL);
}

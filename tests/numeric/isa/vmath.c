// vmath.c - elementary functions: errors over wide ranges, special values, tails.

#include "kernel_test.h"

static const float inf = HUGE_VALF;

typedef v_f32 (*Vector)(v_f32);
typedef double (*Truth)(double);

static double
sigmoid_d(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double
silu_d(double x)
{
    return x * sigmoid_d(x);
}

static double
silu_grad_d(double x)
{
    const double s = sigmoid_d(x);
    return s * (1.0 + x * (1.0 - s));
}

static double
softplus_d(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double
gelu_d(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752440);
}

static double
gelu_grad_d(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440) +
           x * exp(-0.5 * x * x) * 0.39894228040143267794;
}

// A function, the range its error is measured over, and the error allowed: in units of the
// last place, or absolutely where `absolute` is set.
typedef struct {
    const char *name;
    Vector f;
    Truth truth;
    double low, high, allowed;
    int absolute;
} Function;

static const Function functions[] = {
    {"exp", v_exp, exp, -104.0, 88.8, 1.5, 0},
    {"exp near 0", v_exp, exp, -1e-3, 1e-3, 1.5, 0},
    {"exp2_down", v_exp2_down, exp2, -125.0, 0.0, 2.0, 0},
    {"log", v_log, log, 1e-45, 3.4e38, 1.5, 0},
    {"log near 1", v_log, log, 0.5, 2.0, 1.5, 0},
    {"log1p", v_log1p, log1p, -0.999999, 1e30, 2.0, 0},
    {"log1p near 0", v_log1p, log1p, -0.5, 1.0, 2.0, 0},
    {"tanh", v_tanh, tanh, -12.0, 12.0, 2.0, 0},
    {"tanh near 0", v_tanh, tanh, -1e-3, 1e-3, 2.0, 0},
    {"sigmoid", v_sigmoid, sigmoid_d, -104.0, 104.0, 3.0, 0},
    {"silu", v_silu, silu_d, -86.0, 1e6, 4.0, 0},
    {"silu_grad", v_silu_grad, silu_grad_d, -104.0, 104.0, 4e-7, 1},
    {"softplus", v_softplus, softplus_d, -86.0, 1e4, 3.0, 0},
    {"erf", v_erf, erf, -6.0, 6.0, 2.0, 0},
    {"erf near 0", v_erf, erf, -1e-3, 1e-3, 2.0, 0},
    {"gelu", v_gelu, gelu_d, 0.0, 1e6, 5.0, 0},
    {"gelu below 0", v_gelu, gelu_d, -20.0, 0.0, 1.5e-7, 1},
    {"gelu_grad", v_gelu_grad, gelu_grad_d, -20.0, 20.0, 5e-7, 1},
    {"sqrt", v_sqrt, sqrt, 0.0, 3.4e38, 0.5, 0},
    {"sin_near", v_sin_near, sin, -0.7854, 0.7854, 1.0, 0},
    {"cos_near", v_cos_near, cos, -0.7854, 0.7854, 1.0, 0},
    {"sin", v_sin, sin, -100.0, 100.0, 1.0, 0},
    {"cos", v_cos, cos, -100.0, 100.0, 1.0, 0},
};

// One value through a lane of a vector whose other lanes hold something else.
static float
lane_value(Vector f, float x, int lane)
{
    float in[PCVR_VL], out[PCVR_VL];
    for (int l = 0; l < PCVR_VL; l++)
        in[l] = l == lane ? x : kt_float();
    v_store(out, f(v_load(in)));
    return out[lane];
}

static float
pick(const Function *f, int i)
{
    const double u = (double)(kt_random() >> 11) * 0x1p-53;
    if (i % 2 == 0) // uniform
        return (float)(f->low + u * (f->high - f->low));
    // log-uniform in size, towards the end of that sign
    const double end = i % 4 == 1 ? f->high : f->low;
    const double size = fabs(end) < 1e-44 ? 1e-44 : fabs(end);
    const double x = copysign(size * exp(-u * (i % 8 < 4 ? 8.0 : 90.0)), end);
    return (float)(x < f->low ? f->low : x > f->high ? f->high : x);
}

static void
test_errors(void **state)
{
    (void)state;
    const int n = (int)(sizeof functions / sizeof *functions);
    for (int k = 0; k < n; k++) {
        const Function *f = &functions[k];
        double worst = 0.0;
        float where = 0.0f;
        for (int i = 0; i < 40000; i += PCVR_VL) {
            float in[PCVR_VL], out[PCVR_VL];
            for (int l = 0; l < PCVR_VL; l++)
                in[l] = pick(f, i + l);
            v_store(out, f->f(v_load(in)));
            for (int l = 0; l < PCVR_VL; l++) {
                const double t = f->truth((double)in[l]);
                const double err = f->absolute
                                       ? fabs((double)out[l] - t) / fmax(1.0, fabs(t))
                                       : kt_ulps(out[l], t);
                if (!(err <= worst))
                    worst = err, where = in[l];
            }
        }
        if (!(worst <= f->allowed))
            fail_msg("%s: error %g at %a, allowed %g", f->name, worst, (double)where,
                     f->allowed);
    }
    assert_true(n >= 20);
}

typedef struct {
    const char *name;
    Vector f;
    float x, y;
} Special;

static void
test_special_values(void **state)
{
    (void)state;
    const Special specials[] = {
        {"exp", v_exp, 0.0f, 1.0f},
        {"exp", v_exp, -0.0f, 1.0f},
        {"exp", v_exp, inf, inf},
        {"exp", v_exp, -inf, 0.0f},
        {"exp", v_exp, 89.0f, inf},
        {"exp", v_exp, -104.5f, 0.0f},
        {"exp", v_exp, NAN, NAN},
        {"exp", v_exp, 1e38f, inf},
        {"exp", v_exp, -103.5f, 1e-45f},
        {"exp", v_exp, 1e-45f, 1.0f},
        {"exp2_down", v_exp2_down, 0.0f, 1.0f},
        {"exp2_down", v_exp2_down, -inf, PCVR_VL == 16 ? 0.0f : 0x1p-125f},
        {"exp2_down", v_exp2_down, NAN, NAN},
        {"log", v_log, 1.0f, 0.0f},
        {"log", v_log, 0.0f, -inf},
        {"log", v_log, -0.0f, -inf},
        {"log", v_log, inf, inf},
        {"log", v_log, -1.0f, NAN},
        {"log", v_log, NAN, NAN},
        {"log", v_log, -inf, NAN},
        {"log1p", v_log1p, 0.0f, 0.0f},
        {"log1p", v_log1p, -0.0f, -0.0f},
        {"log1p", v_log1p, -1.0f, -inf},
        {"log1p", v_log1p, inf, inf},
        {"log1p", v_log1p, -2.0f, NAN},
        {"log1p", v_log1p, NAN, NAN},
        {"log1p", v_log1p, 1e-40f, 1e-40f},
        {"tanh", v_tanh, inf, 1.0f},
        {"tanh", v_tanh, -inf, -1.0f},
        {"tanh", v_tanh, -0.0f, -0.0f},
        {"tanh", v_tanh, NAN, NAN},
        {"tanh", v_tanh, 1e-40f, 1e-40f},
        {"sigmoid", v_sigmoid, inf, 1.0f},
        {"sigmoid", v_sigmoid, -inf, 0.0f},
        {"sigmoid", v_sigmoid, 0.0f, 0.5f},
        {"sigmoid", v_sigmoid, NAN, NAN},
        {"silu", v_silu, inf, inf},
        {"silu", v_silu, -inf, -0.0f},
        {"silu", v_silu, 0.0f, 0.0f},
        {"silu", v_silu, NAN, NAN},
        {"silu_grad", v_silu_grad, inf, 1.0f},
        {"silu_grad", v_silu_grad, -inf, -0.0f},
        {"silu_grad", v_silu_grad, 0.0f, 0.5f},
        {"silu_grad", v_silu_grad, NAN, NAN},
        {"softplus", v_softplus, inf, inf},
        {"softplus", v_softplus, -inf, 0.0f},
        {"softplus", v_softplus, NAN, NAN},
        {"erf", v_erf, inf, 1.0f},
        {"erf", v_erf, -inf, -1.0f},
        {"erf", v_erf, -0.0f, -0.0f},
        {"erf", v_erf, NAN, NAN},
        {"gelu", v_gelu, inf, inf},
        {"gelu", v_gelu, -inf, 0.0f},
        {"gelu", v_gelu, 0.0f, 0.0f},
        {"gelu", v_gelu, NAN, NAN},
        {"gelu_grad", v_gelu_grad, inf, 1.0f},
        {"gelu_grad", v_gelu_grad, -inf, 0.0f},
        {"gelu_grad", v_gelu_grad, NAN, NAN},
        {"relu", v_relu, NAN, NAN},
        {"relu", v_relu, -3.0f, 0.0f},
        {"relu", v_relu, 3.0f, 3.0f},
        {"sign", v_sign, -3.0f, -1.0f},
        {"sign", v_sign, 3.0f, 1.0f},
        {"sign", v_sign, -0.0f, 0.0f},
        {"sign", v_sign, NAN, 0.0f},
        {"round", v_round, 2.5f, 2.0f},
        {"round", v_round, -3.5f, -4.0f},
    };
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        for (int lane = 0; lane < PCVR_VL; lane++) {
            const Special *s = &specials[i];
            const float y = lane_value(s->f, s->x, lane);
            const int same = isnan(s->y) ? isnan(y) : kt_same_bits(y, s->y);
            if (!same)
                fail_msg("%s(%g) = %a, expected %a", s->name, (double)s->x, (double)y,
                         (double)s->y);
        }
}

// The bits of a result do not depend on the lane, nor on how many lanes are live.
static void
test_lanes_and_tails_agree(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
        for (int n = 1; n <= 3 * PCVR_VL; n++) {
            const Function *f = &functions[k];
            float *x = kt_floats(n), *y = kt_floats(n);
            for (int i = 0; i < n; i++)
                x[i] = pick(f, i);
            K_EACH(i, lanes, n, v_store_n(y + i, lanes, f->f(v_load_n(x + i, lanes))););
            for (int i = 0; i < n; i++) {
                const float alone = lane_value(f->f, x[i], (i * 7) % PCVR_VL);
                assert_true(kt_same_bits(alone, y[i]));
            }
            free(x), free(y);
        }
}

// Masks, partial loads and reductions of the instruction set's layer.
static void
test_vector_basics(void **state)
{
    (void)state;
    for (int n = 0; n <= PCVR_VL; n++) {
        float *x = kt_floats(n), y[PCVR_VL], z[PCVR_VL + 1];
        uint8_t *m = malloc((size_t)n + 1);
        assert_non_null(m);
        uint32_t bits = 0;
        for (int i = 0; i < n; i++) {
            m[i] = (uint8_t)kt_int(0, 1);
            bits |= (uint32_t)m[i] << i;
        }
        uint8_t *exact = memcpy(malloc((size_t)(n ? n : 1)), m, (size_t)n);
        assert_int_equal(vm_to_bits(vm_bytes(exact, n)), bits);
        assert_int_equal(vm_to_bits(vm_first(n)), (1u << n) - 1u);
        v_store(y, v_load_n(x, n));
        for (int i = 0; i <= PCVR_VL; i++)
            z[i] = 7.0f;
        v_store_n(z, n, v_load_n(x, n));
        float top = -inf;
        for (int i = 0; i < PCVR_VL; i++) {
            assert_true(y[i] == (i < n ? x[i] : 0.0f));
            assert_true(z[i] == (i < n ? x[i] : 7.0f));
            top = y[i] > top ? y[i] : top;
        }
        assert_true(v_hmax(v_load(y)) == top);
        v_store(y, v_blend(vm_bits(bits), v_set1(1.0f), v_set1(2.0f)));
        for (int i = 0; i < n; i++)
            assert_true(y[i] == (m[i] ? 1.0f : 2.0f));
        free(x), free(m), free(exact);
    }
    float ones[PCVR_VL];
    for (int i = 0; i < PCVR_VL; i++)
        ones[i] = (float)(i + 1);
    assert_true(v_hsum(v_load(ones)) == (float)(PCVR_VL * (PCVR_VL + 1) / 2));
    assert_true(v_hmax(v_load(ones)) == (float)PCVR_VL);
    assert_true(v_hmin(v_load(ones)) == 1.0f);
}

// Fused multiply-adds are rounded once, half-way cases, subnormals and the ends included.
static void
test_fma(void **state)
{
    (void)state;
    int halfway = 0, tiny = 0;
    for (int i = 0; i < 200000; i++) {
        float a = ldexpf(kt_float(), kt_int(-70, 64)), b = ldexpf(kt_float(), kt_int(-70, 64));
        float c = ldexpf(kt_float(), kt_int(-149, 127));
        if (i % 4 == 0) { // c near an integer, a b near half of its last place
            c = (float)kt_int(1 << 23, (1 << 24) - 1);
            a = 1.0f + ldexpf((float)kt_int(-3, 3), -23);
            b = 0.5f + ldexpf((float)kt_int(-3, 3), -24);
        } else if (i % 4 == 1) {
            c = -a * b;
        } else if (i % 4 == 2 && i % 100 == 2) {
            a = HUGE_VALF;
        }
        const float want = fmaf(a, b, c), less = fmaf(-a, b, c);
        float y[PCVR_VL], z[PCVR_VL];
        v_store(y, v_fma(v_set1(a), v_set1(b), v_set1(c)));
        v_store(z, v_fnma(v_set1(a), v_set1(b), v_set1(c)));
        assert_true(isnan(want) ? isnan(y[0]) : kt_same_bits(y[0], want));
        assert_true(isnan(less) ? isnan(z[0]) : kt_same_bits(z[0], less));
        halfway += i % 4 == 0 && want != (float)((double)a * (double)b + (double)c);
        tiny += want != 0.0f && fabsf(want) < FLT_MIN;
    }
    assert_true(halfway > 100 && tiny > 100);
}

int
KERNEL_GROUP(vmath)(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector_basics),
        cmocka_unit_test(test_fma),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_lanes_and_tails_agree),
    };
    return cmocka_run_group_tests_name("vmath " PCVR_ISA_NAME, tests, NULL, NULL);
}

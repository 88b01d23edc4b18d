// compare.c - results against a recorded case, within the case's limits.
//
// The limits are those of the fixtures: ten times the distance between the reference in
// float32 and in float64, with a floor. A parameter's gradient is measured on the scale
// of its largest entry, but at least on 1e-4 of the case's largest.

#include "compare.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "numbers.h"

static void fault(Verdict *v, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// The first fault is told.
static void
fault(Verdict *v, const char *format, ...)
{
    va_list ap;
    v->pass = false;
    if (v->reason[0] != '\0')
        return;
    va_start(ap, format);
    vsnprintf(v->reason, sizeof v->reason, format, ap);
    va_end(ap);
}

static double
larger(double a, double b)
{
    return a > b ? a : b;
}

// The larger of two distances; NaN stays.
static double
worse(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

// Notes a gradient's distance; it is the worst when its share of the limit is.
static void
note(Verdict *v, const char *name, double error, double limit)
{
    double share = error / limit, worst = v->worst_error / v->worst_limit;
    if (v->worst == NULL || (!isnan(worst) && (isnan(share) || share > worst))) {
        v->worst = name;
        v->worst_error = error;
        v->worst_limit = limit;
    }
    if (!(error <= limit))
        fault(v, "gradient of '%s': error %.3g, limit %.3g", name, error, limit);
}

static void
compare_full(const NamedTensor *g, const float *want, double peak, double rel, Verdict *v)
{
    double scale = 1e-4 * peak, error = 0.0;
    for (int64_t k = 0; k < g->size; k++) {
        scale = larger(scale, fabs((double)want[k]));
        error = worse(fabs((double)g->values[k] - (double)want[k]), error);
    }
    note(v, g->name, error, rel * scale);
}

static double
member(const json_t *o, const char *key)
{
    const json_t *x = json_object_get(o, key);
    return json_is_number(x) ? json_number_value(x) : (double)NAN;
}

// `total`: the length of all gradients of the case together.
static void
compare_digest(const NamedTensor *g, const json_t *d, double peak, double total,
               double rel, Verdict *v)
{
    char probe[600];
    snprintf(probe, sizeof probe, "probe:%s", g->name);
    uint64_t h = pcvr_name_hash(probe);
    double squares = 0.0, sum = 0.0, dot = 0.0, absmax = 0.0;
    for (int64_t k = 0; k < g->size; k++) {
        double x = (double)g->values[k];
        squares += x * x;
        sum += x;
        dot += x * pcvr_number(h, (uint64_t)k);
        absmax = worse(fabs(x), absmax);
    }
    double scale = rel * larger(member(d, "absmax"), 1e-4 * peak);
    double length = rel * larger(member(d, "l2"), 1e-4 * total);
    double root = g->size > 0 ? sqrt((double)g->size) : 1.0;
    note(v, g->name, fabs(sqrt(squares) - member(d, "l2")), length);
    note(v, g->name, fabs(dot - member(d, "dot")), length);
    note(v, g->name, fabs(sum - member(d, "sum")), length * root);
    note(v, g->name, fabs(absmax - member(d, "absmax")), scale);
    size_t i;
    json_t *s;
    json_array_foreach(json_object_get(d, "samples"), i, s)
    {
        int64_t at = json_integer_value(json_array_get(s, 0));
        if (at < 0 || at >= g->size) {
            fault(v, "gradient of '%s': no element %lld", g->name, (long long)at);
            continue;
        }
        double want = json_number_value(json_array_get(s, 1));
        note(v, g->name, fabs((double)g->values[at] - want), scale);
    }
}

// The square root of the sum of all squared lengths.
static double
digests_length(const json_t *params)
{
    const char *key;
    json_t *d;
    double sum = 0.0;
    json_object_foreach((json_t *)(uintptr_t)params, key, d)
    {
        double l2 = member(d, "l2");
        sum += l2 * l2;
    }
    return sqrt(sum);
}

static const NamedTensor *
find(const Outcome *o, const char *name)
{
    for (int k = 0; k < o->n_grads; k++)
        if (strcmp(o->grads[k].name, name) == 0)
            return &o->grads[k];
    return NULL;
}

// Every listed parameter has a gradient of its shape, and no other has one.
static void
compare_lists(const Case *c, const Outcome *o, Verdict *v)
{
    size_t k;
    json_t *p;
    const json_t *list = json_object_get(c->json, "params");
    json_array_foreach(list, k, p)
    {
        const char *name = json_string_value(json_object_get(p, "name"));
        const NamedTensor *g = name != NULL ? find(o, name) : NULL;
        if (g == NULL)
            fault(v, "no gradient of '%s'", name != NULL ? name : "");
        else if (!case_param_shape(p, g->rank, g->shape))
            fault(v, "the gradient of '%s' has another shape than the case's", name);
    }
    for (int i = 0; i < o->n_grads; i++)
        if (case_param(c, o->grads[i].name) == NULL)
            fault(v, "a gradient of '%s', which the case does not list",
                  o->grads[i].name);
}

static void
compare_gradients(const Case *c, const Outcome *o, Verdict *v)
{
    double peak = case_number(c, "grad_scale.peak_abs_grad", (double)NAN);
    double rel =
        larger(10.0 * case_number(c, "f32_noise.grads_max_rel", (double)NAN), 2e-5);
    const json_t *digests = json_object_get(c->digests, "params");
    double total = digests_length(digests);
    if (isnan(peak) || (c->grads.count == 0 && digests == NULL)) {
        fault(v, "the case has no expected gradients");
        return;
    }
    compare_lists(c, o, v);
    for (int k = 0; k < o->n_grads; k++) {
        const NamedTensor *g = &o->grads[k];
        const json_t *d = json_object_get(digests, g->name);
        PcvrError why = {""};
        if (c->grads.count > 0) {
            const PcvrTensor *want = pcvr_safetensors_want(&c->grads, g->name, PCVR_T_F32,
                                                           g->rank, g->shape, &why);
            if (want == NULL)
                fault(v, "%s", why.text);
            else
                compare_full(g, want->data, peak, rel, v);
        } else if (d == NULL || !case_param_shape(d, g->rank, g->shape)) {
            fault(v, "the case has no expected gradient of '%s' in this shape", g->name);
            continue;
        } else {
            compare_digest(g, d, peak, total, rel, v);
        }
        v->gradients++;
    }
    if (v->gradients == 0)
        fault(v, "no gradient was compared");
}

void
compare_case(const Case *c, const Outcome *o, Verdict *v)
{
    *v = (Verdict){.pass = true, .compared = true, .loss = o->loss, .worst_limit = 1.0};
    v->logits_limit =
        larger(10.0 * case_number(c, "f32_noise.logits_max_abs", 0.0), 2e-6);
    v->loss_limit = larger(10.0 * case_number(c, "f32_noise.loss_abs", 0.0), 2e-6);
    v->loss_error = fabs(o->loss - case_number(c, "expected_loss", (double)NAN));
    int64_t shape[2] = {c->batch.size, c->actions};
    PcvrError why = {""};
    const PcvrTensor *want =
        pcvr_safetensors_want(&c->expected, "logits", PCVR_T_F32, 2, shape, &why);
    if (want == NULL || want->count == 0) {
        v->logits_error = (double)NAN;
        fault(v, "the case has no expected logits (expected.safetensors)");
        return;
    }
    for (size_t k = 0; k < want->count; k++)
        v->logits_error =
            worse(fabs((double)o->logits[k] - (double)((const float *)want->data)[k]),
                  v->logits_error);
    if (!(v->logits_error <= v->logits_limit))
        fault(v, "logits: error %.3g, limit %.3g", v->logits_error, v->logits_limit);
    if (o->logits_only)
        return;
    if (!(v->loss_error <= v->loss_limit))
        fault(v, "loss: error %.3g, limit %.3g", v->loss_error, v->loss_limit);
    compare_gradients(c, o, v);
}

void
compare_finite(const Case *c, const Outcome *o, Verdict *v)
{
    *v = (Verdict){.pass = true, .loss = o->loss, .worst_limit = 1.0};
    for (int64_t k = 0; k < c->batch.size * c->actions; k++)
        if (!isfinite(o->logits[k]))
            fault(v, "logit %lld is %g", (long long)k, (double)o->logits[k]);
    if (o->logits_only)
        return;
    if (!isfinite(o->loss))
        fault(v, "the loss is %g", o->loss);
    for (int k = 0; k < o->n_grads; k++) {
        const NamedTensor *g = &o->grads[k];
        for (int64_t i = 0; i < g->size; i++)
            if (!isfinite(g->values[i])) {
                fault(v, "the gradient of '%s' has %g at %lld", g->name,
                      (double)g->values[i], (long long)i);
                break;
            }
    }
}

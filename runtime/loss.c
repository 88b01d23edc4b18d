// loss.c - losses over raw logits and their gradients.
//
// Everything is worked out in double and rounded once into the gradient; the sums run in
// sample order, so a loss does not depend on chunks or threads.

#include "loss.h"

#include <math.h>
#include <string.h>

double
pcvr_softplus(double x)
{
    return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}

double
pcvr_sigmoid(double x)
{
    double e = exp(-fabs(x));
    return x >= 0.0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
}

static double
bce(double z, double y, double *dz)
{
    *dz = pcvr_sigmoid(z) - y;
    return pcvr_softplus(z) - y * z;
}

// With s = z for a positive and -z for a negative, q = sigmoid(-s), L = a q^g
// softplus(-s), and dL/ds = -a q^g (g (1 - q) softplus(-s) + q): no division by q, so a
// saturated logit gives 0.
static double
focal_hard(double z, bool positive, double alpha, double gamma, double *dz)
{
    double sign = positive ? 1.0 : -1.0, a = positive ? alpha : 1.0 - alpha;
    double q = pcvr_sigmoid(-sign * z), loss = pcvr_softplus(-sign * z);
    double factor = a * (gamma > 0.0 ? pow(q, gamma) : 1.0);
    *dz = -sign * factor * (gamma * (1.0 - q) * loss + q);
    return factor * loss;
}

// Labels between the classes: p_y = p y + (1 - p)(1 - y).
static double
focal_soft(double z, double y, double alpha, double gamma, double *dz)
{
    double p = pcvr_sigmoid(z), q = p + y - 2.0 * p * y,
           dq = (1.0 - 2.0 * y) * p * (1.0 - p);
    double a = alpha * y + (1.0 - alpha) * (1.0 - y), dloss, loss = bce(z, y, &dloss);
    double factor = gamma > 0.0 ? pow(q, gamma) : 1.0;
    double inner = q > 0.0 ? gamma * factor / q * dq * loss : 0.0;
    *dz = a * (inner + factor * dloss);
    return a * factor * loss;
}

static double
sample_loss(const PcvrLossTerm *t, double z, double y, double *dz)
{
    if (t->kind == PCVR_LOSS_BCE)
        return bce(z, y, dz);
    if (y == 0.0 || y == 1.0)
        return focal_hard(z, y == 1.0, t->alpha, t->gamma, dz);
    return focal_soft(z, y, t->alpha, t->gamma, dz);
}

void
pcvr_loss_samples(const PcvrLossTerm *term, const float *logits, const float *labels,
                  size_t n, size_t total, double *losses, float *dlogits)
{
    double share = term->weight / (double)total;
    for (size_t i = 0; i < n; i++) {
        double dz, loss = sample_loss(term, (double)logits[i], (double)labels[i], &dz);
        if (losses)
            losses[i] = loss;
        dlogits[i] += (float)(share * dz);
    }
}

double
pcvr_loss_pairwise(const PcvrLossTerm *term, const float *logits, const float *labels,
                   size_t n, float *dlogits, double *scratch)
{
    size_t positive = 0;
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        positive += labels[i] > 0.5f;
        scratch[i] = 0.0;
    }
    if (positive == 0 || positive == n)
        return 0.0;
    double pairs = (double)positive * (double)(n - positive);
    for (size_t i = 0; i < n; i++) {
        if (!(labels[i] > 0.5f))
            continue;
        for (size_t j = 0; j < n; j++) {
            if (labels[j] > 0.5f)
                continue;
            double x = ((double)logits[j] - (double)logits[i]) / term->temperature;
            double slope = pcvr_sigmoid(x) / term->temperature;
            sum += pcvr_softplus(x);
            scratch[i] -= slope;
            scratch[j] += slope;
        }
    }
    for (size_t i = 0; dlogits && i < n; i++)
        dlogits[i] += (float)(term->weight / pairs * scratch[i]);
    return sum / pairs;
}

bool
pcvr_loss_coupled(const PcvrLossTerm *terms, size_t n_terms)
{
    for (size_t t = 0; t < n_terms; t++) {
        if (terms[t].kind == PCVR_LOSS_PAIRWISE && terms[t].weight > 0.0)
            return true;
    }
    return false;
}

double
pcvr_loss_total(const PcvrLossTerm *terms, size_t n_terms, const float *logits,
                const float *labels, size_t n, double *values, float *dlogits,
                double *scratch)
{
    double total = 0.0;
    memset(dlogits, 0, n * sizeof *dlogits);
    for (size_t t = 0; t < n_terms; t++) {
        const PcvrLossTerm *term = &terms[t];
        values[t] = 0.0;
        if (term->weight == 0.0)
            continue;
        if (term->kind == PCVR_LOSS_PAIRWISE) {
            values[t] = pcvr_loss_pairwise(term, logits, labels, n, dlogits, scratch);
        } else {
            pcvr_loss_samples(term, logits, labels, n, n, scratch, dlogits);
            for (size_t i = 0; i < n; i++)
                values[t] += scratch[i];
            values[t] /= (double)n;
        }
        total += term->weight * values[t];
    }
    return total;
}

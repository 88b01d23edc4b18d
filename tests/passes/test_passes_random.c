// test_passes_random.c - every graph pass on seeded random graphs: the interpreter before and after.
//
// Each rewrite of prune also runs alone. Logits and gradients must agree up to rounding in double; the
// choices of checkpoint must agree in every bit.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "prune.h"
#include "random_graph.h"

enum { N_GRAPHS = 300 };

// Logits of all samples, then the gradients of all parameters.
typedef struct Numbers {
    double *v;
    int64_t n, n_logits;
} Numbers;

static void
add_numbers(Numbers *x, const double *v, int64_t n)
{
    x->v = realloc(x->v, (size_t)(x->n + n + 1) * sizeof *x->v);
    for (int64_t k = 0; k < n; k++)
        x->v[x->n++] = v != NULL ? v[k] : 0.0;
}

static Numbers
evaluate(const RandomGraph *r, bool backward)
{
    Numbers x = {0};
    const Graph *g = r->g;
    Interp *it = random_interp(r);
    interp_exact_constants(it);
    interp_chance(it, true, 9, 4);
    for (int64_t s = 0; s < r->batch.size; s++) {
        const double d[RG_ACTIONS] = {0.7, -0.4, 0.2};
        interp_sample(it, &r->batch, s);
        interp_run(it, (Node *const *)&g->logits, 1);
        add_numbers(&x, interp_value(it, g->logits)->f, RG_ACTIONS);
        if (backward) {
            interp_dlogits(it, d);
            interp_backward(it);
        }
    }
    x.n_logits = x.n;
    for (int k = 0; k < g->n_params && backward; k++)
        add_numbers(&x, interp_grad(it, k), shape_size(g->params[k].shape));
    interp_free(it);
    return x;
}

static bool
equal(const Numbers *a, const Numbers *b, double limit)
{
    double scale = 1e-6;
    if (a->n != b->n)
        return false;
    for (int64_t k = 0; k < a->n; k++)
        scale = fmax(scale, fabs(b->v[k]));
    for (int64_t k = 0; k < a->n; k++) {
        bool same_bits = memcmp(&a->v[k], &b->v[k], sizeof *a->v) == 0;
        // Random graphs may overflow: then both must, in the same way.
        bool both_odd = !isfinite(a->v[k]) && !isfinite(b->v[k]);
        double bound = k < a->n_logits ? fmax(1.0, fabs(b->v[k])) : scale;
        if (!same_bits && !both_odd && !(limit > 0.0 && fabs(a->v[k] - b->v[k]) <= limit * bound))
            return false;
    }
    return true;
}

static bool
columns(Graph *g)
{
    sink_columns(g);
    return true;
}

static bool
gathers(Graph *g)
{
    while (sink_gathers(g))
        continue;
    return true;
}

static bool
rows(Graph *g)
{
    demand_rows(g);
    return true;
}

static const struct {
    const char *name;
    PassFn *run;
} steps[] = {{"simplify", simplify}, {"columns", columns}, {"gathers", gathers},
             {"rows", rows},         {"prune", prune}};

// How many graphs a step changes: a step that never does anything tests nothing.
static int changed[sizeof steps / sizeof *steps];

static void
test_forward_steps(void **state)
{
    (void)state;
    int bad = 0;
    for (uint64_t seed = 1; seed <= N_GRAPHS; seed++) {
        for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
            RandomGraph r;
            random_graph(&r, seed, 0);
            Numbers before = evaluate(&r, false);
            graph_compact(r.g);
            int n = r.g->n_nodes;
            assert_true(steps[k].run(r.g));
            changed[k] += r.g->n_nodes != n;
            Numbers after = evaluate(&r, false);
            if (!equal(&after, &before, 1e-11)) {
                printf("seed %d: %s changes the logits: %.17g, %.17g\n", (int)seed, steps[k].name,
                       after.v[0], before.v[0]);
                bad++;
            }
            free(before.v);
            free(after.v);
            random_graph_free(&r);
        }
    }
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        printf("%s changed %d of %d graphs\n", steps[k].name, changed[k], N_GRAPHS);
        assert_true(changed[k] > 5);
    }
    assert_int_equal(bad, 0);
}

// Backward and recomputed nodes read of the forward pass only what is kept, leaves, and values that depend on
// inputs and constants alone.
static bool
reads_are_kept(const Graph *g)
{
    bool *computed = calloc((size_t)g->n_nodes + 1, sizeof *computed);
    bool ok = true;
    for (int k = 0; k < g->n_nodes; k++) {
        const Node *n = g->nodes[k];
        computed[k] = n->op == OP_PARAM || (op_info[n->op].flags & OPF_CHANCE) != 0;
        for (int j = 0; j < n->n_in; j++) {
            const Node *x = n->in[j];
            computed[k] = computed[k] || computed[x->id];
            if (n->part != PART_FORWARD && x->part == PART_FORWARD && computed[x->id])
                ok = ok && (x->kept || x->op == OP_PARAM);
        }
    }
    free(computed);
    return ok;
}

static Numbers
gradients(uint64_t seed, bool optimise, const char *choice, int *recomputed)
{
    RandomGraph r;
    random_graph(&r, seed, 0);
    Graph *g = r.g;
    g->checkpoint = choice;
    g->dear_flops = 1; // products and attention
    g->keep_limit = seed % 3 == 0 ? (int64_t)(seed * 53 % 997 + 1) : 0;
    if (optimise) {
        assert_true(simplify(g));
        assert_true(prune(g));
    }
    assert_true(differentiate(g));
    if (choice != NULL) {
        assert_true(checkpoint(g));
        assert_true(sweep(g));
        assert_true(reads_are_kept(g));
    }
    for (int k = 0; k < g->n_nodes; k++)
        if (g->nodes[k]->part == PART_RECOMPUTE && (op_info[g->nodes[k]->op].flags & OPF_MOVE) == 0)
            ++*recomputed;
    Numbers x = evaluate(&r, true);
    random_graph_free(&r);
    return x;
}

static void
test_choices(void **state)
{
    (void)state;
    static const char *const choices[] = {"none", "blocks", "*", "sample"};
    int bad = 0, recomputed[4] = {0}, unused = 0;
    for (uint64_t seed = 1; seed <= N_GRAPHS; seed++) {
        Numbers plain = gradients(seed, false, NULL, &unused);
        Numbers none = {0};
        for (int c = 0; c < 4; c++) {
            Numbers x = gradients(seed, true, choices[c], &recomputed[c]);
            bool ok = c == 0 ? equal(&x, &plain, 1e-7) : equal(&x, &none, 0.0);
            if (!ok) {
                printf("seed %d: gradients differ with %s\n", (int)seed, choices[c]);
                bad++;
            }
            if (c == 0)
                none = x;
            else
                free(x.v);
        }
        free(plain.v);
        free(none.v);
    }
    printf("recomputed nodes: none %d, blocks %d, * %d, sample %d\n", recomputed[0], recomputed[1],
           recomputed[2], recomputed[3]);
    assert_true(recomputed[0] < recomputed[1] && recomputed[1] < recomputed[2] && recomputed[2] < recomputed[3]);
    assert_int_equal(bad, 0);
}

// A choice that names nothing is one error and a note that lists what there is, perhaps with a hint between.
static void
test_unknown_choice(void **state)
{
    (void)state;
    static const char *const bad[] = {"blocks.77", "auto", "budget:1MiB", "", "block,nothing"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        RandomGraph r;
        random_graph(&r, 1, 0);
        assert_false(checkpoint_choice_valid(r.g, bad[k]));
        assert_int_equal(r.diag.errors, 1);
        int n = r.diag.messages.n;
        assert_in_range(n, 2, 3);
        assert_non_null(strstr(r.diag.messages.v[n - 1].text, "none, blocks, sample"));
        random_graph_free(&r);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_forward_steps),
                                       cmocka_unit_test(test_choices),
                                       cmocka_unit_test(test_unknown_choice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

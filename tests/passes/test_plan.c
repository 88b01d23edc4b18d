// test_plan.c - places of buffers on random graphs: what lives at one time lies apart, inside its arena.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "random_graph.h"
#include "tile_case.h"

enum { SEEDS = 240 };

static const int width[] = {4, 8, 1};

static int64_t
start_of(const Buf *b)
{
    return b->offset * width[b->type];
}

static int64_t
end_of(const Buf *b)
{
    return start_of(b) + b->size * width[b->type];
}

static bool
meet(const Buf *a, const Buf *b)
{
    if (a->space != b->space)
        return false;
    bool shared = a->space == SP_SCRATCH || a->space == SP_CHUNK;
    if (shared && (a->line != b->line || a->last < b->first || b->last < a->first))
        return false;
    return start_of(a) < end_of(b) && start_of(b) < end_of(a);
}

static int64_t
arena_size(const Tiles *t, const Buf *b)
{
    switch (b->space) {
    case SP_INPUT: return t->input_bytes;
    case SP_KEPT: return t->kept_bytes;
    case SP_SCRATCH: return t->line_bytes[b->line];
    case SP_CHUNK: return t->chunk_bytes[b->line];
    case SP_ACC: return t->acc_floats * 4;
    case SP_PACKED: return t->packed_floats * 4;
    default: return INT64_MAX;
    }
}

static void
check_plan(const Tiles *t, int *pairs)
{
    for (int i = 0; i < t->bufs.n; i++) {
        const Buf *a = t->bufs.v[i];
        if (a->first < 0 || arena_size(t, a) == INT64_MAX)
            continue;
        assert_true(start_of(a) % 64 == 0 && start_of(a) >= 0);
        assert_true(end_of(a) <= arena_size(t, a));
        for (int k = i + 1; k < t->bufs.n; k++) {
            const Buf *b = t->bufs.v[k];
            if (b->first < 0 || b->size == 0 || a->size == 0)
                continue;
            *pairs += a->space == b->space;
            assert_false(meet(a, b));
        }
    }
    assert_true(t->unkept_group >= 1 && t->unkept_group <= t->group);
    for (int line = 0; line < TL_COUNT; line++) {
        assert_true(t->scratch_bytes >= t->line_bytes[line] + t->group * t->chunk_bytes[line]);
        if (line != TL_BACKWARD)
            assert_true(t->forward_scratch_bytes >= t->line_bytes[line]);
    }
    assert_true(t->forward_scratch_bytes >=
                t->line_bytes[TL_FORWARD] + t->unkept_group * (t->kept_bytes + t->chunk_bytes[TL_FORWARD]));
}

// Statements of a phase are all of one kind, and phases are numbered in order.
static void
check_phases(const Tiles *t, int *batched)
{
    for (int i = 0; i < t->regions.n; i++) {
        const Region *r = t->regions.v[i];
        for (int k = 0; k < r->stmts.n; k++) {
            const Stmt *s = r->stmts.v[k], *before = k ? r->stmts.v[k - 1] : s;
            *batched += s->batched;
            assert_true(s->phase == before->phase || s->phase == before->phase + 1);
            assert_true(s->phase != before->phase || s->batched == before->batched);
            assert_true(s->phase < r->n_phases);
        }
    }
}

static void
test_seeds(void **state)
{
    (void)state;
    static PassFn *const passes[] = {simplify, prune, differentiate, checkpoint, sweep};
    static const char *const choices[] = {"none", "blocks", "*", "sample"};
    int pairs = 0, batched = 0, mixed = 0;
    for (int seed = 1; seed <= SEEDS; seed++) {
        RandomGraph r;
        random_graph(&r, (uint64_t)seed, 0);
        r.g->checkpoint = choices[seed % 4];
        r.g->dear_flops = 1;
        r.g->group_bytes = seed % 2 ? 0 : 1500;
        for (size_t k = 0; k < sizeof passes / sizeof *passes; k++)
            assert_true(passes[k](r.g));
        Tiles *t = schedule(r.g);
        plan(t);
        check_plan(t, &pairs);
        check_phases(t, &batched);
        mixed += r.g->group_bytes && has_joined(t);
        random_graph_free(&r);
    }
    assert_true(pairs > 10000 && batched > 100 && mixed > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seeds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

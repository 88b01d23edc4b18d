// test_view.c - windows of buffers: reshaping and merging axes keep every element and its order.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "numbers.h"
#include "tile.h"

static uint64_t state = 1;

static int
pick(int n)
{
    return (int)(pcvr_number_bits(7, state++) >> 33) % n;
}

// The place of element number k of a view in C order.
static int64_t
address(const View *v, int64_t k)
{
    int64_t at = v->first;
    for (int i = v->rank - 1; i >= 0; i--) {
        at += k % v->dim[i] * v->stride[i];
        k /= v->dim[i];
    }
    return at;
}

static bool
same_elements(const View *a, const View *b)
{
    if (view_size(a) != view_size(b))
        return false;
    for (int64_t k = 0; k < view_size(a); k++)
        if (address(a, k) != address(b, k))
            return false;
    return true;
}

// A window: slices and a permutation of a whole buffer of small extents.
static View
random_view(Buf *b)
{
    Shape s = {.rank = 1 + pick(4)};
    for (int i = 0; i < s.rank; i++)
        s.dim[i] = 1 + pick(4);
    b->size = shape_size(s);
    View v = view_whole(b, s);
    for (int i = 0; i < v.rank; i++)
        if (pick(3) == 0) {
            int64_t start = pick((int)v.dim[i]);
            v = view_slice(v, i, start, 1 + pick((int)(v.dim[i] - start)));
        }
    if (pick(2)) {
        int64_t order[MAX_RANK] = {0, 1, 2, 3, 4};
        for (int i = v.rank - 1; i > 0; i--) {
            int j = pick(i + 1);
            int64_t t = order[i];
            order[i] = order[j];
            order[j] = t;
        }
        v = view_permute(v, order);
    }
    return v;
}

// Another shape of as many elements: the factors of the size dealt out at random.
static Shape
random_shape(int64_t size)
{
    Shape s = {.rank = 1 + pick(4)};
    for (int i = 0; i < s.rank; i++)
        s.dim[i] = 1;
    for (int64_t f = 2; size > 1; f++)
        for (; size % f == 0; size /= f)
            s.dim[pick(s.rank)] *= f;
    return s;
}

static void
test_reshape(void **unused)
{
    (void)unused;
    int taken = 0, refused = 0;
    for (int k = 0; k < 20000; k++) {
        Buf b = {0};
        View v = random_view(&b), r;
        Shape s = random_shape(view_size(&v));
        if (!view_reshape(v, s, &r)) {
            refused++;
            assert_false(view_contiguous(&v));
            continue;
        }
        taken++;
        assert_true(same_elements(&v, &r));
        assert_true(shape_equal(view_shape(&r), s));
    }
    assert_true(taken > 5000 && refused > 500);
}

static void
test_reshape_of_slots(void **unused)
{
    (void)unused;
    Buf b = {.size = 24};
    View whole = view_whole(&b, (Shape){.rank = 2, .dim = {3, 8}}), r;
    View row = view_slice(whole, 0, 1, 1), cols = view_slice(whole, 1, 2, 4);
    assert_true(view_reshape(row, (Shape){.rank = 1, .dim = {8}}, &r));
    assert_int_equal(r.first, 8);
    assert_int_equal(r.stride[0], 1);
    assert_true(view_reshape(cols, (Shape){.rank = 3, .dim = {3, 2, 2}}, &r));
    assert_int_equal(r.stride[0], 8);
    assert_false(view_reshape(cols, (Shape){.rank = 1, .dim = {12}}, &r));
}

static void
test_collapse(void **unused)
{
    (void)unused;
    int merged = 0;
    for (int k = 0; k < 5000; k++) {
        Buf b = {0};
        View v = random_view(&b), e = v;
        if (pick(2))
            for (int i = 0; i < e.rank; i++) // the same axes, broadcast along some
                e.stride[i] = pick(2) ? e.stride[i] : 0;
        View cv = v, ce = e;
        View *list[] = {&cv, &ce};
        view_collapse(list, 2, NULL);
        merged += cv.rank < v.rank;
        assert_true(cv.rank >= 1 && cv.rank == ce.rank);
        assert_true(same_elements(&v, &cv) && same_elements(&e, &ce));
    }
    assert_true(merged > 500);
}

static void
test_collapse_marks(void **unused)
{
    (void)unused;
    Buf b = {.size = 24};
    View v = view_whole(&b, (Shape){.rank = 3, .dim = {2, 3, 4}});
    View *list[] = {&v};
    bool marks[MAX_RANK] = {false, true, true};
    view_collapse(list, 1, marks);
    assert_int_equal(v.rank, 2);
    assert_int_equal(v.dim[1], 12);
    assert_true(!marks[0] && marks[1]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reshape), cmocka_unit_test(test_reshape_of_slots),
        cmocka_unit_test(test_collapse), cmocka_unit_test(test_collapse_marks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

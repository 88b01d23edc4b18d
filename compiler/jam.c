// jam.c - loops over the same elements that read the same become one loop with several results.
//
// What a loop reads it reads once, what two loops compute of it the C compiler computes once (an
// activation made again beside its derivative shares the exponential), and where one loop reads the
// other's result, that stays in a register. Every element is computed as before, so no bit changes.
//
// A loop is moved down to a later one, what follows it stays behind both. That is possible unless the
// later one reads something that follows the first. Where both touch a buffer that one of them writes,
// they must see it alike, element by element: a loop reads all of its operands before it writes.
//
// Needs: what each statement must follow, strips side by side.  Leaves: fewer statements, their needs.

#include "phase.h"

#include <string.h>

enum {
    REACH = 64, // statements between two loops
    // Operands and operations of one: more than registers carry gains nothing.
    LEAVES_MOST = 16,
    EXPRS_MOST = 48,
};

static bool
can_jam(const Stmt *s)
{
    if (s->kind != ST_LOOP || !s->vector || s->reduce || s->add || s->n_expr == 0)
        return false;
    for (int k = 0; k < s->n_out; k++) {
        Space space = s->out[k].buf->space;
        if (s->out[k].buf->type != DT_F32 || (space != SP_SCRATCH && space != SP_KEPT))
            return false;
    }
    return true;
}

static bool
views_meet(const View *a, const View *b)
{
    return a->buf && a->buf == b->buf && a->first <= view_last(b) &&
           b->first <= view_last(a);
}

static Node *
result_of(const Stmt *s, int k)
{
    return k ? s->also[k - 1] : s->expr[s->n_expr - 1];
}

// The result of `a` that leaf i of `b` reads, or -1; *apart is false where they meet otherwise.
static int
result_read(const Stmt *a, const Stmt *b, int i, bool *apart)
{
    const Leaf *l = &b->leaf[i];
    for (int k = 0; k < a->n_out; k++) {
        if (!views_meet(&a->out[k], &l->view))
            continue;
        if (view_equal(&a->out[k], &l->view) && l->node == result_of(a, k))
            return k;
        *apart = false;
    }
    return -1;
}

static int
leaf_shared(const Stmt *a, const Leaf *l)
{
    for (int i = 0; i < a->n_leaf; i++)
        if (a->leaf[i].node == l->node && view_equal(&a->leaf[i].view, &l->view))
            return i;
    return -1;
}

// What is made again waits until something needs it: what is not must not wait with it.
static bool
would_wait(const Stmt *a, const Stmt *b)
{
    return b->node->part == PART_RECOMPUTE && a->node->part != PART_RECOMPUTE;
}

// Whether two loops may be one, and have something in common; `a` comes first. A value that is computed inside
// of a loop is no other's: only results and operands are shared.
static bool
fit_together(const Stmt *a, const Stmt *b)
{
    if (!shape_equal(a->iter, b->iter) || would_wait(a, b) || a->n_out + b->n_out > 3 ||
        a->n_expr + b->n_expr > EXPRS_MOST || a->n_leaf + b->n_leaf > LEAVES_MOST)
        return false;
    bool apart = true, common = false;
    for (int i = 0; i < b->n_leaf; i++) {
        const Leaf *l = &b->leaf[i];
        int read = l->view.buf ? result_read(a, b, i, &apart) : -1;
        int shared = read < 0 ? leaf_shared(a, l) : -1;
        bool moves = l->view.rank > 0 && l->view.stride[l->view.rank - 1] != 0;
        common |= read >= 0 || (shared >= 0 && moves && l->view.buf);
    }
    for (int i = 0; i < a->n_leaf; i++) {
        const Leaf *l = &a->leaf[i];
        for (int j = 0; j < b->n_leaf; j++) // a node has one name in a loop
            if (l->node && l->node == b->leaf[j].node &&
                !view_equal(&l->view, &b->leaf[j].view))
                return false;
        for (int k = 0; k < b->n_out; k++)
            if (views_meet(&l->view, &b->out[k]) && !view_equal(&l->view, &b->out[k]))
                return false;
    }
    for (int k = 0; k < a->n_out; k++)
        for (int j = 0; j < b->n_out; j++)
            apart = apart && !views_meet(&a->out[k], &b->out[j]);
    return apart && common;
}

// Marks what between the two follows the first; false if the second does too.
static bool
find_followers(const Phaser *p, int a, int b, bool *follows)
{
    memset(follows, 0, (size_t)p->n * sizeof *follows);
    for (int i = a + 1; i <= b; i++)
        for (int k = 0; k < p->needs[i].n; k++) {
            int need = p->needs[i].v[k];
            follows[i] |= (need == a && i != b) || (need > a && follows[need]);
        }
    return !follows[b];
}

static void
touched_less(Phaser *p, const View *v)
{
    if (v->buf)
        p->touches[v->buf->id]--;
}

// b gets a's results, what it computes, and what it reads.
static void
join_loops(Phaser *p, const Stmt *a, Stmt *b)
{
    Arena *mem = &p->t->mem->perm;
    Leaf *leaf = arena_array(mem, Leaf, a->n_leaf + b->n_leaf);
    Node **expr = arena_array(mem, Node *, a->n_expr + b->n_expr);
    int n = a->n_leaf, m = a->n_expr;
    bool apart = true;
    memcpy(leaf, a->leaf, (size_t)n * sizeof *leaf);
    memcpy(expr, a->expr, (size_t)m * sizeof(Node *));
    for (int i = 0; i < b->n_leaf; i++) {
        const Leaf *l = &b->leaf[i];
        if (leaf_shared(a, l) >= 0 || (l->view.buf && result_read(a, b, i, &apart) >= 0))
            touched_less(p, &l->view);
        else
            leaf[n++] = *l;
    }
    memcpy(expr + m, b->expr, (size_t)b->n_expr * sizeof *expr);
    m += b->n_expr;
    for (int k = 0; k < a->n_out; k++) {
        const Buf *to = a->out[k].buf;
        if (to->space == SP_SCRATCH && p->touches[to->id] == 1) { // nobody else reads it
            touched_less(p, &a->out[k]);
            continue;
        }
        b->also[b->n_out - 1] = result_of(a, k);
        b->out[b->n_out++] = a->out[k];
    }
    b->leaf = leaf;
    b->n_leaf = n;
    b->expr = expr;
    b->n_expr = m;
}

// Statement a goes into b: what stands between them and follows a comes behind.
static void
put_together(Phaser *p, int a, int b, const bool *follows)
{
    int *place = arena_array(p->a, int, p->n), at = a;
    for (int i = 0; i < p->n; i++)
        place[i] = i < a ? i : i - 1;
    for (int i = a + 1; i < b; i++)
        if (!follows[i])
            place[i] = at++;
    place[a] = place[b] = at++;
    for (int i = a + 1; i < b; i++)
        if (follows[i])
            place[i] = at++;
    Ints joint = p->needs[a];
    for (int k = 0; k < p->needs[b].n; k++)
        if (p->needs[b].v[k] != a)
            array_push(p->a, &joint, p->needs[b].v[k]);
    p->needs[b] = joint;
    Stmt **stmt = arena_array(p->a, Stmt *, p->n);
    Ints *needs = arena_array(p->a, Ints, p->n);
    for (int i = 0; i < p->n; i++) {
        if (i == a)
            continue;
        stmt[place[i]] = p->stmt[i];
        needs[place[i]] = p->needs[i];
        for (int k = 0; k < p->needs[i].n; k++)
            p->needs[i].v[k] = place[p->needs[i].v[k]];
    }
    p->n--;
    memcpy(p->stmt, stmt, (size_t)p->n * sizeof *stmt);
    memcpy(p->needs, needs, (size_t)p->n * sizeof *needs);
}

// The first statement that a loop at b may be joined with: of its strip, or with nothing between that
// runs for many samples.
static int
reach_of(const Phaser *p, int b)
{
    int a = b;
    while (a > 0 && b - a < REACH && p->stmt[a - 1]->strip == p->stmt[b]->strip &&
           (p->stmt[b]->strip || !stmt_is_batch(p->stmt[a - 1])))
        a--;
    return a;
}

void
jam_loops(Phaser *p)
{
    bool *follows = arena_array(p->a, bool, p->n);
    for (int b = 1; b < p->n; b++) {
        if (!can_jam(p->stmt[b]))
            continue;
        int first = reach_of(p, b);
        for (int a = b - 1; a >= first; a--) {
            if (!can_jam(p->stmt[a]) || !fit_together(p->stmt[a], p->stmt[b]) ||
                !find_followers(p, a, b, follows))
                continue;
            Stmt *joint = p->stmt[b];
            join_loops(p, p->stmt[a], joint);
            put_together(p, a, b, follows);
            do
                b--;
            while (p->stmt[b] != joint);
            a = b;
            first = reach_of(p, b);
        }
    }
    p->r->stmts.n = p->n;
}

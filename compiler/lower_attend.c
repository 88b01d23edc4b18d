// lower_attend.c - attention: operands as matrices, one call for each index of the leading axes.

#include "emit_mask.h"

#include "kernels/pcvr_kernel_sizes.h"

// [.., rows, width] with unit stride along rows, and evenly spaced rows within one leading index.
static View
attend_operand(Tiles *t, Node *n)
{
    return view_unit(t, node_value(t, n), n);
}

// The place of a result, or a temporary where its rows are not unit.
static View
result_place(Tiles *t, Node *n)
{
    View v = node_place(t, n);
    if (v.dim[v.rank - 1] == 1 || v.stride[v.rank - 1] == 1)
        return v;
    return temp_new(t, DT_F32, n->shape, n);
}

static Node *
part_of(const Node *n, int64_t index)
{
    for (int k = 0; k < INFO(n)->n_users; k++)
        if (INFO(n)->users[k]->op == OP_PART && INFO(n)->users[k]->a.index == index)
            return INFO(n)->users[k];
    return NULL;
}

void
lower_attend(Tiles *t, Node *n)
{
    bool back = n->op == OP_ATTEND_BACK;
    int fixed = back ? 3 + ATTEND_BACK_EXTRA : 3;
    Shape q = n->in[0]->shape;
    if (shape_size(q) == 0)
        return;
    int64_t keys = n->in[1]->shape.dim[n->in[1]->shape.rank - 2];
    int64_t width = q.dim[q.rank - 1] / n->a.heads, queries = q.dim[q.rank - 2];
    View in[3 + ATTEND_BACK_EXTRA];
    for (int k = 0; k < fixed; k++)
        in[k] = attend_operand(t, n->in[k]);
    int64_t written = n->a.k_rows > keys ? n->a.k_rows : keys;
    int64_t floats = back ? K_ATTEND_BACK_SCRATCH(keys, written, width)
                          : K_ATTEND_SCRATCH(keys, written, width);
    Shape room = {.rank = 1, .dim = {floats}};
    View work = temp_new(t, DT_F32, room, n);
    Stmt *s = stmt_new(t, back ? ST_ATTEND_BACK : ST_ATTEND, n, n->n_in + 2);
    for (int k = 0; k < fixed; k++)
        s->in[k] = in[k];
    for (int k = fixed; k < n->n_in; k++)
        s->in[k] = node_value(t, n->in[k]);
    s->in[n->n_in] = work;
    int64_t row = mask_takes_rows(t, s, queries, keys) ? K_MASK_ROW(queries) : queries;
    Shape bytes = {.rank = 2, .dim = {keys, row}};
    s->in[n->n_in + 1] = temp_new(t, DT_BOOL, bytes, n);
    View place[3];
    Node *stats = back ? NULL : part_of(n, 0);
    s->n_out = back ? 3 - n->a.joined : stats ? 2 : 1;
    for (int k = 0; k < s->n_out; k++) {
        Node *r = back ? part_of(n, k) : k ? stats : n;
        if (r)
            s->out[k] = result_place(t, r);
        else
            s->out[k] = temp_new(t, DT_F32, n->in[k]->shape, n);
        place[k] = r ? node_place(t, r) : s->out[k];
    }
    for (int k = 0; k < s->n_out; k++)
        if (place[k].buf != s->out[k].buf)
            lower_copy(t, s->out[k], place[k], n);
}

// keep.c - which values the backward pass finds kept, and which are made again for it.
//
// Values made of inputs and constants alone are read again as they are; moves (lookups, slices, views) are done
// again, and so is what takes a few operations an element (activations, norms, scaling) on values that are at
// hand: reading it back from memory costs as much. Of the rest, what does not belong to a chosen block is kept.
//
// A chosen block keeps its inputs. With the choice `blocks` it also keeps what is dear: a value that takes more
// time to make again than to write and read back, the results of products and attention above all, as far as
// there is room (fit.c). Blocks chosen by name keep nothing of their own, but for an addition to the product of
// another block, which is one statement with it and stands in its place.

#include "keep.h"

Call *
keep_chosen_call(const Keeper *k, Call *call)
{
    Call *found = NULL;
    for (; call != NULL; call = call->outer)
        if (k->choice.chosen[call->id])
            found = call;
    return found;
}

// ---- what may be read again ----------------------------------------------------------------------------

bool
keep_is_leaf(const Node *n)
{
    return n->op == OP_PARAM || n->op == OP_INPUT || n->op == OP_CONST || n->op == OP_DLOGITS;
}

// An addition to a product may be one statement with it, whose sums begin with what is added: the product, or
// NULL.
static const Node *
added_product(const Node *n)
{
    for (int j = 0; n->op == OP_ADD && j < n->n_in; j++) {
        const Node *x = n->in[j];
        while (x->op == OP_RESHAPE)
            x = x->in[0];
        if (x->op == OP_MATMUL || x->op == OP_PROJECTED)
            return x;
    }
    return NULL;
}

void
keep_classify(Keeper *k)
{
    for (int i = 0; i < k->n_forward; i++) {
        const Node *n = k->g->nodes[i];
        int flags = op_info[n->op].flags;
        bool direct = n->op != OP_PARAM && (flags & OPF_CHANCE) == 0;
        bool again = (flags & OPF_MOVE) != 0 || n->op == OP_CHANCE;
        for (int j = 0; j < n->n_in; j++) {
            const Node *x = n->in[j];
            direct = direct && k->direct[x->id];
            again = again && (k->direct[x->id] || k->again[x->id] || keep_is_leaf(x));
        }
        k->direct[i] = direct;
        k->again[i] = again && !direct;
        k->allowed[i] = true;
        k->flops[i] = -1.0;
        if (added_product(n))
            k->part[added_product(n)->id] = true;
    }
}

// A move that reads one computed value: a view of it, made again from what is kept.
static bool
is_view(const Keeper *k, const Node *n)
{
    if ((op_info[n->op].flags & OPF_MOVE) == 0 || n->op == OP_CONCAT)
        return false;
    int computed = 0;
    for (int j = 0; j < n->n_in; j++) {
        const Node *x = n->in[j];
        computed += !(k->direct[x->id] || k->again[x->id] || keep_is_leaf(x));
    }
    return computed == 1;
}

// ---- what is cheaper done again than kept --------------------------------------------------------------

enum { LIGHT_DEPTH = 8 }; // operations done again to get a value from what is at hand

bool
keep_is_light(const Node *n)
{
    if (added_product(n))
        return false;
    return (op_info[n->op].flags & OPF_POINTWISE) != 0 || n->op == OP_NORMALIZE;
}

static bool
at_hand(const Keeper *k, const Node *n, const bool *need)
{
    return k->direct[n->id] || k->again[n->id] || keep_is_leaf(n) || need[n->id] || n->kept;
}

// Bytes to be kept, beyond what is needed anyway, so that a value can be had in the backward pass.
static int64_t
price(const Keeper *k, const Node *n, const bool *need, int depth)
{
    if (at_hand(k, n, need))
        return 0;
    int64_t own = (int64_t)node_bytes(n), sum = 0;
    if (depth == LIGHT_DEPTH || !(keep_is_light(n) || is_view(k, n)))
        return own;
    for (int j = 0; j < n->n_in && sum < own; j++)
        sum += price(k, n->in[j], need, depth + 1);
    return sum < own ? sum : own;
}

// Whether a value that is needed is done again: nothing is kept for it that would not be kept anyway.
static bool
done_again(const Keeper *k, const Node *n, const bool *need)
{
    if (!keep_is_light(n) || n->kept)
        return false;
    for (int j = 0; j < n->n_in; j++)
        if (price(k, n->in[j], need, 1) > 0)
            return false;
    return true;
}

// ---- what a chosen block keeps -------------------------------------------------------------------------

// Operations for each byte of a value, from which it is dear: a thread does some 100 operations in the time in
// which it writes 4 bytes to memory and reads them back.
enum { DEAR_FLOPS = 24 };

static double
dear_flops(const Keeper *k)
{
    return k->g->dear_flops > 0 ? k->g->dear_flops : DEAR_FLOPS;
}

const Node *
keep_whole(const Node *n)
{
    return n->op == OP_PART ? n->in[0] : n;
}

static double
flops_a_byte(const Keeper *k, const Node *n)
{
    n = keep_whole(n);
    if (k->flops[n->id] < 0)
        k->flops[n->id] = op_info[n->op].flops(n); // of attention: a walk over its pairs
    return k->flops[n->id] / (double)(node_bytes(n) + 1);
}

// The same with the product that is one statement with an addition. Drawing what dropout drops again takes as
// long as reading it back.
static double
own_worth(const Keeper *k, const Node *n)
{
    const Node *product = added_product(n);
    if (n->op == OP_DROPOUT)
        return dear_flops(k);
    return flops_a_byte(k, product ? product : n);
}

// Operations a byte of the result that making it again takes, with what is dear and would have to be kept or
// made again for it.
static double
worth(const Keeper *k, const Node *n, const bool *need, int depth)
{
    double most = own_worth(k, n);
    if (most > dear_flops(k) || depth == LIGHT_DEPTH)
        return most;
    for (int j = 0; j < n->n_in; j++) {
        const Node *x = n->in[j];
        if (at_hand(k, x, need) || keep_chosen_call(k, x->call) != keep_chosen_call(k, n->call))
            continue;
        double behind = worth(k, x, need, depth + 1) * (double)node_bytes(x) / (double)(node_bytes(n) + 1);
        most = behind > most ? behind : most;
    }
    return most;
}

double
keep_worth(const Keeper *k, const Node *n, const bool *need)
{
    return worth(k, n, need, 0);
}

bool
keep_recomputes(const Keeper *k, const Node *n, const Call *group, const bool *need)
{
    if (k->again[n->id] || is_view(k, n) || k->choice.kind == CHOICE_SAMPLE)
        return true;
    const Call *chosen = keep_chosen_call(k, n->call);
    if (chosen == NULL || chosen != group)
        return done_again(k, n, need);
    const Node *whole = keep_whole(n), *product = added_product(n);
    if (whole->kept) // for another group, to which it is an input
        return false;
    if (product && keep_chosen_call(k, product->call) != chosen) // in place of the product, which would be kept
        return false;
    if (k->choice.kind != CHOICE_BLOCKS || k->part[n->id] || !k->allowed[whole->id] || done_again(k, n, need))
        return true;
    return keep_worth(k, n, need) < dear_flops(k);
}

// poison.c - a copy of a batch with other values wherever the model may not look.
//
// Positions of a sequence at or past its length hold zeros in a real batch; a model masks
// them. The copy holds a time and, of each feature, an id that no event of the batch has:
// rows of tables that only padding looks up. Tensors the module does not read have every
// bit set. If a result changes, something leaked.

#include <stdlib.h>
#include <string.h>

#include "runner.h"

enum { POISON_TIME = 1 };

bool
pcvr_poison_new(pcvr_runner *r)
{
    const pcvr_layout *l = &r->m->layout;
    int64_t b = r->z.batch;
    unsigned char *at =
        pcvr_arena_alloc(&r->arena, "poisoned batch", r->z.raw_bytes, false);
    int64_t longest = 0;
    for (int d = 0; d < l->n_domains; d++)
        if (l->domains[d].length > longest)
            longest = l->domains[d].length;
    r->poisoned_domains = calloc((size_t)l->n_domains + 1, sizeof *r->poisoned_domains);
    r->poison_ids = malloc((size_t)(b * longest) + 2);
    if (at == NULL || r->poisoned_domains == NULL || r->poison_ids == NULL)
        return false;
    pcvr_batch *p = &r->poisoned;
// Eight-byte tensors first, then four, then one: every tensor is aligned without gaps.
#define TAKE(field, type, width)                                                         \
    do {                                                                                 \
        p->field = (const type *)at;                                                     \
        at += b * (width) * (int64_t)sizeof(type);                                       \
    } while (0)
    TAKE(user_ints, int64_t, l->user_ints);
    TAKE(item_ints, int64_t, l->item_ints);
    TAKE(request_time, int64_t, 1);
    TAKE(label, int64_t, 1);
    for (int d = 0; d < l->n_domains; d++) {
        const pcvr_domain_info *i = &l->domains[d];
        pcvr_domain *o = &r->poisoned_domains[d];
        o->values = (const int64_t *)at;
        o->lengths = o->values + b * i->features * i->length;
        o->timestamps = o->lengths + b;
        at += 8 * b * (i->length * (i->features + 1) + 1);
    }
    TAKE(user_dense, float, l->user_dense);
    TAKE(item_dense, float, l->item_dense);
    TAKE(user_int_missing, uint8_t, l->user_ints);
    TAKE(user_dense_missing, uint8_t, l->user_dense);
    TAKE(item_int_missing, uint8_t, l->item_ints);
    TAKE(item_dense_missing, uint8_t, l->item_dense);
#undef TAKE
    p->n_domains = l->n_domains;
    p->domains = r->poisoned_domains;
    return true;
}

// n bytes: a copy where the module reads the tensor, every bit set where it does not.
static void
copy(const void *to, const void *from, int64_t n, bool read)
{
    if (read && from != NULL)
        memcpy((void *)(uintptr_t)to, from, (size_t)n);
    else
        memset((void *)(uintptr_t)to, 0xff, (size_t)n);
}

// L positions: copied up to the length, poison behind.
static void
copy_padded(const int64_t *to, const int64_t *from, int64_t L, int64_t length,
            int64_t poison)
{
    int64_t *t = (int64_t *)(uintptr_t)to;
    for (int64_t j = 0; j < L; j++)
        t[j] = j < length ? from[j] : poison;
}

// The smallest positive id that no event of the batch has as feature f. `seen` has a byte
// for each event and two more.
static int64_t
unused_id(const pcvr_domain *d, const pcvr_domain_info *i, int64_t b, int64_t f,
          unsigned char *seen)
{
    int64_t L = i->length, most = b * L + 1, id = 1;
    memset(seen, 0, (size_t)most + 1);
    for (int64_t s = 0; s < b; s++) {
        const int64_t *ids = d->values + (s * i->features + f) * L;
        for (int64_t j = 0; j < L && j < d->lengths[s]; j++)
            if (ids[j] > 0 && ids[j] <= most)
                seen[ids[j]] = 1;
    }
    while (seen[id])
        id++;
    return id;
}

static void
copy_domain(const pcvr_runner *r, const pcvr_domain *to, const pcvr_domain *from,
            const pcvr_domain_info *i, int64_t b)
{
    uint32_t all = i->reads != 0 ? i->reads : ~0u;
    int64_t F = i->features, L = i->length, keep = r->z.o.poison_from;
    copy(to->lengths, from->lengths, 8 * b, true);
    for (int64_t f = 0; f < F && all & PCVR_READ_EVENTS; f++) {
        int64_t id = unused_id(from, i, b, f, r->poison_ids);
        for (int64_t s = 0; s < b; s++) {
            int64_t n = from->lengths[s] > keep ? from->lengths[s] : keep;
            copy_padded(to->values + (s * F + f) * L, from->values + (s * F + f) * L, L,
                        n, id);
        }
    }
    for (int64_t s = 0; s < b && all & PCVR_READ_TIMES; s++) {
        int64_t n = from->lengths[s] > keep ? from->lengths[s] : keep;
        copy_padded(to->timestamps + s * L, from->timestamps + s * L, L, n, POISON_TIME);
    }
    if (!(all & PCVR_READ_EVENTS))
        copy(to->values, NULL, 8 * b * F * L, false);
    if (!(all & PCVR_READ_TIMES))
        copy(to->timestamps, NULL, 8 * b * L, false);
}

const pcvr_batch *
pcvr_poison_batch(pcvr_runner *r, const pcvr_batch *b)
{
    const pcvr_layout *l = &r->m->layout;
    pcvr_batch *p = &r->poisoned;
    uint32_t all = l->reads != 0 ? l->reads : ~0u;
    int64_t n = b->size;
    p->size = n;
#define COPY(field, bit, bytes) copy(p->field, b->field, n *(bytes), (all & (bit)) != 0)
    COPY(user_ints, PCVR_READ_USER_INTS, 8 * l->user_ints);
    COPY(user_int_missing, PCVR_READ_USER_INT_MISSING, l->user_ints);
    COPY(user_dense, PCVR_READ_USER_DENSE, 4 * l->user_dense);
    COPY(user_dense_missing, PCVR_READ_USER_DENSE_MISSING, l->user_dense);
    COPY(item_ints, PCVR_READ_ITEM_INTS, 8 * l->item_ints);
    COPY(item_int_missing, PCVR_READ_ITEM_INT_MISSING, l->item_ints);
    COPY(item_dense, PCVR_READ_ITEM_DENSE, 4 * l->item_dense);
    COPY(item_dense_missing, PCVR_READ_ITEM_DENSE_MISSING, l->item_dense);
    COPY(request_time, PCVR_READ_REQUEST_TIME, 8);
    copy(p->label, b->label, 8 * n, true);
#undef COPY
    for (int d = 0; d < l->n_domains; d++)
        copy_domain(r, &p->domains[d], &b->domains[d], &l->domains[d], n);
    return p;
}

void
pcvr_runner_looked_up(const pcvr_runner *r, int i, uint8_t *rows)
{
    for (int64_t l = 0; l < r->z.o.lanes && !r->z.o.forward_only; l++)
        for (int k = 0; k < r->m->n_stores; k++) {
            const pcvr_rows *s = &r->lanes[l].stores[k];
            if (r->m->stores[k].param != i)
                continue;
            for (int64_t n = 0; n < s->n; n++)
                rows[s->ids[n]] = 1;
        }
}

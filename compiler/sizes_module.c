// sizes_module.c - the data of a module, as far as planning and reports read them, without compiling it.

#include "report.h"

#include "pcvr.h"
#include "schema.h"

static uint32_t
param_flags(const Param *p)
{
    return (p->table ? PCVR_PARAM_TABLE : 0u) | (p->padding ? PCVR_PARAM_PADDING : 0u);
}

static const pcvr_region *
module_regions(const Tiles *t)
{
    pcvr_region *regions = arena_array(&t->mem->perm, pcvr_region, t->regions.n + 1);
    for (int i = 0; i < t->regions.n; i++) {
        const Region *r = t->regions.v[i];
        regions[i] = (pcvr_region){.name = r->name,
                                   .flops = r->flops,
                                   .recomputed_flops = r->recomputed_flops,
                                   .kept_bytes = r->kept_bytes,
                                   .scratch_bytes = r->scratch_bytes};
    }
    return regions;
}

static const pcvr_kept *
module_kept(const Tiles *t, int *n)
{
    pcvr_kept *kept = arena_array(&t->mem->perm, pcvr_kept, t->bufs.n + 1);
    *n = 0;
    for (int i = 0; i < t->bufs.n; i++) {
        const Buf *b = t->bufs.v[i];
        static const int width[] = {4, 8, 1};
        if (b->space == SP_KEPT && b->first >= 0)
            kept[(*n)++] = (pcvr_kept){b->region, kept_name(t, b), b->size * width[b->type]};
    }
    return kept;
}

pcvr_module
tiles_module(const Tiles *t, const struct Schema *s, const char *name)
{
    Arena *a = &t->mem->perm;
    int n_kept;
    const pcvr_kept *kept = module_kept(t, &n_kept);
    pcvr_param *params = arena_array(a, pcvr_param, t->g->n_params + 1);
    pcvr_store_info *stores = arena_array(a, pcvr_store_info, t->stores.n + 1);
    pcvr_domain_info *domains = arena_array(a, pcvr_domain_info, s->n_domains + 1);
    for (int i = 0; i < t->g->n_params; i++) {
        const Param *p = &t->g->params[i];
        params[i] = (pcvr_param){.name = p->name,
                                 .rank = p->shape.rank,
                                 .size = shape_size(p->shape),
                                 .flags = param_flags(p)};
        for (int k = 0; k < p->shape.rank && k < 4; k++)
            params[i].shape[k] = p->shape.dim[k];
    }
    for (int i = 0; i < t->stores.n; i++)
        stores[i] =
            (pcvr_store_info){t->stores.v[i].param, t->stores.v[i].ids_per_sample,
                              t->stores.v[i].projection};
    for (int i = 0; i < s->n_domains; i++)
        domains[i] = (pcvr_domain_info){.name = s->domains[i].name,
                                        .features = s->domains[i].n_sides,
                                        .length = s->domains[i].max_len};
    return (pcvr_module){
        .abi = PCVR_ABI,
        .name = name,
        .default_chunk = t->chunk,
        .n_regions = t->regions.n,
        .regions = module_regions(t),
        .n_kept = n_kept,
        .kept = kept,
        .actions = (int32_t)shape_size(t->g->logits->shape),
        .n_params = t->g->n_params,
        .n_stores = t->stores.n,
        .params = params,
        .stores = stores,
        .step_flops = tiles_step_flops(t),
        .n_projections = t->projections.n,
        .projections = tiles_projections(t),
        .layout = {.user_ints = s->user_int.width,
                   .user_dense = s->user_dense.width,
                   .item_ints = s->item_int.width,
                   .item_dense = s->item_dense.width,
                   .n_domains = s->n_domains,
                   .domains = domains},
        .acc_floats = t->acc_floats,
        .packed_floats = t->packed_floats,
        .input_bytes = t->input_bytes,
        .kept_bytes = t->kept_bytes,
        .scratch_bytes = t->scratch_bytes,
        .forward_scratch_bytes = t->forward_scratch_bytes,
    };
}

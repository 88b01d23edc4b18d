// random_config.h - random configurations of the seven models, with schemas they take.
// Part of random_model.h.
//
// Every branch of a model file is drawn with a fair chance; what no single field tells is
// labelled, so that a test can say which branches were taken.

#ifndef RANDOM_CONFIG_H
#define RANDOM_CONFIG_H

static inline void
rc_int(json_t *c, const char *name, int64_t v)
{
    json_object_set_new(c, name, json_integer((json_int_t)v));
}

static inline void
rc_real(json_t *c, const char *name, double v)
{
    json_object_set_new(c, name, json_real(v));
}

static inline void
rc_bool(RandomModel *r, json_t *c, const char *name)
{
    json_object_set_new(c, name, json_boolean(rm_one_in(r, 2)));
}

static inline bool
rc_is(const json_t *c, const char *name)
{
    return json_is_true(json_object_get(c, name));
}

static inline int64_t
rc_get(const json_t *c, const char *name)
{
    return json_integer_value(json_object_get(c, name));
}

static inline const char *
rc_str(RandomModel *r, json_t *c, const char *name, int n, const char *const *of)
{
    const char *v = of[rm_int(r, 0, n - 1)];
    json_object_set_new(c, name, json_string(v));
    return v;
}

static inline double
rc_rate(RandomModel *r)
{
    static const double rates[] = {0.0, 0.1, 0.3};
    return rates[rm_int(r, 0, 2)];
}

// Divisor of d.
static inline int64_t
rc_divisor(RandomModel *r, int64_t d)
{
    int64_t h = rm_int(r, 1, 4);
    while (d % h != 0)
        h--;
    return h;
}

// Groups of the fields that `skip` does not name: each exactly once, or (loose) some
// never, some twice, some groups without any.
static inline json_t *
rc_groups(RandomModel *r, const RmFields *f, bool loose, int *n_groups)
{
    json_t *o = json_object();
    int cells = (int)rm_int(r, 1, f->n > 3 ? 3 : f->n > 0 ? f->n : 1);
    char name[16];
    for (int g = 0; g < cells; g++) {
        snprintf(name, sizeof name, "G%d", g);
        json_object_set_new(o, name, json_array());
    }
    for (int k = 0; k < f->n; k++) {
        int times = loose ? (int)RM_PICK(r, 0, 1, 1, 1, 2) : 1;
        for (int t = 0; t < times; t++) {
            snprintf(name, sizeof name, "G%d",
                     k < cells && !loose ? k : (int)rm_int(r, 0, cells - 1));
            json_array_append_new(json_object_get(o, name),
                                  json_integer((json_int_t)f->fid[k]));
        }
    }
    *n_groups = cells;
    return o;
}

static inline bool
rc_has_empty(const json_t *groups)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)groups, key,
                        v) if (json_array_size(v) == 0) return true;
    return false;
}

// The groups and token counts. `explicit` draws groups; the counts of groups come out in
// n[2].
static inline json_t *
rc_fields(RandomModel *r, const RmFields *user, const RmFields *item, bool loose,
          int n[2])
{
    json_t *ns = json_object();
    const RmFields *side[] = {user, item};
    static const char *const names[] = {"user_groups", "item_groups"};
    static const char *const tokens[] = {"user_tokens", "item_tokens"};
    bool singleton = rm_one_in(r, 4), none = loose && rm_one_in(r, 6);
    json_object_set_new(ns, "grouping_strategy",
                        json_string(singleton ? "singleton" : "explicit"));
    for (int k = 0; k < 2; k++) {
        json_t *groups = none ? json_object() : rc_groups(r, side[k], loose, &n[k]);
        rm_label(r, !singleton && rc_has_empty(groups), "empty group");
        json_object_set_new(ns, names[k], groups);
        if (singleton || none)
            n[k] = side[k]->n;
        rc_int(ns, tokens[k], RM_PICK(r, 0, 0, 1, 2, 3));
        int64_t asked = rc_get(ns, tokens[k]);
        rm_label(r, asked > 0 && asked != n[k], "token count differs from the groups");
    }
    rm_label(r, none && !singleton, "empty group map");
    return ns;
}

static inline int64_t
rm_width(RandomModel *r)
{
    return r->wide ? RM_PICK(r, 16, 24, 32, 45) : RM_PICK(r, 4, 6, 8, 9);
}

// What most models read. d: d_model, 0 draws one.
static inline void
rc_common(RandomModel *r, json_t *c, int64_t d)
{
    rc_int(c, "d_model", d ? d : rm_width(r));
    rc_int(c, "emb_dim", r->wide ? RM_PICK(r, 8, 16, 21) : RM_PICK(r, 2, 3, 5));
    rc_int(c, "num_blocks", rm_int(r, 1, 2));
    rc_int(c, "num_heads", d ? rc_divisor(r, d) : RM_PICK(r, 1, 2, 3, 4, 5));
    rm_label(r, rc_get(c, "d_model") % rc_get(c, "num_heads") != 0, "heads lowered");
    rc_int(c, "hidden_mult", rm_int(r, 1, 2));
    rc_real(c, "dropout_rate", rc_rate(r));
    rc_int(c, "action_num", rm_int(r, 1, 3));
    rc_bool(r, c, "use_time_buckets");
    rc_int(c, "emb_skip_threshold", RM_PICK(r, 0, 6, 6, 1000000));
    rc_int(c, "seq_id_threshold", RM_PICK(r, 0, 4, 10000));
    rc_int(c, "seq_top_k",
           r->wide ? RM_PICK(r, 4, 9, 17, 50) : RM_PICK(r, 1, 2, 3, 5, 50));
    rc_bool(r, c, "seq_causal");
    rc_bool(r, c, "use_rope");
    rc_real(c, "rope_base", rm_one_in(r, 2) ? 10000.0 : 20.0);
    rm_label(r,
             rc_get(c, "num_heads") > 1 && d && d / rc_get(c, "num_heads") % 2 == 1 &&
                 rc_is(c, "use_rope"),
             "odd head width under RoPE");
}

// The plain schema; `users` and `items` are pools of ids.
static inline void
rc_draw_fields(RandomModel *r)
{
    static const int64_t users[] = {1, 3, 15, 48, 49, 50, 80, 109};
    static const int64_t items[] = {5, 6, 7, 8, 11, 16};
    static const int64_t dense[] = {61, 87, 100, 101};
    rm_int_fields(r, &r->user_int, 8, users, 1, 4);
    rm_int_fields(r, &r->item_int, 6, items, 1, 3);
    int n = (int)rm_int(r, 0, 2);
    for (int k = 0; k < n; k++)
        rm_field(&r->user_dense, dense[k], 0, rm_int(r, 1, 4));
    n = rm_one_in(r, 3) ? 0 : (int)rm_int(r, 1, 2);
    for (int k = 0; k < n; k++)
        rm_field(&r->item_dense, 120 + k, 0, rm_int(r, 1, 3));
}

static inline void
rc_finish(RandomModel *r, json_t *c, json_t *ns, int domains, int min_sides, json_t *lens)
{
    if (ns)
        json_object_set_new(c, "ns", ns);
    json_t *seq = rm_domains_json(r, domains, min_sides, lens);
    const char *key;
    json_t *v;
    json_object_foreach(seq, key, v)
        rm_label(r, json_array_size(json_object_get(v, "features")) == 1,
                 "domain without a feature");
    bool above = false, below = false, one = false;
    json_object_foreach(lens, key, v)
    {
        above = above || json_integer_value(v) > rc_get(c, "seq_top_k");
        below = below || json_integer_value(v) <= rc_get(c, "seq_top_k");
        one = one || json_integer_value(v) == 1;
    }
    rm_label(r, above, "length above top_k");
    rm_label(r, below, "length up to top_k");
    rm_label(r, one, "max_len 1");
    rm_label(r, domains == 0, "no domain");
    rm_label(r, domains == 1, "one domain");
    rm_label(r, domains > 1, "several domains");
    rm_label(r, r->user_dense.n == 0, "no user dense");
    rm_label(r, r->item_dense.n == 0, "no item dense");
    rm_label(r, r->user_dense.n > 0 && r->item_dense.n > 0, "dense on both sides");
    r->config_json = c;
    r->schema_json = json_pack("{s:s,s:o,s:o,s:o,s:o,s:o}", "format", "raw_parquet",
                               "user_int", rm_fields_json(&r->user_int, true), "item_int",
                               rm_fields_json(&r->item_int, true), "user_dense",
                               rm_fields_json(&r->user_dense, false), "item_dense",
                               rm_fields_json(&r->item_dense, false), "seq", seq);
}

static inline void
rc_tokenizer_type(RandomModel *r, json_t *ns)
{
    static const char *const types[] = {"group", "rankmixer"};
    rc_str(r, ns, "tokenizer_type", 2, types);
}

static inline bool
rc_grouped(const json_t *ns)
{
    return strcmp(json_string_value(json_object_get(ns, "tokenizer_type")), "group") == 0;
}

// interformer, onetrans, tokenformer: the shared fields only.
static inline void
rc_shared(RandomModel *r, json_t *lens)
{
    int n[2];
    json_t *c = json_object();
    rc_draw_fields(r);
    json_t *ns = rc_fields(r, &r->user_int, &r->item_int, true, n);
    rc_tokenizer_type(r, ns);
    rc_common(r, c, 0);
    r->beyond = true;
    r->odd_dense = strcmp(r->model, "tokenformer") == 0;
    bool none = strcmp(r->model, "interformer") != 0 && rm_one_in(r, 6);
    if (rm_one_in(r, 6))
        rc_int(c, "num_blocks", 0);
    rc_finish(r, c, ns, none ? 0 : (int)rm_int(r, 1, 3), 0, lens);
}

static inline int64_t
rc_tokens(const json_t *ns, const char *name, int groups)
{
    int64_t asked = rc_get(ns, name);
    return rc_grouped(ns) || asked <= 0 ? groups : asked;
}

static inline void
rc_baseline(RandomModel *r, json_t *lens)
{
    static const char *const encoders[] = {"swiglu", "transformer", "longer"};
    static const char *const modes[] = {"full", "ffn_only", "none"};
    int n[2], domains = (int)rm_int(r, 1, 3);
    json_t *c = json_object();
    rc_draw_fields(r);
    json_t *ns = rc_fields(r, &r->user_int, &r->item_int, true, n);
    rc_tokenizer_type(r, ns);
    const char *mode = rc_str(r, c, "rank_mixer_mode", 3, modes);
    int64_t queries = rm_int(r, 1, 2),
            dense = (r->user_dense.n > 0) + (r->item_dense.n > 0);
    int64_t tokens = queries * domains + rc_tokens(ns, "user_tokens", n[0]) +
                     rc_tokens(ns, "item_tokens", n[1]) + dense;
    rc_common(r, c,
              strcmp(mode, "full") == 0 ? tokens * (r->wide ? 4 : rm_int(r, 1, 2))
                                        : rm_width(r));
    rc_int(c, "num_queries", queries);
    if (rm_one_in(r, 8))
        rc_int(c, "num_blocks", 0);
    const char *encoder = rc_str(r, c, "seq_encoder_type", 3, encoders);
    rc_finish(r, c, ns, domains, 0, lens);
    for (int k = 0; strcmp(encoder, "longer") == 0 && k < r->n_labels; k++) {
        rm_label(r, strcmp(r->label[k], "length above top_k") == 0, "longer above top_k");
        rm_label(r,
                 strcmp(r->label[k], "length up to top_k") == 0 && rc_is(c, "seq_causal"),
                 "longer up to top_k, causal");
    }
}

static inline void
rc_symbiosis(RandomModel *r, json_t *lens)
{
    static const char *const modes[] = {"group", "group_compressed", "random_chunk",
                                        " Group "};
    static const char *const selections[] = {"uniform", "stratified",
                                             "quality_stratified", ""};
    static const char *const budgets[] = {"", "seq_a:3,seq_b:2", "*:2",
                                          "seq_c: 4 ,zeta:1,*:0", "seq_a:0,*:3"};
    static const char *const flags[] = {"v2_use_dense_tokens",
                                        "v2_use_missing_tokens",
                                        "v2_use_sequence_stats_tokens",
                                        "v2_use_metadata_attention_bias",
                                        "v2_use_candidate_readout",
                                        "v2_compress_large_ids",
                                        "v3_enabled"};
    static const char *const counts[] = {"v2_user_dense_tokens", "v2_item_dense_tokens",
                                         "v2_user_missing_tokens",
                                         "v2_item_missing_tokens"};
    static const char *const weights[] = {
        "v3_memory_density_weight", "v3_memory_time_weight", "v3_memory_recency_weight",
        "v3_memory_duplicate_penalty"};
    int n[2];
    json_t *c = json_object();
    rc_draw_fields(r);
    rc_common(r, c, 0);
    for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
        rc_bool(r, c, flags[k]);
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
        rc_int(c, counts[k], rm_int(r, 0, 3));
    for (size_t k = 0; k < sizeof weights / sizeof *weights; k++)
        rc_real(c, weights[k], 0.5 + 0.5 * rm_real(r));
    rc_int(c, "v2_recent_event_tokens", rm_int(r, -1, 4));
    rc_int(c, "v2_memory_event_tokens", rm_int(r, -1, 3));
    rc_real(c, "v2_high_risk_token_dropout_rate", rm_one_in(r, 3) ? 0.0 : 0.3);
    rc_str(r, c, "v2_tokenization_mode", 4, modes);
    const char *selection = rc_str(r, c, "v3_memory_selection_mode", 4, selections);
    rc_str(r, c, "v3_recent_event_tokens_by_domain", 5, budgets);
    rc_str(r, c, "v3_memory_event_tokens_by_domain", 5, budgets);
    json_t *ns = rc_fields(r, &r->user_int, &r->item_int, true, n);
    r->beyond = r->odd_dense = true;
    rc_finish(r, c, ns, rm_one_in(r, 6) ? 0 : (int)rm_int(r, 1, 3), 0, lens);
    bool v3 = rc_is(c, "v3_enabled");
    rm_label(r, v3 && strcmp(selection, "uniform") == 0, "memory uniform");
    rm_label(r, v3 && strcmp(selection, "stratified") == 0, "memory stratified");
    rm_label(r, v3 && strncmp(selection, "quality", 7) == 0, "memory by quality");
    rm_label(r, !v3, "memory of v2");
}

static inline void
rc_queryformer(RandomModel *r, json_t *lens)
{
    static const char *const flags[] = {
        "compress_high_cardinality", "use_query_self_attention",
        "use_query_cross_attention", "use_query_seq_cross_attention",
        "use_seq_query_cross_attention"};
    int n[2];
    json_t *c = json_object();
    rc_draw_fields(r);
    rc_common(r, c, 0);
    for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
        rc_bool(r, c, flags[k]);
    rc_int(c, "num_embedding_columns", rm_int(r, 1, 3));
    rc_int(c, "dcn_num_layers", rm_int(r, 1, 2));
    rc_int(c, "num_queries", rm_int(r, 1, 2));
    json_t *ns = rc_fields(r, &r->user_int, &r->item_int, true, n);
    rc_tokenizer_type(r, ns);
    r->beyond = true;
    rc_finish(r, c, ns, (int)rm_int(r, 1, 3), 0, lens);
}

// ---- dualq ------------------------------------------------------------------------

// Pair features stand on both sides; a split needs fids 61 and 87 of the widths the
// configuration says.
static inline void
rc_dualq_fields(RandomModel *r, json_t *c, RmFields *own)
{
    static const int64_t users[] = {1, 3, 15, 48, 49, 50, 80, 109};
    static const int64_t items[] = {5, 6, 7, 8, 11, 16};
    static const int64_t semantic[] = {118, 120, 121, 123, 130, 131, 140};
    rm_int_fields(r, own, 8, users, 1, 4);
    rm_int_fields(r, &r->item_int, 6, items, 1, 3);
    r->user_int = *own;
    int64_t pairs[] = {62, 63, 66, 89, 90, 91};
    rm_shuffle(r, pairs, 6);
    int n = rm_one_in(r, 3) ? 0 : (int)rm_int(r, 1, 3);
    json_object_set_new(
        c, "pair_feature_fids",
        json_string(rm_one_in(r, 2) ? "62,63,66,89,90,91,999" : "91, 62,63,,66,90,89"));
    for (int k = 0; k < n; k++) {
        int64_t dim = rm_int(r, 1, 4);
        rm_field(&r->user_int, pairs[k], RM_PICK(r, 1, 3, 6, 11, 14), dim);
        rm_field(&r->user_dense, pairs[k], 0, dim);
        rm_label(r, pairs[k] >= 89, "pair by softmax");
        rm_label(r, pairs[k] < 89, "pair by share");
    }
    rm_label(r, n == 0, "no pair feature");
    bool split = rm_one_in(r, 2);
    rc_int(c, "user_emb_dim", split ? 3 : 64);
    int64_t width = rm_int(r, 1, 2), blocks = rm_int(r, 2, 3);
    rc_int(c, "user_seq_block_dim", width);
    rc_int(c, "user_seq_num", blocks);
    if (split) {
        rm_field(&r->user_dense, 87, 0, width * blocks);
        rm_field(&r->user_dense, 61, 0, 3);
        rm_field(&r->user_dense, semantic[rm_int(r, 0, 6)], 0, rm_int(r, 1, 2));
    } else if (rm_one_in(r, 2)) {
        rm_field(&r->user_dense, 61, 0, rm_int(r, 1, 3));
    }
    rm_label(r, split, "user dense split");
    rm_label(r, !split, "user dense whole");
    if (rm_one_in(r, 3))
        rm_field(&r->item_dense, 120, 0, rm_int(r, 1, 3));
    int64_t wide = rm_one_in(r, 3) ? RM_PICK(r, 130, 131, 5) : 0;
    if (wide)
        rm_field(&r->item_dense, 129, 0, wide);
    rm_label(r, wide >= 130, "fid 129 in two tokens");
    rm_label(r, wide == 5, "fid 129 whole");
}

static inline void
rc_dualq(RandomModel *r, json_t *lens)
{
    static const char *const encoders[] = {"swiglu", "transformer", "longer"};
    static const char *const modes[] = {"full", "ffn_only", "none"};
    static const char *const ratios[] = {"1.0", "1.0,0.7", " 0.5 , 1, 0.1", ""};
    static const char *const flags[] = {"use_global_time_token",
                                        "use_seq_gap_buckets",
                                        "use_time_gap_domain_gates",
                                        "use_fid87_token_residual",
                                        "use_time_decay_summary",
                                        "compress_high_cardinality",
                                        "use_fm_highway",
                                        "use_time_aligned_interleave"};
    int n[2], domains = (int)rm_int(r, 1, 3);
    RmFields own = {0};
    json_t *c = json_object();
    rc_dualq_fields(r, c, &own);
    for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
        rc_bool(r, c, flags[k]);
    const char *mode = rc_str(r, c, "rank_mixer_mode", 3, modes);
    const char *ratio = rc_str(r, c, "seq_interest_ratios", 4, ratios);
    int views = strchr(ratio, ',') ? (strchr(ratio, '5') ? 3 : 2) : 1;
    rc_int(c, "user_q_tokens", rm_int(r, 1, 2));
    rc_int(c, "item_q_tokens", rm_int(r, 1, 2));
    int64_t queries = rc_get(c, "user_q_tokens") + rc_get(c, "item_q_tokens");
    int64_t tokens =
        queries * (rc_is(c, "use_time_aligned_interleave") ? 1 : domains * views);
    rc_common(r, c,
              strcmp(mode, "full") == 0 ? tokens * (r->wide       ? 4
                                                    : tokens < 12 ? rm_int(r, 1, 2)
                                                                  : 1)
                                        : rm_width(r));
    rc_int(c, "num_heads", rc_divisor(r, rc_get(c, "d_model")));
    rc_int(c, "num_queries", queries);
    const char *encoder = rc_str(r, c, "seq_encoder_type", 3, encoders);
    json_t *ns = rc_fields(r, &own, &r->item_int, false, n);
    rc_tokenizer_type(r, ns);
    rc_finish(r, c, ns, domains, 0, lens);
    bool joined = rc_is(c, "use_time_aligned_interleave");
    rm_label(r, joined && domains > 1, "domains interleaved");
    rm_label(r, !joined && views > 1, "ratio views");
    for (int k = 0; !joined && strcmp(encoder, "longer") == 0 && k < r->n_labels; k++)
        rm_label(r, strcmp(r->label[k], "length above top_k") == 0, "longer above top_k");
}

static inline void
random_config(RandomModel *r, json_t *lens)
{
    if (strcmp(r->model, "baseline") == 0)
        rc_baseline(r, lens);
    else if (strcmp(r->model, "dualq") == 0)
        rc_dualq(r, lens);
    else if (strcmp(r->model, "symbiosis") == 0)
        rc_symbiosis(r, lens);
    else if (strcmp(r->model, "queryformer") == 0)
        rc_queryformer(r, lens);
    else
        rc_shared(r, lens);
}

#endif

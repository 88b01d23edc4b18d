// settings_fields.c - every field of the reference's training configuration, in its
// order.

#include "settings.h"

#include <string.h>

// Numbers: [low, high], with an open end as a separate mark. Equal ends allow everything.
#define ANY              0, 0, false, false
#define AT_LEAST(x)      x, 1e300, false, false
#define WITHIN(a, b)     a, b, false, false
#define ABOVE_TO(a, b)   a, b, true, false
#define FROM_BELOW(a, b) a, b, false, true
#define BETWEEN(a, b)    a, b, true, true

const Field settings_common[] = {
    {"data.batch_size", FIELD_INT, "256", NULL, AT_LEAST(1)},
    {"data.num_workers", FIELD_INT, "16", NULL, AT_LEAST(0)},
    {"data.buffer_batches", FIELD_INT, "1", NULL, AT_LEAST(0)},
    {"data.train_steps_per_sweep", FIELD_INT, "0", NULL, AT_LEAST(0)},
    {"data.train_ratio", FIELD_FLOAT, "1.0", NULL, ABOVE_TO(0, 1)},
    {"data.valid_ratio", FIELD_FLOAT, "0.1", NULL, BETWEEN(0, 1)},
    {"data.split_strategy", FIELD_CHOICE, "\"row_group_tail\"",
     "row_group_tail|timestamp_auto|user_hash|sample_hash", ANY},
    {"data.sampling_strategy", FIELD_CHOICE, "\"step_random\"",
     "step_random|row_group_sweep", ANY},
    {"data.eval_every_n_steps", FIELD_INT, "5000", NULL, AT_LEAST(0)},
    {"data.seq_max_lens", FIELD_TEXT, "\"seq_a:256,seq_b:256,seq_c:512,seq_d:512\"", NULL,
     ANY},
    {"data_pipeline.cache.mode", FIELD_CHOICE, "\"none\"", "none|lru|fifo|lfu|rr|opt",
     ANY},
    {"data_pipeline.cache.max_batches", FIELD_INT, "0", NULL, AT_LEAST(0)},
    {"data_pipeline.transforms", FIELD_TRANSFORMS, "[]", NULL, ANY},
    {"data_pipeline.seed", FIELD_INT_OR_NULL, "null", NULL, ANY},
    {"data_pipeline.strict_time_filter", FIELD_BOOL, "true", NULL, ANY},
    {"optimizer.lr", FIELD_FLOAT, "0.0001", NULL, AT_LEAST(0)},
    {"optimizer.max_steps", FIELD_INT, "0", NULL, AT_LEAST(0)},
    {"optimizer.patience_steps", FIELD_INT, "25000", NULL, AT_LEAST(0)},
    {"optimizer.seed", FIELD_INT, "42", NULL, ANY},
    {"optimizer.device", FIELD_TEXT_OR_NULL, "null", NULL, ANY},
    {"optimizer.dense_optimizer_type", FIELD_CHOICE, "\"adamw\"",
     "adamw|fused_adamw|orthogonal_adamw|muon", ANY},
    {"optimizer.scheduler_type", FIELD_CHOICE, "\"none\"", "none|linear|cosine", ANY},
    {"optimizer.warmup_steps", FIELD_INT, "0", NULL, AT_LEAST(0)},
    {"optimizer.min_lr_ratio", FIELD_FLOAT, "0.0", NULL, WITHIN(0, 1)},
    {"ema.enabled", FIELD_BOOL, "false", NULL, ANY},
    {"ema.decay", FIELD_FLOAT, "0.999", NULL, FROM_BELOW(0, 1)},
    {"ema.start_step", FIELD_INT, "0", NULL, AT_LEAST(0)},
    {"ema.update_every_n_steps", FIELD_INT, "1", NULL, AT_LEAST(1)},
    {"runtime.amp", FIELD_BOOL, "false", NULL, ANY},
    {"runtime.amp_dtype", FIELD_CHOICE, "\"bfloat16\"", "bfloat16|float16", ANY},
    {"runtime.compile", FIELD_BOOL, "false", NULL, ANY},
    {"runtime.progress_log_interval_steps", FIELD_INT, "100", NULL, AT_LEAST(1)},
    {"runtime.deterministic", FIELD_BOOL, "true", NULL, ANY},
    {"loss.terms", FIELD_TERMS,
     "[{\"name\": \"bce\", \"kind\": \"bce\", \"weight\": 1.0, \"focal_alpha\": 0.1, "
     "\"focal_gamma\": 2.0, \"temperature\": 1.0}]",
     NULL, ANY},
    {"sparse_optimizer.sparse_lr", FIELD_FLOAT, "0.05", NULL, AT_LEAST(0)},
    {"sparse_optimizer.sparse_weight_decay", FIELD_FLOAT, "0.0", NULL, ANY},
    {"sparse_optimizer.reinit_sparse_every_n_steps", FIELD_INT, "0", NULL, ANY},
    {"sparse_optimizer.reinit_cardinality_threshold", FIELD_INT, "0", NULL, ANY},
    {"model.d_model", FIELD_INT, "64", NULL, AT_LEAST(1)},
    {"model.emb_dim", FIELD_INT, "64", NULL, AT_LEAST(1)},
    {"model.num_queries", FIELD_INT, "1", NULL, ANY},
    {"model.num_blocks", FIELD_INT, "2", NULL, ANY},
    {"model.num_heads", FIELD_INT, "4", NULL, ANY},
    {"model.seq_encoder_type", FIELD_CHOICE, "\"transformer\"",
     "swiglu|transformer|longer", ANY},
    {"model.hidden_mult", FIELD_INT, "4", NULL, ANY},
    {"model.dropout_rate", FIELD_FLOAT, "0.01", NULL, ANY},
    {"model.seq_top_k", FIELD_INT, "50", NULL, ANY},
    {"model.seq_causal", FIELD_BOOL, "false", NULL, ANY},
    {"model.action_num", FIELD_INT, "1", NULL, ANY},
    {"model.use_time_buckets", FIELD_BOOL, "true", NULL, ANY},
    {"model.rank_mixer_mode", FIELD_CHOICE, "\"full\"", "full|ffn_only|none", ANY},
    {"model.use_rope", FIELD_BOOL, "false", NULL, ANY},
    {"model.rope_base", FIELD_FLOAT, "10000.0", NULL, ANY},
    {"model.emb_skip_threshold", FIELD_INT, "0", NULL, ANY},
    {"model.seq_id_threshold", FIELD_INT, "10000", NULL, ANY},
    {"model.gradient_checkpointing", FIELD_BOOL, "false", NULL, ANY},
    {"model.flash_attention_backend", FIELD_CHOICE, "\"torch\"", "torch|tilelang", ANY},
    {"model.rms_norm_backend", FIELD_CHOICE, "\"torch\"", "torch|tilelang|triton", ANY},
    {"model.rms_norm_block_rows", FIELD_INT, "1", NULL, AT_LEAST(1)},
    {"model.ns.grouping_strategy", FIELD_CHOICE, "\"explicit\"", "explicit|singleton",
     ANY},
    {"model.ns.user_groups", FIELD_GROUPS, "{}", NULL, ANY},
    {"model.ns.item_groups", FIELD_GROUPS, "{}", NULL, ANY},
    {"model.ns.tokenizer_type", FIELD_CHOICE, "\"rankmixer\"", "group|rankmixer", ANY},
    {"model.ns.user_tokens", FIELD_INT, "0", NULL, ANY},
    {"model.ns.item_tokens", FIELD_INT, "0", NULL, ANY},
    {"validation.early_stopping_metric", FIELD_CHOICE, "\"auc\"", "auc|logloss", ANY},
};
const int settings_n_common = (int)(sizeof settings_common / sizeof *settings_common);

static const Field dualq[] = {
    {"model.use_global_time_token", FIELD_BOOL, "true", NULL, ANY},
    {"model.use_seq_gap_buckets", FIELD_BOOL, "true", NULL, ANY},
    {"model.use_time_gap_domain_gates", FIELD_BOOL, "true", NULL, ANY},
    {"model.use_fid87_token_residual", FIELD_BOOL, "true", NULL, ANY},
    {"model.use_time_decay_summary", FIELD_BOOL, "true", NULL, ANY},
    {"model.compress_high_cardinality", FIELD_BOOL, "true", NULL, ANY},
    {"model.use_fm_highway", FIELD_BOOL, "true", NULL, ANY},
    {"model.user_q_tokens", FIELD_INT, "4", NULL, AT_LEAST(1)},
    {"model.item_q_tokens", FIELD_INT, "2", NULL, AT_LEAST(1)},
    {"model.use_time_aligned_interleave", FIELD_BOOL, "true", NULL, ANY},
    {"model.seq_interest_ratios", FIELD_TEXT, "\"1.0,0.7\"", NULL, ANY},
    {"model.pair_feature_fids", FIELD_TEXT, "\"62,63,64,65,66,89,90,91\"", NULL, ANY},
    {"model.user_emb_dim", FIELD_INT, "256", NULL, ANY},
    {"model.user_seq_block_dim", FIELD_INT, "32", NULL, ANY},
    {"model.user_seq_num", FIELD_INT, "10", NULL, ANY},
};

static const Field queryformer[] = {
    {"model.num_embedding_columns", FIELD_INT, "4", NULL, WITHIN(1, 8)},
    {"model.dcn_num_layers", FIELD_INT, "2", NULL, AT_LEAST(1)},
    {"model.compress_high_cardinality", FIELD_BOOL, "true", NULL, ANY},
    {"model.use_query_self_attention", FIELD_BOOL, "true", NULL, ANY},
    {"model.use_query_cross_attention", FIELD_BOOL, "true", NULL, ANY},
    {"model.use_query_seq_cross_attention", FIELD_BOOL, "true", NULL, ANY},
    {"model.use_seq_query_cross_attention", FIELD_BOOL, "true", NULL, ANY},
};

static const Field symbiosis[] = {
    {"model.v2_use_dense_tokens", FIELD_BOOL, "true", NULL, ANY},
    {"model.v2_use_missing_tokens", FIELD_BOOL, "true", NULL, ANY},
    {"model.v2_use_sequence_stats_tokens", FIELD_BOOL, "true", NULL, ANY},
    {"model.v2_use_metadata_attention_bias", FIELD_BOOL, "true", NULL, ANY},
    {"model.v2_use_candidate_readout", FIELD_BOOL, "true", NULL, ANY},
    {"model.v2_tokenization_mode", FIELD_TEXT, "\"group\"", NULL, ANY},
    {"model.v2_sparse_seed", FIELD_INT, "20260512", NULL, ANY},
    {"model.v2_recent_event_tokens", FIELD_INT, "16", NULL, ANY},
    {"model.v2_memory_event_tokens", FIELD_INT, "8", NULL, ANY},
    {"model.v2_user_dense_tokens", FIELD_INT, "3", NULL, ANY},
    {"model.v2_item_dense_tokens", FIELD_INT, "1", NULL, ANY},
    {"model.v2_user_missing_tokens", FIELD_INT, "2", NULL, ANY},
    {"model.v2_item_missing_tokens", FIELD_INT, "1", NULL, ANY},
    {"model.v2_high_risk_token_dropout_rate", FIELD_FLOAT, "0.08", NULL, ANY},
    {"model.v2_compress_large_ids", FIELD_BOOL, "true", NULL, ANY},
    {"model.v2_compile_backbone", FIELD_BOOL, "true", NULL, ANY},
    {"model.v3_enabled", FIELD_BOOL, "true", NULL, ANY},
    {"model.v3_memory_selection_mode", FIELD_TEXT, "\"quality_stratified\"", NULL, ANY},
    {"model.v3_recent_event_tokens_by_domain", FIELD_TEXT,
     "\"seq_a:8,seq_b:8,seq_c:20,seq_d:24\"", NULL, ANY},
    {"model.v3_memory_event_tokens_by_domain", FIELD_TEXT,
     "\"seq_a:4,seq_b:4,seq_c:10,seq_d:12\"", NULL, ANY},
    {"model.v3_memory_density_weight", FIELD_FLOAT, "1.0", NULL, ANY},
    {"model.v3_memory_time_weight", FIELD_FLOAT, "0.3", NULL, ANY},
    {"model.v3_memory_recency_weight", FIELD_FLOAT, "0.2", NULL, ANY},
    {"model.v3_memory_duplicate_penalty", FIELD_FLOAT, "0.5", NULL, ANY},
};

#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

static const SettingsClass classes[] = {
    {"PCVRTrainConfig", NULL, 0},
    {"DualQTrainConfig", dualq, COUNT(dualq)},
    {"QueryFormerTrainConfig", queryformer, COUNT(queryformer)},
    {"SymbiosisTrainConfig", symbiosis, COUNT(symbiosis)},
};

const SettingsClass *
settings_class(const char *name)
{
    for (int i = 0; i < COUNT(classes); i++) {
        if (!strcmp(classes[i].name, name))
            return &classes[i];
    }
    return NULL;
}

const SettingsClass *
settings_class_for(const json_t *model_fields)
{
    const SettingsClass *best = &classes[0];
    int most = 0;
    for (int i = 0; i < COUNT(classes); i++) {
        int found = 0;
        for (int k = 0; k < classes[i].n_model; k++)
            found += json_object_get(model_fields, classes[i].model[k].path + 6) != NULL;
        if (found > most) {
            most = found;
            best = &classes[i];
        }
    }
    return best;
}

const Field settings_term_fields[] = {
    {"name", FIELD_TEXT, "\"bce\"", NULL, ANY},
    {"kind", FIELD_CHOICE, "\"bce\"", "bce|focal|pairwise_auc|model", ANY},
    {"weight", FIELD_FLOAT, "1.0", NULL, AT_LEAST(0)},
    {"focal_alpha", FIELD_FLOAT, "0.1", NULL, WITHIN(0, 1)},
    {"focal_gamma", FIELD_FLOAT, "2.0", NULL, AT_LEAST(0)},
    {"temperature", FIELD_FLOAT, "1.0", NULL, ABOVE_TO(0, 1e300)},
};
const int settings_n_term_fields = COUNT(settings_term_fields);

static const Field crop[] = {
    {"name", FIELD_CHOICE, "\"sequence_crop\"", "sequence_crop", ANY},
    {"enabled", FIELD_BOOL, "true", NULL, ANY},
    {"views_per_row", FIELD_INT, "1", NULL, AT_LEAST(1)},
    {"seq_window_mode", FIELD_CHOICE, "\"tail\"", "tail|random_tail|rolling", ANY},
    {"seq_window_min_len", FIELD_INT, "1", NULL, ANY},
};
static const Field mask[] = {
    {"name", FIELD_CHOICE, "\"feature_mask\"", "feature_mask", ANY},
    {"enabled", FIELD_BOOL, "true", NULL, ANY},
    {"probability", FIELD_FLOAT, "0.0", NULL, WITHIN(0, 1)},
};
static const Field sparse_dropout[] = {
    {"name", FIELD_CHOICE, "\"nonseq_sparse_dropout\"", "nonseq_sparse_dropout", ANY},
    {"enabled", FIELD_BOOL, "true", NULL, ANY},
    {"probability", FIELD_FLOAT, "0.0", NULL, WITHIN(0, 1)},
};
static const Field domain_dropout[] = {
    {"name", FIELD_CHOICE, "\"domain_dropout\"", "domain_dropout", ANY},
    {"enabled", FIELD_BOOL, "true", NULL, ANY},
    {"probability", FIELD_FLOAT, "0.0", NULL, WITHIN(0, 1)},
};

static const TransformClass transforms[] = {
    {"sequence_crop", "pcvr_sequence_crop_config", crop, COUNT(crop)},
    {"feature_mask", "pcvr_feature_mask_config", mask, COUNT(mask)},
    {"nonseq_sparse_dropout", "pcvr_non_sequential_sparse_dropout_config", sparse_dropout,
     COUNT(sparse_dropout)},
    {"domain_dropout", "pcvr_domain_dropout_config", domain_dropout,
     COUNT(domain_dropout)},
};

const TransformClass *
settings_transform(const char *name)
{
    for (int i = 0; i < COUNT(transforms); i++) {
        if (!strcmp(transforms[i].name, name))
            return &transforms[i];
    }
    return NULL;
}

const TransformClass *
settings_transform_selected(const char *selector)
{
    for (int i = 0; i < COUNT(transforms); i++) {
        if (!strcmp(transforms[i].selector, selector))
            return &transforms[i];
    }
    return NULL;
}

void
settings_print(FILE *f)
{
    for (int k = 0; k < settings_n_common; k++) {
        const Field *field = &settings_common[k];
        fprintf(f, "  --%s %s", field->path, field->standard);
        if (field->choices)
            fprintf(f, " of %s", field->choices);
        fputc('\n', f);
    }
}

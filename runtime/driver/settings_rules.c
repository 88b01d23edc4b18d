// settings_rules.c - rules between fields, and what this program can do of what can be
// asked for.

#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

static bool
check_terms(const Settings *s, PcvrError *err)
{
    const json_t *terms = settings_get(s, "loss.terms");
    size_t n = json_array_size(terms);
    for (size_t i = 0; i < n; i++) {
        const char *name =
            json_string_value(json_object_get(json_array_get(terms, i), "name"));
        if (!name || !*name)
            return pcvr_fail(err,
                             "loss.terms.%zu.name: expected a name that is not blank", i);
        for (size_t k = 0; k < i; k++) {
            const json_t *other = json_object_get(json_array_get(terms, k), "name");
            if (!strcmp(name, json_string_value(other)))
                return pcvr_fail(err, "loss.terms.%zu.name: '%s' names another term too",
                                 i, name);
        }
    }
    return n > 0 || pcvr_fail(err, "loss.terms: expected at least one loss term");
}

// A list "1,2,3" of numbers; positive ones, or integers without duplicates.
static bool
check_list(const Settings *s, const char *path, bool integers, PcvrError *err)
{
    const char *text = settings_text(s, path), *p = text;
    while (p && *p) {
        char *end;
        double x = strtod(p, &end);
        if (end == p || (!integers && x <= 0.0) || (integers && x != (double)(long)x))
            return pcvr_fail(err, "%s: cannot read '%s' as %s", path, text,
                             integers ? "feature ids" : "positive numbers");
        for (const char *q = text; integers && q < p; q = strchr(q, ',') + 1) {
            if (strtol(q, NULL, 10) == (long)x)
                return pcvr_fail(err, "%s: feature %ld is listed twice", path, (long)x);
        }
        end += strspn(end, " ");
        if (*end && *end != ',')
            return pcvr_fail(err, "%s: expected ',' in '%s'", path, text);
        p = end + (*end == ',');
    }
    return true;
}

static bool
check_dualq(const Settings *s, PcvrError *err)
{
    int64_t user = settings_int(s, "model.user_q_tokens"),
            item = settings_int(s, "model.item_q_tokens");
    int64_t all = settings_int(s, "model.num_queries");
    if (user + item != all)
        return pcvr_fail(err,
                         "model.num_queries: expected model.user_q_tokens + "
                         "model.item_q_tokens = %lld, found %lld",
                         (long long)(user + item), (long long)all);
    return check_list(s, "model.pair_feature_fids", true, err) &&
           check_list(s, "model.seq_interest_ratios", false, err);
}

static bool
check_queryformer(const Settings *s, PcvrError *err)
{
    if (settings_int(s, "model.num_queries") < 1)
        return pcvr_fail(err, "model.num_queries: expected a number >= 1");
    if (settings_int(s, "model.num_blocks") < 1)
        return pcvr_fail(err, "model.num_blocks: expected a number >= 1");
    return true;
}

bool
settings_check(const Settings *s, PcvrError *err)
{
    if (!check_terms(s, err))
        return false;
    if (!strcmp(s->kind->name, "DualQTrainConfig"))
        return check_dualq(s, err);
    if (!strcmp(s->kind->name, "QueryFormerTrainConfig"))
        return check_queryformer(s, err);
    return true;
}

static bool
lacks(const char *path, const char *value, const char *instead, PcvrError *err)
{
    return pcvr_fail(err, "--%s %s: this program has no such feature; %s", path, value,
                     instead);
}

// A choice of which only the listed values work.
static bool
only(const Settings *s, const char *path, const char *allowed, PcvrError *err)
{
    const char *value = settings_text(s, path);
    for (const char *p = allowed; *p;) {
        size_t n = strcspn(p, "|");
        if (strlen(value) == n && !strncmp(value, p, n))
            return true;
        p += n + (p[n] == '|');
    }
    char instead[128];
    snprintf(instead, sizeof instead, "it has %s", allowed);
    return lacks(path, value, instead, err);
}

static bool
transforms_off(const Settings *s, PcvrError *err)
{
    const json_t *list = settings_get(s, "data_pipeline.transforms");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *t = json_array_get(list, i);
        const json_t *p = json_object_get(t, "probability");
        const char *name = json_string_value(json_object_get(t, "name"));
        const char *mode = json_string_value(json_object_get(t, "seq_window_mode"));
        bool idle = !json_is_true(json_object_get(t, "enabled")) ||
                    (p && json_number_value(p) <= 0.0) ||
                    (mode && !strcmp(mode, "tail") &&
                     json_integer_value(json_object_get(t, "views_per_row")) <= 1);
        if (!idle) {
            return pcvr_fail(
                err,
                "data_pipeline.transforms.%zu (%s): this program has no batch "
                "transforms; switch it off with "
                "--data_pipeline.transforms.%zu.no_enabled",
                i, name ? name : "", i);
        }
    }
    return true;
}

static bool
losses_known(const Settings *s, PcvrError *err)
{
    const json_t *list = settings_get(s, "loss.terms");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *kind =
            json_string_value(json_object_get(json_array_get(list, i), "kind"));
        char path[64];
        snprintf(path, sizeof path, "loss.terms.%zu.kind", i);
        if (kind && !strcmp(kind, "model"))
            return lacks(path, kind, "it has bce, focal and pairwise_auc", err);
    }
    return true;
}

bool
settings_supported(const Settings *s, PcvrError *err)
{
    const char *device = settings_text(s, "optimizer.device");
    if (!only(s, "data.split_strategy", "row_group_tail", err) ||
        !only(s, "data_pipeline.cache.mode", "none", err) ||
        !only(s, "optimizer.dense_optimizer_type", "adamw|fused_adamw", err) ||
        !transforms_off(s, err) || !losses_known(s, err))
        return false;
    if (device && strcmp(device, "cpu"))
        return lacks("optimizer.device", device, "it has cpu", err);
    if (settings_float(s, "sparse_optimizer.sparse_weight_decay") != 0.0)
        return lacks("sparse_optimizer.sparse_weight_decay", "other than 0",
                     "sparse Adagrad has no decay", err);
    if (settings_int(s, "sparse_optimizer.reinit_sparse_every_n_steps") > 0)
        return lacks("sparse_optimizer.reinit_sparse_every_n_steps", "above 0",
                     "tables are never drawn again", err);
    return true;
}

#!/usr/bin/env bash
# test_bad_config.sh - configurations outside a model's domain: one error with the field, its value, what is
# allowed and the place in the model file; exit status 1 and nothing on standard output.
set -u
pcvrc=${BUILD:-build}/pcvrc
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
count=0

result() { # name, condition's status
    if [ "$2" -eq 0 ]; then echo "ok $1"; else
        echo "FAIL $1"
        cat "$tmp/err"
        failed=1
    fi
}
# run MODEL FIELD=VALUE...: compiles as far as the graph, with `schema`
schema=models/official.json
run() {
    local model=$1 args=() x
    shift
    [ -f "$model" ] || model=models/$model.pcvr
    for x in "$@"; do args+=(--set "$x"); done
    "$pcvrc" "$model" --schema "$schema" --emit=graph -o "$tmp/out" "${args[@]}" >/dev/null 2>"$tmp/err"
}
# bad FILE TEXT MODEL FIELD=VALUE...: one error at a place in FILE whose line holds TEXT
bad() {
    local file=$1 text=$2 status
    shift 2
    count=$((count + 1))
    rm -rf "$tmp/out"
    run "$@"
    status=$?
    [ $status -eq 1 ] && [ "$(grep -c ' error: ' "$tmp/err")" -eq 1 ] && [ ! -e "$tmp/out" ] &&
        grep -E "^$file:[0-9]+:[0-9]+: error: " "$tmp/err" | grep -qF -- "$text"
    result "$1 ${*:2}" $?
}
good() {
    run "$@"
    result "$1 ${*:2} works" $?
}

lib=models/lib
hyf=$lib/hyformer.pcvr

# Heads, widths, counts.
for model in baseline dualq; do
    bad $hyf 'num_heads = 7 must divide d_model = ' $model num_heads=7
    bad $hyf "'num_heads' must be in 1.., found 0" $model num_heads=0
    bad $hyf "'num_blocks' must be in 0.., found -1" $model num_blocks=-1
    bad "models/.*.pcvr" "'seq_encoder_type' must be in [\"swiglu\", \"transformer\", \"longer\"], found \"lstm\"" $model seq_encoder_type=lstm
    bad $hyf "'rank_mixer_mode' must be in" $model rank_mixer_mode=half
    bad $hyf "'seq_top_k' must be in 1.., found 0" $model seq_top_k=0
    bad $hyf 'rope_base must be above 0, found -1.0' $model use_rope=true rope_base=-1
    bad $hyf 'dropout_rate must be in 0.0..0.5 where a vocabulary is above seq_id_threshold = 10000' $model dropout_rate=0.7
done
bad $hyf 'd_model divisible by the 16 tokens it mixes, found d_model = 60' baseline d_model=60
grep -q '^models/baseline.pcvr:.*note' "$tmp/err"
result 'the place in baseline is named' $?
bad $hyf 'd_model divisible by the 6 tokens it mixes, found d_model = 50' dualq d_model=50 num_heads=5
good baseline d_model=60 rank_mixer_mode=ffn_only
for model in interformer onetrans tokenformer symbiosis queryformer; do
    good $model num_heads=7        # lowered to a divisor, as in the reference
done
for model in baseline dualq interformer onetrans queryformer; do
    bad "($lib|models)/[a-z]*.pcvr" "'ns.tokenizer_type' must be in" $model ns.tokenizer_type=heap
done
bad $lib/config.pcvr "'d_model' must be in 1.., found 0" onetrans d_model=0
bad $lib/config.pcvr "'d_model' must be int, found \"wide\"" onetrans 'd_model="wide"'
bad $lib/config.pcvr "'d_model' needs a JSON value, found 'wide'" onetrans d_model=wide
bad $lib/config.pcvr "'emb_dim' must be in 1.., found -4" tokenformer emb_dim=-4
bad $lib/config.pcvr "'hidden_mult' must be in 1.., found 0" interformer hidden_mult=0
bad $lib/config.pcvr "'action_num' must be in 1.., found 0" interformer action_num=0
bad models/onetrans.pcvr "'dropout_rate' must be in 0.0..1.0, found 1.5" onetrans dropout_rate=1.5
bad $lib/config.pcvr "'emb_skip_threshold' must be in 0.., found -1" onetrans emb_skip_threshold=-1
bad $lib/config.pcvr "'use_time_buckets' must be bool, found the integer 1" onetrans use_time_buckets=1
bad models/baseline.pcvr "'num_queries' must be in 1.., found 0" baseline num_queries=0
bad models/queryformer.pcvr "'num_embedding_columns' must be in 1..8, found 9" queryformer num_embedding_columns=9
bad models/queryformer.pcvr "'dcn_num_layers' must be in 1.., found 0" queryformer dcn_num_layers=0
bad models/queryformer.pcvr "'num_blocks' must be in 1.., found 0" queryformer num_blocks=0
bad models/queryformer.pcvr "'num_queries' must be in 1.., found 0" queryformer num_queries=0

# Groups.
for model in baseline dualq interformer onetrans symbiosis queryformer; do
    bad $lib/tokens.pcvr 'ns.user_groups names the features [999], allowed are [1, 3, ' $model 'ns.user_groups={"U1":[1,999]}'
    grep -q -- '--model.ns.grouping_strategy singleton' "$tmp/err"
    result "$model says how to do without groups" $?
    bad $lib/tokens.pcvr 'ns.item_groups names the features [1, 2], allowed are [5, 6, ' $model 'ns.item_groups={"I1":[1,5,2]}'
    bad "($lib|models)/[a-z]*.pcvr" "'ns.grouping_strategy' must be in [\"explicit\", \"singleton\"]" $model ns.grouping_strategy=none
done
bad $lib/config.pcvr "'ns.user_groups' must be {str: [int]}, found {\"U1\": 7}" baseline 'ns.user_groups={"U1":7}'
bad $lib/config.pcvr "'ns.user_groups' must be {str: [int]}, found [1]" baseline 'ns.user_groups=[1]'
bad $lib/config.pcvr "'ns.user_groups' needs a JSON value" baseline 'ns.user_groups={"U1":[1],"U1":[3]}'
bad models/baseline.pcvr 'ns.tokenizer_type = group makes a token of each group, but one lists no feature' baseline \
    ns.tokenizer_type=group 'ns.user_groups={"U1":[1],"U2":[]}' rank_mixer_mode=none
bad models/dualq.pcvr 'ns.user_groups must list each of the features [1, 3, ' dualq 'ns.user_groups={"U1":[1]}'
bad models/dualq.pcvr 'ns.item_groups must list each of the features [5, 6, ' dualq 'ns.item_groups={"I1":[5,5]}'

# Where the reference gives up and the meaning is plain.
good baseline 'ns.user_groups={}' 'ns.item_groups={}'
good baseline 'ns.user_groups={}' 'ns.item_groups={}' ns.tokenizer_type=group rank_mixer_mode=ffn_only
good baseline 'ns.user_groups={"U1":[1],"U2":[]}'
good dualq ns.tokenizer_type=group
good dualq 'ns.user_groups={}'

# dualq.
bad models/dualq.pcvr 'num_queries = 5 must be user_q_tokens + item_q_tokens = 4 + 2' dualq num_queries=5
bad models/dualq.pcvr "'user_q_tokens' must be in 1.., found 0" dualq user_q_tokens=0
bad models/dualq.pcvr "'item_q_tokens' must be in 1.., found -1" dualq item_q_tokens=-1
bad models/dualq.pcvr 'seq_interest_ratios must be positive numbers, found [1.0, -0.5]' dualq seq_interest_ratios=1.0,-0.5
bad models/dualq.pcvr 'seq_interest_ratios must be positive numbers, found [0.0]' dualq seq_interest_ratios=0
bad models/dualq.pcvr 'seq_interest_ratios: expected a number, found "x"' dualq seq_interest_ratios=1.0,x
bad models/dualq.pcvr 'pair_feature_fids must not name a feature twice, found [62, 63, 62]' dualq pair_feature_fids=62,63,62
bad models/dualq.pcvr 'pair_feature_fids: expected an integer, found "a"' dualq pair_feature_fids=62,a
bad models/dualq.pcvr 'pair_feature_fids needs as many dense values as ids' dualq pair_feature_fids=1,62
bad models/dualq.pcvr 'needs feature 61 of width 128, found [(61, 256), (87, 320)]' dualq user_emb_dim=128
bad models/dualq.pcvr "'user_seq_num' must be in 1.., found 0" dualq user_seq_num=0

# symbiosis.
bad models/symbiosis.pcvr 'v2_tokenization_mode must be in ["group", "group_compressed", "random_chunk"], found odd' symbiosis v2_tokenization_mode=odd
bad models/symbiosis.pcvr 'v3_memory_selection_mode must be in ["uniform", "stratified", "quality_stratified"], found odd' symbiosis v3_memory_selection_mode=odd
for field in v3_recent_event_tokens_by_domain v3_memory_event_tokens_by_domain; do
    for text in seq_a :3 seq_a:1:2; do
        bad models/symbiosis.pcvr "$field: expected domain:count, found $text" symbiosis "$field=$text"
    done
    bad models/symbiosis.pcvr "$field: expected an integer, found \"x\"" symbiosis "$field=seq_a:x"
    bad models/symbiosis.pcvr "$field: expected an integer, found \"\"" symbiosis "$field=elsewhere:"
    good symbiosis "$field= seq_a : 3 ,, *:2"
done

# A domain that the model names and the schema lacks; a schema without a sequence.
cat >"$tmp/named.pcvr" <<'MODEL'
import "baseline.pcvr"
layer Extra(d: int) {
  probe[dom.name]: Linear(d, d) for dom in schema.sequences
  fn of(x) = probe["seq_x"](x)
}
model Named {
  extra: Extra(d_model)
  forward() = extra.of(zeros([d_model]))[:1]
}
MODEL
bad "$tmp/named.pcvr" '"seq_x"' "$tmp/named.pcvr"
grep -q 'seq_a' "$tmp/err"
result 'the domains there are are named' $?
schema=$tmp/plain.json
echo '{"format": "raw_parquet", "user_int": [[1, 5, 1]], "item_int": [[5, 5, 1]], "user_dense": [], "seq": {}}' >"$schema"
for model in baseline dualq interformer queryformer; do
    bad "models/$model.pcvr" 'the schema has no sequence domain' $model ns.grouping_strategy=singleton
done
for model in onetrans tokenformer symbiosis; do
    good $model ns.grouping_strategy=singleton
done

[ $count -ge 80 ]
result "enough cases ($count)" $?
exit $failed

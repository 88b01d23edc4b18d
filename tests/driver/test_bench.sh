#!/usr/bin/env bash
# test_bench.sh - bench and plan: the same bits from a larger batch, bytes as planned, fields of the output.
. tests/driver/lib.sh
model=models/onetrans.pcvr
schema=$cases/onetrans/tiny/schema.json
# A small model, so that a step of 67 samples takes milliseconds.
small="--model.d_model 16 --model.emb_dim 8 --model.num_heads 2 --model.hidden_mult 2
       --model.emb_skip_threshold 0 --model.ns.grouping_strategy singleton
       --model.ns.user_tokens 2 --model.ns.item_tokens 2"
bench() { run bench --model $model --schema "$schema" $small --batch 67 --iters 1 "$@"; }

number() { # field: its value in the JSON of the last run
    sed -n "s/^  \"$1\": \([-0-9.e+]*\),\{0,1\}\$/\1/p" "$tmp/out"
}

# ---- the same bits -----------------------------------------------------------------------------
same() { # name, expected file, arguments
    local name=$1 want=$2
    shift 2
    bench --grads "$tmp/got.st" "$@" && cmp "$want" "$tmp/got.st" >>"$tmp/err"
    result "$name" $?
}
bench --lengths mixed --threads 1 --chunk 1 --grads "$tmp/want.st"
result "runs" $?
[ "$(wc -c <"$tmp/want.st")" -gt 10000 ]
result "results_written" $?
for chunk in 1 2 batch; do
    for threads in 1 2 4; do
        same "bits_chunk_${chunk}_threads_$threads" "$tmp/want.st" --lengths mixed \
            --chunk $chunk --threads $threads
    done
done
choices=(blocks sample blocks.0 '*')
[ $sanitized -eq 1 ] && choices=('*')
for choice in "${choices[@]}"; do
    same "bits_checkpoint_$choice" "$tmp/want.st" --lengths mixed --checkpoint "$choice"
done
bench --lengths mixed --dropout 0.3 --threads 1 --chunk 1 --grads "$tmp/chance.st"
! cmp -s "$tmp/want.st" "$tmp/chance.st"
result "dropout_changes_bits" $?
for choice in none "${choices[@]}"; do
    same "bits_dropout_$choice" "$tmp/chance.st" --lengths mixed --dropout 0.3 \
        --checkpoint "$choice" --threads 2 --chunk 3
done

# ---- bytes -------------------------------------------------------------------------------------
for choice in none blocks '*'; do
    for chunk in 2 batch; do
        bench --checkpoint "$choice" --chunk $chunk --json
        planned=$(number planned_peak_bytes)
        sum=0
        for field in parameter gradient row_store input activation; do
            sum=$((sum + $(number ${field}_bytes)))
        done
        [ "$planned" -gt 0 ] && [ "$planned" -eq "$(number measured_peak_bytes)" ] &&
            [ "$planned" -eq "$sum" ]
        result "planned_is_measured_${choice}_$chunk" $?
        eval "kept_${choice/\*/all}=$(number kept_bytes_per_sample)"
        run plan --model $model --schema "$schema" $small --batch 67 --checkpoint "$choice" \
            --chunk $chunk --json && [ "$planned" -eq "$(number planned_peak_bytes)" ] &&
            grep -q '"region": ' "$tmp/out"
        result "plan_says_the_same_${choice}_$chunk" $?
    done
done
[ "$kept_blocks" -le "$kept_none" ] && [ "$kept_all" -lt "$kept_blocks" ]
result "blocks_keep_less" $?
bench --json
rss=$(number rss_peak_bytes)
[ "$rss" -gt 0 ] && [ "$rss" -le $(($(number planned_peak_bytes) + 96 * 1024 * 1024)) ]
status=$?
[ $sanitized -eq 1 ] && status=0 # sanitizers keep memory of their own
result "rss_within_plan" $status
bench --iters 50 --json
grown=$(($(number rss_peak_bytes) - rss))
[ $sanitized -eq 1 ] || [ $grown -lt $((512 * 1024)) ] # a page here and there, not 50 times anything
result "no_growth_over_50_steps" $?

# ---- what is printed ---------------------------------------------------------------------------
bench --checkpoint blocks --against none:batch --json
for field in forward_s step_s isa threads lanes chunk flops_needed flops_recomputed \
    fma_peak_gflops kept_bytes_per_sample parameter_bytes gradient_bytes row_store_bytes \
    input_bytes activation_bytes planned_peak_bytes measured_peak_bytes rss_peak_bytes regions \
    against ratio; do
    grep -q "^  \"$field\": " "$tmp/out"
    result "json_$field" $?
done
expect "text" 0 "planned" bench --model $model --schema "$schema" $small --batch 3 --iters 1
expect "idle_threads" 0 "idle" bench --model $model --schema "$schema" $small --batch 3 --iters 1 \
    --lanes 2 --threads 3

# ---- faults ------------------------------------------------------------------------------------
expect "no_schema" 2 "--schema" bench --model $model
expect "missing_schema" 1 "nowhere.json" bench --model $model --schema "$tmp/nowhere.json"
expect "bad_lengths" 2 "--lengths" bench --model $model --schema "$schema" --lengths long
expect "bad_dropout" 2 "--dropout" bench --model $model --schema "$schema" --dropout 2
expect "bad_against" 2 "--chunk" bench --model $model --schema "$schema" --against none:0
expect "unknown_choice" 2 "blocks.0" bench --model $model --schema "$schema" $small \
    --checkpoint blocks.9
expect "plan_help" 0 "usage: pcvr plan" plan --help
expect "help_after_flags" 0 "usage: pcvr check" check --case x --help
expect "plan_by_name" 0 "onetrans, checkpoint" plan --model onetrans --schema models/official.json
mkdir "$tmp/mine" && echo 'import "onetrans.pcvr"' >"$tmp/mine/model.pcvr"
expect "plan_of_a_folder" 0 "model, checkpoint" plan --model "$tmp/mine/" --schema models/official.json
expect "folder_without_model" 1 "$tmp/model.pcvr" plan --model "$tmp" --schema "$schema"

for flag in "--iters 3" "--grads $tmp/x.st" "--against blocks"; do
    expect "plan_refuses_${flag%% *}" 2 "flags of pcvr bench" plan --model onetrans \
        --schema models/official.json $flag
done
exit $failed

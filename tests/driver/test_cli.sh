#!/usr/bin/env bash
# The program pcvr from outside: exit statuses, messages, files, interruption, the same bits for every way to run.
set -u
build=${BUILD:-build}
pcvr=$build/pcvr
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
data=tests/golden/data/small
# A small onetrans on the small data set.
common=(--experiment models/onetrans.pcvr --dataset-path "$data" --model.ns.grouping_strategy singleton
    --model.d_model 16 --model.emb_dim 8 --model.num_heads 2 --model.hidden_mult 2
    --model.ns.user_tokens 2 --model.ns.item_tokens 1 --data.seq_max_lens seq_a:8,seq_b:8,seq_c:8
    --model.seq_top_k 6 --data.batch_size 21 --optimizer.max_steps 6 --optimizer.lr 1e-3
    --model.dropout_rate 0.3)

if [ ! -e "$build/libpcvr_parquet.so" ] && [ ! -e build/libpcvr_parquet.so ]; then
    echo "skip cli: no Parquet library (make deps)"
    exit 0
fi

expect() { # name, status, part of the output, command...
    local name=$1 want=$2 text=$3 out rc
    shift 3
    out=$("$@" 2>&1)
    rc=$?
    if [ "$rc" -ne "$want" ]; then
        echo "FAIL $name"
        echo "status $rc, expected $want: $out"
    elif [[ $out != *"$text"* ]]; then
        echo "FAIL $name"
        echo "no '$text' in: $out"
    else
        echo "ok $name"
    fi
}

verdict() { # name, status of a check
    if [ "$2" -eq 0 ]; then echo "ok $1"; else echo "FAIL $1"; fi
}

expect no_command 2 "expected a command" "$pcvr"
expect unknown_command 2 "did you mean 'train'?" "$pcvr" trian
expect help 0 "val" "$pcvr" help
expect train_help 0 "--order FILE" "$pcvr" train --help
expect help_lists_settings 0 "--data.split_strategy \"row_group_tail\" of" "$pcvr" train --help
expect folder_without_model 1 "models/lib/model.pcvr" "$pcvr" train --experiment models/lib --dataset-path x
expect val_help 0 "--predictions-path" "$pcvr" val --help
expect no_model 2 "give --experiment" "$pcvr" train --dataset-path x
expect no_data 2 "TRAIN_DATA_PATH" "$pcvr" train --experiment models/onetrans.pcvr
expect no_model_file 1 "models/nope" "$pcvr" train --experiment models/nope.pcvr --dataset-path x
expect unknown_flag 2 "did you mean '--optimizer.max_steps'?" "$pcvr" train "${common[@]}" --optimizer.max_step 1
expect bad_value 2 "expected an integer" "$pcvr" train "${common[@]}" --optimizer.max_steps 1.5
expect negative_rate 2 "optimizer.lr" "$pcvr" train "${common[@]}" --optimizer.lr -1
expect negative_sparse_rate 2 "sparse_lr" "$pcvr" train "${common[@]}" --sparse_optimizer.sparse_lr -1
expect negative_steps 2 "max_steps" "$pcvr" train "${common[@]}" --optimizer.max_steps -1
expect both_ways 2 "say different things" "$pcvr" train "${common[@]}" --checkpoint blocks --model.no_gradient_checkpointing
expect near_choice 2 "did you mean 'blocks'?" "$pcvr" train "${common[@]}" --checkpoint block
expect near_block 2 "did you mean 'blocks.1'?" "$pcvr" train "${common[@]}" --checkpoint block.1
expect unknown_domain 0 "has no domain seq_x, seq_y" "$pcvr" train "${common[@]}" --dry-run \
    --data.seq_max_lens seq_a:8,seq_x:8,seq_b:8,seq_y:3
expect no_such_block 2 "blocks.0, blocks.1" "$pcvr" train "${common[@]}" --checkpoint blocks.7
expect not_built 2 "data.split_strategy user_hash" "$pcvr" train "${common[@]}" --data.split_strategy user_hash
expect no_muon 2 "optimizer.dense_optimizer_type muon" "$pcvr" train "${common[@]}" --optimizer.dense_optimizer_type muon
expect no_cuda 2 "optimizer.device cuda" "$pcvr" train "${common[@]}" --optimizer.device cuda
expect bad_chunk 2 "--chunk" "$pcvr" train "${common[@]}" --chunk some
expect groups 1 "--model.ns.grouping_strategy singleton" "$pcvr" train "${common[@]}" --model.ns.grouping_strategy explicit
expect no_dataset 1 "$tmp/none" "$pcvr" train "${common[@]}" --dataset-path "$tmp/none"
expect dry_run 0 "fits: yes" "$pcvr" train "${common[@]}" --dry-run --run-dir "$tmp/dry"
[ ! -e "$tmp/dry" ]
verdict dry_run_writes_nothing $?
expect amp 0 "no effect on the CPU" "$pcvr" train "${common[@]}" --dry-run --runtime.amp --runtime.amp_dtype bf16
expect no_init 1 "$tmp/none" "$pcvr" train "${common[@]}" --init "$tmp/none" --run-dir "$tmp/dry"
expect strict_ids 1 "row" "$pcvr" train "${common[@]}" --strict-ids --run-dir "$tmp/dry"
expect loose_ids 0 "outside the vocabulary" "$pcvr" train "${common[@]}" --run-dir "$tmp/dry"
expect unwritable 1 "/proc/run" "$pcvr" train "${common[@]}" --run-dir /proc/run

expect train 0 "peak: planned" "$pcvr" train "${common[@]}" --run-dir "$tmp/a" --model.gradient_checkpointing
ls "$tmp"/a/global_step6*/{model.safetensors,schema.json,train_config.json,pcvr.json} >"$tmp/list" 2>&1
verdict train_files $?
cmp -s "$tmp"/a/global_step6*/schema.json "$data/schema.json"
verdict train_schema_copied $?

# Every way to run gives the same steps and the same weights, with dropout on.
ways=("--checkpoint none --threads 1 --chunk 3" "--checkpoint sample --threads 4 --chunk batch"
    "--checkpoint blocks.1 --threads 2 --chunk 1 --data.num_workers 0")
for i in "${!ways[@]}"; do
    # shellcheck disable=SC2086
    "$pcvr" train "${common[@]}" --run-dir "$tmp/w$i" ${ways[$i]} >"$tmp/log" 2>&1 &&
        cmp "$tmp/a/steps.jsonl" "$tmp/w$i/steps.jsonl" >>"$tmp/log" 2>&1 &&
        cmp "$tmp"/a/global_step6*/model.safetensors "$tmp/w$i"/global_step6*/model.safetensors >>"$tmp/log" 2>&1
    rc=$?
    verdict "same_bits_$i" $rc
    [ $rc -eq 0 ] || cat "$tmp/log"
done
"$pcvr" train "${common[@]}" --run-dir "$tmp/other" --optimizer.seed 7 >"$tmp/log" 2>&1
! cmp -s "$tmp/a/steps.jsonl" "$tmp/other/steps.jsonl"
verdict another_seed_differs $?

# val finds the latest weights, never recomputes, and agrees with itself whatever the batch.
expect val 0 "AUC" "$pcvr" val --experiment models/onetrans.pcvr --dataset-path "$data" --run-dir "$tmp/a"
cp "$tmp/a/validation_predictions.jsonl" "$tmp/first.jsonl"
expect val_batch 0 '"auc"' "$pcvr" val --experiment models/onetrans.pcvr --dataset-path "$data" --run-dir "$tmp/v" \
    --checkpoint "$(ls -d "$tmp"/a/global_step6*)" --batch-size 7 --threads 1 --json
cmp -s "$tmp/first.jsonl" "$tmp/v/validation_predictions.jsonl"
verdict val_same_scores $?
expect infer 0 "predictions, one a user, of" "$pcvr" infer --experiment experiments/onetrans --dataset-path "$data" \
    --checkpoint "$tmp/a" --result-dir "$tmp/inf"
grep -q '"predictions": {' "$tmp/inf/predictions.json"
verdict infer_file $?
expect infer_usage 2 "--result-dir" "$pcvr" infer --experiment experiments/onetrans --dataset-path "$data"
expect val_no_weights 1 "model.safetensors" "$pcvr" val --experiment models/onetrans.pcvr --dataset-path "$data" --run-dir "$tmp"
cp -r "$tmp"/a/global_step6* "$tmp/cut"
truncate -s 3000 "$tmp/cut/model.safetensors"
expect val_cut_weights 1 "$tmp/cut/model.safetensors: a header of" "$pcvr" val --experiment models/onetrans.pcvr \
    --dataset-path "$data" --checkpoint "$tmp/cut" --run-dir "$tmp/v"

nan=$tmp/nan
cp -r "$tmp"/a/global_step6* "$nan"
{
    header=$(od -An -tu8 -N8 "$nan/model.safetensors" | tr -d ' ')
    size=$(stat -c %s "$nan/model.safetensors")
    head -c $((header + 8)) "$nan/model.safetensors"
    head -c $((size - header - 8)) /dev/zero | tr '\0' '\377'
} >"$tmp/weights"
mv "$tmp/weights" "$nan/model.safetensors"
expect val_nan 1 "logits are NaN with these weights" "$pcvr" val --experiment models/onetrans.pcvr --dataset-path "$data" \
    --checkpoint "$nan" --run-dir "$tmp/vn"
[ ! -e "$tmp/vn/evaluation.json" ]
verdict val_nan_writes_no_result $?
expect infer_nan 1 "logits are NaN with these weights" "$pcvr" infer --experiment models/onetrans.pcvr \
    --dataset-path "$data" --checkpoint "$nan" --result-dir "$tmp/vn"

# A full disk leaves the earlier checkpoint alone.
cp -r "$tmp/a" "$tmp/full"
before=$(cat "$tmp"/full/global_step6*/* | cksum)
(
    trap '' XFSZ
    ulimit -f 8
    "$pcvr" train "${common[@]}" --run-dir "$tmp/full" >"$tmp/log" 2>&1
)
rc=$?
[ $rc -eq 1 ] && [ "$before" = "$(cat "$tmp"/full/global_step6*/* | cksum)" ] && ! ls -d "$tmp"/full/*.tmp.* >/dev/null 2>&1
verdict full_disk $?
grep -q "write failed" "$tmp/log"
verdict full_disk_says_so $?

# An interrupt ends the step, saves the weights, gives 130.
"$pcvr" train "${common[@]}" --run-dir "$tmp/int" --optimizer.max_steps 10000000 \
    --runtime.progress_log_interval_steps 1 >"$tmp/log" 2>&1 &
pid=$!
for _ in $(seq 600); do
    grep -q "^step 2/" "$tmp/log" 2>/dev/null && break
    sleep 0.1
done
kill -INT $pid
wait $pid
rc=$?
[ $rc -eq 130 ] && ls "$tmp"/int/global_step*/model.safetensors >/dev/null 2>&1
verdict interrupt $?
expect val_interrupted 0 "AUC" "$pcvr" val --experiment models/onetrans.pcvr --dataset-path "$data" --run-dir "$tmp/int"

expect synth 0 "best reachable AUC" "$pcvr" synth --output "$tmp/synth" --rows 600 --files 2
expect synth_again 1 "$tmp/synth" "$pcvr" synth --output "$tmp/synth" --rows 600
expect synth_usage 2 "--output" "$pcvr" synth

#!/usr/bin/env bash
# test_outputs.sh - the files that train, val and infer write, and the names in them.
. tests/driver/lib.sh
if [ ! -e build/libpcvr_parquet.so ]; then
    echo "skip outputs: no Parquet library (make deps)"
    exit 0
fi
data=tests/golden/data/small
model="--experiment models/onetrans.pcvr --dataset-path $data"
run train $model --model.ns.grouping_strategy singleton --model.d_model 16 --model.emb_dim 8 --model.num_heads 2 \
    --model.ns.user_tokens 2 --model.ns.item_tokens 1 --data.seq_max_lens seq_a:8,seq_b:8,seq_c:8 \
    --data.batch_size 20 --optimizer.max_steps 2 --run-dir "$tmp/run"
result train $?
run val $model --run-dir "$tmp/run"
result val $?
run infer $model --checkpoint "$tmp/run" --result-dir "$tmp/inf" --json
result infer $?
cp "$tmp/out" "$tmp/printed.json"

# names FILE NAME...: a JSON file with these names, ended by a line's end
names() {
    local file=$1 name bad=0
    shift
    [ -s "$file" ] && [ -z "$(tail -c 1 "$file" | tr -d '\n')" ] || bad=1
    for name in "$@"; do
        grep -q "\"$name\": *" "$file" || { echo "$file: no $name" >>"$tmp/err"; bad=1; }
    done
    result "names_in_$(basename "$file")" $bad
}
common="label started_at_unix ended_at_unix elapsed_sec cpu_peak_rss_mb metadata experiment_name cuda_device
    cuda_peak_allocated_mb cuda_peak_reserved_mb rows rows_per_sec"
names "$tmp/run/training_telemetry.json" $common run_dir steps train_rows valid_rows model_parameters steps_per_sec
names "$tmp/run/training_summary.json" run_dir checkpoint_root schema_path train_ratio valid_ratio split_strategy \
    split_seed sampling_strategy train_steps_per_sweep validation_metrics auc logloss \
    validation_score_diagnostics telemetry row_group_split is_disjoint is_l1_ready
scored="$common checkpoint_path dataset_path batches prediction_file_mb checkpoint_file_mb batches_per_sec"
names "$tmp/run/evaluation_telemetry.json" $scored
names "$tmp/run/evaluation.json" experiment_name checkpoint_path schema_path schema metrics auc_ci brier gauc \
    data_diagnostics file_count total_row_groups total_rows warnings validation_predictions_path batch_size \
    num_workers telemetry observed_schema_paths
names "$tmp/run/evaluation_observed_schema.json" dataset_role dataset_path schema_path row_group_range \
    timestamp_range hash_split_filter row_group_count row_count schema seq_a ts_fid
names "$tmp/inf/inference_telemetry.json" $scored
names "$tmp/inf/predictions.json" predictions
names "$tmp/printed.json" checkpoint_path schema_path schema predictions_path prediction_count batch_size \
    num_workers telemetry

[ "$(wc -l <"$tmp/run/validation_predictions.jsonl")" -eq 300 ] &&
    head -n 1 "$tmp/run/validation_predictions.jsonl" |
    grep -qE '^\{"sample_index":0,"user_id":"[^"]*","score":0\.[0-9]+,"target":[01]\.0,"timestamp":[0-9]+\}$'
result validation_predictions $?
for log in run/logs/train.log run/evaluate.log inf/infer.log; do
    [ -s "$tmp/$log" ] && ! grep -vqE '^[0-9/]{8} [0-9:]{8} - [0-9]+:[0-9]{2}:[0-9]{2} - ' "$tmp/$log"
    result "log_$(basename $log)" $?
done
exit $failed

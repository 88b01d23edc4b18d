#!/usr/bin/env bash
# test_hostile.sh - what surrounds a program: streams that are closed or full, signals, odd files, numbers out of range.
. tests/driver/lib.sh
if [ ! -e build/libpcvr_parquet.so ]; then
    echo "skip hostile: no Parquet library (make deps)"
    exit 0
fi
small=tests/golden/data/small
model="--experiment models/onetrans.pcvr --model.ns.grouping_strategy singleton --model.d_model 16 --model.emb_dim 8
    --model.num_heads 2 --model.ns.user_tokens 2 --model.ns.item_tokens 1 --data.seq_max_lens seq_a:8,seq_b:8,seq_c:8
    --data.batch_size 20"
train="train $model --dataset-path $small --optimizer.max_steps 2"
bench="bench --model models/onetrans.pcvr --schema $small/schema.json"

# Numbers that say nothing are refused by name, not replaced by a default.
for flag in "--lanes 0" "--lanes -1" "--threads 0" "--batch-hint -1" "--batch-hint -9"; do
    expect "train_${flag// /_}" 2 "${flag% *}: expected an integer from" $train $flag
done
for flag in "--lanes -1" "--threads -1" "--batch-hint -1" "--vocab-cap -1" "--vocab-cap 0"; do
    expect "bench_${flag// /_}" 2 "${flag% *}: expected an integer from" $bench $flag
done
expect check_seed 2 "--seed: expected an integer from 0 on, found '-1'" \
    check --model models/onetrans.pcvr --case tests/golden/models/onetrans/tiny --seed -1
expect val_batch 2 "--batch-size: expected an integer from 1 on" \
    val --experiment models/onetrans.pcvr --dataset-path $small --batch-size 0
expect chunk_too_large 2 "--chunk: expected" $train --chunk 99999999999999999999
expect blank_before_number 2 "--lanes: expected" $train --lanes " 5"

for field in loss.terms data_pipeline.transforms; do
    expect "list_$field" 2 "--$field: a model file sets it (train { $field = [...] })" $train --$field "[]"
done

# A pipe among the files is no reason to wait.
cp -r $small "$tmp/piped"
mkfifo "$tmp/piped/x.parquet"
timeout 60 "$pcvr" train $model --dataset-path "$tmp/piped" --run-dir "$tmp/r" >"$tmp/out" 2>"$tmp/err"
[ $? -eq 1 ] && grep -q "x.parquet: not a regular file" "$tmp/err"
result pipe_among_files $?

# Sanitizers reserve more addresses than any limit leaves.
for schema in "$tmp/piped/x.parquet" /dev/zero; do
    ([ $sanitized -eq 1 ] || ulimit -v 4000000; timeout 60 "$pcvr" plan --model models/onetrans.pcvr --schema "$schema") >"$tmp/out" 2>"$tmp/err"
    [ $? -eq 1 ] && grep -q "$schema: not a regular file" "$tmp/err"
    result "schema_${schema##*/}" $?
done

mkfifo "$tmp/order" "$tmp/weights.safetensors"
timeout 60 "$pcvr" $train --run-dir "$tmp/r" --order "$tmp/order" >"$tmp/out" 2>"$tmp/err"
[ $? -eq 1 ] && grep -q "order: not a regular file" "$tmp/err"
result order_is_a_pipe $?
timeout 60 "$pcvr" $train --run-dir "$tmp/r" --init "$tmp/weights.safetensors" >"$tmp/out" 2>"$tmp/err"
[ $? -eq 1 ] && grep -q "weights.safetensors" "$tmp/err"
result weights_are_a_pipe $?

# The latest weights that cannot be reached are no reason to take earlier ones.
"$pcvr" $train --run-dir "$tmp/late" >"$tmp/out" 2>"$tmp/err"
mkdir "$tmp/late/global_step9"
expect late_without_weights 0 "AUC" val --experiment models/onetrans.pcvr --dataset-path $small --run-dir "$tmp/late"
ln -s model.safetensors "$tmp/late/global_step9/model.safetensors"
expect late_hidden 1 "global_step9/model.safetensors: cannot look for weights: " \
    val --experiment models/onetrans.pcvr --dataset-path $small --run-dir "$tmp/late"

# Pipes, and so devices, are written to; links stay links.
mkfifo "$tmp/pipe"
pcvrc=${BUILD:-build}/pcvrc
cat "$tmp/pipe" >"$tmp/rule" &
timeout 60 "$pcvrc" models/onetrans.pcvr -o "$tmp/gen" -MD -MF "$tmp/pipe" >"$tmp/out" 2>"$tmp/err"
[ $? -eq 0 ] && [ -p "$tmp/pipe" ] && wait && grep -q "onetrans.pcvr" "$tmp/rule" && ! ls "$tmp"/pipe.* 2>/dev/null
result pcvrc_to_a_pipe $?
cp "$tmp/gen/onetrans.c" "$tmp/wanted.c"
echo earlier >"$tmp/real.c"
ln -sf ../real.c "$tmp/gen/onetrans.c"
"$pcvrc" models/onetrans.pcvr -o "$tmp/gen" >"$tmp/out" 2>"$tmp/err"
[ -L "$tmp/gen/onetrans.c" ] && cmp "$tmp/real.c" "$tmp/wanted.c"
result pcvrc_to_a_link $?
val="val --experiment models/onetrans.pcvr --dataset-path $small --run-dir $tmp/piped_run"
"$pcvr" $train --run-dir "$tmp/piped_run" >"$tmp/out" 2>"$tmp/err"
cat "$tmp/pipe" >"$tmp/evaluation" &
timeout 60 "$pcvr" $val --output "$tmp/pipe" >"$tmp/out" 2>"$tmp/err"
[ $? -eq 0 ] && [ -p "$tmp/pipe" ] && wait && grep -q '"auc"' "$tmp/evaluation" && ! ls "$tmp"/pipe.* 2>/dev/null
result val_to_a_pipe $?
ln -s real.json "$tmp/link.json"
echo earlier >"$tmp/real.json"
"$pcvr" $val --output "$tmp/link.json" >"$tmp/out" 2>"$tmp/err"
[ -L "$tmp/link.json" ] && grep -q '"auc"' "$tmp/real.json"
result val_to_a_link $?

# A data set of one row, and numbers that synth would not follow.
expect synth_one_row 0 "1 rows" synth --output "$tmp/one" --rows 1
for flag in "--rows 0" "--files 0" "--max-len 0" "--group-rows -3" "--vocab-cap 49"; do
    expect "synth_${flag// /_}" 2 "${flag% *}: expected an integer from" synth --output "$tmp/none" $flag
done

# Files are not written through descriptors that belong to the streams.
"$pcvr" $train --run-dir "$tmp/closed" >&- 2>&- <&-
[ $? -eq 0 ] && ! grep -v '^{"step"' "$tmp/closed/steps.jsonl" && [ "$(wc -l <"$tmp/closed/steps.jsonl")" -eq 2 ]
result closed_streams $?
"$pcvr" $train --run-dir "$tmp/full" >/dev/full 2>"$tmp/err"
[ $? -eq 1 ] && grep -q "cannot write the output" "$tmp/err" && ls "$tmp"/full/global_step2*/model.safetensors >/dev/null
result full_output $?

# Signals end the step, save the weights, give 128 and their number. Whoever runs this may ignore them.
for signal in TERM:143 HUP:129; do
    rm -rf "$tmp/run" "$tmp/out"
    env --default-signal "$pcvr" $train --run-dir "$tmp/run" --optimizer.max_steps 10000000 --runtime.progress_log_interval_steps 1 \
        >"$tmp/out" 2>"$tmp/err" &
    pid=$!
    for _ in $(seq 600); do
        grep -qs "^step 2/" "$tmp/out" && break
        sleep 0.1
    done
    kill -"${signal%:*}" $pid
    wait $pid 2>/dev/null
    [ $? -eq "${signal#*:}" ] && grep -q "interrupted after step" "$tmp/out" &&
        ls "$tmp"/run/global_step*/model.safetensors >/dev/null && ! ls -d "$tmp"/run/*.tmp.* 2>/dev/null
    result "signal_${signal%:*}" $?
done
exit $failed

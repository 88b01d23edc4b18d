#!/usr/bin/env bash
# test_counts.sh - operations and kept bytes of a sample of each model at its defaults without projected
# tables, operations of a batch of 32 with them, and the bytes of activations at batch 256, are as recorded.
#
# Whatever changes what is pruned, recomputed or kept changes these numbers: if for the better, make
# bless records them anew in tests/golden/counts.json. Nothing is compiled, nothing is timed.
set -u
. tests/driver/lib.sh
golden=tests/golden/counts.json
fields="flops_needed flops_recomputed kept_bytes_per_sample"

# activations BATCH: their bytes, for the command line of the last plan with another batch
activations() {
    run plan "${flags[@]}" --batch "$1" && sed -n 's/^  "activation_bytes": \([0-9]*\),$/\1/p' "$tmp/out"
}

# counts MODEL CHOICE CAP FLAG...: one line of the recorded file
counts() {
    local model=$1 choice=$2 cap=$3 line field value
    shift 3
    flags=(--model "models/$model.pcvr" --schema models/official.json --checkpoint "$choice" --vocab-cap "$cap"
        --threads 2 --json "$@")
    run plan "${flags[@]}" --batch 1 --batch-hint 0 || return 1
    line="\"model\": \"$model\", \"checkpoint\": \"$choice\", \"vocab_cap\": $cap"
    for field in $fields; do
        value=$(sed -n "s/^  \"$field\": \([0-9]*\)\(\.0\)\{0,1\},\{0,1\}\$/\1/p" "$tmp/out")
        [ -n "$value" ] || return 1
        line="$line, \"$field\": $value"
    done
    run plan "${flags[@]}" --batch 32 --batch-hint 32 || return 1
    value=$(sed -n 's/^  "flops_needed": \([0-9]*\)\(\.0\)\{0,1\},\{0,1\}$/\1/p' "$tmp/out")
    [ -n "$value" ] || return 1
    line="$line, \"flops_batch_32\": $value"
    value=$(activations 256) && [ -n "$value" ] || return 1
    echo "  {$line, \"activation_bytes\": $value}"
}

number() { # field, file with one line of counts
    sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$2"
}

models=0
for path in models/*.pcvr; do
    model=$(basename "$path" .pcvr)
    models=$((models + 1))
    # The second vocabulary is the schema's own: none in it is as large.
    for cap in 5000 2000000000; do
        for choice in none blocks '*' sample; do
            name=${model}_${choice/\*/all}_$cap
            counts "$model" "$choice" $cap >"$tmp/$name"
            status=$?
            [ "${BLESS:-}" = 1 ] || grep -qxF "$(cat "$tmp/$name")" <(sed 's/,$//' "$golden")
            [ $? -eq 0 ] && [ $status -eq 0 ]
            status=$?
            if [ $status -ne 0 ]; then
                echo "recorded:" && grep -F "$(cut -d, -f1-3 "$tmp/$name")," "$golden"
                echo "counted:" && cat "$tmp/$name"
            fi
            [ "${BLESS:-}" = 1 ] && [ $status -eq 0 ] || result "$name" $status
            cat "$tmp/$name" >>"$tmp/all"
        done
        # Memory ignores the batch.
        counts "$model" blocks $cap >"$tmp/one" && more=$(activations 1024) &&
            [ $((100 * more)) -le $((105 * $(number activation_bytes "$tmp/one"))) ]
        result "${model}_batch_1024_$cap" $?
        # Each choice keeps less than the one before and computes more; blocks may keep all that none does, or nothing
        # that blocks recomputed by name do not.
        for pair in none:blocks:0 blocks:all:0 all:sample:1; do
            IFS=: read -r more less apart <<<"$pair"
            name=${model}_${more}_then_${less}_$cap
            more=$tmp/${model}_${more}_$cap less=$tmp/${model}_${less}_$cap
            [ $(($(number kept_bytes_per_sample "$less") + apart)) -le "$(number kept_bytes_per_sample "$more")" ] &&
                [ "$(number flops_recomputed "$less")" -ge $(($(number flops_recomputed "$more") + apart)) ] &&
                [ "$(number flops_needed "$less")" -eq "$(number flops_needed "$more")" ]
            result "$name" $?
        done
    done
done
if [ "${BLESS:-}" = 1 ]; then
    [ $failed -eq 0 ] && { echo "[" && sed '$!s/$/,/' "$tmp/all" && echo "]"; } >"$golden" &&
        echo "recorded $golden"
    exit $failed
fi

# The chunk of a plan is the emitted module's, so that the planned bytes are the measured ones.
for path in models/*.pcvr; do
    model=$(basename "$path" .pcvr)
    ${BUILD:-build}/pcvrc "$path" --schema models/official.json --checkpoint=none --emit=c -o "$tmp/c" 2>"$tmp/err" &&
        run plan --model "$path" --schema models/official.json --dropout model --batch 65536 --json &&
        chunk=$(sed -n 's/^ *\.default_chunk = \([0-9]*\),$/\1/p' "$tmp/c/$model.c") &&
        [ -n "$chunk" ] && grep -qF "\"chunk\": $chunk," "$tmp/out"
    result "${model}_chunk_as_emitted" $?
done

[ "$models" -ge 7 ]
result seven_models $?
{ echo "[" && sed '$!s/$/,/' "$tmp/all" && echo "]"; } | diff - "$golden" >"$tmp/out"
result nothing_else_recorded $?
# What is compared can differ: one more block is more work and more bytes.
for field in $fields activation_bytes; do
    counts onetrans blocks 5000 --model.num_blocks 3 >"$tmp/more" &&
        [ "$(number "$field" "$tmp/more")" -gt "$(number "$field" "$tmp/onetrans_blocks_5000")" ]
    result "one_more_block_$field" $?
done
exit $failed

#!/usr/bin/env bash
# test_check.sh - recorded onetrans cases through compiled modules: values, and the same bits for every
# chunk, number of threads and checkpoint choice.
. tests/driver/lib.sh
model=models/onetrans.pcvr
tiny=$cases/onetrans/tiny
check() { run check --model $model "$@"; }

# ---- values ------------------------------------------------------------------------------------
found=0
for dir in "$cases"/onetrans/*/; do
    [ $sanitized -eq 1 ] && [ "$(basename "$dir")" != tiny ] && continue
    found=$((found + 1))
    name=$(basename "$dir")
    for isa in $(isas); do
        PCVR_ISA=$isa check --case "$dir" --json &&
            grep -q "\"isa\": \"$isa\"" "$tmp/out" && grep -q '"pass": true' "$tmp/out"
        result "case_${name}_$isa" $?
    done
done
[ "$cases" != tests/golden/models ] && [ $sanitized -eq 0 ] && wanted=6 || wanted=1
[ "$found" -ge "$wanted" ]
result "found_${found}_cases" $?

# ---- the same bits -----------------------------------------------------------------------------
same() { # name, expected file, arguments
    local name=$1 want=$2
    shift 2
    check --case "$tiny" --grads "$tmp/got.st" "$@" && cmp "$want" "$tmp/got.st" >>"$tmp/err"
    result "$name" $?
}
for isa in $(isas); do
    export PCVR_ISA=$isa
    for lanes in 8 1 2; do
        [ $sanitized -eq 1 ] && [ $lanes -ne 8 ] && continue
        check --case "$tiny" --lanes $lanes --threads 1 --chunk 1 --grads "$tmp/want_$lanes.st"
        for chunk in 1 2 batch; do
            for threads in 1 2 4; do
                same "bits_${isa}_lanes_${lanes}_chunk_${chunk}_threads_$threads" \
                    "$tmp/want_$lanes.st" --lanes $lanes --chunk $chunk --threads $threads
            done
        done
    done
    same "bits_${isa}_poison" "$tmp/want_8.st" --poison
    same "bits_${isa}_poison_batch" "$tmp/want_8.st" --poison --chunk batch --threads 2
done
unset PCVR_ISA
check --case "$tiny" --grads "$tmp/want.st"

# Recomputation changes no bit, with chance in training too.
random="--model.dropout_rate 0.3 --seed 7"
check --case "$tiny" $random --grads "$tmp/chance.st"
result "chance_runs" $?
choices=(blocks sample blocks.0 '*')
[ $sanitized -eq 1 ] && choices=('*')
for choice in "${choices[@]}"; do
    same "bits_checkpoint_$choice" "$tmp/want.st" --checkpoint "$choice"
    same "bits_checkpoint_${choice}_chance" "$tmp/chance.st" --checkpoint "$choice" $random \
        --threads 2 --chunk batch
done
check --case "$tiny" --model.dropout_rate 0.3 --seed 8 --grads "$tmp/got.st"
! cmp -s "$tmp/chance.st" "$tmp/got.st"
result "another_seed_gives_other_bits" $?
same "chance_the_same_chunk_1" "$tmp/chance.st" $random --chunk 1 --threads 1

# ---- what is printed ---------------------------------------------------------------------------
for field in case checkpoint chunk lanes target isa pass loss loss_error logits_error \
    worst_gradient gradients; do
    check --case "$tiny" --json && grep -q "^  \"$field\": " "$tmp/out"
    result "json_$field" $?
done
expect "interpreter" 0 '"target": "interp"' check --model $model --case "$tiny" --target interp \
    --json
expect "logits_alone" 0 pass check --model $model --case "$tiny" --logits
expect "nothing_compared_seed" 0 "nothing compared" check --model $model --case "$tiny" --seed 3
expect "nothing_compared_configuration" 0 "nothing compared" check --model $model --case "$tiny" \
    --model.hidden_mult 3 --target interp

# ---- faults ------------------------------------------------------------------------------------
cp -r "$tiny" "$tmp/case"
sed -i 's/"expected_loss": 0\./"expected_loss": 1./' "$tmp/case/case.json"
expect "wrong_loss" 1 "loss: error" check --model $model --case "$tmp/case"
rm -f "$tmp"/case/grads.*
expect "no_gradients_recorded" 1 "" check --model $model --case "$tmp/case"
rm -f "$tmp/case/expected.safetensors"
expect "no_logits_recorded" 1 "no expected logits" check --model $model --case "$tmp/case"
printf x >"$tmp/case/batch.safetensors"
expect "broken_batch" 1 "batch.safetensors" check --model $model --case "$tmp/case"
expect "no_case" 1 "case.json" check --model $model --case "$tmp/nowhere"
expect "no_model" 1 "nowhere.pcvr" check --model "$tmp/nowhere.pcvr" --case "$tiny"
expect "unknown_choice" 2 "blocks.0" check --model $model --case "$tiny" --checkpoint blocks.7
expect "unknown_field" 2 "nope" check --model $model --case "$tiny" --model.nope 1
expect "unknown_flag" 2 "did you mean" check --modle $model --case "$tiny"
expect "unknown_target" 2 "cuda" check --model $model --case "$tiny" --target cuda
expect "bad_chunk" 2 "--chunk" check --model $model --case "$tiny" --chunk 0
expect "bad_lanes" 2 "--lanes" check --model $model --case "$tiny" --lanes 0
expect "nothing_given" 2 "--model" check
PCVR_CC=/nowhere/cc expect "no_compiler" 1 "PCVR_CC" check --model $model --case "$tiny"
PCVR_ISA=vax expect "unknown_isa" 1 "PCVR_ISA" check --model $model --case "$tiny"
XDG_CACHE_HOME=/dev/null expect "no_cache" 1 "XDG_CACHE_HOME" check --model $model --case "$tiny"
expect "unwritable_result" 1 "/nowhere" check --model $model --case "$tiny" --grads /nowhere/x/y.st

exit $failed

#!/usr/bin/env bash
# test_poison.sh - other values in padding, NaN in kept values, scratch, unused rows of tables and padded
# events: no bit changes in any of the seven models, forward or backward.
#
# Some models look at padding where a row holds nothing else: a mask that opens position 0 of
# an empty sequence (interformer, queryformer), the even weights of an empty summary (dualq), the
# first top_k positions of a sequence that is shorter (the encoder `longer`). Just those positions keep
# what is recorded; for dualq lengths are raised to 1.
#
# PCVR_SLOW=1 takes every recorded case.
. tests/driver/lib.sh
export PCVR_CFLAGS="${PCVR_CFLAGS:-} -O1"

# raised DIR LENGTH: a copy of a case in $tmp/case whose lengths are LENGTH at least
raised() {
    rm -rf "$tmp/case"
    cp -rL "$1" "$tmp/case"
    chmod -R u+w "$tmp/case"
    local file=$tmp/case/batch.safetensors header from to base at n changed=0
    n=$(od -An -tu8 -N8 "$file" | tr -d ' ')
    base=$((n + 8))
    header=$(tail -c +9 "$file" | head -c "$n" | tr -d ' ')
    while read -r from to; do
        for ((at = base + from; at < base + to; at += 8)); do
            n=$(od -An -td8 -j$at -N8 "$file" | tr -d ' ')
            [ "$n" -ge "$2" ] && continue
            printf "\\x$(printf %x "$2")\\0\\0\\0\\0\\0\\0\\0" |
                dd of="$file" bs=1 seek=$at conv=notrunc status=none
            changed=$((changed + 1))
        done
    done < <(grep -oE '"[a-z_]+_lengths":\{[^}]*\}' <<<"$header" |
        sed -E 's/.*"data_offsets":\[([0-9]+),([0-9]+)\].*/\1 \2/')
    [ $changed -gt 0 ]
}

# silent MODEL DIR FLAG...: no bit changes, rows that padding alone looks up were tried, and rows that
# nothing does
silent() {
    local model=$1 dir=$2
    shift 2
    run check --model "$model" --case "$dir" --seed 3 --poison --json "$@" &&
        grep -q '"pass": true' "$tmp/out" && grep -q '"rows": [1-9]' "$tmp/out" &&
        grep -q '"padding_rows": [1-9]' "$tmp/out"
}

# ---- what is found -------------------------------------------------------------------------------
# Documented looks at padding are seen: a program that ignored --poison would pass all the rest.
for model in interformer queryformer dualq; do
    expect "a_documented_leak_is_seen_$model" 1 "logits changes with other ids in padding" \
        check --model models/$model.pcvr --case "$cases/$model/tiny" --poison
done

# fault NAME MODEL FILE SED TEXT: a model with a fault that finite numbers or NaN bring to light
fault() {
    rm -rf "$tmp/models"
    cp -r models "$tmp/models"
    sed -i "$4" "$tmp/models/$3"
    ! cmp -s "models/$3" "$tmp/models/$3" &&
        expect "$1" 1 "$5" check --model "$tmp/models/$2.pcvr" --case "$cases/$2/tiny" --poison
}
fault "a_mean_over_padding" baseline lib/sequence.pcvr 's/sum(without(x, pad), axis = 0)/sum(x, axis = 0)/' \
    "logits changes with other ids in padding"
fault "a_product_instead_of_a_select" baseline lib/sequence.pcvr \
    's/^fn without(.*/fn without(x, closed) = x * unsqueeze(f32(not closed), 1)/' \
    "logits changes with NaN in padded events"
fault "a_query_that_sees_padding" tokenformer tokenformer.pcvr 's/else not pad\[j\] and (/else (/' \
    "logits changes with other ids in padding"

# ---- the seven models ----------------------------------------------------------------------------
# from MODEL CASE: the first position of padding that nothing may look at; dualq's lengths are raised
# to it
from() {
    case $1/$2 in
    baseline/longer_rope_topk | dualq/views_longer_rope_pairwise) echo 5 ;;
    interformer/* | queryformer/* | dualq/*) echo 1 ;;
    *) echo 0 ;;
    esac
}

found=0
for dir in "$cases"/*/*/; do
    dir=${dir%/}
    case=$(basename "$dir")
    model=$(basename "$(dirname "$dir")")
    case $case in
    tiny) ;;
    longer_rope_topk | views_longer_rope_pairwise) [ $sanitized -eq 0 ] || continue ;;
    *) [ -n "${PCVR_SLOW:-}" ] || continue ;;
    esac
    found=$((found + 1))
    from=$(from "$model" "$case")
    if [ "$model" = dualq ]; then
        raised "$dir" "$from" && silent "models/$model.pcvr" "$tmp/case"
    else
        silent "models/$model.pcvr" "$dir" --poison-from "$from"
    fi
    result "poison_${model}_$case" $?
done
wanted=7
[ "$cases" != tests/golden/models ] && [ $sanitized -eq 0 ] && wanted=9 &&
    [ -n "${PCVR_SLOW:-}" ] && wanted=35
[ $found -ge $wanted ]
result "found_${found}_cases" $?

# ---- flags ---------------------------------------------------------------------------------------
tiny=$cases/baseline/tiny
expect "logits_alone" 0 "poison" check --model models/baseline.pcvr --case "$tiny" --poison --logits
expect "from_needs_poison" 2 "poison-from" check --model models/baseline.pcvr --case "$tiny" \
    --poison-from 1
expect "from_below_0" 2 "poison-from" check --model models/baseline.pcvr --case "$tiny" --poison \
    --poison-from -4
expect "by_the_interpreter" 2 "--poison needs" check --model models/baseline.pcvr --case "$tiny" \
    --poison --target interp
exit $failed

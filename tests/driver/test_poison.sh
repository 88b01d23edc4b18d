#!/usr/bin/env bash
# test_poison.sh - other values in padding, NaN in kept values and scratch: no bit changes in
# any of the seven models, forward or backward.
#
# Some models look at padding where a row holds nothing else: a mask that opens position 0 of
# an empty sequence (interformer, queryformer), the even weights of an empty summary (dualq), the
# last top_k of a sequence that is shorter (the encoder `longer`). There lengths are raised until
# that does not happen; everything else is compared as recorded, empty sequences included.
. tests/driver/lib.sh

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

# bits MODEL DIR: the poisoned run's file is the same as the plain one's
bits() {
    local arguments="check --model models/$1.pcvr --case $2 --seed 3"
    run $arguments --grads "$tmp/plain.st" &&
        run $arguments --grads "$tmp/poisoned.st" --poison &&
        cmp "$tmp/plain.st" "$tmp/poisoned.st" >"$tmp/out"
}

# A program that ignored --poison would pass all the rest.
bits interformer "$cases/interformer/tiny"
[ $? -eq 1 ] && grep -q differ "$tmp/out"
result "a_documented_leak_is_seen" $?

for model in baseline onetrans tokenformer symbiosis; do
    bits $model "$cases/$model/tiny"
    result "poison_$model" $?
done
for model in interformer dualq queryformer; do
    raised "$cases/$model/tiny" 1 && bits $model "$tmp/case"
    result "poison_$model" $?
done

# Encoders of the last top_k: with as many events in every sequence.
for case in baseline/longer_rope_topk dualq/views_longer_rope_pairwise; do
    if [ ! -d "$cases/$case" ] || [ $sanitized -eq 1 ]; then
        echo "skip poison_$case: needs the recorded cases, without sanitizers"
        continue
    fi
    raised "$cases/$case" 5 && bits "${case%/*}" "$tmp/case"
    result "poison_$case" $?
done
exit $failed

#!/usr/bin/env bash
# test_cases.sh - every recorded case of the seven models through compiled modules: logits, loss and every
# gradient within the recorded limits, for every checkpoint choice and two chunks.
#
# The best instruction set runs every case and choice, the others run the tiny cases with all blocks
# recomputed; PCVR_SLOW=1 runs all on all. PCVR_CASE=text picks cases. Modules are compiled with -O1 here: there are
# many, each runs for a moment, and no bit depends on it.
. tests/driver/lib.sh
export PCVR_CFLAGS="${PCVR_CFLAGS:-} -O1"

one() { # case directory, instruction set, choice, chunk
    local dir=$1 isa=$2 choice=$3 chunk=$4 model name out
    model=$(basename "$(dirname "$dir")")
    name=case_${model}_$(basename "$dir")_${isa}_${choice}_chunk_$chunk
    if out=$(PCVR_ISA=$isa "$pcvr" check --model "models/$model.pcvr" --case "$dir" \
        --checkpoint "$choice" --chunk "$chunk" --json 2>&1) &&
        grep -q '"pass": true' <<<"$out" && grep -q "\"isa\": \"$isa\"" <<<"$out"; then
        echo "ok $name"
    else
        echo "FAIL $name"
        echo "$out"
        return 1
    fi
}
export -f one
export pcvr

best=$(isas | head -n 1)
found=0
for dir in "$cases"/*/*/; do
    id=$(basename "$(dirname "$dir")")/$(basename "$dir")
    [[ $id == *"${PCVR_CASE:-}"* ]] || continue
    [ $sanitized -eq 1 ] && [ "$(basename "$dir")" != tiny ] && continue
    found=$((found + 1))
    for isa in $(isas); do
        for choice in none blocks '*' sample; do
            if [ "$isa" != "$best" ] && [ -z "${PCVR_SLOW:-}" ]; then
                [ "$choice" = '*' ] && [ "$(basename "$dir")" = tiny ] || continue
            fi
            [ $sanitized -eq 1 ] && [ "$choice" != '*' ] && continue
            # The second run takes the module that the first one built.
            echo "one '$dir' $isa '$choice' 1; a=\$?; one '$dir' $isa '$choice' batch && [ \$a -eq 0 ]"
        done
    done
done >"$tmp/list"
found=$(grep -oE "^one '[^']*'" "$tmp/list" | sort -u | wc -l)
xargs -d '\n' -P "$(nproc)" -I{} bash -c '{}' <"$tmp/list" || failed=1

wanted=35
[ "$cases" = tests/golden/models ] || [ $sanitized -eq 1 ] && wanted=7
[ -n "${PCVR_CASE:-}" ] && wanted=1
[ "$found" -ge "$wanted" ]
result "found_${found}_cases" $?
exit $failed

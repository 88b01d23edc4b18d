#!/usr/bin/env bash
# test_readme_table.sh - the numbers of the README: its table of models and its plan are what pcvr plan says.
. tests/driver/lib.sh

plan() { "$pcvr" plan --schema models/official.json --batch 256 --threads 2 "$@"; }
value() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" <<<"$2"; }
commas() { sed -E ':a; s/([0-9])([0-9]{3})(,|$)/\1,\2\3/; ta' <<<"$1"; }
mib() { awk -v n="$1" 'BEGIN { printf "%.0f", n / 1048576 }'; }

found=0
for model in baseline interformer onetrans tokenformer symbiosis dualq queryformer; do
    none=$(plan --model models/$model.pcvr --checkpoint none --json)
    blocks=$(plan --model models/$model.pcvr --checkpoint blocks --json)
    all=$(plan --model models/$model.pcvr --checkpoint '*' --json)
    sample=$(plan --model models/$model.pcvr --checkpoint sample --json)
    row=""
    for plan in "$none" "$blocks" "$all"; do
        row="$row$(commas "$(value kept_bytes_per_sample "$plan")") | "
    done
    for plan in "$blocks" "$all" "$sample"; do
        row="$row$(mib "$(value activation_bytes "$plan")") | "
    done
    row=${row% }
    echo "$model: $row" >"$tmp/out"
    grep -E "^\| $model \|" README.md | grep -qF "| $row"
    result "row_$model" $?
    found=$((found + 1))
done
[ $found -eq 7 ]
result seven_rows $?

plan --model models/onetrans.pcvr --checkpoint blocks | head -n 9 >"$tmp/out"
while IFS= read -r line; do
    grep -qxF -- "$line" README.md
    result "plan_$(tr -cs 'a-z0-9' _ <<<"${line:0:18}")" $?
done <"$tmp/out"
exit $failed

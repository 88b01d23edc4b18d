#!/usr/bin/env bash
# test_golden.sh - the recorded module is what the compiler writes, byte for byte; BLESS=1 (make bless) records it anew.
set -u
pcvrc=$(realpath "${BUILD:-build}/pcvrc")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
result() { # name, condition's status
    if [ "$2" -eq 0 ]; then echo "ok $1"; else
        echo "FAIL $1"
        head -40 "$tmp/log"
        failed=1
    fi
}
emit() { # directory
    (cd tests/golden/emitted && "$pcvrc" tiny.pcvr --schema tiny.schema.json '--checkpoint=*' --emit=c,report \
        -o "$1") 2>"$tmp/log"
}

emit "$tmp/out"
result compiles $?
for kind in c report.txt; do
    if [ "${BLESS:-}" = 1 ]; then
        cp "$tmp/out/tiny.$kind" "tests/golden/emitted/tiny.$kind" && echo "recorded tests/golden/emitted/tiny.$kind"
        continue
    fi
    diff -u "tests/golden/emitted/tiny.$kind" "$tmp/out/tiny.$kind" >"$tmp/log"
    same=$?
    sed -i '1i what the compiler writes has changed: read the difference, then make bless' "$tmp/log"
    result "as_recorded_$kind" $same
done
[ "${BLESS:-}" = 1 ] && exit $failed
lines=$(wc -l <tests/golden/emitted/tiny.c)
[ "$lines" -lt 900 ]
result "short_enough_to_read" $?
# Another directory and another run change nothing.
cp tests/golden/emitted/tiny.pcvr tests/golden/emitted/tiny.schema.json "$tmp"
(cd "$tmp" && "$pcvrc" tiny.pcvr --schema tiny.schema.json '--checkpoint=*' --emit=c -o other) 2>"$tmp/log" &&
    cmp "$tmp/other/tiny.c" "$tmp/out/tiny.c" >>"$tmp/log" 2>&1
result same_bytes_elsewhere $?
# What is compared can differ.
(cd "$tmp" && "$pcvrc" tiny.pcvr --schema tiny.schema.json --checkpoint=none --emit=c -o none) 2>"$tmp/log"
! cmp -s "$tmp/none/tiny.c" "$tmp/out/tiny.c"
result another_choice_differs $?
exit $failed

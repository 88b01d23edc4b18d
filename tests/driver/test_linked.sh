#!/usr/bin/env bash
# test_linked.sh - two configurations of one model, named apart by --name, linked into one program.
. tests/driver/lib.sh
flags="-std=c11 -D_GNU_SOURCE -O1 -ffp-contract=off -fno-math-errno -Iruntime -Iruntime/kernels -DPCVR_ISA_SCALAR \
    ${PCVR_CFLAGS:-}"
cc=${CC:-cc}
model=tests/golden/emitted/tiny.pcvr
schema=tests/golden/emitted/tiny.schema.json

make_module() { # name, width
    "${BUILD:-build}/pcvrc" $model --schema $schema --name "$1" --set "d=$2" --checkpoint=blocks --emit=c \
        -o "$tmp/$1" 2>"$tmp/err" &&
        $cc $flags -Wall -Wextra -Wshadow -c -o "$tmp/$1.o" "$tmp/$1/$1.c" 2>>"$tmp/err" && [ ! -s "$tmp/err" ]
}
make_module small 8
result compiles_small $?
make_module large 24
result compiles_large $?
$cc $flags -o "$tmp/host" tests/driver/linked/host.c "$tmp/small.o" "$tmp/large.o" "${BUILD:-build}/libpcvr.a" \
    -ljansson -lm -ldl -lpthread 2>"$tmp/err"
result links $?

export PCVR_ISA=scalar
"$tmp/host" small large >"$tmp/both" 2>"$tmp/err"
result both_run $?
grep -q '^small scalar ' "$tmp/both" && grep -q '^large scalar ' "$tmp/both"
result both_say_their_names $?
"$tmp/host" large >"$tmp/alone" 2>"$tmp/err"
cmp "$tmp/alone" <(grep '^large' "$tmp/both") >>"$tmp/err" 2>&1
result neither_changes_the_other $?
[ "$(grep '^small' "$tmp/both" | cut -d' ' -f3-)" != "$(grep '^large' "$tmp/both" | cut -d' ' -f3-)" ]
result they_differ $?
exit $failed

#!/usr/bin/env bash
# test_pcvrc_mk.sh - the rules of "pcvrc --mk": a module is made again when what it depends on changes.
set -u
pcvrc=$(realpath "${BUILD:-build}/pcvrc")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
result() { # name, condition's status
    if [ "$2" -eq 0 ]; then echo "ok $1"; else
        echo "FAIL $1"
        tail -20 "$tmp/log"
        failed=1
    fi
}
build() { make -C "$tmp" PCVRC="$pcvrc" PCVRC_ISAS=scalar PCVRC_CFLAGS=-O0 "$@" >"$tmp/log" 2>&1; }

mkdir "$tmp/parts"
cat >"$tmp/mine.pcvr" <<'MODEL'
import "parts/scale.pcvr"
model Mine {
  param w: f32[3] = ones()
  forward() = reshape(sum(w * scale), [1])
}
MODEL
echo 'let scale = 2.0' >"$tmp/parts/scale.pcvr"
echo '{"format": "raw_parquet", "user_int": [[1, 5, 1]], "item_int": [[2, 5, 1]], "user_dense": [], "item_dense": [], "seq": {}}' \
    >"$tmp/schema.json"
cat >"$tmp/Makefile" <<'MAKE'
PCVRC_FLAGS := --checkpoint=sample
all:
include $(shell $(PCVRC) --mk)
all: $(PCVRC_MODULES)
MAKE

build && [ -s "$tmp/build/mine/mine.scalar.o" ] && grep -q 'checkpoint: sample' "$tmp/build/mine/mine.c"
result makes_a_module $?
build && ! grep -q pcvrc "$tmp/log"
result nothing_to_do $?
for changed in mine.pcvr parts/scale.pcvr schema.json; do
    before=$(stat -c %Y.%i "$tmp/build/mine/mine.scalar.o")
    sleep 1
    touch "$tmp/$changed"
    build && [ "$before" != "$(stat -c %Y.%i "$tmp/build/mine/mine.scalar.o")" ]
    result "made_again_after_$(basename $changed)" $?
done
echo 'let other = 1' >"$tmp/parts/other.pcvr"
build && ! grep -q pcvrc "$tmp/log"
result other_files_do_not_matter $?
echo 'let scale = ' >"$tmp/parts/scale.pcvr"
before=$(md5sum <"$tmp/build/mine/mine.c")
! build && grep -q 'parts/scale.pcvr:1:12: error: expected an expression' "$tmp/log" && [ "$before" = "$(md5sum <"$tmp/build/mine/mine.c")" ]
result a_fault_leaves_the_module $?
exit $failed

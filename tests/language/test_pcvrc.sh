#!/usr/bin/env bash
# test_pcvrc.sh - the command line of pcvrc: options, exit status, files.
set -u
pcvrc=${BUILD:-build}/pcvrc
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

result() { # name, condition's status
    if [ "$2" -eq 0 ]; then echo "ok $1"; else
        echo "FAIL $1"
        cat "$tmp/out" "$tmp/err"
        failed=1
    fi
}
run() { "$pcvrc" "$@" >"$tmp/out" 2>"$tmp/err"; }
# expect NAME STATUS TEXT ARGUMENT...: exit status, and a text in the output
expect() {
    local name=$1 status=$2 text=$3
    shift 3
    run "$@"
    [ $? -eq "$status" ] && grep -qF -- "$text" "$tmp/out" "$tmp/err"
    result "$name" $?
}

cat >"$tmp/tiny.pcvr" <<'MODEL'
import "part.pcvr"
config d: int = 3 in 1..
block Part(d: int) {
  param w: f32[d] = ones()
  forward(x: f32[d]) = x * w * scale
}
model Tiny {
  param start: f32[d] = normal(1.0)
  blocks[i]: Part(d) for i in 0..2
  forward() -> f32[1] {
    var x = start
    for b in blocks { x = b(x) }
    return reshape(sum(x), [1])
  }
}
MODEL
echo 'let scale = 2.0' >"$tmp/part.pcvr"
cat >"$tmp/schema.json" <<'SCHEMA'
{"format": "raw_parquet", "user_int": [[1, 5, 1]], "item_int": [[2, 5, 1]], "user_dense": [], "item_dense": [], "seq": {}}
SCHEMA
tiny=$tmp/tiny.pcvr

expect help 0 'usage: pcvrc' --help
expect version 0 'pcvrc 0.' --version
expect no_model 2 'expected a model file'
expect two_models 2 'expected one model file' "$tiny" "$tiny"
expect unknown_option 2 "unknown option '--wat'" "$tiny" --wat
expect unknown_option_value 2 "unknown option '--wat=3'" "$tiny" --wat=3
expect missing_value 2 '--schema needs a value' "$tiny" --schema
expect unknown_emit 2 "--emit: expected" "$tiny" --emit=c,wat
expect unknown_pass 2 "--dump: there is no pass 'wat'" "$tiny" --dump=wat
expect bad_name 2 '--name: expected' "$tiny" --name=a/b
expect missing_file 1 "cannot read '$tmp/none.pcvr'" "$tmp/none.pcvr"
expect missing_schema 1 'none.json' "$tiny" --schema="$tmp/none.json"
expect unknown_field 2 "wat" "$tiny" --set wat=3
expect value_out_of_range 1 "'d' must be in" "$tiny" --set d=0
expect unknown_checkpoint 2 "blocks.7" "$tiny" --checkpoint=blocks.7
expect dump 0 'logits %' "$tiny" --dump=simplify
expect dump_sweep 0 'acc %' "$tiny" --checkpoint blocks --dump sweep
expect deps_need_md 2 '-MF, -MT and -MP need -MD' "$tiny" -MF "$tmp/x.d"

run "$tiny" --emit=ast,graph -o "$tmp/a/b" --set d=4 -MD -MP --name other
[ $? -eq 0 ] && grep -q 'f32\[4\]' "$tmp/a/b/other.graph.txt" && grep -q '(model Tiny' "$tmp/a/b/other.ast.txt" &&
    grep -q "^$tmp/a/b/other.ast.txt:" "$tmp/a/b/other.d" && grep -q "^$tmp/part.pcvr:\$" "$tmp/a/b/other.d" &&
    grep -q 'schema.json' "$tmp/a/b/other.d" && [ "$(ls "$tmp/a/b" | wc -l)" -eq 3 ]
result outputs $?

run "$tiny" -o "$tmp/d" --checkpoint=blocks
[ $? -eq 0 ] && grep -q 'pcvr_module MODULE' "$tmp/d/tiny.c" && ! grep -q "$tmp" "$tmp/d/tiny.c" &&
    python3 - "$tmp/d/tiny.report.json" <<'CHECK' && grep -q 'peak' "$tmp/d/tiny.report.txt"
import json, sys
r = json.load(open(sys.argv[1]))
p = r["plan"]
parts = ["parameter_bytes", "gradient_bytes", "row_store_bytes", "input_bytes", "activation_bytes"]
assert p["planned_peak_bytes"] == sum(p[k] for k in parts) and p["batch"] == 256
assert r["checkpoint"] == "blocks" and r["configuration"]["d"] == 3
assert sum(x["kept_bytes"] for x in r["regions"]) == r["kept_bytes_per_sample"]
assert {x["block"] for x in r["regions"]} >= {"blocks.0", "blocks.1"}
assert all(x["kept"] + x["made_again"] > 0 for x in r["values"])
CHECK
result module_and_report $?

# The program that runs modules plans the same bytes.
"${BUILD:-build}/pcvr" plan --model "$tiny" --schema "$tmp/schema.json" --batch 256 --threads 1 --checkpoint blocks \
    --json >"$tmp/out" 2>"$tmp/err"
[ $? -eq 0 ] && python3 - "$tmp/d/tiny.report.json" "$tmp/out" <<'CHECK'
import json, sys
ours, theirs = json.load(open(sys.argv[1]))["plan"], json.load(open(sys.argv[2]))
same = [k for k in ours if k.endswith("_bytes")]
assert len(same) == 6 and all(ours[k] == theirs[k] for k in same), (ours, theirs)
CHECK
result report_plans_as_pcvr_does $?

cp -r "$tmp/a" "$tmp/before"
run "$tiny" --emit=ast,graph -o "$tmp/a/b" --set d=4 -MD -MP --name other
[ $? -eq 0 ] && diff -r "$tmp/a" "$tmp/before" >/dev/null
result same_bytes $?

run "$tiny" --emit=ast,graph -o "$tmp/c" --set d=0
[ $? -eq 1 ] && [ ! -e "$tmp/c" ]
result no_output_after_an_error $?

mkdir -p "$tmp/blocked/tiny.graph.txt/x"
run "$tiny" --emit=graph -o "$tmp/blocked"
[ $? -eq 1 ] && grep -q "cannot write '$tmp/blocked/tiny.graph.txt'" "$tmp/err" && [ "$(ls "$tmp/blocked" | wc -l)" -eq 1 ]
result nothing_half_written $?

# A disk that is full behind the first file: neither is there, and no temporary one.
size=$(stat -c %s "$tmp/d/tiny.c")
report=$(stat -c %s "$tmp/d/tiny.report.json")
[ "$report" -gt "$size" ] && size=$report
(
    trap '' XFSZ
    ulimit -f $(((size + 1023) / 1024 - 1))
    "$pcvrc" "$tiny" -o "$tmp/full" --checkpoint=blocks >"$tmp/out" 2>"$tmp/err"
)
[ $? -eq 1 ] && grep -q "cannot write '$tmp/full/" "$tmp/err" && [ -z "$(ls "$tmp/full")" ]
result neither_file_on_a_full_disk $?

mkdir "$tmp/lib" && mv "$tmp/part.pcvr" "$tmp/lib"
expect import_missing 1 "cannot find 'part.pcvr'" "$tiny"
expect import_include 0 'logits %' "$tiny" -I "$tmp/lib" --dump=simplify
expect import_include_joined 0 'logits %' "$tiny" -I"$tmp/lib" --dump=simplify

echo 'import "onetrans.pcvr"  config seq_top_k: int = 7' >"$tmp/mine.pcvr"
rm "$tmp/schema.json"
expect installed_models 0 'official.json' "$tmp/mine.pcvr" --dump=elaborate

expect installed_by_name 0 'logits %' tokenformer --dump=elaborate
expect unknown_by_name 1 "cannot read 'tokenformr'" tokenformr
mkdir "$tmp/folder" && cp "$tmp/mine.pcvr" "$tmp/folder/model.pcvr"
expect folder 0 'logits %' "$tmp/folder/" --dump=elaborate
run "$tmp/folder" --emit=graph -o "$tmp/named"
[ $? -eq 0 ] && [ -e "$tmp/named/folder.graph.txt" ]
result folder_names_the_module $?
mkdir "$tmp/empty"
expect folder_without_model 1 "cannot read '$tmp/empty/model.pcvr'" "$tmp/empty"
expect near_choice 2 "did you mean 'blocks'?" "$tmp/folder" --checkpoint=block
expect unknown_domain 0 "has no domain seq_x" "$tmp/folder" --set data.seq_max_lens=seq_x:3,seq_a:4 --dump=elaborate

echo 'import "onetran.pcvr"' >"$tmp/near.pcvr"
expect import_lists_models 1 'installed models are baseline.pcvr, dualq.pcvr, ' "$tmp/near.pcvr"
expect import_suggests 1 "did you mean 'onetrans.pcvr'?" "$tmp/near.pcvr"
cat >"$tmp/unused.pcvr" <<'MODEL'
import "onetrans.pcvr"
block OneTransBlok(d: int, heads: int, mult: int, ns: int, p: float) {
  forward(x: f32[T, d], pad: bool[T]) = x
}
MODEL
expect unused_block 0 "unused.pcvr:2:7: warning: nothing uses 'OneTransBlok'" "$tmp/unused.pcvr" --dump=elaborate
expect unused_block_suggests 0 "did you mean 'OneTransBlock'?" "$tmp/unused.pcvr" --dump=elaborate

# The example of the language's page is a model.
awk '/^```/ { n++; next } n == 1' compiler/LANGUAGE.md >"$tmp/toy.pcvr"
expect page_example 0 'blocks.1.down.weight' "$tmp/toy.pcvr" --dump=sweep --checkpoint=blocks

run "$tmp/lib/part.pcvr"
[ $? -eq 1 ] && grep -q ':1:1: error: no model' "$tmp/err" && grep -q '^    1 | let scale = 2.0$' "$tmp/err" &&
    grep -q '^      | ^$' "$tmp/err"
result message_form $?
exit $failed

#!/usr/bin/env bash
# test_bench_tools.sh - make bench and make bench-peers on a small model: their tables, not their times.
. tests/driver/lib.sh
[ $sanitized -eq 1 ] && { echo "skip bench_tools: nothing here that driver_bench does not run with sanitizers"; exit 0; }
# The modules are those of the driver's test of bench.
small="--model.d_model 16 --model.emb_dim 8 --model.num_heads 2 --model.hidden_mult 2
       --model.emb_skip_threshold 0 --model.ns.grouping_strategy singleton
       --model.ns.user_tokens 2 --model.ns.item_tokens 2"
common="--build ${BUILD:-build} --out $tmp --schema $cases/onetrans/tiny/schema.json --model onetrans --batch 8"

python3 tests/bench/bench.py $common --iters 1 --tries 1 -- $small >"$tmp/out" 2>"$tmp/err"
result bench $?
table=$(echo "$tmp"/bench-*.md)
for choice in none:batch none blocks '`\*`' sample; do
    grep -qE "^\| onetrans \| +$choice \| +(batch|[0-9]+) \| +[0-9.]+\*? \|" "$table"
    result "bench_row_${choice//[^a-z:]/}" $?
done
grep -qE "\| +blocks .* [0-9.]+ \| +[0-9.]+ \|$" "$table"
result bench_ratios $?
python3 - "$tmp"/bench-*.json >"$tmp/out" 2>&1 <<'EOF'
import json, sys
x = json.load(open(sys.argv[1]))["models"][0]
assert x["ratio_blocks_none_batch"] > 0 and x["ratio_blocks_fastest"] >= 1
for name, c in x["choices"].items():
    flops = c["flops_needed"] + c["flops_recomputed"]
    share = flops / c["step_s"]["median"] / c["fma_peak_gflops"] / 1e9
    assert abs(c["peak_share"] / share - 1) < 1e-9, name
assert x["choices"]["none:batch"]["chunk"] == "batch"
EOF
result bench_json $?

mkdir "$tmp/upstream" "$tmp/upstream/experiments"
peers() { python3 tests/bench/bench_peers.py $common --iters 1 --rounds 2 --max-rounds 2 --python python3 \
    --peer tests/bench/fake_peer.py "$@" -- $small >"$tmp/out" 2>"$tmp/err"; }
peers --upstream "$tmp/upstream"
result peers $?
python3 - "$tmp"/peers-*.json >"$tmp/out" 2>&1 <<'EOF'
import json, sys
v = json.load(open(sys.argv[1]))["models"][0]["variants"]
assert list(v) == ["ours", "eager", "checkpoint"], v
assert v["eager"]["ms_per_sample"]["median"] == 500 and v["checkpoint"]["ms_per_sample"]["median"] == 625
ours = v["ours"]["ms_per_sample"]
assert ours["min"] <= ours["median"] <= ours["max"] and ours["n"] <= 2
assert abs(v["eager"]["ratio"] - ours["median"] / 500) < 1e-12
assert v["eager"]["saved_bytes"] == 1 << 30 and 0 < v["ours"]["peak_share"] < 1
EOF
result peers_json $?
grep -qE "^\| onetrans \| +[0-9]+ \|.* 500\.00\*? \(500\.00-500\.00\) \|" "$tmp"/peers-*.md
result peers_table $?

# ---- faults ------------------------------------------------------------------------------------
fails() { # name, text, command...
    local name=$1 text=$2
    shift 2
    ! "$@" && grep -qF -- "$text" "$tmp/err"
    result "$name" $?
}
fails no_such_mode "fake_peer: no such mode" peers --upstream "$tmp/upstream" --modes broken
fails no_checkout "no directory experiments" peers --upstream "$tmp"
fails no_torch "pip install torch" peers --upstream "$tmp/upstream" --python /bin/false \
    --peer tests/bench/peer_torch.py
fails no_model "no model 'none'" peers --upstream "$tmp/upstream" --model none
exit $failed

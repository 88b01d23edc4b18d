#!/usr/bin/env bash
# test_choices.sh - small models that a checkpoint choice cuts at an odd place: they compile, and weights after two
# steps have the same bits for every choice.
. tests/driver/lib.sh

cat >"$tmp/cut.pcvr" <<'MODEL'
layer Linear(n: int, m: int) {
  param weight: f32[m, n] = xavier_uniform()
  param bias: f32[m] = normal(0.1)
  forward(x: f32[T, n]) = x @ weight' + bias
}
block Product(d: int) {
  param weight: f32[d, d] = xavier_uniform()
  forward(x: f32[T, d]) = x @ weight
}
# What is added to the product of another block, with which it would be one statement.
block Bias(d: int) {
  param bias: f32[d] = normal(0.1)
  forward(x: f32[T, d]) = silu(x + bias)
}
# Attention of no queries, and a sum over no rows.
block Nothing(d: int) {
  q: Linear(d, d)
  k: Linear(d, d)
  v: Linear(d, d)
  out: Linear(d, d)
  forward(x: f32[T, d]) = sum(out(attend(q(x[0:0]), k(x), v(x), 2, mask = (i, j) => i <= j)), axis = 0)
}
model Cut {
  let dom = schema.sequences[0]
  param events: f32[dom.vocabs[0] + 1, 32] = normal(0.5) with table, padding
  product[i]: Product(32) for i in 0..2
  bias[i]: Bias(32) for i in 0..2
  nothing: Nothing(32)
  param score: f32[32] = normal(0.1)
  forward() -> f32[1] {
    var x = embed(events, dom.events[0])
    for i in 0..2 { x = x + bias[i](product[i](x)) }
    return reshape(sum((nothing(x) + mean(x, axis = 0)) * score), [1])
  }
}
train { data.seq_max_lens = "seq_a:12" }
MODEL

weights() { # choice
    rm -rf "$tmp/run"
    run train --experiment "$tmp/cut.pcvr" --dataset-path tests/golden/data/small --run-dir "$tmp/run" \
        --checkpoint "$1" --optimizer.max_steps 2 --data.batch_size 16 && cp "$tmp"/run/global_step2*/model.safetensors "$tmp/got"
}
weights none && cp "$tmp/got" "$tmp/want"
result none $?
for choice in blocks sample '*' 'product.*' 'bias.*' 'product.*,bias.1' 'bias.0,nothing'; do
    weights "$choice" && cmp "$tmp/want" "$tmp/got" >>"$tmp/err"
    result "bits_$choice" $?
done
exit $failed

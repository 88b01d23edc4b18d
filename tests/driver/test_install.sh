#!/usr/bin/env bash
# test_install.sh - an installed tree, moved, with no source tree in sight: an experiment folder trains, is
# validated and builds its module with make.
set -u
build=${BUILD:-build}
if [ "$build" != build ]; then
    echo "skip install: what is installed is the plain build, not one with sanitizers"
    exit 0
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export XDG_CACHE_HOME=$PWD/$build/cache
mkdir -p "$XDG_CACHE_HOME"
unset PCVR_INCLUDE PCVR_PARQUET MAKEFLAGS MAKELEVEL MFLAGS PCVRC
failed=0
result() { # name, condition's status
    if [ "$2" -eq 0 ]; then echo "ok $1"; else
        echo "FAIL $1"
        tail -20 "$tmp/log"
        failed=1
    fi
}

make -s install DESTDIR="$tmp/stage" PREFIX="/opt/some where" >"$tmp/log" 2>&1
result install $?
make -s install DESTDIR="$tmp/again" PREFIX=/usr >"$tmp/log" 2>&1 &&
    make -s uninstall DESTDIR="$tmp/again" PREFIX=/usr >>"$tmp/log" 2>&1 &&
    [ -z "$(find "$tmp/again" -type f | tee -a "$tmp/log")" ]
result uninstall_leaves_no_file $?
mkdir "$tmp/elsewhere" && mv "$tmp/stage/opt/some where" "$tmp/elsewhere/pcvr" 2>"$tmp/log"
result moved $?
[ $failed -eq 0 ] || exit 1
cp -r tests/golden/data/small "$tmp/data"
export PATH=$tmp/elsewhere/pcvr/bin:$PATH
mkdir -p "$tmp/build/mine" && cd "$tmp/build" || exit 1

# ---- an experiment: a model with one block changed, small defaults, and its own import ------------
cat >mine/model.pcvr <<'E2'
import "onetrans.pcvr"
import "gate.pcvr"

block OneTransBlock(d: int, heads: int, mult: int, ns: int, p: float) {
  attn_norm: RMSNorm(d)
  attention: MixedCausalAttention(d, heads, ns, p)
  gate: Gate(d)
  forward(x: f32[T, d], pad: bool[T]) -> f32[T, d] = x + gate(attention(attn_norm(x), pad))
}

train {
  data.seq_max_lens = "seq_a:8,seq_b:8,seq_c:8"
  data.batch_size = 20
  model.ns.grouping_strategy = "singleton"
  model.ns.user_tokens = 2
  model.ns.item_tokens = 1
  model.d_model = 16
  model.emb_dim = 8
  model.num_heads = 2
}
E2
cat >mine/gate.pcvr <<'E2'
layer Gate(d: int) {
  param weight: f32[d] = constant(0.5)
  forward(x: f32[T, d]) = x * weight
}
E2
cp "$tmp/data/schema.json" mine/schema.json

pcvr train --experiment mine --dataset-path "$tmp/data" --run-dir run --optimizer.max_steps 2 \
    --model.gradient_checkpointing --json >"$tmp/out" 2>"$tmp/log"
result train_experiment_folder $?
grep -q '"checkpoint":"blocks"' "$tmp/out" && grep -q '"experiment_name":"[a-z_]*mine"' "$tmp/out"
result train_summary $?
weights=$(echo run/global_step2*/model.safetensors)
grep -aq '"blocks.1.gate.weight"' "$weights" && ! grep -aq 'ffn_norm' "$weights"
result the_changed_block_is_trained $?
grep -q '"d_model": 16' "${weights%/*}/train_config.json"
result its_defaults_are_saved $?
pcvr val --experiment mine --dataset-path "$tmp/data" --run-dir run --json >"$tmp/out" 2>"$tmp/log" &&
    [ -s run/evaluation.json ] && [ -s run/validation_predictions.jsonl ]
result val $?
pcvr infer --experiment mine --dataset-path "$tmp/data" --checkpoint run --result-dir inf >"$tmp/log" 2>&1 &&
    grep -q '"predictions"' inf/predictions.json
result infer $?
pcvr train --experiment onetrans --dataset-path "$tmp/data" --dry-run --model.ns.grouping_strategy singleton \
    --model.d_model 16 --model.emb_dim 8 --model.num_heads 2 --data.seq_max_lens seq_a:8,seq_b:8,seq_c:8 \
    >"$tmp/log" 2>&1
result installed_model_by_name $?

# ---- its module, by make ---------------------------------------------------------------------------
cat >mine/other.pcvr <<'E2'
model Other {
  param w: f32[3] = ones()
  forward() = reshape(sum(w), [1])
}
E2
cat >mine/main.c <<'E2'
#include <stdio.h>
#include "pcvr.h"
extern const pcvr_module pcvr_model_scalar, pcvr_other_scalar;
int
main(void)
{
    const pcvr_module *const list[] = {&pcvr_model_scalar};
    char err[256];
    const pcvr_module *m = pcvr_module_find(list, 1, err, sizeof err);
    printf("%s %d %s\n", m ? m->checkpoint : err, pcvr_other_scalar.n_params, m ? m->isa : "");
    return m == NULL;
}
E2
cat >mine/Makefile <<'E2'
PCVRC_FLAGS := --checkpoint=blocks
PCVRC_MODELS := model.pcvr other.pcvr
include $(shell pcvrc --mk)
program: main.o $(PCVRC_MODULES)
	$(CC) -o $@ $^ $(PCVRC_LIBS)
main.o: main.c
	$(CC) -I$(PCVRC_HEADERS) -c -o $@ $<
E2
build() { make -C mine PCVRC_ISAS=scalar PCVRC_CFLAGS=-O0 >"$tmp/log" 2>&1; }
build
result make_builds_the_module $?
[ "$(PCVR_ISA=scalar mine/program)" = "blocks 1 scalar" ]
result the_program_runs $?
build && ! grep -q pcvrc "$tmp/log"
result nothing_to_do $?

stamp() { stat -c '%y %i' "mine/build/$1/$1.scalar.o"; }
# touched NAME FILE: the model is made again, the other one is not
touched() {
    local model other
    model=$(stamp model) other=$(stamp other)
    sleep 0.1
    touch "$2"
    build && [ "$model" != "$(stamp model)" ] && [ "$other" = "$(stamp other)" ] && [ mine/program -nt "$2" ]
    result "made_again_after_$1" $?
}
touched the_model mine/model.pcvr
touched its_import mine/gate.pcvr
touched an_installed_import "$tmp/elsewhere/pcvr/share/pcvrc/models/lib/nn.pcvr"
model=$(stamp model) other=$(stamp other)
sleep 0.1
touch mine/schema.json
build && [ "$model" != "$(stamp model)" ] && [ "$other" != "$(stamp other)" ]
result both_made_again_after_the_schema $?
touch "$tmp/elsewhere/pcvr/share/pcvrc/models/baseline.pcvr" mine/unrelated.pcvr
build && ! grep -q pcvrc "$tmp/log"
result other_files_do_not_matter $?
exit $failed

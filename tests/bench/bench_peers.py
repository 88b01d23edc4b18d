#!/usr/bin/env python3
"""bench_peers.py - a step with checkpointed blocks against PyTorch's. Run by make bench-peers.

Alternating rounds: a few steps of pcvr bench, then as many of each PyTorch mode (peer_torch.py, one process a
mode, glibc's malloc tuned so that memory is not given back between steps), the order turned by one each round.
A round's value is the median of its steps; rounds in which other processes had over 5 % of the machine are
dropped, and rounds go on up to --max-rounds until --rounds are clean. Where fewer than three were clean, all
count, and the value bears a *. Writes BUILD/bench/peers-ISA.md and .json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import common

NEEDS = "torch numpy pydantic orjson loguru tyro tqdm safetensors pyarrow"
# Blocks stay in the heap, which is neither trimmed nor grown in small steps.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "268435456",
}


class Peer:
    """A PyTorch process with one model in one mode."""

    def __init__(self, a, model, mode):
        command = [a.python, a.peer, "--upstream", a.upstream, "--schema", a.schema, "--batch", str(a.batch)]
        command += ["--threads", str(a.threads), "--vocab-cap", str(a.vocab_cap)]
        self.log = open(f"{a.out}/peer-{model}-{mode}.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, **MALLOC},
        )
        self.name = f"{model} {mode}"
        self.about = self.ask(f"build {model} {mode}")

    def ask(self, request):
        try:
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self.process.wait()
            self.log.seek(0)
            sys.exit(f"bench-peers: PyTorch, {self.name}: {request}: no answer\n{self.log.read()[-3000:]}")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.log.close()


class Round:
    """The rounds of one variant."""

    def __init__(self):
        self.values, self.shares, self.runs = [], [], []

    def add(self, value, share, ran=None):
        self.values.append(value)
        self.shares.append(share)
        self.runs.append(ran)

    def clean(self):
        return [k for k, s in enumerate(self.shares) if s <= common.DISTURBED]

    def used(self):
        clean = self.clean()
        return clean if len(clean) >= min(3, len(self.values)) else list(range(len(self.values)))

    def result(self, batch):
        out = common.spread([1e3 * self.values[k] / batch for k in self.used()])
        return {
            "ms_per_sample": out,
            "rounds": len(self.values),
            "clean_rounds": len(self.clean()),
            "quiet": len(self.clean()) >= min(3, len(self.values)),
            "disturbed": self.shares,
            "step_s": self.values,
        }


def our_round(a, model, rounds):
    ran = common.pcvr_bench(a, model, "blocks")
    rounds.add(ran["step_s"]["median"], ran["disturbed"], ran)


def peer_round(a, peer, rounds):
    watch = common.Watch(a.own)
    seconds = [peer.ask("step")["s"] for _ in range(a.iters)]
    rounds.add(statistics.median(seconds), watch.stop())


def measure(a, model):
    common.pcvr_bench(a, model, "blocks", iters=1)  # compiled, and kept in the cache
    a.own = ()
    peers = {}
    for mode in a.modes.split(","):
        peers[mode] = Peer(a, model, mode)
        a.own = (*a.own, peers[mode].process.pid)
    saved = {mode: p.ask("saved") for mode, p in peers.items() if mode != "compile"}
    rounds = {name: Round() for name in ["ours", *peers]}
    order = list(rounds)
    for k in range(a.max_rounds):
        for name in order:
            time.sleep(0.05)  # threads of the one before stop waiting for work
            if name == "ours":
                our_round(a, model, rounds[name])
            else:
                peer_round(a, peers[name], rounds[name])
        order = order[1:] + order[:1]
        if k + 1 >= a.rounds and all(len(r.clean()) >= a.rounds for r in rounds.values()):
            break
    for p in peers.values():
        p.close()
    return result_of(a, model, rounds, peers, saved)


def result_of(a, model, rounds, peers, saved):
    out = {"model": model, "variants": {name: r.result(a.batch) for name, r in rounds.items()}}
    ours = out["variants"]["ours"]
    runs = [rounds["ours"].runs[k] for k in rounds["ours"].used()]
    ran = min(runs, key=lambda r: abs(r["step_s"]["median"] - 1e-3 * ours["ms_per_sample"]["median"] * a.batch))
    for field in ("isa", "chunk", "flops_needed", "flops_recomputed", "activation_bytes", "rss_peak_bytes"):
        ours[field] = ran[field]
    ours["fma_peak_gflops"] = max(r["fma_peak_gflops"] for r in runs)
    ours["peak_share"] = common.peak_share(ran, ours["fma_peak_gflops"])
    for mode, p in peers.items():
        v = out["variants"][mode]
        v.update(p.about)
        v.update(saved.get(mode, {}))
        v["ratio"] = ours["ms_per_sample"]["median"] / v["ms_per_sample"]["median"]
    return out


def cell(v):
    m = v["ms_per_sample"]
    return f"{m['median']:.2f}{'' if v['quiet'] else '*'} ({m['min']:.2f}-{m['max']:.2f})"


def row_of(a, x):
    v = x["variants"]
    ours, modes = v["ours"], [m for m in v if m != "ours"]
    row = [x["model"], ours["chunk"], cell(ours), *[cell(v[m]) for m in modes]]
    row += [f"{v[m]['ratio']:.3f}" for m in modes]
    row += [f"{100 * ours['peak_share']:.0f} %", f"{1e-9 * ours['flops_needed'] / a.batch:.2f}"]
    row += [f"{1e-9 * ours['flops_recomputed'] / a.batch:.2f}", f"{ours['activation_bytes'] / 2**20:.0f}"]
    row += [f"{v[m]['saved_bytes'] / 2**20:.0f}" for m in modes if "saved_bytes" in v[m]]
    return row + [" ".join(f"{r['clean_rounds']}/{r['rounds']}" for r in v.values())]


def report(a, results):
    first = results[0]["variants"]
    modes = [m for m in first if m != "ours"]
    head = ["model", "chunk", "blocks", *modes, *[f"/ {m}" for m in modes], "of peak", "GFLOP needed", "again"]
    head += ["activation MiB", *[f"{m} saved MiB" for m in modes if "saved_bytes" in first[m]], "clean rounds"]
    m, isa = common.machine(), first["ours"]["isa"]
    about = first[modes[0]].get("torch", "")
    text = [
        f"# A step of each model with blocks checkpointed ({isa}) against PyTorch {about}",
        "",
        f"Milliseconds a sample, median of rounds (least to most); batch {a.batch}, {a.threads} threads, vocabularies up "
        f"to {a.vocab_cap}, full lengths, dropout 0, float32; forward and backward, no optimiser; rounds of {a.iters} "
        f"steps in turns; PyTorch's malloc tuned. Operations are a sample's, bytes the batch's. {m['cpu']}, {m['cores']} "
        f"cores, {m['time']}.",
        "",
        common.table(head, [row_of(a, x) for x in results]),
    ]
    if any(not v["quiet"] for x in results for v in x["variants"].values()):
        text += ["", f"\\* fewer than three rounds without other processes at over {100 * common.DISTURBED:.0f} % of the "
                 "machine: all rounds are counted, and the numbers say little."]
    setting = {k: getattr(a, k) for k in ("batch", "threads", "vocab_cap", "iters", "rounds", "max_rounds", "schema")}
    result = {"machine": m, "setting": setting, "malloc": MALLOC, "models": results}
    common.write(a.out, f"peers-{isa}", result, "\n".join(text))
    return "\n".join(text)


def need_torch(a):
    names = ", ".join(NEEDS.split())
    if subprocess.run([a.python, "-c", f"import {names}"], capture_output=True, check=False).returncode != 0:
        sys.exit(
            f"bench-peers: {a.python} lacks one of {names}; please run: python3 -m venv {a.out}/venv && "
            f"{a.out}/venv/bin/pip install {NEEDS}"
        )


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.common_flags(ap)
    ap.add_argument("--upstream", required=True, help="a checkout of the reference project")
    ap.add_argument("--python", help="one that has torch (OUT/venv/bin/python where that is, else python3)")
    ap.add_argument("--peer", default="tests/bench/peer_torch.py", help="answers as PyTorch")
    ap.add_argument("--modes", default="eager,checkpoint", help="and compile")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--max-rounds", type=int, default=15)
    ap.set_defaults(iters=3)
    a = common.common_args(ap)
    os.makedirs(a.out, exist_ok=True)
    venv = f"{a.out}/venv/bin/python"
    a.python = a.python or (venv if os.path.exists(venv) else "python3")
    if not os.path.isdir(f"{a.upstream}/experiments"):
        sys.exit(f"bench-peers: {a.upstream} is no checkout of the reference: no directory experiments")
    if os.path.basename(a.peer) == "peer_torch.py":
        need_torch(a)
    results = []
    for model in a.model:
        results.append(measure(a, model))
        print(f"{model}: {', '.join(f'{n} {cell(v)}' for n, v in results[-1]['variants'].items())}", flush=True)
        report(a, results)
    print(report(a, results))


if __name__ == "__main__":
    main()

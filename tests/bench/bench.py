#!/usr/bin/env python3
"""bench.py - what a step of each model costs for each checkpoint choice. Run by make bench.

Three runs a model, each of two choices in turns: blocks against none:batch (all forward, then all
backward, as frameworks mean it), every block recomputed (*) against none, and sample against
blocks. Writes BUILD/bench/bench-ISA.md and
.json. The share of the FMA peak counts operations needed and spent again; the peak is measured in
the same run. A run in which other processes had over 5 % of the machine is repeated (--tries) and
marked with * if it stays so.
"""

import argparse

import common



def quiet_run(a, model, checkpoint, against):
    """The least disturbed of some runs."""
    best = None
    for _ in range(a.tries):
        ran = common.pcvr_bench(a, model, checkpoint, against=against)
        if best is None or ran["disturbed"] < best["disturbed"]:
            best = ran
        if best["disturbed"] <= common.DISTURBED:
            break
    return best


def measure(a, model):
    for choice in ("blocks", "none", "*", "sample"):  # compiled, and kept in the cache
        common.pcvr_bench(a, model, choice, iters=1)
    first = quiet_run(a, model, "blocks", "none:batch")
    second = quiet_run(a, model, "*", "none")
    third = quiet_run(a, model, "sample", "blocks")
    result = {"model": model, "isa": first["isa"], "choices": {}, "ratio_blocks_none_batch": first["ratio"]}
    for ran, name, side in (
        (first, "none:batch", first["against"]),
        (second, "none", second["against"]),
        (first, "blocks", first),
        (second, "*", second),
        (third, "sample", third),
    ):
        side = {k: v for k, v in side.items() if k not in ("against", "ratio")}
        side["fma_peak_gflops"] = ran["fma_peak_gflops"]
        side["peak_share"] = common.peak_share(side, ran["fma_peak_gflops"])
        side["disturbed"] = ran["disturbed"]
        result["choices"][name] = side
    fastest = min(c["step_s"]["median"] for c in result["choices"].values())
    result["ratio_blocks_fastest"] = result["choices"]["blocks"]["step_s"]["median"] / fastest
    return result


def rows_of(a, result):
    rows = []
    for name, c in result["choices"].items():
        star = "*" if c["disturbed"] > common.DISTURBED else ""
        ratios = ["", ""]
        if name == "blocks":
            ratios = [f"{result['ratio_blocks_none_batch']:.3f}", f"{result['ratio_blocks_fastest']:.3f}"]
        rows.append(
            [
                result["model"],
                f"`{name}`" if name == "*" else name,
                c["chunk"],
                f"{1e3 * c['step_s']['median'] / a.batch:.3f}{star}",
                f"{1e3 * c['step_s']['min'] / a.batch:.3f}",
                f"{1e-9 * c['flops_needed'] / a.batch:.3f}",
                f"{1e-9 * c['flops_recomputed'] / a.batch:.3f}",
                f"{100 * c['peak_share']:.0f} %",
                f"{c['fma_peak_gflops']:.0f}",
                f"{c['activation_bytes'] / 2**20:.1f}",
                *ratios,
            ]
        )
    return rows


HEAD = ["model", "checkpoint", "chunk", "ms/sample", "min", "GFLOP needed", "again", "of peak", "peak GF/s"]
HEAD += ["activation MiB", "blocks / none:batch", "blocks / fastest"]


def report(a, results):
    isa = results[0]["isa"]
    m = common.machine()
    text = [
        f"# A step of each model, {isa}",
        "",
        f"Batch {a.batch}, {a.threads} threads, vocabularies up to {a.vocab_cap}, full lengths, dropout 0; forward "
        f"and backward, no optimiser; median and least of {a.iters} steps. {m['cpu']}, {m['cores']} cores, {m['time']}.",
        "",
        common.table(HEAD, [r for x in results for r in rows_of(a, x)]),
    ]
    if any(c["disturbed"] > common.DISTURBED for x in results for c in x["choices"].values()):
        text += ["", f"\\* other processes had over {100 * common.DISTURBED:.0f} % of the machine in every run."]
    setting = {k: getattr(a, k) for k in ("batch", "threads", "vocab_cap", "iters", "schema", "flags")}
    common.write(a.out, f"bench-{isa}", {"machine": m, "setting": setting, "models": results}, "\n".join(text))
    return "\n".join(text)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.common_flags(ap)
    ap.add_argument("--tries", type=int, default=3, help="runs for a quiet one")
    a = common.common_args(ap)
    results = []
    for model in a.model:
        results.append(measure(a, model))
        report(a, results)
    print(report(a, results))


if __name__ == "__main__":
    main()

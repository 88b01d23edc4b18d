"""common.py - for bench.py and bench_peers.py: runs of pcvr bench, a watch on other processes, tables."""

import glob
import json
import os
import resource
import statistics
import subprocess
import sys
import time

DISTURBED = 0.05  # of the machine's time taken by others: a run is dropped
TICK = os.sysconf("SC_CLK_TCK")


# ---- other processes -----------------------------------------------------------------------


def ticks_of(pid):
    """User and system seconds of a process, its ended threads with it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK
    except OSError:
        return 0.0


class Watch:
    """What share of the machine other processes had while something ran.

    Threads alive at both ends are read exactly from their schedstat; what came and went
    in between shows in /proc/stat only, in whole ticks, as does time taken by a hypervisor.
    """

    def __init__(self, own=()):
        self.own = {os.getpid(), *own}
        self.cores = len(os.sched_getaffinity(0))
        self.start()

    def _threads(self):
        ns = {}
        for path in glob.glob("/proc/[0-9]*/task/[0-9]*/schedstat"):
            parts = path.split("/")
            try:
                if int(parts[2]) not in self.own:
                    with open(path, encoding="ascii") as f:
                        ns[parts[4]] = int(f.read().split()[0])
            except (OSError, IndexError, ValueError):
                pass
        return ns

    def _busy(self):
        with open("/proc/stat", encoding="ascii") as f:
            user, nice, system, _, _, irq, soft, steal = map(int, f.readline().split()[1:9])
        used = resource.getrusage(resource.RUSAGE_SELF)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        mine = used.ru_utime + used.ru_stime + ended.ru_utime + ended.ru_stime
        mine += sum(ticks_of(p) for p in self.own if p != os.getpid())
        return (user + nice + system + irq + soft + steal) / TICK - mine

    def start(self):
        self.threads, self.busy, self.time = self._threads(), self._busy(), time.perf_counter()

    def stop(self):
        """The share since start."""
        wall = time.perf_counter() - self.time
        busy = self._busy() - self.busy - 2 * self.cores / TICK
        exact = 0
        for tid, ns in self._threads().items():
            exact += ns - self.threads.get(tid, 0)
        return max(exact * 1e-9, busy, 0.0) / (wall * self.cores)


# ---- pcvr bench ----------------------------------------------------------------------------


def models_of(names):
    found = sorted(os.path.basename(p)[:-5] for p in glob.glob("models/*.pcvr"))
    for name in names or []:
        if name not in found:
            sys.exit(f"bench: no model '{name}', expected one of {', '.join(found)}")
    return names or found


def pcvr_bench(a, model, checkpoint, chunk=None, against=None, iters=None):
    """One run of pcvr bench --json, with the share of others as "disturbed"."""
    command = [f"{a.build}/pcvr", "bench", "--model", f"models/{model}.pcvr", "--schema", a.schema]
    command += ["--vocab-cap", str(a.vocab_cap), "--batch", str(a.batch), "--batch-hint", str(a.batch), "--threads", str(a.threads)]
    command += ["--lengths", "full", "--dropout", "0", "--checkpoint", checkpoint, "--json"]
    command += ["--iters", str(iters or a.iters), *a.flags]
    if chunk:
        command += ["--chunk", chunk]
    if against:
        command += ["--against", against]
    own = getattr(a, "own", ())
    watch = Watch(own)
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    share = watch.stop()
    if ran.returncode != 0:
        sys.exit(f"bench: {' '.join(command)}: exit status {ran.returncode}\n{ran.stderr}")
    out = json.loads(ran.stdout)
    out["disturbed"] = share
    return out


def peak_share(side, peak):
    """Of the FMA peak: operations needed and spent again, over the median step."""
    flops = side["flops_needed"] + side["flops_recomputed"]
    return flops / side["step_s"]["median"] * 1e-9 / peak


# ---- output --------------------------------------------------------------------------------


def machine():
    name = "unknown CPU"
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        for line in f:
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    cores = len(os.sched_getaffinity(0))
    return {"cpu": name, "cores": cores, "load": os.getloadavg(), "time": time.strftime("%F %T %Z")}


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}


def table(head, rows):
    """A Markdown table: the first column to the left, the others to the right."""
    cells = [head] + [[str(c) for c in r] for r in rows]
    width = [max(len(r[k]) for r in cells) for k in range(len(head))]
    pad = [[c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(r, width))] for r in cells]
    rule = ["-" * w if k == 0 else "-" * (w - 1) + ":" for k, w in enumerate(width)]
    return "\n".join("| " + " | ".join(r) + " |" for r in [pad[0], rule, *pad[1:]])


def write(out, name, result, text):
    os.makedirs(out, exist_ok=True)
    with open(f"{out}/{name}.json", "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    with open(f"{out}/{name}.md", "w", encoding="utf-8") as f:
        f.write(text + "\n")


def common_flags(ap):
    ap.add_argument("--build", default="build", help="where pcvr is")
    ap.add_argument("--out", help="where the results go (BUILD/bench)")
    ap.add_argument("--schema", default="models/official.json")
    ap.add_argument("--model", action="append", help="one of models/; all of them unless told")
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--vocab-cap", type=int, default=5000)
    ap.add_argument("--iters", type=int, default=10, help="steps of a run")
    ap.add_argument("flags", nargs="*", help="after --: further flags of pcvr bench")


def common_args(ap):
    a = ap.parse_args()
    a.out = a.out or f"{a.build}/bench"
    a.model = models_of(a.model)
    return a

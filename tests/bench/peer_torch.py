"""peer_torch.py - steps of a reference model in PyTorch on the CPU, one a request, for bench_peers.py.

Reads a line a request from standard input and answers with one line of JSON:
    build MODEL MODE        the model in that mode (eager, checkpoint, compile), one step of it
    step                    the seconds of one step: forward, mean binary cross-entropy, backward
    saved                   the bytes autograd saves for backward, without parameters and inputs
    quit
The shapes are those of pcvr bench: every list of events full, vocabularies capped, dropout 0.
"""

import argparse
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import resource
import sys
import time
import types

NOW = 1_700_000_000
DAY = 86_400
# What the reference imports for GPUs, downloads and plots; a step on the CPU runs none of it.
UNUSED = ["tilelang", "triton", "datasets", "huggingface_hub", "matplotlib", "sklearn", "tensorboard", "rich"]


class Hollow(types.ModuleType):
    """Stands in for a library of GPU kernels: imports and decorators succeed, nothing runs."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Hollow(f"{self.__name__}.{name}")

    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else self

    def __getitem__(self, key):
        return self

    def __or__(self, other):
        return self

    __ror__ = __or__


class HollowFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds hollow modules below the given names."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Hollow(spec.name)

    def exec_module(self, module):
        pass


def hollow_absent(names):
    absent = [n for n in names if importlib.util.find_spec(n) is None]
    sys.meta_path.append(HollowFinder(absent))
    return absent


def capped_schema(path, cap):
    with open(path, encoding="utf-8") as f:
        raw = json.load(f)

    def v(n):
        return max(2, min(int(n), cap))

    for side in ("user_int", "item_int"):
        raw[side] = [[fid, v(n), dim] for fid, n, dim in raw[side]]
    for domain in raw["seq"].values():
        domain["features"] = [[fid, v(n)] for fid, n in domain["features"]]
    return raw


class Peer:
    """A model of the reference with one batch of inputs."""

    def __init__(self, args):
        sys.path[:0] = [args.upstream, f"{args.upstream}/src"]
        self.hollow = hollow_absent(UNUSED)
        import torch

        self.torch = torch
        torch.set_num_threads(args.threads)
        self.args = args
        self.model = self.run = self.inputs = None

    # ---- building ----------------------------------------------------------------------

    def build(self, name, mode):
        torch, a = self.torch, self.args
        schema_mod = importlib.import_module("taac2026.domain.schema")
        raw = capped_schema(a.schema, a.vocab_cap)
        make = getattr(schema_mod.PCVRSchema, "model_validate", None)
        schema = make(raw) if make else schema_mod.PCVRSchema(**raw)
        defaults = importlib.import_module(f"experiments.{name}").TRAIN_DEFAULTS
        changes = {"dropout_rate": 0.0, "gradient_checkpointing": mode == "checkpoint"}
        if hasattr(defaults.model, "v2_high_risk_token_dropout_rate"):
            changes["v2_high_risk_token_dropout_rate"] = 0.0
        config = defaults.model.model_copy(update=changes)
        torch.manual_seed(0)
        self.model = self.model_class(name)(schema, config).train()
        self.run = torch.compile(self.model) if mode == "compile" else self.model
        self.make_inputs(raw, schema, defaults.data.seq_max_lens)
        params = sum(p.numel() for p in self.model.parameters())
        return {"torch": torch.__version__, "params": params, "hollow": self.hollow, "first_s": self.step()["s"]}

    @staticmethod
    def model_class(name):
        mod = importlib.import_module(f"experiments.{name}.model")
        found = [
            c
            for c in vars(mod).values()
            if isinstance(c, type) and c.__module__ == mod.__name__ and hasattr(c, "predict")
        ]
        if len(found) != 1:
            raise SystemExit(f"peer_torch: {len(found)} models in experiments.{name}.model, expected one")
        return found[0]

    def entity(self, kinds, ints, dense, g):
        torch, B = self.torch, self.args.batch
        columns = [torch.randint(0, n + 1, (B, dim), generator=g) for _, n, dim in ints]
        ids = torch.cat(columns, 1) if columns else torch.zeros(B, 0, dtype=torch.long)
        width = sum(dim for _, dim in dense)
        numbers = torch.randn(B, width, generator=g)
        return kinds(ids, ids == 0, numbers, torch.zeros(B, width, dtype=torch.bool))

    def make_inputs(self, raw, schema, lens_text):
        torch, B = self.torch, self.args.batch
        batches = importlib.import_module("taac2026.infrastructure.data.batches")
        layout_mod = importlib.import_module("taac2026.infrastructure.data.schema_layout")
        layout = layout_mod.build_pcvr_schema_layout(schema)
        lens = {k: int(n) for k, n in (p.split(":") for p in lens_text.split(","))}
        g = torch.Generator().manual_seed(1)
        domains = {}
        for name in raw["seq"]:
            L = lens[name]
            rows = [
                torch.randint(1, n + 1, (B, L), generator=g) if n > 0 else torch.zeros(B, L, dtype=torch.long)
                for n in layout.seq_domain_vocab_sizes[name]
            ]
            times = torch.sort(NOW - torch.randint(1, 30 * DAY, (B, L), generator=g), dim=1).values
            domains[name] = batches.PCVRSequenceInput(torch.stack(rows, 1), torch.full((B,), L), times)
        self.inputs = batches.PCVRModelInput(
            self.entity(batches.PCVREntityInput, raw["user_int"], raw["user_dense"], g),
            self.entity(batches.PCVREntityInput, raw["item_int"], raw.get("item_dense", []), g),
            domains,
            torch.full((B,), NOW),
        )
        self.label = torch.randint(0, 2, (B,), generator=g).float()

    # ---- running -----------------------------------------------------------------------

    def loss(self):
        self.model.zero_grad(set_to_none=True)
        logits = self.run(self.inputs)[:, 0]
        return self.torch.nn.functional.binary_cross_entropy_with_logits(logits, self.label)

    def step(self):
        start = time.perf_counter()
        loss = self.loss()
        loss.backward()
        value = loss.item()
        return {"s": time.perf_counter() - start, "loss": value}

    def saved(self):
        torch, seen = self.torch, {}
        x = self.inputs
        own = list(self.model.parameters()) + [
            x.user.int_values,
            x.user.dense_values,
            x.item.int_values,
            x.item.dense_values,
            *[d.values for d in x.sequences.values()],
        ]
        own = {t.untyped_storage().data_ptr() for t in own}

        def pack(t):
            s = t.untyped_storage()
            if s.data_ptr() not in own:
                seen[s.data_ptr()] = s.nbytes()
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            loss = self.loss()
        loss.backward()
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {"saved_bytes": sum(seen.values()), "rss_peak_bytes": rss}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--upstream", required=True)
    ap.add_argument("--schema", required=True)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--vocab-cap", type=int, default=5000)
    peer = Peer(ap.parse_args())
    for line in sys.stdin:
        words = line.split()
        if words[0] == "quit":
            break
        if words[0] == "build":
            answer = peer.build(words[1], words[2])
        else:
            answer = {"step": peer.step, "saved": peer.saved}[words[0]]()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

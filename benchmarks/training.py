"""Training: forward and backward plans of losses, norms, layers of perceptrons and attention, and what is saved between the passes.

    python benchmarks/training.py                     all programs, as a table
    python benchmarks/training.py attention causal    these
    python benchmarks/training.py --save              write benchmarks/results/DATE-training.json, after every row

Nothing runs on a GPU: times and bytes are modelled, for an H200, on tensors without data.  `torch_saved` is what torch's own partitioner
(`min_cut_rematerialization_partition`, as `torch.compile` calls it) would save of the same joint graph.
"""

import argparse
import json
import math
import time

import torch
from host import commit, host
from run import RESULTS
from torch.nn import functional

import eqfuse

HALF = torch.float16


def given(*shape, dtype=HALF, learned=True):
    """An argument without data."""
    return torch.empty(*shape, dtype=dtype, device="meta", requires_grad=learned)


def labels(n):
    return torch.empty(n, dtype=torch.int64, device="meta")


def rms_norm(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def gelu_mlp(x, up, a, down, b):
    return functional.gelu(x @ up + a) @ down + b


def swiglu_mlp(x, gate, up, down):
    return (functional.silu(x @ gate) * (x @ up)) @ down


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ v


def causal(q, k, v):
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def grouped(q, k, v):
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class BatchNorm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(64)

    def forward(self, x):
        return torch.relu(self.norm(x))


QKV = [given(4, 16, 4096, 64) for _ in range(3)]
PROGRAMS = {
    "softmax": (lambda x: torch.softmax(x, -1), (given(8192, 4096),)),
    "rms_norm": (rms_norm, (given(8192, 4096), given(4096))),
    "layer_norm": (lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b), (given(8192, 4096), given(4096), given(4096))),
    "batch_norm": (BatchNorm().to("meta", HALF), (given(64, 64, 56, 56),)),
    "gelu_mlp": (gelu_mlp, (given(8192, 1024), given(1024, 4096), given(4096), given(4096, 1024), given(1024))),
    "swiglu_mlp": (swiglu_mlp, (given(8192, 1024), given(1024, 2816), given(1024, 2816), given(2816, 1024))),
    "cross_entropy": (functional.cross_entropy, (given(8192, 32000), labels(8192))),
    "smoothed": (lambda x, y: functional.cross_entropy(x, y, label_smoothing=0.1), (given(8192, 32000), labels(8192))),
    "linear_cross_entropy": (lambda h, w, y: functional.cross_entropy(h @ w.t(), y), (given(8192, 1024), given(32000, 1024), labels(8192))),
    "attention": (attention, QKV),
    "causal": (causal, QKV),
    "grouped": (grouped, [given(4, 16, 2048, 64), given(4, 4, 2048, 64), given(4, 4, 2048, 64)]),
}


def torch_saved(trained):
    """Bytes that torch's partitioner saves of the joint graph in core ops, beside arguments and results; None where it fails."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = trained.joint.graph
    placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    late = set(trained.joint.tangents.values())
    returned = sum(name is not None for name, _ in trained.joint.results) + len(trained.joint.written)
    values = [n.meta["val"] for n in placeholders]
    try:
        with torch._guards.detect_fake_mode(values):
            core = make_fx(lambda *a: list(graph(*a).values()), decomposition_table=torch._decomp.core_aten_decompositions())(*values)
        for k, (n, old) in enumerate(zip(core.graph.nodes, placeholders, strict=False)):
            n.name = n.target = f"tangents_{k}" if old.target in late else f"primals_{k}"
        for n in list(core.graph.nodes):  # another name of the same memory
            if n.op == "call_function" and str(n.target) in ("aten.detach.default", "aten.alias.default"):
                n.replace_all_uses_with(n.args[0])
                core.graph.erase_node(n)
        core.recompile()
        forward, _ = min_cut_rematerialization_partition(core, values, num_fwd_outputs=returned)
    except Exception as error:
        print(f"  torch's partitioner: {type(error).__name__}: {str(error)[:200]}")
        return None
    (made,) = list(forward.graph.nodes)[-1].args
    return sum(n.meta["val"].nbytes for n in set(made[returned:]) - set(made[:returned]) if n.op != "placeholder")


def passes(plan):
    return {
        "kernels": len(plan.steps), "us": round(plan.estimated_us, 1), "unfused_us": round(plan.baseline_us, 1), "bytes": plan.dram_bytes,
        "compulsory_bytes": plan.compulsory_bytes, "unfused_bytes": plan.baseline_bytes, "held": plan.temporary_bytes,
    }  # fmt: skip


def row(name, budget):
    """One program."""
    fn, args = PROGRAMS[name]
    start = time.process_time()
    c = eqfuse.optimize(fn, args, target="h200", training=True, time_budget=budget)
    seconds = time.process_time() - start
    saved = {s.input.name: s.bytes for s in c.saved if not s.result}
    return {
        "program": name, "forward": passes(c.forward.plan), "backward": passes(c.backward.plan), "saved": saved,
        "saved_bytes": c.saved_bytes, "results_read": [s.input.name for s in c.saved if s.result], "torch_saved": torch_saved(c),
        "cpu_s": round(seconds, 1),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of CPU for each pass")
    asked = parser.parse_args()
    rows = []
    env = {**host("torch"), "commit": commit()}
    print("| program | forward | backward | saved | torch saves |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in asked.programs or PROGRAMS:
        rows.append(r := row(name, asked.budget))
        cells = [f"{r[p]['kernels']} kernels, {r[p]['us']:.0f} us ({r[p]['unfused_us']:.0f})" for p in ("forward", "backward")]
        torch_mb = "-" if r["torch_saved"] is None else f"{r['torch_saved'] / 1e6:.1f} MB"
        print(f"| {name} | {cells[0]} | {cells[1]} | {r['saved_bytes'] / 1e6:.1f} MB | {torch_mb} |", flush=True)
        if asked.save:
            found = {"environment": env, "target": "h200", "budget_s": asked.budget, "rows": rows}
            path = RESULTS / f"{env['date'][:10]}-training.json"
            path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

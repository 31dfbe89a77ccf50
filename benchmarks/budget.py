"""What ``time_budget`` asked for, and what was used: CPU seconds of everything after tracing.

    python benchmarks/budget.py                                   every program at 0.1, 1 and 10 s
    python benchmarks/budget.py --programs linears --budgets 1
    python benchmarks/budget.py --out benchmarks/results/2026-01-01-budget.json

A budget of 0 is the floor: the program written into the e-graph and read again, and a kernel for every op.  Beside each is the modelled
time of the plan, and of the plan op by op under the same model of kernels, which it does not exceed unless a limit of memory rules it out.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from host import commit, host
from torch import nn

from eqfuse.egraph import saturate
from eqfuse.extract.covers import Extractor
from eqfuse.planning import Request, checked, run
from eqfuse.testing.models import MODELS
from eqfuse.testing.programs import PROGRAMS

BUDGETS = (0.0, 0.1, 1.0, 10.0)
CORPUS = (
    "row_softmax",
    "rmsnorm_linear",
    "linear_cross_entropy",
    "attention",
    "attention_causal",
    "attention_softcap",
    "attention_decode",
)


class Linears(nn.Module):
    """Linear layers, one after the other."""

    def __init__(self, depth, width=1024, bias=False):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=bias) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def pointwise(x, y):
    for k in range(20):
        x = torch.tanh(x) * y + k
    return x


def chain(a, b, c, d, e, v):
    return a @ b @ c @ d @ e @ v


def empty(*shape, dtype=torch.float16):
    return torch.empty(*shape, dtype=dtype, device="meta")


def model(name, layers):
    return MODELS[name].module(layers=layers), MODELS[name].args()


def linears(depth):
    with torch.device("meta"):
        return Linears(depth).half(), (empty(4096, 1024),)


MADE = {
    "linears, 3": lambda: linears(3),
    "linears, 17": lambda: linears(17),
    "pointwise, 60 operations": lambda: (pointwise, (empty(4096, 4096), empty(4096, 4096))),
    "(a @ b) @ v": lambda: (lambda a, b, v: (a @ b) @ v, (empty(4096, 4096), empty(4096, 4096), empty(4096, 1))),
    "chain of 5 matrices and a vector": lambda: (chain, (*(empty(2048, 2048) for _ in range(5)), empty(2048, 1))),
    "linear attention": lambda: (lambda q, k, v: (q @ k.mT) @ v, tuple(empty(1, 32, 4096, 128) for _ in range(3))),
    "a layer of Llama": lambda: model("llama", 1),
    "four layers of Llama": lambda: model("llama", 4),
    "two layers of BERT": lambda: model("bert", 2),
}


def program(name):
    if name in PROGRAMS:
        case = PROGRAMS[name]
        return case.fn, case.args("bench", device="meta"), case.options
    return *MADE[name](), {}


def row(name, budget, target):
    """One call of ``optimize``, and the plan op by op under the same model of kernels."""
    fn, args, options = program(name)
    request = checked(Request(fn, args, None, target, name="program", time_budget=budget, **options))
    start = time.process_time()
    found = run(request)
    whole = time.process_time() - start
    stages = {}
    for stage, ms in found.timings:
        stages[stage] = stages.get(stage, 0.0) + ms / 1e3
    used = whole - stages.pop("trace")
    floor = Extractor(saturate(found.traced.program, rules=()), request.target).op_by_op()
    return {
        "program": name, "budget_s": budget, "used_s": used, "stages_s": stages,
        "terms": len(found.traced.program.terms()), "kernels": len(found.plan.steps), "us": found.plan.estimated_us,
        "op_by_op_kernels": len(floor.steps), "op_by_op_us": floor.us, "stopped": [found.plan.saturation, found.plan.stopped],
    }  # fmt: skip


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--programs", nargs="*", help="parts of names; default all")
    p.add_argument("--budgets", nargs="*", type=float, default=BUDGETS)
    p.add_argument("--target", default="h200")
    p.add_argument("--out", type=Path)
    options = p.parse_args()
    names = [n for n in (*CORPUS, *MADE) if not options.programs or any(part in n for part in options.programs)]
    row("row_softmax", 0.0, options.target)  # what a process pays once
    rows = []
    for name in names:
        for budget in options.budgets:
            rows.append(row(name, budget, options.target))
            print(json.dumps(rows[-1]), flush=True)
    result = {"environment": {**host("torch", "egglog"), "commit": commit()}, "target": options.target, "rows": rows}
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

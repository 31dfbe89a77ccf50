"""How many digits reductions, scans, norms and powers keep, on each target, beside eager.

    python benchmarks/digits.py [--target NAME ...] [--only WORD ...] [--save]

The error is the largest difference from float64, relative to the largest result, over kinds of data and seeds.  Targets of GPUs run in
Triton's interpreter, at smaller sizes; eager is torch on the CPU at the same size.  A row is over the promise of docs/numerics.md if, in
any draw, its error is more than twice eager's and more than four units in the last place.
"""

import argparse
import json
from datetime import date
from pathlib import Path

import torch
from host import commit, host
from torch.nn import functional

import eqfuse

RESULTS = Path(__file__).parent / "results"
TARGETS = ("cpu", "h200", "a100", "mi300x")
LENGTHS = {"cpu": (1000, 65_536, 2**20), "h200": (1000, 4096), "a100": (1000,), "mi300x": (1000,)}  # the interpreter is slow
KINDS = ("uniform", "normal", "10", "100", "1e4")  # the last three: normal data around it
FOUR_UNITS = 4 * 2.0**-23


def rows(n):
    return (3, n)


def columns(n):
    return (n, 6)


def planes(n):
    side = max(int(n**0.5), 1)
    return (1, 4, side, side)


def gates(g):
    """All decays between positions of a row of logarithms of gates; they are scaled so that they add up to -280."""
    c = g.cumsum(-1)
    return torch.tril((c[:, :, None] - c[:, None, :]).clamp(max=0).exp()).sum(-1)


def decays(x):
    """The powers of one factor for each row."""
    return (1 - x[:, :1] / 64) ** torch.arange(x.shape[1])


PROGRAMS = {  # name -> program, its shape for n, kinds of data if not all
    "sum": (lambda x: x.sum(-1), rows, KINDS),
    "sum, first axis": (lambda x: x.sum(0), columns, KINDS),
    "sum, planes": (lambda x: x.sum((2, 3)), planes, KINDS),
    "mean": (lambda x: x.mean(-1), rows, KINDS),
    "mean, first axis": (lambda x: x.mean(0), columns, KINDS),
    "var": (lambda x: x.var(-1, correction=0), rows, KINDS),
    "var, first axis": (lambda x: x.var(0, correction=0), columns, KINDS),
    "std": (lambda x: x.std(-1), rows, KINDS),
    "norm": (lambda x: x.norm(dim=-1), rows, KINDS),
    "mse_loss": (lambda x: functional.mse_loss(x[0], x[1]), rows, KINDS),
    "logsumexp": (lambda x: x.logsumexp(-1), rows, KINDS),
    "softmax": (lambda x: x.softmax(-1), rows, KINDS),
    "softmax, first axis": (lambda x: x.softmax(0), columns, KINDS),
    "products, a loop": (lambda x: (x[:, :1] * x[:, 1:]).sum(0), columns, KINDS),
    "product of matrices": (lambda x: x[:, :3].t() @ x[:, 3:], columns, KINDS),
    "cumsum": (lambda x: x.cumsum(-1), rows, KINDS),
    "cumsum, first axis": (lambda x: x.cumsum(0), columns, KINDS),
    "gates": (gates, lambda n: (2, min(n, 512)), ("gates",)),
    "layer_norm": (lambda x: functional.layer_norm(x, x.shape[-1:]), rows, KINDS),
    "rms_norm": (lambda x: functional.rms_norm(x, x.shape[-1:]), rows, KINDS),
    "group_norm, planes": (lambda x: functional.group_norm(x, 4), planes, KINDS),
    "x ** 2.5": (lambda x: x**2.5, rows, ("uniform", "10", "100")),
    "x ** y": (lambda x: x[0] ** x[1], rows, ("uniform", "10")),
    "decays": (decays, lambda n: (3, min(n, 600)), ("uniform",)),
    "1.1 ** x": (lambda x: 1.1**x, rows, ("uniform", "normal", "100")),
}


def drawn(kind, shape, seed):
    """Data of a kind, in float32."""
    random = torch.Generator().manual_seed(seed)
    if kind in ("uniform", "gates"):
        x = torch.rand(shape, generator=random)
        return -x * (280 / x.sum(-1, keepdim=True)) if kind == "gates" else x
    return torch.randn(shape, generator=random) + (0.0 if kind == "normal" else float(kind))


def measured(program, shape, kinds, target, seeds):
    """The largest errors of a program, ours and eager's, and the worst draw that is over the promise."""
    plan = eqfuse.optimize(program, (torch.empty(shape),), target=target)
    run = plan if target == "cpu" else plan.interpret
    found = {"ours": 0.0, "eager": 0.0, "over": ""}
    worst = 1.0
    for kind in kinds:
        for seed in range(seeds):
            x = drawn(kind, shape, seed)
            right = program(x.double())
            largest = right.abs().max().item() or 1.0
            ours, eager = ((y.double() - right).abs().max().item() / largest for y in (run(x), program(x)))
            found["ours"], found["eager"] = max(found["ours"], ours), max(found["eager"], eager)
            ratio = ours / max(2 * eager, FOUR_UNITS)
            if ratio > worst:
                worst, found["over"] = ratio, f"{kind}: {ours:.1e}, eager {eager:.1e}"
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", nargs="*", default=TARGETS, choices=TARGETS)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    table = []
    for target in asked.target:
        for n in LENGTHS[target]:
            for name, (program, shape, kinds) in PROGRAMS.items():
                fixed = shape(n) == shape(2 * n) and n != LENGTHS[target][0]
                if fixed or (asked.only and not any(w in name for w in asked.only)):
                    continue
                row = {
                    "program": name,
                    "target": target,
                    "n": n,
                    "shape": shape(n),
                    **measured(program, shape(n), kinds, target, asked.seeds),
                }
                table.append(row)
                over = f"  OVER {row['over']}" if row["over"] else ""
                print(f"{target:7} {n:8} {name:24} {row['ours']:.1e} {row['eager']:.1e}{over}", flush=True)
                if asked.save:  # what there is so far
                    out = {"environment": {**host(), "commit": commit()}, "seeds": asked.seeds, "rows": table}
                    (RESULTS / f"{date.today()}-digits.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()

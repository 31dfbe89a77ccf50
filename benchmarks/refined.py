"""The model's pick of a kernel beside the one that `optimize(refine=K)` takes, both by machine code.

    python benchmarks/refined.py                        every job on h100 and a100, as a table
    python benchmarks/refined.py attention --target a100
    python benchmarks/refined.py --save --resume        also write benchmarks/results/DATE-refined.json, after every job
    python benchmarks/refined.py --show FILE            the table of a file, which docs/decisions/machine_code.md has

No GPU is needed: kernels are compiled and judged statically (docs/decisions/machine_code.md).  Nothing is read from the disk cache, so that
the seconds are those of a first time; they are CPU seconds of this process where it is told to use one processor (`taskset -c 0`).
"""

import argparse
import datetime
import json
import os
import time
from pathlib import Path

import torch
from host import commit, host, write
from table_parts import markdown

import eqfuse
from eqfuse.errors import EqFuseError
from eqfuse.testing.programs import PROGRAMS

RESULTS = Path(__file__).parent / "results"
TARGETS = ("h100", "a100")
TOKENS, WIDTH, HIDDEN, HEADS = 4096, 4096, 14336, 32


def half(*shape):
    return torch.empty(shape, dtype=torch.float16, device="meta")


def matmul(x, w):
    return x @ w


def swiglu(x, gate, up):
    return torch.nn.functional.silu(x @ gate) * (x @ up)


def cross_entropy(logits, labels):
    return torch.nn.functional.cross_entropy(logits.float(), labels)


JOBS = {
    "attention D64": (PROGRAMS["attention"].fn, [half(1, HEADS, TOKENS, 64)] * 3),
    "attention D128": (PROGRAMS["attention"].fn, [half(1, HEADS, TOKENS, 128)] * 3),
    "causal D64": (PROGRAMS["attention_causal"].fn, [half(1, HEADS, TOKENS, 64)] * 3),
    "causal D128": (PROGRAMS["attention_causal"].fn, [half(1, HEADS, TOKENS, 128)] * 3),
    "matmul 4096": (matmul, [half(TOKENS, WIDTH), half(WIDTH, WIDTH)]),
    "swiglu": (swiglu, [half(TOKENS, WIDTH), half(WIDTH, HIDDEN), half(WIDTH, HIDDEN)]),
    "rmsnorm 4096 x 8192": (PROGRAMS["rmsnorm"].fn, [half(TOKENS, 8192), half(8192)]),
    "softmax 4096 x 131072": (PROGRAMS["row_softmax"].fn, [half(TOKENS, 131072)]),
    "cross entropy 4096 x 131072": (cross_entropy, [half(TOKENS, 131072), torch.empty(TOKENS, dtype=torch.int64, device="meta")]),
    "decode, 8192 keys": (PROGRAMS["attention_decode"].fn, [half(8, HEADS, 1, 128), *[half(8, HEADS, 8192, 128)] * 2]),
}


def row(job, target, most):
    """The heaviest kernel of a job that was refined: all its candidates, and what they took."""
    fn, args = JOBS[job]
    os.environ["EQFUSE_CACHE"] = "0"
    eqfuse.optimize(torch.relu, (torch.empty(4, device="meta"),), target=target)  # what a first call loads
    wall, cpu = time.perf_counter(), time.process_time()
    c = eqfuse.optimize(fn, args, target=target, refine=most)
    seconds = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    stages = dict(c.planned.timings)
    k = max((k for k in c.plan.kernels if k.refined), key=lambda k: k.refined.first.modelled_us)
    found = k.refined
    candidates = [{**vars(t), "roles": dict(t.roles)} for t in found.candidates]
    return {
        "job": job, "target": target, "most": most, "commit": commit(), "kernel": k.kernel.name, "kernels": len(c.plan.kernels),
        "candidates": candidates,
        "chosen": found.chosen, "by": found.by, "stopped": found.stopped, "refine_ms": stages["refine"], "stages_ms": stages, **seconds,
    }  # fmt: skip


def tile(t, names):
    """The tiles of the axes that have some, as far as candidates differ in them or they are large."""
    tiles = "x".join(t["roles"][a].partition(":")[2] for a in names if a in t["roles"])
    return f"{tiles} w{t['warps']} s{t['stages']}"


def us(t):
    if t["refused"]:
        return t["refused"].partition(" per")[0]
    return "-" if t["static_us"] is None else f"{t['static_us']:.0f}"


def table(rows):
    """One line for each job and target."""
    out = []
    for r in rows:
        first, best = r["candidates"][0], r["candidates"][r["chosen"]]
        names = [a for a in best["roles"] if any(int(t["roles"].get(a, ":1").partition(":")[2]) > 1 for t in (first, best))]
        both = first["static_us"], best["static_us"]
        gain = "" if None in both or first["refused"] else f"{both[0] / both[1]:.2f}"
        refused = sum(bool(t["refused"]) for t in r["candidates"])
        there = tile(best, names) if r["chosen"] else "the same"
        out.append(
            (r["job"], r["target"], tile(first, names), f"{first['modelled_us']:.0f}", us(first), there, f"{best['modelled_us']:.0f}",
             us(best), gain, f"{len(r['candidates'])}, {refused}", f"{r['cpu_s']:.0f}")
        )  # fmt: skip
    header = (
        "job", "", "model's pick", "modelled", "static", "refined", "modelled", "static", "gain", "compiled, refused", "CPU s",
    )  # fmt: skip
    return markdown(header, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only jobs whose name contains one of these")
    parser.add_argument("--target", action="append", default=[], help=f"default: {', '.join(TARGETS)}")
    parser.add_argument("--most", type=int, default=8, metavar="K", help="candidates of each kernel (default %(default)s)")
    parser.add_argument("--save", action="store_true", help="write the results as JSON")
    parser.add_argument("--resume", action="store_true", help="keep what the file of this day has")
    parser.add_argument("--show", type=Path, metavar="FILE", help="print the table of a file")
    options = parser.parse_args()
    if options.show:
        print(table(json.loads(options.show.read_text())["rows"]))
        return 0
    path = RESULTS / f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}-refined.json"
    result = {"environment": host("torch", "triton", "numpy") | {"commit": commit()}, "rows": [], "failed": {}}
    if options.resume and path.exists():
        result["rows"] = json.loads(path.read_text())["rows"]
    for job in (j for j in JOBS if not options.names or any(n in j for n in options.names)):
        for target in options.target or TARGETS:
            if any((r["job"], r["target"], r["most"]) == (job, target, options.most) for r in result["rows"]):
                continue
            try:
                result["rows"].append(row(job, target, options.most))
            except (EqFuseError, ValueError) as error:  # no kernel of it was refined
                result["failed"][f"{job}, {target}"] = str(error)
                print(job, target, error, flush=True)
                continue
            print(table(result["rows"][-1:]).splitlines()[-1], flush=True)
            if options.save:
                write(path, result)
    print(table(result["rows"]))
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())

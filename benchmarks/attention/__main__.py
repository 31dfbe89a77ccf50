"""What is planned for attention in all its kinds (kinds.py, decode.py): kernels, passes, tiles left out, times, and whether it is right.

    python -m benchmarks.attention                      every kind on an h100: planned, compiled, its static time read off the machine code
    python -m benchmarks.attention decode sink          kinds whose names have one of these words
    python -m benchmarks.attention --target h100 a100   the devices; b200 too
    python -m benchmarks.attention --check              also the planned kernels at small sizes in Triton's interpreter against float64
    python -m benchmarks.attention --plan-only          nothing is compiled
    python -m benchmarks.attention --save [--resume]    write benchmarks/results/DATE-attention.json, row by row; what it has stays

The rate is of the operations of the products of those pairs of a query and a key that are seen; others are no work.
"""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

import torch

import eqfuse
from eqfuse.errors import EqFuseError
from eqfuse.tiles.walk import shares

from . import decode  # noqa: F401  # adds its kinds
from .kinds import KINDS

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from host import commit, host, write  # a script's directory is not a package

RESULTS = Path(__file__).resolve().parents[1] / "results"


def planned(kind, target, plan_only):
    """The plan of a kind, and what the compiler made of it."""
    start = time.process_time()
    c = eqfuse.optimize(kind.fn, [a.to("meta") for a in kind.args()], target=target)
    kernels = [
        {
            "name": k.kernel.name, "roles": " ".join(f"{a.name}={r}" for a, r in k.kernel.roles.items()), "warps": k.kernel.warps,
            "stages": k.kernel.stages, "us": k.cost.us, "bound": k.cost.bound, "passes": max(k.passes.values(), default=0),
            "taken": min(shares(k.tiles).values(), default=1.0),
        }
        for k in c.plan.kernels
    ]  # fmt: skip
    row = {"us": c.plan.estimated_us, "bytes": c.plan.dram_bytes, "kernels": kernels, "steps": len(getattr(c.plan, "library", ()))}
    row["optimize_cpu_s"] = round(time.process_time() - start, 2)
    if not plan_only:
        found = c.estimates()
        for k, e in zip(kernels, found, strict=False):
            least = e.static and list(e.static.floor)
            k["static"] = {"us": e.static and e.static.us, "floor": least, "reason": e.reason or (e.static and e.static.reason)}
        times = [k.get("static", {}).get("us") for k in kernels]
        row["static_us"] = None if None in times else sum(times)
    return c, row


def checked(kind, c):
    """Errors of the planned kernels at small sizes, and of eager code, against float64."""
    small = kind.args("small")
    report = c.at(*small).accuracy(*small, runner="interpret")
    return {"ok": all(o.within() for o in report.outputs), "ours": max(o.ours for o in report.outputs),
            "eager": max(o.eager for o in report.outputs)}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="kinds whose names have one of these")
    parser.add_argument("--target", nargs="*", default=["h100"])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--plan-only", action="store_true")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--resume", action="store_true", help="leave out what the day's file has from this commit")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    environment = {**host("torch", "triton"), "commit": commit()}
    path = RESULTS / f"{environment['date'][:10]}-attention.json"
    rows = {}
    if (options.save or options.resume) and path.exists():
        rows = {(r["kind"], r["target"]): r for r in json.loads(path.read_text())["rows"]}
    for target in options.target:
        for name, kind in KINDS.items():
            if options.words and not any(w in name for w in options.words):
                continue
            known = rows.get((name, target), {})
            if options.resume and known.get("commit") == environment["commit"] and ("check" in known or not options.check):
                continue
            s = kind.sizes
            row = {"kind": name, "target": target, "commit": environment["commit"], "sizes": vars(s)}
            row |= {"seen": kind.share(), "work": kind.work()}
            try:
                c, found = planned(kind, target, options.plan_only)
                row |= found
                if options.check:
                    row["check"] = checked(kind, c)
            except EqFuseError as error:
                row["failed"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            if "check" in known and "check" not in row:
                row["check"] = known["check"]
            rows[name, target] = row
            print(line(row), flush=True)
            if options.save:
                write(path, {"environment": environment, "rows": list(rows.values())})
    return int(any("failed" in r or not r.get("check", {"ok": True})["ok"] for r in rows.values()))


def line(row):
    """A row on the terminal."""
    if "us" not in row:
        return f"{row['kind']:34} {row['target']:5} {row['failed']}"
    kernels = row["kernels"]
    rates = [f"{row['work'] / t / 1e6:6.0f}" if t else "     -" for t in (row["us"], row.get("static_us"))]
    check = row.get("check")
    said = "" if not check else f"error {check['ours']:.1e} of {check['eager']:.1e}{'' if check['ok'] else ' WRONG'}"
    taken, passes = min(k["taken"] for k in kernels), max(k["passes"] for k in kernels)
    return (
        f"{row['kind']:34} {row['target']:5} {len(kernels)} kernels, {passes} passes, seen {row['seen']:.2f} visited {taken:.2f}, "
        f"{row['us']:8.1f} us modelled, TFLOP/s {rates[0]} modelled {rates[1]} static {said} {row.get('failed', '')}"
    )


if __name__ == "__main__":
    sys.exit(main())

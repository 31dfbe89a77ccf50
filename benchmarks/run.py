"""The table of every program in the corpus: what the model says.  Times on a GPU are the business of benchmarks/device.

python benchmarks/run.py                        every program
python benchmarks/run.py attention rmsnorm      programs whose name contains a word
python benchmarks/run.py --compile sm_90        with the static report of the compiled kernels
python benchmarks/run.py --save                 also write benchmarks/results/DATE-no-gpu.json, after every step
"""

import argparse
import os
import time
from pathlib import Path

import first
import torch
from host import commit, host, write

import eqfuse
from eqfuse.cli import data
from eqfuse.errors import EqFuseError
from eqfuse.testing.programs import PROGRAMS

RESULTS = Path(__file__).parent / "results"


# ---- where it ran ----------------------------------------------------------------------------------------------------------------
def environment():
    """Everything that a reader needs to compare two results."""
    return host("torch", "triton", "numpy", "egglog") | {"commit": commit()}


# ---- the modelled side -----------------------------------------------------------------------------------------------------------
def modelled(program, target, architectures, check):
    """Plan a program; figures that need no device.  ``check`` also runs the planned kernels in Triton's interpreter, at sizes that
    it can manage, against float64."""
    args = program.args("bench", device="meta")  # planning needs no data
    start = time.process_time()
    c = eqfuse.optimize(program.fn, args, target=target, **program.options)
    row = {"program": program.name, "optimize_cpu_s": time.process_time() - start, **data.of_compiled(c)}
    row["shapes"] = [f"{a.dtype}{list(a.shape)}".removeprefix("torch.") for a in args]
    if check:
        small = program.args("check")
        report = c.at(*small).accuracy(*small)
        row["check"] = {"ok": all(o.within() for o in report.outputs), "ours": max(o.ours for o in report.outputs),
                        "eager": max(o.eager for o in report.outputs), "dtype": program.dtypes[0]}  # fmt: skip
    row["static"] = {arch: [data.plain(r) for r in c.compile(arch)] for arch in architectures}
    return row


# ---- printing --------------------------------------------------------------------------------------------------------------------
HEADER = ("program", "kernels", "passes", "DRAM MB", "/compuls.", "unfused/", "est. us", "sat. ms", "opt. s", "error", "eager", "stopped")


def cells(row):
    """One line of the modelled table."""
    plan = row["plan"]
    passes = max((n for k in plan["kernels"] for n in k["passes"].values()), default=0)
    return (
        row["program"], str(len(plan["kernels"])), str(passes or "-"),
        f"{plan['dram_bytes'] / 1e6:.2f}", f"{plan['dram_bytes'] / plan['compulsory_bytes']:.2f}",
        f"{plan['baseline_bytes'] / plan['dram_bytes']:.1f}", f"{plan['estimated_us']:.1f}",
        f"{row['saturation']['cpu_ms']:.1f}", f"{row['optimize_cpu_s']:.2f}", *errors(row), row["saturation"]["stopped"],
    )  # fmt: skip


def errors(row):
    """Relative errors against float64 of the generated kernels and of eager, if they were checked."""
    c = row.get("check")
    return (f"{c['ours']:.1e}" + ("" if c["ok"] else "!"), f"{c['eager']:.1e}") if c else ("-", "-")


WIDTHS = (30, 7, 6, 9, 9, 8, 9, 7, 6, 9, 9, 9)


def line(values):
    return values[0].ljust(WIDTHS[0]) + "  ".join(v.rjust(w) for v, w in zip(values[1:], WIDTHS[1:], strict=True))


def details(row):
    """What does not fit the table."""
    for arch, reports in row.get("static", {}).items():
        for r in reports:
            facts = ", ".join(f"{k} {v}" for k, v in r.items() if isinstance(v, int | float) and not isinstance(v, bool))
            print(f"      {arch}: {facts}")


def matches(wanted, name):
    """An exact name means that program; anything else every program with it in its name."""
    return wanted == name if wanted in PROGRAMS else wanted in name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only programs whose name contains one of these")
    parser.add_argument("--target", default="h200", help="device of the model")
    parser.add_argument("--compile", nargs="*", default=[], metavar="ARCH", help="compile ahead of time for these")
    parser.add_argument("--check", action="store_true", help="run the planned kernels in Triton's interpreter against float64")
    parser.add_argument("--save", action="store_true", help="write the results as JSON")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where --save writes (default: benchmarks/results)")
    options = parser.parse_args()
    chosen = [p for p in PROGRAMS.values() if not options.names or any(matches(n, p.name) for n in options.names)]
    if not chosen:
        parser.error(f"no such program; there are {', '.join(PROGRAMS)}")
    env = environment() | first.medians(options.target)
    path = options.results / f"{env['date'][:10]}-no-gpu.json"
    result = {"environment": env, "target": options.target, "rows": [], "failed": {}}
    print("  ".join(f"{k} {v}" for k, v in result["environment"].items() if v is not None))
    print(line(HEADER))

    def save():
        if options.save:
            write(path, result)

    os.environ["EQFUSE_CACHE"] = "0"  # what planning costs
    eqfuse.optimize(torch.relu, (torch.empty(4, device="meta"),), target=options.target)  # what a first call loads is told apart
    for program in chosen:
        try:
            row = modelled(program, options.target, options.compile, options.check)
        except EqFuseError as e:
            result["failed"][program.name] = f"{type(e).__name__}: {e}"
            print(f"{program.name:30s}{type(e).__name__}: {e.message}")
            continue
        result["rows"].append(row)
        print(line(cells(row)), flush=True)
        details(row)
        save()
    save()
    if options.save:
        print(f"wrote {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""The table of every program in the corpus: what the model says, and on a CUDA device what the clock says.

    python benchmarks/run.py                        every program, modelled side only where there is no GPU
    python benchmarks/run.py attention rmsnorm      programs whose name contains a word
    python benchmarks/run.py --compile sm_90        with the static report of the compiled kernels
    python benchmarks/run.py --save                 also write benchmarks/results/DATE-DEVICE.json, after every step
    python benchmarks/run.py --save --resume        the rest of a run that was cut short, into the same file

On a CUDA device every program is checked before any is timed.  Exit 3: the device answers no more (an illegal access, say); what
was found is saved, and --resume goes on without the program that did it.  The method is in benchmarks/README.md.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import first
import torch
from host import commit, host, shell, write

import eqfuse
from eqfuse.cli import data
from eqfuse.errors import EqFuseError
from eqfuse.runtime.accuracy import AccuracyReport, OutputError
from eqfuse.testing.programs import PROGRAMS

RESULTS = Path(__file__).parent / "results"
WARMUP_S = 0.5
REPEATS = 50
DEVICE = "cuda"
LOST = 3  # exit status


# ---- where it ran ----------------------------------------------------------------------------------------------------------------
def environment():
    """Everything that a reader needs to compare two results."""
    env = host("torch", "triton", "numpy", "egglog") | {"commit": commit(), "device": None}
    if torch.cuda.is_available():
        p = torch.cuda.get_device_properties(0)
        query = shell("nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem,power.limit", "--format=csv,noheader")
        env |= {"device": p.name, "cuda": torch.version.cuda, "l2_bytes": p.L2_cache_size, "driver, clocks, power limit": query}
    return env


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
    return c, row


# ---- correctness on the device ---------------------------------------------------------------------------------------------------
def on_device(program):
    """Arguments of bench size, drawn where they are used: on the CPU half a billion numbers take seconds."""
    random = torch.Generator(DEVICE).manual_seed(0)
    dtype = getattr(torch, program.dtypes[0])

    def make(a):
        if a.labels:
            return torch.randint(0, a.labels, a.shape, generator=random, device=DEVICE)
        return torch.randn(a.shape, generator=random, device=DEVICE).mul_(a.scale).add_(a.offset).to(dtype)

    return [make(a) for a in program.shapes["bench"]]


def listed(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


def relative_error(got, exact):
    """The largest error over the largest exact value where both are finite, and the elements where just one of them is; on the device."""
    finite = torch.isfinite(exact)
    lost = int((finite != torch.isfinite(got)).sum())
    error = torch.where(finite, got.to(exact.dtype) - exact, 0.0).nan_to_num_(0.0, 0.0, 0.0).abs_().max().item()
    return error / (torch.where(finite, exact, 0.0).abs_().max().item() or 1.0), lost


def at_bench_size(program, c):
    """The kernels that are timed, on the shapes that they are timed at, against the program in float64 on the device; None if float64
    does not fit its memory.  Memory that a kernel should write and does not is NaN."""
    args = on_device(program)
    deterministic = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # fills what torch.empty() gives
    try:
        ours = listed(c(*args))
    finally:
        torch.use_deterministic_algorithms(deterministic)
    try:
        eager = listed(program.fn(*args))
        exact = listed(program.fn(*(a.double() if a.is_floating_point() else a for a in args)))
        found = []
        for o, a, b, e in zip(c.program.outputs, ours, eager, exact, strict=True):
            (mine, mine_lost), (theirs, theirs_lost) = relative_error(a, e), relative_error(b, e)
            found.append(OutputError(o.name, o.dtype.name, mine, theirs, mine_lost, theirs_lost))
        return AccuracyReport("cuda, the timed kernels at bench size", tuple(found))
    except torch.OutOfMemoryError:
        return None


def checked(program, c, row):
    """Whether the kernels are right on the device; what is wrong stands in the row.  ``check``: the same plan at reduced sizes, where its
    kernels need masks; ``odd``: plans of their own; ``bench``: the very kernels that are timed."""
    row["device_check"] = {}

    def at(size, plan):
        args = program.args(size, device=DEVICE)
        return plan(*args).accuracy(*args)

    for size, report in (
        ("check", lambda: at("check", c.at)),
        ("odd", lambda: at("odd", lambda *a: eqfuse.optimize(program.fn, a, target=c.target, **program.options))),
        ("bench", lambda: at_bench_size(program, c)),
    ):
        try:
            found = report()
        except Exception as e:  # a kernel that cannot be launched, or an access where nothing is, is a result of its program
            row["measured"] = f"not timed: {size}: {said(e)}"
            return False
        finally:
            torch.cuda.empty_cache()
        row["device_check"][size] = data.plain(found.outputs) if found else "float64 does not fit the device's memory"
        if found and not all(o.within() for o in found.outputs):
            row["measured"] = f"not timed: the check failed: {size}\n{found}"
            return False
    return True


def said(e):
    """An exception on one line."""
    return f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"


def lost():
    """Whether the device answers no more, as after an illegal access: whatever this process does with it then fails."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


# ---- the measured side -----------------------------------------------------------------------------------------------------------
def rotations(args, l2_bytes):
    """Copies of the arguments that together are three times the L2 cache, so that no call finds its inputs there."""
    size = sum(a.numel() * a.element_size() for a in args)
    copies = max(2, min(64, -(-3 * l2_bytes // max(size, 1))))
    return [[a.clone() for a in args] for _ in range(copies)]


def time_us(f, inputs):
    """Microseconds per call: median, 10th and 90th percentile over repeats; each repeat runs every copy of the inputs once.

    Captured in a CUDA graph where that works, so that Python's launch overhead is not measured.
    """
    def once():
        for args in inputs:
            f(*args)

    once()
    torch.cuda.synchronize()
    run, how = once, "events"
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            once()
        run, how = graph.replay, "graph"
    except RuntimeError:
        torch.cuda.synchronize()
    end = time.monotonic() + WARMUP_S
    while time.monotonic() < end:
        run()
        torch.cuda.synchronize()
    times = []
    for _ in range(REPEATS):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        stop.record()
        stop.synchronize()
        times.append(1e3 * start.elapsed_time(stop) / len(inputs))
    deciles = statistics.quantiles(times, n=10)
    return {"median_us": statistics.median(times), "p10_us": deciles[0], "p90_us": deciles[-1], "how": how}


def flex(score_mod):
    """FlexAttention with a change to the scores."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(lambda q, k, v: flex_attention(q, k, v, score_mod=score_mod))


def library(name):
    """What a user would call instead, where torch has it."""
    sdpa = torch.nn.functional.scaled_dot_product_attention
    plain = {"attention", "attention_normalised_inside", "attention_decode"}
    special = {
        "attention_causal": lambda q, k, v: sdpa(q, k, v, is_causal=True),
        "attention_bias": lambda q, k, v, bias: sdpa(q, k, v, attn_mask=bias),
        "attention_grouped": lambda q, k, v: sdpa(q, k, v, enable_gqa=True),
    }
    if name == "attention_softcap":
        return flex(lambda s, b, h, i, j: 50.0 * torch.tanh(s / 50.0))
    return sdpa if name in plain else special.get(name)


def measured(program, c, row):
    """Times of kernels that are right."""
    inputs = rotations(on_device(program), torch.cuda.get_device_properties(0).L2_cache_size)
    contenders = {"eqfuse": c, "eager": program.fn, "torch.compile": torch.compile(program.fn)}
    if call := library(program.name):
        contenders["library"] = call
    times = {}
    for name, f in contenders.items():
        try:
            times[name] = time_us(f, inputs)
        except Exception as e:  # a baseline that cannot run is a result, not a crash of the benchmark
            times[name] = {"failed": said(e)}
        torch.cuda.empty_cache()
    row["measured"] = times
    ours = times["eqfuse"].get("median_us")
    row["measured_over_modelled"] = ours / c.plan.estimated_us if ours else None


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
    if isinstance(row.get("measured"), dict):
        for name, t in row["measured"].items():
            spread = f"{t['median_us']:9.1f} us ({t['p10_us']:.1f}..{t['p90_us']:.1f})" if "median_us" in t else t["failed"]
            print(f"      {name:14s} {spread}")
        if row["measured_over_modelled"]:
            print(f"      measured / modelled: {row['measured_over_modelled']:.2f}")
    elif "measured" in row:
        print(f"      {row['measured']}")


def matches(wanted, name):
    """An exact name means that program; anything else every program with it in its name."""
    return wanted == name if wanted in PROGRAMS else wanted in name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only programs whose name contains one of these")
    parser.add_argument("--target", default="h200", help="device of the model")
    parser.add_argument("--compile", nargs="*", default=[], metavar="ARCH", help="compile ahead of time for these")
    parser.add_argument("--check", action="store_true", help="run the planned kernels in Triton's interpreter against float64")
    parser.add_argument("--model-only", action="store_true", help="do not run on the GPU even if there is one")
    parser.add_argument("--save", action="store_true", help="write the results as JSON")
    parser.add_argument("--resume", action="store_true", help="keep what the file of this day and device has, and do the rest")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where --save writes (default: benchmarks/results)")
    options = parser.parse_args()
    chosen = [p for p in PROGRAMS.values() if not options.names or any(matches(n, p.name) for n in options.names)]
    if not chosen:
        parser.error(f"no such program; there are {', '.join(PROGRAMS)}")
    measuring = torch.cuda.is_available() and not options.model_only
    env = environment() | ({} if measuring else first.medians(options.target))  # a minute that a lent device need not wait for
    path = options.results / f"{env['date'][:10]}-{(env['device'] or 'no-gpu').lower().replace(' ', '-')}.json"
    result = {"environment": env, "target": options.target, "rows": [], "failed": {}}
    if options.resume and path.exists():
        before = json.loads(path.read_text())
        differs = [k for k in ("commit", "torch", "triton", "numpy", "device") if before["environment"].get(k) != env.get(k)]
        if differs or before["target"] != options.target:
            parser.error(f"{path.name} is of another environment: {', '.join(differs) or 'target'}")
        result["rows"] = [r for r in before["rows"] if "measured" in r or not measuring]
        chosen = [p for p in chosen if all(r["program"] != p.name for r in result["rows"])]
    print("  ".join(f"{k} {v}" for k, v in result["environment"].items() if v is not None))
    print(line(HEADER))

    def save():
        if options.save:
            write(path, result)

    os.environ["EQFUSE_CACHE"] = "0"  # what planning costs
    eqfuse.optimize(torch.relu, (torch.empty(4, device="meta"),), target=options.target)  # what a first call loads is told apart
    timed = []
    for program in chosen:
        try:
            c, row = modelled(program, options.target, options.compile, options.check)
        except EqFuseError as e:
            result["failed"][program.name] = f"{type(e).__name__}: {e}"
            print(f"{program.name:30s}{type(e).__name__}: {e.message}")
            continue
        result["rows"].append(row)
        if measuring and checked(program, c, row):
            timed.append((program, c, row))
        print(line(cells(row)), flush=True)
        details(row)
        save()
        if "measured" in row and lost():
            return LOST
    for program, c, row in timed:
        measured(program, c, row)
        print(program.name, flush=True)
        details(row | {"static": {}})
        save()
        if lost():
            return LOST
    save()
    if options.save:
        print(f"wrote {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())

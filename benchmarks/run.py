"""The table of every program in the corpus: what the model says, and on a CUDA device what the clock says.

    python benchmarks/run.py                        every program, modelled side only where there is no GPU
    python benchmarks/run.py attention rmsnorm      programs whose name contains a word
    python benchmarks/run.py --compile sm_90        with the static report of the compiled kernels
    python benchmarks/run.py --save                 also write benchmarks/results/DATE-DEVICE.json

The method is in benchmarks/README.md.
"""

import argparse
import importlib
import json
import statistics
import time
from pathlib import Path

import torch
from host import commit, host, shell

import eqfuse
from eqfuse import summary
from eqfuse.errors import EqFuseError
from eqfuse.testing.programs import PROGRAMS

RESULTS = Path(__file__).parent / "results"
WARMUP_S = 0.5
REPEATS = 50


# ---- where it ran ----------------------------------------------------------------------------------------------------------------
def environment():
    """Everything that a reader needs to compare two results."""
    env = host("torch", "triton", "numpy", "egglog") | {"commit": commit(), "device": None}
    if torch.cuda.is_available():
        p = torch.cuda.get_device_properties(0)
        query = shell("nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem,power.limit", "--format=csv,noheader")
        env |= {"device": p.name, "cuda": torch.version.cuda, "l2_bytes": p.L2_cache_size, "driver, clocks, power limit": query}
    return env


def first_call(target):
    """CPU seconds of the first `optimize` of a process, which later calls do not pay: imports and the rules' compilation; and of them
    those of the import of torch's own export machinery (dynamo, sympy), which `import torch` leaves out."""
    start = time.process_time()
    importlib.import_module("torch.export._trace")
    torchs = time.process_time() - start
    eqfuse.optimize(lambda x: x.sum(dim=-1), (torch.empty(8, 64, device="meta"),), target=target)
    return {"first_call_cpu_s": round(time.process_time() - start, 2), "first_call_torch_cpu_s": round(torchs, 2)}


# ---- the modelled side -----------------------------------------------------------------------------------------------------------
def modelled(program, target, architectures, check):
    """Plan a program; figures that need no device.  ``check`` also runs the planned kernels in Triton's interpreter, at sizes that
    it can manage, against float64."""
    args = program.args("bench", device="meta")  # planning needs no data
    start = time.process_time()
    c = eqfuse.optimize(program.fn, args, target=target)
    row = {"program": program.name, "optimize_cpu_s": time.process_time() - start, **summary.of_compiled(c)}
    row["shapes"] = [f"{a.dtype}{list(a.shape)}".removeprefix("torch.") for a in args]
    if check:
        small = program.args("check")
        report = c.at(*small).accuracy(*small)
        row["check"] = {"ok": all(o.within() for o in report.outputs), "ours": max(o.ours for o in report.outputs),
                        "eager": max(o.eager for o in report.outputs), "dtype": program.dtypes[0]}  # fmt: skip
    row["static"] = {arch: [summary.plain(r) for r in c.compile(arch)] for arch in architectures}
    return c, row


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
    """Correctness on the device first; times only of kernels that are right."""
    row["device_check"] = {}
    for size, plan in (("check", c.at), ("odd", lambda *a: eqfuse.optimize(program.fn, a, target=c.target))):
        args = program.args(size, device="cuda")
        report = plan(*args).accuracy(*args)  # check: the planned kernels at other sizes; odd: plans of their own
        row["device_check"][size] = str(report)
        if not all(o.within() for o in report.outputs):
            row["measured"] = f"not timed: the check failed\n{report}"
            return
    inputs = rotations(program.args("bench", device="cuda"), torch.cuda.get_device_properties(0).L2_cache_size)
    contenders = {"eqfuse": c, "eager": program.fn, "torch.compile": torch.compile(program.fn)}
    if call := library(program.name):
        contenders["library"] = call
    row["measured"] = {}
    for name, f in contenders.items():
        try:
            row["measured"][name] = time_us(f, inputs)
        except Exception as e:  # a baseline that cannot run is a result, not a crash of the benchmark
            row["measured"][name] = {"failed": f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"}
        torch.cuda.empty_cache()
    ours = row["measured"]["eqfuse"].get("median_us")
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
    parser.add_argument("--target", default="auto", help="device of the model (default: the one at hand, else h200)")
    parser.add_argument("--compile", nargs="*", default=[], metavar="ARCH", help="compile ahead of time for these")
    parser.add_argument("--check", action="store_true", help="run the planned kernels in Triton's interpreter against float64")
    parser.add_argument("--model-only", action="store_true", help="do not run on the GPU even if there is one")
    parser.add_argument("--save", action="store_true", help="write the results as JSON")
    options = parser.parse_args()
    chosen = [p for p in PROGRAMS.values() if not options.names or any(matches(n, p.name) for n in options.names)]
    if not chosen:
        parser.error(f"no such program; there are {', '.join(PROGRAMS)}")
    env = environment() | first_call(options.target)
    result = {"environment": env, "target": options.target, "rows": [], "failed": {}}
    print("  ".join(f"{k} {v}" for k, v in result["environment"].items() if v is not None))
    print(line(HEADER))
    for program in chosen:
        try:
            c, row = modelled(program, options.target, options.compile, options.check)
        except EqFuseError as e:
            result["failed"][program.name] = f"{type(e).__name__}: {e}"
            print(f"{program.name:30s}{type(e).__name__}: {e.message}")
            continue
        if torch.cuda.is_available() and not options.model_only:
            measured(program, c, row)
        result["rows"].append(row)
        print(line(cells(row)), flush=True)
        details(row)
    if options.save:
        RESULTS.mkdir(exist_ok=True)
        device = (result["environment"]["device"] or "no-gpu").lower().replace(" ", "-")
        path = RESULTS / f"{result['environment']['date'][:10]}-{device}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(f"wrote {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Layers of public models (`eqfuse.testing.models`), and stacks of them: what is planned, and what planning costs.

    python benchmarks/layers.py                            one layer of every model, then stacks of Llama's
    python benchmarks/layers.py gpt2 bert --stacks         these models, no stacks
    python benchmarks/layers.py --stacks 1 2 4 --save      other stacks; write benchmarks/results/DATE-layers.json, after every row

Every row is measured in processes of its own, in which `optimize` has run once on another program: one on an empty cache, one more
on the cache that it left, and one in which `torch.compile` compiles the same module for the CPU of the host.  The method is in
benchmarks/README.md.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from host import commit, host
from run import RESULTS, write

STACKS = (1, 2, 4, 8, 16, 32)  # layers of Llama
MIXED = "llama_widths"


def cpu(f):
    """What a call gives, and its seconds of CPU time."""
    start = time.process_time()
    found = f()
    return found, time.process_time() - start


def peak():
    """Most memory that this process has held so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# ---- what is planned ---------------------------------------------------------------------------------------------------------------
def work(model, layers):
    """Operations of the matrix products, without those that a causal mask leaves out."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from eqfuse.testing.models import Decoder

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.module(layers=layers)(*model.args())
    masked = 0.0
    for k in range(layers if issubclass(model.stack, Decoder) else 0):
        s = model.sizes["bench"][k % len(model.sizes["bench"])]
        masked += 4 * s.batch * s.heads * s.size * s.tokens * (s.tokens - 1) / 2
    return counter.get_total_flops() - masked


def are_scores(shape, model):
    """Whether a tensor has a number for each two positions of a sequence."""
    return any(shape.count(s.tokens) > 1 for s in model.sizes["bench"])


def ours(name, layers, options):
    """One row, in a process that does nothing else."""
    import torch

    import eqfuse
    from eqfuse.extract.targets import load_target
    from eqfuse.frontends import trace
    from eqfuse.testing.models import MODELS

    model = MODELS[name]
    settings = {"target": options.target} | ({} if options.time_budget is None else {"time_budget": options.time_budget})
    eqfuse.optimize(torch.relu, (torch.empty(4, device="meta"),), target=options.target)  # what a first call loads is told apart
    trace(torch.relu, (torch.empty(4, device="meta"),))
    module, args = model.module(layers=layers), model.args()
    before = peak()
    c, optimize_s = cpu(lambda: eqfuse.optimize(module, args, **settings))
    after = peak()
    traced, trace_s = cpu(lambda: trace(module, args))
    exported, export_s = cpu(lambda: torch.export.export(module, args, strict=False))
    _, decompositions_s = cpu(exported.run_decompositions)
    plan, target = c.plan, load_target(options.target)
    flops = work(model, layers)
    bytes_us, flops_us = plan.compulsory_bytes / target.dram_gb_s / 1e3, flops / target.tensor_rate(model.dtype) / 1e6
    return {
        "model": name, "layers": layers, "terms": len(traced.program.terms()),
        "kernels": len(plan.steps), "distinct_kernels": len({id(k) for k in plan.steps}),
        "regions": len(plan.parts), "distinct_regions": len({id(p.plan) for p in plan.parts}),
        "dram_bytes": plan.dram_bytes, "compulsory_bytes": plan.compulsory_bytes, "estimated_us": plan.estimated_us,
        "baseline_us": plan.baseline_us, "baseline_kernels": plan.baseline_kernels, "stopped": plan.stopped,
        "flops": flops, "bytes_us": bytes_us, "flops_us": flops_us, "bound_us": max(bytes_us, flops_us),
        "scores_stored": sum(are_scores(b.shape, model) for k in plan.steps for b in k.stores),
        "optimize_cpu_s": optimize_s, "trace_cpu_s": trace_s, "export_cpu_s": export_s, "decompositions_cpu_s": decompositions_s,
        "peak_bytes": after - before,
    }  # fmt: skip


# ---- what torch.compile takes ------------------------------------------------------------------------------------------------------
class Compiled(Exception):
    """The module is compiled; it is not to run."""


def theirs(name, layers, _):
    """`torch.compile` of the same module for the host's CPU, without data and without running it: CPU time of this process (Dynamo,
    AOTAutograd, Inductor), and of the C++ compiler."""
    import torch
    from torch._inductor.compile_fx import compile_fx

    from eqfuse.testing.models import MODELS

    def compiled(module, args):
        def backend(graph, inputs):
            compile_fx(graph, inputs)

            def stop(*_):
                raise Compiled

            return stop

        def run():
            try:
                torch.compile(module, backend=backend)(*args)
            except Compiled:
                return
            raise AssertionError("nothing was compiled")

        def children():
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            return used.ru_utime + used.ru_stime

        before = children()
        with torch.no_grad():
            _, seconds = cpu(run)
        return seconds, children() - before

    def on_cpu(model, layers, size):  # memory that is never touched
        module = model.module(size, layers).to_empty(device="cpu")
        return module, tuple(torch.empty_like(a, device="cpu") for a in model.args(size))

    other = "bert" if name != "bert" else "vit"
    compiled(*on_cpu(MODELS[other], 1, "tiny"))  # what a first call loads, and probes of the C++ compiler
    torch._dynamo.reset()
    seconds, compiler = compiled(*on_cpu(MODELS[name], layers, "bench"))
    return {"compile_cpu_s": seconds, "compiler_cpu_s": compiler}


# ---- rows --------------------------------------------------------------------------------------------------------------------------
def process(what, name, layers, options, cache):
    """One measurement in a process of its own, whose caches are in a folder."""
    command = [sys.executable, "-W", "ignore", __file__, name, "--one", what, str(layers), "--target", options.target]
    if options.time_budget is not None:
        command += ["--time-budget", str(options.time_budget)]
    places = dict.fromkeys(("XDG_CACHE_HOME", "EQFUSE_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"), cache)
    single = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"), "1")
    done = subprocess.run(command, env={**os.environ, **places, **single}, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return {"failed": f"{what}: exit status {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def row(name, layers, options):
    with tempfile.TemporaryDirectory() as cache:
        found = process("ours", name, layers, options, cache)
        if "failed" in found:
            return {"model": name, "layers": layers, **found}
        again = process("ours", name, layers, options, cache)
        found["again"] = {k: again.get(k) for k in ("optimize_cpu_s", "trace_cpu_s", "estimated_us", "failed")}
        found["torch"] = process("theirs", name, layers, options, cache)
    return found


def line(r):
    if "failed" in r:
        return f"{r['model']:14s}{r['layers']:3d}  {r['failed']}"
    theirs = r["torch"]
    compile_s = f"{theirs['compile_cpu_s']:.2f} + {theirs['compiler_cpu_s']:.1f} s" if "failed" not in theirs else theirs["failed"]
    again = r["again"]["optimize_cpu_s"]
    return (
        f"{r['model']:14s}{r['layers']:3d}  {r['kernels']:4d} kernels ({r['distinct_kernels']})  {r['regions']:4d} regions "
        f"({r['distinct_regions']})  {r['dram_bytes'] / 1e6:9.1f} MB  {r['estimated_us']:9.1f} us  op by op {r['baseline_us']:9.1f}  "
        f"bound {r['bound_us']:9.1f}  scores stored {r['scores_stored']}  optimize {r['optimize_cpu_s']:6.2f} s, trace "
        f"{r['trace_cpu_s']:5.2f}, again {again or 0:6.2f}  {r['peak_bytes'] / 1e6:5.0f} MB  torch.compile {compile_s}  {r['stopped']}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these models")
    parser.add_argument("--stacks", nargs="*", type=int, default=list(STACKS), metavar="LAYERS", help="layers of the stacks of Llama's")
    parser.add_argument("--target", default="h200")
    parser.add_argument("--time-budget", type=float, metavar="S", help="as optimize takes it")
    parser.add_argument("--save", action="store_true", help="write the results as JSON")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where --save writes (default: benchmarks/results)")
    parser.add_argument("--one", nargs=2, metavar=("WHAT", "LAYERS"), help="one measurement in this process, as JSON")
    options = parser.parse_args()
    if options.one:
        what, layers = options.one
        print(json.dumps({"ours": ours, "theirs": theirs}[what](options.names[0], int(layers), options)))
        return 0
    from eqfuse.testing.models import MODELS

    if unknown := set(options.names) - set(MODELS):
        parser.error(f"no such model: {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    chosen = [name for name in MODELS if name in (options.names or MODELS)]
    wanted = [(name, 1, "layers") for name in chosen if name != MIXED]
    wanted += [("llama", n, "stacks") for n in options.stacks if "llama" in chosen]
    wanted += [(MIXED, len(MODELS[MIXED].sizes["bench"]), "stacks")] if MIXED in chosen and options.stacks else []
    environment = host("torch", "triton", "numpy", "egglog") | {"commit": commit()}
    result = {"environment": environment, "target": options.target, "time_budget_s": options.time_budget, "layers": [], "stacks": []}
    path = options.results / f"{environment['date'][:10]}-layers.json"
    known = {}
    for name, layers, part in wanted:
        found = known.get((name, layers)) or row(name, layers, options)
        known[name, layers] = found
        result[part].append(found)
        print(line(found), flush=True)
        if options.save:
            write(path, result)
    return 1 if any("failed" in r for r in (*result["layers"], *result["stacks"])) else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""What a warm start adds: `torch.compile` of a model in a new process, by EqFuse with its kernels on disk, and by torch's `aot_eager`.

    python benchmarks/warm.py               three pairs of processes, one after the other; CPU seconds of the first call
    python benchmarks/warm.py --training    the same with the backward pass: two graphs, and what is saved between them
    python benchmarks/warm.py --save        write benchmarks/results/DATE-warm.json, or DATE-training-warm.json

A layer of Llama at the sizes of its public configuration, without memory and not run: both compile and return empty tensors. Apart are
imports, what a first compilation loads, and what it takes to execute the modules of the kernels, which their first call does (Triton's own
compiler, which has a cache of its own, comes after that).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from host import commit, host
from layers import cpu
from run import RESULTS, write


def one(what, target, training, seconds_to_plan):
    import torch

    from eqfuse.testing.models import MODELS

    loaded = 0.0
    if what == "eqfuse":
        _, loaded = cpu(lambda: __import__("eqfuse.backend"))
        from eqfuse.backend import compile_graph

        backend = {"backend": compile_graph, "options": {"target": target, "run": "torch", "time_budget": seconds_to_plan}}
    else:
        backend = {"backend": "aot_eager"}
    module = MODELS["llama"].module(layers=1).requires_grad_(training)
    args = MODELS["llama"].args()
    small = torch.nn.Linear(4, 4, device="meta").requires_grad_(training)

    def run(f, *args):
        out = torch.compile(f, **backend)(*args)
        if training:
            out.sum().backward()

    with torch.set_grad_enabled(training):
        _, first = cpu(lambda: run(small, torch.empty(4, 4, device="meta")))
        _, seconds = cpu(lambda: run(module, *args))
    found = {"import_cpu_s": loaded, "first_cpu_s": first, "cpu_s": seconds}
    if what == "eqfuse":
        from eqfuse.extract.kept import folder
        from eqfuse.runtime.modules import load_module

        texts = [e.data["module"] for e in folder.entries() if "module" in e.data]
        _, modules = cpu(lambda: [load_module(text, "run") for text in texts])
        found |= {"graphs": len(texts), "modules_cpu_s": modules}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--target", default="h200")
    parser.add_argument("--training", action="store_true", help="with the backward pass")
    parser.add_argument("--time-budget", type=float, default=10.0, help="of the backend; what a clock ends is not kept")
    parser.add_argument("--save", action="store_true", help="write the results as JSON")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where --save writes (default: benchmarks/results)")
    parser.add_argument("--one", help="one measurement in this process, as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.target, options.training, options.time_budget)))
        return
    environment = host("torch", "triton", "numpy", "egglog") | {"commit": commit()}
    runs = {"cold": [], "eqfuse": [], "aot_eager": []}
    with tempfile.TemporaryDirectory() as cache:
        places = {"EQFUSE_CACHE_DIR": cache, "EQFUSE_CACHE": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        for name in ("cold", *("eqfuse", "aot_eager") * options.pairs):
            command = [sys.executable, "-W", "ignore", __file__, "--target", options.target, "--time-budget", str(options.time_budget)]
            command += ["--training"] * options.training + ["--one", name.replace("cold", "eqfuse")]
            done = subprocess.run(command, env={**os.environ, **places}, stdout=subprocess.PIPE, text=True, check=True)
            runs[name].append(json.loads(done.stdout.splitlines()[-1]))
            print(name, runs[name][-1], flush=True)
    middle = {name: {k: statistics.median(r[k] for r in rows) for k in rows[0]} for name, rows in runs.items()}
    print(f"a warm start adds {1e3 * (middle['eqfuse']['cpu_s'] - middle['aot_eager']['cpu_s']):.0f} ms to torch's own")
    if options.save:
        kind = "training-warm" if options.training else "warm"
        path = options.results / f"{environment['date'][:10]}-{kind}.json"
        told = {"target": options.target, "training": options.training, "time_budget": options.time_budget}
        write(path, {"environment": environment, **told, "runs": runs, "medians": middle})


if __name__ == "__main__":
    main()

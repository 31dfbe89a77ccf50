"""What a warm start adds: `torch.compile` of a model in a new process, by EqFuse with its plans on disk, and by torch's `aot_eager`.

    python benchmarks/warm.py               three pairs of processes, one after the other; CPU seconds of the first call
    python benchmarks/warm.py --save        write benchmarks/results/DATE-warm.json

A layer of Llama (inference) at the sizes of its public configuration, without memory and not run: both compile and return empty tensors.
Imports are apart, and so is what a first compilation loads.
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


def one(what, target):
    import torch

    from eqfuse.testing.models import MODELS

    loaded = 0.0
    if what == "eqfuse":
        _, loaded = cpu(lambda: __import__("eqfuse.backend"))
        from eqfuse.backend import compile_graph

        backend = {"backend": compile_graph, "options": {"target": target, "run": "torch"}}
    else:
        backend = {"backend": "aot_eager"}
    module = MODELS["llama"].module(layers=1)
    args = MODELS["llama"].args()
    with torch.no_grad():
        _, first = cpu(lambda: torch.compile(torch.tanh, **backend)(torch.empty(4, device="meta")))
        _, seconds = cpu(lambda: torch.compile(module, **backend)(*args))
    return {"import_cpu_s": loaded, "first_cpu_s": first, "cpu_s": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--target", default="h200")
    parser.add_argument("--save", action="store_true", help="write the results as JSON")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where --save writes (default: benchmarks/results)")
    parser.add_argument("--one", help="one measurement in this process, as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options.target)))
        return
    environment = host("torch", "triton", "numpy", "egglog") | {"commit": commit()}
    runs = {"cold": [], "eqfuse": [], "aot_eager": []}
    with tempfile.TemporaryDirectory() as cache:
        places = {"EQFUSE_CACHE_DIR": cache, "EQFUSE_CACHE": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        for name in ("cold", *("eqfuse", "aot_eager") * options.pairs):
            command = [sys.executable, "-W", "ignore", __file__, "--target", options.target, "--one", name.replace("cold", "eqfuse")]
            done = subprocess.run(command, env={**os.environ, **places}, stdout=subprocess.PIPE, text=True, check=True)
            runs[name].append(json.loads(done.stdout.splitlines()[-1]))
            print(name, runs[name][-1], flush=True)
    middle = {name: {k: statistics.median(r[k] for r in rows) for k in rows[0]} for name, rows in runs.items()}
    print(f"a warm start adds {1e3 * (middle['eqfuse']['cpu_s'] - middle['aot_eager']['cpu_s']):.0f} ms to torch's own")
    if options.save:
        path = options.results / f"{environment['date'][:10]}-warm.json"
        write(path, {"environment": environment, "target": options.target, "runs": runs, "medians": middle})


if __name__ == "__main__":
    main()

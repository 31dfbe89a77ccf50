"""A whole language model of Llama-3-8B's shape, of 1 to 32 layers: what it takes to plan it, forward alone and with its backward pass.

    python benchmarks/scaling.py                         1, 2, 4, 8, 16 and 32 layers
    python benchmarks/scaling.py --layers 1 2 --save     these; write benchmarks/results/DATE-scaling.json, after every row

Embedding, layers, the last norm, a vocabulary of 128256, and in training the cross-entropy.  Three ways in: `eqfuse.optimize`,
`torch.compile` for inference, and `torch.compile` forward and backward.  Weights have no memory (they are on `meta`, or are never
touched), and nothing is run: what a graph returns is empty.  Every row is measured in a process of its own, without the cache of plans,
in which another program was compiled before.  Times are CPU seconds, and of them those spent in EqFuse; memory is the most that the
process held more than before.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from host import commit, host
from layers import cpu, peak
from run import RESULTS, write

LAYERS = (1, 2, 4, 8, 16, 32)
WAYS = ("optimize", "inference", "training")
VOCABULARY = 128256


def model(layers):
    """The model on `meta`, and its arguments: tokens, cosines and sines of positions, labels."""
    import torch
    import torch.nn.functional as F  # noqa: N812 - as everybody calls it

    from eqfuse.testing.models import MODELS, LlamaLayer, RMSNorm, causal_mask

    sizes = MODELS["llama"].sizes["bench"][0]

    class Language(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(VOCABULARY, sizes.hidden)
            self.layers = torch.nn.ModuleList(LlamaLayer(sizes) for _ in range(layers))
            self.last = RMSNorm(sizes.hidden, 1e-5)
            self.head = torch.nn.Linear(sizes.hidden, VOCABULARY, bias=False)

        def forward(self, tokens, cos, sin, labels=None):
            hidden = self.embed(tokens)
            mask = causal_mask(hidden)
            for layer in self.layers:
                hidden = layer(hidden, mask, cos, sin)
            scores = self.head(self.last(hidden))
            return scores if labels is None else F.cross_entropy(scores.flatten(0, 1).float(), labels.flatten())

    with torch.device("meta"):
        tokens = torch.zeros(sizes.batch, sizes.tokens, dtype=torch.long)
        angle = torch.zeros(1, sizes.tokens, sizes.size, dtype=torch.bfloat16)
        return Language().to(torch.bfloat16), (tokens, angle, angle.clone(), tokens.clone())


def planned(plan):
    """What became of one graph, whose plan has pieces of plans."""
    pieces = [p.plan for p in plan.pieces]
    parts = [part for p in pieces for part in (p.parts or (p,))]
    different = {id(getattr(p, "plan", p)) for p in parts}
    return {
        "kernels": len(plan.kernels), "regions": len(parts), "distinct_regions": len(different),
        "us": plan.estimated_us, "unfused_us": plan.baseline_us, "in_torch": len(plan.library),
        "stopped": sorted({p.stopped for p in pieces}),
    }  # fmt: skip


def one(way, layers, options):
    """One row, in a process that does nothing else."""
    import torch

    import eqfuse
    from eqfuse.backend import compile_graph, compiling

    settings = {"target": options.target, "time_budget": options.time_budget}
    ours = [0.0]
    if way == "optimize":
        eqfuse.optimize(torch.relu, (torch.empty(4, device="meta"),), **settings)  # what a first call loads is told apart
        module, args = model(layers)
        before = peak()
        found, seconds = cpu(lambda: eqfuse.optimize(module.requires_grad_(False).eval(), args[:3], **settings))
        plan = found.plan
        ours, graphs = [seconds], [{
            "kernels": len(plan.steps), "regions": len(plan.parts), "distinct_regions": len({id(p.plan) for p in plan.parts}),
            "us": plan.estimated_us, "unfused_us": plan.baseline_us, "in_torch": 0, "stopped": [plan.stopped],
        }]  # fmt: skip
        return {"cpu_s": seconds, "ours_cpu_s": seconds, "peak_bytes": peak() - before, "graphs": graphs}

    def empty(runner, args):
        args.clear()
        (results,) = next(n for n in runner.module.graph.nodes if n.op == "output").args
        values = [r.meta["val"] if isinstance(r, torch.fx.Node) else r for r in results]
        return [torch.empty_strided(v.shape, v.stride(), dtype=v.dtype) if isinstance(v, torch.Tensor) else v for v in values]

    prepare = compiling._Runner.prepare

    def timed(*given):
        found, seconds = cpu(lambda: prepare(*given))
        ours[0] += seconds
        return found

    compiling._Runner.__call__, compiling._Runner.prepare = empty, timed

    def compiled(f, args, parameters):
        result = torch.compile(f, backend=compile_graph, options=settings)(*args)
        return torch.autograd.grad(result, parameters) if parameters else result

    other = torch.nn.Linear(4, 4)  # what a first compilation loads is told apart
    compiled(lambda x: torch.softmax(other(x), -1).sum(), (torch.ones(2, 4),), list(other.parameters()))
    torch._dynamo.reset()
    eqfuse.report(reset=True)
    ours[0] = 0.0
    module, args = model(layers)
    module = module.to_empty(device="cpu").requires_grad_(way == "training")
    args = tuple(torch.empty_like(a, device="cpu") for a in args[: 4 if way == "training" else 3])
    before = peak()
    _, seconds = cpu(lambda: compiled(module, args, [p for p in module.parameters() if p.requires_grad]))
    graphs = [{"kind": g.kind, "reasons": g.reasons, **planned(g.plans[0])} for g in eqfuse.report().graphs]
    return {"cpu_s": seconds, "ours_cpu_s": ours[0], "peak_bytes": peak() - before, "graphs": graphs}


def process(way, layers, options):
    command = [sys.executable, "-W", "ignore", __file__, "--one", way, str(layers)]
    command += ["--target", options.target, "--time-budget", str(options.time_budget)]
    environment = {**os.environ, "EQFUSE_CACHE": "0", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"failed": f"exit status {done.returncode}"}
    return {"way": way, "layers": layers, **found}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=WAYS)
    parser.add_argument("--layers", nargs="*", type=int, default=LAYERS)
    parser.add_argument("--target", default="h200")
    parser.add_argument("--time-budget", type=float, default=10.0, metavar="S", help="for each graph, as optimize takes it")
    parser.add_argument("--save", action="store_true", help="write the results as JSON")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where --save writes (default: benchmarks/results)")
    parser.add_argument("--one", nargs=2, metavar=("WAY", "LAYERS"), help="one measurement in this process, as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one[0], int(options.one[1]), options)))
        return 0
    environment = host("torch", "triton", "numpy", "egglog") | {"commit": commit()}
    result = {"environment": environment, "target": options.target, "time_budget_s": options.time_budget, "rows": []}
    for way in options.ways:
        for layers in options.layers:
            result["rows"].append(row := process(way, layers, options))
            print(json.dumps(row), flush=True)
            if options.save:
                write(options.results / f"{environment['date'][:10]}-scaling.json", result)
    return 1 if any("failed" in r for r in result["rows"]) else 0


if __name__ == "__main__":
    raise SystemExit(main())

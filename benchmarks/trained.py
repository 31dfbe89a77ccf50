"""Ten small models (`eqfuse.testing.small_models`) trained by the kernels of `torch.compile`, and the loss curve of eager.

    python benchmarks/trained.py                           50 steps of each
    python benchmarks/trained.py llama gpt2 --steps 10     these, so many steps
    python benchmarks/trained.py --save                    write benchmarks/results/DATE-trained.json, after every model

Kernels of both passes are those for a CPU, in C; with `--target h200` those for a GPU, in Triton's interpreter, which takes minutes for
each model.  A graph that torch ran, in any call, is a failure: it would be compared with itself.  Random numbers, weights and
batches are those of the eager run; the optimizer is torch's.  Beside the loss, a single number of few digits, stands how far the weights
of the middle parameter are from eager's in the end: they would be equal if torch had run both.
"""

import argparse
import copy
import statistics
import sys
from pathlib import Path

from host import commit, host
from layers import cpu
from run import RESULTS, write


def row(name, options):
    import torch

    import eqfuse
    from eqfuse.backend import compile_graph
    from eqfuse.extract.targets import load_target
    from eqfuse.testing.small_models import SMALL, trained

    torch._dynamo.reset()
    eqfuse.report(reset=True)
    torch.manual_seed(0)
    model = SMALL[name]()
    same = copy.deepcopy(model)
    run = "auto" if load_target(options.target).on_cpu else "interpret"
    settings = {"run": run, "target": options.target, "time_budget": options.time_budget}
    wanted = trained(model, model, options.steps)
    losses, seconds = cpu(lambda: trained(same, torch.compile(same, backend=compile_graph, options=settings), options.steps))
    graphs = eqfuse.report().graphs
    pairs = zip(model.parameters(), same.parameters(), strict=True)
    weights = [((a - b).abs().max() / a.abs().max()).item() for a, b in pairs]
    return {
        "model": name, "steps": options.steps, "eager": wanted, "losses": losses, "cpu_s": seconds,
        "worst": max(abs(a - b) / abs(a) for a, b in zip(wanted, losses, strict=True)),
        "weights": statistics.median(weights),
        "graphs": [
            {
                "kind": g.kind, "calls": g.calls, "by_kernels": g.ran, "reasons": g.reasons, "kernels": [len(p.kernels) for p in g.plans],
                "in_torch": sorted(s.target for p in g.plans for s in p.library),
            }
            for g in graphs
        ],
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these models")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--time-budget", type=float, default=10.0, metavar="S", help="for each graph, as optimize takes it")
    parser.add_argument("--save", action="store_true", help="write the results as JSON")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where --save writes (default: benchmarks/results)")
    options = parser.parse_args()
    from eqfuse.testing.small_models import SMALL

    if unknown := set(options.names) - set(SMALL):
        parser.error(f"no such model: {', '.join(sorted(unknown))}; there are {', '.join(SMALL)}")
    environment = host("torch", "triton", "numpy") | {"commit": commit()}
    result = {"environment": environment, "target": options.target, "time_budget": options.time_budget, "rows": []}
    fell_back = False
    for name in options.names or SMALL:
        result["rows"].append(r := row(name, options))
        kernels = " + ".join(str(sum(g["kernels"])) for g in r["graphs"])
        reasons = [why for g in r["graphs"] for why in g["reasons"]]
        reasons += [f"torch ran a {g['kind']} pass" for g in r["graphs"] if g["by_kernels"] < g["calls"] or not sum(g["kernels"])]
        fell_back |= bool(reasons)
        apart = f"worst {r['worst']:.1e}  weights {r['weights']:.1e}"
        print(f"{name:14s}{r['losses'][0]:8.4f} to {r['losses'][-1]:.4f}  {apart}  kernels {kernels}  {reasons}", flush=True)
        if options.save:
            write(options.results / f"{environment['date'][:10]}-trained.json", result)
    return int(fell_back)


if __name__ == "__main__":
    sys.exit(main())

"""Models of HuggingFace transformers as they are, through ``torch.compile(model, backend="eqfuse")``: whether right, and what they take.

    python benchmarks/models.py PATH             PATH: where transformers is installed
    python benchmarks/models.py PATH --only T5   models whose names have that
    --save                                       writes a row after each model
    --what check                                 only whether it is right; --what layer: only what it takes

First a model of one small layer: every kernel of its inference, forward and backward graphs runs in Triton's interpreter, and its result
and the gradient of every parameter are compared with the same model in float64.  Then models of one layer and of two are planned at larger
sizes, and what the second layer adds is counted: in our plan, in eager code (every operator that torch dispatches and that is no view, with
the bytes of its arguments and results), and in what Inductor's scheduler makes of the graphs.
"""

import argparse
import copy
import json
import multiprocessing
import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from host import commit, host
from public import huggingface

RESULTS = Path(__file__).parent / "results"
TARGET = "h200"
SECONDS = 600  # of CPU time for one model
CHECKED = {"layers": 1, "width": 32, "positions": 8}
COUNTED = {"width": 512, "positions": 256}
UNROLLED = {"Mamba": 16}  # positions, where the library's own loop over them is part of the graph
SMALL = 1e-3  # of the largest gradient of all
RIGHT = 1e-5, 10  # errors of a result or gradient, of its largest element, that are right; or so many times eager's


def checked(name, options):
    """Errors of the result and of the gradient farthest from eager's, beside eager's own."""
    import torch

    import eqfuse
    from eqfuse.backend import compile_graph

    model, args = huggingface.made(name, **CHECKED, attention=None)
    wide, plain = copy.deepcopy(model).double(), copy.deepcopy(model)
    if wide.model._can_set_experts_implementation():
        wide.model.set_experts_implementation("eager")  # torch's product of groups has no float64
    exact_args = tuple(a.double() if a.is_floating_point() else a for a in args)
    eqfuse.report(reset=True)
    ours = torch.compile(model, backend=compile_graph, options={"run": "interpret", "target": TARGET, "time_budget": 1.0})
    with torch.no_grad():
        found = {"inference": tuple(f(*a) for f, a in ((ours, args), (plain, args), (wide, exact_args)))}
    results = [f(*a) for f, a in ((ours, args), (plain, args), (wide, exact_args))]
    found["forward"] = tuple(r.detach() for r in results)
    torch.manual_seed(1)
    seed = torch.randn_like(results[0])
    for r in results:
        r.backward(seed.to(r.dtype))
    for (at, p), q, r in zip(model.named_parameters(), plain.parameters(), wide.parameters(), strict=True):
        if r.grad is not None:
            found[at] = (p.grad, q.grad, r.grad)
    gradients = [k for k in found if k not in KINDS]
    least = {k: SMALL * max(float(found[g][2].abs().max()) for g in gradients) if k in gradients else 1e-30 for k in found}
    errors = {k: (error(x, z, least[k]), error(y, z, least[k])) for k, (x, y, z) in found.items()}
    worst = max(gradients, key=lambda k: errors[k][0] / max(errors[k][1], RIGHT[0] / RIGHT[1]))
    kernels = {kind: sum(p["kernels"] for g in graphs() if g["kind"] == kind for p in g["plans"]) for kind in KINDS}
    row = {k: {"error": e, "eager": mine, "right": e <= max(RIGHT[0], RIGHT[1] * mine)} for k, (e, mine) in errors.items()}
    return {
        "inference": row["inference"], "forward": row["forward"],
        "backward": {**row[worst], "right": all(row[k]["right"] for k in gradients), "worst": worst, "gradients": len(gradients)},
        "kernels": kernels, "in_torch": [why for g in graphs() for why in g["reasons"]],
    }  # fmt: skip


KINDS = ("inference", "forward", "backward")


def error(found, exact, least):
    """The largest difference, of the largest element, or of ``least`` if that is more: some gradients are 0 but for rounding."""
    if found is None or not bool(found.isfinite().all()):
        return float("inf")
    return float((found.double() - exact).abs().max() / exact.abs().max().clamp_min(least))


def graphs(**options):
    import eqfuse

    return json.loads(eqfuse.report(**options).json())["graphs"]


def counted(name, layers, options):
    """By kind of graph: kernels, operators in torch and bytes, ours, eager's and Inductor's, of a model of so many layers."""
    import torch

    import eqfuse
    from eqfuse.backend import compile_graph

    sizes = COUNTED | ({"positions": UNROLLED[name]} if name in UNROLLED else {})
    model, args = huggingface.made(name, layers=layers, **sizes, attention=None)
    torch._dynamo.reset()
    eqfuse.report(reset=True)
    f = torch.compile(model, backend=compile_graph, options={"run": "torch", "target": TARGET, "time_budget": options.time_budget})
    with torch.no_grad():
        f(*args)
    f(*args).sum().backward()
    found = {kind: {"graphs": 0, "ours": Counter(), "inductor": Counter(), "library": Counter(), "reasons": []} for kind in KINDS}
    for g in graphs(inductor=True):
        row, other = found[g["kind"]], g["inductor"]
        row["graphs"] += 1
        row["reasons"] += g["reasons"] + ([f"Inductor: {other['reason']}"] if "reason" in other else [])
        for p in g["plans"][:1]:
            row["ours"].update(kernels=p["kernels"], bytes=p["bytes"] + p["library_bytes"], us=p["us"])
        for x in g["library"]:
            row["ours"].update(operators=x["times"])
            row["library"].update({f"{x['operator']}: {x['reason']}": x["times"]})
        if "reason" not in other:
            row["inductor"].update(kernels=other["kernels"], operators=sum(other["library"].values()), bytes=other["bytes"], us=other["us"])
    for kind, eager in eager_counts(model, args).items():
        found[kind]["eager"] = eager
    return found


def eager_counts(model, args):
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Count(TorchDispatchMode):
        def __enter__(self):
            self.found = Counter()
            return super().__enter__()

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            aliases = {a.untyped_storage()._cdata for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)}
            made = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
            view = func.is_view or (not func._schema.is_mutable and made and all(x.untyped_storage()._cdata in aliases for x in made))
            if made and not view and func._schema.name not in ("aten::empty", "aten::empty_like", "aten::new_empty"):
                tensors = {id(x): x for x in tree_leaves((args, kwargs, out)) if isinstance(x, torch.Tensor)}
                self.found.update(operators=1, bytes=sum(stored(x) for x in tensors.values()))
            return out

    with torch.no_grad(), Count() as inference:
        model(*args)
    with Count() as forward:
        out = model(*args).sum()
    with Count() as backward:
        out.backward()
    return {"inference": inference.found, "forward": forward.found, "backward": backward.found}


def stored(x):
    """Bytes of a tensor, once where it is expanded."""
    n = x.element_size()
    for size, stride in zip(x.shape, x.stride(), strict=True):
        n *= size if stride else 1
    return n


def layer(name, options):
    """What the second layer adds."""
    one, two = counted(name, 1, options), counted(name, 2, options)
    return {
        kind: {
            "graphs": two[kind]["graphs"], "reasons": two[kind]["reasons"],
            "library": dict(two[kind]["library"] - one[kind]["library"]),
            "model_library": dict(two[kind]["library"]),
            **{who: {k: n - one[kind][who][k] for k, n in two[kind][who].items()} for who in ("ours", "eager", "inductor")},
            "model": {who: dict(two[kind][who]) for who in ("ours", "eager", "inductor")},
        }
        for kind in KINDS
    }  # fmt: skip


def child(measure, name, options, pipe):
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    warnings.simplefilter("ignore")
    start = time.process_time()
    try:
        found = measure(name, options)
    except Exception as problem:
        traceback.print_exc()
        found = {"why": f"{type(problem).__name__}: {problem}"[:400]}
    pipe.send({**found, "cpu_s": round(time.process_time() - start, 1)})


def apart(measure, name, options):
    """A measurement in a process of its own."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=child, args=(measure, name, options, theirs))
    process.start()
    theirs.close()
    try:
        found = ours.recv()
    except EOFError:
        found = {"why": f"ended by a limit of {SECONDS} s of CPU time"}
    process.join()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--only", default="", metavar="WORDS", help="parts of names, with commas between them")
    parser.add_argument("--what", choices=["check", "layer", "both"], default="both")
    parser.add_argument("--time-budget", type=float, default=15.0, metavar="S", help="of each graph, as optimize takes it")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/DATE-models.json")
    options = parser.parse_args()
    sys.path.insert(0, str(options.path))
    import torch

    torch.set_num_threads(1)
    environment = {**host("torch", "transformers"), "commit": commit(), "target": TARGET, "checked": CHECKED, "counted": COUNTED}
    path = RESULTS / f"{environment['date'][:10]}-models.json"
    rows = {r["model"]: r for r in json.loads(path.read_text())["rows"]} if options.save and path.exists() else {}
    for name in huggingface.MODELS:
        if not any(word in name for word in options.only.split(",")):
            continue
        row = rows.setdefault(name, {"model": name})
        for key, measure in (("check", checked), ("layer", layer)):
            if options.what in ("both", key):
                row[key] = {"commit": environment["commit"], "time_budget": options.time_budget, **apart(measure, name, options)}
                print(name, key, json.dumps(row[key]), flush=True)
        if options.save:
            path.write_text(json.dumps({"environment": environment, "rows": list(rows.values())}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""What planning takes: work, which is the same on every machine, and CPU seconds of one core, with engines that have the rules already.

    python benchmarks/latency.py                              every program; models of transformers where that is installed,
    python benchmarks/latency.py --transformers PATH --save   as it is at PATH; writes benchmarks/results/DATE-latency.json
    python benchmarks/latency.py --only Llama --repeats 1     programs whose names have that

Each program is planned once for the engines, then `--repeats` times.  Seconds are the median of these, from a function to its plan, without
the cache of plans.  Nothing has data but the models of transformers, which `torch.compile` calls once: the time has Dynamo's.
"""

import argparse
import importlib.util
import os
import statistics
import sys
import time
from pathlib import Path

import first
import torch
from host import commit, host, write
from public import huggingface
from torch import nn

import eqfuse
from eqfuse import work
from eqfuse.testing.models import MODELS
from eqfuse.testing.programs import PROGRAMS

RESULTS = Path(__file__).parent / "results"
TINY = {"layers": 1, "width": 32, "positions": 16}


def program(name):
    case = PROGRAMS[name]
    return case.fn, case.args("bench", device="meta"), case.options


def llama(layers):
    return MODELS["llama"].module(layers=layers), MODELS["llama"].args(), {}


def perceptron():
    with torch.device("meta"):
        layers = nn.LayerNorm(24), nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 24), nn.Softmax(-1)
        return nn.Sequential(*layers), (torch.empty(6, 24),), {"training": True}


CASES = {  # what is planned, and in how many seconds it is to be
    "attention": (0.5, lambda: [program("attention")]),
    "attention, soft cap": (0.8, lambda: [program("attention_softcap")]),
    f"the corpus, {len(PROGRAMS)} programs": (12.0, lambda: [program(name) for name in PROGRAMS]),
    "a layer of Llama": (3.0, lambda: [llama(1)]),
    "4 layers of Llama": (4.0, lambda: [llama(4)]),
    "32 layers of Llama": (8.0, lambda: [llama(32)]),
    "a perceptron, both passes": (1.5, lambda: [perceptron()]),
}
COMPILED = {"Qwen3-MoE, a tiny layer, by torch.compile": 10.0, "GPT-OSS, a tiny layer, by torch.compile": 10.0}
TO_REACH_US = {"a layer of Llama": 1771.5}  # modelled
FIRST, FIRST_TO_REACH = "attention, the first call of a process", 1.5


def planned(fn, args, target, options):
    """The plans of a program, of both passes where it is trained."""
    found = eqfuse.optimize(fn, args, target=target, **options)
    return [found.forward.plan, found.backward.plan] if options.get("training") else [found.plan]


def compiled(module, args, target):
    """The plans of the graphs of a module, by `torch.compile`."""
    torch._dynamo.reset()
    eqfuse.report(reset=True)
    with torch.no_grad():
        torch.compile(module, backend=eqfuse.backend.compile_graph, options={"run": "torch", "target": target})(*args)
    return [p for g in eqfuse.report().graphs for plan in g.plans for p in plan.plans]


def measured(plan):
    """What it takes to make plans, and what they are."""
    before, start = work.now(), time.process_time()
    plans = plan()
    return {
        "cpu_s": time.process_time() - start, "work": work.now() - before,
        "us": sum(p.estimated_us for p in plans), "kernels": sum(len(p.steps) for p in plans),
        "stopped": sorted({p.stopped for p in plans}), "saturation": sorted({p.saturation for p in plans}),
    }  # fmt: skip


def row(name, to_reach, plan, repeats):
    """The median of some measurements, with warm engines; all of them are to take the same work."""
    found = [measured(plan) for _ in range(1 + repeats)][1:]
    assert len({r["work"] for r in found}) == 1, f"{name}: the work of one plan differs from call to call"
    bars = {"to_reach_s": to_reach, "to_reach_us": TO_REACH_US.get(name)}
    return {"program": name, **bars, **found[0], "cpu_s": statistics.median(r["cpu_s"] for r in found)}


def rows(target, only, repeats):
    """The rows whose names have a word, one after the other."""
    for name, (to_reach, made) in CASES.items():
        if only in name:
            programs = made()
            yield row(name, to_reach, lambda p=programs: [plan for fn, args, o in p for plan in planned(fn, args, target, o)], repeats)
    for name, to_reach in COMPILED.items():
        if only in name and importlib.util.find_spec("transformers"):
            module, args = huggingface.made(name.partition(",")[0], **TINY, attention=None)
            yield row(name, to_reach, lambda m=module, a=args: compiled(m, a, target), repeats)
    if only in FIRST:
        yield {"program": FIRST, "to_reach_s": FIRST_TO_REACH, "cpu_s": first.medians(target, repeats)["first_call_cpu_s"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="programs whose names have it")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--target", default="h200")
    parser.add_argument("--transformers", type=Path, metavar="PATH")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    os.environ["EQFUSE_CACHE"] = "0"
    sys.path += [str(options.transformers)] if options.transformers else []
    torch.set_num_threads(1)
    result = {"environment": {**host("torch", "egglog", "transformers"), "commit": commit()}, "target": options.target, "rows": []}
    for found in rows(options.target, options.only, options.repeats):
        result["rows"].append(found)
        print(found, flush=True)
        if options.save:
            write(RESULTS / f"{result['environment']['date'][:10]}-latency.json", result)


if __name__ == "__main__":
    main()

"""What ``time_budget`` allows and what is used: work, which is the same on every machine, and the CPU seconds that it took here.

    python benchmarks/budget.py                      every program at 0.1, 1 and 10 s
    python benchmarks/budget.py --only linear        programs whose names have that
    python benchmarks/budget.py --save               writes benchmarks/results/DATE-budget.json, after every row

Beside each is the modelled time of the plan, and of the plan op by op under the same model of kernels, which it does not exceed unless a
limit of memory rules it out.
"""

import argparse
import os

import torch
from host import commit, host, write
from latency import RESULTS, llama, measured, program

import eqfuse
from eqfuse import work
from eqfuse.egraph import saturate
from eqfuse.extract.covers import Extractor
from eqfuse.testing.models import MODELS, Linears

BUDGETS = 0.1, 1.0, 10.0
CORPUS = "row_softmax", "rmsnorm_linear", "linear_cross_entropy", "attention", "attention_causal", "attention_softcap", "attention_decode"


def pointwise(x, y):
    for k in range(20):
        x = torch.tanh(x) * y + k
    return x


def empty(*shape):
    return torch.empty(*shape, dtype=torch.float16, device="meta")


def linears(depth):
    with torch.device("meta"):
        return Linears(depth, 1024).half(), (empty(4096, 1024),), {}


MADE = {
    "linears, 3": lambda: linears(3),
    "linears, 17": lambda: linears(17),
    "pointwise, 60 operations": lambda: (pointwise, (empty(4096, 4096), empty(4096, 4096)), {}),
    "(a @ b) @ v": lambda: (lambda a, b, v: (a @ b) @ v, (empty(4096, 4096), empty(4096, 4096), empty(4096, 1)), {}),
    "linear attention": lambda: (lambda q, k, v: (q @ k.mT) @ v, tuple(empty(1, 32, 4096, 128) for _ in range(3)), {}),
    "a layer of Llama": lambda: llama(1),
    "four layers of Llama": lambda: llama(4),
    "two layers of BERT": lambda: (MODELS["bert"].module(layers=2), MODELS["bert"].args(), {}),
}


def rows(name, target):
    """One program at each budget, beside its plan op by op under the same model of kernels."""
    fn, args, options = MADE[name]() if name in MADE else program(name)
    traced = eqfuse.optimize(fn, args, target=target, time_budget=0, **options)
    floor = Extractor(saturate(traced.program, rules=()), traced.target).op_by_op()
    for budget in BUDGETS:
        found = measured(lambda b=budget: [eqfuse.optimize(fn, args, target=target, time_budget=b, **options).plan])
        yield {"program": name, "budget_s": budget, "allowed": work.RATE * budget, **found, "op_by_op_us": floor.us}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="", metavar="WORD")
    p.add_argument("--target", default="h200")
    p.add_argument("--save", action="store_true")
    options = p.parse_args()
    os.environ["EQFUSE_CACHE"] = "0"
    result = {"environment": {**host("torch", "egglog"), "commit": commit()}, "target": options.target, "rows": []}
    eqfuse.optimize(torch.relu, (empty(4),), target=options.target)  # what a process pays once
    for name in (n for n in (*CORPUS, *MADE) if options.only in n):
        for row in rows(name, options.target):
            result["rows"].append(row)
            print(row, flush=True)
            if options.save:
                write(RESULTS / f"{result['environment']['date'][:10]}-budget.json", result)


if __name__ == "__main__":
    main()

"""What a call on small CPU tensors costs: eager, through `optimize`, a saved module, and `torch.compile` with both backends.

    python benchmarks/calls.py              every program; --only WORD those whose names have it
    python benchmarks/calls.py --save       write benchmarks/results/DATE-calls.json

Microseconds of CPU on one thread, medians of rounds.  In a round each way is called in turn, so that a busy machine is as slow for each;
ratios are medians of those in a round.  Dynamo keeps what it compiled by code, and looks it up in turn: each way has code of its own.
"""

import argparse
import os
import statistics
import time
import types
import warnings

import torch
from latency import keep
from torch.nn.functional import layer_norm

import eqfuse

ROUNDS, CALLS = 41, 100
RATIOS = {"optimize": "eager", "saved": "eager", "torch.compile, eqfuse": "torch.compile, inductor"}


def programs():
    """Functions by name, each with its arguments."""
    layers = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)).requires_grad_(False)
    x = torch.randn(8, 64)
    return {
        "softmax": (lambda x: torch.softmax(x, -1), (x,)),
        "softmax and sum": (lambda x: (torch.softmax(x, -1), x.sum(-1)), (x,)),
        "layer norm": (lambda x, w, b: layer_norm(x, (64,), w, b), (x, torch.randn(64), torch.randn(64))),
        "perceptron": (layers, (torch.randn(8, 32),)),
    }


def ways(f, args):
    """The ways to call a function, by name."""
    c = eqfuse.optimize(f, args, target="cpu", name="called")
    saved = types.ModuleType("saved")
    exec(compile(c.source, "saved", "exec"), vars(saved))
    given = list(c.bind(args, {}).values())
    ours, theirs = torch.compile(own(f), backend="eqfuse", options={"target": "cpu"}), torch.compile(own(f))
    return {
        "eager": lambda: f(*args),
        "optimize": lambda: c(*args),
        "saved": lambda: saved.run(*given),
        "torch.compile, eqfuse": lambda: ours(*args),
        "torch.compile, inductor": lambda: theirs(*args),
    }


def own(f):
    """A function that calls another, whose code no other function has."""

    def called(*args):
        return f(*args)

    return types.FunctionType(called.__code__.replace(), globals(), closure=called.__closure__)


def microseconds(call):
    start = time.process_time_ns()
    for _ in range(CALLS):
        call()
    return (time.process_time_ns() - start) / CALLS / 1e3


def row(name, f, args):
    """The medians of every way of a program, and of its ratios to another."""
    torch._dynamo.reset()
    calls = ways(f, args)
    rounds = [{way: microseconds(call) for way, call in calls.items()} for _ in range(1 + ROUNDS)][1:]
    us = {way: round(statistics.median(r[way] for r in rounds), 1) for way in calls}
    ratios = {f"{way} / {other}": round(statistics.median(r[way] / r[other] for r in rounds), 2) for way, other in RATIOS.items()}
    return {"program": name, "us": us, "ratios": ratios}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="WORD", help="programs whose names have it")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    os.environ["EQFUSE_CACHE"] = "0"
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    keep((row(name, *made) for name, made in programs().items() if options.only in name), "calls", "cpu", options.save)


if __name__ == "__main__":
    main()

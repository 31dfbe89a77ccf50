"""What a call on small CPU tensors costs, in microseconds of CPU: eager, through `optimize`, a saved module, and `torch.compile` with both
backends, in turns in one process, so that a busy machine is as slow for each.

    python benchmarks/calls.py              every program; --only softmax for one, --without-compile for what takes no compiler of torch's

The numbers are medians of rounds, and their ratios to eager are of the same round.
"""

import argparse
import json
import statistics
import sys
import time
import types
import warnings

ROUNDS, CALLS = 7, 300


def programs():
    """Functions by name, each with its arguments."""
    import torch
    from torch.nn.functional import layer_norm

    layers = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)).requires_grad_(False)
    heads = tuple(torch.randn(1, 2, 16, 8) for _ in range(3))
    return {
        "softmax": (lambda x: torch.softmax(x, -1), (torch.randn(8, 64),)),
        "layer norm": (lambda x, w, b: layer_norm(x, (64,), w, b), (torch.randn(8, 64), torch.randn(64), torch.randn(64))),
        "attention": (lambda q, k, v: torch.softmax(q @ k.mT * 8**-0.5, -1) @ v, heads),
        "module": (layers, (torch.randn(8, 32),)),
    }


def callers(f, args, name, compiled):
    """The ways to call a function, by name."""
    import torch

    import eqfuse

    c = eqfuse.optimize(f, args, target="cpu", name=name.replace(" ", "_"))
    saved = types.ModuleType("saved")
    exec(compile(c.source, "saved", "exec"), vars(saved))
    given = list(c.bind(args, {}).values())
    found = {"eager": lambda: f(*args), "optimize": lambda: c(*args), "saved": lambda: saved.run(*given)}
    if compiled:
        ours = torch.compile(f, backend="eqfuse", options={"target": "cpu"})
        theirs = torch.compile(f)
        found |= {"compile eqfuse": lambda: ours(*args), "compile inductor": lambda: theirs(*args)}
    return found


def microseconds(call):
    start = time.process_time_ns()
    for _ in range(CALLS):
        call()
    return (time.process_time_ns() - start) / CALLS / 1e3


def measured(found):
    """Of every way, the median of its rounds and that of its ratios to the first way."""
    for call in found.values():
        call(), call()
    rounds = [{name: microseconds(call) for name, call in found.items()} for _ in range(ROUNDS)]
    first = next(iter(found))
    return {n: (statistics.median(r[n] for r in rounds), statistics.median(r[n] / r[first] for r in rounds)) for n in found}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="one program")
    parser.add_argument("--without-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name, (f, args) in programs().items():
        if options.only in (None, name):
            found = measured(callers(f, args, name, not options.without_compile))
            row = {way: {"us": round(us, 1), "of eager": round(ratio, 2)} for way, (us, ratio) in found.items()}
            said = ", ".join(f"{way} {r['us']} us ({r['of eager']})" for way, r in row.items())
            print(json.dumps({name: row}) if options.json else f"{name}: {said}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

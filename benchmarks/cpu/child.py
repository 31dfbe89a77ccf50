"""One process of a run: the cases named on its standard input, with the threads that its environment says; a line of JSON for each.

A process of its own for each number of threads, since what torch.compile makes has the number in it; and so that a case that ends its
process ends no other.
"""

import argparse
import json
import sys

import torch

from eqfuse.cli.contest import Contest, peers
from eqfuse.runtime.measuring import added_memory, keep_freed_memory

from .cases import cases


def said(**what):
    print(json.dumps(what), flush=True)


def row(case, seconds, errors, tick):
    contest = Contest(case.name, case.function, case.args(), case.library, case.options)
    found = peers(contest, "cpu")
    result = {"case": case.name, "family": case.family.name, "threads": torch.get_num_threads(), "absent": found.absent}
    if found.plan is not None:
        calls = getattr(found.plan, "calls", ())
        result["plan"] = {"kernels": len(found.plan.kernels), "calls": len(calls), "estimated_us": found.plan.estimated_us}
    if errors:
        result["errors"] = found.errors()
    if case.family.memory:
        keep_freed_memory(False)
        result["added_bytes"] = {name: added_memory(torch.no_grad()(call)) for name, call in found.calls.items()}
        keep_freed_memory()
    result["times_ms"] = {
        name: {"median": 1e3 * t.median, "low": 1e3 * t.quartiles[0], "high": 1e3 * t.quartiles[1], "samples": len(t.samples)}
        for name, t in found.times(seconds=seconds, tick=tick).items()
    }
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, required=True, help="of timing, for each case")
    parser.add_argument("--errors", action="store_true", help="also compare with float64")
    options = parser.parse_args()
    keep_freed_memory()
    known = cases()
    for name in json.load(sys.stdin):
        said(start=name)
        with torch.no_grad():
            said(row=row(known[name], options.seconds, options.errors, lambda part: said(part=part)))


if __name__ == "__main__":
    main()

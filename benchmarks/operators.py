"""PyTorch's OpInfo database, read: which operators are, which are refused and why, and whether what is read means what torch computes.

    python benchmarks/operators.py                       at most 8 samples of each operator and element type: a quarter of an hour
    python benchmarks/operators.py --only pad --only cat at these operators, with every sample that is not right
    python benchmarks/operators.py --save                also write benchmarks/results/DATE-operators.json
    python benchmarks/operators.py --only pad --into F   put these rows in the place of those in a file

Samples are read as any function is and evaluated by the reference in float64; nothing is planned (eqfuse/testing/opinfo.py).  The data also
name a few samples that have every ATen op of those that are right: tests/frontends/test_opinfo.py runs these.
"""

import argparse
import json
import time
import warnings
from collections import Counter
from pathlib import Path

import torch
from host import commit, host

from eqfuse.frontends.aten import OPS
from eqfuse.frontends.definitions import COMPOSITES, DECOMPOSITIONS
from eqfuse.testing import opinfo

KNOWN = {name.split(".")[1] for name in (*OPS, *map(str, (*COMPOSITES, *DECOMPOSITIONS)))}  # without overloads
RESULTS = Path(__file__).resolve().parent / "results"
OF_NO_USE = {  # entries whose results are no function of their arguments, or no tensors with strides, or not told from others by rounding
    "empty": "memory that is not written", "new_empty": "memory that is not written",
    "sparse": "sparse tensors", "to_sparse": "sparse tensors",
    "jiterator": "CUDA source in a string", "linspace": "whole numbers, where rounding decides what torch truncates",
    "logspace": "whole numbers, where rounding decides what torch truncates",
}  # fmt: skip


def left_out(name):
    return next((why for word, why in OF_NO_USE.items() if name.startswith(word)), None)


def row(op, most, names):
    """Verdicts by element type, reasons, and the ATen ops of samples that are right: ``names`` maps each to those."""
    found = {"name": opinfo.name_of(op)}
    if why := left_out(found["name"]):
        return found | {"left out": why}
    reasons = Counter()
    for dtype in opinfo.DTYPES:
        kinds, known = Counter(), sum(name == found["name"] for name, *_ in names)
        for k, sample in enumerate(opinfo.samples(op, getattr(torch, dtype), most)):
            verdict = opinfo.judged(op, sample)
            kinds[verdict.kind] += 1
            if verdict.kind not in (opinfo.READ, opinfo.NOTHING):
                reasons[f"{verdict.kind}: {verdict.why}"[:160]] += 1
                if verdict.kind != opinfo.REFUSED:
                    print(f"{found['name']} {dtype} {k}: {verdict.kind}: {verdict.why}\n    {verdict.sample}", flush=True)
            elif verdict.kind == opinfo.READ and (not known or kinds[opinfo.READ] == 1) and known < 3:
                known += 1
                names[found["name"], dtype, k] = {n for n in opinfo.operators(op, sample) if n.split(".")[1] in KNOWN}
        if kinds:
            found[dtype] = dict(kinds)
    return found | ({"reasons": [r for r, _ in reasons.most_common(4)]} if reasons else {})


def cover(names, kept=()):
    """Few samples that together have every ATen op; ``kept`` are among them."""
    left, chosen = set().union(*names.values()), list(kept)
    while left:
        best = max(names, key=lambda k: len(names[k] & left))
        chosen.append(list(best))
        left -= names[best]
    return sorted(chosen)


def state(r):
    """Of an operator: all samples right, some of them, or none."""
    kinds = Counter()
    for dtype in opinfo.DTYPES:
        kinds.update(r.get(dtype, {}))
    if kinds[opinfo.WRONG] or kinds[opinfo.FAILED]:
        return "wrong"
    if not kinds[opinfo.REFUSED]:
        return "all" if kinds[opinfo.READ] else "nothing to compute"
    return "some" if kinds[opinfo.READ] else "none"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=8, help="at most so many of an operator and element type")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--save", nargs="?", const="", default=None, metavar="FILE", help="write the result as JSON")
    parser.add_argument("--into", metavar="FILE", help="put the rows in the place of those of the same names")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    start, names, rows = time.process_time(), {}, []
    for op in opinfo.database():
        if not options.only or {op.name, opinfo.name_of(op)} & {*options.only}:
            rows.append(row(op, options.samples, names))
            if options.only:
                print(json.dumps(rows[-1], indent=1))
    kept, seconds = [], time.process_time() - start
    if options.into:
        old = json.loads(Path(options.into).read_text())
        new = {r["name"]: r for r in rows}
        rows, kept = [new.get(r["name"], r) for r in old["operators"]], [c for c in old["cover"] if c[0] not in new]
        seconds += old["summary"]["cpu_seconds"]
    summary = dict(Counter("left out" if "left out" in r else state(r) for r in rows)) | {"cpu_seconds": round(seconds)}
    print(summary)
    if options.save is not None or options.into:
        environment = host("torch", "numpy") | {"commit": commit()}
        if options.into:  # most rows are as they were: whence these are is said beside it
            again = {"names": sorted(new), "samples": options.samples} | environment
            environment = old["environment"] | {"run again": [*old["environment"].get("run again", []), again]}
            options.samples = old["samples"]
        path = Path(options.into or options.save or RESULTS / f"{environment['date'][:10]}-operators.json")
        head = json.dumps({"environment": environment, "samples": options.samples, "summary": summary}, indent=1)[:-2]
        covered, lines = (",\n".join(f"  {json.dumps(r)}" for r in part) for part in (cover(names, kept), rows))
        path.write_text(f'{head},\n "cover": [\n{covered}\n ],\n "operators": [\n{lines}\n ]\n}}\n')
        print(f"wrote {path}")
    return int(any(state(r) == "wrong" for r in rows))


if __name__ == "__main__":
    raise SystemExit(main())

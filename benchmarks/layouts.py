"""Layouts: random ones against enumeration, faulty copies of the library, and operations per second.

    python benchmarks/layouts.py                     100,000 draws, all mutants, the times: about two minutes of CPU time
    python benchmarks/layouts.py --draws 2000 --brief    no mutants
    python benchmarks/layouts.py --save              also write benchmarks/results/DATE-layouts.json

Draws are shared equally among the properties of tests/layouts/layout_properties.py, each with a seed of its own; a property draws one
layout or two, does one operation, and compares with an enumeration that knows no algorithm of the library.  What is refused has to have
no layout (but for copies in ``compose``).  A disagreement is any exception.  Mutants are single substitutions
(tests/layouts/layout_mutants.py).  Times are CPU time, best of five, on layouts as kernels and meshes have them.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

from host import commit, host

import eqfuse.ir.layout as library
from eqfuse.ir.layout import Layout, cute  # noqa: F401 (a property asks for cute)

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(ROOT / "tests" / "layouts"))

import layout_mutants  # noqa: E402
import layout_properties  # noqa: E402


def drawn(draws):
    """A row for each property: draws, disagreements, how many operations had a result and how many were refused, CPU seconds."""
    each, rows = -(-draws // len(layout_properties.PROPERTIES)), []
    attempt, counts = layout_properties.attempt, Counter()

    def counted(lib, operation):
        result = attempt(lib, operation)
        counts["refused" if result is None else "results"] += 1
        return result

    layout_properties.attempt = counted
    try:
        for check in layout_properties.PROPERTIES:
            counts.clear()
            start, failed = time.process_time(), []
            for seed in range(each):
                try:
                    check(library, layout_properties.Source(random.Random(f"{check.__name__} {seed}").randint))
                except Exception as error:
                    failed.append({"seed": seed, "error": f"{type(error).__name__}: {error}"[:300]})
            row = {
                "property": check.__name__.strip("_"),
                "draws": each,
                "disagreements": len(failed),
                "results": counts["results"],
            }
            rows.append(row | {"refused": counts["refused"], "cpu_seconds": round(time.process_time() - start, 2), "failed": failed[:5]})
            print(f"{row['property']:20s}{each:8d} draws{len(failed):6d} disagreements{counts['refused']:8d} refused", flush=True)
    finally:
        layout_properties.attempt = attempt
    return rows


def mutants():
    rows = []
    for what, *change in layout_mutants.MUTANTS:
        with layout_mutants.mutant(*change) as faulty:
            found = layout_mutants.caught(faulty, what)
        rows.append({"mutant": what, "module": change[0], "caught_by": found and found[0], "draw": found and found[1]})
        if not found:
            print(f"NOT CAUGHT  {what}", flush=True)
    return rows


FRAGMENT = Layout.parse("(2,8,4,2):(2@reg,4@lane,1@lane,1@reg)")  # accumulator of mma.m16n8, 16 x 8
SHARED = Layout.parse("(128,64):(64,1)")
WARPS = Layout.parse("(2,4):(4@warp,1@warp)")
MESH = Layout.parse("(2,64,4,128):(1@dp,128,1@tp,1) + [8:8@node]")
LOOSE = Layout([(2, 64), (8, 8), (1, 3), (2, 4), (4, 1), (4, 1, "lane"), (2, 1, "reg")], [(2, -8, "warp"), (4, 2, "warp"), (2, 1, "warp")])
TILES = WARPS.tile(FRAGMENT, (2, 4), (16, 8))
EVERY_EIGHTH, PART = Layout.parse("(16,8):(64,8)"), Layout.parse("(8,4):(64,1)")
TIMED = {
    "canonicalize, 7 iters, 3 replicas": LOOSE.canonicalize,
    "canonicalize, overlapping replicas": Layout([(4, 1)], [(6, 2), (2, 3)]).canonicalize,
    "equivalent, 7 iters": lambda: LOOSE.equivalent(LOOSE),
    "group, fragment of 4 iters by (16, 4, 2)": lambda: FRAGMENT.group((16, 4, 2)),
    "tile, warps by a fragment": lambda: WARPS.tile(FRAGMENT, (2, 4), (16, 8)),
    "tile_of, warps by a fragment": lambda: TILES.tile_of(FRAGMENT, (32, 32), (16, 8)),
    "slice, whole digits": lambda: SHARED.slice([(32, 64), (0, 64)], (128, 64)),
    "slice, fragment": lambda: FRAGMENT.slice([(8, 16), (0, 4)], (16, 8)),
    "slice, across a digit": lambda: Layout([(512, 1024), (2, 1)]).slice([(1, 1023)]),
    "slice, sharded matrix": lambda: MESH.slice([(0, 64), (128, 256)], (128, 512)),
    "permute": lambda: SHARED.permute((1, 0), (128, 64)),
    "compose": lambda: SHARED.compose(EVERY_EIGHTH),
    "complement": lambda: PART.complement(8192),
    "one index": lambda: FRAGMENT((5, 3), (16, 8)),
}


def per_second(operation):
    """Best of five runs of a twentieth of a second of CPU time each."""
    best = 0.0
    for _ in range(5):
        n, start = 0, time.process_time()
        while (spent := time.process_time() - start) < 0.05:
            for _ in range(20):
                operation()
            n += 20
        best = max(best, n / spent)
    return round(best)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--brief", action="store_true", help="no mutants")
    parser.add_argument("--save", nargs="?", const="", default=None, metavar="FILE", help="write the result as JSON")
    options = parser.parse_args()
    start = time.process_time()
    speed = {name: per_second(operation) for name, operation in TIMED.items()}
    for name, rate in speed.items():
        print(f"{name:44s}{rate:8d} per second")
    rows, faulty = drawn(options.draws), [] if options.brief else mutants()
    summary = {
        "draws": sum(r["draws"] for r in rows),
        "disagreements": sum(r["disagreements"] for r in rows),
        "mutants": len(faulty),
        "mutants_caught": sum(1 for r in faulty if r["caught_by"]),
        "cpu_seconds": round(time.process_time() - start, 1),
    }
    print(summary)
    if options.save is not None:
        environment = host("numpy", "hypothesis") | {"commit": commit()}
        path = Path(options.save) if options.save else RESULTS / f"{environment['date'][:10]}-layouts.json"
        result = {"environment": environment, "summary": summary, "per_second": speed, "properties": rows, "mutants": faulty}
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(f"wrote {path}")
    return int(summary["disagreements"] > 0 or summary["mutants"] > summary["mutants_caught"])


if __name__ == "__main__":
    raise SystemExit(main())

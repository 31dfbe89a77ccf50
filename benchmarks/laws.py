"""Laws of planning of drawn programs (eqfuse.testing.laws.drawn): how many hold, and the violations with the least chains that have them.

python benchmarks/laws.py --target h200 --seeds 1 2001    adds to this day's file, which has a part for each target
"""

import argparse
import datetime
import math
import os
import time
from pathlib import Path

os.environ["EQFUSE_CACHE"] = "0"  # plans of this code alone

import json

from host import commit, host, write

from eqfuse.testing.laws import drawn

RESULTS = Path(__file__).parent / "results"


def looked_at(seeds, target, save=None):
    """The laws of some seeds, and what was broken."""
    found, broken = {"seeds": [seeds.start, seeds.start], "laws": 0, "held": 0, "kinds": {}, "cpu_s": 0.0, "violations": []}, []
    began = time.process_time()
    for seed in seeds:
        whole, least = drawn.looked_at(seed, target)
        of = found["kinds"].setdefault(whole.law.kind, [0, 0])
        of[0] += 1
        found["laws"] += 1
        found["seeds"][1] = seed + 1
        if whole.holds:
            found["held"] += 1
            of[1] += 1
        else:
            broken.append(row(seed, whole, least))
        found["cpu_s"] = round(time.process_time() - began, 1)
        found["violations"] = sorted(broken, key=lambda r: -(r["ratio"] or math.inf))
        if save:
            save(found)
    return found


def row(seed, whole, least):
    """A violation, and the least chain that has it; ``null`` is a time of which there is no plan in kernels alone."""
    figures = {"ratio": whole.ratio, "least_ratio": least.ratio, "least_us": least.us, "least_most_us": least.most}
    rounded = {k: round(x, 3) if math.isfinite(x) else None for k, x in figures.items()}
    return {"seed": seed, "law": whole.law.name, "least": least.law.name, **rounded}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="h200")
    parser.add_argument("--seeds", nargs=2, type=int, default=(1, 2001), metavar=("FIRST", "LAST"))
    parser.add_argument("--out", type=Path, default=RESULTS / f"{datetime.datetime.now(datetime.UTC).date()}-laws.json")
    options = parser.parse_args()

    def save(found):
        result = json.loads(options.out.read_text()) if options.out.exists() else {"targets": {}}
        result["environment"] = {**host("torch", "egglog"), "commit": commit()}
        result["targets"][options.target] = found
        write(options.out, result)

    looked_at(range(*options.seeds), options.target, save)


if __name__ == "__main__":
    main()

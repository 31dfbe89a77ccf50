"""The rules on layouts, saturated, against the direct algorithms of the library.

    python benchmarks/layout_rules.py                    1,500 draws of each property: about two minutes of CPU time
    python benchmarks/layout_rules.py --save             also write benchmarks/results/DATE-layout-rules.json

The properties are those of tests/layouts/rule_properties.py: each draws a layout or two, saturates, compares the smallest form with
what the direct algorithm gives, and audits the graph by enumeration: every node of every class.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

from host import commit, host

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(ROOT / "tests" / "layouts"))

import layout_properties  # noqa: E402
import rule_properties  # noqa: E402


def row(check, draws):
    start, words, nodes, shares, places, failed = time.process_time(), Counter(), [], [], 0, []
    for seed in range(draws):
        try:
            word, enodes, share, compared = check(layout_properties.Source(random.Random(f"{check.__name__} {seed}").randint))
        except Exception as error:
            failed.append({"seed": seed, "error": f"{type(error).__name__}: {error}"[:300]})
            continue
        words[word] += 1
        nodes.append(enodes)
        shares += [share] if share is not None else []
        places += compared
    found = {
        "property": check.__name__.replace("_", " "),
        "draws": draws,
        **{w: words[w] for w in ("equal", "same map", "less", "neither")},
        "disagreements": len(failed),
        "median_nodes": sorted(nodes)[len(nodes) // 2],
        "most_nodes": max(nodes),
        "of_the_bound": round(max(shares), 3) if shares else None,
        "places_compared": places,
        "cpu_seconds": round(time.process_time() - start, 1),
        "failed": failed[:5],
    }
    print(found, flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1500)
    parser.add_argument("--save", nargs="?", const="", default=None, metavar="FILE", help="write the result as JSON")
    options = parser.parse_args()
    rows = [row(check, options.draws) for check in rule_properties.PROPERTIES]
    if options.save is not None:
        environment = host("numpy", "egglog") | {"commit": commit()}
        path = Path(options.save) if options.save else RESULTS / f"{environment['date'][:10]}-layout-rules.json"
        path.write_text(json.dumps({"environment": environment, "properties": rows}, indent=1) + "\n")
        print(f"wrote {path}")
    return int(any(r["disagreements"] for r in rows))


if __name__ == "__main__":
    raise SystemExit(main())

"""The same function twice: as it is written, and in the best form; how long our plan of the first takes, by the plan of the second.

    python benchmarks/pairs.py                 all pairs, one line each
    python benchmarks/pairs.py --save          and write them to benchmarks/results/
    python benchmarks/pairs.py --only drawn    those drawn from a grammar, or those written by hand

Pairs by hand: ``eqfuse.testing.pairs``.  The others are drawn (``eqfuse.testing.drawn_pairs``), and their best form is searched without the
rewrite rules.  All times are modelled.
"""

import argparse
import json
import time

from host import commit, host
from tables import HERE

import eqfuse
from eqfuse.testing.drawn_pairs import AS_WRITTEN, DRAWN, SEEDS, best, drawn
from eqfuse.testing.pairs import PAIRS

TARGET = "h200"


def us(pair, form, **options):
    return eqfuse.optimize(form, pair.args(), target=TARGET, licence=pair.licence, **options).plan.estimated_us


def row(pair, kind, written, found, more):
    """One pair; ``found`` says how long the best form takes, after the program itself was planned."""
    began = time.process_time()
    ours = us(pair, pair.written)
    seconds = time.process_time() - began
    least = found()
    return {
        "pair": pair.name, "kind": kind, "written": written, "licence": pair.licence, "dtype": pair.dtype,
        "as_written_us": us(pair, pair.written, **AS_WRITTEN), "ours_us": ours, "best_us": least, "ratio": ours / least,
        "limit": pair.ratio, "why": pair.why, "optimize_cpu_s": seconds, **more,
    }  # fmt: skip


def by_hand(pair):
    """The best form, planned as it is and with all rules: the better plan counts."""
    return row(pair, "hand", "", lambda: min(us(pair, pair.best), us(pair, pair.best, **AS_WRITTEN)), {"shapes": pair.shapes})


def by_search(pair):
    more = {"shapes": [x.shape for x in pair.leaves]}

    def found():
        least = best(pair, lambda form: us(pair, form, **AS_WRITTEN))
        more.update(best=least.order.text, planned=least.planned, enumerated=least.enumerated)
        return least.us

    made = row(pair, "drawn", pair.matrix.text, found, {})
    return {**made, **more}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--save", action="store_true")
    p.add_argument("--only", choices=("hand", "drawn"))
    args = p.parse_args()
    rows = []
    pairs = [(by_hand, x) for x in PAIRS.values() if args.only != "drawn"] + [(by_search, drawn(n)) for n in SEEDS if args.only != "hand"]
    for measure, pair in pairs:
        rows.append(measure(pair))
        r = rows[-1]
        times = " ".join(f"{r[k]:9.1f}" for k in ("as_written_us", "ours_us", "best_us"))
        print(f"{r['pair']:40} {times} {r['ratio']:6.2f} {'' if r['ratio'] <= r['limit'] else 'TOO SLOW'} {r['written']}", flush=True)
    if args.save:
        environment = {**host("torch", "egglog"), "commit": commit()}
        result = {"environment": environment, "target": TARGET, "looked_at": len(DRAWN), "rows": rows}
        path = HERE / "results" / f"{environment['date'][:10]}-pairs.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
    return int(any(r["ratio"] > r["limit"] for r in rows))


if __name__ == "__main__":
    raise SystemExit(main())

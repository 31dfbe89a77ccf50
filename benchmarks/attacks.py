"""The unsound rules of other optimizers against the check of rules: where each falls, and whether its sound neighbours are accepted.

    python benchmarks/attacks.py                    all of tests/rewrites/attacks: minutes of CPU time
    python benchmarks/attacks.py casts halved_thrice    only these modules or rules
    python benchmarks/attacks.py --brief            without the long check, and without the neighbours
    python benchmarks/attacks.py --save             also write benchmarks/results/DATE-attacks.json

A rule is refused at registration (as ``@rule`` checks it), by ``check_rule`` with its default examples, by the same with 5,000, or it is
accepted.  Neighbours are checked as at registration.  Times are CPU time of one process.  Exit 1 if an attack is accepted, falls without
a counterexample, or a neighbour is refused.
"""

import argparse
import importlib
import json
import sys
from collections import Counter
from pathlib import Path

from host import commit, host

from eqfuse.rewrites.check import integers

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("hypothesis", "z3-solver", "numpy")


def package():
    """The attacks, which are no part of the package."""
    sys.path.insert(0, str(ROOT / "tests" / "rewrites"))
    try:
        return importlib.import_module("attacks")
    finally:
        sys.path.remove(str(ROOT / "tests" / "rewrites"))


def tried(attacks, wanted=(), brief=False, tick=lambda row: None):
    """A row for every attack: where it fell, after how long, and the same of its neighbours."""
    rows = []
    for a in attacks.attacks():
        if wanted and not {a.module, a.name} & set(wanted):
            continue
        verdict = attacks.judge(a.rule, tuple(attacks.STAGES)[: 2 if brief else 3])
        row = {
            "rule": a.name,
            "module": a.module,
            "kind": a.kind,
            "licence": a.rule.licence,
            "source": a.source,
            "stage": verdict.stage,
            "counterexample": attacks.refuted(verdict),
            "cpu_seconds": round(verdict.seconds, 2),
            "sound": [],
        }
        for rule in () if brief else a.sound:
            found = attacks.judge(rule, ("registration",))
            said = {"said": found.text.splitlines()[0]} if found.error else {}
            row["sound"].append({"rule": rule.name, "stage": found.stage, "cpu_seconds": round(found.seconds, 2)} | said)
        rows.append(row)
        tick(row)
    return rows


def summary(rows):
    """Counts by stage and kind, and what is not as it should be."""
    neighbours = [s for r in rows for s in r["sound"]]
    refused = [r for r in rows if r["stage"] != "accepted"]
    return {
        "attacks": len(rows),
        "kinds": len({r["kind"] for r in rows}),
        "refused": len(refused),
        "stages": dict(Counter(r["stage"] for r in rows)),
        "accepted": [r["rule"] for r in rows if r["stage"] == "accepted"],
        "without_counterexample": [r["rule"] for r in refused if not r["counterexample"]],
        "sound": len(neighbours),
        "sound_accepted": sum(1 for s in neighbours if s["stage"] == "accepted"),
        "sound_refused": [s["rule"] for s in neighbours if s["stage"] != "accepted"],
        "cpu_seconds_to_refuse": round(sum(r["cpu_seconds"] for r in refused) / max(len(refused), 1), 2),
        "cpu_seconds": round(sum(r["cpu_seconds"] for r in (*rows, *neighbours)), 1),
        "by_kind": {
            kind: {"attacks": len(of), "refused": sum(1 for r in of if r["stage"] != "accepted")}
            for kind in dict.fromkeys(r["kind"] for r in rows)
            for of in [[r for r in rows if r["kind"] == kind]]
        },
    }


def text(result):
    """A result as JSON, a line for every rule."""
    head = json.dumps({k: v for k, v in result.items() if k != "rules"}, indent=1)
    rows = ",\n".join("  " + json.dumps(row) for row in result["rules"])
    return f'{head[:-2]},\n "rules": [\n{rows}\n ]\n}}\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wanted", nargs="*", help="only these modules of tests/rewrites/attacks, or rules")
    parser.add_argument("--brief", action="store_true", help="no long check, and no neighbours")
    parser.add_argument("--save", nargs="?", const="", default=None, metavar="FILE", help="write the result as JSON")
    parser.add_argument("--before", metavar="FILE", help="the result of another commit, whose summary is put beside")
    options = parser.parse_args()
    earlier = json.loads(Path(options.before).read_text()) if options.before else None
    before = earlier and {"environment": earlier["environment"], "summary": earlier["summary"]}
    attacks = package()

    def tick(row):
        if row["stage"] == "accepted" or not row["counterexample"]:
            print(f"{row['stage'].upper():14s}{row['module']:12s}{row['rule']}", flush=True)
        for s in row["sound"]:
            if s["stage"] != "accepted":
                print(f"{'SOUND REFUSED':14s}{row['module']:12s}{s['rule']}: {s['said']}", flush=True)

    rows = tried(attacks, options.wanted, options.brief, tick)
    found = summary(rows)
    for what in ("attacks", "kinds", "refused", "stages", "sound", "sound_accepted", "cpu_seconds_to_refuse", "cpu_seconds"):
        print(f"{what:24s}{found[what]}")
    if options.save is not None:
        environment = host(*PACKAGES) | {"commit": commit(), "z3": integers.solver() is not None}
        path = Path(options.save) if options.save else RESULTS / f"{environment['date'][:10]}-attacks.json"
        path.write_text(text({"environment": environment, "summary": found, "before": before, "rules": rows}))
        print(f"wrote {path}")
    return 1 if found["accepted"] or found["without_counterexample"] or found["sound_refused"] else 0


if __name__ == "__main__":
    raise SystemExit(main())

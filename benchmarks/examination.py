"""False and sound rules that the check of rules had not seen (tests/rewrites/examination), with its verdicts.

    python benchmarks/examination.py                      all of them: minutes of CPU time
    python benchmarks/examination.py casts exam_hyperbola    only these families or rules
    python benchmarks/examination.py --save               also write benchmarks/results/DATE-rule-examination.json

Each rule is registered, as ``@rule`` does it, and then checked by ``eqfuse.testing.check_rule``.  Times are CPU time of one process.
Exit 1 if a verdict is not what the label asks for.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path

from host import commit, host, shell

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("hypothesis", "z3-solver", "numpy")


def package():
    """The examination, which is no part of the package."""
    sys.path.insert(0, str(ROOT / "tests" / "rewrites"))
    try:
        return importlib.import_module("examination")
    finally:
        sys.path.remove(str(ROOT / "tests" / "rewrites"))


def examined(examination, wanted=(), tick=lambda row: None):
    """A row for every rule: its label, and what the checker said."""
    rows = []
    for q in examination.questions():
        if wanted and not {q.family, q.name} & set(wanted):
            continue
        found = examination.judge(q)
        row = {
            "rule": q.name,
            "label": q.label,
            "verdict": found.verdict,
            "right": found.answers(q.label),
            "family": q.family,
            "kind": q.kind,
            "licence": q.rule.licence,
            "stage": found.stage,
            "cpu_seconds": round(found.seconds, 2),
            "reason": found.reason,
        }
        rows.append(row)
        tick(row)
    return rows


def summary(rows):
    """Counts, and the wrong verdicts."""
    false, sound = ([r for r in rows if r["label"] == label] for label in ("false", "sound"))
    return {
        "false": len(false),
        "false_refused": sum(r["right"] for r in false),
        "sound": len(sound),
        "sound_accepted": sum(r["right"] for r in sound),
        "false_accepted": [r["rule"] for r in false if r["verdict"] == "accepted"],
        "false_untested": [r["rule"] for r in false if r["verdict"] == "untested"],
        "sound_refused": [r["rule"] for r in sound if not r["right"]],
        "cpu_seconds": round(sum(r["cpu_seconds"] for r in rows), 1),
    }


def text(result):
    """A result as JSON, a line for every rule."""
    head = json.dumps({k: v for k, v in result.items() if k != "rules"}, indent=1)
    rows = ",\n".join("  " + json.dumps(row) for row in result["rules"])
    return f'{head[:-2]},\n "rules": [\n{rows}\n ]\n}}\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wanted", nargs="*", help="only these families or rules")
    parser.add_argument("--save", nargs="?", const="", default=None, metavar="FILE", help="write the result as JSON")
    options = parser.parse_args()
    examination = package()

    def tick(row):
        flag = "" if row["right"] else "   <-- WRONG"
        print(f"{row['label']:6s}{row['verdict']:9s}{row['cpu_seconds']:6.2f} s  {row['family']:11s}{row['rule']}{flag}", flush=True)

    rows = examined(examination, options.wanted, tick)
    found = summary(rows)
    print(json.dumps(found, indent=1))
    if options.save is not None:
        checker = shell("git", "-C", str(ROOT), "log", "-1", "--format=%h", "--", "rewrites", "ir", "testing")
        environment = host(*PACKAGES) | {"commit": commit(), "checker": checker}
        path = Path(options.save) if options.save else RESULTS / f"{environment['date'][:10]}-rule-examination.json"
        path.write_text(text({"environment": environment, "summary": found, "rules": rows}))
        print(f"wrote {path}")
    return 0 if all(r["right"] for r in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())

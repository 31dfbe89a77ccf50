"""What stands behind the rules: how much was checked, how fast, and whether the nets catch what is known to be wrong.

    python benchmarks/trust.py                      the whole registry, every seeded fault, every planted one: two minutes of CPU time
    python benchmarks/trust.py signs repair         rules and seeded faults of these families only
    python benchmarks/trust.py --save               also write benchmarks/results/DATE-trust.json

Rules are checked as CI checks them.  Seeded faults are unsound variants of rules (tests/rewrites/mutants), planted ones faulty kernels
written by hand (examples/kernels/planted.py); both nets must also let through what is right.  Random programs take minutes
(python -m eqfuse.testing.fuzz), so they are run by hand and their newest log, benchmarks/results/fuzz-DATE.json, is read.
Times are CPU time of one process.  Exit 1 if a rule fails, a fault is missed, a correct kernel is blamed, or the log has a finding.
"""

import argparse
import importlib
import json
import re
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from host import host
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from tables import trust_rows

from eqfuse.errors import EqFuseError, UnsoundRuleError
from eqfuse.rewrites import check_all, registry
from eqfuse.rewrites.check import CI_EXAMPLES

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("hypothesis", "z3-solver", "numpy", "torch", "triton", "egglog")


@contextmanager
def importable(folder):
    """A folder whose modules are no part of the package, on the path while they are imported."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def seeded_faults():
    """The mutants, and the function that says what a mutant's own check finds."""
    with importable(ROOT / "tests" / "rewrites"):
        module = importlib.import_module("mutants")
        return module.mutants(), module.by_check


def auditor():
    """The function that says what an audit of a mutant's program does."""
    with importable(ROOT / "tests" / "rewrites"):
        return importlib.import_module("mutants").by_audit


def kernels():
    """The example with correct and faulty kernels; its tables say what each is compared with, and how a fault must be reported."""
    with importable(ROOT / "examples"):
        return importlib.import_module("test_kernels")


# ---- the nets --------------------------------------------------------------------------------------------------------------------
def checked(rules, examples=CI_EXAMPLES, tick=lambda name: None):
    """The check of the rules: totals, and by family."""
    start = spent = time.process_time()
    seconds = {}

    def progress(rule, report):
        nonlocal spent
        if report is not None:
            now = time.process_time()
            seconds[rule.family] = seconds.get(rule.family, 0.0) + now - spent
            spent = now
            tick(rule.name)

    done = check_all(rules, examples=examples, progress=progress)
    return {
        "examples_per_rule": examples,
        "rules": done.rules,
        "claiming": sum(map(claims, done.reports)),
        "failures": {r.rule.name: str(r.error) for r in done.failures},
        "checks": done.checks,
        "examples": done.examples,
        "numbers": done.numbers,
        "cpu_seconds": round(time.process_time() - start, 2),
        "rules_by_oracle": done.by_oracle(),
        "notes": dict(done.notes()),
        "families": {
            family: {
                "rules": len(of),
                "claiming": sum(map(claims, of)),
                "failures": sum(1 for r in of if r.error),
                "checks": sum(r.checks for r in of),
                "examples": sum(r.examples for r in of),
                "numbers": sum(r.numbers for r in of),
                "cpu_seconds": round(seconds[family], 2),
            }
            for family in dict.fromkeys(r.rule.family for r in done.reports)
            for of in [[r for r in done.reports if r.rule.family == family]]
        },
    }


def claims(report):
    """Whether a rule says something that could be false: some only make terms or direct the search."""
    return "claims nothing" not in report.notes


def refuted(faults, by_check, tick=lambda name: None):
    """Which seeded faults the check of rules refutes: by family, and those that it misses."""
    start = time.process_time()
    families, missed = {}, []
    for fault in faults:
        caught = isinstance(by_check(fault), UnsoundRuleError)
        row = families.setdefault(fault.family, {"faults": 0, "caught": 0})
        row["faults"] += 1
        row["caught"] += caught
        missed += [] if caught else [fault.name]
        tick(fault.name)
    return {
        "faults": len(faults),
        "caught": len(faults) - len(missed),
        "missed": missed,
        "kinds": len({f.kind for f in faults}),
        "cpu_seconds": round(time.process_time() - start, 2),
        "families": families,
    }


def audited(faults, by_audit, tick=lambda name: None):
    """Of which seeded faults an audit of a program fails, which it names as the first that was wrong, and why the others pass."""
    start = time.process_time()
    found, named, alone, silent = 0, 0, 0, {}
    for fault in faults:
        outcome = by_audit(fault)
        found += outcome.word in ("blames", "finds")
        named += outcome.word == "blames"
        alone += outcome.names == (fault.name,)
        if outcome.word not in ("blames", "finds"):
            silent[fault.name] = fault.why
        tick(fault.name)
    return {
        "found": found,
        "named": named,
        "named_alone": alone,
        "passed": silent,
        "cpu_seconds": round(time.process_time() - start, 2),
    }


def compared(example, faulty, correct, tick=lambda name: None):
    """Which planted faults the comparison of kernels reports as what they are, and which correct kernels it lets pass."""
    start = time.process_time()
    missed, blamed = {}, {}
    for name in faulty:
        f, args, options, error, said = example.FAULTY[name]
        found = error_of(example, f, getattr(example.planted, name), args, {"shrink_seconds": 0, **options})
        if not isinstance(found, error) or not re.search(f"(?s){said}", str(found)):
            missed[name] = str(found)
        tick(name)
    for name in correct:
        f, g, args, options = example.CORRECT[name]
        if found := error_of(example, f, g, args, {"examples": 30, **options}):
            blamed[name] = str(found)
        tick(name)
    return {
        "faults": len(faulty),
        "caught": len(faulty) - len(missed),
        "missed": missed,
        "correct": len(correct),
        "passed": len(correct) - len(blamed),
        "blamed": blamed,
        "cpu_seconds": round(time.process_time() - start, 2),
    }


def error_of(example, f, g, args, options):
    try:
        example.assert_equivalent(f, g, args, **options)
    except EqFuseError as error:
        return error
    return None


def fuzz_log(folder=RESULTS):
    """The newest log of random programs in terms, or None."""
    return max((p for p in folder.glob("fuzz-*.json") if not {"native", "ragged"} & set(p.stem.split("-"))), default=None)


# ---- all of it -------------------------------------------------------------------------------------------------------------------
def gather(families=(), examples=CI_EXAMPLES, bar=None):
    """Every net over the families given, or over all; the kernels, which are of none, only with all."""
    rules = [r for r in registry.rules() if not families or r.family in families]
    faults, by_check = seeded_faults()
    faults = [m for m in faults if not families or m.family in families]
    example = None if families else kernels()
    total = len(rules) + 2 * len(faults) + (len(example.FAULTY) + len(example.CORRECT) if example else 0)
    task = bar.add_task("", total=total) if bar else None

    def tick(name):
        if bar:
            bar.update(task, description=name, advance=1)

    log = fuzz_log()
    return {
        "environment": host(*PACKAGES),
        "registry": checked(rules, examples, tick),
        "seeded_faults": refuted(faults, by_check, tick) | {"audit": audited(faults, auditor(), tick)},
        "kernel_faults": compared(example, example.FAULTY, example.CORRECT, tick) if example else None,
        "fuzz_log": log.name if log else None,
    }


def faultless(result, log):
    """Whether every rule holds, every fault is caught, no correct kernel is blamed and no random program had a finding."""
    kernel = result["kernel_faults"] or {"missed": (), "blamed": ()}
    found = (result["registry"]["failures"], result["seeded_faults"]["missed"], kernel["missed"], kernel["blamed"], log and log["findings"])
    return not any(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help="only rules and seeded faults of these families, and no kernels")
    parser.add_argument("--examples", type=int, default=CI_EXAMPLES, help="examples for each rule (default %(default)s, as in CI)")
    parser.add_argument("--save", action="store_true", help="write the result as JSON")
    options = parser.parse_args()
    if unknown := set(options.families) - set(registry.families()):
        parser.error(f"no family {', '.join(sorted(unknown))}; there are {', '.join(registry.families())}")
    if options.examples < 1:
        parser.error("--examples needs a positive number")
    if options.save and (options.families or options.examples != CI_EXAMPLES):
        parser.error("--save is for the whole registry in the CI profile")
    columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        result = gather(options.families, options.examples, bar)
    log = json.loads((RESULTS / result["fuzz_log"]).read_text()) if result["fuzz_log"] else None
    print("  ".join(f"{k} {v}" for k, v in result["environment"].items() if v is not None))
    for what, figure in trust_rows(result, log):
        print(f"{what:76s}{figure}")
    for name, error in result["registry"]["failures"].items():
        print(f"\nFAILED {name}\n{error}")
    for kind in ("seeded_faults", "kernel_faults"):
        for name in (result[kind] or {}).get("missed", ()):
            print(f"MISSED {name}")
    for name in (result["kernel_faults"] or {}).get("blamed", ()):
        print(f"BLAMED WITHOUT REASON {name}")
    if options.save:
        path = RESULTS / f"{result['environment']['date'][:10]}-trust.json"
        path.write_text(json.dumps(result, indent=1) + "\n")
        print(f"wrote {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 0 if faultless(result, log) else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""Which tests ``make test`` runs, which ``make test-rest`` does after it (``exhaustive``, by this module or by hand), and which are
combinations of what others look at one by one (``combination``).

A test is worth the facts that only it looks at: that its function runs at all, and each value of each of its parameters (a program, a
type, a target, a kind of data).  The tests of a function are taken in the order of facts per second, and as long as a fact costs no more
than a price.  So a product of programs, types and data becomes a few of its tests in which each of them is there once; what is
cheap stays, and what is dear and says little is left to ``make test-all``.

``make test-rest`` takes others by the same order at a price of its own, where that a function runs at all counts for more.  What is left says
least for its time: another combination of a program, a type and a target that each occur elsewhere; and the functions of which
each test takes longer than all that (:data:`RARELY` facts).  ``make test-combinations`` runs these.

``costs.json`` has the CPU seconds of the tests that took more than :data:`FREE`, and both prices: the highest with which all that is taken
costs no more than :data:`BUDGET`, and all but combinations no more than :data:`ALL`.  ``make costs`` takes in what the last ``make
test-all`` measured.  Tests that are not in there are run.  The choice hangs on that file and on the parameters, on nothing else: not on the
machine, the clock, or on which other tests are asked for.  A file or a function that is new is whole in ``make test`` until somebody
measures again.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COSTS = HERE / "costs.json"

BUDGET = 230.0  # CPU seconds for make test; starting two processes and collecting takes 60 more
ALL = 700.0  # CPU seconds for make test and make test-rest: CI has 25 minutes of two cores, and machines differ
FREE = 0.1  # CPU seconds that no one asks about
FUNCTION, RARELY = 3, 40  # facts that a function is worth, whatever its parameters, in make test and in make test-rest


def cpu_seconds() -> float:
    """Of this process, and of those that it started and that have ended."""
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def read_costs() -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """The prices of a fact in CPU seconds, for make test (``quick``) and for make test-rest (``rest``), and file -> test -> CPU seconds."""
    found = json.loads(COSTS.read_text()) if COSTS.exists() else {"prices": {"quick": math.inf, "rest": math.inf}, "tests": {}}
    return found["prices"], found["tests"]


def record(item: Any, seconds: float) -> str:
    """What a run notes of a test, as a line for :func:`main`."""
    return json.dumps([*place(item), round(seconds, 3), sorted(map(str, facts(item))), _by_hand(item)])


def place(item: Any) -> tuple[str, str]:
    """A test's file, below this directory, and its name in there."""
    return os.path.relpath(item.path, HERE), item.nodeid.partition("::")[2]


def _plain(value: Any) -> bool:
    """Whether a value is what it prints as: two tests with it have it in common."""
    if isinstance(value, tuple | frozenset):
        return all(map(_plain, value))
    return isinstance(value, str | int | float | None) or str(value).startswith("torch.")


def facts(item: Any) -> set[Any]:
    """What a test looks at, of its function: the values of its parameters.  Those that are no plain values are all different."""
    found = getattr(item, "callspec", None)
    values = found.params.items() if found else ()
    return {(name, repr(value) if _plain(value) else found.indices[name]) for name, value in values}


def chosen(tests: dict[Any, tuple[set[Any], float]], price: float, function: int = FUNCTION) -> set[Any]:
    """Of a function's tests, as test -> (facts, CPU seconds), those that are worth their time at so many seconds a fact, where the
    ``function`` is worth so many."""
    out = {t for t, (_, cost) in tests.items() if cost <= FREE}
    seen: set[Any] = set().union(*(tests[t][0] for t in out))
    rest = [t for t in tests if t not in out]
    while rest:
        new = {t: len(tests[t][0] - seen) + (0 if out else function) for t in rest}
        best = max(rest, key=lambda t: new[t] / tests[t][1])
        if tests[best][1] > price * new[best]:
            break
        out.add(best)
        seen |= tests[best][0]
        rest.remove(best)
    return out


def marks(items: Iterable[Any]) -> dict[Any, list[str]]:
    """The marks of the tests that ``make test`` does not run, but for those by hand."""
    prices, costs = read_costs()
    functions: dict[Any, dict[Any, tuple[set[Any], float]]] = {}
    for item in items:
        file, name = place(item)
        functions.setdefault(_function(file, name), {})[item] = facts(item), costs.get(file, {}).get(name, 0.0)
    found: dict[Any, list[str]] = {}
    for tests in functions.values():
        free = {t: known for t, known in tests.items() if not _by_hand(t)}
        quick = chosen(free, prices["quick"])
        combinations = set(tests) - chosen(tests, prices["rest"], RARELY) - quick
        for t in {*(set(free) - quick), *combinations}:
            found[t] = ["exhaustive", *["combination"] * (t in combinations)]
    return found


def _by_hand(item: Any) -> bool:
    """Whether somebody has marked a test."""
    return any(not mark.kwargs for mark in item.iter_markers("exhaustive"))


def _function(file: str, name: str) -> tuple[str, str]:
    return file, name.partition("[")[0]


def price_for(functions: Iterable[dict[Any, tuple[set[Any], float]]], budget: float, function: int = FUNCTION) -> float:
    """The highest price, to a hundredth of a second, with which the chosen tests of all functions cost no more than the budget."""
    known = list(functions)

    def total(price: float) -> float:
        return sum(tests[t][1] for tests in known for t in chosen(tests, price, function))

    low, high = 0, 10_000
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if total(middle / 100) <= budget else (low, middle - 1)
    return low / 100


def main(measured: str) -> None:
    """Takes what a run has noted into ``costs.json``.  A run of every file replaces all that stands there and sets the prices; after one of
    some, other tests keep what they had, and the prices stay."""
    prices, costs = read_costs()
    lines = [json.loads(line) for line in Path(measured).read_text().splitlines()]
    functions: dict[Any, dict[Any, tuple[set[Any], float]]] = {}
    free: dict[Any, dict[Any, tuple[set[Any], float]]] = {}
    for file, name, seconds, said, by_hand in lines:
        for kind in (functions, *(() if by_hand else (free,))):
            kind.setdefault(_function(file, name), {})[name] = set(said), seconds
    files = {os.path.relpath(path, HERE) for path in HERE.rglob("test_*.py")}
    if files <= {file for file, *_ in lines}:
        prices = {"quick": price_for(free.values(), BUDGET), "rest": price_for(functions.values(), ALL, RARELY)}
        costs = {}
    for file, name, seconds, *_ in lines:
        costs.setdefault(file, {})[name] = round(seconds, 2)
    kept = {f: {n: s for n, s in sorted(costs[f].items()) if s > FREE} for f in sorted(files & costs.keys())}
    COSTS.write_text(json.dumps({"prices": prices, "tests": {f: tests for f, tests in kept.items() if tests}}, indent=0) + "\n")
    for kind, known, function in (("quick", free, FUNCTION), ("rest", functions, RARELY)):
        taken = [tests[t][1] for tests in known.values() for t in chosen(tests, prices[kind], function)]
        print(f"{kind}: {len(taken)} tests, {sum(taken):.0f} s of CPU time, {prices[kind]} s a fact")


if __name__ == "__main__":
    main(sys.argv[1])

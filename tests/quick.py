"""Which tests ``make test`` runs, and which only ``make test-all`` does: those that this module, or a hand, marks ``exhaustive``.

A test is worth the facts that only it looks at: that its function runs at all, and each value of each of its parameters (a program, a
type, a target, a kind of data).  The tests of a function are taken in the order of facts per second, and as long as a fact costs no more
than :data:`PRICE`.  So a product of programs, types and data becomes a few of its tests in which each of them is there once; what is
cheap stays, and what is dear and says little is left to ``make test-all``.

``costs.json`` has the CPU seconds of the tests that took more than :data:`FREE`, as ``make costs`` measured them; tests that are not in
there are run.  The choice hangs on that file and on the parameters, on nothing else: not on the machine, the clock, or on which other
tests are asked for.  A file or a function that is new is whole in ``make test`` until somebody measures again.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COSTS = HERE / "costs.json"

FREE = 0.2  # CPU seconds that no one asks about
PRICE = 0.4  # CPU seconds that may be spent on a fact
FUNCTION = 3  # facts that a function is worth, whatever its parameters


def cpu_seconds() -> float:
    """Of this process, and of those that it started and that have ended."""
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def read_costs() -> dict[str, dict[str, float]]:
    """File -> test -> CPU seconds."""
    return json.loads(COSTS.read_text()) if COSTS.exists() else {}


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


def chosen(tests: dict[Any, tuple[set[Any], float]]) -> set[Any]:
    """Of a function's tests, as test -> (facts, CPU seconds), those that are worth their time."""
    out = {t for t, (_, cost) in tests.items() if cost <= FREE}
    seen: set[Any] = set().union(*(tests[t][0] for t in out))
    rest = [t for t in tests if t not in out]
    while rest:
        new = {t: len(tests[t][0] - seen) + (0 if out else FUNCTION) for t in rest}
        best = max(rest, key=lambda t: new[t] / tests[t][1])
        if tests[best][1] > PRICE * new[best]:
            break
        out.add(best)
        seen |= tests[best][0]
        rest.remove(best)
    return out


def left_out(items: Iterable[Any]) -> list[Any]:
    """The tests that ``make test`` does not run, of those that no hand has marked."""
    costs = read_costs()
    functions: dict[Any, dict[Any, tuple[set[Any], float]]] = {}
    for item in items:
        if item.get_closest_marker("exhaustive") is None:
            file, name = place(item)
            key = file, name.partition("[")[0]
            functions.setdefault(key, {})[item] = facts(item), costs.get(file, {}).get(name, 0.0)
    return [item for tests in functions.values() for item in set(tests) - chosen(tests)]


def main(measured: Iterable[str]) -> None:
    """Takes files of lines ``[test, CPU seconds, ...]`` into ``costs.json``; tests that are not in them keep what they had."""
    costs = read_costs()
    for file in measured:
        for line in Path(file).read_text().splitlines():
            nodeid, seconds, *_ = json.loads(line)
            where, _, name = nodeid.removeprefix("tests/").partition("::")
            costs.setdefault(where, {})[name] = round(seconds, 1)
    there = {f: tests for f, tests in sorted(costs.items()) if (HERE / f).exists()}
    kept = {f: {n: s for n, s in sorted(tests.items()) if s > FREE} for f, tests in there.items()}
    COSTS.write_text(json.dumps({f: tests for f, tests in kept.items() if tests}, indent=0) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

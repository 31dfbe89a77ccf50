"""Examples that a check always tries, beside those that are drawn: what chance seldom puts together.

``count``    Small whole numbers in order, -16 to 16, along an axis that is not the rule's.  ``x^2 + x == 30`` is true at 5 and -6.
``length``   An axis just longer than a number that the rule names, for which the premises on its length are true.  ``1024 mod n = 0`` is
             true of all powers of two up to 1024, and false of 2048.  Where bits count, an axis longer than float16 has whole numbers.
``ends``     The least or the largest number of a type everywhere, along an axis so long that their sum overflows another type that the rule
             names.  The sum of 257 numbers of int8 can be one that int16 does not have.
``beyond``   Numbers of one sign that are all as large as one that the rule names, or larger; what a choice asks for
             is true of some of them.  -1e30 is no identity of a maximum.
``all``      Every number of a type of 8 or 16 bits, for a value that has this type by a premise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ...ir.dtypes import DTYPES
from ...ir.monoids import MONOIDS
from .. import patterns as P
from ..comparisons import LONGEST_AXIS, Compare
from ..facts import HasType
from ..world import World
from . import dictionary
from .variables import Plan

COUNTED = np.arange(-16.0, 17.0)
EVERY = 16  # one example of so many counts
NEXT = 3  # lengths above each number that a rule names
MOST_SWEPT = 24  # lengths in one check
LONGEST_ARRAY = 70_000  # along an axis that arrays have: more than the numbers of 16 bits
BEYOND = 2  # numbers that a rule names, beyond each of which all values are, with either sign
SIGNS = ("least", "largest")


@dataclass(frozen=True)
class Sweep:
    """One such example: the lengths of some of the rule's axes, by name, and the numbers that values have, if these are not drawn."""

    how: str | None = None  # "count", "beyond", "all", or one of ``SIGNS``
    lengths: tuple[tuple[str, int], ...] = ()
    dtype: str | None = None  # of exact rules
    seed: int = 0
    at: float = 0.0  # beyond which all numbers are
    free: int = 0  # the length of the axis that is not the rule's; 0 for any


DRAWN = Sweep()


def sweeps(plan: Plan, mode: str, examples: int) -> list[Sweep]:
    """Those of a check of so many examples."""
    if plan.tests_itself:
        return []
    found = [Sweep("count", free=len(COUNTED), seed=k) for k in range(max(1, examples // EVERY))]
    if any(isinstance(n, P.Reduce | P.Scan) for n in plan.nodes()):
        found += [Sweep("beyond", at=sign * x) for x in sorted(filter(None, plan.literals), reverse=True)[:BEYOND] for sign in (-1.0, 1.0)]
    if mode == "rational":
        return found
    found += [Sweep(lengths=(one,), seed=k) for k, one in enumerate(islice(_lengths(plan), MOST_SWEPT))]
    found += [Sweep(sign, ((axis, n),)) for axis, n in _overflowing(plan) for sign in SIGNS]
    if mode == "exact" and (added := _added(plan)) and any(isinstance(n, P.Extent | P.Const) for n in plan.nodes()):  # it may count
        beyond = int(dictionary.whole_numbers("float16"))  # which rounds to even, down; the next rounds up
        found += [Sweep(None, ((axis, n),), "float16", n) for axis in added for n in (beyond, beyond + 1)]
    if sizes := [DTYPES[t].itemsize for t in _typed(plan)]:
        found += [Sweep("all", free=len(numbers_of("int8")) ** min(sum(sizes), 2), seed=k) for k in range(2)]
    return found


def _lengths(plan: Plan) -> Iterator[tuple[str, int]]:
    """(axis, length): those next above every number that the rule names, of which its premises on lengths are true."""
    named = sorted({int(x) for x in plan.literals if 1 <= x < LONGEST_AXIS} | {1})
    for axis in plan.axes:
        asked = [f for f in plan.rule.needs if isinstance(f, Compare) and _speaks_of(f, axis.name)]
        if not asked:
            continue
        most = LONGEST_AXIS if axis.name in plan.only_lengths else LONGEST_ARRAY
        found: dict[int, None] = {}
        for above in reversed(named):
            powers = [1 << (above.bit_length() + k) for k in range(NEXT)]
            multiples = [(above // m + k) * m for m in named for k in range(1, NEXT + 1)]
            near = range(above + 1, above + NEXT + 1)
            good = [n for n in sorted({*powers, *multiples, *near}) if above < n <= most and all(_true_of(f, n) for f in asked)]
            found |= dict.fromkeys(good[:NEXT])
        yield from ((axis.name, n) for n in found)


def _speaks_of(f: Compare, axis: str) -> bool:
    """Whether the only variable of a comparison is the length of an axis."""
    nodes = [n for a in f.args for n in P.walk(a)]
    return any(isinstance(n, P.LengthNumber) for n in nodes) and all(
        n.axis.name == axis if isinstance(n, P.LengthNumber) else not isinstance(n, P.NumberVar) for n in nodes
    )


def _true_of(f: Compare, n: int) -> bool:
    axis = next(node.axis for a in f.args for node in P.walk(a) if isinstance(node, P.LengthNumber))
    return f.holds(World({axis.name: 0}, (n,)))


def _added(plan: Plan) -> list[str]:
    """Axes along which something is added or multiplied."""
    loops = [n for n in plan.nodes() if isinstance(n, P.Reduce | P.Scan)]
    return list(dict.fromkeys(n.axis.name for n in loops if not isinstance(n.monoid, str) or MONOIDS[n.monoid].combine in ("add", "mul")))


def _overflowing(plan: Plan) -> Iterator[tuple[str, int]]:
    """(axis, length) such that the ends of a type that values have, added up, are in no integer type that the rule names."""
    casts = set(plan.named_integers)
    values = {f.type for f in plan.rule.needs if isinstance(f, HasType) and isinstance(f.type, str) and DTYPES[f.type].kind == "int"}
    for narrow, wide in sorted((a, b) for a in values | casts for b in casts):
        n = int(DTYPES[wide].largest // -min(DTYPES[narrow].least, -DTYPES[narrow].largest)) + 2
        if n <= LONGEST_ARRAY:
            yield from ((axis, n) for axis in _added(plan))


def _typed(plan: Plan) -> list[str]:
    """The integer type of each value that has one by a premise, if none of them has more than 16 bits."""
    types = [f.type for f in plan.rule.needs if isinstance(f, HasType) and isinstance(f.type, str) and DTYPES[f.type].kind == "int"]
    return types if all(DTYPES[t].itemsize <= 2 for t in types) else []


def numbers_of(name: str) -> np.ndarray:
    """All numbers of an integer type of 8 or 16 bits, in order."""
    return np.arange(DTYPES[name].least, DTYPES[name].largest + 1)

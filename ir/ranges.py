"""Intervals: what is known of a value's range, including whether it may be infinite.

``Interval(lo, hi)`` contains every value that the expression can take in exact arithmetic; ``lo == -inf`` means that -inf itself
is possible.  NaN is not tracked: an operation that can create one from non-NaN arguments has the whole line as its range.
Range analysis decides which guards a kernel needs, what a tensor-core operand may be cast to, and which rewrites are safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .dtypes import DType

INF = math.inf


@dataclass(frozen=True)
class Interval:
    """The closed interval from ``lo`` to ``hi`` on the extended real line."""

    lo: float = -INF
    hi: float = INF

    def __post_init__(self) -> None:
        assert not (math.isnan(self.lo) or math.isnan(self.hi)) and self.lo <= self.hi, (self.lo, self.hi)

    @property
    def finite(self) -> bool:
        """No value is infinite."""
        return self.lo > -INF and self.hi < INF

    @property
    def magnitude(self) -> float:
        """The largest absolute value."""
        return max(abs(self.lo), abs(self.hi))

    def join(self, other: Interval) -> Interval:
        """The smallest interval that contains both."""
        return Interval(min(self.lo, other.lo), max(self.hi, other.hi))

    def at_most(self, x: float) -> Interval:
        """What is left of it for values that are known to be at most a number."""
        return Interval(min(self.lo, x), min(self.hi, x))

    def at_least(self, x: float) -> Interval:
        """What is left of it for values that are known to be at least a number."""
        return Interval(max(self.lo, x), max(self.hi, x))


ALL = Interval()
UNIT = Interval(0.0, 1.0)


def product(a: float, b: float) -> float:
    """Endpoint product with 0 * inf = 0: a bound of zero is attained by zeros only, and zero times finite is zero."""
    return 0.0 if a == 0 or b == 0 else a * b


def add(a: Interval, b: Interval) -> Interval:
    """a + b; inf + -inf would be NaN and counts as unbounded on both sides."""
    if (a.hi == INF and b.lo == -INF) or (a.lo == -INF and b.hi == INF):
        return ALL
    return Interval(a.lo + b.lo, a.hi + b.hi)


def mul(a: Interval, b: Interval) -> Interval:
    """a * b."""
    ends = [product(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return Interval(min(ends), max(ends))


def neg(a: Interval) -> Interval:
    """-a."""
    return Interval(-a.hi, -a.lo)


def recip(a: Interval) -> Interval:
    """1 / a; unbounded when zero is inside."""
    if a.lo > 0:
        return Interval(0.0 if a.hi == INF else 1 / a.hi, 1 / a.lo)
    if a.hi < 0:
        return Interval(1 / a.hi, 0.0 if a.lo == -INF else 1 / a.lo)
    if a.lo == 0:
        return Interval(0.0 if a.hi == INF else (1 / a.hi if a.hi > 0 else INF), INF)
    return ALL


def cast(a: Interval, to: DType) -> Interval:
    """A value converted to a type: an integer that the type does not have wraps around, and may then be any number of it."""
    if to.kind == "bool":
        return Interval(0.0 if a.lo <= 0 <= a.hi else 1.0, 0.0 if a.lo == a.hi == 0 else 1.0)
    if to.is_float:
        return a
    whole = Interval(to.least, to.largest)
    if not a.finite:
        return whole
    lo, hi = float(math.trunc(a.lo)), float(math.trunc(a.hi))
    return Interval(lo, hi) if whole.lo <= lo and hi < whole.hi + 1.0 else whole  # the largest int64 is 2**63 as a float, which wraps


def increasing(f: Callable[[float], float], lo: float = -INF, hi: float = INF) -> Callable[[Interval], Interval]:
    """Range transfer of a non-decreasing ``f``; ``lo``/``hi`` bound its image (used where ``f`` overflows or leaves its domain)."""

    def at(x: float, limit: float) -> float:
        try:
            return float(f(x))  # math.floor gives an integer, of any size
        except (OverflowError, ValueError, ZeroDivisionError):
            return limit

    def transfer(a: Interval) -> Interval:
        return Interval(max(at(a.lo, lo), lo), min(at(a.hi, hi), hi))

    return transfer

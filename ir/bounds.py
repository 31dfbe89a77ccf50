"""The domain of intervals: between which numbers a value is, whatever the inputs.

:class:`Intervals` means for :func:`.semantics.value` what a node of a kind can be, for all that its arguments can be.  Whoever has nodes
knows more of some: the type of an input, the positions of an index, the order of two nodes (:mod:`~eqfuse.tiles.relations`).

An operation on integers means the integer of mathematics; the type it has in torch is a ``Cast`` around it, which wraps.  Where the bounds
say that nothing can wrap, there is no cast, and laws of real numbers may be applied across the operations.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from . import ops, ranges
from .dtypes import DType
from .index import IndexExpr
from .monoids import MONOIDS
from .ranges import ALL, Interval
from .recursion import evaluated
from .semantics import value
from .terms import Cast, Index, Input, Map, Reduce, Scan, Term

LARGEST_EXTENT = 2.0**31
EXACT = 2.0**53  # float64, in which rules compute with constants, has every integer up to this one
ZERO = Interval(0.0, 0.0)
COUNT = Interval(0.0, LARGEST_EXTENT)
_ARITHMETIC = ("add", "mul", "neg", "square", "abs", "lshift")


@dataclass(frozen=True)
class Intervals:
    """What a node can be, at any lengths of its axes.  ``finite_inputs``: floats that are read are at most the largest of their type."""

    finite_inputs: bool = False

    def input(self, dtype: DType) -> Interval:
        """A number of a type, as it is read."""
        return Interval(dtype.least, dtype.largest) if self.finite_inputs or not dtype.is_float else ALL

    def const(self, x: float) -> Interval:
        """A number."""
        return ALL if x != x else Interval(x, x)

    def extent(self, axis: Any) -> Interval:
        """The length of an axis."""
        return COUNT

    def index(self, at: IndexExpr) -> Interval:
        """The value of an index expression."""
        lo, hi = at.bounds()
        return Interval(min(lo, 0) * LARGEST_EXTENT, LARGEST_EXTENT if hi > 0 else hi)

    def map(self, op: str, *args: Interval) -> Interval:
        """A scalar op: the range that it declares."""
        return ops.OPS[op].range(*args)

    def cast(self, to: DType, x: Interval) -> Interval:
        """A cast; rounding to a floating type is left out, as everywhere."""
        return ranges.cast(x, to)

    def view(self, axis: Any, at: Any, x: Interval) -> Interval:
        """A value at another position."""
        return x

    def gather(self, axis: Any, x: Interval, at: Interval) -> Interval:
        """A value at another position, or 0."""
        return x.join(ZERO)

    def reduce(self, monoid: str, axis: Any, x: Interval, *more: Interval) -> Interval:
        """A reduction, of nothing too where that is a number; an empty maximum is one where the axis is known to be empty."""
        m = MONOIDS[monoid]
        if m.several:
            found = (x, *more)[m.part] if m.several.selects(m.part) else ALL
            return found.join(Interval(m.identity, m.identity)) if axis.size == 0 else found
        if m.copies == "times":
            return ranges.mul(x, COUNT)
        if m.copies != "one":
            return ALL
        found = x.join(ZERO) if m.combine == "add" else x
        return found.join(Interval(m.identity, m.identity)) if axis.size == 0 else found

    def scan(self, monoid: str, axis: Any, x: Interval, *more: Interval) -> Interval:
        """A reduction of one element at least."""
        m = MONOIDS[monoid]
        if m.several:
            return (x, *more)[m.part] if m.several.selects(m.part) else ALL
        return ranges.mul(x, Interval(1.0, LARGEST_EXTENT)) if m.copies == "times" else x if m.copies == "one" else ALL

    def merge(self, monoid: str, *both: Interval) -> Interval:
        """A part of what two states are together."""
        m = MONOIDS[monoid]
        return both[m.part].join(both[m.parts + m.part]) if m.several and m.several.selects(m.part) else ALL

    def roll(self, monoid: str, axis: Any, body: Interval, update: Interval) -> Interval:
        """A reduction whose state an update moves."""
        return ALL

    def ref(self, when: str, axis: Any, x: Interval) -> Interval:
        """A running value: before the first step it may be an identity; 0 if nothing is summed yet, or an empty maximum was made safe."""
        return x.join(ZERO) if when == "new" else ALL

    def pre(self, axis: Any, x: Interval) -> Interval:
        """A sum so far."""
        return x.join(ZERO)

    def acc(self) -> Interval:
        """The state of a loop."""
        return ALL


INTERVALS = Intervals()


def bounds(term: Term, known: MutableMapping[Term, Interval]) -> Interval:
    """The bounds of a term; ``known`` keeps what was found."""

    def leaf(t: Term) -> Interval | None:
        if isinstance(t, Index):
            return Interval(0.0, float(max(t.axis.size - 1, 0)))
        return INTERVALS.input(t.dtype) if isinstance(t, Input) else None

    return evaluated(term, lambda t: t.args, leaf, lambda t, args: value(INTERVALS, t.kind, t.attrs, args), known)


def wrapped(term: Term, known: MutableMapping[Term, Interval] | None = None) -> Term:
    """What an operation made of integers, in the type that torch gives it: that a value may wrap there is said by a cast."""
    to = term.dtype
    if to is None or to.kind != "int" or not wraps(term, to, {} if known is None else known):
        return term
    return Cast(to, term)


def wraps(term: Term, to: DType, known: MutableMapping[Term, Interval]) -> bool:
    """Whether a value, which an operation makes of integers, may be none of an integer type, or too large for laws of real numbers."""
    found = bounds(term, known)
    if not (to.least <= found.lo and found.hi <= to.largest):
        return True
    made = isinstance(term, Map) and term.op in _ARITHMETIC or isinstance(term, Reduce | Scan) and term.monoid in ("isum", "iprod")
    return made and found.magnitude > EXACT

"""Bounds of terms: between which numbers a value is, whatever the inputs.

An operation on integers means the integer of mathematics; the type it has in torch is a ``Cast`` around it, which wraps.  Where the bounds
say that nothing can wrap, there is no cast, and laws of real numbers may be applied across the operations.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from . import ops, ranges
from .dtypes import DType
from .monoids import MONOIDS
from .ranges import ALL, Interval
from .recursion import evaluated
from .terms import Cast, Const, Extent, Index, Input, Map, Reduce, Term

LARGEST_EXTENT = 2.0**31
EXACT = 2.0**53  # float64, in which rules compute with constants, has every integer up to this one
_ARITHMETIC = ("add", "mul", "neg", "square", "abs", "lshift")


def bounds(term: Term, known: MutableMapping[Term, Interval]) -> Interval:
    """The bounds of a term; ``known`` keeps what was found."""
    return evaluated(term, lambda t: t.args, lambda t: None, _of, known)


def _of(t: Term, args: list[Interval]) -> Interval:
    if isinstance(t, Input):
        return ALL if t.dtype.is_float else Interval(t.dtype.least, t.dtype.largest)
    if isinstance(t, Const):
        return ALL if t.value != t.value else Interval(t.value, t.value)
    if isinstance(t, Index):
        return Interval(0.0, float(max(t.axis.size - 1, 0)))
    if isinstance(t, Extent):
        return Interval(0.0, LARGEST_EXTENT)
    if isinstance(t, Map):
        return ops.OPS[t.op].range(*args)
    if isinstance(t, Cast):
        return ranges.cast(args[0], t.to)
    if isinstance(t, Reduce) and t.monoid != "mean" and MONOIDS[t.monoid].combine == "add":
        return ranges.mul(args[0], Interval(0.0, LARGEST_EXTENT))
    return args[0]


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
    made = isinstance(term, Map) and term.op in _ARITHMETIC or isinstance(term, Reduce) and term.monoid == "isum"
    return made and found.magnitude > EXACT

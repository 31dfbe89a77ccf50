"""Where a condition on positions has one truth in a whole tile: the stretches of a loop on which a comparison of positions is known.

A comparison of affine positions, ``c * x + others + const > 0`` with a coefficient of 1 or -1 for the position x on the loop's axis, holds
in a whole tile on one side of an *edge*: where it holds for the lanes at which the others are least.  ``and``, ``or`` and ``not`` make
stretches of stretches.  The others are positions and data: integers that the loop does not change (:mod:`.data_edges`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ..ir import dtypes
from ..ir.index import Axis
from .data_edges import LARGEST_CONST, LARGEST_POSITION, DataEdges
from .operations import by_parts
from .program import Binding, Bound, Cast, Edge, Extreme, IndexValue, Let, Literal, Operand, Statement, Value, defines

Made = Mapping[str, Statement]  # value name -> the statement that computes it
Region = tuple[tuple[Bound, ...], tuple[Bound, ...]]  # positions at or above every one of the first and below every one of the second
T = TypeVar("T")
MOST = 4  # regions of a condition that are looked at


def defined(body: tuple[Statement, ...]) -> dict[str, Statement]:
    """What computes the values of a block that conditions on positions are made of."""
    return {s.dst.name: s for s in body if isinstance(s, Let | IndexValue | Cast)}


def conditions(body: tuple[Statement, ...], outside: Made) -> tuple[Value, ...]:
    """The conditions of choices in a block, each before what it is made of, here or ``outside``."""
    made = {**outside, **defined(body)}
    here = {v.name for s in body for v in defines(s)}
    found: dict[Value, None] = {}

    def add(v: Operand) -> None:
        s = made.get(v.name) if isinstance(v, Value) else None
        if isinstance(v, Value) and v.dtype.kind == "bool" and v not in found and (isinstance(s, Let) or v.name not in here):
            found[v] = None
            for x in s.args if isinstance(s, Let) and v.name in here else ():  # what is known before the loop is known as a whole
                add(x)

    for s in body:
        if isinstance(s, Let) and s.op == "where":
            add(s.args[0])
    return tuple(found)


def parts(condition: Value, made: Made) -> set[str]:
    """A condition and the conditions that it is made of."""
    s = made.get(condition.name)
    inner = [x for x in s.args if isinstance(x, Value) and x.dtype.kind == "bool"] if isinstance(s, Let) else []
    return {condition.name}.union(*(parts(x, made) for x in inner))


def regions(condition: Operand, truth: bool, over: Binding, made: Made, data: DataEdges) -> list[Region]:
    """Stretches of tiles in each of which the condition has the given truth everywhere."""
    if isinstance(condition, Value) and data.outside(condition):
        return [((Edge((), 0, data.guard(condition, truth)),), ())]
    s = made.get(condition.name) if isinstance(condition, Value) else None
    if not isinstance(s, Let):
        return []
    if s.op == "not":
        return regions(s.args[0], not truth, over, made, data)
    if s.op in ("or", "and"):
        several = [regions(x, truth, over, made, data) for x in s.args]
        if (s.op == "or") == truth:
            return [r for found in several for r in found][:MOST]
        return [(x[0] + y[0], x[1] + y[1]) for x in several[0] for y in several[1]][:MOST]
    found = [[_half(positive, over, data) for positive in together] for together in _inequalities(s, truth, made, data)]
    return [(sum((h[0] for h in hs if h), ()), sum((h[1] for h in hs if h), ())) for hs in found if all(hs)][:MOST]


def halves(found: Collection[Region]) -> list[tuple[bool, Bound]]:
    """Of regions those that end on one side only: (upper, where they begin or end)."""
    uppers = [(True, _extreme(True, starts)) for starts, stops in found if not stops]
    return uppers + [(False, _extreme(False, stops)) for starts, stops in found if not starts]


def united(found: Collection[Region]) -> Region:
    """One region in the union of several: all that are on one side, or the first."""
    sides = halves(found)
    first = next(iter(found))
    if len(sides) < 2 or (first[0] and first[1]):
        return first
    up = not first[1]
    bound = _extreme(not up, tuple(b for upper, b in sides if upper == up))
    return ((bound,), ()) if up else ((), (bound,))


def _extreme(largest: bool, of: tuple[Bound, ...]) -> Bound:
    return of[0] if len(of) == 1 else Extreme(largest, of)


@dataclass(frozen=True)
class _Affine:
    """``const + sum(coefficient * position) + sum(coefficient * value)``."""

    terms: tuple[tuple[Binding, int], ...]
    const: int
    data: tuple[tuple[Value, int], ...] = ()

    def plus(self, other: _Affine, factor: int = 1) -> _Affine:
        return _Affine(_added(self.terms, other.terms, factor), self.const + factor * other.const, _added(self.data, other.data, factor))


def _added(some: tuple[tuple[T, int], ...], others: tuple[tuple[T, int], ...], factor: int) -> tuple[tuple[T, int], ...]:
    total = dict(some)
    for x, c in others:
        total[x] = total.get(x, 0) + factor * c
    return tuple((x, c) for x, c in total.items() if c)


def _half(positive: _Affine, over: Binding, data: DataEdges) -> Region | None:
    """Where an affine form is positive in whole tiles of ``over``."""
    mine = [c for b, c in positive.terms if b == over]
    others = [(b, c) for b, c in positive.terms if b != over]
    if len(mine) != 1 or abs(mine[0]) != 1 or any(b.axis == over.axis for b, _ in others):
        return None
    far = sum(abs(c) * b.axis.size for b, c in others)
    if positive.data and (far > LARGEST_POSITION or abs(positive.const) > LARGEST_CONST):
        return None  # 32 bits may not hold the sum
    # c * x + others + const > 0 everywhere in the tile: at the lanes where the others are least
    if mine[0] > 0:
        return (Edge(tuple((b, -c, c < 0) for b, c in others), 1 - positive.const, _number(positive, -1, data)),), ()
    return (), (Edge(tuple((b, c, c < 0) for b, c in others), positive.const, _number(positive, 1, data)),)


def _number(positive: _Affine, sign: int, data: DataEdges) -> Value | None:
    """The data of an edge: the least of them where it is their sum, the largest where it is the negative of it."""
    return data.extreme(tuple((v, sign * c) for v, c in positive.data), sign < 0) if positive.data else None


def _inequalities(s: Let, truth: bool, made: Made, data: DataEdges) -> Iterator[tuple[_Affine, ...]]:
    """Affine forms, which give a comparison that truth where they are positive together: |x| < y where x < y and -x < y, and |x| > y where
    x > y, and where -x > y."""
    if s.op in ("eq", "ne"):  # x != y: the one or the other > 0
        first, second = (_affine(a, made, data) for a in s.args)
        if first is not None and second is not None and truth == (s.op == "ne"):
            yield (second.plus(first, -1),)
            yield (first.plus(second, -1),)
    elif s.op in ("le", "lt", "ge", "gt"):
        small, large = s.args if s.op in ("le", "lt") else s.args[::-1]
        less, more = (_signed(v, made, data) for v in ((small, large) if truth else (large, small)))
        # of integers, x < y: y - x > 0, else x - y + 1 > 0;  x <= y: y - x + 1 > 0, else x - y > 0
        one = _Affine((), int((s.op in ("lt", "gt")) != truth))
        for x in more:
            if less:
                yield tuple(x.plus(y, -1).plus(one) for y in less)


def _signed(v: Operand, made: Made, data: DataEdges) -> list[_Affine]:
    """Affine forms, the largest of which is the value: of |x|, x and -x."""
    s = made.get(v.name) if isinstance(v, Value) else None
    inside = s.args[0] if isinstance(s, Let) and s.op == "abs" else None
    form = _affine(v if inside is None else inside, made, data)
    return [] if form is None else [form] if inside is None else [form, _Affine((), 0).plus(form, -1)]


def _affine(v: Operand, made: Made, data: DataEdges) -> _Affine | None:
    if isinstance(v, Literal):
        return _Affine((), int(v.value)) if math.isfinite(v.value) and float(v.value).is_integer() else None
    if v.dtype.kind != "int":
        return None
    s, found = made.get(v.name), None
    if isinstance(s, IndexValue):
        of = {b.axis: b for b in s.bindings}
        if all(isinstance(a, Axis) for a, _ in s.expr.terms):
            found = _Affine(tuple((of[a], c) for a, c in s.expr.terms), s.expr.const)  # type: ignore[index]
    elif isinstance(s, Cast) and s.src.dtype.kind == "int" and s.dst.dtype.itemsize >= s.src.dtype.itemsize:
        found = _affine(s.src, made, data)
    elif isinstance(s, Let) and s.op in ("add", "neg", "sub"):
        found = by_parts(s.op, [_affine(a, made, data) for a in s.args], _sum)
        if found is not None and found.data and v.dtype != dtypes.int64:
            found = None  # 32 bits may not hold the sum
    return _Affine((), 0, ((v, 1),)) if (found is None or found.data) and data.outside(v) else found


def _sum(op: str, args: list[_Affine | None]) -> _Affine | None:
    total = _Affine((), 0)
    for a in args:
        if a is None:
            return None
        total = total.plus(a, -1 if op == "neg" else 1)
    return total

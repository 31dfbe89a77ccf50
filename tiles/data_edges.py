"""Edges made of data: a loop over keys ends where a length says that was loaded before it.

    n = lens[batch]                                        n = lens[batch]
    for k in [0, size): a <- f(a, where(k < n, x, y))  ->  for k in [0, min(size, n)): a <- f(a, where(k < n, x, y))

A loop does not change the integers that are computed outside of it, by a load, a lookup, arithmetic or a reduction; so an edge
(:mod:`.edges`) may be made of them as of positions.  An integer with lanes is reduced to its least or largest lane.  A condition that
is computed outside of a loop is an edge, too: at the start of the loop, or beyond its end.  The numbers of edges are computed by ordinary
statements in front of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce

from ..ir import dtypes
from ..ir.dtypes import DType
from ..ir.index import Axis
from .program import Binding, Cast, Dim, Let, Literal, Operand, Reduce, Statement, Value, Where, uses

Combination = tuple[tuple[Value, int], ...]  # values with their coefficients
LARGEST_TERM = 2.0**40  # integers are clamped to it before they are added, so that 64 bits hold the sum
LARGEST_CONST = 2**20  # the largest constant of an edge with data
LARGEST_POSITION = 2**29  # no axis is longer (builder.POSITIONS)
# An edge at FARTHEST is beyond the end of every axis, even less a position and a constant, and 32 bits hold FARTHEST plus both.
FARTHEST = 2.0 * LARGEST_POSITION + LARGEST_CONST
New = Callable[[str, tuple[Dim, ...], DType], Value]


class DataEdges:
    """Makes the numbers that the edges of the loops in one block need, as scalars of type int32.

    ``values``: what is computed outside of the loops; ``order``: the dims of tiles, in canonical order; ``open_``: the bindings of the grid
    and of the loops around the block, by axis; ``new``: makes a value with a name like a hint.
    """

    def __init__(self, values: Iterable[Value], order: tuple[Dim, ...], open_: Mapping[Axis, Binding], new: New) -> None:
        self.values = {v.name: v for v in values}
        self._order, self._open, self._new = order, open_, new
        self._made: dict[tuple[object, ...], Value] = {}
        self._by: dict[str, Statement] = {}  # name -> what makes it
        self._of: dict[str, str] = {}  # name -> that of the value around of which it is made

    def outside(self, v: Operand) -> bool:
        """Whether a value is computed outside of the loops."""
        return isinstance(v, Value) and v.name in self.values

    def extreme(self, of: Combination, largest: bool) -> Value:
        """The least or the largest lane of a sum of integers, clamped to the range in which 32 bits hold an edge."""
        first = of[0][0]
        total = first if first.dtype.itemsize > 2 else self._cast(first, dtypes.int32)
        if of != ((first, 1),):
            parts = [self._scaled(self._cast(self._within(v, LARGEST_TERM), dtypes.int64), c) for v, c in of]
            total = reduce(lambda x, y: self._let("add", x, y), parts)
        return self._cast(self._within(self._over_lanes(total, largest), FARTHEST), dtypes.int32)

    def guard(self, condition: Value, truth: bool) -> Value:
        """0 if a condition has one truth in all lanes, else a position beyond the end of every axis."""
        numbers = (Literal(0.0), Literal(FARTHEST)) if truth else (Literal(FARTHEST), Literal(0.0))
        key = ("guard", condition.name, truth)
        if key not in self._made:
            self._made[key] = self._put(Let(self._named(condition, condition.dims, dtypes.int32), "where", (condition, *numbers)))
        return self._over_lanes(self._made[key], True)

    def statements(self, wanted: Iterable[Value]) -> list[Statement]:
        """The statements that compute some of the scalars, arguments first; each is returned by the first call that needs it, and by no
        other."""
        found: list[Statement] = []

        def take(v: Value) -> None:
            s = self._by.pop(v.name, None)
            if s is not None:
                for x in uses(s):
                    take(x)
                found.append(s)

        for v in wanted:
            take(v)
        return found

    def _within(self, v: Value, far: float) -> Value:
        if v.dtype != dtypes.int64 and far > FARTHEST:  # it is
            return v
        return self._let("minimum", self._let("maximum", v, Literal(-far)), Literal(far))

    def _scaled(self, v: Value, c: int) -> Value:
        return v if c == 1 else self._let("mul", v, Literal(float(c)))

    def _put(self, s: Let | Cast | Where | Reduce) -> Value:
        self._by[s.dst.name] = s
        return s.dst

    def _named(self, like: Value, dims: tuple[Dim, ...], dtype: DType) -> Value:
        found = self._new(f"edge_{self._of.get(like.name, like.name)}", dims, dtype)
        self._of[found.name] = self._of.get(like.name, like.name)
        return found

    def _cast(self, v: Value, to: DType) -> Value:
        key = ("cast", v.name, to)
        if v.dtype == to:
            return v
        if key not in self._made:
            self._made[key] = self._put(Cast(self._named(v, v.dims, to), v))
        return self._made[key]

    def _let(self, op: str, *args: Operand) -> Value:
        key = (op, *args)
        if key not in self._made:
            given = [a for a in args if isinstance(a, Value)]
            dims = tuple(d for d in self._order if any(d in a.dims for a in given))
            self._made[key] = self._put(Let(self._named(given[0], dims, given[0].dtype), op, args))
        return self._made[key]

    def _over_lanes(self, v: Value, largest: bool) -> Value:
        key = ("extreme", v.name, largest)
        if key not in self._made:
            monoid, neutral = ("max", "-inf") if largest else ("min", "inf")
            inner = tuple(self._open[a] for d in v.dims for a in d.axes if not self._open[a].even)
            x = v
            if inner:  # padded lanes are none
                x = self._put(Where(self._named(v, v.dims, v.dtype), v, inner, float(neutral)))
            for d in v.dims[::-1]:
                left = tuple(e for e in x.dims if e != d)
                x = self._put(Reduce(self._named(v, left, v.dtype), monoid, d, x))
            self._made[key] = x
        return self._made[key]

"""Layouts as terms, for rules: a layout is built from the one point, step by step, and each kind of node says what map it is.

============================  ======================================================================================================
node                          the map
============================  ======================================================================================================
point                         one element, at 0
sharded(e, s, a, X)           one more digit d < e, the slowest: places of X plus d·s on the axis a
copies(e, s, a, X)            every place of X plus d·s on a, for all d < e
offset(o, a, X)               places of X plus o on a
beside(X, Y)                  ``x || y -> X(x) + Y(y)``, the direct sum
tile(X, Y)                    ``x || y -> X(x)·span(Y) + Y(y)``, the Kronecker product
slice(first, n, X)            n elements of X from the first on
============================  ======================================================================================================

A :class:`~.layout.Layout` is a term of the first four, and such a term is a layout; the others are operations, which rules turn into these.
A map is the tuple of the sets of places of its elements: what checks of rules and audits compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import LayoutError
from .iters import Iter, whole
from .layout import Layout

Place = tuple[tuple[str, int], ...]  # (axis, value), ascending, without zeros
Places = tuple[frozenset[Place], ...]  # of each element

# The attributes of each kind and how many layouts it is of.
KINDS: dict[str, tuple[tuple[str, ...], int]] = {
    "point": ((), 0),
    "sharded": (("extent", "stride", "axis"), 1),
    "copies": (("extent", "stride", "axis"), 1),
    "offset": (("stride", "axis"), 1),
    "beside": ((), 2),
    "tile": ((), 2),
    "slice": (("first", "extent"), 1),
}
WRITTEN = ("point", "sharded", "copies", "offset")  # what a layout is written with
LARGEST = 1 << 16  # places of a map that is looked at


class TooLarge(LayoutError):
    """A map has too many places to be looked at."""


@dataclass(frozen=True, slots=True)
class Term:
    """A node over terms: ``Term("tile", (), (x, y))``."""

    kind: str
    attrs: tuple[Any, ...] = ()
    args: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, (*self.attrs, *self.args)))})"


def term(layout: Layout) -> Term:
    """A layout as a term: offsets outside, then copies, then iters."""
    found = Term("point")
    for i in reversed(layout.iters):
        found = Term("sharded", (i.extent, i.stride, i.axis), (found,))
    for i in reversed(layout.replicas):
        found = Term("copies", (i.extent, i.stride, i.axis), (found,))
    for axis, value in layout.offset.items():
        found = Term("offset", (value, axis), (found,))
    return found


def layout(of: Term) -> Layout:
    """The layout that a term of ``WRITTEN`` nodes is."""
    iters: list[Iter] = []
    replicas: list[Iter] = []
    offset: dict[str, int] = {}
    while of.kind != "point":
        if of.kind not in WRITTEN:
            raise LayoutError(f"{of.kind} is an operation on layouts", cure="saturate it: the rules say which layout it is")
        if of.kind == "offset":
            offset[of.attrs[1]] = offset.get(of.attrs[1], 0) + of.attrs[0]
        else:
            (iters if of.kind == "sharded" else replicas).append(Iter(*of.attrs))
        of = of.args[0]
    return Layout(tuple(iters), tuple(replicas), offset)


def moved(place: Place, axis: str, by: int) -> Place:
    """A place, so far along an axis."""
    at = dict(place)
    value = at.pop(axis, 0) + by
    return tuple(sorted([*at.items(), *([(axis, value)] if value else [])]))


def added(x: Iterable[Place], y: Iterable[Place]) -> frozenset[Place]:
    """Every sum of a place of each."""
    out = set()
    for p in x:
        for q in y:
            there = p
            for axis, value in q:
                there = moved(there, axis, value)
            out.add(there)
    return frozenset(out)


def span(x: Places, axis: str) -> int:
    """Greatest value on an axis less the least, plus 1."""
    values = [dict(p).get(axis, 0) for places in x for p in places]
    return max(values) - min(values) + 1


def origin(x: Places, axis: str) -> int:
    """The least place of the first element on an axis."""
    return min(dict(p).get(axis, 0) for p in x[0])


def _walk(e: int, s: int, a: str) -> list[Place]:
    return [moved((), a, d * s) for d in range(e)]


def _tile(x: Places, y: Places) -> Places:
    widths = {a: span(y, a) for places in x for p in places for a, _ in p}
    return _beside([frozenset(tuple((a, v * widths[a]) for a, v in p) for p in places) for places in x], y)


def _beside(x: Sequence[frozenset[Place]], y: Places) -> Places:
    return tuple(added(p, q) for p in x for q in y)


def _slice(first: int, n: int, x: Places) -> Places:
    if first < 0 or first + n > len(x):
        raise LayoutError(f"{n} elements from {first} on are not in {len(x)}", cure="a slice inside of the layout")
    return x[first : first + n]


_MEANING: dict[str, Callable[..., Places]] = {
    "point": lambda: (frozenset([()]),),
    "sharded": lambda e, s, a, x: _beside([frozenset([p]) for p in _walk(e, s, a)], x),
    "copies": lambda e, s, a, x: tuple(added(p, _walk(e, s, a)) for p in x),
    "offset": lambda o, a, x: tuple(added(p, [moved((), a, o)]) for p in x),
    "beside": _beside,
    "tile": _tile,
    "slice": _slice,
}


def meaning(kind: str, attrs: Sequence[Any], args: Sequence[Places]) -> Places:
    """The map of a node, from those of its arguments; LayoutError for what is no layout, or has too many places to be looked at."""
    names = KINDS[kind][0]
    read = [v if n == "axis" else whole(v, f"the {n} of {kind}", 1 if n == "extent" else None) for n, v in zip(names, attrs, strict=True)]
    extent = next((v for n, v in zip(names, read, strict=True) if n == "extent"), 1)
    most = extent
    for x in args:
        most *= sum(map(len, x))
    if kind != "slice" and most > LARGEST:
        raise TooLarge(f"{kind} makes {most} places, and {LARGEST} are looked at", cure="a smaller layout")
    return _MEANING[kind](*read, *args)


def places(of: Term) -> Places:
    """The map of a term."""
    return meaning(of.kind, of.attrs, [places(x) for x in of.args])

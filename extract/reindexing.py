"""Kernels over other axes than those of their results.

A view of what a kernel makes sinks to its loads, where it is index arithmetic; but not through a scan along the very axis that is read
elsewhere.  ``out[o] = scan_a(x)[a = n-1-o]`` is made by a kernel over ``a`` all the same: its positions along ``a`` are those along
``o = n-1-a``, where it stores, and where it loads whatever else depends on ``o``.  So a kernel may be made in places: each axis of its
results is an expression over the axes that it runs over.  A view then shows what is there already if its index, at these places, is where
the axis is.  Both ways of it are tested by the arithmetic of index expressions, so that each element is stored, and by one program only.

An axis that is taken in parts is such a case: at ``j = jo * T + ji`` the elements ``j // T`` and ``j % T`` are ``jo`` and ``ji``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..egraph.frozen import ENode, FrozenGraph
from ..ir.index import Axis, IndexExpr, index
from .fusibility import Leaf


@dataclass(frozen=True)
class Places:
    """Where the axes of results are, over the axes of a kernel; ``part``: that it takes parts of an axis, by the axis that says which;
    ``without``: axes of the kernel on which a class does not depend, though on others in the place of the same axis."""

    at: Mapping[Axis, IndexExpr] = field(default_factory=dict)
    part: Axis | None = None
    without: Mapping[int, frozenset[Axis]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.at)

    def of(self, e: IndexExpr) -> IndexExpr:
        """A position over the axes of the kernel."""
        return e.substitute(self.at) if self.at else e

    def axes(self, axes: Sequence[Axis]) -> list[Axis]:
        """The axes of the kernel in the places of some."""
        return [b for a in axes for b in (sorted(self.at[a].axes()) if a in self.at else (a,))]

    def axes_of(self, c: int, axes: frozenset[Axis]) -> frozenset[Axis]:
        """The axes of the kernel on which a class depends that has some axes."""
        return frozenset(self.axes(sorted(axes))) - self.without.get(c, frozenset()) if self.at else axes

    def shows(self, n: ENode) -> bool:
        """Whether a view shows a value where it is."""
        return n.op == "view" and bool(self.at) and self.of(n.attrs[1]) == self.of(index(n.attrs[0]))

    def captures(self, axis: Axis, body: frozenset[Axis]) -> bool:
        """Whether a reduction or a scan along an axis would meet places: of others that depend on it, or its own, since what it goes along
        is another position than that of the results, though it has the same name."""
        return axis in self.at or any(a in self.at and axis in self.at[a].axes() for a in body)


EVERYWHERE = Places()


def reindexings(graph: FrozenGraph, below: Sequence[int], stored: frozenset[Axis], leaves: Mapping[int, Leaf]) -> Iterator[Places]:
    """The places in which a kernel may be made: as its results say, and as scans want it.  ``below``: the classes that it may compute;
    ``stored``: the axes of its results."""
    yield EVERYWHERE
    given = frozenset(a for c in below if c in leaves for a in leaves[c].layout if a is not None)
    found: dict[Axis, IndexExpr] = {}
    for c in below:
        for n in graph.classes[c] if c not in leaves else ():
            if n.op == "view" and n.attrs[0] not in stored and any(m.op == "scan" for m in graph.classes[n.args[0]]):
                at = _inverse(*n.attrs)
                if at.keys() <= stored and not at.keys() & found.keys() and n.attrs[0] not in _mentioned(found):
                    found |= at
    if found:
        yield Places(found)
    scanned = {outer for _, outer, _ in graph.facts.get("before", ())}
    for whole, outer, inner in graph.facts.get("split", ()):
        wanted = whole in _mentioned(found) or (whole in stored and whole not in found)
        if wanted and outer in given & scanned and not {outer, inner} & stored:
            parts = {whole: index(outer) * inner.size + index(inner)}
            yield Places({**{a: e.substitute(parts) for a, e in found.items()}, **parts}, outer)


def _mentioned(at: Mapping[Axis, IndexExpr]) -> frozenset[Axis]:
    return frozenset(a for e in at.values() for a in e.axes())


def _inverse(axis: Axis, e: IndexExpr) -> dict[Axis, IndexExpr]:
    """Where the axes of an index are, along the axis that it reads; nothing unless it reads each position once."""
    steps = [(a, c) for a, c in e.terms if isinstance(a, Axis)]
    if len(steps) != len(e.terms) or not steps or math.prod(a.size for a, _ in steps) != axis.size:
        return {}
    found: dict[Axis, IndexExpr] = {}
    for a, c in steps:
        step = abs(c)
        there = (index(axis) // step) % a.size if step * a.size < axis.size else index(axis) // step
        found[a] = there if c > 0 else there * -1 + (a.size - 1)
    undone = all(there.substitute({axis: e}) == index(a) for a, there in found.items())
    return found if undone and e.substitute(found) == index(axis) else {}

"""What a kernel's roots could need: the axes below them, which are reduced, and which a tensor core would tile.

Read off the e-graph once per (roots, leaves); the tile search uses it to propose roles instead of trying them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from ..egraph.frozen import ENode, FrozenGraph
from ..ir.index import Axis
from ..ir.recursion import arguments_first
from .fusibility import Leaf
from .reindexing import EVERYWHERE, Places

MOST_ROWS = 128  # of a matrix product, beyond which other axes are not packed with one: the other operand is read seldom enough


@dataclass(frozen=True)
class Structure:
    """Axes of a kernel-to-be, in program order.

    ``stored``: axes of every root's layout.  ``reduced``: axes that some reduction below removes, or that a scan
    runs along.  ``contracted``: those that a
    sum of products removes.  ``free``: axes that belong to one side of some contraction (rows and columns of a matrix product);
    an axis on both sides of all contractions is a batch axis.  A matrix product has one row and one column dim: of several free
    axes on one side the longest is ``tiled``; where it is short, others are ``packed`` into one dim with it, and what is left takes one
    position per program.  ``summed``: batch axes, and free ones that are not tiled, that a reduction removes later: a product of rows
    with several axes is a sum of matrix products, a pool over products their maximum.  ``batch``: axes that some contraction has on both
    sides, which in another form of the program may be free.  ``derived``: axes of every layout that only forms which rules made reduce.
    ``places``: where the axes of the roots are.
    """

    axes: tuple[Axis, ...]
    stored: tuple[Axis, ...]
    reduced: tuple[Axis, ...]
    contracted: frozenset[Axis]
    free: frozenset[Axis]
    parts: frozenset[Axis] = frozenset()  # outer axes of splits: one position per program
    tiled: frozenset[Axis] = frozenset()  # the longest free axis of each side of a contraction: the rows or columns of its tiles
    summed: frozenset[Axis] = frozenset()
    batch: frozenset[Axis] = frozenset()
    derived: frozenset[Axis] = frozenset()
    places: Places = EVERYWHERE
    packed: tuple[tuple[Axis, ...], ...] = ()

    def pack(self, a: Axis) -> tuple[Axis, ...]:
        """The axes that an axis is packed with, itself among them, if it is with some."""
        return next((p for p in self.packed if a in p), ())

    def several(self, kinds: Mapping[Axis, str]) -> int:
        """Over how many axes a tile would have several matrix products, which no matrix unit multiplies at a time: windows held whole.
        What is stored along such an axis may be made without the products."""
        return sum(kinds[a] == "resident" and not self.pack(a) for a in self.summed.difference(self.stored))

    @property
    def has_contraction(self) -> bool:
        """Some reduction is a sum of products."""
        return bool(self.contracted)


def reachable(
    graph: FrozenGraph, roots: tuple[int, ...], leaves: Mapping[int, Leaf], *, written: bool = False, tables: bool = True
) -> list[int]:
    """Classes below the roots, stopping at stored ones and at views of these, whatever else they could be made of; roots first.
    ``written``: in the program as written.  Without ``tables``, not the stored ones that are read where data say."""
    seen: dict[int, None] = {}
    stack = list(reversed(roots))
    while stack:
        c = stack.pop()
        if c in seen:
            continue
        seen[c] = None
        if c in leaves:
            continue
        read = (_views(graph, c, leaves) if c not in roots else []) or _gathers(graph, c, leaves, tables)
        for args in read or (n.args for n in graph.classes[c] if n.rule is None or not written):
            stack.extend(args)
    return list(seen)


def _views(graph: FrozenGraph, c: int, leaves: Mapping[int, Leaf]) -> list[tuple[int, ...]]:
    """The stored classes that a class is a view of, or the views of these that it is a view of."""
    if leaves.keys().isdisjoint(graph.viewed.get(c, ())):
        return []
    ways = [n for n in graph.classes[c] if n.op == "view" and n.args[0] != c]
    read = _reads(graph, c, ways, ("view",), lambda x: x in leaves)
    return [n.args for n in ways if n.args[0] in read]


def _gathers(graph: FrozenGraph, c: int, leaves: Mapping[int, Leaf], tables: bool) -> list[tuple[int, ...]]:
    """What says where a class reads that is a gather from memory, and the stored class that it reads: the rest of the form is a load."""
    ways = [n for n in graph.classes[c] if n.op == "gather" and n.args[0] != c]
    read = _reads(graph, c, ways, ("view", "gather"), lambda x: x in leaves or any(n.op == "input" for n in graph.classes[x]))
    found: dict[int, None] = {}
    for x, ns in read.items():
        found.update((a, None) for n in ns for a in n.args[1:])
        found.update({x: None} if tables and x in leaves else {})
    return [(n.args[1], *found) for n in ways if n.args[0] in read]


def _reads(
    graph: FrozenGraph, c: int, ways: Sequence[ENode], ops: Collection[str], stored: Callable[[int], bool]
) -> dict[int, list[ENode]]:
    """Of the classes that some nodes of a class read, and below those by some ops alone: those that are in memory or read from there, with
    the nodes that do."""
    if not ways:
        return {}

    def of(x: int) -> list[ENode]:
        return [n for n in graph.classes[x] if n.op in ops and n.args[0] != c]

    below = arguments_first([n.args[0] for n in ways], lambda x: [n.args[0] for n in of(x)])
    reads = {x: of(x) for x in below}
    users: dict[int, list[int]] = {x: [] for x in below}
    for x, ns in reads.items():
        for n in ns:
            users[n.args[0]].append(x)
    read = {*arguments_first([x for x in below if stored(x)], lambda x: users[x])}
    return {x: [n for n in ns if n.args[0] in read] for x, ns in reads.items() if x in read}


def _factors(graph: FrozenGraph, c: int) -> list[tuple[int, int]]:
    return [(n.args[0], n.args[1]) for n in graph.classes[c] if n.scalar == "mul"]


def analyse(
    graph: FrozenGraph,
    roots: tuple[int, ...],
    layouts: tuple[tuple[Axis | None, ...], ...],
    leaves: Mapping[int, Leaf],
    places: Places = EVERYWHERE,
) -> Structure:
    """The structure below some roots, over the axes of a kernel in some places.  Axes made by splitting take part only if a root or a leaf
    has one of them; then the axis that was split does not, or, where partial results are leaves, only as one that is stored: nothing is
    left to reduce over it."""
    below = reachable(graph, roots, leaves)
    stored: dict[Axis, None] = {}
    for layout in layouts:
        stored.update((a, None) for a in places.axes([a for a in layout if a is not None]))
    found: dict[Axis, None] = dict(stored)
    reduced: dict[Axis, None] = {}
    contracted: set[Axis] = set()
    free: set[Axis] = set()
    tiled: set[Axis] = set()
    sides: dict[tuple[Axis, frozenset[Axis]], None] = {}
    batch: set[Axis] = set()
    for c in below:
        if c in leaves or (c not in roots and _views(graph, c, leaves)) or _gathers(graph, c, leaves, True):
            continue
        for n in graph.classes[c]:
            axis = n.goes_along(*(graph.axes[x] for x in n.args)) if n.in_order else None
            if axis is None:
                continue
            reduced[axis] = found[axis] = None
            for left, right in _factors(graph, n.args[0]) if n.reduction else ():
                a, b = (places.axes_of(x, graph.axes[x]) for x in (left, right))
                if n.attrs[0] == "sum" and axis in a and axis in b and a - b and b - a:
                    contracted.add(axis)
                    free |= a ^ b
                    batch |= (a & b) - {axis}
                    sides |= {(axis, a - b): None, (axis, b - a): None}
                    tiled |= {max(side, key=lambda x: (x.size, x)) for side in (a - b, b - a)}
    for c in reachable(graph, roots, leaves, tables=False):
        found.update((a, None) for a in places.axes(sorted(graph.axes[c])))
    mentioned = set(stored)
    for c in below:
        if c in leaves:
            mentioned.update(a for a in leaves[c].layout if a is not None)
    excluded: set[Axis] = set()
    for axis, outer, inner in graph.facts.get("split", ()):
        if outer in stored:
            excluded.add(axis)
        elif outer in mentioned:
            excluded |= {axis, inner} - set(stored)
            reduced.pop(axis, None)
        else:
            excluded |= {outer, inner}
    excluded |= {earlier for _, outer, earlier in graph.facts.get("before", ()) if outer != places.part}
    derived = {a for a in reduced if all(a in layout for layout in layouts)}
    for c in reachable(graph, roots, leaves, written=True) if derived else ():
        if c not in leaves:
            derived -= {n.in_order for n in graph.classes[c] if n.in_order and n.rule is None}
    parts = {a for row in graph.facts.get("split", ()) for a in row}
    known = dict.fromkeys(places.axes(graph.program.axes))
    order = [a for a in (*known, *sorted(set(found) - set(known))) if a in found and a not in excluded]
    whole = [frozenset(places.axes([a for a in layout if a is not None])) for layout in layouts]
    own = dict.fromkeys(side for axis, side in sides if axis not in excluded)
    rows = [x for x in own if not x & (excluded | reduced.keys() | batch) and all(x <= layout for layout in whole)]
    return Structure(
        tuple(order),
        tuple(a for a in order if a in stored),
        tuple(a for a in order if a in reduced),
        frozenset(contracted - excluded),
        frozenset(free - excluded),
        frozenset(outer for _, outer, _ in graph.facts.get("split", ()) if outer in stored),
        frozenset(tiled - excluded),
        frozenset(((batch | free - tiled - contracted - parts) & set(reduced)) - excluded),
        frozenset(batch - excluded),
        frozenset(derived - excluded),
        places,
        _packed(rows, own, order),
    )


def _packed(rows: Sequence[frozenset[Axis]], sides: Collection[frozenset[Axis]], order: Sequence[Axis]) -> tuple[tuple[Axis, ...], ...]:
    """Axes that are together on the same sides of all products, so that their positions together can be its rows or columns, each group in
    program order: the longest, and others while there are few rows."""
    found: list[tuple[Axis, ...]] = []
    for row in sorted(rows, key=len, reverse=True):
        taken: list[Axis] = []
        for a in sorted(row, key=lambda x: (x.size, x), reverse=True):
            if math.prod(x.size for x in taken) < MOST_ROWS:
                taken.append(a)
        apart = any(row & side and not row <= side for side in sides) or any(a in p for a in row for p in found)
        if len(taken) > 1 and not apart:
            found.append(tuple(a for a in order if a in taken))
    return tuple(found)

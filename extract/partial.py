"""Partial results: what the parts of a split axis can know by themselves, to be stored by one kernel and merged by the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..egraph.frozen import FrozenGraph
from ..egraph.run import way_of
from ..ir.index import Axis
from ..ir.monoids import MONOIDS
from ..tiles.kernel import Kernel
from .choose import Leaf
from .structure import reachable

Row = tuple[Axis, Axis, Axis]  # an axis, that of its parts, and that of a part's elements: a row of the relation ``split``


class Partials:
    """The partial results in one e-graph, by the row of its relation ``split``."""

    def __init__(self, graph: FrozenGraph) -> None:
        self.graph = graph
        self.rows: tuple[Row, ...] = tuple(graph.facts.get("split", ()))
        self._local: dict[tuple[Row, frozenset[int]], set[int]] = {}

    def below(self, row: Row, roots: Sequence[int], leaves: Mapping[int, Leaf]) -> tuple[int, ...]:
        """The classes to choose from for storing between the two kernels that make some roots of some leaves.

        Not the parts of a value over which another axis is split as well (``sum_ki a_(ko ki)(jo ji)``, of ``sum_ki a_(ko ki)j``): the same
        numbers under other names, of which a merge over ``j`` could not be made."""
        whole, outer, inner = row
        elsewhere = {a for axis, *parts in self.rows if axis != whole for a in parts}
        again = {a for _, part, a in self.graph.facts.get("before", ()) if part == outer}
        over = {outer, *again}
        local = self.local(row, frozenset(leaves) if again else frozenset())
        found: dict[int, None] = {}
        for c in reachable(self.graph, tuple(roots), leaves):
            for n in self.graph.classes[c] if c not in leaves else ():
                if n.reduction and n.attrs[1] in over:
                    for p in reachable(self.graph, n.args, leaves):
                        axes = self.graph.axes[p]
                        if p in local and p not in leaves and outer in axes and elsewhere.isdisjoint(axes) and self._reduces(p, inner):
                            found[p] = None
        return tuple(p for p in found if not any(q in found and q != p for q in self._factors(p)))

    def _factors(self, c: int) -> Iterator[int]:
        """What a selection is a constant multiple of.  Parts store that: the difference of two maxima is exact where they are close, and
        that of their rounded multiples is not."""
        if any(n.reduction and MONOIDS[n.attrs[0]].idempotent for n in self.graph.classes[c]):
            for n in self.graph.classes[c]:
                if n.scalar == "mul" and any(m.op == "const" for a in n.args for m in self.graph.classes[a]):
                    yield from n.args

    def local(self, row: Row, known: frozenset[int] = frozenset()) -> set[int]:
        """Classes that can be computed without a reduction over the axis, its parts, or those of another split of it: what one part knows
        by itself, and perhaps from what is ``known``: a scan's part has nothing that the others change."""
        if (row, known) not in self._local:
            others = (a for other in self.rows if other[0] == row[0] for a in other)
            self._local[row, known] = self._without(frozenset(others) - {row[2]}, known)
        return self._local[row, known]

    def _without(self, forbidden: frozenset[Axis], known: frozenset[int]) -> set[int]:
        found: set[int] = set(known)
        grown = True
        while grown:
            grown = False
            for c, enodes in enumerate(self.graph.classes):
                if c not in found and any(n.in_order not in forbidden and all(a in found for a in n.args) for n in enodes):
                    found.add(c)
                    grown = True
        return found

    def _reduces(self, c: int, axis: Axis) -> bool:
        return any(n.reduction and n.attrs[1] == axis for n in self.graph.classes[c])

    def among(self, axis: Axis) -> tuple[int, ...]:
        """The numbers of parts that an axis may have."""
        return tuple(outer.size for whole, outer, _ in self.rows if whole == axis)

    def like(self, kernel: Kernel) -> Row | None:
        """The row that a kernel of another program, the same but for lengths, stores partial results of."""
        outer = {a for a in kernel.roles if a in {x for r in kernel.roots for e in r.index for x in e.axes()}}
        theirs = {(axis.place, way_of(axis, o)) for axis, o, _ in kernel.splits if o in outer}
        return next((row for row in self.rows if (row[0].place, way_of(*row[:2])) in theirs), None)

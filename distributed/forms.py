"""The forms that are placed: the program as it is written and, for reductions whose parts do not add up, the merge of partial results.

Splits are those of kernels over the grid, with as many parts as a dimension of the mesh has devices: the same rules derive the merge, and
a device knows of its part what a program of the grid knows.  Of an e-graph with the axis split, one way to merge is taken, the cheapest by
elements (:func:`merged`); where which form is used, if any, is chosen with the places.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..egraph import FrozenGraph, saturate
from ..egraph.frozen import ENode
from ..egraph.run import for_kernels
from ..errors import GraphError
from ..extraction import Graph, Member, choose
from ..ir import dtypes, nodes
from ..ir.dtypes import DType
from ..ir.index import Axis
from ..ir.nodes import KINDS, RUNNING
from ..ir.program import Program
from ..ir.terms import Reduce, Term
from ..rewrites import Rule, registry
from .mesh import Mesh
from .propagation import ADDS

LOOPS = ("roll", "strength", "fusion")  # phases of forms that no device could have by itself
NODES, SECONDS = 20_000, 10.0  # of the saturation
MERGE_SECONDS = 2.0  # for the choice of a merge

Row = tuple[Axis, Axis, Axis]  # an axis, that of its parts, and that of a part's elements


def split_axes(program: Program, mesh: Mesh) -> dict[Axis, tuple[int, ...]]:
    """Axis -> numbers of parts, for the axes of reductions whose parts do not add up."""
    found: dict[Axis, tuple[int, ...]] = {}
    for t in program.terms():
        if isinstance(t, Reduce) and t.axis in t.args[0].axes and t.monoid not in ADDS:
            counts = (n for d, n in enumerate(mesh.sizes) if n > 1 and mesh.fits(d, t.axis) and t.axis.size > n)
            if ways := tuple(dict.fromkeys(counts)):
                found[t.axis] = ways
    return found


def merged(graph: FrozenGraph, members: Sequence[Sequence[ENode]], row: Row) -> dict[int, set[ENode]]:
    """The cheapest forms of the reductions over an axis that reduce each part by itself first, and use nothing there that the parts would
    have to tell each other before; by class.

    Every class twice: what a part knows, and what is known once parts are merged.
    """
    whole, outer, inner = row
    apart = {a for other in graph.facts.get("split", ()) if other[0] == whole for a in other} - {*row}
    wanted = [c for c, ns in enumerate(members) for n in ns if n.op == "reduce" and n.attrs[1] == whole and n.rule is None]

    def made(c: int, later: int) -> list[tuple[ENode | None, Member]]:
        elements = float(math.prod(a.size for a in graph.axes[c]))
        found: list[tuple[ENode | None, Member]] = []
        for n in members[c]:
            over = n.attrs[0] if n.op == "gather" else n.in_order  # a part has not the element of another
            if not (over in apart or over == whole or over == (inner if later else outer) or apart & graph.axes[c]):
                cost = elements if n.op != "reduce" else float(math.prod(a.size for a in graph.axes[n.args[0]]))
                found.append((n, Member("", tuple(2 * a + later for a in n.args), cost + (n.rule is not None))))
        return [*found, (None, Member("", (2 * c,), 0.0))] if later else found

    rows = [made(k // 2, k % 2) for k in range(2 * len(members))]
    graph_of = Graph(tuple(tuple(m for _, m in row) for row in rows), (0,))
    taken: dict[int, set[ENode]] = {}
    for c in dict.fromkeys(wanted):
        try:
            found = choose(graph_of, roots=(2 * c + 1,), method="greedy-dag", time_limit=MERGE_SECONDS).selection
        except GraphError:
            continue  # no merge is known
        for k in found.order if found.dag_cost < math.inf else ():
            n, _ = rows[k][found.choice[k]]
            if n is not None:
                taken.setdefault(k // 2, set()).add(n)
    return taken


@dataclass(frozen=True, eq=False)
class Forms:
    """``members[c]``: what a device could compute class c of the graph by, first what the program has; ``rows``: the splits of which
    partial results can be merged."""

    graph: FrozenGraph
    members: tuple[tuple[ENode, ...], ...]
    rows: tuple[Row, ...] = ()

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits in words."""
        return tuple(f"{axis.name} in {outer.size} parts" for axis, outer, _ in self.rows)

    @property
    def split(self) -> tuple[Axis, ...]:
        """The axes that are split."""
        return tuple(dict.fromkeys(axis for axis, *_ in self.rows))

    @property
    def program(self) -> Program:
        """The program that is placed."""
        return self.graph.program

    @cached_property
    def numbers(self) -> tuple[float | None, ...]:
        """The classes that are constants."""
        return tuple(next((float(n.attrs[0]) for n in row if n.op == "const"), None) for row in self.members)

    @cached_property
    def types(self) -> tuple[DType | None, ...]:
        """The types that torch would give the values."""
        known: list[DType | None] = [None] * len(self.members)
        for t, c in zip(self.program.terms(), self.graph.original, strict=True):
            known[c] = known[c] or t.dtype
        grown = True
        while grown:
            grown = False
            for c, row in enumerate(self.members):
                for n in row if known[c] is None else ():
                    if n.op not in ("input", "const", "extent") and (found := nodes.dtype(n.op, n.attrs, [known[a] for a in n.args])):
                        known[c], grown = found, True
                        break
        return tuple(known)

    @cached_property
    def written(self) -> Mapping[int, Term]:
        """The terms of the program, by class."""
        return dict(zip(self.graph.original, self.program.terms(), strict=True))

    @cached_property
    def dtypes(self) -> tuple[DType, ...]:
        """The types in which values are stored and moved: torch's for those of the program, if no rule widened them; for others at least
        float32."""
        own = {c: t not in self.program.widened for t, c in zip(self.program.terms(), self.graph.original, strict=True)}
        wide = (d is None or (d.is_float and d.itemsize < 4 and not own.get(c)) for c, d in enumerate(self.types))
        return tuple(dtypes.float32 if w or d is None else d for w, d in zip(wide, self.types, strict=True))

    @cached_property
    def products(self) -> frozenset[int]:
        """Classes that a matrix product keeps to itself: what it sums up, and sums of it that are summed up again."""
        users: dict[int, list[ENode]] = {}
        for row in self.members:
            for n in row:
                for a in n.args:
                    users.setdefault(a, []).append(n)
        roots = set(self.graph.roots.values())

        def summed(c: int) -> bool:
            return c not in roots and bool(users.get(c)) and all(u.op == "reduce" and u.attrs[0] == "sum" for u in users[c])

        found = {c for c, row in enumerate(self.members) if summed(c) and any(self.is_product(n) for n in row)}
        grown = True
        while grown:
            more = {
                c for c, row in enumerate(self.members)
                if c not in found and summed(c) and any(n.op == "reduce" and n.args[0] in found for n in row)
            }  # fmt: skip
            found |= more
            grown = bool(more)
        return frozenset(found)

    def is_product(self, n: ENode) -> bool:
        """A product whose factors have axes of their own."""
        if n.op != "map" or n.scalar != "mul":
            return False
        a, b = (self.graph.axes[x] for x in n.args)
        return bool(a - b) and bool(b - a) and bool(a & b)


def forms(program: Program, mesh: Mesh, rules: Sequence[Rule] | None = None, *, parts: bool = True) -> Forms:
    """The forms of a program on a mesh; without ``parts`` those that it has as it is written."""
    splits = split_axes(program, mesh) if parts else {}
    active = registry.active("real") if rules is None else rules
    chosen = tuple(r for r in for_kernels(active) if r.phase not in LOOPS) if splits else ()
    graph = saturate(program, rules=chosen, splits=splits, node_budget=NODES, time_budget=SECONDS)
    able = [[n for n in row if _able(graph, c, n)] for c, row in enumerate(graph.classes)]
    kept = [{n for n in row if n.rule is None} for row in able]
    rows = []
    for row in graph.facts.get("split", ()):
        found: Mapping[int, set[ENode]] = merged(graph, able, row)
        for c, ns in found.items():
            kept[c] |= ns
        rows += [row] if found else []
    members = tuple(tuple(sorted((n for n in row if n in kept[c]), key=lambda n: n.rule is not None)) for c, row in enumerate(able))
    return Forms(graph, members, tuple(rows))


def _able(graph: FrozenGraph, c: int, n: ENode) -> bool:
    """Whether a node mentions no running value, nor an axis that its class does not have."""
    if n.op not in KINDS or n.op in ("roll", *RUNNING):
        return False
    return n.op == "input" or nodes.axes(n.op, n.attrs, [graph.axes[a] for a in n.args]) == graph.axes[c]

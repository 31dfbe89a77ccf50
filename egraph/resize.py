"""A saturated graph at other sizes: the same classes and nodes, with axes of other lengths.

What rules make of a program seldom depends on how long its axes are, so a graph is saturated once and read at every size.  It is read
only where nothing in it can have depended on a length: the programs are the same but for lengths, no rule that asks for lengths has
matched, and positions are sums of multiples of axes (how a quotient or a remainder simplifies follows from lengths).  An axis that is
split has parts of the same length, of which there are more or fewer; whether the last one may be shorter decided which rules matched.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..ir.index import FloorDiv, IndexExpr, Mod
from ..ir.nodes import renamed
from ..ir.program import Program
from ..ir.sameness import same_program
from ..ir.spec import wanted
from ..ir.terms import View
from .frozen import ENode, FrozenGraph
from .spec import check_graph


def resized(graph: FrozenGraph, program: Program) -> FrozenGraph | None:
    """The graph of ``program``, which is the graph's own with axes of other lengths; ``None`` where the graph may be another one."""
    before = graph.program
    sizes = {a.name: a.size for a in program.every_axis}
    if any(r.sized and r.matches for r in graph.report.rules):
        return None
    if min(sizes.values(), default=1) < 1 or min((a.size for a in before.every_axis), default=1) < 1:
        return None  # sums over nothing have rules of their own
    if not same_program(before, program, sizes) or any(_nested(t.index) for t in before.terms() if isinstance(t, View)):
        return None
    other = {a: replace(a, size=sizes[a.name]) for a in before.every_axis}
    for axis, outer, inner in graph.facts.get("split", ()):
        here, there = axis.size, sizes.get(axis.name, 0)
        if inner.size < 1 or not there or (here == outer.size * inner.size) != (there % inner.size == 0):
            return None
        other |= {outer: replace(outer, size=-(-there // inner.size)), inner: inner}

    other |= {again: replace(again, size=other[outer].size) for _, outer, again in graph.facts.get("before", ())}

    def new(x: Any) -> Any:
        return renamed(x, other.__getitem__)

    try:
        found = replace(
            graph,
            program=program,
            classes=tuple(tuple(ENode(n.op, new(n.attrs), n.args, n.rule) for n in row) for row in graph.classes),
            axes=tuple(frozenset(map(new, a)) for a in graph.axes),
            facts={name: new(rows) for name, rows in graph.facts.items()},
        )
    except KeyError:  # an axis that the program does not have
        return None
    if wanted():
        check_graph(found)
    return found


def _nested(e: IndexExpr) -> bool:
    return any(isinstance(atom, FloorDiv | Mod) for atom, _ in e.terms)

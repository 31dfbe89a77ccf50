"""Samples of the integers that are stored between kernels, computed from those of the inputs: of offsets, from a sample of the lengths."""

from __future__ import annotations

from collections.abc import Callable

from ...egraph.frozen import ENode, FrozenGraph
from ...ir.index import Axis, IndexExpr
from ...ir.sampled import sample_of
from ...ir.samples import Sample
from ...ir.terms import Cast, Const, Extent, Gather, Index, Input, Map, Reduce, Scan, Term, View

KINDS: dict[str, Callable[..., Term]] = {
    "const": lambda attrs, args: Const(*attrs),
    "extent": lambda attrs, args: Extent(*attrs),
    "index": lambda attrs, args: Index(*attrs),
    "map": lambda attrs, args: Map(attrs[0], tuple(args)),
    "cast": lambda attrs, args: Cast(*attrs, *args),
    "view": lambda attrs, args: View(*args, *attrs),
    "gather": lambda attrs, args: Gather(args[0], attrs[0], args[1]),
    "reduce": lambda attrs, args: Reduce(*attrs, *args),
    "scan": lambda attrs, args: Scan(*attrs, *args),
}


class Examples:
    """Samples of the classes of one e-graph."""

    def __init__(self, graph: FrozenGraph) -> None:
        self.graph = graph
        self._inputs = {i.name: i for i in graph.program.inputs if i.name in graph.program.samples}
        self._terms: dict[int, Term | None] = {}

    def of(self, c: int, layout: tuple[Axis, ...]) -> Sample | None:
        """The sample of a class, with the dimensions in this order; ``None`` where nothing is known of it, or it takes too long."""
        term = self._term(c)
        return None if term is None else sample_of(term, layout, self.graph.program.samples)

    def _term(self, c: int) -> Term | None:
        """A form of a class that is made of samples and positions."""
        if c not in self._terms:
            self._terms[c] = None  # on the way: a form that needs the class itself is none
            self._terms[c] = next((t for n in self.graph.classes[c] if (t := self._form(n)) is not None), None)
        return self._terms[c]

    def _form(self, n: ENode) -> Term | None:
        if n.op == "input":
            found: Input | None = self._inputs.get(n.attrs[0])
            return found
        if n.op not in KINDS:
            return None
        if n.op == "view" and not _inside(*n.attrs):
            return None
        args = [self._term(a) for a in n.args]
        if any(a is None for a in args):
            return None
        return KINDS[n.op](n.attrs, args)


def _inside(axis: Axis, at: IndexExpr) -> bool:
    """Whether a view reads positions of its axis alone: that of the last part of a split axis may read beyond."""
    least, largest = at.bounds()
    return least >= 0 and largest < axis.size

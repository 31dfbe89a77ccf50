"""Which nodes of a graph are ours, and of which kind: what a graph is cut by."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass

from torch.fx import Graph, Node

from ..errors import EqFuseError, TraceError
from .aten import OPS
from .capture import Captured, written
from .lenient import unread
from .places import place_of_node
from .traced import known_number

_STAY = frozenset({"aten.clone.default", "aten.cat.default", "aten.full.default", "aten.full_like.default", "aten.alias.default"})


@dataclass(frozen=True, eq=False)
class Readable:
    """The calls of a graph that cannot be read, each with the reason; ``numbers``: placeholders whose values are known."""

    unread: Mapping[Node, EqFuseError]
    numbers: Mapping[Node, float]

    def at(self, graph: Graph) -> Readable:
        """The same of a graph at other sizes, whose nodes have the same names."""
        nodes = {n.name: n for n in graph.nodes}
        return Readable({nodes[n.name]: e for n, e in self.unread.items()}, {nodes[n.name]: v for n, v in self.numbers.items()})


def readable(captured: Captured) -> Readable:
    """What of a graph can be read."""
    known = {n: known_number(s, captured) for n, s in captured.sources.items()}
    numbers = {n: v for n, v in known.items() if v is not None}
    names = {n: s.name for n, s in captured.sources.items()}
    found = dict(unread(captured.graph, names, numbers))
    for n, s in written(captured.graph, captured.sources):
        found[n] = TraceError(f"it writes to the {s.kind} {s.name!r}", where=place_of_node(n))
    return Readable(found, numbers)


def views(n: Node) -> bool:
    """Whether a node shows memory of its first argument, in torch and for the reader."""
    if n.target is operator.getitem:
        return views(n.args[0])
    schema = getattr(n.target, "_schema", None)
    shows = schema is not None and not schema.is_mutable and any(r.alias_info is not None for r in schema.returns)
    return shows or str(n.target) == "aten._unsafe_view.default"


def moves_only(n: Node) -> bool:
    """Whether a node computes nothing."""
    op = OPS.get(str(n.target))
    return n.target is operator.getitem or str(n.target) in _STAY or (op is not None and op.move is not None)

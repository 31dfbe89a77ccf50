"""A graph cut into pieces that can be read and the nodes between them that torch runs.

Which nodes join which is the work of ``torch.fx.passes.infra.partitioner``: maximal sets that depend on each other in no circle.
Two kinds of nodes belong to nobody, and stand in every piece that wants them, since there they are arithmetic of indices: *views* of a
value, and what depends on *no input* (positions, constants).  So what crosses between pieces is what some operator computed, in the
strides that torch gives it; a view of it is made by torch, for nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import networkx as nx
import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from ..frontends.capture import Captured
from ..frontends.graphs import FlatGraph, flat_graph
from ..frontends.readable import Readable, moves_only, views
from ..frontends.symbolic import Symbolic, SymbolicPart

PIECE = "piece_"
CALLED = "eqfuse_called"  # in a node's metadata: what a value of the outer graph is called
_AFTER = "eqfuse_after"
_FULL = torch.ops.aten.full.default


@dataclass(frozen=True, eq=False)
class Cut:
    """``outer`` calls the pieces as modules of these names, all else in torch; ``takes`` says which placeholders of the graph it has."""

    outer: Graph
    takes: tuple[int, ...]
    owner: Any  # whose attributes the graph mentions
    pieces: Mapping[str, FlatGraph]
    library: tuple[Library, ...]


@dataclass(frozen=True, eq=False)
class Library:
    """A node that torch runs, and why."""

    node: Node  # of the outer graph
    reason: str
    where: str | None


class _Support(OperatorSupportBase):
    def __init__(self, nodes: set[Node]) -> None:
        self.nodes = nodes

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        return node in self.nodes


def cut(captured: Captured, read: Readable, name: str, symbolic: Symbolic | None = None) -> Cut:
    """A graph in pieces.  ``read`` says which of its nodes can be read.  The outer graph returns the tensors among its outputs.
    ``symbolic``: what the graph is at other sizes, from which that follows for each piece."""
    found = _Cutter(captured, read, name).cut()
    here = None if symbolic is None else symbolic.sizes(captured.leaves)
    if symbolic is None or here is None:
        return found

    def there(called: str, whole: Captured) -> Captured | None:
        other = cut(whole, read.at(whole.graph), name).pieces
        return other[called].captured if other.keys() == found.pieces.keys() else None

    pieces = {
        called: replace(piece, symbolic=SymbolicPart(piece.captured, symbolic.env, symbolic, here, partial(there, called)))
        for called, piece in found.pieces.items()
    }
    return replace(found, pieces=pieces)


class _Cutter:
    def __init__(self, captured: Captured, read: Readable, name: str) -> None:
        graph = captured.graph
        self.graph, self.read, self.name = graph, read, name
        self.called = {n: s.name for n, s in captured.sources.items()}
        self.outputs = [o for o in captured.outputs if isinstance(o, Node)]
        self.position = {n: k for k, n in enumerate(graph.nodes)}
        calls = [n for n in graph.nodes if n.op == "call_function"]
        ours = {n for n in calls if self._ours(n)}
        self.random = [n for n in calls if torch.Tag.nondeterministic_seeded in getattr(n.target, "tags", ())]
        self.free: set[Node] = set()  # depend on no input
        for n in calls:
            if n in ours and all(a in self.free for a in n.all_input_nodes):
                self.free.add(n)
        self.glue = {n for n in ours - self.free if views(n)}
        self.members: dict[Node, int] = {}
        self.groups: list[list[Node]] = []
        self.owner = graph.owning_module or GraphModule(torch.nn.Module(), graph)
        for part in self._partitions(calls, ours):
            group = sorted((n for n in part if n not in self.free and n not in self.glue), key=self.position.__getitem__)
            if not all(moves_only(n) for n in group):
                for n in group:
                    self.members[n] = len(self.groups)
                self.groups.append(group)
        self.reasons = dict(read.unread)

    def _ours(self, n: Node) -> bool:
        if n.target is operator.getitem:
            return self._ours(n.args[0])
        return n.op == "call_function" and n not in self.read.unread

    def _partitions(self, calls: list[Node], ours: set[Node]) -> Iterable[Iterable[Node]]:
        if len(ours) == len(calls):  # which is quadratic to find out
            return [calls]
        with _one_after_another(self.random):
            whole = self.owner if self.owner.graph is self.graph else GraphModule(self.owner, self.graph)
            found = CapabilityBasedPartitioner(whole, _Support(ours), allows_single_node_partition=True).propose_partitions()
        return [part.nodes for part in found]

    # what runs outside ---------------------------------------------------------------------------------------------------------
    def _wanted(self) -> list[Node]:
        """The nodes that are computed outside: results, effects, and all that these need down to pieces."""
        todo = [n for n in self.graph.nodes if n.op == "call_function" and n not in self.members and effect(n)] + self.outputs
        found: dict[Node, None] = {}
        wanted_of_pieces: dict[int, dict[Node, None]] = {}
        while todo:
            n = todo.pop()
            if n in self.members:
                group = self.members[n]
                first = group not in wanted_of_pieces
                wanted_of_pieces.setdefault(group, {})[n] = None
                todo += self._sources(group) if first else []
            elif n not in found:
                found[n] = None
                todo += n.all_input_nodes
        self.stored = {g: sorted(ns, key=self.position.__getitem__) for g, ns in wanted_of_pieces.items()}
        return sorted(found, key=self.position.__getitem__)

    def _inside(self, group: int) -> tuple[list[Node], list[Node]]:
        """The nodes that a piece copies, in order, and the values that it takes."""
        inside: set[Node] = set()
        sources: set[Node] = set()
        todo = list(self.groups[group])
        while todo:
            n = todo.pop()
            if n in inside or n in sources:
                continue
            if self.members.get(n) == group or n in self.free or n in self.glue:
                inside.add(n)
                todo += n.all_input_nodes
            else:
                sources.add(n)
        order = self.position.__getitem__
        return sorted(inside, key=order), sorted(sources, key=order)

    def _sources(self, group: int) -> list[Node]:
        return self._inside(group)[1]

    # putting together ------------------------------------------------------------------------------------------------------------
    def cut(self) -> Cut:
        """All of it."""
        outside = self._wanted()
        units: nx.DiGraph = nx.DiGraph()
        last = {g: self.position[self.groups[g][-1]] for g in self.stored}
        for n in outside:
            units.add_node(n)
            units.add_edges_from((self._unit(a), n) for a in n.all_input_nodes)
        for g in self.stored:
            units.add_node(g)
            units.add_edges_from((self._unit(a), g) for a in self._sources(g))
        units.add_edges_from(pairwise(n for n in self.random if units.has_node(n)))
        outer = Graph()
        made: dict[Node, Node] = {}
        pieces: dict[str, FlatGraph] = {}
        library: list[Library] = []
        for n in self.graph.nodes:
            if n.op == "placeholder":
                made[n] = self._placeholder(outer, n)
        for unit in nx.lexicographical_topological_sort(units, key=lambda u: last[u] if isinstance(u, int) else self.position[u]):
            if isinstance(unit, int):
                called = f"{PIECE}{len(pieces)}"
                pieces[called] = self._piece(outer, unit, called, made)
            elif unit not in made:
                made[unit] = copy = outer.node_copy(unit, made.__getitem__)
                copy.meta = _own_meta(unit)
                if unit.op == "call_function" and unit not in self.glue and unit.target is not operator.getitem:
                    library.append(self._library(unit, copy))
        outer.output(tuple(made[o] for o in self.outputs))
        takes = []
        for k, n in enumerate(m for m in self.graph.nodes if m.op == "placeholder"):
            if made[n].users:
                takes.append(k)
            else:
                outer.erase_node(made[n])
        return Cut(outer, tuple(takes), self.owner, pieces, tuple(library))

    def _placeholder(self, graph: Graph, n: Node) -> Node:
        new = graph.placeholder(self.called.get(n, n.name))
        new.target = new.name  # of which there is one
        new.meta = _own_meta(n)
        return new

    def _unit(self, n: Node) -> Any:
        return self.members.get(n, n)

    def _library(self, n: Node, copy: Node) -> Library:
        error = self.reasons.get(n)
        if error is not None:
            return Library(copy, error.message, error.where)
        return Library(copy, "it depends on no input" if n in self.free else "it moves data only", None)

    def _piece(self, outer: Graph, group: int, called: str, made: dict[Node, Node]) -> FlatGraph:
        inside, sources = self._inside(group)
        graph = Graph()
        copies: dict[Node, Node] = {}
        given = [n for n in sources if n not in self.read.numbers]
        for n in given:
            copies[n] = self._placeholder(graph, n)
        for n in sources:
            if n in self.read.numbers:
                value: torch.Tensor = n.meta["val"]
                known = (value.dtype, value.device)
                copies[n] = graph.call_function(_FULL, ([], self.read.numbers[n]), dict(zip(("dtype", "device"), known, strict=True)))
                copies[n].meta = _own_meta(n)
        for n in inside:
            copies[n] = new = graph.node_copy(n, copies.__getitem__)
            new.meta = _own_meta(n)
        stored = self.stored[group]
        orders = [order(n.meta["val"]) for n in stored]
        outputs = [copies[n] if p is None else _permuted(graph, copies[n], p) for n, p in zip(stored, orders, strict=True)]
        call = outer.call_module(called, tuple(made[n] for n in given))
        call.meta["val"] = tuple(o.meta["val"] for o in outputs)
        for k, (n, p) in enumerate(zip(stored, orders, strict=True)):
            item = outer.call_function(operator.getitem, (call, k))
            item.meta = {**n.meta, "val": outputs[k].meta["val"], CALLED: n.name}
            made[n] = item if p is None else _permuted(outer, item, sorted(range(len(p)), key=p.__getitem__))
        return flat_graph(graph, outputs, f"{self.name}_{called.removeprefix(PIECE)}")


@contextmanager
def _one_after_another(nodes: Sequence[Node]) -> Iterator[None]:
    """For the time of a block each takes the one before it as an argument.  Operators that draw random numbers do so from one generator:
    another order would give each the numbers of others, so no piece may stand both before the one and after the next."""
    for before, n in pairwise(nodes):
        n.update_kwarg(_AFTER, before)
    try:
        yield
    finally:
        for n in nodes[1:]:
            n.kwargs = {k: v for k, v in n.kwargs.items() if k != _AFTER}


def _own_meta(n: Node) -> dict[str, Any]:
    return {k: v for k, v in n.meta.items() if not k.startswith("eqfuse")}


def effect(n: Node) -> bool:
    """Whether a node is there for what it does, too."""
    schema = getattr(n.target, "_schema", None)
    return n.meta.get("val") is None or (schema is not None and schema.is_mutable) or n.is_impure()


def order(value: torch.Tensor) -> tuple[int, ...] | None:
    """The dimensions of a dense tensor in the order in which it lies in memory; ``None`` if that is their own."""
    found = tuple(sorted(range(value.dim()), key=lambda d: (-value.stride(d), d)))
    long = [d for d in found if value.shape[d] != 1]
    return None if long == sorted(long) or value.numel() == 0 else found


def _permuted(graph: Graph, n: Node, dims: Any) -> Node:
    new = graph.call_function(torch.ops.aten.permute.default, (n, list(dims)))
    new.meta = {**_own_meta(n), "val": n.meta["val"].permute(list(dims))}
    return new

"""What is saved between the graphs of AOTAutograd: its joint graph of both passes, parted by our minimum cut.

The joint graph is read as one program, with every value of the forward pass as a result of it: so it is known which value of the graph
each term is.  :mod:`..extract.saving` chooses among these in microseconds, and torch makes the two graphs for that choice.

An operator that has no meaning here is torch's in either pass, and never run again: what it gives is an input of the program (of the
forward pass, held in memory anyway; of the backward pass, like a tangent), and what it takes is a result.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._functorch import partitioners
from torch._guards import tracing
from torch.fx import Graph, GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import PlanError, TraceError
from ..extract.saving import chosen_terms
from ..extract.targets import Target
from ..frontends.graphs import FlatGraph, capture_graph
from ..frontends.readable import readable
from ..frontends.traced import trace
from ..ir.alike import alike
from ..ir.program import Output
from ..ir.terms import Term
from ..planning import Request
from . import kept
from .blame import of_the_user

aten = torch.ops.aten
# What autograd differentiates whole is written out where a part of it, such as the statistics of rows, is worth saving by itself.
WRITTEN_OUT = torch._decomp.get_decompositions([
    aten._softmax.default, aten._softmax_backward_data.default, aten._log_softmax.default, aten._log_softmax_backward_data.default,
    aten.native_batch_norm_backward.default,
])  # fmt: skip


class NotParted(Exception):
    """The joint graph could not be parted here, and why."""


def partition(module: GraphModule, outputs: int, target: Target, asked: Request | None = None) -> tuple[GraphModule, GraphModule, int]:
    """The forward and the backward graph of a joint one whose first ``outputs`` results are the forward pass's, and how many bytes are
    held between them beside arguments and results.  ``asked``: for which request the choice is kept (:mod:`.kept`).  Raises
    :class:`NotParted`."""
    if partitioners.has_recomputable_ops(module):
        raise NotParted("it is marked what is to be made again (checkpoints)")
    if any(isinstance(n.target, torch._ops.HigherOrderOperator) for n in module.graph.nodes):
        raise NotParted("it holds graphs of its own")
    try:
        with _disable_current_modes():
            name = None if asked is None else kept.key("joint", asked, module, outputs=outputs)
        module.graph = _without_copies(module.graph)
        sides = _Sides.of(module, outputs)
        with _disable_current_modes(), tracing(None):
            chosen = kept.read_saved(name, module)
            if chosen is None:
                opaque = _opaque(module)
                chosen = list(_saved(module, sides, _chosen(module, sides, opaque, target), opaque))
                kept.write_saved(name, chosen, target)
    except Exception as error:  # whatever of ours it is, torch's partitioner can
        if of_the_user(error):
            raise
        raise NotParted(f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}") from error
    chosen = _before_writes(module, chosen, outputs)
    held = sum(_bytes(n) for n in chosen if n.op != "placeholder" and n not in sides.returned)
    forward, backward = partitioners._extract_fwd_bwd_modules(module, chosen, [], num_fwd_outputs=outputs)
    for made in (forward, backward):
        made.graph.eliminate_dead_code()
        made.recompile()
    return forward, backward, held


def _without_copies(graph: Graph) -> Graph:
    """Equal calls once: the same value is saved once."""
    from torch._functorch.compile_utils import fx_graph_cse

    found: Graph = fx_graph_cse(graph)
    return found


@dataclass
class _Sides:
    """``returned`` and ``wanted``: what the forward and the backward pass give; ``late``: what depends on tangents."""

    returned: list[Node]
    wanted: list[Node]
    late: set[Node] = field(default_factory=set)

    @staticmethod
    def of(module: GraphModule, outputs: int) -> _Sides:
        (results,) = next(n for n in module.graph.nodes if n.op == "output").args
        early, after = ([n for n in part if isinstance(n, Node)] for part in (results[:outputs], results[outputs:]))
        found = _Sides(early, after)
        for n in module.graph.nodes:
            if n.op == "output":
                continue
            value = n.meta.get("val")
            sizes = (*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,)
            if any(isinstance(s, torch.SymInt | torch.SymFloat | torch.SymBool) for s in sizes):
                raise TraceError("sizes are symbols")
            if partitioners._is_tangent(n) or any(a in found.late for a in n.all_input_nodes):
                found.late.add(n)
            elif n.op == "placeholder" and not partitioners._is_primal(n):
                raise TraceError(f"an argument of the graph is neither the call's nor a gradient: {n.name}")
        return found


@dataclass
class _Cut:
    """A joint graph without what torch computes: ``copies`` of its nodes, and what is a result for torch's sake, of each pass."""

    graph: Graph
    copies: dict[Node, Node]
    returned: list[Node]
    wanted: list[Node]


def _without(module: GraphModule, sides: _Sides, targets: Collection[Any]) -> _Cut:
    """The graph with inputs in the places of what calls of ``targets`` give."""
    found = _Cut(Graph(), {}, list(sides.returned), list(sides.wanted))
    opaque = {n for n in module.graph.nodes if n.op == "call_function" and n.target in targets}
    parts = {n for n in module.graph.nodes if n.target is operator.getitem and n.args[0] in opaque}
    tensors = [n for n in module.graph.nodes if n.op == "placeholder" or n in parts or n in opaque]
    for n in tensors:  # placeholders come first
        if isinstance(n.meta.get("val"), torch.Tensor):
            found.copies[n] = found.graph.placeholder(n.name)
            found.copies[n].meta = dict(n.meta)
    for n in module.graph.nodes:
        if n in opaque:
            (found.wanted if n in sides.late else found.returned).extend(a for a in n.all_input_nodes if a not in opaque)
        elif n.op != "output" and n not in found.copies:
            found.copies[n] = found.graph.node_copy(n, found.copies.__getitem__)
    return found


def _opaque(module: GraphModule) -> set[Any]:
    """The operators of a graph that have no meaning here."""
    values = [n.meta["val"] for n in module.graph.nodes if n.op == "placeholder"]
    names = [n.name for n in module.graph.nodes if n.op == "placeholder"]
    return {n.target for n in readable(capture_graph(module, values, names)).unread}


def _chosen(module: GraphModule, sides: _Sides, opaque: Collection[Any], target: Target) -> list[Node]:
    """The values that are worth saving."""
    cut = _without(module, sides, opaque)
    given = [n for n in cut.graph.nodes if n.op == "placeholder"]
    early = [n for n in cut.copies if n.op == "call_function" and n not in sides.late and isinstance(n.meta.get("val"), torch.Tensor)]
    listed = list(dict.fromkeys(n for n in (*cut.returned, *cut.wanted, *early) if isinstance(n.meta.get("val"), torch.Tensor)))
    cut.graph.output(tuple(cut.copies[n] for n in listed))
    whole = GraphModule(module, cut.graph)
    captured = capture_graph(whole, [n.meta["val"] for n in given], [n.name for n in given])
    traced = trace(FlatGraph(captured, whole, "joint"))
    program = alike(traced.program)
    parts = {r.name: r.outputs for r in program.results} or {o.name: (o.name,) for o in program.outputs}
    outputs = {o.name: o for o in program.outputs}
    slots = traced.unflatten([_Slot(name) for name in parts])
    of = {n: [outputs[p] for p in parts[s.name]] for n, s in zip(listed, slots, strict=True) if isinstance(s, _Slot)}
    nodes: dict[Term, Node] = {}
    for n in (n for n in module.graph.nodes if n in of and n in set(early)):
        if len(of[n]) == 1:
            nodes.setdefault(of[n][0].term, n)

    def names(wanted: Sequence[Node]) -> set[str]:
        return {o.name for n in wanted for o in of.get(n, ())}

    returned, wanted = names(cut.returned), names(cut.wanted)
    kept: tuple[Output, ...] = tuple(o for o in program.outputs if o.name in returned | wanted)
    results = tuple(r for r in program.results if any(p in returned | wanted for p in r.outputs))
    program = replace(program, outputs=kept, results=results)
    tangents = {n.name for n in sides.late if n in cut.copies and cut.copies[n].op == "placeholder"}
    terms = chosen_terms(program, tangents, returned, wanted, target, nodes.keys())
    return [nodes[t] for t in terms]


@dataclass(frozen=True)
class _Slot:
    """Which result of the program a value is."""

    name: str


def _saved(module: GraphModule, sides: _Sides, chosen: Collection[Node], opaque: Collection[Any]) -> dict[Node, None]:
    """What the backward graph takes: of the chosen, and of arguments and what torch computed, what it reads."""
    found: dict[Node, None] = {}
    seen = set[Node]()
    todo = list(sides.wanted)
    while todo:
        n = todo.pop()
        if n in seen:
            continue
        seen.add(n)
        of_torch = n.target in opaque or (n.target is operator.getitem and n.args[0].target in opaque)
        if n not in sides.late and (n in chosen or n.op == "placeholder" or of_torch):
            if not isinstance(n.meta.get("val"), torch.Tensor):
                raise PlanError(f"{n.name}, which is no tensor, would have to be saved")
            found[n] = None
        elif n.op != "placeholder":
            todo += n.all_input_nodes
    return {n: None for n in module.graph.nodes if n in found}


def _before_writes(module: GraphModule, chosen: Sequence[Node], outputs: int) -> list[Node]:
    """What is saved, with copies in the places of arguments that the caller finds written when the forward pass is over."""
    descriptions = partitioners._extract_fwd_bwd_outputs(module, num_fwd_outputs=outputs)[2]
    written = {getattr(d, "mutated_input", None) for d in descriptions} - {None}
    found = []
    for n in chosen:
        if n.op == "placeholder" and n.meta.get("desc") in written:
            with module.graph.inserting_before(next(m for m in module.graph.nodes if m.op != "placeholder")):
                copy = module.graph.call_function(aten.clone.default, (n,))
            copy.meta = {"val": n.meta["val"]}
            n.replace_all_uses_with(copy, delete_user_cb=lambda user, copy=copy: user is not copy)
            n = copy
        found.append(n)
    return found


def _bytes(node: Node) -> int:
    value = node.meta["val"]
    return int(value.numel() * value.element_size())

"""A graph read as far as it can be read.

Where an operator, a type or a shape has no meaning here, the reader would raise.  This one writes down why, puts an input in place of
the value, reads the node's arguments as if they were results, and goes on: one pass says of every node whether it is ours, in its own
context (an index that does not depend on data can be read where one that does cannot).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from ..errors import EqFuseError, TraceError, UnsupportedOpError
from ..ir.index import index
from ..ir.terms import Input, Term
from .aten import At, dims_of, fresh_dims
from .capture import depends_on_data, of_data
from .places import place_of_node
from .reader import Reader, substituted
from .spec import ir_dtype

if TYPE_CHECKING:
    from torch.fx import Graph, Node

_FLOAT64 = "computes in float64, and kernels compute in float32"


def unread(graph: Graph, names: Mapping[Node, str], constants: Mapping[Node, float]) -> dict[Node, EqFuseError]:
    """The calls of a graph that have no meaning here, each with the reason.  ``names``: of the placeholders, ``constants`` those of them
    that are numbers known now."""
    return _Lenient(graph, names, constants).unread


class _Lenient(Reader):
    def __init__(self, graph: Graph, names: Mapping[Node, str], constants: Mapping[Node, float]) -> None:
        self.unread: dict[Node, EqFuseError] = {}
        self._roots: list[Node] = []
        self._opaque_inputs: dict[tuple[Node, int | None], Input] = {}
        super().__init__(graph, names, constants, {})
        self._roots += [n for n in graph.nodes if n.op == "output" for n in n.all_input_nodes]
        seen = set[Any]()
        while self._roots:
            root = self._roots.pop()
            if root not in seen:
                seen.add(root)
                self._read_root(root)

    def _read_root(self, node: Node) -> None:
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor) or "eqfuse_dims" not in node.meta:
            return
        try:
            self.result(node, self._plain(dims_of(node)))
        except EqFuseError:  # an opaque value of a type that we lack, wanted by torch alone
            return

    def _plain(self, dims: Any) -> At:
        return tuple(index(0) if item is None else index(self.axis(item)) for item in dims)

    def _give_up(self, node: Node, error: EqFuseError) -> None:
        if node.op == "call_function" and node.target is not operator.getitem:
            self.unread.setdefault(node, error)
        self._roots += node.all_input_nodes

    # hooks --------------------------------------------------------------------------------------------------------------------
    def _align(self, node: Node) -> None:
        node.meta.pop("eqfuse_dims", None)
        shapeless = depends_on_data(node) or any(isinstance(a.meta.get("val"), torch.SymInt) for a in node.all_input_nodes)
        if shapeless and node.op != "output":
            self._give_up(node, of_data(node))
            return
        try:
            if any(n.op != "placeholder" and "val" not in n.meta for n in node.all_input_nodes) and node.op == "call_function":
                raise self.unsupported(node, "")  # it takes what is no tensor: a graph of its own
            if any(isinstance(n.meta.get("val"), torch.Tensor) and "eqfuse_dims" not in n.meta for n in node.all_input_nodes):
                raise of_data(node)
            if node in self.unread or (node.target is operator.getitem and node.args[0] in self.unread):
                raise self.unsupported(node, "")
            super()._align(node)
        except EqFuseError as error:
            self._give_up(node, error)
            if node.meta.get("val") is not None:
                dims = fresh_dims(self.alignment, node)
                several = isinstance(node.meta["val"], list | tuple)
                node.meta["eqfuse_dims"] = tuple(map(self.alignment.tensor, dims)) if several else self.alignment.tensor(dims)
        if node.op == "call_function" and node.meta.get("val") is None and node.target is not operator.getitem:
            self._give_up(node, self.unsupported(node, "as a value"))  # done for its effect

    def _read(self, node: Node, at: At, item: int | None) -> Term:
        if node.op == "placeholder":
            return _computed(super()._read(node, at, item), node)
        if node not in self.unread:
            try:
                return _computed(super()._read(node, at, item), node)
            except (UnsupportedOpError, TraceError) as error:
                self._give_up(node, error)
        key = (node, item)
        if key not in self._opaque_inputs:
            dims: Any = dims_of(node) if item is None else dims_of(node)[item]
            value = node.meta["val"] if item is None else node.meta["val"][item]
            layout = tuple(None if d is None else self.axis(d) for d in dims)
            name = node.name if item is None else f"{node.name}_{item}"
            self._opaque_inputs[key] = Input(name, layout, ir_dtype(value.dtype, f"the result of {node.target}"))
        known = _computed(self._opaque_inputs[key], node)
        return substituted(known, {a: e for a, e in zip(known.layout, at, strict=True) if a is not None}, self._spare)  # type: ignore[attr-defined]

    def _integer(self, x: Node, at: At) -> Any:
        return None if x in self.unread else super()._integer(x, at)


def _computed(term: Term, node: Node) -> Term:
    """A term, if kernels compute in its type."""
    if term.dtype is not None and term.dtype.name == "float64" and (term.args or isinstance(term, Input)):
        raise UnsupportedOpError(f"the operator {node.target} {_FLOAT64}", where=place_of_node(node), cure="compute in float32")
    return term

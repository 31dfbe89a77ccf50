"""Memory that a program in steps holds at a time beside its arguments and results: what crosses between steps, and what pieces hold."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from ..extract.blocks import bytes_held


def crossing(outer: Graph) -> dict[str, int]:
    """For each step by its name, the bytes of what steps before it, or it, made and it or later ones read.  A view is what it shows; what
    is returned is no part of it."""
    order = [n for n in outer.nodes if n.op in ("call_function", "call_module")]
    output = next(n for n in outer.nodes if n.op == "output")
    returned = {_shown(n) for n in output.all_input_nodes}
    makes: dict[Node, dict[str, int]] = {n: {} for n in order}
    for n in order:
        if n.op != "call_module" and _shown(n) is n and n not in returned:
            makes[_maker(n)][n.name] = bytes_of(n)
    steps = ((makes[n], [_shown(a).name for a in n.all_input_nodes], 0) for n in order)
    return {n.target if n.op == "call_module" else n.name: held for n, held in zip(order, bytes_held(steps), strict=True)}


def _maker(n: Node) -> Node:
    """The piece whose result a value is, or the value's own operator."""
    first = n.args[0] if n.args else None
    return first if isinstance(first, Node) and first.op == "call_module" else n


def _shown(n: Node) -> Node:
    """The value that a node views: none of its own memory."""
    while n.op == "call_function" and _is_view(n) and isinstance(n.args[0], Node) and n.args[0].op != "call_module":
        n = n.args[0]
    return n


def _is_view(n: Node) -> bool:
    returns = getattr(getattr(n.target, "_schema", None), "returns", ())
    return getattr(n.target, "__name__", "") == "getitem" or any(r.alias_info is not None for r in returns)


def bytes_of(n: Node) -> int:
    """Of the tensors of a value whose shapes are numbers."""
    value: Any = n.meta.get("val")
    values = value if isinstance(value, list | tuple) else [value]
    return sum(v.numel() * v.element_size() for v in values if isinstance(v, torch.Tensor) and all(isinstance(s, int) for s in v.shape))

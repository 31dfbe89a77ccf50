"""How much of a program torch runs: operators, the bytes that they take and return one by one, and the arithmetic of products."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from ..extract.plan import Share, Work
from ..frontends.readable import views
from .memory import bytes_of
from .pieces import Cut
from .planning import Piece


def share_of(cut: Cut, pieces: Mapping[str, Piece]) -> Share:
    """The operators between pieces, and those of pieces that have no kernels, count as torch's."""
    between = _sum(work(x.node, cut.owner) for x in cut.library)
    inside = {name: _sum(work(n, p.graph.module) for n in p.graph.module.graph.nodes if not views(n)) for name, p in pieces.items()}
    left = _sum(inside[name] for name, p in pieces.items() if p.executable is None or p.executable.missing)
    return Share(between + left, between + _sum(inside.values()))


def work(node: Node, owner: Any) -> Work:
    """That of a node; of one that calls graphs of ``owner``, theirs."""
    if node.op != "call_function" or node.target is operator.getitem:
        return Work()
    graphs = [getattr(owner, str(a.target), None) for a in node.all_input_nodes if a.op == "get_attr"]
    inner = _sum(work(n, g) for g in graphs if isinstance(g, GraphModule) for n in g.graph.nodes if not views(n))
    size = sum(map(bytes_of, (node, *node.all_input_nodes)))
    return Work(max(inner.operators, 1), max(inner.bytes, size), max(inner.flops, _flops(node)))


def _sum(several: Iterable[Work]) -> Work:
    return sum(several, Work())


def _flops(node: Node) -> int:
    """By torch's own formulas, of which operators without products have none."""
    from torch.utils.flop_counter import flop_registry

    formula = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if formula is None:
        return 0
    args, kwargs = pytree.tree_map(lambda a: a.meta.get("val") if isinstance(a, Node) else a, (node.args, dict(node.kwargs)))
    return int(formula(*args, **kwargs, out_val=node.meta.get("val")))

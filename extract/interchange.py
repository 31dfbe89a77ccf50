"""A saturated e-graph as a graph of :mod:`eqfuse.extraction`, for files and pictures that others read."""

from __future__ import annotations

import math

from ..egraph.frozen import ENode, FrozenGraph
from ..extraction import Graph, Member
from ..ir import ops
from ..ir.dtypes import DType
from ..ir.index import Axis
from ..ir.terms import Input
from .names import Names
from .targets import Target


def interchange(graph: FrozenGraph, target: Target) -> Graph:
    """Classes by the names that people use, with their axes; e-nodes by what they do (``exp``, ``reduce sum j``).

    The cost of an e-node is the time on a target, in microseconds, of its scalar instructions alone, and of an input that of
    reading it once: a sum, as the format has it.  What makes a plan good is not in it (a kernel is priced whole, matrix units
    and passes over memory included), so the cheapest selection is a program with few operations, not EqFuse's plan.
    """
    names = Names(graph)
    sizes = {t.name: math.prod(a.size for a in t.axes) * t.dtype.itemsize for t in graph.program.terms() if isinstance(t, Input)}
    labels = [names.label(c) for c in range(len(graph.classes))]
    labels = [name if labels.count(name) == 1 else f"{name}~{c}" for c, name in enumerate(labels)]

    def cost(c: int, n: ENode) -> float:
        if n.op == "input":
            return sizes.get(n.attrs[0], 0) / (target.dram_gb_s * 1e3)
        elements = math.prod(a.size for a in graph.axes[c])
        simt, special = 0.0, 0.0
        if n.op == "map":
            simt, special = ops.op(n.attrs[0]).cost, ops.op(n.attrs[0]).special
        elif n.op in ("reduce", "roll"):
            simt, elements = 1.0, elements * n.attrs[1].size
        elif n.op in ("cast", "scan"):
            simt = 1.0
        return elements * (simt / (target.simt_gops * 1e3) + special / (target.special_gops * 1e3))

    def member(c: int, k: int, n: ENode) -> Member:
        attrs = [a.name if isinstance(a, Axis | DType) else str(a) for a in n.attrs]
        return Member(" ".join(attrs if n.op == "map" else [n.op, *attrs]), tuple(n.args), cost(c, n), f"{labels[c]}.{k}")

    classes = tuple(tuple(member(c, k, n) for k, n in enumerate(ns)) for c, ns in enumerate(graph.classes))
    types = tuple(f"[{', '.join(a.name for a in sorted(axes))}]" if axes else "" for axes in graph.axes)
    return Graph(classes, tuple(graph.roots.values()), tuple(labels), types)

"""What torch's library offers beside matrix products, found in an e-graph by what it computes.

:func:`offers` is a source of offers for extraction (:data:`eqfuse.extract.library.sources`).  An implementation is offered for classes that
*are* its definition: each step goes from a class to any form that is known to be equal, so it does not matter how a program spells it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from .egraph.frozen import FrozenGraph
from .extract.library import HALF_RATE, buffer_names, sources, types
from .extract.outside import Handed, Outside
from .extract.targets import Target
from .ir.index import Axis

NAME = "library_attention"
ENTRY = ("torch.nn.functional", "scaled_dot_product_attention")
SHARES = {"float32": 0.82, "bfloat16": 0.37}  # of the rate of the library's products, which it reaches (measured); other types are slow


@dataclass(frozen=True)
class Attention:
    """``y[batches, i, e] = sum_j w * v[batches, j, e]`` for ``w = exp(s - max_j s) / sum_j exp(s - max_j s)`` and
    ``s[batches, i, j] = scale * sum_d q[batches, i, d] * k[batches, j, d]``: classes and axes.  ``most``: forms of ``max_j s``."""

    q: int
    k: int
    v: int
    scale: float
    batches: tuple[Axis, ...]
    i: Axis
    j: Axis
    d: Axis
    e: Axis
    most: frozenset[int]

    def us(self, rate: float, itemsize: int, target: Target) -> float:
        """Microseconds by the rate of products, or by its traffic if that takes longer."""
        i, j, d, e = (a.size for a in (self.i, self.j, self.d, self.e))
        times = math.prod(a.size for a in self.batches)
        moved = itemsize * times * (i + j) * (d + e)
        computing = 2.0 * times * i * j * (d + e) * (1 + HALF_RATE / max(i, 1)) / (rate * 1e6)
        return target.library_us + max(moved / (target.dram_gb_s * 1e3), computing)


def offers(graph: FrozenGraph, target: Target) -> Iterator[Outside]:
    """Attention over whole rows, of the types that the target has the library's rate for."""
    forms, dtypes, names = _Forms(graph), types(graph), buffer_names(graph)
    for c in dict.fromkeys(graph.original):
        dtype = dtypes[c]
        if dtype is None or dtype.name not in SHARES or dtype.name not in target.library_tflops:
            continue
        for found in itertools.islice(forms.attention(c), 1):
            # the fast implementation is for four dimensions
            batches = (*(None,) * (2 - len(found.batches)), *found.batches)
            i, j, d, e = found.i, found.j, found.d, found.e
            given = ((c, "y", (i, e)), (found.q, "q", (i, d)), (found.k, "k", (j, d)), (found.v, "v", (j, e)))
            made, *reads = (Handed(x, name, (*batches, *own), dtype) for x, name, own in given)
            us = partial(found.us, SHARES[dtype.name] * target.library_tflops[dtype.name], dtype.itemsize)
            yield Outside(NAME, "library.py", ENTRY, made, tuple(reads), us, (), (("scale", found.scale),), names[c])


class _Forms:
    """What classes are, form by form."""

    def __init__(self, graph: FrozenGraph) -> None:
        self.graph = graph

    def attention(self, y: int) -> Iterator[Attention]:
        """Every way in which a class is attention over whole rows.  In a row without finite scores it is NaN, or as torch has it 0."""
        for if_, zero, inner in self.mapped(y, "where"):
            for found in self.attention(inner) if 0.0 in self.constants(zero) else ():
                if any(m in found.most and -math.inf in self.constants(least) for m, least in self.sides(if_, "eq")):
                    yield found
        axes = self.graph.axes
        for j, e, r, v in self.weighted(y):
            for s, most in self.scores(e, r, j):
                for scale, q, k, d in self.products(s):
                    batches = axes[q] & axes[k] - {d}
                    own = axes[q] - axes[k], axes[k] - axes[q], axes[v] - axes[s]
                    if any(len(a) != 1 for a in own) or len(batches) > 2:
                        continue
                    (i,), (of_k,), (of_v,) = own
                    if of_k == j and axes[v] == {*batches, j, of_v} and axes[y] == {*batches, i, of_v} and axes[s] == {*batches, i, j}:
                        yield Attention(q, k, v, scale, tuple(sorted(batches)), i, j, d, of_v, most)

    def weighted(self, y: int) -> Iterator[tuple[Axis, int, int, int]]:
        """(j, e, r, v), if y is sum_j (e * r) * v or r * sum_j e * v."""
        for j, body in self.reduced(y, "sum"):
            yield from ((j, e, r, v) for w, v in self.sides(body, "mul") for e, r in self.sides(w, "mul"))
        for r, x in self.sides(y, "mul"):
            yield from ((j, e, r, v) for j, body in self.reduced(x, "sum") for e, v in self.sides(body, "mul"))

    def scores(self, e: int, r: int, j: Axis) -> Iterator[tuple[int, frozenset[int]]]:
        """s and its maximum, if e * r is exp(s - max_j s) / sum_j exp(s - max_j s)."""
        if any((j, e) in self.reduced(total, "sum") for (total,) in self.mapped(r, "recip")):
            for (z,) in self.mapped(e, "exp"):
                for s, negative in self.sides(z, "add"):
                    most = frozenset(m for (m,) in self.mapped(negative, "neg") if (j, s) in self.reduced(m, "max"))
                    if most:
                        yield s, most

    def products(self, s: int) -> Iterator[tuple[float, int, int, Axis]]:
        """(scale, q, k, d), if s is scale * sum_d q * k."""
        scaled = [(c, x) for x, by in self.sides(s, "mul") for c in self.constants(by)]
        for scale, x in (*scaled, (1.0, s)):
            for d, body in self.reduced(x, "sum"):
                for q, k in self.sides(body, "mul"):
                    if d in self.graph.axes[q] & self.graph.axes[k]:
                        yield scale, q, k, d

    def mapped(self, c: int, op: str) -> list[tuple[int, ...]]:
        return [n.args for n in self.graph.classes[c] if n.op == "map" and n.attrs == (op,)]

    def sides(self, c: int, op: str) -> list[tuple[int, int]]:
        """Two operands, either way around."""
        return [pair for a, b in self.mapped(c, op) for pair in ((a, b), (b, a))]

    def reduced(self, c: int, monoid: str) -> list[tuple[Axis, int]]:
        return [(n.attrs[1], n.args[0]) for n in self.graph.classes[c] if n.op == "reduce" and n.attrs[0] == monoid and n.in_order]

    def constants(self, c: int) -> list[float]:
        return [n.attrs[0] for n in self.graph.classes[c] if n.op == "const"]


sources.append(offers)

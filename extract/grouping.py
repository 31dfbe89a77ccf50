"""Groups of rows that share an operand.

Heads of queries read keys at ``h // 4``: a product has such an axis on both sides, as if each of its positions had an operand of its own.
Over the quotient and the remainder in its place, ``h = 4 o + r``, the keys depend on ``o`` alone, and the ``r`` are rows of one matrix
product.  So a kernel is made there (:class:`.reindexing.Places`).  Copies that follow each other as a whole (``h % 8``) are shared by the
remainder, with the quotients as rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ..egraph.frozen import ENode, FrozenGraph
from ..ir.index import Axis, FloorDiv, IndexExpr, Mod, index
from .fusibility import Leaf
from .reindexing import Places

PARTS_RANK = 4096  # of axes that stand for parts of others: after all that a trace has met


def grouped(graph: FrozenGraph, below: Sequence[int], stored: frozenset[Axis], leaves: Mapping[int, Leaf]) -> Places:
    """The places in which every axis of some results is taken by groups that share an operand of a product.  ``below``: the classes that a
    kernel may compute.  An axis that something reduces or scans is left whole."""
    made = [c for c in below if c not in leaves]
    values = _under(graph, made, leaves)
    ordered = {n.in_order for c in made for n in graph.classes[c] if n.in_order is not None}
    read: dict[Axis, set[int]] = {}
    for c in values:
        for n in graph.classes[c]:
            for a, divisor, _ in divisors(n.attrs[1]) if n.op == "view" else ():
                read.setdefault(a, set()).add(divisor)
    at: dict[Axis, IndexExpr] = {}
    without: dict[int, frozenset[Axis]] = {}
    for a, of in sorted(read.items()):
        size = math.gcd(*of)
        if a in stored and a not in ordered and 1 < size < a.size and a.size % size == 0:
            quotient, remainder = _parts(graph, a, size)
            place = index(quotient) * size + index(remainder)
            needs = _needs(graph, values, a, place)
            if any(needs.get(x) != needs.get(y) for x, y in _factors(graph, made)):
                at[a] = place
                for c, found in needs.items():
                    without[c] = without.get(c, frozenset()) | ({quotient, remainder} - found)
    return Places(at, without=without)


def divisors(e: IndexExpr) -> Iterator[tuple[Axis, int, bool]]:
    """Axes of which an index reads the quotient (true) or the remainder, each with the divisor."""
    for atom, _ in e.terms:
        if isinstance(atom, FloorDiv | Mod) and (a := atom.numerator.as_axis()) is not None:
            yield a, atom.divisor, isinstance(atom, FloorDiv)


def _parts(graph: FrozenGraph, a: Axis, size: int) -> tuple[Axis, Axis]:
    """The axes of the groups and of what is in one.  They have their place among axes whatever the lengths are."""
    known = {b.name for b in graph.program.every_axis}

    def named(word: str) -> str:
        return next(n for n in (f"{a.name}_{word}" + "_" * k for k in range(len(known) + 1)) if n not in known)

    group, in_group = parts_of_place(a.rank)
    return Axis(named("group"), a.size // size, group), Axis(named("in_group"), size, in_group)


def parts_of_place(rank: int) -> tuple[int, int]:
    """The ranks of the axes that stand for the groups of an axis, and for what is in one."""
    return (PARTS_RANK + 2 * rank, PARTS_RANK + 2 * rank + 1) if rank else (0, 0)


def _under(graph: FrozenGraph, made: Sequence[int], leaves: Mapping[int, Leaf]) -> list[int]:
    """Classes, and those that they are made of or that their views are of, down to what is stored."""
    found = dict.fromkeys(made)
    stack = list(made)
    while stack:
        new = [x for n in graph.classes[stack.pop()] for x in n.args if x not in found and x not in leaves]
        found |= dict.fromkeys(new)
        stack += new
    return list(found)


def _needs(graph: FrozenGraph, values: Sequence[int], a: Axis, place: IndexExpr) -> dict[int, frozenset[Axis]]:
    """Class -> on which parts of an axis it depends, by the form that has fewest: a value is the same in all forms."""
    both = place.axes()
    found = {c: both for c in values if a in graph.axes[c]}

    def of(n: ENode) -> frozenset[Axis]:
        own = n.attrs[1].substitute({a: place}).axes() & both if n.op == "view" else frozenset[Axis]()
        rest = n.args[1:] if n.op == "view" and n.attrs[0] == a else n.args
        own = own.union(*(found.get(x, both if a in graph.axes[x] else frozenset()) for x in rest))
        return both if n.op in ("input", "index") else own

    changed = True
    while changed:
        changed = False
        for c in reversed(found):
            least = min((found[c], *map(of, graph.classes[c])), key=len)
            changed |= least != found[c]
            found[c] = least
    return found


def _factors(graph: FrozenGraph, made: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The factors of products that are summed."""
    for c in made:
        for n in graph.classes[c]:
            if n.reduction == "sum":
                yield from ((m.args[0], m.args[1]) for m in graph.classes[n.args[0]] if m.scalar == "mul")

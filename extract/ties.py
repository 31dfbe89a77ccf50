"""Comparisons that see a value and its own largest or smallest element.

``x >= max_j x`` holds somewhere in every row, whatever ``x`` is: one of the values *is* the maximum.  Of computed numbers that is true if
both sides are computed alike, operation by operation.  Equal forms of ``x`` round differently, and so does a product that only one side
contracts with a sum; then nothing ties, and a mask that is never empty comes out empty.

So values that meet such a comparison are made as the program writes them: by forms of the program itself, by exact rules, and by
operations that pick one of their arguments, which round nothing whatever rule made them.  Kernels that make them round every operation
by itself, and what is summed below both sides is summed in one kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeGuard

from ..egraph.frozen import ENode, FrozenGraph
from ..ir.dtypes import DType
from ..ir.monoids import MONOIDS
from ..ir.ops import OPS
from ..ir.terms import Cast, Gather, Map, Reduce, Scan, Term, View
from ..rewrites.table import RULES
from ..tiles.kernel import Node


class Ties:
    """The comparisons of one frozen graph that see one value in two places, and the classes below them."""

    def __init__(self, graph: FrozenGraph) -> None:
        self.graph = graph

    @cached_property
    def pairs(self) -> tuple[tuple[int, int, int], ...]:
        """Classes (a comparison, what it sees of a value at other places or of all places, that value where it is)."""
        terms = self.graph.program.terms()
        of = {id(t): c for t, c in zip(terms, self.graph.original, strict=True)}
        rounded: set[int] = set()
        for t in terms:
            if t.dtype is not None and t.dtype.is_float and (_rounds(t) or any(id(a) in rounded for a in t.args)):
                rounded.add(id(t))
        inside = {  # of what is elsewhere, the rounded terms that vary along its axis
            id(m): {id(t) for t in _below(m) if id(t) in rounded and m.axis in t.axes}
            for m in terms
            if _is_elsewhere(m) and id(m.args[0]) in rounded and m.axis in m.args[0].axes
        }
        found: dict[tuple[int, int, int], None] = {}
        for jump in filter(_jumps, terms) if inside else ():
            for moved in [t for t in _below(jump) if id(t) in inside]:
                both = [t for t in _below(jump, moved) if id(t) in inside[id(moved)]]
                found.update(((of[id(jump)], of[id(moved)], of[id(t)]), None) for t in both)
        return tuple(found)

    @cached_property
    def held(self) -> frozenset[int]:
        """The classes that are made as the program writes them: all below both places, in any form that is admitted."""
        stack = [moved for _, moved, _ in self.pairs]
        seen: set[int] = set()
        while stack:
            c = stack.pop()
            if c not in seen:
                seen.add(c)
                stack += [a for n in self.graph.classes[c] if _alike(n) for a in n.args]
        return frozenset(seen)

    def admits(self, c: int, n: ENode) -> bool:
        """Whether a class may be made so."""
        return c not in self.held or _alike(n)

    @property
    def reason(self) -> str:
        """Why a value may have no form in some kernel, in words; empty if nothing is held."""
        return "no legal form, as values that are compared with their own maximum are made as the program writes them" if self.held else ""

    def rounds(self, nodes: Sequence[Node]) -> bool:
        """Whether a kernel of these nodes makes one of the values, so that it rounds every operation by itself."""
        return any(n.cls in self.held and n.op in ("map", "reduce", "scan") for n in nodes) if self.pairs else False

    def against(self, nodes: Sequence[Node], roots: Sequence[int], stored: Mapping[int, DType]) -> str:
        """Why a kernel may not be, in words; empty if it may.  ``stored``: the classes that the program keeps in 16 bits."""
        if not self.pairs:
            return ""
        loaded = {n.cls for n in nodes if n.op == "load"}
        made = {n.cls for n in nodes if n.op != "load"}
        summed = {n.cls for n in nodes if n.in_order and not MONOIDS[n.attrs[0]].idempotent}
        for jump, moved, value in self.pairs:
            if jump in made and moved in loaded and value in made and summed & self.held:
                return "a value and its own maximum, which are compared, would be summed in two kernels"
            if moved in roots and value in roots and value in stored and moved in made:
                return "a value that is compared with its own maximum would be stored in 16 bits, and the maximum found before"
        return ""


def _is_elsewhere(t: Term) -> TypeGuard[View | Gather | Reduce | Scan]:
    """A value at other places, or its largest or smallest element, so far or of all."""
    return isinstance(t, View | Gather) or (isinstance(t, Reduce | Scan) and MONOIDS[t.monoid].idempotent)


def _rounds(t: Term) -> bool:
    """An operation on floats whose result is none of its arguments, up to a sign."""
    return (isinstance(t, Map) and not OPS[t.op].selects) or (isinstance(t, Reduce | Scan) and not MONOIDS[t.monoid].idempotent)


def _jumps(t: Term) -> bool:
    """A discontinuous function: of numbers that are equal but for rounding it makes different ones."""
    if isinstance(t, Cast):
        return t.to.kind != "float"
    return isinstance(t, Map) and OPS[t.op].jumps


def _below(top: Term, without: Term | None = None) -> Iterator[Term]:
    """The terms below one, itself included; not what only ``without`` needs."""
    seen: set[int] = set()
    stack = [top]
    while stack:
        t = stack.pop()
        if id(t) not in seen and t is not without:
            seen.add(id(t))
            yield t
            stack += t.args


def _alike(n: ENode) -> bool:
    """An e-node that rounds as the program does."""
    if n.rule is None or (n.rule in RULES and RULES[n.rule].licence == "exact"):
        return True
    if n.op == "map":
        return OPS[n.attrs[0]].selects or OPS[n.attrs[0]].result == "bool"
    return n.op in ("view", "gather", "const", "extent", "index") or (n.op in ("reduce", "scan") and MONOIDS[n.attrs[0]].idempotent)

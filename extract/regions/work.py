"""What it takes to compute values, and which of them are products: the numbers that regions are made by.

A *nest* is a reduction, or several of one monoid inside each other, over a body.  It is a *product* if its body ranges over more positions
than anything that it reads: matrix products, and whatever else combines each element of one thing with each of another.  What a product
takes grows with that body, so computing one again is dear; of other nests it is the bytes that they read that may be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ...ir.index import Axis
from ...ir.program import Program
from ...ir.terms import Cast, Const, Extent, Gather, Index, Input, Map, Reduce, Term, View
from ..rates import matrix_us, multiplied
from ..targets import Target

AxisSets = frozenset[frozenset[Axis]]


def elements(axes: Iterable[Axis]) -> int:
    """Positions."""
    return math.prod(a.size for a in axes)


def stored_bytes(t: Term) -> int:
    """Bytes of a value in its own type."""
    return elements(t.axes) * (t.dtype.itemsize if t.dtype is not None else 4)


@dataclass(frozen=True, eq=False)
class Nest:
    """A reduction: ``top`` is its value, ``inner`` the reductions inside that are no values of their own, ``body`` what is reduced, and
    ``sides`` what the body combines: its parts that lack an axis of it, or all of it."""

    top: Reduce
    inner: tuple[Term, ...]
    body: Term
    sides: tuple[Term, ...]
    product: bool

    @property
    def summed(self) -> frozenset[Axis]:
        """The axes that it reduces."""
        return frozenset(r.axis for r in (self.top, *self.inner) if isinstance(r, Reduce))


class Work:
    """A program's nests and what computing a value takes on a device."""

    def __init__(self, program: Program, target: Target) -> None:
        self.program, self.target = program, target
        self.terms = program.terms()
        self.users: dict[Term, list[Term]] = {t: [] for t in self.terms}
        for t in self.terms:
            for a in dict.fromkeys(t.args):
                self.users[a].append(t)
        self.outputs = {o.term for o in program.outputs}

    @cached_property
    def nests(self) -> Mapping[Term, Nest]:
        """By their values, arguments before users."""
        inside: set[Term] = set()
        found: dict[Term, Nest] = {}
        for t in reversed(self.terms):
            if not isinstance(t, Reduce) or t in inside:
                continue
            inner: list[Term] = []
            body = t.args[0]
            while isinstance(body, Reduce) and body.monoid == t.monoid and len(self.users[body]) == 1 and body not in self.outputs:
                inner.append(body)
                body = body.args[0]
            inside.update(inner)
            found[t] = Nest(t, tuple(inner), body, _sides(body), body.axes not in self._seen[body])
        return dict(reversed(found.items()))

    @cached_property
    def _seen(self) -> Mapping[Term, AxisSets]:
        """Over which axes a value reads what is below it: inputs, and what reductions make.  The largest sets only."""
        found: dict[Term, AxisSets] = {}
        for t in self.terms:
            if isinstance(t, Input | Reduce):
                found[t] = frozenset([t.axes])
            elif isinstance(t, View):
                found[t] = _largest(s - {t.axis} | t.index.axes() if t.axis in s else s for s in found[t.args[0]])
            elif isinstance(t, Gather):
                x, at = t.args
                found[t] = _largest([*(s - {t.axis} | at.axes if t.axis in s else s for s in found[x]), *found[at]])
            else:
                found[t] = _largest(s for a in t.args for s in found[a])
        return found

    def us(self, nest: Nest, beside: frozenset[Term]) -> float:
        """What computing a nest takes, beside something that reads the leaves ``beside`` anyway: its arithmetic, or its reads."""
        work = 0.0
        if nest.product:
            body, count = nest.body, elements(nest.body.axes)
            plain = isinstance(body, Map) and body.op == "mul"
            work = matrix_us(multiplied(body, self.target), count, self.target) if plain else 2 * count / (self.target.simt_gops * 1e3)
        return max(work, self.move_us(sum(map(self.bytes, self.leaves(nest.body) - beside))))

    def bytes(self, t: Term) -> int:
        """Bytes of what is read of an input, a gather of one, or a stored value."""
        if isinstance(t, Gather) and isinstance(t.args[0], Input):
            return min(self.program.input_bytes(t.args[0]), stored_bytes(t))
        return self.program.input_bytes(t) if isinstance(t, Input) else stored_bytes(t)

    def move_us(self, bytes_: int) -> float:
        """Moving bytes from or to memory."""
        return bytes_ / (self.target.dram_gb_s * 1e3)

    def leaves(self, t: Term, without: Term | None = None) -> frozenset[Term]:
        """The inputs and nests that a value is made of directly, looked for in everything but one of its parts."""
        found: set[Term] = set()
        seen: set[Term] = set()
        todo = [t]
        while todo:
            x = todo.pop()
            if x in seen or x is without:
                continue
            seen.add(x)
            if isinstance(x, Input) or (x in self.nests and x is not t):
                found.add(x)
            elif isinstance(x, Gather) and isinstance(x.args[0], Input):  # some rows of it
                found.add(x)
                todo.append(x.args[1])
            else:
                todo.extend(x.args)
        return frozenset(found)


def _largest(sets: Iterable[frozenset[Axis]]) -> AxisSets:
    found = set(sets)
    return frozenset(s for s in found if not any(s < other for other in found))


def _sides(body: Term) -> tuple[Term, ...]:
    """What a body combines: down through what is pointwise, the parts that do not have all of its axes."""
    found: dict[Term, None] = {}
    todo = [body]
    while todo:
        t = todo.pop()
        whole = [a for a in t.args if a.axes == body.axes]
        if isinstance(t, Map | Cast) and not (len(whole) == len(t.args) and len(whole) > 1):
            todo += whole
            found.update((a, None) for a in t.args if a not in whole and not isinstance(a, Const | Extent | Index))
        else:
            found[t] = None
    return tuple(found)

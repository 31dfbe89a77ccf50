"""Reductions and scans of states of several parts in C: one loop makes all parts, from one element to the next.

The tile program has a statement for each part.  They read the same values and stand beside each other, so the first that is printed
combines for all, and the others take what they are called for.  A state that is not commutative begins with its first element, as
everywhere (:mod:`~eqfuse.ir.states`); a commutative one with what changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...ir.monoids import MONOIDS
from ...ir.states import State
from ...tiles.program import Reduce, Scan, Statement
from . import text
from .expressions import spelled


@dataclass(frozen=True)
class Group:
    """What is printed as one: statements for parts of one state of the same values, those that somebody reads; and which parts these ask
    for, by number."""

    state: State
    members: tuple[Reduce | Scan, ...]
    asked: tuple[int, ...]

    @property
    def leader(self) -> Reduce | Scan:
        """The one that combines."""
        return self.members[0]

    def member(self, part: int) -> Reduce | Scan | None:
        """The statement of a part, if anybody reads it."""
        return next((s for s in self.members if MONOIDS[s.monoid].part == part), None)

    def start(self, part: int) -> str:
        """What a part is before the first element."""
        return text.number(self.state.neutral[part], self.leader.parts[part].dtype)

    def kind(self, part: int) -> str:
        """The type of a part.  What is added up or multiplied from element to element is a double: with a float, ``logcumsumexp`` of 65536
        normal numbers is off by 8 units in its last place, and by less than one with a double.  A part that is one of the elements has
        their type."""
        dtype = self.leader.parts[part].dtype
        return "double" if dtype.is_float and not self.state.selects(part) else text.value_type(dtype)

    def itemsize(self, part: int) -> int:
        """Its bytes."""
        return 8 if self.kind(part) == "double" else max(self.leader.parts[part].dtype.itemsize, 4)

    def combined(self, before: Mapping[int, str], lane: str) -> list[str]:
        """Lines that put the next element into the places of the state ``before``; all parts are of the old state."""
        lines: list[str] = []
        name = text.variable(self.leader.dst)

        def let(value: str) -> str:
            lines.append(f"const __auto_type t{len(lines)}_{name} = {value};")
            return f"t{len(lines) - 1}_{name}"

        xs = [text.variable(x) for x in self.leader.parts]
        old = [before.get(k, x) for k, x in enumerate(xs)]  # what is not asked for stands in no formula that is
        new = self.state.combined(old, xs, lambda op, *args: let(spelled(op).format(*args)), _number, self.asked)
        if not self.state.commutative:
            new = [f"{lane} == 0 ? {xs[k]} : {x}" for k, x in zip(self.asked, new, strict=True)]
        kept = [let(f"({self.kind(k)})({x})") for k, x in zip(self.asked, new, strict=True)]
        return [*lines, *(f"{before[k]} = {x};" for k, x in zip(self.asked, kept, strict=True))]


def _number(x: float) -> str:
    """A number, a whole one so that integers stay integers beside it."""
    return str(int(x)) if x.is_integer() and abs(x) < 2.0**31 and str(x) != "-0.0" else text.number(x)


def groups(statements: Iterable[Statement], placed: Sequence[str]) -> dict[str, Group]:
    """The group of every value that is a part of a state; ``placed``: the values that somebody reads."""
    found: dict[object, list[Reduce | Scan]] = {}
    for s in statements:
        if isinstance(s, Reduce | Scan) and s.parts and s.dst.name in placed:
            state = MONOIDS[s.monoid].several
            assert state is not None
            found.setdefault((type(s), state.name, s.dim, tuple(x.name for x in s.parts)), []).append(s)
    out: dict[str, Group] = {}
    for members in found.values():
        state = MONOIDS[members[0].monoid].several
        assert state is not None
        group = Group(state, tuple(members), state.before(MONOIDS[s.monoid].part for s in members))
        out.update((s.dst.name, group) for s in members)
    return out

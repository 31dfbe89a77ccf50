"""Statements between two barriers as nests of loops: which of them share a loop.

Every statement runs over some axes.  Statements are taken in order, and each goes into the first loop over its outermost axis that is not
before anything it reads; within that loop the same is done again with its next axis.  What a reduction makes is complete after the loop
over its axis, so who reads that comes in a later loop.  So a row's maximum, exponentials and sum are made row by row, while the row is in
the nearest cache, whatever the order of the statements was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...ir.index import Axis
from ...tiles.program import Reduce, Statement, defines


@dataclass
class Nest:
    """A loop over the lanes of ``axis``, or, without one, statements that run one after the other.  ``parts`` in order."""

    axis: Axis | None
    statements: list[Statement] = field(default_factory=list)
    parts: list[Nest] = field(default_factory=list)

    @property
    def innermost(self) -> bool:
        """A loop without others in it."""
        return all(p.axis is None for p in self.parts)


Path = tuple[int, ...]  # a statement's place: the position of its nest at every level
Reads = Callable[[Statement], Iterable[str]]  # the names of what a statement reads
Runs = Callable[[Statement], tuple[Axis, ...]]  # the axes that a statement runs over, outermost first


def nests(statements: Sequence[Statement], reads: Reads, runs: Runs, opened: frozenset[Axis] = frozenset()) -> list[Nest]:
    """The nests of statements, of which those over ``opened`` run already."""
    found: list[Nest] = []
    made: dict[str, int] = {}  # value -> the first nest that may read it from another one, or the one that makes it
    inside: dict[str, int] = {}  # value -> the nest in which it can be read in the same turn
    for s in statements:
        axis = next((a for a in runs(s) if a not in opened), None)
        least = 0
        for name in reads(s):
            if name in made:
                same = found[inside[name]].axis == axis if name in inside else False
                least = max(least, inside[name] if same else made[name])
        at = next((k for k in range(least, len(found)) if found[k].axis == axis), len(found))
        if at == len(found):
            found.append(Nest(axis))
        found[at].statements.append(s)
        for v in defines(s):
            made[v.name] = at + 1
            if not (isinstance(s, Reduce) and axis in s.dim.axes):
                inside[v.name] = at
    for n in found:
        if n.axis is not None:
            n.parts = nests(n.statements, reads, runs, opened | {n.axis})
    return found


def places(found: Sequence[Nest], before: Path = ()) -> Mapping[int, Path]:
    """The path of every statement, by its identity."""
    out: dict[int, Path] = {}
    for k, n in enumerate(found):
        if n.axis is None:
            out.update((id(s), (*before, k)) for s in n.statements)
        else:
            out.update(places(n.parts, (*before, k)))
    return out


def shared(found: Sequence[Nest], a: Path, b: Path) -> frozenset[Axis]:
    """The axes of the loops that two places have in common."""
    axes: set[Axis] = set()
    level = found
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        axis = level[x].axis
        if axis is None:
            break
        axes.add(axis)
        level = level[x].parts
    return frozenset(axes)

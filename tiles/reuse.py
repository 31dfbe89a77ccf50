"""Which loads come again: what a program streams in one loop and needs once more in the next.

Between the two loops the data can only wait in the L2, and there they compete with what other loads and the stores bring.  A hint to the
cache keeps them: the first loads ask to be evicted last, the final loads of the same data and the stores beside them first.  It is
given only for data that no other program reads, for which "final" is final.  Read by the printer and by the cost model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..ir.index import Axis
from .program import Access, Load, Loop, Statement, Store, TileProgram

KEEP, DROP = "evict_last", "evict_first"


@dataclass(frozen=True)
class Reuse:
    """``loads``: name of a loaded value -> hint; ``stores``: hint of every store of the kernel, or none."""

    loads: Mapping[str, str] = field(default_factory=dict)
    stores: str = ""


def reuse(program: TileProgram) -> Reuse:
    """The hints of one kernel; empty where no buffer is streamed more than once."""
    alone = frozenset(b.axis for b in program.grid if -(-b.axis.size // b.tile) > 1)
    found: dict[tuple[Axis, str], list[list[str]]] = {}
    for axis, loop in _loops(program.body):
        mine: dict[str, list[str]] = {}
        for at, name in _loads(loop.body):
            if alone <= {b.axis for b in at.bindings}:
                mine.setdefault(at.buffer, []).append(name)
        for buffer, names in mine.items():
            found.setdefault((axis, buffer), []).append(names)
    hints: dict[str, str] = {}
    for loops in found.values():
        if len(loops) > 1:
            hints |= {name: KEEP for names in loops[:-1] for name in names}
            hints |= dict.fromkeys(loops[-1], DROP)
    writes = any(isinstance(s, Store) for s in program.statements())
    return Reuse(hints, DROP if hints and writes else "")


def _loops(body: tuple[Statement, ...]) -> Iterator[tuple[Axis, Loop]]:
    """The outermost loops of a program, in order."""
    for s in body:
        if isinstance(s, Loop):
            yield s.binding.axis, s


def _loads(body: tuple[Statement, ...]) -> Iterator[tuple[Access, str]]:
    for s in body:
        if isinstance(s, Load):
            yield s.access, s.dst.name
        elif isinstance(s, Loop):
            yield from _loads(s.body)

"""Which loads come again: what a program streams in one loop and needs once more in the next.

Between the two loops the data can only wait in the L2, and there they compete with what other loads and the stores bring.  A hint to the
cache keeps them: the first loads ask to be evicted last, the final loads of the same data and the stores beside them first.  It is
given only for data that no other program reads, for which "final" is final.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir.index import Axis
from ..program import Access, CacheHint, Load, Loop, Statement, Store, TileProgram, rewritten


def hint(program: TileProgram) -> TileProgram:
    """Decide ``Load.hint`` and ``Store.hint``: none where no buffer is streamed more than once."""
    loads = _kept_and_dropped(program)

    def one(s: Statement) -> Statement:
        if isinstance(s, Load) and s.dst.name in loads:
            return replace(s, hint=loads[s.dst.name])
        return replace(s, hint="drop") if isinstance(s, Store) else s

    return replace(program, body=rewritten(program.body, one)) if loads else program


def _kept_and_dropped(program: TileProgram) -> dict[str, CacheHint]:
    """The loads of data that come again, by the names of what they load."""
    alone = frozenset(b.axis for b in program.grid if -(-b.axis.size // b.tile) > 1)
    found: dict[tuple[Axis, str], list[list[str]]] = {}
    for axis, loop in _loops(program.body):
        mine: dict[str, list[str]] = {}
        for at, name in _loads(loop.body):
            if alone <= {b.axis for b in at.bindings}:
                mine.setdefault(at.buffer, []).append(name)
        for buffer, names in mine.items():
            found.setdefault((axis, buffer), []).append(names)
    hints: dict[str, CacheHint] = {}
    for loops in found.values():
        if len(loops) > 1:
            hints |= {name: "keep" for names in loops[:-1] for name in names}
            hints |= dict.fromkeys(loops[-1], "drop")
    return hints


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

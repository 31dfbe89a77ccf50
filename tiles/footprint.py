"""What a tile program holds at once: the bytes of the tiles that live at its worst point, each once.

A tile lives from the statement that makes it to the last one that reads it; what works lane by lane leaves its result in the place of what
it reads last.  A count for a memory of any size (Welder's ``MemFootprint``, OSDI 2023); what a compiler needs of registers beside that is
:mod:`.liveness`.
"""

from __future__ import annotations

from .liveness import LANE_BY_LANE
from .program import Dot, Loop, Statement, Store, TileProgram, Value, defines, uses
from .sizes import Sizes


def footprint(program: TileProgram, sizes: Sizes) -> int:
    """Bytes at the worst point, of one program of the grid."""
    return _worst(program.body, {}, (), sizes)


def _worst(body: tuple[Statement, ...], live: dict[str, int], kept: tuple[str, ...], sizes: Sizes) -> int:
    """``live``: bytes of the tiles that are there at the start, and are not needed behind their last reader; ``kept``: what has to be
    there at the end."""
    last = {name: len(body) for name in live} | {v.name: i for i, s in enumerate(body) for v in uses(s)} | dict.fromkeys(kept, len(body))
    live = dict(live)
    worst = sum(live.values())
    for i, s in enumerate(body):
        dying = [v.name for v in uses(s) if last[v.name] == i and v.name in live]
        if isinstance(s, Loop):
            first = {a.start.name for a in s.accumulators if a.start is not None and a.start.name in dying}
        else:
            first = {v.name for v in _taken_over(s)} & {*dying}
        for name in first:
            live.pop(name, None)
        around = sum(live.values())
        if isinstance(s, Loop):
            states = {a.old.name: sizes.bytes(a.old) for a in s.accumulators}
            worst = max(worst, around + _worst(s.body, states, tuple(a.new.name for a in s.accumulators), sizes))
        live |= {v.name: sizes.bytes(v) for v in defines(s)}
        worst = max(worst, sum(live.values()))
        for name in (*dying, *(v.name for v in defines(s) if v.name not in last)):
            live.pop(name, None)
    return worst


def _taken_over(s: Statement) -> tuple[Value, ...]:
    """The values whose place a result may take."""
    if isinstance(s, Dot):
        return () if s.acc is None else (s.acc,)
    return uses(s) if isinstance(s, LANE_BY_LANE) and not isinstance(s, Store) else ()

"""What programs that run at the same time share, and what the next ones find: bytes from memory by the order of programs.

Programs are started in the order of their numbers, so many at a time, and those that run together go through their loops in step: a
*wave*.  What several of them read, memory gives once.  What a wave reads again that an earlier one has read is still in the cache if what
was touched meanwhile fits there (the reuse distance of Mattson et al. 1970, over whole programs); else memory gives it again.

An order is a sequence of (axis, how many programs along it), slowest first.  An axis may be in it twice: a grouped order, as in Triton's
tutorial of matrix products, is ``m / 8``, ``n``, ``8``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

Order = Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Panel:
    """What a program reads by one load statement.  ``axes``: those of the grid on which it depends which part of the buffer that is."""

    buffer: str
    bytes: float
    axes: frozenset[str]


def grouped(order: Order, outer: str, inner: str, group: int) -> tuple[tuple[str, int], ...]:
    """The order in which ``group`` programs along ``outer`` come first, then the next along ``inner``; both are neighbours in ``order``."""
    counts = dict(order)
    rest = tuple((a, n) for a, n in order if a not in (outer, inner))
    group = min(group, counts[outer])
    return (*rest, (outer, -(-counts[outer] // group)), (inner, counts[inner]), (outer, group))


def times_read(panels: Collection[Panel], order: Order, at_a_time: int, cache_bytes: float) -> dict[Panel, float]:
    """How often memory gives what each panel reads: 1 if once.  ``cache_bytes``: what the cache may hold of them."""
    if not all(n for _, n in order):  # no program
        return dict.fromkeys(panels, 1.0)
    return {p: _times(p, panels, order, max(at_a_time, 1), cache_bytes) for p in panels}


def dram_bytes(panels: Collection[Panel], order: Order, at_a_time: int, cache_bytes: float) -> float:
    """Bytes that memory gives to all programs: the shortest of several orders is the one to take."""
    times = times_read(panels, order, at_a_time, cache_bytes)
    return sum(p.bytes * math.prod([n for a, n in order if a in p.axes]) * t for p, t in times.items())


def _times(panel: Panel, panels: Collection[Panel], order: Order, at_a_time: int, cache_bytes: float) -> float:
    """Over the axes on which a panel does not depend: programs that are ``inner`` apart read the same."""
    times, inner = 1.0, 1
    for axis, n in reversed(order):
        if axis not in panel.axes and n > 1 and _touched(panels, order, max(inner, at_a_time)) > cache_bytes:
            times *= n / min(n, max(1.0, at_a_time / inner))
        inner *= n
    return times


def _touched(panels: Collection[Panel], order: Order, programs: int) -> float:
    """Bytes that so many programs in a row read, each once."""
    taken: dict[str, int] = {}
    left = programs
    for axis, n in reversed(order):
        taken[axis] = taken.get(axis, 1) * min(n, left)
        left = -(-left // n)
    widest: dict[tuple[str, frozenset[str]], float] = {}
    for p in panels:  # a second loop over the same data touches nothing new
        widest[p.buffer, p.axes] = max(widest.get((p.buffer, p.axes), 0.0), p.bytes)
    return sum(n * math.prod([k for a, k in taken.items() if a in axes]) for (_, axes), n in widest.items())

"""What programs that run at a time share: bytes that pass a cache for an order of the programs of a grid.

Programs run in waves, as many as fit the device.  What several programs of a wave load at the same tiles of some grid axes, a *panel*, the
cache loads once, for they walk through it side by side.  From one wave to the next it stays if all that was touched since fits the
cache; what is touched in the order in which it was touched before, and is more than the cache holds, is gone when it is wanted
(least recently used goes first).  So for a product of two matrices, of which each program reads some rows of one and some columns of the
other, bytes depend on the order: a line of programs shares one row panel and needs all columns, a block of them shares both.

The model knows no partial eviction, no programs that run ahead of others, and one cache for all.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..tiles.kernel import Kernel
from ..tiles.launch_order import taken
from ..tiles.program import Load
from ..tiles.walk import Counts
from .quantities import bytes_text

MOST_PROGRAMS = 1 << 13  # whose waves are looked at; the rest goes on as the second half of them did


GROUPS = (4, 8, 16)  # tiles that are tried
LESS = 0.95  # another order is taken if it moves at most this share of the bytes


@dataclass(frozen=True)
class Panel:
    """What a program loads of a buffer, in ``bytes``: the same for all programs at the same tiles of these grid axes (by place in the
    order of ``counts``)."""

    axes: tuple[int, ...]
    bytes: int


def panels(kernel: Kernel, counts: Counts) -> tuple[Panel, ...]:
    """The panels of the loads of a kernel; grid axes by their places in ``kernel.grid``."""
    place = {a: i for i, a in enumerate(kernel.grid)}
    statements = [s.access for s in counts.program.statements() if isinstance(s, Load)]
    found: dict[tuple[str, tuple[int, ...]], int] = {}
    for at, traffic in zip(statements, counts.loads, strict=True):
        moving = {a for e in at.index for a in e.axes()} | {a for x in at.looked for a in x.over}
        key = traffic.buffer, tuple(sorted(place[a] for a in moving if a in place))
        found[key] = max(found.get(key, 0), round(traffic.in_sectors / max(counts.programs, 1)))
    return tuple(Panel(axes, n) for (_, axes), n in found.items())


def ordered(kernel: Kernel, counts: Counts, running: int, held: int) -> Kernel:
    """The kernel with the order of its programs that lets least pass a cache that holds so many bytes, and a note that says what.

    An order should not hang on the cache's last megabyte: what passes one of half the size counts as much.  Tried are two axes as the
    last ones, of which each has a panel that does not depend on the other, in either order and in groups."""
    loaded, tiles = panels(kernel, counts), steps(kernel, counts)

    def passing(grid: tuple[int, ...], grouped: int) -> tuple[int, int]:
        place = {axis: i for i, axis in enumerate(grid)}
        moved = tuple(Panel(tuple(sorted(place[i] for i in p.axes)), p.bytes) for p in loaded)
        counted = tuple(tiles[i] for i in grid)
        return passed(counted, grouped, moved, running, held), passed(counted, grouped, moved, running, held // 2)

    given = tuple(range(len(tiles)))
    best = given, 0
    before = least = passing(*best)
    if sum(before) <= 2 * once(tiles, loaded):
        return kernel
    for outer, inner in itertools.permutations(given, 2):
        if min(tiles[outer], tiles[inner]) > 1 and _apart(loaded, outer, inner) and _apart(loaded, inner, outer):
            grid = (*(i for i in given if i not in (outer, inner)), outer, inner)
            for g in (0, *(g for g in GROUPS if g < tiles[outer])):
                if sum(found := passing(grid, g)) < LESS * sum(least):
                    best, least = (grid, g), found
    if least == before:
        return kernel
    axes, grouped = tuple(kernel.grid[i] for i in best[0]), best[1]
    names = [a.name for a in axes]
    said = f"{grouped} tiles along {names[-2]}, then the next along {names[-1]}" if grouped else f"tiles along {names[-1]} first"
    now, then = (f"{bytes_text(whole)} ({bytes_text(half)} with half the cache)" for whole, half in (least, before))
    note = f"{said}: loads move {now}, in the order of the axes {then}"
    return replace(kernel, grid=axes, grouped=grouped, notes={**kernel.notes, "order": note})


def _apart(loaded: Sequence[Panel], one: int, other: int) -> bool:
    """Whether some panel moves along one axis and not along the other."""
    return any(one in p.axes and other not in p.axes for p in loaded)


def again(kernel: Kernel, counts: Counts, running: int, held: int) -> int:
    """Bytes that the loads of a kernel move beyond each panel once, in its order."""
    loaded, tiles = panels(kernel, counts), steps(kernel, counts)
    return passed(tiles, kernel.grouped, loaded, running, held) - once(tiles, loaded)


def steps(kernel: Kernel, counts: Counts) -> tuple[int, ...]:
    """Tiles along each grid axis."""
    return tuple(-(-a.size // counts.sizes.roles[a].tile) for a in kernel.grid)


def once(counts: Sequence[int], loaded: Sequence[Panel]) -> int:
    """Bytes of all panels, each once: what passes at least."""
    return sum(p.bytes * math.prod(counts[i] for i in p.axes) for p in loaded)


@functools.lru_cache(1 << 14)
def passed(counts: tuple[int, ...], grouped: int, loaded: tuple[Panel, ...], at_a_time: int, held: int) -> int:
    """Bytes of these panels that pass a cache that holds so many bytes, if ``at_a_time`` programs run at a time."""
    programs = math.prod(counts)
    least = once(counts, loaded)
    if least <= held or programs <= at_a_time:
        return least
    seen = min(programs, max(MOST_PROGRAMS // at_a_time, 4) * at_a_time)
    tiles = taken(np.arange(seen), counts, grouped)
    numbered = [np.zeros(seen, np.int64) for _ in loaded]
    for name, p in zip(numbered, loaded, strict=True):
        for i in p.axes:
            name *= counts[i]
            name += tiles[i]
    last: dict[tuple[int, int], int] = {}  # panels that the cache holds, oldest first, by the wave that touched them last
    holding, total, half, halfway = 0, 0, 0, 0
    for wave, first in enumerate(range(0, seen, at_a_time)):
        if first <= seen // 2:
            half, halfway = total, first
        for which, p in enumerate(loaded):
            for number in set(numbered[which][first : first + at_a_time].tolist()):
                if last.pop((which, number), None) is None:
                    total += p.bytes
                    holding += p.bytes
                last[which, number] = wave
        while holding > held:  # what the oldest wave touched last goes together
            oldest = next(iter(last.values()))
            for key in [k for k, w in last.items() if w == oldest]:
                del last[key]
                holding -= loaded[key[0]].bytes
    return max(least, total + round((total - half) * (programs - seen) / max(seen - halfway, 1)))

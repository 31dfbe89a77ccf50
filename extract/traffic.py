"""What passes a cache: each buffer once, and once more for every loop that loads it where what lies between two loops does not stay, and
for every wave of programs that finds it no more (:mod:`.waves`).

The cost model asks this of the cache before the SMs, and :mod:`.memories` of every memory for which nobody gave tiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..tiles.kernel import Kernel
from ..tiles.walk import Counts
from .targets.levels import Level
from .waves import Order, Panel, grouped, times_read

WAVES = 0.8  # of a cache that holds what waves of programs read (assumption; by kernels for products a clock does not tell it from 0.4)


def for_waves(cache: Level) -> int:
    """Bytes that a cache holds of what programs read that run at a time."""
    return int(WAVES * cache.bytes)


@dataclass(frozen=True)
class Passing:
    """Bytes that a kernel reads through a cache, by buffer, and writes."""

    reads: Mapping[str, int]
    writes: int

    @property
    def bytes(self) -> int:
        """In both directions."""
        return sum(self.reads.values()) + self.writes


def between(kernel: Kernel, counts: Counts, running: float, marked: bool, alone: bool = False) -> float:
    """Bytes that lie between two loops over the same data, of so many programs at a time: what they load in one pass, and what they store,
    where the cache is not told (``marked``) to let that go.  What several programs load, the cache holds once; they run at the same
    time.  ``alone``: the cache does not serve the neighbours of these programs.  So it holds all of a sector of which they use a part; the
    neighbours use the rest."""
    programs, passes = max(counts.programs, 1), max(most_passes(counts), 1)
    held = 0.0 if counts.kept and marked else counts.store_bytes / programs * running
    loaded: dict[str, int] = {}
    sectors: dict[str, float] = {}
    for t in counts.loads:
        loaded[t.buffer] = loaded.get(t.buffer, 0) + t.bytes
        sectors[t.buffer] = sectors.get(t.buffer, 0.0) + t.bytes * t.sectors_per_run
    for name, n in loaded.items():
        size = kernel.buffers[name].bytes
        sharing = max(n / passes / max(size, 1), 1.0)  # programs that load the same part of it
        held += min(math.ceil(running / sharing) * (sectors[name] if alone else n) / passes / programs, size)
    return held


def most_passes(counts: Counts) -> int:
    """The most loops over one axis."""
    return max(counts.passes.values(), default=1)


def spilled(kernel: Kernel, counts: Counts, running: int, cache: Level, marked: bool) -> bool:
    """What lies between two loops does not stay in a cache."""
    return most_passes(counts) > 1 and between(kernel, counts, running / cache.count, marked) > cache.held


def found_near(kernel: Kernel, counts: Counts, running: float, held: float, marked: bool) -> float:
    """The share of what later loops load that a memory of ``held`` bytes beside an SM still has, if so many programs run on it at a time.
    It gives up anything, not what was used longest ago: of twice its size it has the half (measured on an H100)."""
    if most_passes(counts) < 2 or held <= 0:
        return 0.0
    return min(1.0, held / max(between(kernel, counts, running, marked, alone=True), 1.0))


def passing(
    kernel: Kernel,
    counts: Counts,
    running: int,
    cache: Level,
    marked: bool,
    at_once: Mapping[str, int] | None = None,
    waves: bool = False,
    near: float = 0.0,
) -> Passing:
    """What a kernel moves through a cache if so many programs run at a time.  ``at_once``: the bytes of each buffer that pass if every loop
    finds what an earlier one loaded, where that is not each buffer once.  Of several caches side by side, each loads what its programs
    read.  ``waves``: programs run in waves; if not, those that read the same are taken to do it at the same time.  ``near``: the share of
    what later loops load that comes from a memory inside of the cache."""
    passes = most_passes(counts)
    total: dict[str, int] = {}
    touched: dict[str, int] = {}
    times: dict[str, int] = {}  # load statements
    for t in counts.loads:
        total[t.buffer] = total.get(t.buffer, 0) + t.bytes
        touched[t.buffer] = touched.get(t.buffer, 0) + t.in_sectors
        times[t.buffer] = times.get(t.buffer, 0) + 1
    again = spilled(kernel, counts, running, cache, marked)
    often = _waves(kernel, counts, running, cache) if waves else {}
    reads: dict[str, int] = {}
    for name, loaded in total.items():
        known = [t.touched for t in counts.loads if t.buffer == name]
        places = [n for n in known if n is not None]
        different = sum(places) if len(places) == len(known) else touched[name]  # of what is read where data say, those places
        unique, once = min(kernel.buffers[name].bytes, loaded), kernel.buffers[name].moved(different)
        if at_once is not None and name in at_once:
            unique = once = at_once[name]
        once = min(round(once * cache.count * often.get(name, 1.0)), max(touched[name], once))
        more = min(math.ceil(loaded / max(unique, 1)), passes, times[name]) - 1 if again else 0
        reads[name] = once + round(once * more * (1.0 - near))
    return Passing(reads, counts.store_bytes)


def panels(counts: Counts) -> list[Panel]:
    """What one program reads, by statement."""
    return [Panel(t.buffer, t.bytes / max(counts.programs, 1), t.axes) for t in counts.loads]


def order_of(kernel: Kernel, counts: Counts) -> Order:
    """The order of a kernel's programs."""
    order = [(a.name, -(-a.size // counts.sizes.roles[a].tile)) for a in kernel.grid]
    return grouped(order, kernel.grid[-2].name, kernel.grid[-1].name, kernel.grouped) if kernel.grouped else order


def _waves(kernel: Kernel, counts: Counts, running: int, cache: Level) -> dict[str, float]:
    """How often each buffer is read from behind a cache by so many programs at a time."""
    often: dict[str, float] = {}
    for p, n in times_read(panels(counts), order_of(kernel, counts), running // cache.count, for_waves(cache)).items():
        often[p.buffer] = max(often.get(p.buffer, 1.0), n)
    return often

"""The time of a compiled kernel: what its units must do, and what the simulated multiprocessor takes.

Nothing tells how often a loop runs: its bounds are arguments.  But the work of a block is known from the plan, and what the straight code
and one trip of the loops do of it is in the machine code.  So the trips follow from the work: ``straight + trips * once = all``.  A loop
that the compiler unrolled needs fewer trips, and no one has to find which loop of the source it was.

Long loops and many blocks are not simulated to their end: time is linear in both but for where they begin, so two lengths of each are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..extract.targets import Target
from . import floors
from .flow import innermost, loops, path
from .pipes import Processor, processor, unmodelled
from .sass import Listing
from .simulator import Multiprocessor

SHORT, LONG = 4, 8  # trips of a loop that are simulated in its place
ISSUED = 60_000  # instructions that a simulation may issue, about half a second


@dataclass(frozen=True)
class Work:
    """What a launch does: ``blocks`` of ``warps``, ``resident`` at a time on a multiprocessor; ``flops`` of the matrix unit, bytes
    through the second level
    (``moved``) and bytes from and to device memory (``device_bytes``), over all blocks.  ``outer``: how often loops around loops run, in
    one block."""

    blocks: int
    warps: int
    resident: int
    flops: float
    moved: float
    device_bytes: float
    outer: float = 1.0


@dataclass(frozen=True)
class Estimate:
    """The time of one launch.  ``floors``: microseconds that each unit needs; ``us``: microseconds of the simulation, never below them,
    ``None`` with a
    ``reason`` where it knows too little.  ``trips``: of the inner loops.  Times are without the launch itself."""

    floors: Mapping[str, float]
    us: float | None
    trips: float
    instructions: int  # that a block issues, over its warps
    reason: str = ""

    @property
    def floor(self) -> tuple[str, float]:
        """The unit that needs longest, and its time."""
        return max(self.floors.items(), key=lambda found: found[1])

    def __str__(self) -> str:
        unit, least = self.floor
        said = f"at least {least:.1f} us ({unit})"
        return f"{self.us:.1f} us static, {said}" if self.us is not None else f"{said}; {self.reason}"


def estimate(listing: Listing, work: Work, target: Target) -> Estimate:
    """The time of a kernel with that machine code on a device.

    Raises :class:`~eqfuse.errors.CompileError` for an architecture of which there is no file.
    """
    routes = Routes(listing)
    p = processor(target)
    inner = routes.trips(work, p)
    least = _floors(routes, inner, work, p)
    issued = round(extrapolated(lambda o, i: len(routes.path(o, i)), (work.outer, inner), ((1, 2), (1, 2))) * work.warps)
    new = sorted({x.name for x in listing.instructions if unmodelled(x)})
    if new or routes.deep:
        reason = f"the time of {', '.join(new)} is not modelled" if new else "loops in loops in loops are not told apart"
        return Estimate(least, None, inner, issued, reason)
    return Estimate(least, max(_simulated(routes, inner, work, p), *least.values()), inner, issued)


class Routes:
    """The ways through a listing whose loops are at most two deep: all outer loops run equally often, and so do all inner ones."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.spans = loops(listing)
        inner = set(innermost(self.spans))
        self._around = [s not in inner for s in self.spans]
        outer = [s for s in self.spans if s not in inner]
        self.nested = bool(outer)
        self.deep = len(innermost(outer)) < len(outer)

    def path(self, outer: int, inner: int) -> list[int]:
        """The positions that a warp passes."""
        return path(self.listing, [outer if around else inner for around in self._around])

    def trips(self, work: Work, p: Processor) -> float:
        """How often the inner loops run: as often as the work of a block needs."""
        for wanted, count in ((work.flops, floors.flops), (work.moved, floors.loaded)):

            def of(o: int, i: int, count: Callable[[Listing, list[int], int, Processor], float] = count) -> float:
                return count(self.listing, self.path(o, i), work.warps, p)

            first, second = (extrapolated(of, (work.outer, i), ((1, 2), (1, 2))) for i in (1, 2))
            if second > first:
                return max(1.0, 1 + (wanted / work.blocks - first) / (second - first))
        return 1.0


def extrapolated(f: Callable[[int, int], float], at: tuple[float, float], points: tuple[tuple[int, int], tuple[int, int]]) -> float:
    """``f`` of trips of outer and inner loops, linear in each: from what it is at two numbers of trips of both, exactly where those are
    not fewer."""

    def line(g: Callable[[int], float], x: float, ends: tuple[int, int]) -> float:
        if x <= ends[1]:
            return g(max(1, round(x)))
        low, high = g(ends[0]), g(ends[1])
        return low + (high - low) * (x - ends[0]) / (ends[1] - ends[0])

    return line(lambda o: line(lambda i: f(o, i), at[1], points[1]), at[0], points[0])


def _floors(routes: Routes, inner: float, work: Work, p: Processor) -> dict[str, float]:
    """Microseconds of each unit, and of memory."""
    at = {(o, i): floors.cycles(routes.listing, routes.path(o, i), work.warps, p) for o in (1, 2) for i in (1, 2)}
    share = work.blocks / p.target.sm_count  # blocks of a multiprocessor, if they could be cut
    us = 1e-3 / p.target.clock_ghz
    units = sorted({unit for found in at.values() for unit in found})
    found = {}
    for unit in units:

        def busy(o: int, i: int, unit: str = unit) -> float:
            return at[o, i].get(unit, 0.0)

        found[unit] = us * share * extrapolated(busy, (work.outer, inner), ((1, 2), (1, 2)))
    found["second level"] = 1e-3 * work.moved / p.target.l2_gb_s
    found["device memory"] = 1e-3 * work.device_bytes / p.target.dram_gb_s
    return found


def _simulated(routes: Routes, inner: float, work: Work, p: Processor) -> float:
    """Microseconds of all blocks."""
    missed = min(1.0, work.device_bytes / work.moved) if work.moved else 0.0
    busiest = math.ceil(work.blocks / p.target.sm_count)  # blocks of the multiprocessor that has most
    resident = min(work.resident, busiest)
    drawing = min(1.0, work.blocks / p.target.sm_count)

    def whole(blocks: int) -> float:
        def cycles(o: int, i: int) -> float:
            return Multiprocessor(routes.listing, routes.path(o, i), p, work.warps, missed, drawing).cycles(blocks, resident)

        return extrapolated(cycles, (work.outer, inner), ((1, 2), (SHORT, LONG)))

    length = len(routes.path(2 if routes.nested else 1, LONG)) * work.warps
    rounds = max(2, min(8, ISSUED // (length * resident)))  # of resident blocks, as many as there is time for
    if busiest <= rounds * resident:
        found = whole(busiest)
    else:
        low, high = whole((rounds - 1) * resident), whole(rounds * resident)
        found = low + (high - low) * (busiest / resident - rounds + 1)
    return 1e-3 * found / p.target.clock_ghz

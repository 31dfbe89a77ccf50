"""The time of a compiled kernel: what its units must do, and what the simulated multiprocessor takes.

Nothing tells how often a loop runs: its bounds are arguments.  But the work of a block is known from the plan, and what the straight code
and one trip of the loops do of it is in the machine code.  So the trips follow from the work: ``straight + trips * once = all``.  A loop
that the compiler unrolled needs fewer trips, and no one has to find which loop of the source it was.

Long loops and many blocks are not simulated to their end: time is linear in both but for where they begin, so two lengths of each are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

from ..extract.targets import Target
from . import floors
from .accesses import Accesses
from .flow import alike, innermost, loops, path
from .pipes import Processor, processor
from .sass import Listing
from .simulator import Multiprocessor
from .units import unmodelled

SHORT, LONG = 4, 8  # trips of a loop that are simulated in its place
ISSUED = 60_000  # instructions that a simulation may issue, about half a second


@dataclass(frozen=True)
class Work:
    """What a launch does: ``blocks`` of ``warps``, ``resident`` at a time on a multiprocessor; ``flops`` of the matrix unit, bytes
    through the second level
    (``moved``) and bytes from and to device memory (``device_bytes``), over all blocks.  ``outer``: how often loops around loops run, in
    one block; ``trips``: how often each inner loop runs, in order, 0 for the one that does what is left, where that is known."""

    blocks: int
    warps: int
    resident: int
    flops: float
    moved: float
    device_bytes: float
    outer: float = 1.0
    trips: tuple[int, ...] = ()


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


def estimate(listing: Listing, work: Work, target: Target, accesses: Accesses | None = None, most: float = math.inf) -> Estimate:
    """The time of a kernel with that machine code on a device.  ``accesses``: what layouts say of conflicts and sectors; without it shared
    memory is taken to have no conflicts, and sectors to be used whole.  What takes ``most`` microseconds by its floors alone is not
    simulated.

    Raises :class:`~eqfuse.errors.CompileError` for an architecture of which there is no file.
    """
    routes = Routes(accesses.of(listing) if accesses else listing, work.trips)
    p = processor(target)
    inner = routes.trips(work, p)
    least = _floors(routes, inner, work, p)
    issued = round(extrapolated(lambda o, i: routes.total(_slots, o, i, work.warps, p), (work.outer, inner), ((1, 2), (1, 2))))
    if reason := _unknown(routes, p):
        return Estimate(least, None, inner, issued, reason)
    if max(least.values()) >= most:
        return Estimate(least, None, inner, issued, f"not simulated, as another takes {most:.1f} us")
    return Estimate(least, max(_simulated(routes, inner, work, p), *least.values()), inner, issued)


def _unknown(routes: Routes, p: Processor) -> str:
    """Why there is no simulation."""
    if new := sorted({x.name for x in routes.listing.instructions if unmodelled(x, p)}):
        return f"the time of {', '.join(new)} is not modelled"
    names = {x.name for x in routes.listing.instructions}
    if {"UTMALDG", "UTCBAR"} <= names:
        return "bulk copies beside products that are waited for in the same way are not modelled"
    if p.target.vendor == "amd":
        return "waves of AMD are not simulated"
    return "loops in loops in loops are not told apart" if routes.deep else ""


Count = Callable[[Listing, list[int], int, Processor], float]


def _slots(listing: Listing, way: list[int], warps: int, p: Processor) -> float:
    return float(len(way) * warps)


class Routes:
    """The ways through a listing whose loops are at most two deep: all outer loops run equally often, and so do all inner ones; but if
    there are as many of these as ``trips``, those run so often of which it says so."""

    def __init__(self, listing: Listing, trips: tuple[int, ...] = ()) -> None:
        self.listing = listing
        self.spans = loops(listing)
        inner = set(innermost(self.spans))
        self._around = [s not in inner for s in self.spans]
        given = iter(trips if len(trips) == len(inner) else (0,) * len(inner))
        self._given = [0 if around else next(given) for around in self._around]
        outer = [s for s in self.spans if s not in inner]
        self.nested = bool(outer)
        self.deep = len(innermost(outer)) < len(outer)

    def path(self, outer: int, inner: int) -> list[int]:
        """The positions that a warp passes."""
        return path(self.listing, self._trips(outer, inner))

    def _trips(self, outer: int, inner: int) -> list[int]:
        return [outer if around else n or inner for around, n in zip(self._around, self._given, strict=True)]

    def others(self, outer: int, inner: int) -> list[int] | None:
        """The same for all but the first warp of a block; ``None``: as that."""
        if alike(self.listing):
            return None
        found = path(self.listing, self._trips(outer, inner), first=False)
        return [i for i in found if not (self.listing[i].arriving or self.listing[i].name == "UTMALDG")]

    def total(self, of: Count, outer: int, inner: int, warps: int, p: Processor) -> float:
        """Of all warps of a block together."""
        first, others = self.path(outer, inner), self.others(outer, inner)
        if others is None:
            return of(self.listing, first, warps, p)
        return of(self.listing, first, 1, p) + of(self.listing, others, warps - 1, p)

    def trips(self, work: Work, p: Processor) -> float:
        """How often the inner loops run: as often as the work of a block needs.  The code does at least that work (warps may repeat each
        other's products, or load what others load), so it is the larger number of what products and bytes need."""
        found = 1.0
        for wanted, count in ((work.flops, floors.flops), (work.moved, floors.loaded)):

            def of(o: int, i: int, count: Count = count) -> float:
                return self.total(count, o, i, work.warps, p)

            first, second = (extrapolated(of, (work.outer, i), ((1, 2), (1, 2))) for i in (1, 2))
            if second > first:
                found = max(found, 1 + (wanted / work.blocks - first) / (second - first))
        return found


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
    share = work.blocks / p.target.sm_count  # blocks of a multiprocessor, if they could be cut
    us = 1e-3 / p.target.clock_ghz
    at: dict[tuple[int, int], Counter[str]] = {}
    for o, i in product((1, 2), (1, 2)):
        others = routes.others(o, i)
        ways = [(routes.path(o, i), work.warps if others is None else 1), (others or [], work.warps - 1)]
        at[o, i] = Counter()
        for way, warps in ways:
            at[o, i].update(floors.cycles(routes.listing, way, warps, p))
    found = {}
    for unit in sorted({unit for found in at.values() for unit in found}):

        def busy(o: int, i: int, unit: str = unit) -> float:
            return at[o, i][unit]

        found[unit] = us * share * extrapolated(busy, (work.outer, inner), ((1, 2), (1, 2)))
    asked, moved = (
        extrapolated(lambda o, i: routes.total(count, o, i, work.warps, p), (work.outer, inner), ((1, 2), (1, 2)))  # noqa: B023  # called here
        for count in (floors.loaded, floors.moved)
    )
    found["second level"] = 1e-3 * work.moved * (moved / asked if asked else 1.0) / p.target.l2_gb_s
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
            ways = routes.path(o, i), routes.others(o, i)
            return Multiprocessor(routes.listing, ways[0], p, work.warps, missed, drawing, ways[1]).cycles(blocks, resident)

        return extrapolated(cycles, (work.outer, inner), ((1, 2), (SHORT, LONG)))

    length = len(routes.path(2 if routes.nested else 1, LONG)) * work.warps
    rounds = max(2, min(8, ISSUED // (length * resident)))  # of resident blocks, as many as there is time for
    if busiest <= rounds * resident:
        found = whole(busiest)
    else:
        low, high = whole((rounds - 1) * resident), whole(rounds * resident)
        found = low + (high - low) * (busiest / resident - rounds + 1)
    return 1e-3 * found / p.target.clock_ghz

"""Which values are stored between kernels, where few may be: of every set of them the cover, as far as it may be the best.

A set's bound is what its kernels take at least, by what they move and multiply or as searches have shown.  Sets are taken in order,
with kernels at the best of their starts, until no bound is below the best cover.  Then kernels of the best sets are searched for tiles::

    {}: 280 us at least      {p}: 390      {s}: 640      {p, s}: 1010
    {} takes 564             {p}: 598      the others take longer than 564 and are not searched

Splits are not among it: whether one pays says the size of a kernel, not what is stored, so that the best two sets are tried with splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations

from ..quantities import plural
from ..search import ROUGH, STARTS_ONLY
from .cover import Cover
from .maker import CoverMaker
from .points import Points
from .record import Record

FEW = 6  # values that may be stored, of which every set is considered
JOINS = 1.25  # a cover with several results within this factor of the best may beat it once kernels that share loops are joined
REFINED = 3  # sets whose kernels are searched for tiles
SPLIT = 2  # sets that are tried with splits

Set = tuple[int, ...]


class Sets:
    """The covers of the sets of stored values, for the plans that are known."""

    def __init__(self, maker: CoverMaker, points: Points, record: Record) -> None:
        self.maker, self.points, self.record = maker, points, record
        self.values = points.worth_storing
        several = len({o.cls for o in maker.outputs}) > 1  # or the kernel that stores nothing between is known
        self.joins = JOINS if several else 1.0
        self.smallest = 0 if several else 1
        self.lost: list[Cover] = []  # of which no kernel was searched for tiles

    def covers(self) -> list[tuple[Cover, Set]]:
        """The best covers, their kernels searched for tiles and joined, with what they store; the best first."""
        rough = sorted(self._rough(), key=lambda found: self._rank(found[0]))
        found: list[tuple[Cover, Set]] = []
        refined = 0
        for cover, some in rough:
            most = self._most(some)
            if refined == REFINED or cover.us >= ROUGH * most:
                self.lost.append(cover)
                continue
            refined += 1
            floors = self.maker.floors(some, self.points.floor_of)
            fine = self.maker.chain(some, self._described(some), limit=self.joins * most, floors=floors)
            if self.maker.meter.over():
                fine = cover
            if isinstance(fine, Cover):
                found += self._priced(fine, some)
        for _, some in sorted(found, key=lambda f: self._rank(f[0]))[:SPLIT] if self.maker.partials.rows else ():
            split = self.maker.chain(some, self._described(some), parted=True)
            if isinstance(split, Cover) and split.splits:
                found += self._priced(split, some)
        return sorted(found, key=lambda f: self._rank(f[0]))

    def _priced(self, cover: Cover, some: Set) -> list[tuple[Cover, Set]]:
        """A cover, and the one with kernels joined, if that takes less."""
        joined = self.maker.merged(cover)
        return [(self.record.priced(c), some) for c in ((cover,) if joined is cover else (cover, joined))]

    def _rough(self) -> list[tuple[Cover, Set]]:
        """The covers with kernels at the best of their starts, of sets that may be the best."""
        sizes = range(self.smallest, len(self.values) + 1)
        every = (tuple(sorted(some)) for n in sizes for some in combinations(self.values, n))
        heap = [(self.points.floor(some), some) for some in every]
        heapify(heap)
        found: list[tuple[Cover, Set]] = []
        while heap and not self.maker.meter.over():
            us, some = heappop(heap)
            most = self.joins * self._most(some, found)
            if us >= most:
                continue
            floors = self.maker.floors(some, self.points.floor_of)
            if (now := sum(floors.values())) > us * (1 + 1e-9):  # searches have shown more since
                heappush(heap, (now, some))
                continue
            with self.maker.search.at(STARTS_ONLY):
                cover = self.maker.chain(some, self._described(some), limit=ROUGH * most, floors=floors)
                if isinstance(cover, Cover):
                    found.append((self.maker.merged(cover), some))
                elif not cover.beaten:
                    self.record.failed(self._described(some), cover.reason)
        return found

    def _most(self, some: Set, found: Sequence[tuple[Cover, Set]] = ()) -> float:
        """The time below which the cover of a set is better than those that are known."""
        known = [*self.record.considered, *(c for c, _ in found)]
        return self.record.objective.most(known, max(map(self.points.bytes_of, some), default=0))

    def _rank(self, c: Cover) -> tuple[float, float]:
        return (self.record.objective.held(c.temporary_bytes) if self.record.objective.by == "memory" else 0.0, c.us)

    def _described(self, some: Set) -> str:
        if not some:
            return "one kernel per output"
        return "one kernel per reduction" if len(some) == len(self.values) else f"{plural(len(some), 'value')} stored"

"""The path of a warp through a listing: loops, and the branches that it takes.

All warps are supposed to take one path: through the loops, each as often as it is told, and around code that is there for cases that do not
occur (a loop that runs no times, a subroutine of slow division, a wait that is not over).  Only what one warp does for its block, products
and copies that run on their own, the other warps pass by.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import CompileError
from .sass import Listing

_WAITS = {"SYNCS", "NANOSLEEP", "NOP", "BRA", "YIELD"}  # a loop of these alone waits for something
_ONE_WARP = re.compile(r"UTC|UTMA|UBLKCP")  # products and copies that one warp begins for its block


@dataclass(frozen=True)
class LoopSpan:
    """Positions of a loop's first instruction and of the last branch back to it."""

    first: int
    last: int

    def __contains__(self, position: int) -> bool:
        return self.first <= position <= self.last


@functools.lru_cache(4)
def loops(listing: Listing) -> tuple[LoopSpan, ...]:
    """The loops that do work, by position; an inner one follows the one around it."""
    return tuple(s for s in _all_loops(listing) if not _waits(listing, s))


@functools.lru_cache(4)
def _all_loops(listing: Listing) -> tuple[LoopSpan, ...]:
    """All branches back to where a way leads to them again, through the code between alone: code out of line that comes back to its place
    is no loop, and one that is entered in its middle is."""
    last: dict[int, int] = {}
    for i, x in enumerate(listing.instructions):
        if x.target is not None and x.target <= i and _again(listing, x.target, i):
            last[x.target] = i
    return tuple(sorted((LoopSpan(first, end) for first, end in last.items()), key=lambda s: (s.first, -s.last)))


def _waits(listing: Listing, span: LoopSpan) -> bool:
    names = {listing[i].name for i in range(span.first, span.last + 1)}
    return "NANOSLEEP" in names or names <= _WAITS


def _again(listing: Listing, first: int, last: int) -> bool:
    """Whether a way leads from one position to another through what is between."""
    found: set[int] = set()
    left = [first]
    while left:
        at = left.pop()
        if at in found or not first <= at <= last:
            continue
        found.add(at)
        x = listing[at]
        if x.target is not None:
            left.append(x.target)
        if x.predicate or not (x.name in ("EXIT", "RET") or x.opcode == "BRA"):
            left.append(at + 1)
    return last in found


def innermost(spans: Sequence[LoopSpan]) -> tuple[LoopSpan, ...]:
    """Those with no loop inside."""
    return tuple(s for s in spans if not any(o != s and o.first in s for o in spans))


def path(listing: Listing, trips: Sequence[int], limit: int = 200_000, *, first: bool = True) -> list[int]:
    """Positions of the instructions that a warp runs, in order, with each loop (in the order of :func:`loops`) run ``trips`` times.
    ``first``: the warp that begins the products and copies of its block.

    Raises :class:`~eqfuse.errors.CompileError` where that does not lead to the end within ``limit`` instructions."""
    return _Walk(listing, trips, first).whole(limit)


def alike(listing: Listing) -> bool:
    """Whether all warps of a block do the same."""
    return not any(_ONE_WARP.match(x.name) for x in listing.instructions)


class _Walk:
    def __init__(self, listing: Listing, trips: Sequence[int], first: bool) -> None:
        self._code, self._first = listing, first
        self._spans = loops(listing)
        self._wanted = dict(zip(self._spans, trips, strict=True))
        self._done = dict.fromkeys(self._spans, 0)
        self._waits = {s.first for s in _all_loops(listing) if _waits(listing, s)}

    def whole(self, limit: int) -> list[int]:
        found: list[int] = []
        at = 0
        while at < len(self._code) and len(found) < limit:
            x = self._code[at]
            found.append(at)
            if x.name == "EXIT" and (not x.predicate or self._over(at)):
                return found
            at = self._next(at)
        raise CompileError("no way through the kernel's machine code was found", cure="report it, with the kernel")

    def _next(self, at: int) -> int:
        """Where control goes from a position; counts the trips."""
        x, to = self._code[at], self._code[at].target
        if to is None:
            return at + 1
        if to <= at:
            span = next((s for s in self._spans if s.first == to and at in s), None)
            if span is None:  # a wait that is over at once
                return at + 1 if x.predicate else to
            if x.predicate and at != span.last:  # the next trip begins early where there is nothing to do
                return at + 1
            again = not x.predicate or self._done[span] + 1 < self._wanted[span]
            self._done[span] = self._done[span] + 1 if again else 0
            return to if again else at + 1
        if x.predicate and not self._taken(at, to):
            return at + 1
        for s in self._spans:
            if to in s and at not in s and to != s.first:
                self._done[s] = -1  # entered in its middle: the first way back begins no further trip
        return to

    def _taken(self, at: int, to: int) -> bool:
        """Whether a branch forward on a condition is taken: out of a loop that ends by it in the last trip, where going on would jump
        over a loop that the branch leads to or wait, and where another warp does what follows."""
        if to in self._waits or at + 1 in self._waits:
            return to not in self._waits
        if self._of_one_warp(at + 1, to):
            return not self._first
        if any(at in s and to not in s for s in self._spans):
            return self._over(at)
        ahead = next((i for i in range(at + 1, to) if self._code[i].branches and not self._code[i].predicate), None)
        if ahead is None:
            return False
        beyond = self._code[ahead].target
        return beyond is not None and any(to <= s.first < beyond for s in self._spans)

    def _of_one_warp(self, first: int, end: int) -> bool:
        """Whether a stretch of code begins products or copies, and all warps need not meet in it."""
        names = [self._code[i].name for i in range(first, end)]
        return any(map(_ONE_WARP.match, names)) and "BAR" not in names and not any(first <= s.first < end for s in self._spans)

    def _over(self, at: int) -> bool:
        """Whether a way out of the innermost loop around a position is taken: in the last trip, if the loop's end leads back always."""
        span = next((s for s in reversed(self._spans) if at in s), None)
        if span is None or self._code[span.last].predicate or self._done[span] + 1 < self._wanted[span]:
            return False
        self._done[span] = 0
        return True

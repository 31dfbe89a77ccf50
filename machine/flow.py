"""The path of a warp through a listing: loops, and the branches that it takes.

All warps are supposed to take one path: through the loops, each as often as it is told, and around code that is there for cases that do not
occur (a loop that runs no times, a subroutine of slow division, a wait that is not over).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import CompileError
from .sass import Listing

_WAITS = ("SYNCS", "NANOSLEEP", "NOP", "BRA", "YIELD")  # a loop of these alone waits for something


@dataclass(frozen=True)
class LoopSpan:
    """Positions of a loop's first instruction and of the last branch back to it."""

    first: int
    last: int

    def __contains__(self, position: int) -> bool:
        return self.first <= position <= self.last


def loops(listing: Listing) -> tuple[LoopSpan, ...]:
    """The loops that do work, by position; an inner one follows the one around it."""
    last: dict[int, int] = {}
    for i, x in enumerate(listing.instructions):
        if x.target is not None and x.target <= i:
            last[x.target] = i
    found = [LoopSpan(first, end) for first, end in last.items()]
    busy = (s for s in found if any(listing[i].name not in _WAITS for i in range(s.first, s.last + 1)))
    return tuple(sorted(busy, key=lambda s: (s.first, -s.last)))


def innermost(spans: Sequence[LoopSpan]) -> tuple[LoopSpan, ...]:
    """Those with no loop inside."""
    return tuple(s for s in spans if not any(o != s and o.first in s for o in spans))


def path(listing: Listing, trips: Sequence[int], limit: int = 200_000) -> list[int]:
    """Positions of the instructions that a warp runs, in order, with each loop (in the order of :func:`loops`) run ``trips`` times.

    Raises :class:`~eqfuse.errors.CompileError` where that does not lead to the end within ``limit`` instructions."""
    spans = loops(listing)
    wanted = dict(zip(spans, trips, strict=True))
    done = dict.fromkeys(spans, 0)
    found: list[int] = []
    at = 0
    while at < len(listing) and len(found) < limit:
        x = listing[at]
        found.append(at)
        if x.name == "EXIT" and (not x.predicate or _over(listing, at, spans, wanted, done)):
            return found
        at = _next(listing, at, spans, wanted, done)
    raise CompileError("no way through the kernel's machine code was found", cure="report it, with the kernel")


def _next(listing: Listing, at: int, spans: Sequence[LoopSpan], wanted: dict[LoopSpan, int], done: dict[LoopSpan, int]) -> int:
    """Where control goes from a position; counts the trips."""
    x, to = listing[at], listing[at].target
    if to is None:
        return at + 1
    if to <= at:
        span = next((s for s in spans if s.first == to), None)
        if span is None:  # a wait that is over at once
            return at + 1
        again = not x.predicate or done[span] + 1 < wanted[span]
        done[span] = done[span] + 1 if again else 0
        return to if again else at + 1
    if not x.predicate:
        return to
    return to if _taken(listing, at, to, spans, wanted, done) else at + 1


def _taken(
    listing: Listing, at: int, to: int, spans: Sequence[LoopSpan], wanted: dict[LoopSpan, int], done: dict[LoopSpan, int]
) -> bool:
    """Whether a branch forward on a condition is taken: out of a loop that ends by it in the last trip, and where going on would jump
    over a
    loop that the branch leads to."""
    if any(at in s and to not in s for s in spans):
        return _over(listing, at, spans, wanted, done)
    ahead = next((i for i in range(at + 1, to) if listing[i].branches and not listing[i].predicate), None)
    if ahead is None:
        return False
    beyond = listing[ahead].target
    return beyond is not None and any(to <= s.first < beyond for s in spans)



def _over(listing: Listing, at: int, spans: Sequence[LoopSpan], wanted: Mapping[LoopSpan, int], done: dict[LoopSpan, int]) -> bool:
    """Whether a way out of the innermost loop around a position is taken: in the last trip, if the loop's end leads back always."""
    span = next((s for s in reversed(spans) if at in s), None)
    if span is None or listing[span.last].predicate or done[span] + 1 < wanted[span]:
        return False
    done[span] = 0
    return True

"""What a plan is chosen by: time, or the memory that it holds.

**Time**, the default: the least modelled time; and of plans that a model cannot tell from it (``TIE``) the one that holds least, then the
one with the fewest kernels.  **Memory**: the plan that holds least, and of those the fastest.  A limit of memory binds either way.

Memory is what a plan holds at a time beside inputs and outputs.  A tenth of the second-level cache counts as nothing: statistics and
partial results live there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sized
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from .targets import Target

TIE = 1.05  # times within this factor are equal, as far as a model can tell
FREE = 0.1  # of the second-level cache
SLOWEST = 1000.0  # what takes so many times as long as another plan is none, whatever it holds
OBJECTIVES = ("time", "memory")


class Candidate(Protocol):
    """A plan, or what may become one."""

    @property
    def us(self) -> float:
        """Modelled time."""

    @property
    def temporary_bytes(self) -> int:
        """Memory that it holds at a time beside inputs and outputs."""

    @property
    def steps(self) -> Sized:
        """Kernels and calls."""


C = TypeVar("C", bound=Candidate)


def sane(candidates: Iterable[C]) -> list[C]:
    """Those that somebody might run: seventeen layers in one kernel hold nothing, and take longer than anybody waits."""
    found = list(candidates)
    fastest = min((c.us for c in found), default=0.0)
    return [c for c in found if c.us <= SLOWEST * fastest]


@dataclass(frozen=True)
class Objective:
    """``by``: "time" or "memory".  ``limit``: bytes that a plan may hold beside inputs and outputs.  ``free``: bytes that count as none."""

    by: str = "time"
    limit: float = math.inf
    free: float = 0.0

    @staticmethod
    def on(target: Target, by: str, limit: float | None) -> Objective:
        """The objective on a device."""
        return Objective(by, math.inf if limit is None else limit, FREE * target.l2_bytes)

    def held(self, bytes_: float) -> float:
        """Bytes that count."""
        return bytes_ if bytes_ > self.free else 0.0

    def lean(self, c: Candidate) -> bool:
        """Whether a plan needs no less memory: it is within the limit, and memory is not what counts, or it holds none."""
        return c.temporary_bytes <= self.limit and (self.by == "time" or not self.held(c.temporary_bytes))

    def best(self, candidates: Iterable[C]) -> C | None:
        """The plan to take; ``None`` if none is within the limit."""
        able = [c for c in sane(candidates) if c.temporary_bytes <= self.limit]
        if not able:
            return None
        if self.by == "memory":
            least = min(self.held(c.temporary_bytes) for c in able)
            able = [c for c in able if self.held(c.temporary_bytes) == least]
        fastest = min(c.us for c in able)
        return min((c for c in able if c.us <= TIE * fastest), key=lambda c: (self.held(c.temporary_bytes), len(c.steps), c.us))

    def most(self, known: Iterable[C], bytes_: float) -> float:
        """The time below which a plan that holds so many bytes, or more, is taken for the best of some that are known."""
        able = [c for c in known if c.temporary_bytes <= self.limit]
        best = self.best(able)
        if bytes_ > self.limit:
            return 0.0
        if best is None:
            return math.inf
        held, least = self.held(bytes_), self.held(best.temporary_bytes)
        if held == least:
            return best.us
        if self.by == "memory":
            return math.inf if held < least else 0.0
        return min(c.us for c in able) * (TIE if held < least else 1.0)

    def front(self, candidates: Iterable[C]) -> list[C]:
        """The plans that no other one beats in both time and memory, the fastest first."""
        found: list[Any] = []
        for c in sorted(candidates, key=lambda c: (c.us, self.held(c.temporary_bytes), len(c.steps))):
            if not found or self.held(c.temporary_bytes) < self.held(found[-1].temporary_bytes):
                found.append(c)
        return found

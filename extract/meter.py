"""What a search may use: work, which is counted (:mod:`..work`), for all of it and for its parts.

A count ends a search at the same place on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from ..work import RATE, count, now

STATES = 8  # states of a choice of nodes that take as long as the evaluation of one node, about


class Meter:
    """The work of one extraction: it ends after so many ``seconds`` of it, and not beyond a ``deadline`` on the clock of work."""

    def __init__(self, seconds: float = math.inf, deadline: float = math.inf) -> None:
        self.whole = min(now() + RATE * seconds, deadline)  # after which nothing new is begun
        self.end = self.whole  # of the part that runs now
        self.cut_short: set[str] = set()  # by what, if it came to that: "time", all of it; "work", a part's
        self.ended = False  # what there is for the whole is spent

    def count(self, amount: float) -> None:
        """So much work is done."""
        count(amount)

    def spent(self, more: float = 0.0) -> bool:
        """Whether the work of this part is spent, or would be with so much ``more``; remembers what ended a search."""
        at = now() + more
        if at <= self.end:
            return False
        self.cut_short.add("time" if at > self.whole else "work")
        return True

    def late(self) -> bool:
        """Whether the work of this part is spent."""
        return now() > self.end

    def over(self) -> bool:
        """Whether no more is to be begun: the work of this part is spent, or that of the whole, which is remembered."""
        at = now()
        self.ended |= at > self.whole and self.end < math.inf
        return self.ended or at > self.end

    def left(self) -> float:
        """The work that is left for this part."""
        return self.end - now()

    @contextmanager
    def within(self, work: float, share: float = 1.0) -> Iterator[None]:
        """A part of the search that may do so much work, and a ``share`` of what is left."""
        before = self.end
        if before < math.inf or work < math.inf:
            self.end = min(before, now() + work, now() + share * max(self.left(), 0.0) if before < math.inf else math.inf)
        try:
            yield
        finally:
            self.end = before

    @contextmanager
    def unbounded(self) -> Iterator[None]:
        """A part of the search that is finished however late it is."""
        before = self.end
        self.end = math.inf
        try:
            yield
        finally:
            self.end = before

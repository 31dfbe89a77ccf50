"""What a search has used, and what it may use: work, which is counted, and CPU time, which bounds it from above.

What a part of a search may take is counted in work: a count ends it at the same place on every machine.  Only the whole has a deadline.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

RATE = 20_000  # nodes of kernels that are evaluated in a second, about: times are turned into work by it
STATES = 8  # states of a choice of nodes that take as long as the evaluation of one node, about


class Meter:
    """Work and time of one extraction."""

    def __init__(self, seconds: float = math.inf, deadline: float = math.inf) -> None:
        self.deadline = min(time.process_time() + seconds, deadline)  # after which nothing new is begun
        self.work = 0.0  # nodes of kernels evaluated so far, and what else is counted as such
        self.most_work = math.inf  # after which nothing new is begun, whatever the time
        self.cut_short: set[str] = set()  # by what, if it came to that: "time", "work"
        self.end = self.deadline  # of the whole, where a part has a deadline of its own
        self.ended = False  # the time of the whole is spent

    def spent(self, more: float = 0.0) -> bool:
        """Whether the time or the work is spent, or would be with so much ``more`` work; remembers what ended a search."""
        by = "work" if self.work + more > self.most_work else "time" if self.late() else ""
        if by:
            self.cut_short.add(by)
        return bool(by)

    def late(self) -> bool:
        """Whether the time is spent."""
        return self.deadline < math.inf and time.process_time() > self.deadline

    def over(self) -> bool:
        """Whether no more is to be begun: the time of this part is spent, or that of the whole, which is remembered."""
        late = self.ended or self.late()
        self.ended = late and (self.ended or self.deadline == self.end)
        return late

    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.process_time()

    @contextmanager
    def within(self, work: float, share: float = 1.0) -> Iterator[None]:
        """A part of the search that may take so much work, and a ``share`` of the time that is left."""
        before = self.deadline, self.most_work
        self.most_work = min(self.most_work, self.work + work)
        if self.deadline < math.inf:
            self.deadline -= (1 - share) * max(0.0, self.left())
        try:
            yield
        finally:
            self.deadline, self.most_work = before

    @contextmanager
    def unbounded(self) -> Iterator[None]:
        """A part of the search that is finished however late it is."""
        before = self.deadline, self.most_work
        self.deadline = self.most_work = math.inf
        try:
            yield
        finally:
            self.deadline, self.most_work = before

"""The work that there is for each stage and plan, counted (:mod:`..work`); and the processor's seconds by stage, which decide nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from ..work import RATE, now

K = TypeVar("K")


class Clock:
    """Seconds of CPU by stage, and how much work there is for the plan that is being made."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, float]] = []
        self.deadline = self.end = math.inf

    def begin(self, seconds: float, deadline: float = math.inf) -> None:
        """All that follows has the work of so many seconds, and not beyond a deadline."""
        self.deadline = self.end = min(now() + RATE * seconds, deadline)

    def turn(self, plans: int) -> None:
        """The next of so many plans begins, each of which has an equal share of the work that is left."""
        self.end = now() + max(self.deadline - now(), 0.0) / plans

    def left(self) -> float:
        """What is left for this plan, in seconds of a budget."""
        return (self.end - now()) / RATE

    def until(self, share: float = 1.0) -> float:
        """When a share of the work that is left for this plan is done."""
        return now() + share * max(self.end - now(), 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """What follows is a stage."""
        start = time.process_time()
        yield
        self.stages.append((name, 1e3 * (time.process_time() - start)))


def shared_out(weights: Mapping[K, tuple[float, float]], end: float) -> Iterator[tuple[K, float]]:
    """The parts of a program, each with the time on the clock of work at which it is to be planned; what one leaves over goes to those that
    follow.

    ``weights``: of each part its number of terms, which is what planning takes, and its time unfused, which is what a better plan may
    save; each decides half of the share.  Parts that take little come first: they leave something over.
    """
    waiting = sorted(weights, key=lambda k: weights[k][::-1])
    while waiting:
        totals = [sum(weights[k][i] for k in waiting) or 1.0 for i in range(2)]
        part, *waiting = waiting
        share = sum(mine / total for mine, total in zip(weights[part], totals, strict=True)) / 2
        yield part, math.inf if math.isinf(end) else now() + share * max(end - now(), 0.0)

"""The clock that budgets are read by.  It counts work, so that a search ends at the same place on every machine.

What is counted is what planning takes its time for: nodes of kernels that are evaluated, and e-nodes.  A second of a budget is
:data:`RATE` of it.  The processor's clock decides nothing but for a :func:`watched` part that takes :data:`PATIENCE` times as long as its
budget: then nothing new is begun there, and :func:`bitten` says so.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

RATE = 4_000  # nodes of kernels in a second of a budget: a machine of 2026 evaluates 2,000 to 9,000 of them
PATIENCE = 5.0  # seconds of the processor for a second of a budget,
LEAST = 4.0  # of which there are so many at least: the floor of a hundred operations takes its time, however small the budget is
LATE = 2.0**60  # what the clock shows, and more at every look, when the watchdog has bitten


class _Clock(threading.local):
    """The work of a thread so far; sums of eighths, so that they are exact."""

    done = 0.0
    watchdog = math.inf
    looks = 0


_clock = _Clock()


def now() -> float:
    """How much work this thread has done, in nodes of kernels."""
    if _clock.watchdog < time.process_time():
        _clock.looks += 1
        return LATE * (1 + _clock.looks)
    return _clock.done


def count(amount: float) -> None:
    """So much work is done."""
    _clock.done += amount


def bitten() -> bool:
    """Whether the watchdog has ended the part that is watched."""
    return _clock.watchdog < time.process_time()


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    """A part with a budget of so many seconds; inside of another one, that one's watchdog is its, too."""
    before = _clock.watchdog
    _clock.watchdog = min(before, time.process_time() + PATIENCE * max(seconds, LEAST))
    try:
        yield
    finally:
        _clock.watchdog = before

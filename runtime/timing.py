"""Timing on a GPU: CUDA events around single calls, a cold L2, the median and the spread.

A kernel that finds its inputs in the L2 from the call before looks faster than it is in a program; so before every call a buffer of
twice the L2 is overwritten, or the inputs rotate through enough copies.  Clocks are left as they are.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import DeviceError


@dataclass(frozen=True)
class Timing:
    """Microseconds per call: the median, the 10th and the 90th percentile, and how many calls were timed."""

    median_us: float
    low_us: float
    high_us: float
    samples: int

    @property
    def spread(self) -> float:
        """Width of the middle 80 % relative to the median."""
        return (self.high_us - self.low_us) / self.median_us if self.median_us else math.inf

    def __str__(self) -> str:
        return f"{self.median_us:.1f} us ({self.low_us:.1f} to {self.high_us:.1f}, {self.samples} calls)"


def summarise(samples_us: Sequence[float]) -> Timing:
    """Median and percentiles (nearest rank) of measured times."""
    if not samples_us:
        raise ValueError("no samples")
    ordered = sorted(samples_us)

    def rank(share: float) -> float:
        return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]

    return Timing(statistics.median(ordered), rank(0.1), rank(0.9), len(ordered))


def copies_beyond(l2_bytes: int, bytes_per_call: int) -> int:
    """How many sets of inputs to rotate through so that none is still in the L2 when its turn comes again: at least two."""
    return max(2, math.ceil(2 * l2_bytes / max(bytes_per_call, 1)) + 1)


def time_calls(
    call: Callable[..., Any],
    arguments: Sequence[Sequence[Any]] = ((),),
    *,
    repeats: int = 50,
    warmup: int = 10,
    flush_bytes: int | None = None,
) -> Timing:
    """Time ``call(*arguments[i])``, ``i`` running round, each call between two events.

    ``flush_bytes`` are overwritten before each call (default: twice the L2 of the device; 0 when ``arguments`` rotate).
    Raises :class:`~eqfuse.errors.DeviceError` without a CUDA device.
    """
    if not torch.cuda.is_available():
        raise DeviceError("timing needs a CUDA device, and torch sees none", cure="on the CPU, read the plan's estimate instead")
    if flush_bytes is None:
        flush_bytes = 2 * torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    flush = torch.empty(max(flush_bytes, 1), dtype=torch.int8, device="cuda")
    turns = itertools.cycle(arguments)
    for _ in range(warmup):
        call(*next(turns))
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in events:
        if flush_bytes:
            flush.zero_()
        argument = next(turns)
        start.record()
        call(*argument)
        end.record()
    torch.cuda.synchronize()
    return summarise([1e3 * start.elapsed_time(end) for start, end in events])

"""What calls take on the machine at hand: several implementations of one thing, turn by turn in one run.

A machine is never the same twice, so nothing is timed alone: in each round every implementation is called once, in an order that moves on
by one, and what is said of them is medians, quartiles and ratios within the run.  Calls allocate their results, as users' calls do.

With one thread a time is the processor time of that thread, which other processes lengthen through the caches only; with more it is time on
the wall; on a CUDA device it is the time between two events.
"""

from __future__ import annotations

import contextlib
import ctypes
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SHORTEST = 1e-3  # seconds: a sample is made of as many calls as take this long
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of <malloc.h>


@dataclass(frozen=True)
class Times:
    """Seconds of a call: the samples, in the order in which they were taken."""

    samples: tuple[float, ...] = field(repr=False)

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.samples)

    @property
    def quartiles(self) -> tuple[float, float]:
        """A quarter of the samples is below the first, a quarter above the second."""
        if len(self.samples) < 2:
            return self.samples[0], self.samples[0]
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return low, high


def sampler(device: str, threads: int) -> Callable[[Callable[[], object], int], float]:
    """What runs a call a number of times and says the seconds of one, by the clock that fits the device ("cpu" or "cuda")."""
    if device == "cuda":
        return _between_events
    clock = time.thread_time if threads == 1 else time.perf_counter

    def sample(call: Callable[[], object], times: int) -> float:
        start = clock()
        for _ in range(times):
            call()
        return (clock() - start) / times

    return sample


def _between_events(call: Callable[[], object], times: int) -> float:
    import torch

    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(times):
        call()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop)) * 1e-3 / times


def interleaved(
    calls: Mapping[str, Callable[[], object]],
    *,
    sample: Callable[[Callable[[], object], int], float],
    seconds: float = 2.0,
    rounds: tuple[int, int] = (5, 100),
    tick: Callable[[float], None] = lambda part: None,
) -> dict[str, Times]:
    """The times of all calls, which have been made before (nothing is compiled here): rounds until ``seconds`` are over on the wall, at
    least and at most as many as ``rounds`` says.  ``tick`` is told what part is done."""
    times = {name: max(1, round(SHORTEST / max(sample(call, 1), 1e-9))) for name, call in calls.items()}
    found: dict[str, list[float]] = {name: [] for name in calls}
    names, start, done = list(calls), time.perf_counter(), 0
    while done < rounds[0] or (done < rounds[1] and time.perf_counter() - start < seconds):
        for name in names:
            found[name].append(sample(calls[name], times[name]))
        names.append(names.pop(0))
        done += 1
        tick(min(1.0, max(done / rounds[1], min(done / rounds[0], (time.perf_counter() - start) / max(seconds, 1e-9)))))
    return {name: Times(tuple(samples)) for name, samples in found.items()}


def keep_freed_memory(keep: bool = True) -> bool:
    """From now on this process keeps what it frees, so that large results do not cost a page fault for every 4 KB in every call (three
    quarters of the time of a softmax of 64 MB); for all implementations alike.  Or it does not, as the system has it.  False without glibc.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        pieces, threshold = (0, -1) if keep else (65536, 128 << 10)
        return bool(libc.mallopt(_M_MMAP_MAX, pieces)) and bool(libc.mallopt(_M_TRIM_THRESHOLD, threshold))
    return False


def added_memory(call: Callable[[], object]) -> int | None:
    """The bytes by which a call raises the memory of this process at its highest, its result included; None where the system is not Linux.

    What earlier calls freed is given back before, so that it does not serve this one unseen; that asks for a process that does not keep it
    (:func:`keep_freed_memory`).  The call is made by a thread of its own, so that what kernels and libraries keep for a thread counts, too.
    The system counts in steps of some 256 KB.
    """
    status, marks = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        marks.write_text("5")  # the highest mark starts at what is held now
        before = _kilobytes(status, "VmRSS")
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        return 1024 * max(0, _kilobytes(status, "VmHWM") - before)
    except (OSError, AttributeError, StopIteration):
        return None


def _kilobytes(status: Path, name: str) -> int:
    return int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith(name)))

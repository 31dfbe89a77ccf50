"""Running the probes: work repeated until a run lasts a few milliseconds, all probes in turn, the shortest of many runs of each.

A machine has other things to do, and they only ever make a run longer; so the shortest one says what the machine can do, and probes that
take turns meet the same minutes.  What one core does is the processor time of this thread; what all do is the time of the clock.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..codegen.c.host import header
from ..runtime.native import library

RUN = 4e-3  # seconds that a run lasts at least
ROUNDS = 24
LAUNCHES = 2000

Tick = Callable[[float], None]  # told the share that is done


@dataclass(frozen=True)
class Probe:
    """``function`` of probes.c on ``n`` numbers; ``clock``: on all cores."""

    function: str
    n: int
    clock: bool = False


class Probes:
    """The compiled probes, and memory for them.  Raises :class:`~eqfuse.errors.CompileError` without a C compiler."""

    def __init__(self, most: int) -> None:
        source = "\n".join([header(), header("products.h"), (Path(__file__).parent / "probes.c").read_text(encoding="utf-8")])
        self._library = library(source)
        shape = self._library.eq_probe_shape
        shape.argtypes, shape.restype = [ctypes.c_int64], ctypes.c_int64
        self.lanes, self.rows, self.columns = (shape(k) for k in range(3))
        self._x, self._y = _aligned(most), _aligned(most)
        self._x[:] = np.arange(most, dtype=np.float32) % 64 / 64 - 0.5
        self._y[:] = 0.25

    def seconds(self, p: Probe, times: int) -> float:
        """How long it takes to do the work of a probe so many times."""
        run = getattr(self._library, f"eq_probe_{p.function}")
        run.argtypes, run.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64], ctypes.c_float
        now = time.perf_counter if p.clock else time.thread_time
        x, y = self._x.ctypes.data, self._y.ctypes.data
        start = now()
        run(x, y, p.n, times)
        return now() - start

    def measured(self, probes: Mapping[str, Probe], tick: Tick = lambda share: None) -> tuple[dict[str, float], dict[str, float]]:
        """Seconds of every probe's work done once, and, of those on one core, how much longer than its shortest run the median one took."""
        times = dict.fromkeys(probes, 1)
        for name, p in probes.items():
            while (took := self.seconds(p, times[name])) < RUN / 2:
                times[name] = int(times[name] * min(max(RUN / max(took, 1e-7), 2), 100))
        runs: dict[str, list[float]] = {name: [] for name in probes}
        for k in range(ROUNDS):
            for name, p in probes.items():
                runs[name].append(self.seconds(p, times[name]) / times[name])
            tick((k + 1) / ROUNDS)
        least = {name: min(r) for name, r in runs.items()}
        return least, {name: sorted(r)[len(r) // 2] / least[name] - 1 for name, r in runs.items() if not probes[name].clock}

    def launch(self, programs: int) -> float:
        """Seconds to call a kernel that has nothing to do in so many programs, from Python."""
        p = Probe("launch", programs, clock=True)
        return min(self.seconds(p, 1) for _ in range(LAUNCHES))


def _aligned(n: int) -> np.ndarray:
    """Numbers that begin at a page."""
    held = np.empty(n + 1024, np.float32)
    at = -held.ctypes.data % 4096 // 4
    return held[at : at + n]

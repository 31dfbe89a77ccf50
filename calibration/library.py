"""The rates of the vendor's matrix products, through torch: what a plan may call in place of a kernel of ours."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType

import torch

from ..extract.targets.machine import cores

SIDE, SMALL = 1024, 64  # of a product that is all arithmetic, and of one that is mostly a call
SECONDS = 0.6  # for a type
CALLS = 1000


def products() -> tuple[float, Mapping[str, float]]:
    """Microseconds that a call takes before it computes, and TFLOP/s by element type: the shortest of many calls, one core's times the
    cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rates = {name: 2e-12 * SIDE**3 / _least(SIDE, getattr(torch, name)) for name in ("float32", "bfloat16", "float16")}
        call = _least(SMALL, torch.float32) - 2e-12 * SMALL**3 / rates["float32"]
    finally:
        torch.set_num_threads(threads)
    return max(1e6 * call, 0.1), MappingProxyType({name: rate * cores() for name, rate in rates.items()})


def _least(side: int, dtype: torch.dtype) -> float:
    a, b = torch.randn(side, side).to(dtype), torch.randn(side, side).to(dtype)
    least, end = float("inf"), time.perf_counter() + SECONDS
    for k in range(CALLS):
        start = time.thread_time()
        torch.matmul(a, b)
        took = time.thread_time() - start
        if k:  # the first one makes what is kept
            least = min(least, took)
        if k > 1 and time.perf_counter() > end:
            break
    return least

"""Which tiles a loop visits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from .program import Bound, Loop


@dataclass(frozen=True)
class Reach:
    """Positions: the first tile, where the last one ends at the latest; the first tile of the clear stretch, and its end.  The stretch of
    a loop that is not parted is nothing."""

    first: Any
    end: Any
    clear: Any
    clear_end: Any


def reach(
    loop: Loop, tile: int, size: Any, position: Callable[[Bound], Any], least: Callable[..., Any] = min, largest: Callable[..., Any] = max
) -> Reach:
    """Of a loop over an axis of this size, where bounds have these positions: numbers, or arrays with their own extremes."""

    def most(start: Any, bounds: Iterable[Bound]) -> Any:
        return reduce(largest, map(position, bounds), start)

    first = most(size * 0, loop.starts) // tile * tile
    end = reduce(least, map(position, loop.stops), size)
    if loop.clear is None or not loop.part:
        return Reach(first, end, first, first)
    clear = -(-most(first, loop.clear.starts) // tile) * tile
    return Reach(first, end, clear, largest(clear, reduce(least, map(position, loop.clear.stops), end) // tile * tile))

"""What the units of a multiprocessor must do at least: no schedule of the same instructions is faster."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from .pipes import SCHEDULERS, Processor
from .sass import Listing
from .units import cost


def cycles(listing: Listing, path: Sequence[int], warps: int, processor: Processor) -> Mapping[str, float]:
    """Cycles that each unit of a multiprocessor is busy for one block, all warps of which take ``path``: ``issue`` slots, ``shared``
    memory and the units."""
    often = Counter(path)
    found: dict[str, float] = defaultdict(float)
    for position, times in often.items():
        c = cost(listing[position], processor)
        found["issue"] += times * processor.interval.get("issue", 1.0)
        found[c.unit] += times * c.busy
        found["shared"] += times * c.shared * SCHEDULERS / processor.shared_bytes
    return {unit: n * warps / SCHEDULERS for unit, n in found.items() if n}


def flops(listing: Listing, path: Sequence[int], warps: int, processor: Processor) -> float:
    """Operations of the matrix unit of one block."""
    return warps * sum(cost(listing[i], processor).flops for i in path)


def loaded(listing: Listing, path: Sequence[int], warps: int, processor: Processor) -> float:
    """Bytes that one block asks for beyond the first level, or stores there."""
    return warps * sum(cost(listing[i], processor).memory / listing[i].sectors for i in path)


def moved(listing: Listing, path: Sequence[int], warps: int, processor: Processor) -> float:
    """Bytes of the sectors of these."""
    return warps * sum(cost(listing[i], processor).memory for i in path)

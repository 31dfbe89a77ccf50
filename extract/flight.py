"""What memory delivers to loops without a contraction: what is in flight per latency (Little's law).

A compiler pipelines such a loop only where it is told to.  Then the loads of a step are asynchronous copies, of as many steps ahead as
there are stages but one: each a copy of the step's tiles in shared memory, and an instruction or two more per vector.  That pays where
the programs that run at a time do not keep memory busy by themselves: many of them load for each other.
"""

from __future__ import annotations

from ..tiles.walk import Counts
from .targets import Target

LATENCY_US = 1.0  # of device memory that is busy (assumption)
WAITING = 0.5  # share of the time in which a program that loads nothing ahead has its loads in flight (assumption)
MOST_STAGES = 4


def _share(counts: Counts, stages: int, programs: int, target: Target) -> float:
    """The share of the bandwidth of device memory that so many programs at a time can draw with so many stages."""
    if counts.dots or not counts.copied_bytes or target.vendor != "nvidia":
        return 1.0
    flying = programs * counts.copied_bytes * (stages - 1 if stages > 1 else WAITING)
    return min(1.0, flying / (target.dram_gb_s * 1e3 * LATENCY_US))


def stages(counts: Counts, programs: int, target: Target) -> int:
    """The stages that so many programs want: the fewest that draw all, or as many as there may be."""
    most = min(MOST_STAGES, max((n for _, _, n in counts.trips), default=1))
    return next((n for n in range(1, most) if _share(counts, n, programs, target) == 1.0), max(most, 1))

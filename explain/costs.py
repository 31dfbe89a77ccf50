"""The cost of a plan taken apart, so that two plans can be compared term by term.

The time of a kernel is what its resources add to it (:mod:`eqfuse.extract.overlap`; on a CPU all of what each takes) and the launch.  The
parts add up to the time, and their differences to the difference of two times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..extract.plan import Cost, PlannedCall, PlannedKernel

Planned = PlannedKernel | PlannedCall

TERMS = {
    "dram": "memory traffic",
    "l2": "cache traffic",
    "tensor": "matrix products",
    "issue": "instructions",
    "shared": "shared memory",
    "simt": "vector arithmetic",
    "special": "exponentials and other special functions",
    "latency": "loop steps that wait for one another",
    "products": "matrix products",
    "packing": "packing of operands",
    "rows": "beginnings of rows",
    "scattered": "elements that are far apart in memory",
    "arrays": "tiles in farther caches",
    "streams": "memory that is not hidden",
    "pieces": "memory in short pieces",
    "launch": "kernel launches",
    "other": "implementations from outside",
}


@dataclass(frozen=True)
class TermDifference:
    """One term of the time of two plans, in microseconds."""

    term: str
    plan_us: float
    other_us: float

    @property
    def difference_us(self) -> float:
        """What the other plan pays more."""
        return self.other_us - self.plan_us

    @property
    def words(self) -> str:
        """The term in words."""
        return TERMS[self.term]


def shares(cost: Cost, launch_us: float) -> dict[str, float]:
    """The time of one kernel by term; the parts add up to ``cost.us``."""
    if not cost.parts or cost.us < launch_us:
        return {"other": cost.us}
    return {t: us for t, us in cost.parts.items() if us > 0} | {"launch": launch_us}


def times(steps: Iterable[Planned], launch_us: float) -> dict[str, float]:
    """The modelled time of a plan in microseconds, by term."""
    total: dict[str, float] = {}
    for k in steps:
        for term, us in shares(k.cost, launch_us).items():
            total[term] = total.get(term, 0.0) + us
    return total


def compare(a: Mapping[str, float], b: Mapping[str, float]) -> tuple[TermDifference, ...]:
    """Two times term by term, the term that the second loses most by first."""
    found = [TermDifference(t, a.get(t, 0.0), b.get(t, 0.0)) for t in TERMS if t in a or t in b]
    return tuple(sorted(found, key=lambda d: -d.difference_us))

"""The cost of a plan taken apart, so that two plans can be compared term by term.

The model's time of a kernel is its slowest resource plus the launch, so a kernel's time belongs to the resource that binds it; where
arithmetic binds, to the matrix unit and to the exposed share of the vector units.  On a CPU the terms add up to it.  The parts add up
to the time, and their differences to the difference of two times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..extract.cost import OVERLAP
from ..extract.plan import Cost, PlannedCall, PlannedKernel

Planned = PlannedKernel | PlannedCall

TERMS = {
    "dram": "memory traffic",
    "l2": "cache traffic",
    "tensor": "matrix products",
    "simt": "vector arithmetic",
    "special": "exponentials and other special functions",
    "latency": "loop steps that wait for memory",
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
    terms = cost.terms
    body = cost.us - launch_us
    if not terms or body < 0:
        return {"other": cost.us}
    if "streams" in terms:  # a CPU's add up
        return {t: us for t, us in terms.items() if us > 0} | {"launch": launch_us}
    vector = "simt" if terms.get("simt", 0.0) >= terms.get("special", 0.0) else "special"
    exposed = terms.get(vector, 0.0) * (OVERLAP if cost.flops else 1.0)
    arithmetic = {"tensor": terms.get("tensor", 0.0), vector: exposed}
    ways = [{t: terms.get(t, 0.0)} for t in ("dram", "l2", "latency")] + [arithmetic]
    found = max(ways, key=lambda way: sum(way.values()))
    rest = body - sum(found.values())
    found = {t: us for t, us in found.items() if us > 0} | {"launch": launch_us}
    return found | ({"other": rest} if abs(rest) > 1e-6 * max(body, 1e-9) else {})


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

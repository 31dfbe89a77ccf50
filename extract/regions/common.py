"""What several regions would store for themselves, stored once for all of them.

A statistic of rows costs nothing where it is worked out beside a product, and so it may be part of many regions.  But where the best plans
of several regions store the same value between their own kernels, a region that makes it once saves what the others take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..plan import Plan
from .region import Region


def stored_by_several(regions: Sequence[Region], plans: Sequence[Plan]) -> frozenset[int]:
    """The values of the whole program, by the numbers of their terms, that more than one region keeps in memory for itself.  What is
    made of numbers alone has no type to be kept in between regions, and stays each region's own."""
    found: Counter[int] = Counter()
    for region, plan in zip(regions, plans, strict=True):
        if not plan.rewritten:  # its temporaries are values of another program
            made = (b.name for step in plan.steps for b in step.stores if b.role == "temporary")
            number = {plan.program.temporary(k): k for k in range(len(plan.program.terms()))}
            own = {number[name] for name in made if name in number}
            found.update(k for t, k in region.whole.items() if t.dtype is not None and region.number(t) in own)
    return frozenset(k for k, times in found.items() if times > 1)

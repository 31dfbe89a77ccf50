"""What compilers and clocks say of a plan that was made: kernels that spill, and the best of several candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..extract.covers.shortlist import Shortlists
from ..extract.plan import Plan
from .planned import Planned, in_parts
from .whole import extracted, key_of

if TYPE_CHECKING:
    from ..runtime.refine import Refiner


def without_spills(found: Planned) -> Plan:
    """The plan with smaller tiles for every kernel of which the compiler spills registers."""
    from ..runtime.spills import without_spills

    def again(shares: Mapping[tuple[str, ...], float]) -> Plan:
        plan = extracted(found.request, found.rules, found.traced, found.graph, found.choice, shares)
        return replace(plan, unsure=found.plan.unsure, written_us=found.plan.written_us)

    return without_spills(found.plan, found.request.target, again, lambda plan: replace(found, plan=plan).generated.compile())


def refined(found: Planned) -> Planned:
    """The plan with kernels that a compiler, or a clock, finds best among several."""
    from ..runtime.refine import TUNED, Asked, Refiner

    request = found.request
    with Refiner(Asked(request.refine or TUNED, request.tune, request.target)) as refiner:
        return _refined_by(refiner, found)


def _refined_by(refiner: Refiner, found: Planned) -> Planned:
    """The same, of a plan in regions each different region."""
    request, plan, parts = found.request, found.plan, found.parts
    if parts is not None:
        made = {key: _refined_by(refiner, p) for key, p in parts.of_key.items()}
        again = in_parts(request, found.rules, found.traced, found.choice, parts.partition, parts.regions, made)
        return replace(again, plan=replace(again.plan, decisions=plan.decisions))
    key = key_of("refine", request, found.rules, plan.program, request.time_budget, found.choice)

    def lists() -> Shortlists:
        return Shortlists(found.graph, request.target, plan, request.time_budget)

    return replace(found, plan=refiner(plan, lists, key.name if key else None))

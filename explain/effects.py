"""What verdicts changed: the search once more without each of them, and its plan beside the plan that they led to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..errors import PlanError
from ..extract.plan import MOST_DECISIONS, Decision
from ..extract.quantities import plural
from .study import Study

MOST_GIVERS = 8  # requests and rules that are left out, one at a time


@dataclass(frozen=True)
class Effect:
    """What one request or fusion rule did.  ``changed``: the plan without it is another one, with so many ``kernels`` that takes ``us``
    microseconds more (less, if negative), or none at all if ``kernels`` is ``None``; ``changed`` is ``None`` if that was not asked."""

    giver: str
    decisions: tuple[Decision, ...]
    changed: bool | None
    kernels: int | None = None
    us: float | None = None

    def lines(self) -> list[str]:
        """A line for each pair of values, and one for the effect."""
        lines = [f"verdict: {d}" for d in self.decisions[:MOST_DECISIONS]]
        if len(self.decisions) > MOST_DECISIONS:
            lines.append(f"verdict: {self.giver}: {plural(len(self.decisions) - MOST_DECISIONS, 'more pair')} of values")
        return [*lines, f"  {self}"]

    def __str__(self) -> str:
        if self.changed is None:
            return "whether it changed the plan was not asked"
        if not self.changed:
            return "no effect: without it the search ends with the same plan"
        if self.kernels is None or self.us is None:
            return "without it no plan obeys the other verdicts"
        time = f"{abs(self.us):.1f} us {'slower' if self.us >= 0 else 'faster'}"
        return f"it changed the plan: without it there would be {plural(self.kernels, 'kernel')}, {time}"

    def data(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "by": self.giver, "changed": self.changed, "kernels_without": self.kernels, "slower_us_without": self.us,
            "decisions": [asdict(d) for d in self.decisions],
        }  # fmt: skip


def effects(study: Study) -> tuple[Effect, ...]:
    """What each request and rule with a verdict about two values of the program did; one search for each."""
    givers = dict.fromkeys((d.giver, d.by) for d in study.plan.decisions)
    found = []
    for k, (giver, by) in enumerate(givers):
        of = tuple(d for d in study.plan.decisions if d.giver == giver)
        asked = k < MOST_GIVERS and study.plan.stopped not in ("like", "time", "clock")
        found.append(_effect(study, giver, by, of) if asked else Effect(giver, of, None))
    return tuple(found)


def _effect(study: Study, giver: str, by: str, decisions: Sequence[Decision]) -> Effect:
    plan, graph = study.plan, study.graph
    kept = tuple(row for row in graph.facts.get("fuse", ()) if row[3] != by)
    try:
        other = study.extracts(replace(graph, facts={**graph.facts, "fuse": kept})).run()
    except PlanError:  # an allow that everything hangs on
        return Effect(giver, tuple(decisions), True)
    changed = [s.cost for s in other.steps] != [s.cost for s in plan.steps]
    return Effect(giver, tuple(decisions), changed, len(other.steps), other.estimated_us - plan.estimated_us)

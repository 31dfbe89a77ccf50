"""Why a program in steps is planned as it is: what torch runs and why, and every different piece explained as a plan of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import OptionError
from ..explain import Explanation
from ..explain.whole import ProgramExplanation
from ..explain.why import Why
from ..extract.plan import Part, StepPlan, named
from ..extract.plan_data import parts_data

if TYPE_CHECKING:
    from .running import Steps


@dataclass(frozen=True)
class StepExplanation:
    """``of``: for the name of each different piece its explanation."""

    plan: StepPlan
    of: Mapping[str, Explanation | ProgramExplanation] = field(repr=False)

    @property
    def reasons(self) -> tuple[tuple[str, str, str | None], ...]:
        """What torch runs: the operator, why, and the user's line."""
        return tuple((call.target, call.reason, call.where) for call in self.plan.library)

    def why(self, a: str, b: str) -> Why:
        """Whether two values share a kernel, and if not, why."""
        return why(self, a, b)

    def json(self) -> str:
        """Everything as a JSON document."""
        pieces = {name: json.loads(e.json()) for name, e in self.of.items()}
        whole = {"program": self.plan.name, "target": self.plan.target, "steps": parts_data(self.plan)}
        return json.dumps(whole | {"pieces": pieces})

    def __str__(self) -> str:
        return "\n\n".join([str(self.plan), *(f"{name}: {e}" for name, e in self.of.items())])


def explain(steps: Steps, plan: StepPlan, costs: bool) -> StepExplanation:
    """The explanation of steps; each different piece is explained once."""
    found: dict[str, Explanation | ProgramExplanation] = {}
    for first, part in named(plan.parts):
        if isinstance(part, Part) and first not in found:
            planned = steps.pieces[first].planned
            assert planned is not None
            found[first] = planned.explain(costs=costs)
    return StepExplanation(plan, found)


def why(e: StepExplanation, a: str, b: str) -> Why:
    """Whether two values share a kernel.  OptionError for names that no piece has."""
    same: OptionError | None = None
    for found in e.of.values():
        try:
            return found.why(a, b)
        except OptionError as error:
            same = error
    made = {value: part.name for part in e.plan.parts for value in part.makes}
    if a not in made or b not in made:
        unknown = a if a not in made else b
        raise OptionError(f"no value is called {unknown!r}", where="why", cure=f"one of {', '.join(made)}") from same
    kernels = {a: (made[a],), b: (made[b],)}
    text = f"{a} is made in {made[a]}, {b} in {made[b]}"
    reasons = [f"{s.target} in torch: {s.reason}" for s in e.plan.library]
    return Why(a, b, "steps", kernels, "; ".join([text, *reasons]), {})

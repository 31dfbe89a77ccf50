"""Why a program in steps is planned as it is: what torch runs and why, and every different piece explained as a plan of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import OptionError
from ..explain import Explanation
from ..explain.whole import ProgramExplanation
from ..explain.why import Why
from .plan import LibraryStep, PieceStep, StepPlan

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
        found: list[tuple[str, str, str | None]] = []
        for s in self.plan.steps:
            if isinstance(s, LibraryStep):
                found.append((s.target, s.reason, s.where))
            elif s.plan is None:
                found.append((s.name, s.reason, s.where))
        return tuple(found)

    def why(self, a: str, b: str) -> Why:
        """Whether two values share a kernel, and if not, why."""
        return why(self, a, b)

    def json(self) -> str:
        """Everything as a JSON document."""
        steps: list[dict[str, Any]] = []
        for s in self.plan.steps:
            if isinstance(s, LibraryStep):
                steps.append(asdict(s))
                continue
            numbers = None if s.plan is None else {
                "kernels": len(s.plan.kernels), "us": s.plan.estimated_us, "bytes": s.plan.dram_bytes, "eager_us": s.plan.baseline_us,
                "eager_bytes": s.plan.baseline_bytes,
            }  # fmt: skip
            own = {"name": s.name, "reads": s.reads, "makes": s.makes, "first": s.first, "reason": s.reason, "where": s.where}
            steps.append({**own, "plan": numbers})
        pieces = {name: json.loads(e.json()) for name, e in self.of.items()}
        return json.dumps({"program": self.plan.name, "target": self.plan.target, "steps": steps, "pieces": pieces})

    def __str__(self) -> str:
        parts = [str(self.plan)]
        parts += [f"{name}: {text}" for name, text in ((n, str(e)) for n, e in self.of.items())]
        return "\n\n".join(parts)


def explain(steps: Steps, plan: StepPlan, costs: bool) -> StepExplanation:
    """The explanation of steps; each different piece is explained once."""
    found: dict[str, Explanation | ProgramExplanation] = {}
    for s in plan.steps:
        if isinstance(s, PieceStep) and s.plan is not None and s.first == s.name:
            planned = steps.pieces[s.name].planned
            assert planned is not None
            found[s.name] = planned.explain(costs=costs)
    return StepExplanation(plan, found)


def why(e: StepExplanation, a: str, b: str) -> Why:
    """Whether two values share a kernel.  OptionError for names that no piece has."""
    same: OptionError | None = None
    for found in e.of.values():
        try:
            return found.why(a, b)
        except OptionError as error:
            same = error
    made: dict[str, str] = {}
    for s in e.plan.steps:
        for value in (s.name,) if isinstance(s, LibraryStep) else s.makes:
            made[value] = s.name
    if a not in made or b not in made:
        unknown = a if a not in made else b
        raise OptionError(f"no value is called {unknown!r}", where="why", cure=f"one of {', '.join(made)}") from same
    kernels = {a: (made[a],), b: (made[b],)}
    text = f"{a} is made in {made[a]}, {b} in {made[b]}"
    reasons = [f"{s.target} in torch: {s.reason}" for s in e.plan.library]
    return Why(a, b, "steps", kernels, "; ".join([text, *reasons]), {})

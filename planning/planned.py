"""A request with what each stage made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..egraph import FrozenGraph
from ..egraph.later import Later
from ..errors import PlanError
from ..extract.plan import Part, Plan
from ..extract.programs import Another
from ..extract.regions import Partition, Region, whole_plan
from ..ir.program import Program
from ..rewrites import Rule
from .request import Request

if TYPE_CHECKING:
    from ..explain import Explanation
    from ..explain.whole import ProgramExplanation
    from ..frontends import Traced
    from ..runtime.composed import Composed
    from ..runtime.executable import Executable
    from ..runtime.generated import Generated


@dataclass(frozen=True, eq=False)
class Planned:
    """A request, and what each stage made of it."""

    request: Request
    rules: tuple[Rule, ...]  # of the saturation for kernels
    traced: Traced
    saturated: FrozenGraph | Later | None  # none for a program that is planned in regions: each has its own
    plan: Plan
    choice: Another | None = None  # the program that is planned, if it is not the one that was traced
    programs: FrozenGraph | None = None  # the e-graph of programs
    timings: tuple[tuple[str, float], ...] = ()  # milliseconds of CPU by stage
    parts: Parts | None = None

    @property
    def graph(self) -> FrozenGraph:
        """The e-graph of the program; PlanError if there is none for all of it."""
        if self.saturated is None:
            raise PlanError(
                "the program is planned in regions, each of which has an e-graph of its own",
                where=self.traced.program.name,
                cure="planned.graphs has them",
            )
        return self.saturated.graph() if isinstance(self.saturated, Later) else self.saturated

    @property
    def sized(self) -> bool:
        """Whether a rule depended on the lengths of axes."""
        return self.saturated.sized if isinstance(self.saturated, Later) else self.graph.sized

    @property
    def graphs(self) -> tuple[FrozenGraph, ...]:
        """The e-graph of the program, or those of its different regions."""
        return (self.graph,) if self.parts is None else tuple(p.graph for p in self.parts.different)

    @property
    def fixed(self) -> bool:
        """The program has the sizes that it was made with."""
        return isinstance(self.request.fn, Program) or self.traced.fixed

    @cached_property
    def generated(self) -> Generated | Composed:
        """The module that runs the plan."""
        from ..runtime.composed import Composed
        from ..runtime.generated import Generated

        if self.parts is None:
            return Generated(self.traced, self.sized, self.plan, self.request.target)
        made = {id(p): Generated(p.traced, p.sized, p.plan, self.request.target) for p in self.parts.different}
        return Composed(self.parts.partition, self.parts.regions, tuple(made[id(p)] for p in self.parts.planned), self.plan, self.traced)

    def explain(self, *, costs: bool = False) -> Explanation | ProgramExplanation:
        """Why the plan is what it is."""
        from ..explain import Options, explain
        from ..explain.whole import ProgramExplanation

        if self.parts is None:
            asked = self.request
            options = Options(self.rules, asked.objective, asked.memory_limit, asked.node_budget, asked.time_budget)
            return explain(self.graph, self.plan, asked.target, options=options, costs=costs)
        found = {id(p): p.explain(costs=costs) for p in self.parts.different}
        every: Any = tuple(found[id(p)] for p in self.parts.planned)
        return ProgramExplanation(self.plan, self.parts.partition, self.parts.regions, every)

    @cached_property
    def executable(self) -> Executable:
        """The plan, to be run."""
        from ..runtime.executable import Executable

        return Executable(self.traced, self.generated, self.plan, self.request.target)


@dataclass(frozen=True, eq=False)
class Parts:
    """The regions of a program, and what was planned for each: one object for equal ones."""

    partition: Partition
    regions: tuple[Region, ...]
    planned: tuple[Planned, ...]

    @property
    def different(self) -> tuple[Planned, ...]:
        """Each plan once."""
        return tuple({id(p): p for p in self.planned}.values())

    @property
    def of_key(self) -> dict[str, Planned]:
        """By what equal regions have in common."""
        return {r.key: p for r, p in zip(self.regions, self.planned, strict=True)}


def in_parts(
    request: Request, rules: tuple[Rule, ...], traced: Traced, choice: Another | None, cut: Partition, regions: Sequence[Region],
    made: Mapping[str, Planned],
) -> Planned:  # fmt: skip
    """A program out of its regions, each of which was planned by its key."""
    planned = tuple(made[r.key] for r in regions)
    parts = [Part(p.plan, r.reads, r.makes) for r, p in zip(regions, planned, strict=True)]
    plan = replace(whole_plan(traced.program, request.target, parts), licence=request.licence, cuts=cut.reasons)
    if choice is not None:
        plan = replace(plan, rewritten=choice.rules)
    return Planned(request, rules, traced, None, plan, choice, parts=Parts(cut, tuple(regions), planned))

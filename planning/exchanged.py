"""Programs equal to the one that was traced that may be cheaper: what a saturation for programs finds, by the price of programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..egraph import FrozenGraph, saturate
from ..egraph.reach import reachable
from ..egraph.run import for_programs, ordered
from ..extract.programs import Choice, other_programs
from ..extract.programs.local import with_other_parts
from ..extract.regions.partition import MOST_AXES
from ..ir.program import Program
from ..ir.terms import Reduce
from ..rewrites import Rule
from ..rewrites.rule import ORDER
from .clock import Clock
from .debug import audit
from .request import Request, active_rules

if TYPE_CHECKING:
    from ..frontends import Traced
    from .planned import Planned

NODES = 2000  # e-nodes of the saturation for other programs
MOST_ORDERED = NODES // 8  # terms of a program for which others are looked for; of a larger one for its regions
SHARE = 0.1  # of the work, for that saturation, and for the choice among what it finds
LEAST = 0.05  # seconds: where a share is less, the program as written is planned


def ordered_whole(program: Program) -> bool:
    """Whether other programs are looked for in all of a program at once; of a larger one they are in its regions."""
    return len(program.terms()) <= MOST_ORDERED and len(program.every_axis) <= MOST_AXES


def programs_of(request: Request, rules: tuple[Rule, ...], traced: Traced, clock: Clock, before: Planned | None) -> FrozenGraph | None:
    """The e-graph of programs equal to the one that was traced.  A verdict about its values asks for that one."""
    if request.fusion or request.in_order or not ordered(reachable(rules, traced.program)):
        return None
    if SHARE * min(request.time_budget, clock.left()) < LEAST or not ordered_whole(traced.program):
        return None
    if not request.in_regions and sum(isinstance(t, Reduce) for t in traced.program.terms()) < 2:
        return None  # of a part of a program with one sum, there is no order to look for
    known = before.programs if before is not None else None
    if known is not None and known.program is traced.program and [r.rule for r in known.report.rules] == [r.name for r in rules]:
        return known
    with clock.stage("programs"):
        graph = saturate(
            traced.program, rules=rules, order=True, node_budget=min(NODES, request.node_budget), time_budget=request.time_budget,
            deadline=clock.until(SHARE),
        )  # fmt: skip
        audit(graph, rules)
    return graph


def others(request: Request, graph: FrozenGraph | None, rules: tuple[Rule, ...], clock: Clock) -> Sequence[Choice]:
    """Programs that may be cheaper than the one that was traced."""
    if graph is None:
        return ()
    with clock.stage("choose"):
        ordering = [r.name for r in rules if r.phase == ORDER]
        return other_programs(graph, request.target, ordering, SHARE * request.time_budget, deadline=clock.until(SHARE))


def equal_programs(request: Request, traced: Traced) -> list[Program]:
    """The program, and those that it equals and that may be cheaper.  Of a large program, they are looked for in parts that share products,
    and what is cheaper there by its price takes the place of what is written: there is no time to plan both."""
    clock = Clock()
    clock.begin(request.time_budget, request.deadline)
    rules = active_rules(request)

    def cheaper(program: Program) -> list[Program]:
        own = replace(traced, program=program)
        return [choice.program for choice in others(request, programs_of(request, for_programs(rules), own, clock, None), rules, clock)]

    if ordered_whole(traced.program):
        return [traced.program, *cheaper(traced.program)]
    return [with_other_parts(traced.program, request.target, lambda p: next(iter(cheaper(p)), None)) or traced.program]

"""The plan of a program as one: from the cache, or by saturation and extraction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..egraph import FrozenGraph, saturate
from ..egraph.frozen import RuleCount
from ..egraph.later import Later
from ..egraph.resize import resized
from ..egraph.run import Splits, split_axes
from ..extract import extract, kept
from ..extract.baseline import baseline
from ..extract.hazards import notes
from ..extract.outside import unmatched, withheld
from ..extract.plan import Plan
from ..extract.programs import Another
from ..extract.splits import propose_splits
from ..extract.steering import steer
from ..extract.targets import Target
from ..ir.program import Program
from ..rewrites import Rule, registry
from ..work import count, now
from .clock import Clock
from .debug import audit
from .planned import Planned
from .request import Request, active_rules, is_disabled

if TYPE_CHECKING:
    from ..frontends import Traced

SATURATION_SHARE = 0.6  # of the work for a plan that its saturation may take


def plan_whole(
    request: Request, rules: tuple[Rule, ...], traced: Traced, clock: Clock, before: Planned | None, choice: Another | None
) -> Planned:
    """The plan of a program as one."""
    program = traced.program if choice is None else choice.program
    splits = propose_splits(program, request.target)
    key = key_of("plan", request, rules, program, clock.left(), choice)
    if key is not None:
        with clock.stage("cache"):
            read = kept.read_plan(key, _written(traced.program, program))
        if read is not None:
            count(read.work)
            again = partial(_graph, replace(request, args=None, kwargs=None), rules, program, splits, choice)
            return Planned(request, rules, traced, Later(again, read.sized), read.plan, choice)
    begun = now()
    with clock.stage("saturate"):
        graph = _graph(request, rules, program, splits, choice, before, clock.until(SATURATION_SHARE))
    with clock.stage("check rules"):
        known = [] if choice is None else used_rules(choice.reports, request.rules or ())
        unsure = registry.vouch(list(dict.fromkeys((*used_rules(graph.report.rules, rules), *known))))
    with clock.stage("extract"):
        plan = extracted(request, rules, traced, graph, choice, deadline=clock.until())
    planned = Planned(request, rules, traced, graph, replace(plan, unsure=unsure), choice)
    if key is not None:
        kept.write_plan(key, planned.plan, planned.sized, now() - begun)
    return planned


def key_of(
    kind: str, request: Request, rules: Sequence[Rule], program: Program, seconds: float, choice: Another | None = None
) -> kept.Key | None:
    """What a plan is kept by on disk; ``None`` if it is not to be kept."""
    every = registry.extras((*registry.rules(), *(request.rules or ())))
    off = sorted(r.name for r in every if is_disabled(r, request.disable))
    return kept.key(
        kind, program, request.target, rules, every, seconds, licence=request.licence, objective=request.objective,
        memory_limit=request.memory_limit, fusion=request.fusion, node_budget=request.node_budget, in_regions=request.in_regions,
        in_order=request.in_order, off=off, own=[r.name for r in request.rules or ()],
        chosen=choice is not None and (choice.rules, choice.sized),
    )  # fmt: skip


def used_rules(reports: Sequence[RuleCount], rules: Sequence[Rule]) -> list[Rule]:
    """The rules that matched something in a saturation."""
    matched = {r.rule for r in reports if r.matches}
    return [r for r in rules if r.name in matched]


def as_written(plan: Plan, program: Program, target: Target) -> Plan:
    """A plan as one of the program as written, which it is compared with."""
    if plan.program is program:
        return plan
    known = baseline(program, target)
    return replace(
        plan, program=_written(program, plan.program), baseline_bytes=known.dram_bytes, baseline_kernels=known.kernels,
        baseline_us=known.us, compulsory_bytes=known.compulsory_bytes,
    )  # fmt: skip


def _written(program: Program, planned: Program) -> Program:
    """The program that a plan speaks of: the one as written, unless another one has its results in other parts."""
    return program if [o.name for o in program.outputs] == [o.name for o in planned.outputs] else planned


def _serving(before: Planned, rules: tuple[Rule, ...], program: Program, splits: Splits) -> FrozenGraph | None:
    """The e-graph of an earlier plan, if saturation would make the same one."""
    parts = [(a.name, inner.size) for a, _, inner in before.graph.facts.get("split", ())]
    if before.rules != rules or parts != [(a.name, inner.size) for a, _, inner in split_axes(splits)]:
        return None
    return before.graph if before.graph.program is program else resized(before.graph, program)


def _graph(
    request: Request, rules: tuple[Rule, ...], program: Program, splits: Splits, choice: Another | None,
    before: Planned | None = None, deadline: float = math.inf,
) -> FrozenGraph:  # fmt: skip
    """The e-graph that kernels are found in, or an earlier one that serves."""
    graph = None if before is None else _serving(before, rules, program, splits)
    if graph is None:
        graph = steer(saturated(request, rules, program, splits, deadline), request.fusion)
    if choice is not None:  # what holds for some lengths only holds for no others here, either
        sized = tuple(r for r in choice.reports if r.sized and r.matches)
        graph = replace(graph, report=replace(graph.report, rules=(*graph.report.rules, *sized)))
    return graph


def saturated(request: Request, rules: tuple[Rule, ...], program: Program, splits: Splits, deadline: float = math.inf) -> FrozenGraph:
    """The e-graph of a program by some rules, audited where the environment asks for it."""
    graph = saturate(
        program, rules=rules, splits=splits, node_budget=request.node_budget, time_budget=request.time_budget,
        deadline=deadline,
    )  # fmt: skip
    audit(graph, rules)
    return graph


def extracted(
    request: Request, rules: tuple[Rule, ...], traced: Traced, graph: FrozenGraph, choice: Another | None,
    shares: Mapping[tuple[str, ...], float] = MappingProxyType({}), deadline: float = math.inf,
) -> Plan:  # fmt: skip
    """The cheapest plan, given the share of registers that some kernels may use, with what there is to say of rules that it lacks."""
    plan = extract(
        graph, request.target, time_budget=request.time_budget, objective=request.objective, memory_limit=request.memory_limit,
        exact=request.exact, register_shares=shares, deadline=deadline,
    )  # fmt: skip
    plan = as_written(plan, traced.program, request.target)
    own = request.rules or ()
    chosen = active_rules(request)
    left_out = [r for r in registry.extras((*registry.rules(), *own)) if r not in chosen and not is_disabled(r, request.disable)]
    asked_for = [r for r in own if r in rules]
    refused = (*withheld(left_out, request.licence), *plan.refused, *unmatched(graph, asked_for))
    plan = replace(plan, licence=request.licence, refused=refused, rewritten=choice.rules if choice is not None else ())
    return replace(plan, notes=() if request.exact else notes(plan))

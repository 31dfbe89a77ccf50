"""Which way a program is planned: alternatives as rows, in one loop.

A :class:`Way` says which equal program is planned, by which rules, in which parts, and what plans of these are compared by.  The program as
written is the first way.  Each row of :data:`ROWS` names other ways that may be better than the best plan so far, and says when such a plan
is taken in its place; what is planned in another way is itself compared with the ways of the rows before it::

    as written -> stored once -> least memory -> as one -> in order -> exchanged
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ..egraph import FrozenGraph
from ..egraph.run import for_kernels, for_programs
from ..errors import PlanError
from ..extract import kept
from ..extract.baseline import baseline, eager_ops
from ..extract.hazards import MOVES_FACTORS, in_order_for_nothing, no_dearer
from ..extract.objective import Objective
from ..extract.plan import Plan
from ..extract.programs import Another, forms
from ..extract.programs.candidates import GAIN
from ..extract.quantities import bytes_text
from ..extract.regions import Partition, Region, handed_out, partition, regions, stored_by_several
from ..extract.regions.partition import MOST_AXES
from ..ir.program import Program
from ..rewrites import Rule
from ..work import RATE, count, now, watched
from .clock import Clock, shared_out
from .debug import show
from .exchanged import SHARE, ordered_whole, others, programs_of
from .finish import refined, without_spills
from .planned import Planned, in_parts
from .request import Request, active_rules
from .whole import key_of, plan_whole

if TYPE_CHECKING:
    from ..frontends import Traced

REGION_TERMS = 25  # what planning a region takes whatever it has, in terms of its program
REGION_LEAST = 0.06  # seconds for each different region: with less, the program is planned as one, and its floor is the plan op by op
OP_SECONDS = 0.008  # for a kernel of the plan op by op, about
AMPLE = 1.0  # seconds of a budget of which no share is short, so that what it found holds for all


@dataclass(frozen=True)
class Way:
    """How a program is planned: ``choice`` in its place if there is one, by ``rules``, in the parts of a ``cut`` or as one, compared by an
    ``objective``; the parts are planned until ``end`` on the clock of work."""

    choice: Another | None
    rules: tuple[Rule, ...]
    cut: Partition | None
    objective: str
    end: float = math.inf


class Tried(NamedTuple):
    """A way with its plan."""

    way: Way
    planned: Planned


@dataclass(frozen=True)
class Row:
    """``ways``: what may be better than the best so far.  ``wins``: whether a plan of these takes its place; the third plan is the best of
    the rows before."""

    ways: Callable[[Planner, Tried], Iterable[Way]]
    wins: Callable[[Planner, Plan, Plan, Plan], bool]


def plan(request: Request, before: Planned | None = None, *, quiet: bool = False) -> Planned:
    """Trace, choose among the ways, finish.  What was traced ``before`` is not traced again, and its e-graph serves if it is the same here.
    ``quiet``: for a part of a program, of which nothing is printed or refined."""
    clock = Clock()
    if before is not None:
        traced = before.traced
    else:
        with clock.stage("trace"):
            traced = request.trace()
    with watched(request.time_budget):
        planner = Planner(request, traced, clock, before)
        found = planner.run()
    if request.no_spills and found.parts is None:
        with clock.stage("compile"):
            found = replace(found, plan=without_spills(found))
    if (request.refine or request.tune) and not quiet:
        with clock.stage("refine"):
            found = refined(found)
    found = replace(found, request=request.without_data(), programs=planner.programs, timings=tuple(clock.stages))
    if before is None and not quiet:
        show(found)
    return found


class Planner:
    """The ways of one request.  ``before``: what was planned for it at other sizes or for another target."""

    def __init__(self, request: Request, traced: Traced, clock: Clock, before: Planned | None) -> None:
        self.request, self.traced, self.clock, self.before = request, traced, clock, before
        self.programs: FrozenGraph | None = None
        self.others: tuple[Another, ...] = ()
        self.regions: dict[tuple[str, str], Planned] = {}  # by objective and key
        self.aside = 0.0  # work for plans of other programs
        self.late = False  # a budget, or a share of it, ended some search for a plan

    def run(self) -> Planned:
        """The best plan of the program that was traced, and of those that may be cheaper."""
        request, clock = self.request, self.clock
        clock.begin(request.time_budget, request.deadline)
        chosen = active_rules(request)
        key = key_of("order", request, chosen, self.traced.program, request.time_budget)
        known, begun = None if key is None else kept.known_best(key), now()
        if known is None:
            self.programs = programs_of(request, for_programs(chosen), self.traced, clock, self.before)
            self.others = (*others(request, self.programs, chosen, clock), *self.forms())
        count(known or 0.0)
        looked = now() - begun
        clock.turn(1 + len(self.others))
        found = self.best(self.first(None, for_kernels(chosen)), ROWS).planned
        if self.over(found.plan):
            raise PlanError(
                f"the plan of {self.traced.program.name!r} in regions holds {bytes_text(found.plan.temporary_bytes)}, and "
                f"{bytes_text(int(request.memory_limit or 0))} are the limit",
                cure=f"memory_limit={found.plan.temporary_bytes}, or more",
            )
        ample = request.time_budget >= AMPLE and looked < SHARE * (clock.deadline - begun)  # so nothing had come to its share's end
        if key is not None and ample and self.programs is not None and not self.late and found.choice is None:
            kept.note_best(key, looked + self.aside)
        return found

    def forms(self) -> Iterator[Another]:
        """Other forms of a whole program: of a part of one, what is around it would have to have the form as well."""
        request = self.request
        if request.in_regions and not (request.fusion or request.in_order or request.exact):
            yield from forms(self.traced.program)

    def best(self, way: Way, rows: tuple[Row, ...]) -> Tried:
        """The best plan that is found from a way on.  PlanError if there is none of the way itself."""
        best = Tried(way, self._made(way))
        for k, row in enumerate(rows):
            before = best
            for other in row.ways(self, before):
                with suppress(PlanError):  # no kernel computes it
                    found = self.best(other, rows[:k])
                    if row.wins(self, found.planned.plan, best.planned.plan, before.planned.plan):
                        best = found
            if best.way.choice is not before.way.choice:
                written = before.planned.plan.estimated_us
                best = best._replace(planned=replace(best.planned, plan=replace(best.planned.plan, written_us=written)))
        return best

    def first(self, choice: Another | None, rules: tuple[Rule, ...]) -> Way:
        """The first way of a program."""
        request, program = self.request, self.program(choice)
        cut = self._cut(program)
        again = cut is not None and (cut.one or (cut.large and request.memory_limit is not None and request.objective == "time"))
        return Way(choice, rules, cut, request.objective, self.clock.until(0.5 if again else 1.0))

    def _cut(self, program: Program) -> Partition | None:
        """The regions of a program; ``None`` if it is planned as one."""
        request = self.request
        if not request.in_regions or any(list(v)[:1] == ["require"] for v in request.fusion if isinstance(v, tuple | list)):
            return None
        cut = partition(program, request.target)
        several = any(len(r.outputs) > 1 for r in program.results)  # parts of one tensor, which functions of regions would copy into it
        if not cut.pays or not (cut.large or (request.objective == "time" and not several)):
            return None
        short = self.clock.left() < REGION_LEAST * len({r.key for r in regions(cut)})
        return None if short and self.has_floor(program) and len(program.every_axis) <= MOST_AXES else cut

    def has_floor(self, program: Program) -> bool:
        """Whether there is time for a kernel for every op."""
        return OP_SECONDS * len(eager_ops(program)) <= max(self.request.time_budget, 1.0)

    def program(self, choice: Another | None) -> Program:
        """The program that is planned: the one that was traced, or another in its place."""
        return self.traced.program if choice is None else choice.program

    def over(self, plan: Plan) -> bool:
        """Whether a plan holds more than it may."""
        limit = self.request.memory_limit
        return limit is not None and plan.temporary_bytes > limit

    def better(self, plan: Plan, than: Plan, share: float = 1.0) -> bool:
        """Whether a plan is the better one by the objective: it holds less, or takes less than a share of the time."""
        held = Objective.on(self.request.target, self.request.objective, self.request.memory_limit).held
        if self.request.objective == "memory" and held(plan.temporary_bytes) != held(than.temporary_bytes):
            return held(plan.temporary_bytes) < held(than.temporary_bytes)
        return plan.estimated_us < share * than.estimated_us

    def _made(self, way: Way) -> Planned:
        """The plan of a way."""
        if way.cut is None:
            before = None if way.choice or self.before is None or self.before.parts is not None else self.before
            found = plan_whole(self.request, way.rules, self.traced, self.clock, before, way.choice)
        else:
            with self.clock.stage("regions"):
                found = self._in_regions(way, way.cut)
        self.late |= bool({"time", "clock", "work"} & {found.plan.stopped, found.plan.saturation})
        return found

    def _in_regions(self, way: Way, cut: Partition) -> Planned:
        """Each different region planned by itself, as a request of its own."""
        request, program = replace(self.request, objective=way.objective), self.program(way.choice)
        here, decisions = handed_out(request.fusion, program, regions(cut))
        different = {r.key: r for r in here}
        earlier = {} if self.before is None or self.before.parts is None else self.before.parts.of_key
        for key, end in shared_out({k: _weight(r, request) for k, r in different.items()}, way.end):
            before = earlier.get(key)
            if (way.objective, key) in self.regions:
                continue
            if before is None or before.request.target is not request.target:
                before = plan(region_request(request, program, different[key], end), before, quiet=True)
            self.regions[way.objective, key] = before
        made = {key: self.regions[way.objective, key] for key in different}
        found = in_parts(request, way.rules, self.traced, way.choice, cut, here, made)
        return replace(found, plan=replace(found.plan, decisions=(*found.plan.decisions, *decisions)))


def region_request(request: Request, program: Program, region: Region, deadline: float = math.inf) -> Request:
    """The request for one region.  Memory is what the whole holds, and so is the limit of it.  What a clock leaves for it is no budget,
    which work is counted by: that is the whole's."""
    return replace(
        request, fn=region.program, args=None, kwargs=None, name=None, traced=None, deadline=deadline, memory_limit=None,
        accuracy_factor=None, fusion=region.fusion, in_regions=False, in_order=request.in_order or ordered_whole(program),
    )  # fmt: skip


def _weight(region: Region, request: Request) -> tuple[float, float]:
    return REGION_TERMS + len(region.program.terms()), baseline(region.program, request.target).us


# rows ---------------------------------------------------------------------------------------------------------------------------------


def _stored_once(planner: Planner, best: Tried) -> Iterator[Way]:
    """What several regions would store for themselves is stored once, by a region of its own."""
    way, parts = best.way, best.planned.parts
    if way.cut is None or parts is None:
        return
    also = stored_by_several(parts.regions, [p.plan for p in best.planned.plan.parts])
    if also:
        other = partition(planner.program(way.choice), planner.request.target, also)
        fresh = {r.key for r in regions(other)} - parts.of_key.keys()
        if way.end - now() > RATE * REGION_LEAST * len(fresh):
            yield replace(way, cut=other)


def _least_memory(planner: Planner, best: Tried) -> Iterator[Way]:
    """Regions of a program that cannot be one, whose plans hold less, where those for time hold too much."""
    way = best.way
    if way.cut is not None and way.cut.large and way.objective == "time" and planner.over(best.planned.plan):
        yield replace(way, objective="memory", end=planner.clock.until())


def _as_one(planner: Planner, best: Tried) -> Iterator[Way]:
    """One plan for all of it: it may hold less; where regions take longer than op by op, it computes nothing twice; and where one search
    may see all of it, and no price has made the cuts."""
    way, made = best.way, best.planned.plan
    if way.cut is None:
        return
    dear = made.estimated_us > made.baseline_us and planner.has_floor(planner.program(way.choice))
    if dear or way.cut.one or (planner.over(made) and not way.cut.large):
        yield replace(way, cut=None)


def _in_order(planner: Planner, best: Tried) -> Iterator[Way]:
    """Without the rule that moves factors, if that moves them for nothing.  Regions have seen to it themselves."""
    way = best.way
    if way.cut is None and in_order_for_nothing(best.planned.plan):
        yield replace(way, rules=tuple(r for r in way.rules if r.name != MOVES_FACTORS))


def _exchanged(planner: Planner, best: Tried) -> Iterator[Way]:
    """Equal programs that may be cheaper.  Each has an equal share of the work that is left."""
    for k, choice in enumerate(planner.others):
        planner.clock.turn(len(planner.others) - k)
        begun = now()
        yield planner.first(choice, best.way.rules)
        planner.aside += now() - begun


ROWS = (
    Row(_stored_once, lambda p, plan, best, _: p.better(plan, best)),
    Row(_least_memory, lambda p, plan, best, _: plan.temporary_bytes < best.temporary_bytes),
    Row(_as_one, lambda p, plan, best, _: p.over(best) or p.better(plan, best)),
    Row(_in_order, lambda p, plan, best, _: not plan.notes and no_dearer(plan, best)),
    Row(_exchanged, lambda p, plan, best, written: not p.over(plan) and p.better(plan, written, GAIN) and p.better(plan, best)),
)

"""The whole path as a list of stages: trace, saturate, extract, finish; emission is lazy.

A :class:`Request` is what somebody wants, and does not change.  :func:`run` takes it through the stages; :func:`rerun` takes what came
out for another target or other sizes, and runs only the stages that this changes.

``EQFUSE_DEBUG`` is one ascending knob: 1 prints the plan, 2 stage timings, 3 the rules that fired, 4 the Triton source,
5 the e-graph and every kernel before and after lowering, each level including the lower ones.  ``EQFUSE_AUDIT=1`` audits every
e-graph, and ``EQFUSE_SPEC=1`` checks what stages hand to each other (:mod:`.ir.spec`); the tests run with both on.
"""

from __future__ import annotations

import difflib
import gc
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from . import library  # noqa: F401 -- it tells extraction what the library offers
from .codegen.limits import check_computable
from .egraph import FrozenGraph, audit, saturate
from .egraph.drawn import audit_elements
from .egraph.frozen import member_text
from .egraph.later import Later
from .egraph.reach import reachable
from .egraph.resize import resized
from .egraph.run import (
    Splits,
    for_kernels,
    for_programs,
    ordered,
    parts_of,
    split_axes,
    splits_of,
    way_of,
)
from .errors import AccuracyError, OptionError, PlanError, expect, shown
from .extract import extract, extract_like, kept
from .extract.baseline import baseline, eager_ops
from .extract.covers.shortlist import Shortlists
from .extract.hazards import MOVES_FACTORS, in_order_for_nothing, no_dearer, notes
from .extract.objective import OBJECTIVES, Objective
from .extract.outside import unmatched, withheld
from .extract.plan import Part, Plan
from .extract.programs import Choice, other_programs
from .extract.programs.candidates import GAIN
from .extract.programs.local import with_other_parts
from .extract.quantities import bytes_text
from .extract.regions import Partition, Region, handed_out, partition, regions, stored_by_several, whole_plan
from .extract.regions.partition import MOST_AXES
from .extract.splits import propose_splits
from .extract.steering import steer
from .extract.targets import Target, load_target
from .ir.program import Program
from .ir.terms import Reduce
from .rewrites import Rule, registry
from .rewrites.rule import ORDER
from .runtime.loading import for_optimize
from .work import RATE, count, now, watched

if TYPE_CHECKING:
    from .explain import Explanation
    from .explain.whole import ProgramExplanation
    from .frontends import Traced
    from .runtime.composed import Composed
    from .runtime.executable import Executable
    from .runtime.generated import Generated
    from .runtime.refine import Refiner

LICENCES = ("exact", "real", "approx")  # each allows what stands before it, too


PROGRAM_NODES = 2000  # e-nodes of the saturation for other programs
MOST_ORDERED = PROGRAM_NODES // 8  # terms of a program for which others are looked for; of a larger one for its regions
PROGRAM_SHARE = 0.1  # of the time, for that saturation, and for the choice among what it finds
PROGRAM_LEAST = 0.05  # seconds: where a share is less, the rules for it cannot be compiled, and the program as written is planned
REGION_TERMS = 25  # what planning a region takes whatever it has, in terms of its program
REGION_LEAST = 0.06  # seconds for each different region: with less, the program is planned as one, and its floor is the plan op by op
OP_SECONDS = 0.008  # for a kernel of the plan op by op, about
SATURATION_SHARE = 0.6  # of the time for a plan that its saturation may take
LONGEST_AUDITED_SPLIT = 2048
MOST_REFINED = 64  # candidates of a kernel
MOST_AUDITED = 20_000_000  # numbers that an audit may hold


# what is asked for ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Request:
    """A program with example arguments, and how to plan it: the arguments of :func:`eqfuse.optimize`, checked."""

    fn: Any
    args: Sequence[Any] | None
    kwargs: Mapping[str, Any] | None
    target: Target  # in :func:`checked` its name, too
    licence: str = "real"
    rules: Sequence[Rule] | None = ()  # beside the registered ones
    disable: Sequence[str] = ()  # names of rules and families
    fusion: Sequence[tuple[str, str, str]] = ()
    name: str | None = None
    node_budget: int = 20_000
    time_budget: float = 10.0
    objective: str = "time"
    memory_limit: float | None = None  # bytes
    accuracy_factor: float | None = None
    no_spills: bool = False
    refine: int = 0  # candidates of each kernel that are compiled
    tune: bool = False  # and ordered by the clock
    in_regions: bool = True  # whether a program may be planned in parts,
    in_order: bool = False  # and has to be planned in the order in which it is written
    deadline: float = math.inf  # on the clock of work, of a request that is part of another
    strict: bool = False  # whether what kernels cannot compute is an error
    traced: Traced | None = None  # what was made of ``fn`` before

    def on(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Request:
        """The same for other example arguments.  What compilers and clocks said of kernels is carried over where these serve."""
        return replace(self, args=tuple(args), kwargs=dict(kwargs), traced=None, refine=0, tune=False)

    def without_data(self) -> Request:
        """The same with shapes and types in the places of tensors, which it would keep alive."""
        from .frontends import without_data

        args, kwargs = without_data(self.args, self.kwargs)
        return replace(self, args=args, kwargs=kwargs, deadline=math.inf, traced=None)

    @property
    def exact(self) -> bool:
        """Whether kernels compute what is written, to the bit."""
        return self.licence == "exact"


def checked(request: Request) -> Request:
    """A request as a user gave it, fit for :func:`run`.

    Raises :class:`~eqfuse.errors.OptionError` for options that are none, and what is wrong with target, rules and example arguments.
    """
    _check_numbers(request)
    _check_lists(request)
    _debug_level()
    for_optimize(traced=not isinstance(request.fn, Program))
    from .frontends import example_arguments

    request = replace(
        request, args=example_arguments(request.args), rules=tuple(request.rules or ()), disable=tuple(request.disable),
        fusion=tuple(request.fusion),
    )  # fmt: skip
    active_rules(request)
    return replace(request, target=load_target(request.target))


def _beside(request: Request, args: Sequence[Any]) -> dict[str, Any]:
    """The keyword arguments of an earlier call whose parameters these positional ones do not take."""
    from .frontends.convention import signature_of

    found = signature_of(request.fn)
    taken = list(found[0].parameters)[: len(args)] if found else []
    return {k: v for k, v in (request.kwargs or {}).items() if k not in taken}


def _check_numbers(asked: Request) -> None:
    """Raises :class:`~eqfuse.errors.OptionError` for what is no number, NaN, or out of range.  Infinite budgets are none at all."""
    factor = asked.accuracy_factor
    for option, value, cure in (
        ("node_budget", asked.node_budget, "a number of e-nodes, 0 or more; the default is 20_000"),
        ("time_budget", asked.time_budget, "seconds, 0 or more; the default is 10.0"),
        ("memory_limit", math.inf if asked.memory_limit is None else asked.memory_limit, "bytes, 0 or more; None is no limit"),
        ("accuracy_factor", 1.0 if factor is None else factor, "a number above 0; 2.0 allows twice the error of eager"),
    ):
        number: Any = value if isinstance(value, Real) and not isinstance(value, bool) else math.nan
        good = number >= 0 and (option, number) != ("accuracy_factor", 0)
        expect(good, option, value, cure)
    expect(asked.objective in OBJECTIVES, "objective", asked.objective, " or ".join(map(repr, OBJECTIVES)))
    whole = isinstance(asked.refine, int) and not isinstance(asked.refine, bool) and 0 <= asked.refine <= MOST_REFINED
    expect(whole, "refine", asked.refine, f"a number of candidates of each kernel to compile, 0 to {MOST_REFINED}; 8 is a good one")
    for switch in ("no_spills", "strict", "tune"):
        expect(isinstance(getattr(asked, switch), bool), switch, getattr(asked, switch), "True or False")


def _check_lists(asked: Request) -> None:
    """Raises :class:`~eqfuse.errors.OptionError` for an option that is no list, mapping or text where it has to be."""
    for option, value, cure in (
        ("rules", () if asked.rules is None else asked.rules, "a list of rules: rules=[my_rule]"),
        ("disable", asked.disable, "a list of names: disable=['repair']"),
        ("fusion", () if asked.fusion is None else asked.fusion, "a list of verdicts: fusion=[('forbid', 'out', 'scores')]"),
    ):
        expect(isinstance(value, list | tuple | set | frozenset), option, value, cure)
    kwargs, name = asked.kwargs, asked.name
    by_name = kwargs is None or (isinstance(kwargs, Mapping) and all(isinstance(k, str) for k in kwargs))
    expect(by_name, "kwargs", kwargs, "example arguments by name: kwargs={'x': x}")
    expect(name is None or isinstance(name, str), "name", name, "a text; without it, the function's own name is taken")


def active_rules(request: Request) -> tuple[Rule, ...]:
    """The rules of a request: registered and extra ones that the licence allows, without the disabled."""
    licence, extra, disable = request.licence, request.rules or (), request.disable
    if not isinstance(licence, str) or licence not in LICENCES:
        close = difflib.get_close_matches(licence, LICENCES, n=1) if isinstance(licence, str) else ()
        hint = f"licence={close[0]!r}; " if close else ""
        raise OptionError(f"no licence is called {shown(licence)}", cure=f"{hint}the licences are {', '.join(LICENCES)}")
    for one in extra:
        expect(isinstance(one, Rule), "one of rules=", one, "rules that eqfuse.rule or eqfuse.fusion made: rules=[my_rule]")
    extra = registry.extras(extra)
    known = {name for r in (*registry.rules(), *extra) for name in (r.name, r.family)}
    for name in disable:
        if not isinstance(name, str) or name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1) if isinstance(name, str) else ()
            hint = f"{close[0]!r}; " if close else ""
            raise OptionError(f"cannot disable {shown(name)}: no rule or family is called that", cure=f"{hint}eqfuse.rules() lists them")
        if any(name in (r.name, r.family) for r in registry.analyses()):
            raise OptionError(f"cannot disable {name!r}: every saturation needs the analyses", cure="disable rules of other families")
    allowed = LICENCES[: LICENCES.index(licence) + 1]
    registered = registry.active(licence)
    more = tuple(r for r in extra if r.licence in allowed and r not in registered)
    return tuple(r for r in (*registered, *more) if r.name not in disable and r.family not in disable)


def _used(graph: FrozenGraph, rules: Sequence[Rule]) -> list[Rule]:
    """The rules that matched something in a saturation."""
    matched = {r.rule for r in graph.report.rules if r.matches}
    return [r for r in rules if r.name in matched]


def _disabled(rule: Rule, disable: Sequence[str]) -> bool:
    """Whether somebody asked to leave a rule out."""
    return rule.name in disable or rule.family in disable or not (registry.enabled(rule))


# what comes out -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Planned:
    """A request, and what each stage made of it."""

    request: Request
    rules: tuple[Rule, ...]  # of the saturation for kernels
    traced: Traced
    saturated: FrozenGraph | Later | None  # none for a program that is planned in regions: each has its own
    plan: Plan
    choice: Choice | None = None  # the program that is planned, if it is not the one that was traced
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
        from .runtime.composed import Composed
        from .runtime.generated import Generated

        if self.parts is None:
            return Generated(self.traced, self.sized, self.plan, self.request.target)
        made = {id(p): Generated(p.traced, p.sized, p.plan, self.request.target) for p in self.parts.different}
        return Composed(self.parts.partition, self.parts.regions, tuple(made[id(p)] for p in self.parts.planned), self.plan, self.traced)

    def explain(self, *, costs: bool = False) -> Explanation | ProgramExplanation:
        """Why the plan is what it is."""
        from .explain import Options, explain
        from .explain.whole import ProgramExplanation

        if self.parts is None:
            asked = self.request
            options = Options(self.rules, asked.objective, asked.memory_limit, asked.node_budget, asked.time_budget)
            return explain(self.graph, self.plan, asked.target, options=options, costs=costs)
        found = {id(p): p.explain(costs=costs) for p in self.parts.different}
        every: Any = tuple(found[id(p)] for p in self.parts.planned)
        return ProgramExplanation(self.plan, self.parts.partition, self.parts.regions, every)

    @property
    def executable(self) -> Executable:
        """The plan, to be run."""
        from .runtime.executable import Executable

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


def run(request: Request) -> Planned:
    """All stages.  With ``accuracy_factor``, for as many forms of the request as it takes until a plan is accurate enough."""
    with _old_objects_left_alone():
        if request.accuracy_factor is None:
            return _run(request)
        return _accurate(request, request.accuracy_factor)


def rerun(
    found: Planned, *, target: Target | None = None, args: Sequence[Any] | None = None, kwargs: Mapping[str, Any] | None = None
) -> Planned:
    """The same request for another ``target``, from what was traced; or for arguments of other sizes: the same kernels, roles and tiles.

    Raises :class:`~eqfuse.errors.PlanError` for other sizes if the program has its sizes, or another structure there.
    """
    if target is not None:
        return _run(replace(found.request, target=target), found)
    if found.fixed:
        raise PlanError(
            "the sizes of this program are fixed",
            where=found.traced.program.name,
            cure="call at() on what optimize() returned for a function or module",
        )
    args = args or ()
    request = found.request.on(args, kwargs or _beside(found.request, args))
    known = found.traced.symbolic.made  # for one other size a trace with numbers is quicker than one with symbols
    traced = (found.traced.at(request.args or (), request.kwargs or {}) if known else None) or _trace(request)
    return like(found, request, traced, number=True)


def like(found: Planned, request: Request, traced: Traced, *, number: bool = False) -> Planned:
    """The kernels, roles and tiles of a plan for the program at other sizes.  The parts of an axis that is split over the grid have the
    same length, so that the kernels may be those of yet other sizes; or there is the same ``number`` of parts, however short.

    Raises :class:`~eqfuse.errors.PlanError` if the program has another structure there.
    """
    model = found.plan
    choice = None if found.choice is None else found.choice.at(traced.program)
    if choice is None and found.choice is not None:
        raise PlanError(
            "the order of the program that was planned is not known at these sizes: it has another structure there",
            where=traced.program.name,
            cure="sizes above 1, disable=['order', 'cancelling'], or optimize() for these",
        )
    program = traced.program if choice is None else choice.program
    if found.parts is not None:
        return _parts_like(found, found.parts, request, traced, program, number)
    graph = None if number and model.splits else resized(found.graph, program)
    if graph is None:
        here = {a.place: a for a in program.axes}
        rows = []  # of the splits that the model has
        taken = dict.fromkeys(row for k in model.kernels for row in k.kernel.splits)
        for axis, outer, inner in (row for row in taken if row in found.graph.facts.get("split", ())):
            if whole := here.get(axis.place):
                count = outer.size if number else -(-whole.size // inner.size)
                length = -(-whole.size // count) if number else inner.size
                rows.append((whole, *parts_of(whole, count, length, way_of(axis, outer))))
        splits = splits_of(rows)
        graph = steer(_saturate(request, found.rules, program, splits), request.fusion)
    unsure = registry.vouch(_used(graph, found.rules))
    plan = _as_written(extract_like(graph, request.target, model), traced.program, request.target)
    plan = replace(
        plan, licence=request.licence, refused=model.refused, notes=model.notes, unsure=unsure, rewritten=model.rewritten,
        written_us=model.written_us,
    )  # fmt: skip
    return Planned(request.without_data(), found.rules, traced, graph, plan, choice)


def _parts_like(found: Planned, parts: Parts, request: Request, traced: Traced, program: Program, number: bool) -> Planned:
    """The same for the regions of a plan."""
    there = parts.partition.at(program)
    if there is None:
        raise PlanError("the program has another structure at these sizes", where=program.name, cure="optimize() for these")
    made: dict[str, Planned] = {}
    here, _ = handed_out(request.fusion, program, regions(there))
    for region, known in zip(here, parts.planned, strict=True):
        if region.key not in made:
            own = _own_request(request, program, region)
            own = replace(own, fn=region.program_like(known.traced.program))
            made[region.key] = like(known, own, _trace(own), number=number)
    return _composed(replace(found, request=request.without_data(), traced=traced, choice=found.choice), there, here, made)


def anew(found: Planned, request: Request, traced: Traced) -> Planned:
    """The best plan for the program at other sizes."""
    return _run(request, replace(found, traced=traced))


# stages -------------------------------------------------------------------------------------------------------------------------------


def _run(request: Request, before: Planned | None = None, *, quiet: bool = False) -> Planned:
    """Trace, choose programs, saturate and extract each, finish.  What was traced ``before`` is not traced again, and its e-graph serves
    if it is the same here."""
    clock = _Clock()
    if before is not None:
        traced = before.traced
    else:
        with clock.stage("trace"):
            traced = _trace(request)
    with watched(request.time_budget):
        found, programs = _chosen(request, traced, clock, before)
    if request.no_spills and found.parts is None:
        with clock.stage("compile"):
            found = replace(found, plan=_without_spills(found))
    if (request.refine or request.tune) and not quiet:
        with clock.stage("refine"):
            found = _refined(found)
    found = replace(found, request=request.without_data(), programs=programs, timings=tuple(clock.stages))
    if before is None and not quiet:
        _debug(found)
    return found


def _chosen(request: Request, traced: Traced, clock: _Clock, before: Planned | None) -> tuple[Planned, FrozenGraph | None]:
    """The best plan of the program that was traced, and of those that may be cheaper; and the e-graph of these."""
    clock.begin(request.time_budget, request.deadline)
    chosen = active_rules(request)
    key = _key("order", request, chosen, traced.program, request.time_budget)
    known, begun = None if key is None else kept.known_best(key), now()
    programs = _programs(request, for_programs(chosen), traced, clock, before) if known is None else None
    others = _others(request, programs, chosen, clock)
    count(known or 0.0)
    looked = now() - begun
    clock.turn(1 + len(others))
    found = written = _in_order(request, for_kernels(chosen), traced, clock, before)
    late = _late(written.plan)  # a clock had to do with what is found
    for k, choice in enumerate(others):
        clock.turn(len(others) - k)
        with suppress(PlanError):  # no kernel computes it
            other = _in_order(request, written.rules, traced, clock, None, choice)
            late |= _late(other.plan)
            if _better(request, other.plan, written.plan, GAIN) and (found is written or _better(request, other.plan, found.plan)):
                found = replace(other, plan=replace(other.plan, written_us=written.plan.estimated_us))
    ample = request.time_budget >= 1.0 and looked < PROGRAM_SHARE * (clock.deadline - begun)  # so nothing had come to its share's end
    if key is not None and ample and programs is not None and not late and found is written:
        kept.note_best(key, looked)
    return found, programs


def _trace(request: Request) -> Traced:
    from .frontends import trace

    traced = request.traced
    if traced is None or traced.exact != request.exact:
        traced = trace(request.fn, request.args, request.kwargs, name=request.name, exact=request.exact)
    check_computable(traced.program)
    return traced


def _programs(request: Request, rules: tuple[Rule, ...], traced: Traced, clock: _Clock, before: Planned | None) -> FrozenGraph | None:
    """The e-graph of programs equal to the one that was traced.  A verdict about its values asks for that one."""
    if request.fusion or request.in_order or not ordered(reachable(rules, traced.program)):
        return None
    if PROGRAM_SHARE * min(request.time_budget, clock.left()) < PROGRAM_LEAST or not _ordered_whole(traced.program):
        return None
    if not request.in_regions and sum(isinstance(t, Reduce) for t in traced.program.terms()) < 2:
        return None  # of a part of a program with one sum, there is no order to look for
    known = before.programs if before is not None else None
    if known is not None and known.program is traced.program and [r.rule for r in known.report.rules] == [r.name for r in rules]:
        return known
    with clock.stage("programs"):
        graph = saturate(
            traced.program, rules=rules, order=True, node_budget=min(PROGRAM_NODES, request.node_budget), time_budget=request.time_budget,
            deadline=clock.until(PROGRAM_SHARE),
        )  # fmt: skip
        _audit(graph, rules)
    return graph


def _ordered_whole(program: Program) -> bool:
    """Whether other programs are looked for in all of a program at once; of a larger one they are in its regions."""
    return len(program.terms()) <= MOST_ORDERED and len(program.every_axis) <= MOST_AXES


def _others(request: Request, graph: FrozenGraph | None, rules: tuple[Rule, ...], clock: _Clock) -> Sequence[Choice]:
    """Programs that may be cheaper than the one that was traced."""
    if graph is None:
        return ()
    with clock.stage("choose"):
        ordering = [r.name for r in rules if r.phase == ORDER]
        return other_programs(graph, request.target, ordering, PROGRAM_SHARE * request.time_budget, deadline=clock.until(PROGRAM_SHARE))


def equal_programs(request: Request, traced: Traced) -> list[Program]:
    """The program, and those that it equals and that may be cheaper.  Of a large program, they are looked for in parts that share products,
    and what is cheaper there by its price takes the place of what is written: there is no time to plan both."""
    clock = _Clock()
    clock.begin(request.time_budget, request.deadline)
    rules = active_rules(request)

    def cheaper(program: Program) -> list[Program]:
        own = replace(traced, program=program)
        return [choice.program for choice in _others(request, _programs(request, for_programs(rules), own, clock, None), rules, clock)]

    if _ordered_whole(traced.program):
        return [traced.program, *cheaper(traced.program)]
    return [with_other_parts(traced.program, request.target, lambda p: next(iter(cheaper(p)), None)) or traced.program]


def _better(request: Request, plan: Plan, than: Plan, share: float = 1.0) -> bool:
    """Whether a plan is the better one by the objective: it holds less, or takes less than a share of the time."""
    held = Objective.on(request.target, request.objective, request.memory_limit).held
    if request.objective == "memory" and held(plan.temporary_bytes) != held(than.temporary_bytes):
        return held(plan.temporary_bytes) < held(than.temporary_bytes)
    return plan.estimated_us < share * than.estimated_us


def _in_order(
    request: Request, rules: tuple[Rule, ...], traced: Traced, clock: _Clock, before: Planned | None, choice: Choice | None = None
) -> Planned:
    """The plan by some rules, or without those that move factors if they move them for nothing."""
    found = _planned(request, rules, traced, clock, before, choice)
    if in_order_for_nothing(found.plan):
        other = _planned(request, tuple(r for r in rules if r.name != MOVES_FACTORS), traced, clock, before, choice)
        if not other.plan.notes and no_dearer(other.plan, found.plan):
            found = other
    return found


def _planned(
    request: Request, rules: tuple[Rule, ...], traced: Traced, clock: _Clock, before: Planned | None, choice: Choice | None
) -> Planned:
    """The plan by some rules of what was traced, or of a program that was chosen in its place."""
    program = traced.program if choice is None else choice.program
    limit = math.inf if request.memory_limit is None else request.memory_limit
    if request.in_regions and not any(list(v)[:1] == ["require"] for v in request.fusion if isinstance(v, tuple | list)):
        found = partition(program, request.target)
        several = any(len(r.outputs) > 1 for r in program.results)  # parts of one tensor, which functions of regions would copy into it
        if found.pays and (found.large or (request.objective == "time" and not several)):
            floor = OP_SECONDS * len(eager_ops(program)) <= max(request.time_budget, 1.0)  # there is time for a kernel for every op
            if floor and clock.left() < REGION_LEAST * len({r.key for r in regions(found)}):
                with suppress(PlanError):  # too many axes
                    return _whole(request, rules, traced, clock, before, choice)
            planned = Planned(request, rules, traced, None, None, choice)  # type: ignore[arg-type]  # the plan follows
            composed = _in_regions(planned, program, found, clock, before)
            if found.large or composed.plan.temporary_bytes <= limit:  # else one plan for all of it may hold less
                if floor and composed.plan.estimated_us > composed.plan.baseline_us:  # op by op computes nothing twice
                    with suppress(PlanError):
                        whole = _whole(request, rules, traced, clock, before, choice)
                        return whole if _better(request, whole.plan, composed.plan) else composed
                return composed
    return _whole(request, rules, traced, clock, before, choice)


def _whole(
    request: Request, rules: tuple[Rule, ...], traced: Traced, clock: _Clock, before: Planned | None, choice: Choice | None
) -> Planned:
    """The plan of a program as one."""
    program = traced.program if choice is None else choice.program
    splits = propose_splits(program, request.target)
    key = _key("plan", request, rules, program, clock.left(), choice)
    if key is not None:
        with clock.stage("cache"):
            read = kept.read_plan(key, traced.program)
        if read is not None:
            count(read.work)
            again = partial(_graph, replace(request, args=None, kwargs=None), rules, program, splits, choice)
            return Planned(request, rules, traced, Later(again, read.sized), read.plan, choice)
    begun = now()
    with clock.stage("saturate"):
        graph = _graph(request, rules, program, splits, choice, before, clock.until(SATURATION_SHARE))
    with clock.stage("check rules"):
        known = [] if choice is None else _used(choice.graph, request.rules or ())
        unsure = registry.vouch(list(dict.fromkeys((*_used(graph, rules), *known))))
    planned = Planned(request, rules, traced, graph, None, choice)  # type: ignore[arg-type]  # the plan follows
    with clock.stage("extract"):
        planned = replace(planned, plan=replace(_extract(planned, deadline=clock.until()), unsure=unsure))
    if key is not None:
        kept.write_plan(key, planned.plan, planned.sized, now() - begun)
    return planned


def _key(
    kind: str, request: Request, rules: Sequence[Rule], program: Program, seconds: float, choice: Choice | None = None
) -> kept.Key | None:
    """What a plan is kept by on disk; ``None`` if it is not to be kept."""
    every = registry.extras((*registry.rules(), *(request.rules or ())))
    off = sorted(r.name for r in every if _disabled(r, request.disable))
    return kept.key(
        kind, program, request.target, rules, every, seconds, licence=request.licence, objective=request.objective,
        memory_limit=request.memory_limit, fusion=request.fusion, node_budget=request.node_budget, in_regions=request.in_regions,
        in_order=request.in_order, off=off, own=[r.name for r in request.rules or ()],
        chosen=choice is not None and (choice.rules, choice.graph.sized),
    )  # fmt: skip


def _late(plan: Plan) -> bool:
    """Whether a budget, or a share of it, ended a search for a plan."""
    return bool({"time", "clock"} & {plan.saturation, plan.stopped}) or plan.stopped == "work"


def _in_regions(found: Planned, program: Program, parted: Partition, clock: _Clock, before: Planned | None) -> Planned:
    """The plan of a program in regions.  What several of them would store for themselves is stored once, where that is better."""
    request = found.request
    known = {} if before is None or before.parts is None else before.parts.of_key
    twice = request.memory_limit is not None and request.objective == "time" and parted.large  # again with memory as the objective
    end = clock.until(0.5 if twice else 1.0)
    with clock.stage("regions"):
        composed = _region_by_region(found, program, parted, end, known)
        assert composed.parts is not None
        also = stored_by_several(composed.parts.regions, [p.plan for p in composed.plan.parts])
        if also:
            other = partition(program, request.target, also)
            fresh = {r.key for r in regions(other)} - composed.parts.of_key.keys()
        if also and end - now() > RATE * REGION_LEAST * len(fresh):
            again = _region_by_region(found, program, other, end, {**known, **composed.parts.of_key})
            if _better(request, again.plan, composed.plan):
                composed = again
    held, limit = composed.plan.temporary_bytes, request.memory_limit
    if limit is not None and held > limit and parted.large:
        if request.objective == "time":
            return _in_regions(replace(found, request=replace(request, objective="memory")), program, parted, clock, before)
        raise PlanError(
            f"the plan of {program.name!r} in regions holds {bytes_text(held)}, and {bytes_text(int(limit))} are the limit",
            cure=f"memory_limit={held}, or more",
        )
    return composed


def _region_by_region(found: Planned, program: Program, parted: Partition, end: float, known: Mapping[str, Planned]) -> Planned:
    """Each different region planned by itself.  Half of the time is shared out by the number of terms, which is what planning takes, half
    by what regions take unfused; what is left over goes to those that follow."""
    request = found.request
    here, decisions = handed_out(request.fusion, program, regions(parted))
    different = {r.key: r for r in here}
    terms = {key: REGION_TERMS + len(r.program.terms()) for key, r in different.items()}
    unfused = {key: baseline(r.program, request.target).us for key, r in different.items()}
    made = dict[str, Planned]()
    for key in sorted(different, key=lambda k: (unfused[k], terms[k])):  # small ones leave something over
        region, waiting = different[key], [k for k in different if k not in made]
        share = (terms[key] / sum(terms[k] for k in waiting) + unfused[key] / (sum(unfused[k] for k in waiting) or 1.0)) / 2
        own = _own_request(request, program, region, now() + share * max(end - now(), 0.0))
        before = known.get(key)
        made[key] = before if before is not None and before.request.target is request.target else _run(own, before, quiet=True)
    composed = _composed(found, parted, here, made)
    return replace(composed, plan=replace(composed.plan, decisions=(*composed.plan.decisions, *decisions)))


def _own_request(request: Request, program: Program, region: Region, deadline: float = math.inf) -> Request:
    """The request for one region.  Memory is what the whole holds, and so is the limit of it.  What a clock leaves for it is no budget,
    which work is counted by: that is the whole's."""
    ordered_whole = request.in_order or _ordered_whole(program)
    return replace(
        request, fn=region.program, args=None, kwargs=None, name=None, traced=None, deadline=deadline, memory_limit=None,
        accuracy_factor=None, fusion=region.fusion, in_regions=False, in_order=ordered_whole,
    )  # fmt: skip


def _composed(found: Planned, parted: Partition, here: tuple[Region, ...], made: Mapping[str, Planned]) -> Planned:
    """The plan out of those of its regions."""
    planned = tuple(made[r.key] for r in here)
    parts = [Part(p.plan, r.reads, r.makes) for r, p in zip(here, planned, strict=True)]
    plan = replace(whole_plan(found.traced.program, found.request.target, parts), licence=found.request.licence)
    if found.choice is not None:
        plan = replace(plan, rewritten=found.choice.rules)
    return replace(found, plan=plan, parts=Parts(parted, here, planned))


def _as_written(plan: Plan, program: Program, target: Target) -> Plan:
    """A plan as one of the program as written, which it is compared with."""
    if plan.program is program:
        return plan
    known = baseline(program, target)
    return replace(
        plan, program=program, baseline_bytes=known.dram_bytes, baseline_kernels=known.kernels, baseline_us=known.us,
        compulsory_bytes=known.compulsory_bytes,
    )  # fmt: skip


def _serving(before: Planned, rules: tuple[Rule, ...], program: Program, splits: Splits) -> FrozenGraph | None:
    """The e-graph of an earlier plan, if saturation would make the same one."""
    parts = [(a.name, inner.size) for a, _, inner in before.graph.facts.get("split", ())]
    if before.rules != rules or parts != [(a.name, inner.size) for a, _, inner in split_axes(splits)]:
        return None
    return before.graph if before.graph.program is program else resized(before.graph, program)


def _graph(
    request: Request, rules: tuple[Rule, ...], program: Program, splits: Splits, choice: Choice | None,
    before: Planned | None = None, deadline: float = math.inf,
) -> FrozenGraph:  # fmt: skip
    """The e-graph that kernels are found in, or an earlier one that serves."""
    graph = None if before is None else _serving(before, rules, program, splits)
    if graph is None:
        graph = steer(_saturate(request, rules, program, splits, deadline), request.fusion)
    if choice is not None:  # what holds for some lengths only holds for no others here, either
        sized = tuple(r for r in choice.graph.report.rules if r.sized and r.matches)
        graph = replace(graph, report=replace(graph.report, rules=(*graph.report.rules, *sized)))
    return graph


def _saturate(request: Request, rules: tuple[Rule, ...], program: Program, splits: Splits, deadline: float = math.inf) -> FrozenGraph:
    graph = saturate(
        program, rules=rules, splits=splits, node_budget=request.node_budget, time_budget=request.time_budget,
        deadline=deadline,
    )  # fmt: skip
    _audit(graph, rules)
    return graph


def _extract(found: Planned, shares: Mapping[tuple[str, ...], float] = MappingProxyType({}), deadline: float = math.inf) -> Plan:
    """The cheapest plan, given the share of registers that some kernels may use, with what there is to say of rules that it lacks."""
    request, rules, graph = found.request, found.rules, found.graph
    plan = extract(
        graph, request.target, time_budget=request.time_budget, objective=request.objective, memory_limit=request.memory_limit,
        exact=request.exact, register_shares=shares, deadline=deadline,
    )  # fmt: skip
    plan = _as_written(plan, found.traced.program, request.target)
    own = request.rules or ()
    chosen = active_rules(request)
    left_out = [r for r in registry.extras((*registry.rules(), *own)) if r not in chosen and not _disabled(r, request.disable)]
    asked_for = [r for r in own if r in rules]
    refused = (*withheld(left_out, request.licence), *plan.refused, *unmatched(graph, asked_for))
    plan = replace(plan, licence=request.licence, refused=refused, rewritten=found.choice.rules if found.choice is not None else ())
    return replace(plan, notes=() if request.exact else notes(plan))


# finishing ----------------------------------------------------------------------------------------------------------------------------


def _without_spills(found: Planned) -> Plan:
    from .runtime.spills import without_spills

    def again(shares: Mapping[tuple[str, ...], float]) -> Plan:
        return replace(_extract(found, shares), unsure=found.plan.unsure, written_us=found.plan.written_us)

    return without_spills(found.plan, found.request.target, again, lambda plan: replace(found, plan=plan).executable.compile())


def _refined(found: Planned) -> Planned:
    """The plan with kernels that a compiler, or a clock, finds best among several."""
    from .runtime.refine import TUNED, Asked, Refiner

    request = found.request
    with Refiner(Asked(request.refine or TUNED, request.tune, request.target)) as refiner:
        return _refined_by(refiner, found)


def _refined_by(refiner: Refiner, found: Planned) -> Planned:
    """The same, of a plan in regions each different region."""
    if found.parts is not None:
        made = {key: _refined_by(refiner, p) for key, p in found.parts.of_key.items()}
        again = _composed(found, found.parts.partition, found.parts.regions, made)
        return replace(again, plan=replace(again.plan, decisions=found.plan.decisions))
    request, plan = found.request, found.plan
    key = _key("refine", request, found.rules, plan.program, request.time_budget, found.choice)

    def lists() -> Shortlists:
        return Shortlists(found.graph, request.target, plan, request.time_budget)

    return replace(found, plan=refiner(plan, lists, key.name if key else None))


def _accurate(request: Request, factor: float) -> Planned:
    """The first plan whose error at small sizes is within ``factor`` times eager's; ``plan.accuracy`` says what was tried and refused.

    Raises :class:`~eqfuse.errors.AccuracyError` if none is, or if one cannot be tried.
    """
    from .runtime.accuracy import at_small_sizes

    tried: list[str] = []
    where = "optimize"
    for description, attempt in _attempts(request):
        found = _run(attempt)
        where = found.traced.program.name

        def at(args: Sequence[Any], kwargs: Mapping[str, Any], found: Planned = found) -> Executable:
            return rerun(found, args=args, kwargs=kwargs).executable

        report, sizes = at_small_sizes(found.executable, request.args or (), dict(request.kwargs or {}), None if found.fixed else at)
        worst = max(report.outputs, key=lambda o: (not o.within(factor), o.ours))
        text = f"{description}: error {worst.ours:.1e}, eager {worst.eager:.1e} ({worst.name}, at {sizes})"
        if worst.within(factor):
            said = (*tried, f"within {factor:g} times eager, {text}")
            return replace(found, request=request.without_data(), plan=replace(found.plan, accuracy=said))
        tried.append(f"refused, {text}" + (f", {worst.ours_nonfinite} not finite" if worst.ours_nonfinite else ""))
    raise AccuracyError(
        f"no plan is within {factor:g} times eager's error: {'; '.join(tried)}",
        where=where,
        cure="allow a larger accuracy_factor, or a wider element type",
    )


def _attempts(request: Request) -> Iterator[tuple[str, Request]]:
    """In order of preference: as asked for, by exact rules, by none but those that move views and those that every saturation has."""
    yield f"licence {request.licence!r}", request
    if not request.exact:
        yield "exact rules", replace(request, licence="exact")
    kept = {"layout", *(r.family for r in registry.analyses())}
    others = {r.family for r in (*registry.rules(), *active_rules(request))} - kept
    yield "no rules", replace(request, licence="exact", disable=(*request.disable, *sorted(others)))


# looking ------------------------------------------------------------------------------------------------------------------------------


@contextmanager
def _old_objects_left_alone() -> Iterator[None]:
    """Garbage is looked for among new objects only: with those of torch a full collection takes 0.2 s, more than some budgets."""
    ours = gc.get_freeze_count() == 0
    if ours:
        gc.freeze()
    try:
        yield
    finally:
        if ours:
            gc.unfreeze()


class _Clock:
    """Seconds of CPU by stage, and how much work (:mod:`.work`) there is for the plan that is being made."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, float]] = []
        self.deadline = self.end = math.inf

    def begin(self, seconds: float, deadline: float = math.inf) -> None:
        """All that follows has the work of so many seconds, and not beyond a deadline."""
        self.deadline = self.end = min(now() + RATE * seconds, deadline)

    def turn(self, plans: int) -> None:
        """The next of so many plans begins, each of which has an equal share of the work that is left."""
        self.end = now() + max(self.deadline - now(), 0.0) / plans

    def left(self) -> float:
        """What is left for this plan, in seconds of a budget."""
        return (self.end - now()) / RATE

    def until(self, share: float = 1.0) -> float:
        """When a share of the work that is left for this plan is done."""
        return now() + share * max(self.end - now(), 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.stages.append((name, 1e3 * (time.process_time() - start)))


def _debug(found: Planned) -> None:
    """What ``EQFUSE_DEBUG`` asks for."""
    level = _debug_level()

    def say(text: object) -> None:
        print(text, file=sys.stderr)

    if level >= 1:
        say(found.plan)
    if level >= 2:
        say("timings (CPU ms): " + ", ".join(f"{n} {ms:.0f}" for n, ms in found.timings))
    for graph in found.graphs if level >= 3 else ():
        say(graph.report)
    if level >= 4:
        say(found.executable.source)
    if level >= 5:
        for graph in found.graphs:
            for c, enodes in enumerate(graph.classes):
                for n in enodes:
                    say(f"  {member_text(c, n)}  {n.rule or ''}")
        for k in found.plan.kernels:
            say(f"{k.kernel}\n{k.tiles}")


def _debug_level() -> int:
    """The number in ``EQFUSE_DEBUG``."""
    text = os.environ.get("EQFUSE_DEBUG", "").strip() or "0"
    if not text.isdecimal():
        raise OptionError(f"EQFUSE_DEBUG is {text!r}", cure="a number from 0 to 5 (docs/debug.md)")
    return int(text)


def auditable(graph: FrozenGraph) -> bool:
    """Whether an audit of the graph fits into memory and a moment."""
    long = any(axis.size > LONGEST_AUDITED_SPLIT for axis, *_ in graph.facts.get("split", ()))
    return not long and audit_elements(graph) <= MOST_AUDITED


def _audit(graph: FrozenGraph, rules: Sequence[Rule]) -> None:
    """With ``EQFUSE_AUDIT=1`` every saturated e-graph is evaluated, node by node, before anything is made of it (about 10 ms).

    The audit chooses small extents, but for axes that are split or reshaped, whose extents stand in index expressions: graphs where
    these are long are left to the audit of the same program at small sizes (``Compiled.at``).
    """
    if os.environ.get("EQFUSE_AUDIT", "") not in ("", "0") and auditable(graph):
        audit(graph, rules=rules)

"""The whole path as one function of named stages: trace, saturate, extract; emission is lazy.

``EQFUSE_DEBUG`` is one ascending knob: 1 prints the plan, 2 stage timings, 3 the rules that fired, 4 the Triton source,
5 the e-graph and every kernel before and after lowering, each level including the lower ones.  ``EQFUSE_AUDIT=1`` audits every
e-graph, and ``EQFUSE_SPEC=1`` checks what stages hand to each other (:mod:`.ir.spec`); the tests run with both on.
"""

from __future__ import annotations

import difflib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

from .codegen.limits import check_computable
from .egraph import FrozenGraph, audit, saturate
from .egraph.audit import audit_elements
from .egraph.frozen import member_text
from .errors import OptionError, expect, shown
from .explain import Options
from .extract import extract, extract_like
from .extract.cover import MEMORY_WEIGHT
from .extract.hazards import MOVES_FACTORS, in_order_for_nothing, no_dearer, notes
from .extract.outside import unmatched, withheld
from .extract.splits import propose_splits
from .extract.steering import steer
from .extract.targets import Target, load_target
from .ir.program import Program
from .rewrites import Rule, registry
from .runtime.loading import for_optimize

if TYPE_CHECKING:
    from .extract.plan import Plan
    from .runtime.compiled import Compiled

LICENCES = ("exact", "real", "approx")  # each allows what stands before it, too


LONGEST_AUDITED_SPLIT = 2048
MOST_AUDITED = 20_000_000  # numbers that an audit may hold


class _Timer:
    def __init__(self) -> None:
        self.stages: list[tuple[str, float]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.stages.append((name, 1e3 * (time.process_time() - start)))


def optimize(
    fn: Any,
    args: Sequence[Any] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    target: str | Target = "auto",
    licence: str = "real",
    rules: Sequence[Rule] | None = None,
    disable: Sequence[str] = (),
    fusion: Sequence[tuple[str, str, str]] = (),
    name: str | None = None,
    node_budget: int = 20_000,
    time_budget: float = 10.0,
    memory_weight: float = MEMORY_WEIGHT,
    accuracy_factor: float | None = None,
    no_spills: bool = False,
) -> Compiled:
    """Compile a tensor program into fused Triton kernels.

    ``fn``: a function on torch tensors, an ``nn.Module``, an ``ExportedProgram``, an ``fx.GraphModule``, or an
    :class:`eqfuse.Program`.  ``args``: example arguments (on any one device; only shapes and dtypes are used: kernels take strides at run
    time).  An ``ExportedProgram`` or a ``Program`` has its shapes: arguments may be left out, and those given must fit it.
    ``licence``: the equality that rewrites may claim: ``exact`` (bitwise), ``real`` (over the reals: reassociation, laws of exp),
    ``approx``.  ``rules``: extra rules beside the registered ones; ``disable``: names of rules or families to leave out.
    ``fusion``: verdicts about values of this program by name, ``("forbid", "out", "scores")``, ``("require", ...)``, ``("allow", ...)``.
    ``node_budget`` bounds the e-graph, ``time_budget`` (seconds) its saturation and again the search; a plan is returned in any case
    and says if it stopped early.  ``memory_weight``: what holding a byte of temporary memory beyond a tenth of the
    L2 costs, in bytes moved; 0 asks for speed alone.
    ``accuracy_factor``: try the plan at small sizes in Triton's interpreter, and refuse it if its error against float64 is more than so
    many times that of the eager program; then a plan by exact rules is tried, and one by no rules, and what was refused stands in the
    plan.  AccuracyError if none is left.
    ``no_spills``: compile the plan ahead of time, which takes seconds and no GPU, and plan again with smaller tiles for every kernel of
    which the compiler spills registers to memory; the plan says what was tried, and what spills still if nothing helped.  Without it
    registers are counted by a model, which is right for most kernels and not for all (docs/design.md has the numbers).

    Raises the classes of :mod:`eqfuse.errors`.
    """
    _check_numbers(node_budget, time_budget, memory_weight, accuracy_factor)
    expect(isinstance(no_spills, bool), "no_spills", no_spills, "True or False")
    _check_lists(rules, disable, fusion, kwargs, name)
    level = _debug_level()
    for_optimize(traced=not isinstance(fn, Program))
    from .frontends import example_arguments, trace
    from .runtime.compiled import Compiled

    args = example_arguments(args)
    chosen = _rules(licence, tuple(rules or ()), disable)
    device = load_target(target)
    left_out = [r for r in registry.extras((*registry.rules(), *(rules or ()))) if r not in chosen and not _disabled(r, disable)]
    given = rules
    timer = _Timer()
    with timer.stage("trace"):
        traced = trace(fn, args, kwargs, name=name, exact=licence == "exact")
        check_computable(traced.program)

    graphs: dict[object, FrozenGraph] = {}  # that of one target serves every other one for which the same axes are split

    def saturated(device: Target, rules: tuple[Rule, ...]) -> FrozenGraph:
        splits = propose_splits(traced.program, device)
        key = rules, frozenset(splits.items())
        if key not in graphs:
            graph = saturate(
                traced.program, rules=rules, splits=splits, node_budget=node_budget, time_budget=time_budget, fresh=True
            )  # fmt: skip
            _audit(graph, rules)
            graphs[key] = graph
        return graphs[key]

    def planned(device: Target, rules: tuple[Rule, ...]) -> Callable[[Mapping[tuple[str, ...], float]], Compiled]:
        """What makes a plan by these rules, given the share of registers that some kernels may use."""
        with timer.stage("saturate"):
            graph = saturated(device, rules)
        with timer.stage("check rules"):
            unsure = registry.vouch(_used(graph, rules))
        graph = steer(graph, fusion)
        fixed = isinstance(fn, Program) or traced.static  # it has the sizes that it was made with

        def extracted(shares: Mapping[tuple[str, ...], float]) -> Compiled:
            with timer.stage("extract"):
                plan = extract(
                    graph, device, time_budget=time_budget, memory_weight=memory_weight, exact=licence == "exact", register_shares=shares
                )
            asked_for = [r for r in given or () if r in rules]
            plan = replace(plan, licence=licence, refused=(*withheld(left_out, licence), *plan.refused, *unmatched(graph, asked_for)))
            plan = replace(plan, notes=() if licence == "exact" else notes(plan), unsure=unsure)
            asked = Options(rules, memory_weight, node_budget, time_budget)
            resized = None if fixed else partial(resize, rules)
            return Compiled(traced, graph, plan, device, replan, None if fixed else again, resized, asked)

        return extracted

    def plan_for(device: Target, report: bool) -> Compiled:
        extracted = planned(device, chosen)
        compiled = extracted({})
        if in_order_for_nothing(compiled.plan):
            as_written = planned(device, tuple(r for r in chosen if r.name != MOVES_FACTORS))
            other = as_written({})
            if not other.plan.notes and no_dearer(other.plan, compiled.plan):
                extracted, compiled = as_written, other
        if no_spills:
            from .runtime.spills import without_spills

            with timer.stage("compile"):
                compiled = without_spills(compiled, extracted)
        if report:
            _debug(compiled, timer, level)
        return compiled

    def replan(name: str) -> Compiled:
        return plan_for(load_target(name), report=False)

    def resize(rules: tuple[Rule, ...], model: Plan, new_args: Sequence[Any], new_kwargs: Mapping[str, Any]) -> Compiled:
        small = trace(fn, new_args, new_kwargs or _beside(fn, new_args, kwargs), name=name, exact=licence == "exact")
        named = {a.name: a for a in small.program.axes}
        splits = {named[model.split[0]]: model.split[1]} if model.split and model.split[0] in named else {}
        graph = saturate(small.program, rules=rules, splits=splits, node_budget=node_budget, time_budget=time_budget, fresh=True)
        _audit(graph, rules)
        unsure = registry.vouch(_used(graph, rules))
        graph = steer(graph, fusion)
        plan = replace(extract_like(graph, device, model), licence=licence, refused=model.refused, notes=model.notes, unsure=unsure)
        return Compiled(small, graph, plan, device, replan, options=Options(rules, memory_weight, node_budget, time_budget))

    def again(new_args: Sequence[Any], new_kwargs: Mapping[str, Any]) -> Compiled:
        return optimize(
            fn, new_args, kwargs=new_kwargs, target=device, licence=licence, rules=rules, disable=disable, fusion=fusion, name=name,
            node_budget=node_budget, time_budget=time_budget, memory_weight=memory_weight, accuracy_factor=accuracy_factor,
            no_spills=no_spills,
        )  # fmt: skip

    def attempts() -> Iterator[tuple[str, Compiled]]:
        """Plans in order of preference: as asked for, by exact rules, by none but those that move views."""
        yield f"licence {licence!r}", plan_for(device, report=True)
        common: dict[str, Any] = {
            "kwargs": kwargs, "target": device, "rules": rules, "fusion": fusion, "name": name, "node_budget": node_budget,
            "time_budget": time_budget, "memory_weight": memory_weight, "no_spills": no_spills,
        }  # fmt: skip
        if licence != "exact":
            yield "exact rules", optimize(fn, args, licence="exact", disable=disable, **common)
        others = {r.family for r in (*registry.rules(), *chosen)} - {"layout"}
        yield "no rules", optimize(fn, args, licence="exact", disable=[*disable, *sorted(others)], **common)

    if accuracy_factor is None:
        return plan_for(device, report=True)
    from .runtime.accuracy import first_accurate

    return first_accurate(attempts(), args or (), kwargs, accuracy_factor)


def _beside(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """The keyword arguments of an earlier call whose parameters these positional ones do not take."""
    from .frontends.convention import signature_of

    found = signature_of(fn)
    taken = list(found[0].parameters)[: len(args)] if found else []
    return {k: v for k, v in (kwargs or {}).items() if k not in taken}


def _check_numbers(node_budget: object, time_budget: object, memory_weight: object, accuracy_factor: object) -> None:
    """Raises :class:`~eqfuse.errors.OptionError` for what is no number, NaN, or out of range.  Infinite budgets are none at all."""
    for option, value, cure in (
        ("node_budget", node_budget, "a number of e-nodes, 0 or more; the default is 20_000"),
        ("time_budget", time_budget, "seconds, 0 or more; the default is 10.0"),
        ("memory_weight", memory_weight, f"a finite number, 0 or more; the default is {MEMORY_WEIGHT:g}"),
        ("accuracy_factor", 1.0 if accuracy_factor is None else accuracy_factor, "a number above 0; 2.0 allows twice the error of eager"),
    ):
        number: Any = value if isinstance(value, Real) and not isinstance(value, bool) else math.nan
        good = number >= 0 and (option, number) not in (("memory_weight", math.inf), ("accuracy_factor", 0))
        expect(good, option, value, cure)


def _check_lists(rules: object, disable: object, fusion: object, kwargs: object, name: object) -> None:
    """Raises :class:`~eqfuse.errors.OptionError` for an option that is no list, mapping or text where it has to be."""
    for option, value, cure in (
        ("rules", () if rules is None else rules, "a list of rules: rules=[my_rule]"),
        ("disable", disable, "a list of names: disable=['repair']"),
        ("fusion", () if fusion is None else fusion, "a list of verdicts: fusion=[('forbid', 'out', 'scores')]"),
    ):
        expect(isinstance(value, list | tuple | set | frozenset), option, value, cure)
    by_name = kwargs is None or (isinstance(kwargs, Mapping) and all(isinstance(k, str) for k in kwargs))
    expect(by_name, "kwargs", kwargs, "example arguments by name: kwargs={'x': x}")
    expect(name is None or isinstance(name, str), "name", name, "a text; without it, the function's own name is taken")


def _debug_level() -> int:
    """The number in ``EQFUSE_DEBUG``."""
    text = os.environ.get("EQFUSE_DEBUG", "").strip() or "0"
    if not text.isdecimal():
        raise OptionError(f"EQFUSE_DEBUG is {text!r}", cure="a number from 0 to 5 (docs/debug.md)")
    return int(text)


def _rules(licence: str, extra: Sequence[Rule], disable: Sequence[str]) -> tuple[Rule, ...]:
    """The rules of a call: registered and extra ones that the licence allows, without the disabled."""
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


def _debug(compiled: Compiled, timer: _Timer, level: int) -> None:
    def say(text: object) -> None:
        print(text, file=sys.stderr)

    if level >= 1:
        say(compiled.plan)
    if level >= 2:
        say("timings (CPU ms): " + ", ".join(f"{n} {ms:.0f}" for n, ms in timer.stages))
    if level >= 3:
        say(compiled.graph.report)
    if level >= 4:
        say(compiled.source)
    if level >= 5:
        for c, enodes in enumerate(compiled.graph.classes):
            for n in enodes:
                say(f"  {member_text(c, n)}  {n.rule or ''}")
        for k in compiled.plan.kernels:
            say(f"{k.kernel}\n{k.tiles}")

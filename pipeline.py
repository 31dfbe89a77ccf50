"""The whole path as one function of named stages: trace, saturate, extract; emission is lazy.

``EQFUSE_DEBUG`` is one ascending knob: 1 prints the plan, 2 stage timings, 3 the rules that fired, 4 the Triton source,
5 the e-graph, each level including the lower ones.  ``EQFUSE_AUDIT=1`` audits every e-graph; the tests run with it on.
"""

from __future__ import annotations

import difflib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .codegen.limits import check_computable
from .egraph import FrozenGraph, audit, saturate
from .egraph.audit import audit_elements
from .errors import OptionError
from .extract import extract, extract_like
from .extract.cover import MEMORY_WEIGHT
from .extract.explain import Options
from .extract.outside import unmatched, withheld
from .extract.splits import propose_splits
from .extract.steering import steer
from .extract.targets import Target, load_target
from .ir.program import Program
from .loading import for_optimize
from .rewrites import registry

if TYPE_CHECKING:
    from .extract.plan import Plan
    from .rewrites import Rule
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

    Raises the classes of :mod:`eqfuse.errors`.
    """
    for_optimize(traced=not isinstance(fn, Program))
    import torch

    from .frontends import trace
    from .runtime.compiled import Compiled

    chosen = _rules(licence, tuple(rules or ()), disable)
    device = target if isinstance(target, Target) else load_target(target)
    left_out = [r for r in registry.extras((*registry.rules(), *(rules or ()))) if r not in chosen and not _disabled(r, disable)]
    asked = Options(chosen, memory_weight, node_budget, time_budget)
    timer = _Timer()
    with timer.stage("trace"):
        traced = trace(fn, args, kwargs, name=name, exact=licence == "exact")
        check_computable(traced.program)

    def plan_for(device: Target, report: bool) -> Compiled:
        with timer.stage("saturate"):
            graph = saturate(
                traced.program,
                rules=chosen,
                splits=propose_splits(traced.program, device),
                node_budget=node_budget,
                time_budget=time_budget,
                fresh=True,
            )
        _audit(graph, chosen)
        graph = steer(graph, fusion)
        with timer.stage("extract"):
            plan = extract(graph, device, time_budget=time_budget, memory_weight=memory_weight, exact=licence == "exact")
            given = [r for r in rules or () if r in chosen]
            plan = replace(plan, licence=licence, refused=(*withheld(left_out, licence), *plan.refused, *unmatched(graph, given)))
        fixed = isinstance(fn, Program | torch.export.ExportedProgram)  # it has the sizes that it was made with
        compiled = Compiled(traced, graph, plan, device, replan, None if fixed else again, None if fixed else resize, asked)
        if report:
            _debug(compiled, timer)
        return compiled

    def replan(name: str) -> Compiled:
        return plan_for(load_target(name), report=False)

    def resize(model: Plan, new_args: Sequence[Any], new_kwargs: Mapping[str, Any]) -> Compiled:
        small = trace(fn, new_args, new_kwargs or kwargs, name=name, exact=licence == "exact")
        named = {a.name: a for a in small.program.axes}
        splits = {named[model.split[0]]: model.split[1]} if model.split and model.split[0] in named else {}
        graph = saturate(small.program, rules=chosen, splits=splits, node_budget=node_budget, time_budget=time_budget, fresh=True)
        _audit(graph, chosen)
        graph = steer(graph, fusion)
        plan = replace(extract_like(graph, device, model), licence=licence, refused=model.refused)
        return Compiled(small, graph, plan, device, replan, options=asked)

    def again(new_args: Sequence[Any], new_kwargs: Mapping[str, Any]) -> Compiled:
        return optimize(
            fn, new_args, kwargs=new_kwargs, target=device, licence=licence, rules=rules, disable=disable, fusion=fusion, name=name,
            node_budget=node_budget, time_budget=time_budget, memory_weight=memory_weight, accuracy_factor=accuracy_factor,
        )  # fmt: skip

    def attempts() -> Iterator[tuple[str, Compiled]]:
        """Plans in order of preference: as asked for, by exact rules, by none but those that move views."""
        yield f"licence {licence!r}", plan_for(device, report=True)
        common: dict[str, Any] = {
            "kwargs": kwargs, "target": device, "rules": rules, "fusion": fusion, "name": name, "node_budget": node_budget,
            "time_budget": time_budget, "memory_weight": memory_weight,
        }  # fmt: skip
        if licence != "exact":
            yield "exact rules", optimize(fn, args, licence="exact", disable=disable, **common)
        others = {r.family for r in (*registry.rules(), *chosen)} - {"layout"}
        yield "no rules", optimize(fn, args, licence="exact", disable=[*disable, *sorted(others)], **common)

    if accuracy_factor is None:
        return plan_for(device, report=True)
    from .runtime.accuracy import first_accurate

    if not accuracy_factor > 0:
        raise OptionError(f"accuracy_factor is {accuracy_factor!r}", cure="a number above 0; 2.0 allows twice the error of eager")
    return first_accurate(attempts(), () if args is None else (args,) if isinstance(args, torch.Tensor) else args, kwargs, accuracy_factor)


def _rules(licence: str, extra: Sequence[Rule], disable: Sequence[str]) -> tuple[Rule, ...]:
    """The rules of a call: registered and extra ones that the licence allows, without the disabled."""
    if licence not in LICENCES:
        close = difflib.get_close_matches(str(licence), LICENCES, n=1)
        hint = f"licence={close[0]!r}; " if close else ""
        raise OptionError(f"no licence is called {licence!r}", cure=f"{hint}the licences are {', '.join(LICENCES)}")
    extra = registry.extras(extra)
    known = {name for r in (*registry.rules(), *extra) for name in (r.name, r.family)}
    for name in disable:
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f"{close[0]!r}; " if close else ""
            raise OptionError(f"cannot disable {name!r}: no rule or family is called that", cure=f"{hint}eqfuse.rules() lists them")
    allowed = LICENCES[: LICENCES.index(licence) + 1]
    registered = registry.active(licence)
    more = tuple(r for r in extra if r.licence in allowed and r not in registered)
    return tuple(r for r in (*registered, *more) if r.name not in disable and r.family not in disable)


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


def _debug(compiled: Compiled, timer: _Timer) -> None:
    level = int(os.environ.get("EQFUSE_DEBUG", "0") or 0)

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
                say(f"  c{c} = {n.op}{n.attrs}({', '.join(f'c{a}' for a in n.args)})  {n.rule or ''}")

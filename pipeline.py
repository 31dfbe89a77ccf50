"""The whole path as one function of named stages: trace, saturate, extract; emission is lazy.

``EQFUSE_DEBUG`` is one ascending knob: 1 prints the plan, 2 stage timings, 3 the rules that fired, 4 the Triton source,
5 the e-graph, each level including the lower ones.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .egraph import saturate
from .extract import extract, extract_like
from .extract.splits import propose_splits
from .extract.targets import Target, load_target

if TYPE_CHECKING:
    from .extract.plan import Plan
    from .runtime.compiled import Compiled

LICENCES = ("exact", "real", "approx")


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
    rules: Sequence[Any] | None = None,
    disable: Sequence[str] = (),
    name: str | None = None,
    node_budget: int = 20_000,
    time_budget: float = 10.0,
    memory_weight: float = 10.0,
) -> Compiled:
    """Compile a tensor program into fused Triton kernels.

    ``fn``: a function on torch tensors, an ``nn.Module``, an ``ExportedProgram``, an ``fx.GraphModule``, or an
    :class:`eqfuse.Program`.  ``args``: example arguments (any device; only shapes, dtypes and strides are used).
    ``licence``: the equality that rewrites may claim: ``exact`` (bitwise), ``real`` (over the reals: reassociation, laws of exp),
    ``approx``.  ``rules``: extra rules beside the registered ones; ``disable``: names of rules or families to leave out.
    ``node_budget`` bounds the e-graph, ``time_budget`` (CPU seconds) the search; a plan is returned in any case and says if it
    stopped early.  ``memory_weight``: what holding a byte of temporary memory costs, in bytes moved; 0 asks for speed alone.

    Raises the classes of :mod:`eqfuse.errors`.
    """
    from .frontends import trace
    from .runtime.compiled import Compiled

    if licence not in LICENCES:
        raise ValueError(f"licence is one of {', '.join(LICENCES)}, not {licence!r}")
    device = target if isinstance(target, Target) else load_target(target)
    timer = _Timer()
    with timer.stage("trace"):
        traced = trace(fn, args, kwargs, name=name)

    def plan_for(device: Target, report: bool) -> Compiled:
        with timer.stage("saturate"):
            graph = saturate(
                traced.program,
                licence=licence,
                rules=rules,
                splits=propose_splits(traced.program, device),
                node_budget=node_budget,
                disabled=tuple(disable),
            )
        with timer.stage("extract"):
            plan = extract(graph, device, time_budget=time_budget, memory_weight=memory_weight)
        compiled = Compiled(traced, graph, plan, device, replan, respecialise, resize)
        if report:
            _debug(compiled, timer)
        return compiled

    def replan(name: str) -> Compiled:
        return plan_for(load_target(name), report=False)

    def resize(model: Plan, new_args: Sequence[Any]) -> Compiled:
        small = trace(fn, new_args, kwargs, name=name)
        named = {a.name: a for a in small.program.axes}
        splits = {named[model.split[0]]: model.split[1]} if model.split and model.split[0] in named else {}
        graph = saturate(
            small.program, licence=licence, rules=rules, splits=splits, node_budget=node_budget, disabled=tuple(disable)
        )
        return Compiled(small, graph, extract_like(graph, device, model), device, replan)

    def again(new_args: Sequence[Any]) -> Compiled:
        return optimize(
            fn, new_args, kwargs=kwargs, target=device, licence=licence, rules=rules, disable=disable, name=name,
            node_budget=node_budget, time_budget=time_budget, memory_weight=memory_weight,
        )  # fmt: skip

    respecialise: Callable[[Sequence[Any]], Compiled] | None = again if args is not None else None
    return plan_for(device, report=True)


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

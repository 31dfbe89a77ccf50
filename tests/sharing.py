"""What the tests of one process share: traces of the corpus, e-graphs, audited once, and the plans made of them.

Most tests ask for a program that others have asked for, or for the same program on another target.  A saturation is a function of the
program, the rules, the splits and the budgets, and a plan one of the e-graph, the target and the options, so each is made once for a
worker and given to whoever asks again: the very objects, which are frozen.

It stays right because nothing is shared that could differ.  The key holds the rules, operations, monoids and the dtypes' table
themselves, not their names: a rule or an operation that is declared anew is another one.  Tests that patch something (whatever they
patch: they use ``monkeypatch``) and tests marked ``unaudited`` or ``unshared`` neither take nor give.  What was cut off by a time budget
is made again.  Nothing is kept on disk: the sources are part of what the results hang on, and a change of them is what the tests are for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from math import inf
from typing import Any

MOST = 400_000  # e-nodes that are kept, about 200 MB
TRACES = 100  # that are kept


class Shared:
    """A cache of frozen results, the oldest dropped; keys are kept, so that what they are told apart by stays alive."""

    def __init__(self, most: int) -> None:
        self.most, self.held = most, 0
        self.kept: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self.asked = self.found = 0

    def get(self, key: Any, make: Callable[[], tuple[Any, int]]) -> Any:
        """What is kept for a key, or what ``make`` gives, with its size (below 0: not to be kept)."""
        self.asked += 1
        if key in self.kept:
            self.found += 1
            self.kept.move_to_end(key)
            return self.kept[key][0]
        made, size = make()
        if 0 <= size <= self.most:
            self.kept[key] = made, size
            self.held += size
            while self.held > self.most:
                self.held -= self.kept.popitem(last=False)[1][1]
        return made


class Same:
    """An object as a key: equal to itself alone."""

    def __init__(self, it: Any) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.it is other.it

    def __hash__(self) -> int:
        return id(self.it)


class Sharing:
    """Patches saturation and extraction; ``on`` says whether the test that runs now takes part."""

    def __init__(self) -> None:
        self.on = False
        self.traces, self.graphs, self.plans = Shared(TRACES), Shared(MOST), Shared(MOST)

    def takes_part(self) -> bool:
        """Whether who asks now shares: engines belong to one thread."""
        return self.on and threading.current_thread() is threading.main_thread()

    def start(self) -> Callable[[], None]:
        """Share from now on, until what is returned is called."""
        from dataclasses import replace
        from importlib import import_module

        import torch
        from torch.utils import _pytree

        from eqfuse.frontends.spec import spec_of
        from eqfuse.ir.monoids import MONOIDS
        from eqfuse.ir.ops import OPS
        from eqfuse.planning import Request, whole
        from eqfuse.testing.programs import PROGRAMS

        module: Any = import_module("eqfuse.egraph.saturate")  # the package has a function of that name
        trace, saturated, extract = Request.trace, module.saturated, whole.extract
        corpus = {id(case.fn) for case in PROGRAMS.values()}  # functions of their arguments alone

        def world() -> tuple[Same, ...]:
            return tuple(map(Same, (*OPS.values(), *MONOIDS.values())))

        def trace_of(request: Any) -> Any:
            if not self.takes_part() or id(request.fn) not in corpus:
                return trace(request)
            leaves, spec = _pytree.tree_flatten((request.args, request.kwargs))
            specs = [spec_of(x) for x in leaves]
            given = tuple(repr(x) if s is None else (s, s.sample) for x, s in zip(leaves, specs, strict=True))
            torchs = torch.get_default_dtype(), torch.is_grad_enabled()
            key = Same(request.fn), given, str(spec), request.name, request.exact, torchs, world()
            return self.traces.get(key, lambda: (trace(request), 1))

        def graph_of(
            program: Any,
            rules: Any,
            splits: Any,
            node_budget: Any,
            time_budget: Any,
            deadline: float = inf,
        ) -> Any:
            def make() -> tuple[Any, int]:
                share = self.takes_part()  # then the time of an audit does not count
                graph = saturated(program, rules, splits, node_budget, time_budget, inf if share else deadline)
                return graph, -1 if graph.report.stopped == "time" else graph.enodes

            if not self.takes_part():
                return make()[0]
            key = program.outputs, program.inputs, rules, tuple(sorted(splits.items())), node_budget, time_budget, world()
            graph = self.graphs.get(key, make)
            known = graph.program
            said = (known.name, known.sources, known.names, known.strides, known.samples)
            if said != (program.name, program.sources, program.names, program.strides, program.samples):
                graph = replace(graph, program=program)  # the same but for what the user calls things, and where they lie
            return graph

        def plan_of(graph: Any, target: Any, deadline: float = inf, **options: Any) -> Any:
            def make() -> tuple[Any, int]:
                plan = extract(graph, target, deadline=inf if self.takes_part() else deadline, **options)
                return plan, -1 if plan.stopped == "time" else graph.enodes

            if not self.takes_part() or options.get("register_shares"):
                return make()[0]
            return self.plans.get((Same(graph), Same(target), tuple((k, v) for k, v in sorted(options.items()) if v), world()), make)

        def stop() -> None:
            Request.trace, module.saturated, whole.extract = trace, saturated, extract

        Request.trace, module.saturated, whole.extract = trace_of, graph_of, plan_of
        return stop

"""A program of which kernels compute a part: called like the function, and as ready to say why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from .. import errors
from ..extract.plan import Part, StepPlan, named
from ..extract.targets import Target
from ..frontends import read
from ..frontends.capture import Captured
from ..frontends.naming import function_name
from ..frontends.traced import calling
from ..planning import Planned, Request
from ..planning.composite import Composite, kept
from ..runtime.accuracy import compared, in_float64
from ..runtime.executable import transformed
from .module import source, standalone
from .running import Steps, steps_like, widened

if TYPE_CHECKING:
    from ..runtime.accuracy import AccuracyReport


class Stepped(Composite):
    """A program in steps: pieces of generated kernels, and operators that torch runs between them.

    ``plan`` has the steps with their reasons, ``explain()`` why each piece is planned as it is.  ``optimize(..., strict=True)`` raises
    ``reason`` instead, the first of them.  ``form_of`` plans it for other arguments.  ``model``: one of another function, whose steps
    serve if the graph is the same; ``models``: the plans of the pieces of this one at other sizes, whose kernels are taken.
    """

    kind = "a program in steps"

    def __init__(
        self, captured: Captured, request: Request, reason: errors.EqFuseError, form_of: Callable[[Request], Any], model: Any = None,
        models: Mapping[str, Planned] | None = None,
    ) -> None:  # fmt: skip
        self.name = request.name or function_name(request.fn)
        self.reason, self._form_of = reason, form_of
        self._calling = calling(captured, request.fn, self.name)
        known = steps_like(model.steps, captured) if isinstance(model, Stepped) else None
        self.steps: Steps = known or Steps(captured, request, self.name, models=models)
        self.request, self.inputs = request.without_data(), self.steps.inputs
        self.names = tuple(n for n, o in zip(captured.out_names, captured.outputs, strict=True) if isinstance(o, torch.fx.Node))

    # running --------------------------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the device of the arguments: CUDA tensors the steps, CPU tensors the original program in torch; planned for
        ``target="cpu"``, it is the other way round.

        Other shapes and types are planned for, once each.  Where a gradient is wanted, and inside of transforms of ``torch.func``, the
        original program runs in torch.
        """
        if not torch.compiler.is_compiling() and transformed():
            return self.eager(*args, **kwargs)
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        on_cpu = not any(t.is_cuda for t in tensors)
        if on_cpu != self.request.target.on_cpu:
            return self.eager(*args, **kwargs)
        try:
            bound = self._bound(args, kwargs)
        except (errors.ShapeError, errors.StaticArgumentError):
            return self._variant(args, kwargs)(*args, **kwargs)
        if torch.is_grad_enabled() and any(t.requires_grad for t in bound):
            return self.eager(*args, **kwargs)
        return self._calling.unflatten(self.steps.run(bound))

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """The original program, run by torch."""
        return self._calling.eager(*args, **kwargs)

    def interpret(self, *args: Any, sanitize: bool = True, **kwargs: Any) -> Any:
        """The pieces through Triton's interpreter, on CPU tensors, and torch's operators between them.  What the program writes to its
        arguments or buffers is written."""
        with torch.no_grad():
            return self._calling.unflatten(self.steps.interpret(self._bound(args, kwargs), sanitize=sanitize))

    def simulate(self, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        """The pieces through the numpy tile interpreter, and torch's operators between them, all in one type; what it writes is lost."""
        with torch.no_grad():
            return self._calling.unflatten(self.steps.simulate(self._bound(args, kwargs), dtype))

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """The tensors that ``run`` of the source takes, by name, in order."""
        return dict(zip(self.inputs, self.steps.taken(self._bound(args, kwargs)), strict=True))

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
        return self._calling.bind(*args, **kwargs)

    def _variant(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """This program for arguments of another shape or type; found once for each."""

        def made() -> Any:
            found = self._form_of(self.request.on(args, kwargs))
            if isinstance(found, Stepped):
                found._bound(args, kwargs)  # raises where the program has its sizes itself
            return found

        return kept(self._variants, self._calling.convention.key(args, kwargs), made)

    # knowing --------------------------------------------------------------------------------------------------------------------
    @property
    def plan(self) -> StepPlan:
        """The steps in order: pieces with bytes and modelled time, operators in torch with the reason and the user's line."""
        return self.steps.plan

    @property
    def parts(self) -> Mapping[str, Planned]:
        """The different pieces."""
        first = dict.fromkeys(name for name, part in named(self.plan.parts) if isinstance(part, Part))
        return {name: planned for name in first if (planned := self.steps.pieces[name].planned) is not None}

    def errors(self, args: Sequence[Any], kwargs: Mapping[str, Any], runner: str) -> AccuracyReport:
        """Errors of the floating results of the steps and of the same graph in torch, each against that graph on tensors in float64.  Steps
        that write to arguments or buffers do so on copies."""
        bound, steps = self._bound(args, kwargs), self.steps
        with torch.no_grad():
            run = {"cuda": steps.run, "interpret": steps.interpret, "simulate": steps.simulate}[runner]
            eager = steps.in_torch([t.clone() for t in bound])
            exact = [in_float64(x) for x in steps.in_torch(widened(bound))]
            every = list(zip(self.names, run([t.clone() for t in bound]), eager, exact, strict=True))
        floats: list[tuple[str, torch.Tensor, torch.Tensor, np.ndarray]] = [row for row in every if row[2].is_floating_point()]
        return compared(runner, *map(list, zip(*floats, strict=True)))

    def _module(self, header: str, *, tested: bool) -> str:
        return standalone(self.steps, header, self.names) if tested else source(self.steps, header)

    def at(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Stepped:
        """The kernels of the same pieces for arguments of other sizes."""
        request = self.request.on(args, kwargs)
        captured = read(request.fn, args, kwargs, self.name, exact=request.exact).captured
        if captured is None:
            raise self._lacks("torch between its kernels at these sizes", "optimize() for these")
        models = {name: p.planned for name, p in self.steps.pieces.items() if p.planned is not None}
        found = Stepped(captured, request, self.reason, self._form_of, models=models)
        found._bound(args, kwargs)  # raises where the program has its sizes itself
        return found

    def on(self, target: Target) -> Stepped:
        """The same program planned for another target."""
        return Stepped(self.steps.captured, replace(self.request, target=target), self.reason, self._form_of)

"""What ``optimize`` returns for a program of which kernels compute a part: called like the function, and as ready to say why."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from .. import errors
from ..extract.plan import StepPlan, plan_text
from ..extract.targets import Target, load_target
from ..frontends.capture import Captured
from ..frontends.naming import function_name
from ..frontends.traced import calling
from ..pages import page, page_data
from ..planning import Request
from ..planning.copied import Copied
from ..runtime.executable import transformed
from ..runtime.writing import check_place, write_module
from .accuracy import measure
from .explanation import StepExplanation, explain, why
from .module import source, standalone
from .running import Steps, steps_like

if TYPE_CHECKING:
    from ..explain.why import Why
    from ..runtime.accuracy import AccuracyReport
    from ..runtime.aot import StaticReport
    from ..runtime.estimates import KernelEstimate
    from ..runtime.executable import Executable
    from ..runtime.levels import KernelLayouts

MOST_VARIANTS = 64  # plans for other shapes that one Stepped keeps


class Stepped(Copied):
    """A program in steps: pieces of generated kernels, and operators that torch runs between them.

    ``plan`` has the steps with their reasons, ``explain()`` why each piece is planned as it is.  ``optimize(..., strict=True)`` raises
    ``reason`` instead, the first of them.  ``again`` plans it for other arguments.  ``model``: one of another function, whose
    steps serve if the graph is the same.
    """

    def __init__(
        self, captured: Captured, request: Request, reason: errors.EqFuseError, again: Callable[..., Any], model: Any = None
    ) -> None:
        self.name = request.name or function_name(request.fn)
        self.reason, self._again = reason, again
        self._calling = calling(captured, request.fn, self.name)
        known = steps_like(model.steps, captured) if isinstance(model, Stepped) else None
        self.steps: Steps = known or Steps(captured, request, self.name)
        self._variants: dict[object, Any] = {}
        self.request = request.without_data()

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
        """The pieces through Triton's interpreter, on CPU tensors, and torch's operators between them.

        ``sanitize`` checks bounds, undefined lanes and races.  What the program writes to its arguments or buffers is written.
        """
        errors.expect(isinstance(sanitize, bool), "sanitize", sanitize, "True or False", where="interpret")
        with torch.no_grad():
            return self._calling.unflatten(self.steps.interpret(self._bound(args, kwargs), sanitize=sanitize))

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """The tensors that ``run`` of the source takes, by name, in order."""
        return dict(zip(self.inputs, self.steps.taken(self._bound(args, kwargs)), strict=True))

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
        return self._calling.bind(*args, **kwargs)

    def _variant(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """This program for arguments of another shape or type; found once for each."""
        key = self._calling.convention.key(args, kwargs)
        if key not in self._variants:
            for oldest in list(self._variants)[: 1 - MOST_VARIANTS]:
                del self._variants[oldest]
            found = self._again(self.request.on(args, kwargs))
            if isinstance(found, Stepped):
                found._bound(args, kwargs)  # raises where the program has its sizes itself
            self._variants[key] = found
        return self._variants[key]

    # knowing --------------------------------------------------------------------------------------------------------------------
    @property
    def plan(self) -> StepPlan:
        """The steps in order: pieces with bytes and modelled time, operators in torch with the reason and the user's line."""
        return self.steps.plan

    def explain(self, *, costs: bool = False) -> StepExplanation:
        """Why the plan is what it is: the reasons of what torch runs, and of every different piece all that ``Compiled.explain`` says."""
        errors.expect(isinstance(costs, bool), "costs", costs, "True or False", where="explain")
        return explain(self.steps, self.plan, costs)

    def why(self, a: str, b: str) -> Why:
        """Whether two values share a kernel, and if not, why: of one piece as ``Compiled.why``; of different ones, what stands between."""
        return why(self._explanation, a, b)

    @cached_property
    def _explanation(self) -> StepExplanation:
        return self.explain()

    def html(self) -> str:
        """The steps as one page of HTML, as :meth:`eqfuse.Compiled.html`; what torch runs stands where it runs, with the reason."""
        return page(page_data([(self.plan, self.request.target)]), self.name)

    def compile(self, arch: str | None = None) -> list[StaticReport]:
        """Compile every different kernel ahead of time, as :meth:`eqfuse.Compiled.compile` does."""
        return [report for e in self._for(arch, "compile") for report in e.compile()]

    def estimates(self, arch: str | None = None) -> list[KernelEstimate]:
        """How long every different kernel takes by its machine code, as :meth:`eqfuse.Compiled.estimates` says it."""
        return [found for e in self._for(arch, "estimates") for found in e.estimates()]

    def layouts(self, arch: str | None = None) -> list[KernelLayouts]:
        """Where the elements of every different kernel's tensors are, as :meth:`eqfuse.Compiled.layouts` says it."""
        return [found for e in self._for(arch, "layouts") for found in e.layouts()]

    def _for(self, arch: str | None, where: str) -> list[Executable]:
        """The different pieces, planned for an architecture."""
        errors.expect(arch is None or isinstance(arch, str), "arch", arch, "an architecture, as 'sm_90'", where=where)
        target = self.request.target if arch is None or arch == self.request.target.arch else load_target(arch)
        steps = self.steps if target.arch == self.request.target.arch else self.replan(target).steps
        pieces = (p.executable for p in steps.pieces.values())
        return list({id(e.generated): e for e in pieces if e is not None}.values())

    def accuracy(self, *args: Any, factor: float | None = None, **kwargs: Any) -> AccuracyReport:
        """Errors of the steps (pieces interpreted on CPU tensors, kernels on CUDA ones) and of the program as it is, against torch's own
        in float64.  ``factor``: raise :class:`~eqfuse.errors.AccuracyError` if an error is more than so many times eager's."""
        report = measure(self.steps, self.names, self._bound(args, kwargs))
        if factor is not None:
            report.check(factor)
        return report

    @property
    def names(self) -> tuple[str, ...]:
        """What the tensors are called that it returns."""
        captured = self.steps.captured
        return tuple(n for n, o in zip(captured.out_names, captured.outputs, strict=True) if isinstance(o, torch.fx.Node))

    @property
    def source(self) -> str:
        """One module with the kernels of all pieces and a ``run`` that calls them and torch; it needs only torch and triton, and takes
        the tensors of ``inputs``, of the planned sizes."""
        return source(self.steps, plan_text(self.plan, module=True))

    @property
    def inputs(self) -> tuple[str, ...]:
        """What ``run`` of the source takes: tensor arguments, parameters, buffers and constants, by name."""
        return self.steps.inputs

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the source to a file that a team can keep and that tests itself, as :meth:`eqfuse.Compiled.save` does."""
        check_place(path, self.name, overwrite=overwrite)
        return write_module(path, standalone(self.steps, plan_text(self.plan, module=True), self.names), self.name, overwrite=overwrite)

    def replan(self, target: str | Target) -> Stepped:
        """The same program planned for another target."""
        return Stepped(self.steps.captured, replace(self.request, target=load_target(target)), self.reason, self._again)

    def __repr__(self) -> str:
        p = self.plan
        counts = f"{len(p.pieces)} pieces of {len(p.kernels)} kernels, {p.share.torch.operators} operators in torch"
        return f"<Stepped {self.name}: {counts}, for {p.target}>"

    def __str__(self) -> str:
        return str(self.plan)

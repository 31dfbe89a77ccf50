"""``optimize(fn, args, training=True)``: a forward and a backward plan, and a callable whose result has ``.backward()``.

What autograd computes is recorded as one program (:mod:`.frontends.joint`), put in the order that is cheapest as a whole, and cut in
two by what is worth saving (:mod:`.extract.saving`).  Each pass is then planned as any program is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from .errors import StaticArgumentError, TraceError
from .extract.blocks import bytes_held, step_plan
from .extract.plan import Decision, Part, StepPlan
from .extract.programs.candidates import GAIN
from .extract.saving import Passes, Saved, parted
from .frontends.capture import Source
from .frontends.convention import flattened
from .frontends.joint import Joint, trace_joint
from .frontends.results import taken_apart
from .frontends.spec import on_no_device, spec_of, value_key
from .ir.reference import evaluate
from .ir.sameness import same_program
from .planning import Planned, Request, equal_programs
from .planning.composite import Composite, kept
from .planning.several import planned_apart
from .runtime.accuracy import compared, in_float64
from .runtime.executable import Executable, transformed
from .runtime.training_module import TrainingModule
from .tiles.kernel import Buffer

if TYPE_CHECKING:
    from .runtime.accuracy import AccuracyReport


@dataclass(frozen=True)
class _Slot:
    """Which result of the joint program a value is."""

    name: str


class _Plans(NamedTuple):
    """Both passes, planned."""

    passes: Passes
    parts: Mapping[str, Planned]
    decisions: tuple[Decision, ...]

    @property
    def us(self) -> float:
        """Modelled time."""
        return sum(p.plan.estimated_us for p in self.parts.values())


class Trained(Composite):
    """A program with its backward pass.  Call it like the function it came from; what it returns has ``.backward()``.

    ``forward`` and ``backward`` are executables, each with a plan, a source and ``interpret``; ``saved`` is what lies between them.
    ``model``: one of another function, whose plans serve if the program of both passes is the same.
    """

    kind = "a training step"

    def __init__(self, request: Request, model: Any = None) -> None:
        self.fn = request.fn
        self._shape = self._shape_of(request.args or (), request.kwargs or {})
        self.joint: Joint = trace_joint(self.fn, request.args or (), request.kwargs or {}, request.name, exact=request.exact)
        program = self.joint.traced.program
        self.name, self.inputs = program.name, tuple(self.joint.inputs)
        self.names = tuple(name for name, _ in self.joint.results if name is not None)
        slots = [_Slot(name) for name in program.result_names]
        self._where: dict[str, Any] = self.joint.traced.unflatten(slots)  # by its name there, the result that a value is stored as
        known = isinstance(model, Trained) and self._like(model)
        self._plans: _Plans = model._plans if known else self._planned(request)
        args, kwargs = pytree.tree_map(on_no_device, (request.args, request.kwargs))
        self.request = replace(request.without_data(), args=args, kwargs=kwargs)

    def _like(self, model: Trained) -> bool:
        """Whether both passes are the same program, and so are the names of what they take and give."""
        ours, theirs = self.joint, model.joint
        named = [(list(j.inputs), j.results, j.tangents, j.written, j.gradients) for j in (ours, theirs)]
        one, other = (j.traced.program for j in (ours, theirs))
        return named[0] == named[1] and self._where == model._where and one.strides == other.strides and same_program(other, one, {})

    def _planned(self, request: Request) -> _Plans:
        """The best plans that are found: for the program as written, and for the most promising equal one."""
        program = self.joint.traced.program
        parts = {r.name: r.outputs for r in program.results} or {o.name: (o.name,) for o in program.outputs}
        late = set(self.joint.gradients.values())
        names: tuple[set[str], set[str]] = set(), set()
        for name, slot in self._where.items():
            if isinstance(slot, _Slot):
                names[name in late].update(parts[slot.name])
        alone = replace(request, fn=program, args=None, kwargs=None, name=None, training=False)
        best: _Plans | None = None
        for one in equal_programs(alone, self.joint.traced)[:2]:
            passes = parted(one, set(self.joint.tangents.values()), *names, request.target, request.memory_limit)
            made = _Plans(passes, *planned_apart(request, {"forward": passes.forward, "backward": passes.backward}, "passes"))
            best = made if best is None or made.us < GAIN * best.us else best
        assert best is not None
        return best

    @property
    def passes(self) -> Passes:
        """The programs of both passes."""
        return self._plans.passes

    @property
    def forward(self) -> Executable:
        """The forward pass, to be run."""
        return self.parts["forward"].executable

    @property
    def backward(self) -> Executable:
        """The backward pass."""
        return self.parts["backward"].executable

    # -- knowing -----------------------------------------------------------------------------------------------------------------
    @property
    def saved(self) -> tuple[Saved, ...]:
        """The values of the forward pass that the backward pass reads, arguments left out."""
        return self.passes.saved

    @property
    def saved_bytes(self) -> int:
        """What is held between the passes beside arguments and results."""
        return self.passes.held

    @property
    def parts(self) -> Mapping[str, Planned]:
        """Both passes."""
        return self._plans.parts

    @cached_property
    def plan(self) -> StepPlan:
        """Both passes in order, and what is saved between them."""
        saved = tuple(Buffer(s.input.name, s.dtype, s.input.shape, "output" if s.result else "temporary") for s in self.saved)
        parts = [
            Part(p.plan, p.plan.program.input_names, tuple(o.name for o in p.plan.program.outputs), name) for name, p in self.parts.items()
        ]
        between = {b.name: b.bytes for b in saved if b.role == "temporary"}
        most = max(bytes_held((between if p.name == "forward" else {}, p.reads, p.plan.temporary_bytes) for p in parts))
        return step_plan(
            self.joint.traced.program.name, self.forward.target, parts, self._plans.decisions, temporary_bytes=most, saved=saved
        )

    @cached_property
    def _text(self) -> TrainingModule:
        where = {name: slot.name for name, slot in self._where.items() if isinstance(slot, _Slot)}
        return TrainingModule(self.joint, self.forward, self.backward, where, [s.input.name for s in self.saved])

    def _module(self, header: str, *, tested: bool) -> str:
        return self._text.standalone(header) if tested else self._text.source(header)

    def errors(self, args: Sequence[Any], kwargs: Mapping[str, Any], runner: str) -> AccuracyReport:
        """Errors of results, new values of buffers and gradients, for gradients of the results that are drawn at random."""
        program, specs = self.joint.traced.program, self.joint.traced.specs
        given = {name: t.detach().clone() for name, t in self.bind(args, kwargs).items()}
        device, generator = next(iter(given.values())).device, torch.Generator().manual_seed(0)
        for name in self.joint.tangents.values():
            given[name] = torch.randn(specs[name].shape, generator=generator).to(device, specs[name].dtype)
        with torch.no_grad():
            recorded = self.joint.graph(*given.values())
        names = [n for n in (*self._text.outs, *self._text.new, *self.joint.gradients.values()) if recorded[n] is not None]
        exact = evaluate(program, {name: in_float64(t) for name, t in given.items()})
        kernels: Callable[[Executable], Any] = {
            "cuda": lambda e: e.kernels, "interpret": lambda e: e.interpreted, "simulate": lambda e: e.simulated,
        }[runner]  # fmt: skip
        made = dict(zip(names, self._functions(kernels)["_both"](*given.values()), strict=True))

        def outputs(found: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
            stored = {self._text.where[n]: found[n].detach().cpu() for n in names}
            return taken_apart(program, [stored[name] for name in program.result_names])

        return compared(runner, list(exact), outputs(made), outputs(recorded), list(exact.values()))

    # -- running -----------------------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the device of the arguments: CUDA tensors the kernels of both passes, CPU tensors the original function in torch; planned
        for ``target="cpu"``, it is the other way round.

        Arguments of other shapes and types, and others of which a gradient is wanted, are planned for once each.
        """
        if not torch.compiler.is_compiling() and transformed():  # torch knows how to transform the function
            return self.fn(*args, **kwargs)
        on_cpu = not any(isinstance(x, torch.Tensor) and x.is_cuda for x in pytree.tree_leaves((args, kwargs)))
        if on_cpu != self.request.target.on_cpu or self.forward.missing or self.backward.missing:
            return self.fn(*args, **kwargs)
        shape = self._shape_of(args, kwargs)
        found = self
        if shape != self._shape:
            found = kept(self._variants, shape, lambda: Trained(replace(self.request, args=args, kwargs=kwargs)))
        return found._results(found._run, args, kwargs)

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """The original function."""
        return self.fn(*args, **kwargs)

    def interpret(self, *args: Any, sanitize: bool = True, **kwargs: Any) -> Any:
        """The same by the generated Triton in Triton's interpreter, in both passes, on CPU tensors like the examples."""
        return self._results(self._functions(lambda e: partial(e.interpreted, sanitize=sanitize))["run"], args, kwargs)

    def simulate(self, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        """The same by the numpy tile interpreter."""
        return self._results(self._functions(lambda e: partial(e.simulated, dtype=dtype))["run"], args, kwargs)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """The tensors that ``run`` of the source takes, by name, in order."""
        if self._shape_of(args, kwargs) != self._shape:
            raise StaticArgumentError("these arguments are not like those that were planned for", cure="optimize again for them")
        flat, own = pytree.tree_leaves((tuple(args), dict(kwargs))), held(self.fn)
        return {name: self._tensor(name, s, flat, own) for name, s in self.joint.inputs.items()}

    @cached_property
    def _run(self) -> Callable[..., Any]:
        run: Callable[..., Any] = self._functions(lambda e: e.kernels)["run"]
        return run

    def _functions(self, kernels: Callable[[Executable], Any]) -> dict[str, Any]:
        """What a saved module has, with something in the places of its kernels."""

        def once(backward: Callable[..., Any]) -> Callable[..., Any]:
            def called(ctx: Any, *gradients: torch.Tensor) -> Any:
                if torch.is_grad_enabled():
                    raise TraceError(
                        "a derivative of the backward pass is wanted (create_graph=True), and its kernels have none",
                        where=self.name,
                        cure="call the original function for it",
                    )
                return backward(ctx, *gradients)

            return called

        return self._text.executed(kernels, once)

    def _results(self, run: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the function returns, by ``run`` of the module."""
        given = iter(run(*self.bind(args, kwargs).values()))
        flat = [value if name is None else next(given) for name, value in self.joint.results]
        return pytree.tree_unflatten(flat, self.joint.out_spec)

    def _tensor(self, name: str, source: Source, flat: Sequence[Any], own: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """What is passed for an input."""
        if source.kind == "constant":
            device = next((t.device for t in flat if isinstance(t, torch.Tensor)), None)
            return self.joint.constants[name].detach().to(device)
        found: torch.Tensor = flat[int(source.key)] if source.kind == "argument" else own[str(source.key)]
        return found

    def _shape_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        """Equal for calls that one plan serves."""
        flat, spec = flattened(tuple(args), dict(kwargs))
        training = self.fn.training if isinstance(self.fn, torch.nn.Module) else None
        return tuple(map(_kind, (*flat, *held(self.fn).values()))), str(spec), training


def held(fn: Any) -> dict[str, torch.Tensor]:
    """The parameters and buffers of a module by name; a function holds none."""
    return {**dict(fn.named_parameters()), **dict(fn.named_buffers())} if isinstance(fn, torch.nn.Module) else {}


def _kind(x: Any) -> object:
    """What a plan depends on of an argument."""
    spec = spec_of(x)
    return value_key(x) if spec is None else (spec.shape, spec.dtype, bool(getattr(x, "requires_grad", False)))

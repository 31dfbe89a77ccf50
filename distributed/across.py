"""A function of DTensors as local programs and collectives: planned without a process group, run by PyTorch's.

Local programs are planned and run like any other: as generated kernels on CUDA devices, by the reference on CPUs.  Collectives are
DTensor's ``redistribute``; there is no transport here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ..errors import OptionError, TraceError, expect
from ..extract.blocks import step_plan
from ..extract.plan import Block, Decision, Part, TorchCall
from ..extract.quantities import bytes_text
from ..frontends import Traced, trace
from ..frontends.spec import torch_dtype
from ..ir.program import Output, Program
from ..ir.reference import evaluate
from ..planning import Planned, Request, active_rules
from ..planning.composite import Composite, kept
from ..planning.several import planned_apart
from ..runtime.accuracy import AccuracyReport, compared, in_float64
from ..runtime.executable import array, outputs_of
from .alternatives import Alternative, alternatives, lost
from .arguments import all_arguments, as_function, is_spread, key_of, mesh_of, whole, without_data
from .choice import Allowed, Space
from .cut import cut
from .forms import forms
from .mesh import PARTIAL, REPLICATED, Mesh, Place, place_of
from .outputs import check_results, merged_shape, outermost, places
from .plan import Local, Moved, Placed, Spread
from .search import search
from .simulate import Compute, simulate
from .together import check_same, from_first


class Across(Composite):
    """A program across the devices of a mesh.  Call it like the function it came from, with DTensors; it returns DTensors."""

    kind = "a program across devices"

    def __init__(self, request: Request) -> None:
        limit = request.memory_limit
        expect(limit is None, "memory_limit", limit, "leave it out: with DTensors what devices hold between programs is not bounded")
        self.wanted = request.out_placements
        self.fn, self.call = request.fn, as_function(request.fn)
        args, kwargs = all_arguments(self.fn, request.args or ()), dict(request.kwargs or {})
        self.device_mesh = mesh_of((args, kwargs))
        self.mesh = Mesh.of(self.device_mesh)
        self.traced: Traced = trace(self.call, whole(args), whole(kwargs), name=request.name, exact=request.exact)
        program = self.traced.program
        self.name, self.inputs, self.names = program.name, program.input_names, program.result_names
        check_results(program)
        self.allowed = self._allowed(self._bound(args, kwargs))
        found = forms(self.traced.program, self.mesh, active_rules(request))
        self.space = Space(found, self.mesh, request.target, exact=request.exact)
        check_same(self.device_mesh, f"{self.traced.program}\n{found.members}\n{self.allowed}", self.traced.program.name)
        seconds = max(request.time_budget, 0.1)
        self._plan = cut(self.space, from_first(self.device_mesh, lambda: search(self.space, self.allowed, seconds).chosen))
        self._key = key_of((args, kwargs))
        self.request = replace(request, args=without_data(request.args), kwargs=without_data(request.kwargs))
        if request.fusion or request.accuracy_factor is not None:  # which may be refused
            self._planned  # noqa: B018 - now, not at the first call

    # planning -------------------------------------------------------------------------------------------------------------------------
    def _allowed(self, bound: Mapping[str, Any]) -> Allowed:
        """Where inputs are, and where outputs should be."""
        program = self.traced.program
        inputs: dict[str, list[Place]] = {}
        for i in program.inputs:
            x = bound[i.name]
            inputs[i.name] = [place_of(x.placements, i.layout, self.mesh, i.name) if is_spread(x) else self.mesh.everywhere]
        outputs: dict[str, list[Place]] = {}
        if self.wanted is not None and len(self.wanted) != len(program.outputs):
            raise OptionError(
                f"{len(self.wanted)} placements for {len(program.outputs)} results",
                cure="out_placements=[(Shard(0),), ...], one for each; None leaves one open",
            )
        for o, placements in zip(program.outputs, self.wanted or [None] * len(program.outputs), strict=True):
            if placements is not None:
                outputs[o.name] = [place_of(placements, outermost(program, o), self.mesh, o.name)]
            elif (able := places(program, o, self.mesh)) is not None:
                outputs[o.name] = able
        return Allowed(inputs, outputs)

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The argument for each input, with its place; constants, which the function holds, are on every device."""
        convention = self.traced.convention
        if convention is None:
            return self.traced.bind(*args, **kwargs)
        flat = convention.arranged(args, kwargs)
        return {**{n: flat[k] for n, k in self.traced.arguments.items()}, **self.traced.captured}

    @property
    def plan(self) -> Placed:
        """What each device computes, and what moves in between."""
        return self._plan

    @property
    def parts(self) -> Mapping[str, Planned]:
        """The plans of the local programs, in order."""
        return self._planned[0]

    @cached_property
    def _planned(self) -> tuple[Mapping[str, Planned], tuple[Decision, ...]]:
        return planned_apart(self.request, {s.program.name: s.program for s in self.plan.locals}, "local programs")

    @cached_property
    def block(self) -> Block:
        """The plan of one device; torch moves what moves."""

        def part(s: Local | Moved) -> Part | TorchCall:
            if isinstance(s, Local):
                return Part(self.parts[s.program.name].plan, s.reads, s.makes, s.program.name)
            kinds = ", ".join(step.kind for _, step in s.steps)
            return TorchCall(s.makes, kinds, (s.source,), (s.makes,), "it moves between devices", bytes=s.bytes)

        return step_plan(self.name, self.request.target, [part(s) for s in self.plan.steps], self._planned[1])

    @property
    def remarks(self) -> tuple[str, ...]:
        """On CPUs the reference computes, which lacks nothing."""
        return ()

    def alternatives(self) -> tuple[Alternative, ...]:
        """What else could have been chosen, the cheapest first."""
        return alternatives(self.space, self.allowed, self.plan.chosen)

    @property
    def _said(self) -> str:
        """The plan, which reductions may be merged from parts, and what alternatives cost."""
        lines = [str(self.plan)]
        lines += [f"  {split}: their results can be merged" for split in self.space.forms.splits]
        least = self.plan.chosen.us if self.plan.proved else self.plan.chosen.bound
        proof = f"none takes less than {least:.1f} us without what local programs store for each other"
        lines.append(f"alternatives, by the same model ({proof}):")
        lines += [f"  {a.description}: {lost(self.plan, a)}, {bytes_text(a.bytes)} sent" for a in self.alternatives()]
        return "\n".join(lines)

    # running --------------------------------------------------------------------------------------------------------------------------
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on DTensors, by all processes of the mesh together.  Other shapes, types and placements are planned for, once each.  Where a
        gradient is wanted, PyTorch runs the original program on the DTensors."""
        given = all_arguments(self.fn, args)
        tensors = [x for x in pytree.tree_leaves((given, kwargs)) if isinstance(x, torch.Tensor)]
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return self.fn(*args, **kwargs)
        key = key_of((given, kwargs))
        found = self if key == self._key else kept(self._variants, key, lambda: Across(replace(self.request, args=args, kwargs=kwargs)))
        return found._run(given, kwargs)

    def eager(self, *args: Any, **kwargs: Any) -> Any:
        """The original program, on DTensors by PyTorch."""
        return self.fn(*args, **kwargs)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The tensor of every input."""
        return self._bound(all_arguments(self.fn, args), kwargs)

    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        mesh = mesh_of((args, kwargs))
        if isinstance(mesh, int | Mapping):
            raise TraceError("a DTensorSpec has no data", cure="call it with DTensors, or ask for .plan")
        bound = self._bound(args, kwargs)
        held = {n: x.to_local() if is_spread(x) else x for n, x in bound.items() if n in self.plan.tensors}
        with torch.no_grad():
            for k, step in enumerate(self.plan.steps):
                if isinstance(step, Moved):
                    held[step.makes] = self._move(step, held[step.source], mesh)
                else:
                    held.update(zip(step.makes, self._compute(step, held, mesh), strict=True))
                later = {n for s in self.plan.steps[k + 1 :] for n in (s.reads if isinstance(s, Local) else (s.source,))}
                held = {n: t for n, t in held.items() if n in later or n in self.plan.outputs.values()}
        return self.traced.unflatten([self._result(o, held[self.plan.outputs[o.name]], mesh) for o in self.plan.program.outputs])

    def _result(self, o: Output, local: torch.Tensor, mesh: Any) -> Any:
        """What the function returns of an output."""
        program, t = self.plan.program, self.plan.tensors[self.plan.outputs[o.name]]
        if t.layout == (whole_layout := outermost(program, o)):
            return self._as_dtensor(local, t, mesh)
        placements = _placements(replace(t, layout=whole_layout))
        return _dtensor(local.reshape(merged_shape(program, o, tuple(local.shape))), mesh, placements, merged_shape(program, o, t.shape))

    def _compute(self, step: Local, held: Mapping[str, torch.Tensor], mesh: Any) -> list[torch.Tensor]:
        """What this device makes of what it has."""
        tensors = [held[n] for n in step.reads]
        device = tensors[0].device if tensors else torch.device(mesh.device_type)
        at = mesh.get_coordinate()
        first = (at[p.dimension] * (p.axis.size // self.mesh.sizes[p.dimension]) for p in step.positions)
        tensors += [torch.tensor(n, dtype=torch.int64, device=device) for n in first]
        if device.type == "cuda":
            e = self.parts[step.program.name].executable
            return e.in_order(e(*tensors))
        arrays = {i.name: array(t) for i, t in zip(step.program.inputs, tensors, strict=True)}
        made = evaluate(step.program, arrays)
        return [torch.from_numpy(made[o.name]).to(getattr(torch, o.dtype.name)) for o in step.program.outputs]

    def _move(self, step: Moved, local: torch.Tensor, mesh: Any) -> torch.Tensor:
        """A tensor at another place."""
        source, target = self.plan.tensors[step.source], self.plan.tensors[step.makes]
        found = self._as_dtensor(local, source, mesh)
        for place, _ in step.steps:
            found = found.redistribute(placements=_placements(Spread(step.makes, target.layout, target.dtype, place)))
        return found.to_local().contiguous()

    def _as_dtensor(self, local: torch.Tensor, t: Spread, mesh: Any) -> Any:
        return _dtensor(local, mesh, _placements(t), t.shape)

    def simulate(self, *args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        """The plan on whole tensors, all devices in this process, by the reference in float64: what it means."""
        expect(dtype is None, "dtype", dtype, "None: the reference computes in float64", where="simulate")
        return self._on_arrays(evaluate, args, kwargs)

    def interpret(self, *args: Any, sanitize: bool = True, **kwargs: Any) -> Any:
        """The same by the kernels of every device in Triton's interpreter."""

        def interpreted(program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            e = self.parts[program.name].executable
            given = (torch.from_numpy(np.asarray(arrays[i.name])).to(torch_dtype(program.kept(i))) for i in program.inputs)
            found = e.in_order(e.interpret(*given, sanitize=sanitize))
            return {o.name: array(t) for o, t in zip(program.outputs, found, strict=True)}

        return self._on_arrays(interpreted, args, kwargs)

    def _on_arrays(self, compute: Compute, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The plan on whole tensors."""
        found = simulate(self.plan, {n: array(t) for n, t in self._whole(args, kwargs).items()}, compute)
        return self.traced.unflatten([torch.from_numpy(found[o.name]) for o in self.plan.program.outputs])

    def _whole(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """The whole tensor of every input."""
        return {n: t.full_tensor() if is_spread(t) else t for n, t in self.bind(args, kwargs).items()}

    def errors(self, args: Sequence[Any], kwargs: Mapping[str, Any], runner: str) -> AccuracyReport:
        """Errors of whole results, beside those of the original program on one device."""
        program, given = self.traced.program, self._whole(args, kwargs)
        run: Callable[..., Any] = {"cuda": self.__call__, "interpret": self.interpret, "simulate": self.simulate}[runner]
        assert self.traced.replay is not None, "it was traced"
        results = run(*args, **kwargs), self.traced.replay([given[i.name] for i in program.inputs])
        ours, eager = (outputs_of(self.traced, pytree.tree_map(lambda t: t.full_tensor() if is_spread(t) else t, r)) for r in results)
        exact = evaluate(program, {n: in_float64(t) for n, t in given.items()})
        return compared(runner, list(exact), ours, eager, list(exact.values()))


def _dtensor(local: torch.Tensor, mesh: Any, placements: Sequence[Any], shape: Sequence[int]) -> Any:
    from torch.distributed.tensor import DTensor

    stride = torch.empty(tuple(shape), device="meta").stride()
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=torch.Size(shape), stride=stride)


def _placements(t: Spread) -> list[Any]:
    """DTensor's placements of a tensor."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    special = {REPLICATED: Replicate, PARTIAL: Partial}
    return [Shard(d) if isinstance(d, int) else special[d]() for d in t.dims]

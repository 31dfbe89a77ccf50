"""A function of DTensors as local programs and collectives: planned without a process group, run by PyTorch's.

Local programs are planned and run like any other: as generated kernels on CUDA devices, by the reference on CPUs.  Collectives are
DTensor's ``redistribute``; there is no transport here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ..errors import OptionError, TraceError
from ..extract.quantities import bytes_text
from ..frontends import Traced, trace
from ..ir.program import Output
from ..ir.reference import evaluate
from ..planning import Request, active_rules, run
from ..runtime.executable import Executable
from .alternatives import Alternative, alternatives, lost
from .arguments import all_arguments, as_function, is_spread, key_of, mesh_of, whole, without_data
from .choice import Allowed, Space
from .cut import cut
from .forms import forms
from .mesh import PARTIAL, REPLICATED, Mesh, Place, place_of
from .outputs import check_results, merged_shape, outermost, places
from .plan import Local, Moved, Placed, Spread
from .search import search
from .simulate import simulate
from .together import check_same, from_first

MOST_VARIANTS = 64  # plans for other shapes and placements that one Across keeps


class Across:
    """A program across the devices of a mesh.  Call it like the function it came from, with DTensors; it returns DTensors.

    ``request`` is that of :func:`eqfuse.optimize`; ``outputs``: DTensor's placements for each result, or ``None`` to have them inferred.
    """

    def __init__(self, request: Request, outputs: Sequence[Any] | None = None) -> None:
        self.request, self.wanted = request, outputs
        self.fn, self.call = request.fn, as_function(request.fn)
        args, kwargs = all_arguments(self.fn, request.args or ()), dict(request.kwargs or {})
        self.device_mesh = mesh_of((args, kwargs))
        self.mesh = Mesh.of(self.device_mesh)
        self.traced: Traced = trace(self.call, whole(args), whole(kwargs), name=request.name, exact=request.exact)
        check_results(self.traced.program)
        self.allowed = self._allowed(self._bound(args, kwargs))
        found = forms(self.traced.program, self.mesh, active_rules(request))
        self.space = Space(found, self.mesh, request.target, exact=request.exact)
        check_same(self.device_mesh, f"{self.traced.program}\n{found.members}\n{self.allowed}", self.traced.program.name)
        seconds = max(request.time_budget, 0.1)
        self.plan: Placed = cut(self.space, from_first(self.device_mesh, lambda: search(self.space, self.allowed, seconds).chosen))
        self._variants: dict[object, Across] = {key_of((args, kwargs)): self}
        self.request = replace(request, args=without_data(request.args), kwargs=without_data(request.kwargs))

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

    @cached_property
    def kernels(self) -> tuple[Executable, ...]:
        """The plans of the local programs, in order."""
        return tuple(run(replace(self.request, fn=s.program, args=None, kwargs=None, name=None)).executable for s in self.plan.locals)

    def alternatives(self) -> tuple[Alternative, ...]:
        """What else could have been chosen, the cheapest first."""
        return alternatives(self.space, self.allowed, self.plan.chosen)

    def explain(self) -> str:
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
        if key not in self._variants:
            for oldest in list(self._variants)[: 1 - MOST_VARIANTS]:
                del self._variants[oldest]
            self._variants[key] = Across(replace(self.request, args=args, kwargs=kwargs), self.wanted)
        return self._variants[key]._run(given, kwargs)

    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        mesh = mesh_of((args, kwargs))
        if isinstance(mesh, int | Mapping):
            raise TraceError("a DTensorSpec has no data", cure="call it with DTensors, or ask for .plan")
        bound = self._bound(args, kwargs)
        held = {n: x.to_local() if is_spread(x) else x for n, x in bound.items() if n in self.plan.tensors}
        count = 0  # of local programs that have run
        with torch.no_grad():
            for k, step in enumerate(self.plan.steps):
                if isinstance(step, Moved):
                    held[step.makes] = self._move(step, held[step.source], mesh)
                else:
                    held.update(zip(step.makes, self._compute(step, held, mesh, count), strict=True))
                    count += 1
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

    def _compute(self, step: Local, held: Mapping[str, torch.Tensor], mesh: Any, number: int) -> list[torch.Tensor]:
        """What this device makes of what it has."""
        tensors = [held[n] for n in step.reads]
        device = tensors[0].device if tensors else torch.device(mesh.device_type)
        at = mesh.get_coordinate()
        first = (at[p.dimension] * (p.axis.size // self.mesh.sizes[p.dimension]) for p in step.positions)
        tensors += [torch.tensor(n, dtype=torch.int64, device=device) for n in first]
        if device.type == "cuda":
            found = self.kernels[number](*tensors)
            return list(found) if isinstance(found, tuple) else [found]
        arrays = {i.name: _array(t) for i, t in zip(step.program.inputs, tensors, strict=True)}
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

    def simulate(self, *args: Any, **kwargs: Any) -> Any:
        """The plan on whole tensors, all devices in this process, by the reference in float64: what it means."""
        given = all_arguments(self.fn, args)
        bound = self._bound(given, kwargs)
        found = simulate(self.plan, {n: _array(t) for n, t in bound.items()})
        return self.traced.unflatten([torch.from_numpy(found[o.name]) for o in self.plan.program.outputs])

    def __repr__(self) -> str:
        return f"<Across {self.plan.program.name}: {self.mesh}, {len(self.plan.moves)} moves>"

    def __str__(self) -> str:
        return str(self.plan)


def _dtensor(local: torch.Tensor, mesh: Any, placements: Sequence[Any], shape: Sequence[int]) -> Any:
    from torch.distributed.tensor import DTensor

    stride = torch.empty(tuple(shape), device="meta").stride()
    return DTensor.from_local(local, mesh, placements, run_check=False, shape=torch.Size(shape), stride=stride)


def _placements(t: Spread) -> list[Any]:
    """DTensor's placements of a tensor."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    special = {REPLICATED: Replicate, PARTIAL: Partial}
    return [Shard(d) if isinstance(d, int) else special[d]() for d in t.dims]


def _array(t: torch.Tensor) -> np.ndarray:
    t = t.detach().cpu()
    found: np.ndarray = (t.float() if t.dtype == torch.bfloat16 else t).numpy()
    return found

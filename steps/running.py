"""Steps in order: the outer graph, with kernels or Triton's interpreter in the places of its pieces."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ..extract.plan import StepPlan
from ..frontends.capture import Captured
from ..frontends.readable import readable
from ..frontends.spec import spec_of
from ..frontends.traced import known_number
from ..planning import Request
from ..ranges import Range
from ..rewrites import verdicts
from ..runtime.executable import floating
from ..runtime.interpreter import interpret
from ..runtime.modules import load_module
from .memory import crossing
from .pieces import cut, outer_module
from .plan import plan_of_steps
from .planning import Piece, plan_pieces

if TYPE_CHECKING:
    from collections.abc import Callable


class Steps:
    """A graph in steps, planned by a request.  ``run`` takes the tensors of the graph's placeholders, in order, and returns the tensors
    among its outputs.  ``ranges``: what :func:`.planning.plan_pieces` made of the same graph at other sizes."""

    def __init__(self, captured: Captured, request: Request, name: str, ranges: dict[str, Range] | None = None) -> None:
        self.captured, self.name, self.target = captured, name, request.target
        read = readable(captured)
        self.reason = next(iter(read.unread.values()), None)  # of what torch runs
        self.cut = cut(captured, read, name)
        self._crossing = crossing(self.cut.outer)
        outside = {x.node.name for x in self.cut.library}
        self.pieces, self._decisions = plan_pieces(self.cut.pieces, request, {} if ranges is None else ranges, self._crossing, outside)
        self._kernels = outer_module(self.cut, {k: _Piece(p) for k, p in self.pieces.items()})

    @property
    def inputs(self) -> tuple[str, ...]:
        """What the tensors are called that the steps take."""
        return tuple(n.name for n in self.cut.outer.nodes if n.op == "placeholder")

    @cached_property
    def plan(self) -> StepPlan:
        """The steps, in words and numbers."""
        return plan_of_steps(self.cut, self.pieces, self.name, self.target, self._crossing, self._decisions)

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Pieces as kernels, on the GPU that the tensors are on."""
        return list(self._kernels(*self.taken(tensors)))

    def taken(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Those that the steps need, which are called as :attr:`inputs` says."""
        return [tensors[k] for k in self.cut.takes]

    def interpret(self, tensors: Sequence[torch.Tensor], *, sanitize: bool = True) -> list[torch.Tensor]:
        """Pieces in Triton's interpreter, on CPU tensors."""
        return self._with(lambda p: lambda *given: _interpreted(p, given, sanitize), tensors)

    def simulate(self, tensors: Sequence[torch.Tensor], dtype: Any = None) -> list[torch.Tensor]:
        """Pieces in the numpy tile interpreter, and all in one floating type."""
        kind = floating(dtype)

        def call(piece: Piece) -> Callable[..., Any]:
            e = piece.executable
            if e is None:
                return piece.graph.module
            names = [i.name for i in e.program.inputs]
            return lambda *given: e.simulated(dict(zip(names, given, strict=True)), kind)

        return self._with(call, widened(tensors, torch.from_numpy(np.empty(0, kind)).dtype))

    def in_torch(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Every node in torch."""
        return self._with(lambda p: p.graph.module, tensors)

    def _with(self, call: Callable[[Piece], Callable[..., Any]], tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        pieces = self.pieces

        class Calls(torch.fx.Interpreter):
            def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
                return call(pieces[target])(*args)

        return list(Calls(self._kernels).run(*self.taken(tensors)))


def widened(tensors: Sequence[torch.Tensor], dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    """Copies, those of floating types in one."""
    return [t.to(dtype, copy=True) if t.is_floating_point() else t.clone() for t in tensors]


def steps_like(known: Steps, captured: Captured) -> Steps | None:
    """The same steps for the graph of another function; ``None`` where that is another, or has graphs inside, which are not compared."""
    said = _said(captured)
    if said is None or said != _said(known.captured):
        return None
    made = copy.copy(known)
    made.captured = captured
    return made


def _said(captured: Captured) -> object | None:
    """Equal for graphs of the same operators on the same values, called alike."""
    nodes = list(captured.graph.nodes)
    if any(n.op == "get_attr" for n in nodes):
        return None
    values = [[spec_of(v) if isinstance(v, torch.Tensor) else v for v in pytree.tree_leaves(n.meta.get("val"))] for n in nodes]
    calls = [(n.name, n.op, str(n.target), str(n.args), str(n.kwargs)) for n in nodes]
    sources = [(n.name, s, known_number(s, captured)) for n, s in captured.sources.items()]
    return calls, str(values), str(sources), str(captured.outputs), str(captured.out_spec)


class _Piece(torch.nn.Module):
    """A piece that runs its kernels; one that has none runs in torch."""

    def __init__(self, piece: Piece) -> None:
        super().__init__()
        self._piece = (piece,)  # its graph is no submodule

    def forward(self, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        (piece,) = self._piece
        if piece.executable is None or piece.executable.missing:
            found: Sequence[torch.Tensor] = piece.graph.module(*tensors)
            return found
        e = piece.executable
        if torch.compiler.is_compiling():
            return tuple(e.traced.unflatten(list(e.op(*tensors))))
        return tuple(e.traced.unflatten(list(e.launch(tensors))))


def _interpreted(piece: Piece, tensors: Sequence[torch.Tensor], sanitize: bool) -> Sequence[torch.Tensor]:
    if piece.executable is None or piece.executable.missing:
        found: Sequence[torch.Tensor] = piece.graph.module(*tensors)
        return found
    e = piece.executable
    if e.target.on_cpu:
        return tuple(e.traced.unflatten(list(e.launch(tensors))))
    module = load_module(e.generated.called_source, "interpret")
    with verdicts.running() if e.plan.calls else nullcontext():
        return tuple(e.traced.unflatten(list(interpret(module, "run", *tensors, sanitize=sanitize))))

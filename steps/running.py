"""Steps in order: the functions that a saved module has, with kernels, the interpreter or the simulator where that has kernels."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ..extract.plan import StepPlan
from ..frontends.capture import Captured
from ..frontends.readable import Readable, readable
from ..frontends.spec import spec_of
from ..frontends.symbolic import Symbolic
from ..frontends.traced import known_number
from ..planning import Planned, Request
from ..ranges import Ranges
from ..runtime.executable import Executable, floating
from ..runtime.modules import executed
from .memory import crossing
from .pieces import cut
from .plan import plan_of_steps
from .planning import plan_pieces
from .text import Text, text_of


class Steps:
    """A graph in steps, planned by a request.  ``run`` takes the tensors of the graph's placeholders, in order, and returns the tensors
    among its outputs.  ``ranges`` and ``models``: what :func:`.planning.plan_pieces` made of the same graph at other sizes; ``symbolic``:
    what it is there; ``read``: what of it could be read there."""

    def __init__(
        self, captured: Captured, request: Request, name: str, ranges: Ranges | None = None,
        models: Mapping[str, Planned] | None = None, symbolic: Symbolic | None = None, read: Readable | None = None,
    ) -> None:  # fmt: skip
        self.captured, self.name, self.target = captured, name, request.target
        self.read = readable(captured) if read is None else read.at(captured.graph)
        self.reason = next(iter(self.read.unread.values()), None)  # of what torch runs
        self.cut = cut(captured, self.read, name, symbolic)
        self._crossing = crossing(self.cut.outer)
        outside = {x.node.name for x in self.cut.library}
        known = Ranges() if ranges is None else ranges
        self.pieces, self._decisions = plan_pieces(self.cut.pieces, request, known, self._crossing, outside, models)

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
        return list(self.function(*self.taken(tensors)))

    def taken(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Those that the steps need, which are called as :attr:`inputs` says."""
        return [tensors[k] for k in self.cut.takes]

    def interpret(self, tensors: Sequence[torch.Tensor], *, sanitize: bool = True) -> list[torch.Tensor]:
        """Pieces in Triton's interpreter, on CPU tensors."""
        return list(self.functions(lambda e: partial(e.interpreted, sanitize=sanitize))["run"](*self.taken(tensors)))

    def simulate(self, tensors: Sequence[torch.Tensor], dtype: Any = None) -> list[torch.Tensor]:
        """Pieces in the numpy tile interpreter, and all in one floating type."""
        given = widened(tensors, torch.from_numpy(np.empty(0, floating(dtype))).dtype)
        return list(self.functions(lambda e: partial(e.simulated, dtype=dtype))["run"](*self.taken(given)))

    def in_torch(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Every node in torch."""
        found = self.functions(lambda e: None)
        found |= {f"_{name}": p.graph.module for name, p in self.pieces.items()}
        return list(found["run"](*self.taken(tensors)))

    @cached_property
    def function(self) -> Callable[..., Sequence[torch.Tensor]]:
        """``run`` with kernels, of the tensors of :attr:`inputs`."""
        run: Callable[..., Sequence[torch.Tensor]] = self.functions(lambda e: e.kernels)["run"]
        return run

    @cached_property
    def _text(self) -> Text:
        return text_of(self.cut, self.pieces, here=True)

    def functions(self, kernels: Callable[[Executable], Any]) -> dict[str, Any]:
        """The functions of the steps, with something in the places of kernels."""
        names = {name: kernels(e) for name, e in self._text.kernels.items()}
        return executed("\n\n\n".join(self._text.functions), self._text.held | names)


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

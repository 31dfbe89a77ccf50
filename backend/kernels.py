"""The kernels of a graph, as the backend calls them: planned in this process, or read as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import torch
from torch.fx import Node

from ..frontends.graphs import followed
from ..runtime.interpreter import interpret
from ..runtime.modules import load_module
from ..runtime.native import load
from ..steps.planning import Piece
from ..steps.running import Steps

Run = Callable[..., Sequence[torch.Tensor]]
TENSOR = object()  # among the outputs of a graph


@dataclass(frozen=True, eq=False)
class Kernels:
    """``run``, and ``interpret`` for CPU tensors, take those that ``takes`` says of the tensors of the graph's placeholders and its
    ``constants`` after these; they give those among its ``outputs``, where :data:`TENSOR` stands for each."""

    run: Run
    interpret: Run
    takes: Sequence[int]
    outputs: tuple[Any, ...]
    constants: tuple[torch.Tensor, ...]

    def on(self, args: Sequence[Any], device: torch.device, run: Run) -> Callable[[Sequence[Any]], Sequence[Any]]:
        """One of the two as a function of the graph's arguments, tensors where these are; the constants go to the device once."""
        constants = [t.to(device) for t in self.constants]
        every = [k for k, a in enumerate((*args, *constants)) if isinstance(a, torch.Tensor)]
        places = [every[k] for k in self.takes]
        if places == list(range(len(args))) and all(o is TENSOR for o in self.outputs):
            return lambda args: run(*args)

        def among_others(args: Sequence[Any]) -> list[Any]:
            given = [*args, *constants]
            found = iter(run(*[given[k] for k in places]))
            return [next(found) if o is TENSOR else o for o in self.outputs]

        return among_others


def of_steps(steps: Steps) -> Kernels:
    """Those of a graph in steps."""
    outputs = tuple(TENSOR if isinstance(o, Node) else o for o in steps.captured.outputs)
    takes = steps.cut.takes

    def interpreted(*given: torch.Tensor) -> Sequence[torch.Tensor]:
        tensors = [given[0]] * (1 + max(takes, default=0)) if given else []
        for k, t in zip(takes, given, strict=True):
            tensors[k] = t
        return steps.interpret(tensors, sanitize=False)

    return Kernels(_function(steps), interpreted, takes, outputs, tuple(steps.captured.exported.constants.values()))


def _function(steps: Steps) -> Run:
    """The outer graph as a function whose pieces are functions, without what it costs to call modules."""
    graph = followed(steps.cut.outer)
    code = graph.python_code("self")
    names = dict(code.globals)
    exec(code.src, names)
    attributes = {n.target: getattr(steps.cut.owner, n.target) for n in graph.nodes if n.op == "get_attr"}
    return partial(names["forward"], SimpleNamespace(**attributes, **{name: _piece(p) for name, p in steps.pieces.items()}))


def _piece(piece: Piece) -> Callable[..., Sequence[torch.Tensor]]:
    e = piece.executable
    if e is None or e.missing:
        module: Callable[..., Sequence[torch.Tensor]] = piece.graph.module
        return module
    unflatten = e.traced.unflatten
    return lambda *tensors: unflatten(e.launch(tensors))


def of_text(text: str, takes: Sequence[int], outputs: tuple[Any, ...], constants: tuple[torch.Tensor, ...]) -> Kernels:
    """Those of a module of :mod:`..steps.module`, which is executed when it is first called.  ``takes``: which tensors its ``run`` has."""

    @cache
    def module(purpose: Any) -> Any:
        found = load_module(text, purpose)
        return load(text) if hasattr(found, "_library") else found

    def run(*tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        found: Sequence[torch.Tensor] = module("run").run(*tensors)
        return found

    def interpreted(*tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        found: Sequence[torch.Tensor] = interpret(module("interpret"), "run", *tensors, sanitize=False)
        return found

    return Kernels(run, interpreted, takes, outputs, constants)

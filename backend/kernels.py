"""The kernels of a graph, as the backend calls them: planned in this process, or read as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch.fx import Node

from ..runtime.interpreter import interpret
from ..runtime.modules import load_module
from ..runtime.native import load
from ..steps.running import Steps

TENSOR = object()  # among the outputs of a graph


@dataclass(frozen=True, eq=False)
class Kernels:
    """``run``, and ``interpret`` for CPU tensors, take the tensors of the graph's placeholders and then its ``constants``; they give those
    among its ``outputs``, where :data:`TENSOR` stands for each."""

    run: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
    interpret: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
    outputs: tuple[Any, ...]
    constants: tuple[torch.Tensor, ...]


def of_steps(steps: Steps) -> Kernels:
    """Those of a graph in steps."""
    outputs = tuple(TENSOR if isinstance(o, Node) else o for o in steps.captured.outputs)
    return Kernels(steps.run, partial(steps.interpret, sanitize=False), outputs, tuple(steps.captured.exported.constants.values()))


def of_text(text: str, takes: Sequence[int], outputs: tuple[Any, ...], constants: tuple[torch.Tensor, ...]) -> Kernels:
    """Those of a module of :mod:`..steps.module`, which is executed when it is first called.  ``takes``: which tensors its ``run`` has."""

    @cache
    def module(purpose: Any) -> Any:
        found = load_module(text, purpose)
        return load(text) if hasattr(found, "_library") else found

    def run(tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        found: Sequence[torch.Tensor] = module("run").run(*(tensors[k] for k in takes))
        return found

    def interpreted(tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        found: Sequence[torch.Tensor] = interpret(module("interpret"), "run", *(tensors[k] for k in takes), sanitize=False)
        return found

    return Kernels(run, interpreted, outputs, constants)

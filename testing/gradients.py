"""Results of a function: its outputs, and on request the gradients of its arguments for random cotangents."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .judge import Difference, Result, flat


def results(
    fn: Callable[..., Any],
    args: Sequence[Any],
    *,
    gradients: bool = False,
    exact: bool = False,
    nudge: int | None = None,
    mode: TorchDispatchMode | None = None,
) -> list[Result]:
    """Outputs of ``fn(*args)`` in order, then gradients of the floating-point arguments.

    ``exact``: in float64, with the same numbers.  ``nudge``: seed of rounding errors that are thrown in, in the arguments and after
    every operation: some units of float32 (of float64 if that is the type of the arguments).  ``mode``: what the function, and its
    backward, runs in.  Cotangents are random numbers that every type holds, the same for every function, so an error in them is no
    error of the function.  Raises :class:`Difference` if an output of floating point does not depend on any argument as far as
    autograd knows.
    """
    if nudge is not None:
        double = any(isinstance(a, torch.Tensor) and a.dtype == torch.float64 for a in args)
        with _Rounding(nudge, torch.finfo(torch.float64 if double else torch.float32).eps):
            return _results(fn, args, gradients, exact, nudge, mode)
    return _results(fn, args, gradients, exact, nudge, mode)


def _results(
    fn: Callable[..., Any], args: Sequence[Any], gradients: bool, exact: bool, nudge: int | None, mode: TorchDispatchMode | None
) -> list[Result]:
    within: contextlib.AbstractContextManager[Any] = mode if mode is not None else contextlib.nullcontext()
    inputs = [torch.utils._pytree.tree_map(partial(_double, nudge=nudge), a) if exact else a for a in args]
    if not gradients:
        with within:
            return [Result(f"output {k}", v) for k, v in enumerate(flat(fn(*inputs)))]
    with torch.enable_grad():
        leaves = {k: a.detach().requires_grad_() for k, a in enumerate(inputs) if isinstance(a, torch.Tensor) and a.is_floating_point()}
        with within:
            outputs = flat(fn(*[leaves.get(k, a) for k, a in enumerate(inputs)]))
        found = [Result(f"output {k}", v.detach()) for k, v in enumerate(outputs)]
        ends = [(k, v) for k, v in enumerate(outputs) if v.is_floating_point()]
        for k, v in ends:
            if not v.requires_grad:
                raise Difference("detached", f"output {k} has no gradient: autograd does not know that it depends on the arguments")
        if not ends or not leaves:
            return found
        narrow = next((a.dtype for a in args if isinstance(a, torch.Tensor) and a.is_floating_point()), torch.float32)
        cotangents = [_nudged(_cotangent(v, k), narrow, nudge) for k, v in ends]
        with within:
            pulled = torch.autograd.grad([v for _, v in ends], list(leaves.values()), cotangents, allow_unused=True)
    for (k, leaf), gradient in zip(leaves.items(), pulled, strict=True):
        found.append(Result(f"gradient of argument {k}", torch.zeros_like(leaf) if gradient is None else gradient, gradient=True))
    return found


def _cotangent(output: torch.Tensor, k: int) -> torch.Tensor:
    """Numbers that both bfloat16 and float16 hold, so that every function gets the same, whatever types it goes through."""
    drawn = torch.randn(output.shape, generator=torch.Generator().manual_seed(1000 + k), dtype=torch.float64)
    return drawn.to(torch.bfloat16).to(torch.float16).to(output.device, output.dtype)


def _double(a: Any, nudge: int | None) -> Any:
    return _nudged(a.double(), a.dtype, nudge) if isinstance(a, torch.Tensor) and a.is_floating_point() else a


def _nudged(a: torch.Tensor, dtype: torch.dtype, nudge: int | None) -> torch.Tensor:
    """Each element up to four roundings up or down."""
    if nudge is None:
        return a
    eps = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
    steps = torch.randint(-4, 5, a.shape, generator=torch.Generator().manual_seed(nudge)).to(a.device)
    return a * (1 + eps * steps)


class _Rounding(TorchDispatchMode):
    """Every operation that makes new numbers makes them with rounding errors of the size ``eps``."""

    def __init__(self, seed: int, eps: float) -> None:
        super().__init__()
        self.generator, self.eps = torch.Generator().manual_seed(seed), eps

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._schema.is_mutable or any(r.alias_info is not None for r in func._schema.returns):
            return out  # views, and what works in place
        return torch.utils._pytree.tree_map(self._rounded, out)

    def _rounded(self, x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dtype != torch.float64:
            return x
        steps = torch.randint(-2, 3, x.shape, generator=self.generator).to(x.device)
        return x * (1 + self.eps * steps)

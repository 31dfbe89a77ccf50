"""Generated modules as PyTorch operators, so that ``torch.compile``, ``torch.export`` and autograd can see them.

``register_op`` makes an operator ``eqfuse::<name>_<hash>`` from a module's text: on the device that its kernels are for it runs them,
elsewhere a function in torch that the caller supplies, and on fake tensors it only tells shapes and types.  The backward pass, if asked
for, differentiates that function in torch, as an operator of its own: its accuracy and its memory traffic are torch's, not those of a
fused kernel.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import torch

from ..errors import TraceError
from .modules import load_module, source_hash
from .native import load

Fallback = Callable[..., "torch.Tensor | Sequence[torch.Tensor]"]

_registered: dict[str, dict[Fallback, RegisteredOp]] = {}  # by name, without the number that tells fallbacks apart
_registering = threading.RLock()


@dataclass(frozen=True)
class OutputSpec:
    """Shape and type of one result."""

    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class RegisteredOp:
    """An operator known to torch.  Calling it returns a tuple of tensors, one for each output."""

    name: str  # "eqfuse::softmax_0123456789abcdef"
    op: Any  # the torch operator, for opcheck and for graphs
    captured: tuple[int, ...] = ()  # inputs that the original program holds itself: their gradients would be 0, so they are refused

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if torch.is_grad_enabled() and any(tensors[k].requires_grad for k in self.captured):
            raise TraceError(
                "the original program has captured a tensor that requires a gradient; the operator cannot differentiate it for that tensor",
                where=self.name,
                cure="optimize a function that takes it as an argument, or an nn.Module that holds it",
            )
        return tuple(self.op(list(tensors)))


def register_op(
    source: str, outputs: Sequence[OutputSpec], fallback: Fallback, *, name: str = "fused", differentiable: bool = False,
    device: str = "cuda", buffers: Sequence[int] = (),
) -> RegisteredOp:  # fmt: skip
    """Register the function ``run`` of a generated module, which takes tensors and returns one tensor or several.

    ``device``: "cuda" for kernels in Triton, "cpu" for kernels in C.  ``fallback`` computes the same function with torch operations, and is
    what runs elsewhere, and everywhere without a source.  With ``differentiable`` its
    derivative is the backward pass on every device, but for ``buffers``, inputs by position that get no gradient: torch has none for a
    running mean.  Registering one source again with one fallback returns the first registration;
    with another fallback it is another operator: functions of one source may have captured different tensors.
    """
    qualified = f"eqfuse::{re.sub(r'[^0-9A-Za-z_]', '_', name)}_{source_hash(source)}"
    with _registering:
        known = _registered.setdefault(qualified, {})
        if fallback not in known:
            unique = f"{qualified}_{len(known)}" if known else qualified
            known[fallback] = _register(unique, source, tuple(outputs), fallback, differentiable, device, frozenset(buffers))
        return known[fallback]


def _register(
    qualified: str, source: str, outputs: tuple[OutputSpec, ...], fallback: Fallback, differentiable: bool, device: str,
    buffers: frozenset[int],
) -> RegisteredOp:  # fmt: skip
    def in_torch(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return _fresh([r.contiguous() for r in _listed(fallback(*tensors))], tensors)  # as kernels store them, and fake tensors say

    @cache
    def module() -> ModuleType:
        return load(source) if device == "cpu" else load_module(source, "run")

    def kernels(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return _fresh(_listed(module().run(*tensors)), tensors)

    def on_fake(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return [tensors[0].new_empty(spec.shape, dtype=spec.dtype) for spec in outputs]

    on = {"cpu": in_torch, "cuda": in_torch} | ({device: kernels} if source else {})
    op = torch.library.custom_op(qualified, on["cpu"], mutates_args=(), device_types="cpu", schema="(Tensor[] tensors) -> Tensor[]")
    op.register_kernel("cuda")(on["cuda"])
    op.register_fake(on_fake)
    _register_vmap(op, on_fake)
    if differentiable:
        _register_backward(qualified, op, fallback, outputs, buffers)
    return RegisteredOp(qualified, op)


def _register_vmap(op: Any, on_fake: Callable[..., list[torch.Tensor]]) -> None:
    """``torch.vmap`` of an operator that takes lists of tensors: a call for each member of the batch, and their results stacked."""

    def in_turn(info: Any, in_dims: Sequence[Any], *lists: list[torch.Tensor]) -> tuple[list[torch.Tensor], int]:
        def members(of: Callable[[torch.Tensor, int], torch.Tensor]) -> list[list[torch.Tensor]]:
            return [[t if d is None else of(t, d) for t, d in zip(*pair, strict=True)] for pair in zip(lists, in_dims, strict=True)]

        each = [op(*members(lambda t, d, k=k: t.select(d, k))) for k in range(info.batch_size)]  # type: ignore[misc]
        if each:
            return [torch.stack(results) for results in zip(*each, strict=True)], 0
        one = on_fake(*members(lambda t, d: t.new_empty((*t.shape[:d], *t.shape[d + 1 :]))))
        return [r.new_empty((0, *r.shape)) for r in one], 0

    op.register_vmap(in_turn)


def _register_backward(qualified: str, op: Any, fallback: Fallback, outputs: tuple[OutputSpec, ...], buffers: frozenset[int]) -> None:
    """Backward is an operator, too: opaque to tracing, so that the derivative of ``fallback`` is taken when it runs."""

    def varying(tensors: Sequence[torch.Tensor]) -> list[int]:
        return [i for i, t in enumerate(tensors) if t.is_floating_point() and i not in buffers]

    def pull_back(tensors: list[torch.Tensor], cotangents: list[torch.Tensor]) -> list[torch.Tensor]:
        floating = varying(tensors)

        def of_floating(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
            arguments = list(tensors)
            for i, value in zip(floating, values, strict=True):
                arguments[i] = value
            results = _listed(fallback(*arguments))
            return tuple(r for r, spec in zip(results, outputs, strict=True) if spec.dtype.is_floating_point)

        _, pull = torch.func.vjp(of_floating, *(tensors[i] for i in floating))
        return _fresh([g.contiguous() for g in pull(tuple(cotangents))], [*tensors, *cotangents])

    def fake(tensors: list[torch.Tensor], cotangents: list[torch.Tensor]) -> list[torch.Tensor]:
        return [tensors[i].new_empty(tensors[i].shape) for i in varying(tensors)]

    schema = "(Tensor[] tensors, Tensor[] cotangents) -> Tensor[]"
    backward = torch.library.custom_op(f"{qualified}_backward", pull_back, mutates_args=(), schema=schema)
    backward.register_fake(fake)
    _register_vmap(backward, fake)

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Sequence[torch.Tensor]) -> None:
        ctx.save_for_backward(*inputs[0])

    def differentiate(ctx: Any, cotangents: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        tensors = list(ctx.saved_tensors)
        given = [
            tensors[0].new_zeros(spec.shape, dtype=spec.dtype) if c is None else c
            for c, spec in zip(cotangents, outputs, strict=True)
            if spec.dtype.is_floating_point
        ]
        found = dict(zip(varying(tensors), backward(tensors, given), strict=True))
        return [found.get(i) for i in range(len(tensors))]

    op.register_autograd(differentiate, setup_context=setup)


def _listed(result: torch.Tensor | Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def _fresh(results: list[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Results that share no memory with the inputs or each other, as torch demands of an operator."""
    seen = {t.untyped_storage().data_ptr() for t in inputs if t.numel()}
    fresh = []
    for t in results:
        address = t.untyped_storage().data_ptr()
        fresh.append(t.clone() if address in seen else t)
        if t.numel():
            seen.add(address)
    return fresh

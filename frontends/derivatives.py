"""What torch differentiates, or computes as a derivative, by writing to memory, as values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .definitions import batch_norm, jagged_to_padded, padded_to_jagged

aten = torch.ops.aten


def slice_backward(grad: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Tensor:
    """What is not in the slice has no gradient; of a slice by steps, neither has what lies between."""
    zeros: Tensor = grad.new_zeros(sizes)
    return torch.slice_scatter(zeros, grad, dim, start, end, step)


class _Padded(torch.autograd.Function):
    """Sequences as padded rows, which torch has no derivative of: rows that are in no sequence, or beyond the longest, have no gradient."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, cu: Tensor, most: int, padding: float) -> Tensor:
        """The operator."""
        ctx.save_for_backward(cu)
        ctx.rows, ctx.most = values.shape[0], most
        found: Tensor = jagged_to_padded(values, [cu], [most], padding)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """What stands in the place of each row."""
        (cu,), (grad,) = ctx.saved_tensors, grads
        return padded_to_jagged(grad, [cu], ctx.rows, cut=True), None, None, None


class _Packed(torch.autograd.Function):
    """Padded rows as sequences: what is padding has no gradient."""

    @staticmethod
    def forward(ctx: Any, dense: Tensor, cu: Tensor, total: int) -> Tensor:
        """The operator."""
        ctx.save_for_backward(cu)
        ctx.most = dense.shape[1]
        found: Tensor = padded_to_jagged(dense, [cu], total)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """What stands in the place of each row, between zeros."""
        (cu,), (grad,) = ctx.saved_tensors, grads
        return jagged_to_padded(grad, [cu], [ctx.most]), None, None


def _padded(values: Tensor, offsets: Sequence[Tensor], most: Sequence[int], padding: float = 0.0) -> Any:
    return _Padded.apply(values, *offsets, *most, padding)


def _packed(dense: Tensor, offsets: Sequence[Tensor], total: int | None = None) -> Any:
    return _Packed.apply(dense, *offsets, total)


DEFINITIONS: dict[Any, Callable[..., Any]] = {  # before autograd
    aten.batch_norm.default: batch_norm,
    aten._jagged_to_padded_dense_forward.default: _padded,
    aten._padded_dense_to_jagged_forward.default: _packed,
}
DERIVATIVES: dict[Any, Callable[..., Any]] = {  # of its ops
    aten.slice_backward.default: slice_backward,
    **torch._decomp.get_decompositions([aten.native_batch_norm_backward.default]),
}

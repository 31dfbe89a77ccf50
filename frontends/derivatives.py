"""What torch differentiates, or computes as a derivative, by writing to memory, as values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .definitions import batch_norm

aten = torch.ops.aten


def slice_backward(grad: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Tensor:
    """What is not in the slice has no gradient; of a slice by steps, neither has what lies between."""
    zeros: Tensor = grad.new_zeros(sizes)
    return torch.slice_scatter(zeros, grad, dim, start, end, step)


DEFINITIONS: dict[Any, Callable[..., Any]] = {aten.batch_norm.default: batch_norm}  # before autograd
DERIVATIVES: dict[Any, Callable[..., Any]] = {  # of its ops
    aten.slice_backward.default: slice_backward,
    **torch._decomp.get_decompositions([aten.native_batch_norm_backward.default]),
}

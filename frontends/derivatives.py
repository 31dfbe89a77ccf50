"""What torch differentiates, or computes as a derivative, by writing to memory, as values.

Around a slice there are zeros, side by side with it, so its gradient is read by ranges, as a concatenation is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _padded(x: Tensor, d: int, before: int, after: int) -> Tensor:
    """Zeros around a value, along a dimension."""
    around = [x.new_zeros((*x.shape[:d], n, *x.shape[d + 1 :])) for n in (before, after)]
    parts = [p for p in (around[0], x, around[1]) if p.shape[d]]
    return torch.cat(parts, d) if len(parts) > 1 else x


def slice_backward(grad: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Tensor:
    """What is not in the slice has no gradient; of a slice by steps, neither has what lies between."""
    d = dim % len(sizes)
    n = sizes[d]
    there = range(n)[slice(start, end, step)]
    if not there:
        return grad.new_zeros(sizes)
    if step > 1:
        spread = _padded(grad.unsqueeze(d + 1), d + 1, 0, step - 1).flatten(d, d + 1)
        grad = spread.narrow(d, 0, min(spread.shape[d], n - there.start))
    return _padded(grad, d, there.start, n - there.start - grad.shape[d])


def batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None, var: Tensor | None, training: bool, momentum: float,
    eps: float, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """``batch_norm`` by its definition, in float32 as torch computes it; running statistics take in those of the batch, with the variance
    of a sample."""
    if x.dim() < 2:
        return x.clone()  # without elements: torch refuses any other
    wide = x if x.dtype == torch.float64 else x.float()
    each, over = (-1, *(1,) * (x.dim() - 2)), [d for d in range(x.dim()) if d != 1]
    if training or mean is None or var is None:
        own_var, own_mean = torch.var_mean(wide, over, correction=0)
        if training and mean is not None and var is not None:
            n = x.numel() // max(x.shape[1], 1)
            with torch.no_grad():
                mean.mul_(1 - momentum).add_(own_mean, alpha=momentum)
                var.mul_(1 - momentum).add_(own_var, alpha=momentum * (n / (n - 1) if n > 1 else math.nan))
    else:
        own_mean, own_var = mean.to(wide.dtype), var.to(wide.dtype)
    out = (wide - own_mean.view(each)) * torch.rsqrt(own_var + eps).view(each)
    out = out if weight is None else out * weight.view(each)
    out = out if bias is None else out + bias.view(each)
    return out.to(x.dtype)


DEFINITIONS: dict[Any, Callable[..., Any]] = {aten.batch_norm.default: batch_norm}  # before autograd
DERIVATIVES: dict[Any, Callable[..., Any]] = {aten.slice_backward.default: slice_backward}  # of its ops

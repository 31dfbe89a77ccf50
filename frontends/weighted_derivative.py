"""The derivative of ``softmax(s) @ v`` with what its forward pass has.

Of ``o = p @ v``, ``p = softmax(s)``: ``dv = p^T do`` and ``ds = p * (do v^T - rowsum(p * do v^T))``, where the sum, which torch takes over
all scores, is ``rowsum(do * o)``, the exchange of two sums (FlashAttention, Dao et al. 2022, appendix B.2).  A search for equal programs
finds that in one program of both passes; a backward graph by itself has ``o`` only if its derivative says so.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .capture import attention_by_definition, weighted_values


class _Weighted(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, v: Tensor) -> Tensor:
        x = s if s.dtype == torch.float64 else s.float()
        most = x.amax(-1, keepdim=True)
        e = torch.exp(x - most)
        total = e.sum(-1, keepdim=True)
        o = ((e / total).to(v.dtype) @ v).masked_fill(most == -math.inf, 0.0)
        ctx.save_for_backward(s, v, most, total, o)
        return o

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (do,) = gradients
        s, v, most, total, o = ctx.saved_tensors
        x = s.to(most.dtype)
        nothing = most == -math.inf  # rows of which nothing is left: their weights are 0
        p = torch.exp(x - most.masked_fill(nothing, 0.0)) / total.masked_fill(nothing, 1.0)
        dv = p.to(v.dtype).transpose(-2, -1) @ do
        dp = (do @ v.transpose(-2, -1)).to(most.dtype)
        shared = (do.to(most.dtype) * o.to(most.dtype)).sum(-1, keepdim=True)
        return (p * (dp - shared)).to(s.dtype).sum_to_size(s.shape), dv.sum_to_size(v.shape)


def differentiable_values(s: Tensor, v: Tensor) -> Tensor:
    """:func:`.capture.weighted_values` with that derivative.  A row of nothing but -inf has no gradient."""
    if not s.size(-1) or not s.size(-2):
        return weighted_values(s, v)
    found: Tensor = _Weighted.apply(s, v)
    return found


def differentiable_attention(*args: Any, **kwargs: Any) -> Tensor:
    """:func:`.capture.attention_by_definition` with that derivative."""
    return attention_by_definition(*args, **kwargs, weighted=differentiable_values)  # type: ignore[misc]

"""Ops of torch by their definition in simpler ones, where torch's own decomposition is none that reads well.

Those of :data:`COMPOSITES` are looked up while an exported graph is run (:class:`~.capture._Lowering`), before torch takes a composite op
apart; those of :data:`DECOMPOSITIONS` when the result is traced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

aten = torch.ops.aten


# padding ----------------------------------------------------------------------------------------------------------------------------
def _dimensions(x: Tensor, pad: Sequence[int]) -> list[tuple[int, int, int]]:
    """Dimension, and how much is added before and after it (taken away, if negative)."""
    return [(x.dim() - 1 - k, pad[2 * k], pad[2 * k + 1]) for k in range(len(pad) // 2) if pad[2 * k] or pad[2 * k + 1]]


def _extended(x: Tensor, pad: Sequence[int], beyond: Callable[[Tensor, int, int, int], Tensor]) -> Tensor:
    """In each dimension what stands at the positions ``-before`` to ``n + after - 1``: that of ``x``, and where there is none what
    ``beyond(x, dimension, first, end)`` gives for a range of them."""
    for d, before, after in _dimensions(x, pad):
        n = x.shape[d]
        start, stop = -before, n + after
        parts = [beyond(x, d, start, min(stop, 0))] if start < 0 else []
        if max(start, 0) < min(stop, n):
            parts.append(x.narrow(d, max(start, 0), min(stop, n) - max(start, 0)))
        if stop > n:
            parts.append(beyond(x, d, max(start, n), stop))
        x = torch.cat(parts, d) if len(parts) > 1 else parts[0].clone() if parts else x.narrow(d, 0, 0)
    return x


def _reflected(x: Tensor, d: int, first: int, end: int) -> Tensor:
    turn = 0 if first < 0 else 2 * (x.shape[d] - 1)
    return x.narrow(d, turn - end + 1, end - first).flip(d)


def _repeated(x: Tensor, d: int, first: int, end: int) -> Tensor:
    return x.narrow(d, 0 if first < 0 else x.shape[d] - 1, 1).expand(*x.shape[:d], end - first, *x.shape[d + 1 :])


def reflection_pad(x: Tensor, pad: Sequence[int]) -> Tensor:
    """Positions before the first are read as many after it, and those after the last before it."""
    return _extended(x, pad, _reflected)


def replication_pad(x: Tensor, pad: Sequence[int]) -> Tensor:
    """Beyond an end stands what stands there."""
    return _extended(x, pad, _repeated)


def circular_pad(x: Tensor, pad: Sequence[int]) -> Tensor:
    """The value, without what is taken away, goes on in both directions."""
    for d, before, after in _dimensions(x, pad):
        n = x.shape[d] + min(before, 0) + min(after, 0)
        x, before, after = x.narrow(d, max(-before, 0), n), max(before, 0), max(after, 0)
        x = x.index_select(d, torch.arange(-before, n + after, device=x.device) % n)
    return x


_PADS: dict[str, Callable[[Tensor, Sequence[int]], Tensor]] = {
    "reflect": reflection_pad, "replicate": replication_pad, "circular": circular_pad,
}  # fmt: skip


def pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """``F.pad`` in all of its modes."""
    return _PADS[mode](x, pad) if mode in _PADS else aten.constant_pad_nd(x, list(pad), value or 0)


# interpolation ----------------------------------------------------------------------------------------------------------------------
def _scale(n: int, out: int, factor: float | None) -> Fraction:
    """How many positions of ``n`` a step to the next of ``out`` results is."""
    return Fraction(n, out) if factor is None or factor <= 0 else Fraction(1.0 / factor).limit_denominator(4096)


def _nearest(exact: bool) -> Callable[..., Any]:
    """``floor(i * scale)``, or ``floor((i + 0.5) * scale)``, in whole numbers; left as it is where torch, in float32, has other ones."""

    def upsampled(x: Tensor, size: Sequence[int], *factors: float | None) -> Any:
        for d, out, factor in zip(range(-len(size), 0), size, (*factors, *(None,) * len(size)), strict=False):
            n = x.shape[d]
            scale = _scale(n, out, factor)
            rounded = np.float32(n / out if factor is None or factor <= 0 else 1.0 / factor)
            there = np.floor((np.arange(out, dtype=np.float32) + np.float32(exact * 0.5)) * rounded).astype(np.int64)
            step, start = 2 * scale.numerator, exact * scale.numerator
            if (np.minimum(there, n - 1) != (np.arange(out) * step + start) // (2 * scale.denominator)).any():
                return NotImplemented
            x = x.index_select(d, (torch.arange(out, device=x.device) * step + start) // (2 * scale.denominator))
        return x

    return upsampled


def _between(
    x: Tensor, d: int, out: int, aligned: bool, factor: float | None, reach: int, weights: Callable[[Tensor], Sequence[Tensor]]
) -> Tensor:
    """A weighted sum of the ``2 * reach`` neighbours of the position of each result; beyond the ends stands what stands there.

    A result's position is ``(a * i + b) / c`` in whole numbers: the quotient is the neighbour before it, the remainder how far it is away.
    """
    n = x.shape[d]
    if aligned:
        a, b, c = (n - 1, 0, out - 1) if out > 1 else (0, 0, 1)
    else:
        scale = _scale(n, out, factor)
        a, b, c = 2 * scale.numerator, scale.numerator - scale.denominator, 2 * scale.denominator
    at = torch.arange(out, device=x.device) * a + b
    last = (out - 1) * a + b
    before, after = reach - 1 - min(b // c, 0), max(last // c + reach - (n - 1), 0)
    padded = replication_pad(x, [*(0,) * (2 * (x.dim() - 1 - d)), before, after])
    kind = x.dtype if x.dtype == torch.float64 else torch.float32
    fraction = ((at + before * c) % c).to(kind) / c
    each = (-1, *(1,) * (x.dim() - 1 - d))
    total: Any = 0
    for k, weight in enumerate(weights(fraction)):
        total = total + padded.index_select(d, (at + before * c) // c + (k + 1 - reach)) * weight.reshape(each)
    return total


def _linear(x: Tensor, size: Sequence[int], aligned: bool, *factors: float | None) -> Any:
    """Linear interpolation, one dimension after the other.  Of integers, torch's rounds in fixed point after each."""
    found = x
    if not x.is_floating_point():
        return NotImplemented
    for d, out, factor in zip(range(x.dim() - len(size), x.dim()), size, (*factors, *(None,) * len(size)), strict=False):
        found = _between(found, d, out, aligned, factor, 1, lambda t: (1 - t, t))
    return found.to(x.dtype)


def _cubic_weights(t: Tensor) -> tuple[Tensor, ...]:
    """Keys' convolution with a = -3/4 at the distances 1 + t, t, 1 - t and 2 - t."""

    def near(s: Tensor) -> Tensor:
        return (1.25 * s - 2.25) * s * s + 1

    def far(s: Tensor) -> Tensor:
        return ((-0.75 * s + 3.75) * s - 6) * s + 3

    return far(1 + t), near(t), near(1 - t), far(2 - t)


def _cubic(x: Tensor, size: Sequence[int], aligned: bool, *factors: float | None) -> Any:
    """Cubic interpolation, likewise."""
    found = x
    if not x.is_floating_point():
        return NotImplemented
    for d, out, factor in zip(range(x.dim() - len(size), x.dim()), size, (*factors, *(None,) * len(size)), strict=False):
        found = _between(found, d, out, aligned, factor, 2, _cubic_weights)
    return found.to(x.dtype)


# repetition -------------------------------------------------------------------------------------------------------------------------
def repeat_interleave(x: Tensor, repeats: int, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Each element so many times, one beside the other: a broadcast, and a reshape."""
    x, d = (x.reshape(-1), 0) if dim is None else (x, dim % max(x.dim(), 1))
    x = x.reshape(1) if not x.dim() else x
    shape = x.shape
    return x.unsqueeze(d + 1).expand(*shape[: d + 1], repeats, *shape[d + 1 :]).reshape(*shape[:d], shape[d] * repeats, *shape[d + 1 :])


# norms ------------------------------------------------------------------------------------------------------------------------------
def native_group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n: int, channels: int, size: int, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``group_norm`` in float32, as torch computes it, with the mean and the reciprocal deviation of each sample's groups of channels: a
    channel is a group and a member of it, in all that is done, so that a kernel may hold a group."""
    grouped = (x if x.dtype == torch.float64 else x.float()).reshape(n, groups, channels // groups if groups else 0, *x.shape[2:])
    var, mean = torch.var_mean(grouped, tuple(range(2, grouped.dim())), correction=0, keepdim=True)
    scale = torch.rsqrt(var + eps)
    out = ((grouped - mean) * scale).reshape(x.shape)
    each = (-1, *(1,) * (x.dim() - 2))
    out = out if weight is None else out * weight.reshape(each)
    out = out if bias is None else out + bias.reshape(each)
    return out.to(x.dtype), mean.reshape(n, groups).to(x.dtype), scale.reshape(n, groups).to(x.dtype)


def group_norm(
    x: Tensor, groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5, cudnn_enabled: bool = True
) -> Tensor:
    """``group_norm`` by its definition: statistics of each sample's groups of channels."""
    return native_group_norm(x, weight, bias, x.shape[0], x.shape[1], math.prod(x.shape[2:]), groups, eps)[0]


def batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None, var: Tensor | None, training: bool, momentum: float,
    eps: float, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """``batch_norm``: in training mode running statistics are values, which are written to the buffers."""
    if x.dim() < 2:  # without elements: torch refuses any other
        return x.clone()
    if not training:
        return aten._native_batch_norm_legit_no_training(x, weight, bias, mean, var, momentum, eps)[0]
    if mean is None or var is None:
        return aten._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, eps)[0]
    statistics = mean.clone(), var.clone()  # autograd keeps what it is given, and these are written
    out, _, _, new_mean, new_var = aten._native_batch_norm_legit_functional(x, weight, bias, *statistics, True, momentum, eps)
    mean.copy_(new_mean)
    var.copy_(new_var)
    return out


# products and distances ---------------------------------------------------------------------------------------------------------------
def addmv(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """``beta * c + alpha * (a @ b)``; c is not read where beta is 0."""
    return _added(c, torch.mv(a, b), beta, alpha)


def addbmm(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """``beta * c`` and ``alpha`` times the sum of a batch of products; c is not read where beta is 0."""
    return _added(c, torch.bmm(a, b).sum(0, dtype=a.dtype), beta, alpha)


def _added(c: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    """Their sum, with factors that are whole numbers beside integers."""
    if not product.is_floating_point():
        beta, alpha = int(beta), int(alpha)
    return product * alpha if beta == 0 else product * alpha + beta * c


def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, *how: Any) -> Tensor:
    """``torch._convolution``, which also says what its library may do."""
    return aten.convolution(x, weight, bias, *how[:6])


def conv_tbc(x: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution of times, batches and channels, by a weight of times, channels and results."""
    return aten.convolution(x.permute(1, 2, 0), weight.permute(2, 1, 0), bias, [1], [pad], [1], False, [0], 1).permute(2, 0, 1)


def dist(x: Tensor, y: Tensor, p: float = 2) -> Tensor:
    """The norm of a difference."""
    return torch.linalg.vector_norm(x - y, p)


def cdist(x: Tensor, y: Tensor, p: float = 2.0, compute_mode: int | None = None) -> Tensor:
    """The norms of all differences of two rows."""
    return torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, -1)


def trilinear(
    a: Tensor, b: Tensor, c: Tensor, expand1: Sequence[int], expand2: Sequence[int], expand3: Sequence[int], sumdim: Sequence[int],
    unroll: int = 1,
) -> Tensor:  # fmt: skip
    """A sum of products of three tensors, each with new dimensions at some places: two products of two."""

    def expanded(x: Tensor, dims: Sequence[int]) -> Tensor:
        for d in dims:
            x = x.unsqueeze(d)
        return x

    return (expanded(a, expand1) * expanded(b, expand2) * expanded(c, expand3)).sum(list(sumdim), dtype=a.dtype)


# logarithms of sums -------------------------------------------------------------------------------------------------------------------
def logsumexp(x: Tensor, dim: Sequence[int], keepdim: bool = False) -> Tensor:
    """``log(sum(exp(x - m))) + m`` for the largest element ``m``; that one itself where it is infinite.

    Torch's own takes zero for an infinite ``m`` before it subtracts; then the sum is another one than that of a softmax of ``x``.
    """
    if x.numel() == 0:
        return x.exp().sum(dim, keepdim).log()
    top = x.amax(dim, keepdim)
    rest = (x - x.amax(dim, True)).exp().sum(dim, keepdim).log()
    return torch.where(top.abs() == math.inf, top, rest + top)


# positions among sorted values, and membership: by comparing with all of them ----------------------------------------------------------
def searchsorted(
    boundaries: Tensor, x: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Tensor | None = None
) -> Any:
    """How many boundaries are less than a value (``right``: or equal to it); all of them for NaN."""
    if sorter is not None:
        return NotImplemented
    values = x if isinstance(x, Tensor) else torch.full((), x, dtype=boundaries.dtype, device=boundaries.device)
    rows = boundaries if boundaries.dim() == 1 else boundaries.unsqueeze(-2)
    one = values.unsqueeze(-1)
    beyond = rows > one if right or side == "right" else rows >= one
    return beyond.logical_not().sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def bucketize(x: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Any:
    """The same, asked the other way round."""
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)


def isin(x: Tensor, among: Tensor, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether a value is one of others."""
    found = (x.unsqueeze(-1) == among.reshape(-1)).any(-1)
    return found.logical_not() if invert else found


# ragged rows: sequences one after the other, sequence b from offset b to the next ---------------------------------------------------------
def _sequence_of(ends: Tensor, n: int) -> Tensor:
    """The sequence of each of n positions: how many end at or before it."""
    return searchsorted(ends, torch.arange(n, device=ends.device), right=True)


def _like_rows(mask: Tensor, x: Tensor) -> Tensor:
    """A mask over the first dimensions of x, with a dimension for each of its others."""
    return mask.reshape(*mask.shape, *(1,) * (x.dim() - mask.dim()))


def jagged_to_padded(values: Tensor, offsets: Sequence[Tensor], most: Sequence[int], padding: float = 0.0) -> Any:
    """Each sequence as a row of ``most`` elements: what is missing is padding, what is too much is left out."""
    if len(offsets) != 1:
        return NotImplemented
    cu, size = offsets[0], most[0]
    if not values.shape[0] or cu.shape[0] < 2:
        return values.new_full((cu.shape[0] - 1, size, *values.shape[1:]), padding)
    at = torch.arange(size, device=cu.device)
    there = at < (cu[1:] - cu[:-1]).unsqueeze(1)
    places = torch.where(there, cu[:-1].unsqueeze(1) + at, 0)
    rows = values.index_select(0, places.reshape(-1)).reshape(*places.shape, *values.shape[1:])
    return torch.where(_like_rows(there, rows), rows, padding)


def padded_to_jagged(dense: Tensor, offsets: Sequence[Tensor], total: int | None = None, *, cut: bool = False) -> Any:
    """The rows of a padded tensor without padding, one after the other.  ``cut``: rows that it does not have are zeros."""
    if len(offsets) != 1 or total is None:
        return NotImplemented
    cu = offsets[0]
    if not total or not dense.shape[0] or not dense.shape[1]:
        return dense.new_zeros((total, *dense.shape[2:]))
    row = _sequence_of(cu[1:-1], total)
    at = torch.arange(total, device=cu.device) - cu.index_select(0, row)
    if not cut:
        return dense[row, at.clamp(min=0)]
    there = (at >= 0) & (at < dense.shape[1]) & (torch.arange(total, device=cu.device) < cu[-1])
    found = dense[row, at.clamp(0, dense.shape[1] - 1)]
    return torch.where(_like_rows(there, found), found, 0.0)


def native_dropout(x: Tensor, p: float, train: bool | None) -> Any:
    """Nothing where nobody trains: so it is called for nested tensors."""
    return NotImplemented if train is not False and p else (x.clone(), torch.ones_like(x, dtype=torch.bool))


_SEGMENTS: dict[str, float] = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}


def _segments(lengths: Tensor | None, offsets: Tensor | None) -> tuple[Tensor, Tensor]:
    """Where each segment begins and ends, along the last dimension."""
    if offsets is not None:
        return offsets[..., :-1], offsets[..., 1:]
    assert lengths is not None
    ends = lengths.cumsum(-1)
    return ends - lengths, ends


def segment_reduce(
    x: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None, offsets: Tensor | None = None, axis: int = 0,
    unsafe: bool = False, initial: float | None = None,
) -> Any:  # fmt: skip
    """A reduction of each segment of ``x`` along an axis, which ``initial`` takes part in; of an empty one it is that, or the monoid's."""
    if indices is not None or reduce not in _SEGMENTS or (lengths is None and offsets is None):
        return NotImplemented
    starts, ends = _segments(lengths, offsets)
    at = torch.arange(x.shape[axis], device=x.device)
    inside = _like_rows((starts.unsqueeze(-1) <= at) & (at < ends.unsqueeze(-1)), x.unsqueeze(axis))
    members = torch.where(inside, x.unsqueeze(axis), _SEGMENTS[reduce])
    first = None if initial is None else torch.full((), initial, dtype=x.dtype, device=x.device)
    if reduce in ("max", "min"):
        extreme, of_both = (torch.amax, torch.maximum) if reduce == "max" else (torch.amin, torch.minimum)
        found = extreme(members, axis + 1) if x.shape[axis] else members.sum(axis + 1) + _SEGMENTS[reduce]
        return found if first is None else of_both(found, first)
    if reduce == "prod":
        found = members.prod(axis + 1)
        return found if first is None else found * first
    total = members.sum(axis + 1)
    total = total if first is None else total + first
    if reduce == "sum":
        return total
    count = _like_rows(ends - starts, total)
    return total / (count if first is None else count.clamp(min=1))


def segment_reduce_backward(
    grad: Tensor, out: Tensor, x: Tensor, reduce: str, *, lengths: Tensor | None = None, offsets: Tensor | None = None, axis: int = 0,
    initial: float | None = None,
) -> Any:  # fmt: skip
    """What each element has of the gradient of its segment: all of it, or a part as large as every other, of an extreme if it is one."""
    if axis or reduce not in ("sum", "mean", "max", "min") or not x.shape[0] or not grad.shape[0]:
        return NotImplemented
    starts, ends = _segments(lengths, offsets)
    segment = _sequence_of(ends, x.shape[0]).clamp(max=ends.shape[0] - 1)
    at = torch.arange(x.shape[0], device=x.device)
    inside = _like_rows((starts.index_select(0, segment) <= at) & (at < ends.index_select(0, segment)), x)
    if reduce == "mean":
        grad = grad / _like_rows((ends - starts).clamp(min=1), grad)
    if reduce in ("max", "min"):
        inside = inside & (x == out.index_select(0, segment))
        ties = segment_reduce(inside.to(x.dtype), "sum", lengths=lengths, offsets=offsets)
        grad = grad / ties.clamp(min=1)
    return torch.where(inside, grad.index_select(0, segment), 0)


def repeats(counts: Tensor, *, output_size: int | None = None) -> Any:
    """Each position as often as a count says, where it is known how many that are."""
    return NotImplemented if output_size is None else _sequence_of(counts.cumsum(0), output_size)


def scatter_reduce(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Any:
    """A mean is a sum, divided by how many there are."""
    if reduce != "mean" or not x.is_floating_point():
        return NotImplemented
    total = aten.scatter_reduce(x, dim, index, source, "sum", include_self=include_self)
    count = torch.full_like(x, float(include_self)).scatter_add(dim, index, torch.ones_like(source))
    return total / count.clamp(min=1)


def index_reduce(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Any:
    """Whole rows, each to where the index says."""
    if not x.dim():
        return NotImplemented
    rows = index.reshape(-1, *(1,) * (x.dim() - 1 - dim % x.dim())).expand(source.shape)
    return aten.scatter_reduce(x, dim, rows, source, reduce, include_self=include_self)


def grouped_mm(x: Tensor, w: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: torch.dtype | None = None) -> Any:
    """Products of matrices of which an operand, or the dimension that is summed, has groups that end where offsets say.

    Rows by groups are a sum over these, of which a loop visits those that a tile of rows has.  Masked are its terms, for an infinite
    matrix of another group is nobody's, and what is multiplied, for which steps of a loop may be left out."""
    if bias is not None or (offs is None) != (x.dim() == w.dim() == 3):
        return NotImplemented
    if offs is None:
        found = torch.bmm(x, w)
    elif x.dim() == w.dim():  # groups of what is summed
        at = torch.arange(x.shape[1], device=x.device)
        begin = torch.cat([torch.zeros_like(offs[:1]), offs[:-1]])
        mine = (begin.unsqueeze(1) <= at) & (at < offs.unsqueeze(1))
        found = torch.matmul(torch.where(mine.unsqueeze(1), x, 0), torch.where(mine.unsqueeze(2), w, 0))  # 0 * inf is not 0
    else:
        flipped = x.dim() == 3  # groups of columns
        rows, matrices = (w.t(), x.transpose(1, 2)) if flipped else (x, w)
        group = _sequence_of(offs, rows.shape[0])
        mine = (group.unsqueeze(0) == torch.arange(offs.shape[0], device=x.device).unsqueeze(1)).unsqueeze(-1)
        found = torch.where(mine, torch.matmul(torch.where(mine, rows, 0), matrices), 0).sum(0, dtype=x.dtype)
        found = found.t() if flipped else found
    return found.to(out_dtype or x.dtype)


# composite in torch, and taken apart there in another way
COMPOSITES: dict[Any, Callable[..., Any]] = {
    aten.pad.default: pad,
    aten._pad_circular.default: circular_pad,
    aten.repeat_interleave.self_int: repeat_interleave,
    aten.group_norm.default: group_norm,
    aten.batch_norm.default: batch_norm,
    aten.cdist.default: cdist,
    aten.binary_cross_entropy_with_logits.default: torch._decomp.decompositions.binary_cross_entropy_with_logits,
}
DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default), reflection_pad),
    **dict.fromkeys((aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default), replication_pad),
    **{getattr(aten, f"upsample_nearest{k}d").default: _nearest(False) for k in (1, 2, 3)},
    **{getattr(aten, f"_upsample_nearest_exact{k}d").default: _nearest(True) for k in (1, 2, 3)},
    **dict.fromkeys((aten.upsample_linear1d.default, aten.upsample_bilinear2d.default, aten.upsample_trilinear3d.default), _linear),
    aten.upsample_bicubic2d.default: _cubic,
    aten.native_group_norm.default: native_group_norm,
    aten.logsumexp.default: logsumexp,
    aten._trilinear.default: trilinear,
    **dict.fromkeys((aten.searchsorted.Tensor, aten.searchsorted.Scalar), searchsorted),
    **dict.fromkeys((aten.bucketize.Tensor, aten.bucketize.Scalar), bucketize),
    aten.isin.Tensor_Tensor: isin,
    aten._jagged_to_padded_dense_forward.default: jagged_to_padded,
    aten._padded_dense_to_jagged_forward.default: padded_to_jagged,
    aten.native_dropout.default: native_dropout,
    aten.segment_reduce.default: segment_reduce,
    aten._segment_reduce_backward.default: segment_reduce_backward,
    aten.repeat_interleave.Tensor: repeats,
    aten.scatter_reduce.two: scatter_reduce,
    aten.index_reduce.default: index_reduce,
    aten._grouped_mm.default: grouped_mm,
    aten.addmv.default: addmv,
    aten.addbmm.default: addbmm,
    **dict.fromkeys((aten._convolution.default, aten._convolution.deprecated), convolution),
    aten.conv_tbc.default: conv_tbc,
    aten.dist.default: dist,
    aten._cdist_forward.default: cdist,
}

"""ATen ops that normalise, which torch keeps as one op: each by its definition over the reductions of :mod:`.aten_reductions`."""

from __future__ import annotations

from typing import Any

from ..ir.terms import Const, Map, Term
from .aten import At, Call, dims_of, register, shape_of
from .aten_reductions import Slices, moments


def _along(call: Call, x: Any, dim: int) -> tuple[Slices, Term]:
    """A dimension seen from inside a reduction over it, and the argument itself where the result is read."""
    rank = len(shape_of(x))
    return Slices(call, x, dim, keepdim=rank > 0), call.read(x, call.at)


def _same(alignment: Any, node: Any, x: Any, *_: Any) -> Any:
    return dims_of(x)


@register("aten._softmax.default", align=_same)
def _softmax(call: Call, x: Any, dim: int, half_to_float: bool) -> Term:
    s, here = _along(call, x, dim)
    peak = s.reduced("max")
    total = s.reduced("sum", lambda x: Map("exp", (x - peak,)))
    return Map("exp", (here - peak,)) / total


@register("aten._log_softmax.default", align=_same)
def _log_softmax(call: Call, x: Any, dim: int, half_to_float: bool) -> Term:
    s, here = _along(call, x, dim)
    peak = s.reduced("max")
    total = s.reduced("sum", lambda x: Map("exp", (x - peak,)))
    return (here - peak) - Map("log", (total,))


def _align_layer_norm(alignment: Any, node: Any, x: Any, shape: Any, *affine: Any) -> Any:
    dims = dims_of(x)
    lead = len(dims) - len(shape)
    for p in affine[:2]:
        if hasattr(p, "meta"):
            alignment.broadcast(dims, dims_of(p))
    statistics = tuple(a if d < lead else None for d, a in enumerate(dims))
    return dims, statistics, statistics


@register("aten.native_layer_norm.default", align=_align_layer_norm)
def _layer_norm(call: Call, x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Term:
    rank = len(shape_of(x))
    s = Slices(call, x, list(range(rank - len(shape), rank)), keepdim=True)
    var, mean = moments(s, 0)
    scale = Map("rsqrt", (var + eps,))
    if call.item:
        return mean if call.item == 1 else scale
    out = (call.read(x, call.at) - mean) * scale
    if weight is not None:
        out = out * call.aligned(weight)
    return out if bias is None else out + call.aligned(bias)


def _align_batch_norm(alignment: Any, node: Any, x: Any, *_: Any) -> Any:
    dims = dims_of(x)
    return (dims, *(dims[1:2] if v.shape[0] else (alignment.fresh(0),) for v in node.meta["val"][1:]))  # statistics of the batch, or none


def _normalised(call: Call, x: Any, mean: Term, scale: Term, weight: Any, bias: Any) -> Term:
    """(x - mean) * scale, and what belongs to each channel, the second dimension."""
    channel: At = (call.at[1],)
    out = (call.read(x, call.at) - mean) * scale
    if weight is not None:
        out = out * call.read(weight, channel)
    return out if bias is None else out + call.read(bias, channel)


@register("aten._native_batch_norm_legit_no_training.default", align=_align_batch_norm)
def _batch_norm(call: Call, x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float) -> Term:
    if call.item:  # no statistics of the batch: an element that is not there
        return Const(0.0)
    channel: At = (call.at[1],)
    scale = Map("rsqrt", (call.read(var, channel) + eps,))
    return _normalised(call, x, call.read(mean, channel), scale, weight, bias)


@register("aten._native_batch_norm_legit.no_stats", align=_align_batch_norm)
def _batch_norm_of_batch(call: Call, x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Term:
    """By the statistics of the batch, which nothing keeps; torch's ``instance_norm`` is this with each sample's channels as channels."""
    var, mean = moments(_slices(call, x), 0)
    scale = Map("rsqrt", (var + eps,))
    return (mean, scale)[call.item - 1] if call.item else _normalised(call, x, mean, scale, weight, bias)


def _slices(call: Call, x: Any) -> Slices:
    """What belongs to each channel."""
    return Slices(call, x, [d for d in range(len(shape_of(x))) if d != 1], keepdim=not call.item)


@register("aten._native_batch_norm_legit_functional.default", align=_align_batch_norm)
def _functional(call: Call, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float) -> Term:
    """By the statistics of the batch, and what becomes of the running ones, the last two results: ``momentum`` of the way from the old
    ones to those of the batch, of which the variance is that of a sample."""
    if (call.item or 0) < 3:
        return _batch_norm_of_batch(call, x, weight, bias, training, momentum, eps)
    s = _slices(call, x)
    old, new = (mean, s.reduced("mean")) if call.item == 3 else (var, moments(s, 1.0)[0])
    return call.read(old, call.at) * (1.0 - momentum) + new * momentum


@register("aten.native_batch_norm.default", "aten._native_batch_norm_legit.default", align=_align_batch_norm)
def _any_batch_norm(call: Call, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float) -> Term:
    if not training:
        return _batch_norm(call, x, weight, bias, mean, var, momentum, eps)
    if mean is not None or var is not None:
        raise call.unsupported("in training mode with running statistics, which it writes")
    return _batch_norm_of_batch(call, x, weight, bias, training, momentum, eps)

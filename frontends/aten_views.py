"""ATen ops that only re-index: a permutation, slice or reshape says where its argument is read, and costs nothing."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

from ..ir.index import index
from .alignment import reshape_groups
from .aten import ZERO, At, Call, broadcast_at, dims_of, move, shape_of


def _wrap(d: int, rank: int) -> int:
    return d % rank if rank else 0


# same shape ---------------------------------------------------------------------------------------------------------------------
def _same(alignment: Any, node: Any, x: Any, *_: Any) -> Any:
    return dims_of(x)


@move(
    "aten.clone.default", "aten.alias.default", "aten.detach.default", "aten.contiguous.default", "aten.lift_fresh_copy.default",
    "aten.detach_copy.default", "aten.alias_copy.default", "aten.lift_fresh.default",
    align=_same,
)  # fmt: skip
def _identity(call: Call, x: Any, *_: Any) -> At:
    return call.at


# broadcasting -------------------------------------------------------------------------------------------------------------------
def _align_expand(alignment: Any, node: Any, x: Any, *_: Any) -> Any:
    shape, dims = shape_of(node), dims_of(x)
    lead = len(shape) - len(dims)
    return tuple(alignment.fresh(n) if k < lead or dims[k - lead] is None else dims[k - lead] for k, n in enumerate(shape))


@move("aten.expand.default", "aten.expand_copy.default", align=_align_expand)
def _expand(call: Call, x: Any, *_: Any) -> At:
    return broadcast_at(shape_of(x), call.at)


@move("aten.repeat.default")
def _repeat(call: Call, x: Any, *_: Any) -> At:
    shape = shape_of(x)
    tail = call.at[len(call.at) - len(shape) :]
    return tuple(e % n if n else ZERO for n, e in zip(shape, tail, strict=True))


# order of dimensions --------------------------------------------------------------------------------------------------------------
def _align_permute(alignment: Any, node: Any, x: Any, order: Any) -> Any:
    dims = dims_of(x)
    return tuple(dims[_wrap(d, len(dims))] for d in order)


@move("aten.permute.default", "aten.permute_copy.default", align=_align_permute)
def _permute(call: Call, x: Any, order: Any) -> At:
    at = [ZERO] * len(order)
    for e, d in zip(call.at, order, strict=True):
        at[_wrap(d, len(order))] = e
    return tuple(at)


def _align_squeeze(alignment: Any, node: Any, x: Any, *_: Any) -> Any:
    return alignment.reshape(dims_of(x), shape_of(x), shape_of(node))


@move(
    "aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten.view_copy.default", "aten.unsqueeze.default",
    "aten.squeeze.dims", "aten.squeeze.dim", "aten.squeeze.default", "aten.unsqueeze_copy.default", "aten.squeeze_copy.dims",
    "aten._reshape_copy.default",
    align=_align_squeeze,
)  # fmt: skip
def _reshape(call: Call, x: Any, *_: Any) -> At:
    """Dimensions in runs of equal products: the position in a run is one number, written in the old sizes."""
    old, new = shape_of(x), shape_of(call.node)
    at = [ZERO] * len(old)
    if 0 in old:
        return tuple(at)
    for ins, outs in reshape_groups(old, new):
        position = ZERO
        for o in outs:
            position = position * new[o] + call.at[o]
        for k, i in enumerate(ins):
            inner = math.prod(old[j] for j in ins[k + 1 :])
            at[i] = position // inner if k == 0 else position // inner % old[i]
    return tuple(at)


# parts ------------------------------------------------------------------------------------------------------------------------------
def _align_slice(alignment: Any, node: Any, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    shape, dims = shape_of(node), list(dims_of(x))
    d = _wrap(dim, len(shape))
    if shape[d] != shape_of(x)[d]:
        first = range(shape_of(x)[d])[slice(start, end, step)].start
        dims[d] = alignment.range(dims[d], first, shape[d]) if step == 1 else alignment.fresh(shape[d])
    return tuple(dims)


@move("aten.slice.Tensor", "aten.slice_copy.Tensor", align=_align_slice)
def _slice(call: Call, x: Any, dim: int, start: int | None, end: int | None, step: int) -> At:
    shape = shape_of(x)
    d = _wrap(dim, len(shape))
    first = range(shape[d])[slice(start, end, step)].start
    return (*call.at[:d], call.at[d] * step + first, *call.at[d + 1 :])


def _align_select(alignment: Any, node: Any, x: Any, dim: int, *_: Any) -> Any:
    dims = dims_of(x)
    d = _wrap(dim, len(dims))
    return dims[:d] + dims[d + 1 :]


@move("aten.select.int", "aten.select_copy.int", align=_align_select)
def _select(call: Call, x: Any, dim: int, position: int) -> At:
    shape = shape_of(x)
    d = _wrap(dim, len(shape))
    return (*call.at[:d], index(position % shape[d]), *call.at[d:])


def _align_split(alignment: Any, node: Any, x: Any, sizes: Any, dim: int = 0) -> Any:
    dims = dims_of(x)
    d = _wrap(dim, len(dims))
    starts = accumulate(sizes, initial=0)
    return tuple((*dims[:d], alignment.range(dims[d], start, n), *dims[d + 1 :]) for start, n in zip(starts, sizes, strict=False))


@move("aten.split_with_sizes.default", "aten.split_with_sizes_copy.default", align=_align_split)
def _split(call: Call, x: Any, sizes: Any, dim: int = 0) -> At:
    d = _wrap(dim, len(call.at))
    assert call.item is not None
    return (*call.at[:d], call.at[d] + sum(sizes[: call.item]), *call.at[d + 1 :])


def _align_unbind(alignment: Any, node: Any, x: Any, dim: int = 0) -> Any:
    return (_align_select(alignment, node, x, dim),) * len(node.meta["val"])


@move("aten.unbind.int", "aten.unbind_copy.int", align=_align_unbind)
def _unbind(call: Call, x: Any, dim: int = 0) -> At:
    d = _wrap(dim, len(shape_of(x)))
    assert call.item is not None
    return (*call.at[:d], index(call.item), *call.at[d:])


@move("aten.flip.default")
def _flip(call: Call, x: Any, dims: Any) -> At:
    shape = shape_of(x)
    turned = {_wrap(d, len(shape)) for d in dims}
    return tuple(index(n - 1) - e if d in turned and n > 1 else e for d, (n, e) in enumerate(zip(shape, call.at, strict=True)))


@move("aten.diagonal.default", "aten.diagonal_copy.default")
def _diagonal(call: Call, x: Any, offset: int, dim1: int, dim2: int) -> At:
    rank = len(shape_of(x))
    rest = iter(call.at[:-1])
    both = {_wrap(dim1, rank): max(-offset, 0), _wrap(dim2, rank): max(offset, 0)}
    return tuple(call.at[-1] + both[d] if d in both else next(rest) for d in range(rank))


@move("aten.unfold.default")
def _unfold(call: Call, x: Any, dim: int, size: int, step: int) -> At:
    *at, inside = call.at
    d = _wrap(dim, len(at))
    return tuple(e * step + inside if k == d else e for k, e in enumerate(at))


@move("aten.narrow_copy.default")
def _narrow(call: Call, x: Any, dim: int, start: int, length: int) -> At:
    shape = shape_of(x)
    d = _wrap(dim, len(shape))
    return tuple(e + start % max(shape[d], 1) if k == d and shape[d] > 1 else e for k, e in enumerate(call.at))

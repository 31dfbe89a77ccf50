"""Shapes and strides, as torch, numpy and DLPack have them, and lists of iters on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import LayoutError
from . import iters as basic
from .digits import grouped
from .iters import Iter, Iters, shown, whole


def of_strides(shape: Sequence[int], strides: Sequence[int] | None, axis: str) -> Iters:
    """An iter for every dimension; without strides row-major, which is what DLPack means by null."""
    shape = basic.read_shape(shape)
    given = basic.strides(shape) if strides is None else basic.elements(strides, "the strides", "a stride for every dimension")
    steps = tuple(whole(s, f"stride {k}") for k, s in enumerate(given))
    if len(steps) != len(shape):
        raise LayoutError(f"{len(steps)} strides for {len(shape)} dimensions", cure="a stride for every dimension")
    return tuple(Iter(n, s, axis) for n, s in zip(shape, steps, strict=True))


def strides_of(iters: Iters, shape: Sequence[int], axis: str) -> tuple[int, ...]:
    """The stride of each dimension.  A dimension of one element has the stride that row-major order would give it."""
    out = []
    for place, (block, usual) in enumerate(zip(grouped(iters, shape), basic.strides(shape), strict=True)):
        if len(block) > 1:
            raise LayoutError(
                f"dimension {place} of {tuple(shape)} is {shown(block)}, which no one stride walks",
                cure="a shape with a dimension for each iter",
            )
        for it in block:
            if it.axis != axis and it.stride:
                raise LayoutError(f"iter {it} is on another axis than {axis}", cure=f"axis={it.axis!r}")
        out.append(block[0].stride if block else usual)
    return tuple(out)


def of_tensor(tensor: Any) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, strides and offset in elements of a torch tensor (its offset in its storage) or a numpy array (from its first element)."""
    if not hasattr(tensor, "shape") or not (hasattr(tensor, "stride") or hasattr(tensor, "strides")):
        raise LayoutError(f"a {type(tensor).__name__} has no shape and strides", cure="a torch tensor, a numpy array, or from_strides")
    shape = basic.read_shape(tensor.shape, "the tensor")
    if callable(getattr(tensor, "stride", None)):
        return shape, tuple(tensor.stride()), int(tensor.storage_offset())
    step = tensor.itemsize
    for place, s in enumerate(tensor.strides):
        if s % step and shape[place] > 1:
            raise LayoutError(
                f"stride {place} of the array is {s} bytes, its elements have {step}",
                cure="an array whose elements are aligned",
            )
    return shape, tuple(s // step for s in tensor.strides), 0

"""Tiles of layouts: the D parts of a Kronecker product, and of its inverse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...errors import LayoutError
from .digits import canonical, grouped
from .iters import Iter, Iters, Vector, shown


def scaled(iters: Iterable[Iter], widths: Mapping[str, int]) -> Iters:
    """Every stride times the width of its axis; 1 where there is none."""
    return tuple(Iter(it.extent, it.stride * widths.get(it.axis, 1), it.axis) for it in iters)


def interleaved(outer: Iters, outer_shape: Sequence[int], inner: Iters, inner_shape: Sequence[int]) -> Iters:
    """The iters of dimension 0 of the outer list, those of dimension 0 of the inner one, and so on."""
    if len(outer_shape) != len(inner_shape):
        raise LayoutError(
            f"shapes {tuple(outer_shape)} and {tuple(inner_shape)} have different ranks",
            cure="dimensions of 1 where one lacks them",
        )
    pairs = zip(grouped(outer, outer_shape), grouped(inner, inner_shape), strict=True)
    return tuple(it for a, b in pairs for it in (*a, *b))


def outer_of(whole: Iters, shape: Sequence[int], inner: Iters, inner_shape: Sequence[int], widths: Vector) -> Iters:
    """The list C with ``whole = C (x) inner``.  In a tile every index of the interleaved shape is a digit, so ``whole`` groups by it
    if it is one; what the inner digits add must be ``inner``, and the strides of the others multiples of the widths.  Each is needed,
    and together they are enough."""
    if len(shape) != len(inner_shape) or any(n % m for n, m in zip(shape, inner_shape, strict=False)):
        raise LayoutError(
            f"tiles of shape {tuple(inner_shape)} do not fill {tuple(shape)}",
            cure="tiles whose dimensions divide those of the layout",
        )
    parts = [m for n, k in zip(shape, inner_shape, strict=True) for m in (n // k, k)]
    blocks = grouped(whole, parts)
    inside = canonical(tuple(it for b in blocks[1::2] for it in b))
    grouped(inner, inner_shape)
    if inside != canonical(inner):
        raise LayoutError(
            f"within a tile the iters are {shown(inside)}, not {shown(canonical(inner))}",
            cure="a tile that is a part of the layout",
        )
    out = []
    for it in (it for b in blocks[0::2] for it in b):
        width = widths.get(it.axis, 1)
        if it.stride % width:
            raise LayoutError(
                f"iter {it} goes from tile to tile, and its stride is no multiple of the tile's span {width}",
                cure="direct_sum says sums that are no tiles",
            )
        out.append(Iter(it.extent, it.stride // width, it.axis))
    return tuple(out)

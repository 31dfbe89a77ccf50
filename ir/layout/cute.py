"""CuTe's algebra of layouts in terms of this one.

CuTe's first mode is the fastest, here the last iter is; ``from_cute`` turns the order, and functions of numbers of elements are the
same in both.  Definitions as in CUTLASS, ``media/docs/cpp/cute/02_layout_algebra.md``: ``(A o B)(c) = A(B(c))``, ``A / B = A o (B,
B*)`` with B* the complement of B in size(A), ``A x B = (A, A* o B)`` with A* the complement of A in size(A)·cosize(B)."""

from __future__ import annotations

import math
from typing import Any

from ...errors import LayoutError, shown
from .inverses import left_inverse, right_inverse
from .iters import Iter, whole
from .layout import Layout, layout_of

__all__ = [
    "complement", "composition", "cosize", "from_cute", "left_inverse", "logical_divide", "logical_product", "right_inverse", "to_cute",
]  # fmt: skip


DEEPEST = 50  # levels of nested modes


def from_cute(shape: Any, stride: Any = None) -> Layout:
    """``from_cute((4, (2, 3)), (2, (1, 8)))``: modes may be nested.  Without strides it is compact, the first mode being the fastest.

    LayoutError for a stride that has another profile than the shape, and for what is no whole number."""
    extents = [whole(n, "a mode of the shape", 1) for n in _leaves(shape)]
    if stride is None:
        return Layout(tuple(Iter(n, math.prod(extents[:k])) for k, n in enumerate(extents))[::-1])
    steps = _leaves(stride)
    if _profile(shape) != _profile(stride):
        raise LayoutError(f"the strides {shown(stride)} are not nested as the shape {shown(shape)} is", cure="a stride for each mode")
    return Layout(tuple(Iter(n, whole(s, "a stride")) for n, s in zip(extents, steps, strict=True))[::-1])


def to_cute(layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides, coalesced."""
    found = layout.canonicalize().iters[::-1]
    return tuple(i.extent for i in found), tuple(i.stride for i in found)


def cosize(layout: Layout) -> int:
    """One more than the last element of the image."""
    return 1 + max((high for _, high in layout.bounds().values()), default=0)


def composition(outer: Layout, inner: Layout) -> Layout:
    """``c -> outer(inner(c))``."""
    return outer.compose(inner)


def complement(layout: Layout, size: int) -> Layout:
    """The rest of ``size`` places."""
    return layout.complement(size)


def logical_divide(layout: Layout, tiler: Layout) -> Layout:
    """``layout o (tiler, tiler*)``: the tile is the first mode, the last iters here.  LayoutError where the tile does not divide: no iters
    of the result end where the tile does."""
    rest = layout_of(tiler).complement(layout_of(layout).size)
    return layout.compose(rest.direct_sum(tiler)).group((rest.size, tiler.size))


def logical_product(layout: Layout, repeats: Layout) -> Layout:
    """``(layout, layout* o repeats)``: the layout is the first mode, the last iters here."""
    return layout_of(layout).complement(layout.size * cosize(layout_of(repeats))).compose(repeats).direct_sum(layout)


def _leaves(tree: Any, depth: int = 0) -> list[Any]:
    if depth > DEEPEST:
        raise LayoutError(f"modes are nested more than {DEEPEST} deep", cure="a tuple of extents, or of such tuples")
    return [leaf for part in tree for leaf in _leaves(part, depth + 1)] if isinstance(tree, tuple | list) else [tree]


def _profile(tree: Any) -> Any:
    return tuple(map(_profile, tree)) if isinstance(tree, tuple | list) else None

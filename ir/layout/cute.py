"""CuTe's algebra of layouts in terms of this one.

CuTe's first mode is the fastest, here the last iter is; ``from_cute`` turns the order, and functions of numbers of elements are the
same in both.  Definitions as in CUTLASS, ``media/docs/cpp/cute/02_layout_algebra.md``: ``(A o B)(c) = A(B(c))``, ``A / B = A o (B,
B*)`` with B* the complement of B in size(A), ``A x B = (A, A* o B)`` with A* the complement of A in size(A)·cosize(B)."""

from __future__ import annotations

from typing import Any

from .iters import Iter
from .layout import Layout


def from_cute(shape: Any, stride: Any) -> Layout:
    """``from_cute((4, (2, 3)), (2, (1, 8)))``: modes may be nested."""
    pairs = zip(_leaves(shape), _leaves(stride), strict=True)
    return Layout(tuple(Iter(n, s) for n, s in pairs)[::-1])


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
    """``layout o (tiler, tiler*)``: the tile is the first mode, the last iters here."""
    return layout.compose(tiler.complement(layout.size).direct_sum(tiler))


def logical_product(layout: Layout, repeats: Layout) -> Layout:
    """``(layout, layout* o repeats)``: the layout is the first mode, the last iters here."""
    return layout.complement(layout.size * cosize(repeats)).compose(repeats).direct_sum(layout)


def _leaves(tree: Any) -> list[int]:
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, tuple | list) else [tree]

"""Inverses: layouts from places back to numbers of elements.

A layout on several axes has a place for each element, a number on each axis.  Its inverse reads such a place as an index in the shape
that has a dimension for each axis, the last one being the fastest:

    fragment   (2,8,4,2):(2@reg,4@lane,1@lane,1@reg)   element -> lane and register
    inverse    (32,2,2):(2,64,1)                       (lane, register) -> element, in the shape (32, 4)

``left_inverse`` and ``right_inverse`` are CuTe's, ``media/docs/cpp/cute/02_layout_algebra.md`` of CUTLASS."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ...errors import LayoutError, shown
from .iters import MEMORY, Iter, Iters, elements
from .layout import Layout, layout_of

Digit = tuple[Iter, int]  # an iter of a layout, and what one step of it adds to the number of the element


def inverse(layout: Layout, axes: Sequence[str] | None = None) -> Layout:
    """The layout that maps the place of each element to its number, on ``m``.  ``axes`` are the dimensions of the place, those of the
    layout in order where it is not given.

    Raises :class:`~eqfuse.errors.LayoutError` for a layout that is not one to one onto the places from 0 to its span on each axis.  By
    de Bruijn's theorem the strides of a layout onto an interval are, in some order, the products of the extents before them."""
    digits, own = _digits(layout), layout.axes or (MEMORY,)
    order = own if axes is None else _read(axes, own)
    found: list[Iter] = []
    offset = 0
    for axis in order:
        chain, block = _chain(digits.get(axis, []))
        for it, _ in digits.get(axis, [])[len(chain) :]:
            raise LayoutError(
                f"iter {it} of {layout} leaves a hole or overlaps: its stride would be {block}",
                cure="a layout onto 0 .. size - 1, or right_inverse and left_inverse",
            )
        low = layout.offset.get(axis, 0) + _low(chain)
        if low:
            raise LayoutError(f"{layout} begins at {low} on axis {axis}", cure="a layout onto 0 .. size - 1")
        iters, start = _back(chain)
        found += iters
        offset += start
    return Layout(tuple(found), (), {MEMORY: offset})


def right_inverse(layout: Layout) -> Layout:
    """The layout R with ``layout(R(i)) = i`` for i below the size of R, which goes as far as the strides of a layout on one axis follow
    one another from 1: where the layout leaves a hole it ends.  LayoutError for a layout that does not begin at 0."""
    digits = _digits(layout, several=False)
    for axis, (low, _) in layout.bounds().items():
        if low:
            raise LayoutError(f"{layout} begins at {low} on axis {axis}", cure="a layout that begins at 0")
    every = next(iter(digits.values()), [])
    iters, _ = _back(_chain(every)[0])
    return Layout(iters, (), {MEMORY: _back(every)[1]})


def left_inverse(layout: Layout, axes: Sequence[str] | None = None) -> Layout:
    """The layout N with ``N(layout(x)) = x`` for a layout that is one to one, whatever places it leaves out: rows of 6 in 8 places,
    ``(4,6):(8,1)``, have ``(4,8):(6,1)``.  On several axes the place is an index in a shape that has, for each axis, the largest stride
    times its extent.

    LayoutError where the strides of an axis, by size, are no multiples of those before, or a digit reaches the next one."""
    digits, own = _digits(layout), layout.axes or (MEMORY,)
    found: list[Iter] = []
    offset = 0
    for axis in own if axes is None else _read(axes, own):
        chain = digits.get(axis, [])
        low = layout.offset.get(axis, 0) + _low(chain)
        if low:
            raise LayoutError(f"{layout} begins at {low} on axis {axis}", cure="a layout that begins at 0")
        steps = [1, *(abs(it.stride) for it, _ in chain)]
        room = [n // m if m and n % m == 0 else 0 for m, n in pairwise(steps)]
        for (it, _), places in zip(chain, room[1:], strict=False):
            if places < it.extent:
                raise LayoutError(
                    f"iter {it} of {layout} reaches the next one", cure="each stride a multiple of extent times stride before it"
                )
        if chain and not room[0]:
            raise LayoutError(f"iter {chain[0][0]} of {layout} puts elements at one place", cure="a layout that is one to one")
        iters, start = _back(chain)
        wide = [*room[1:], *(it.extent for it, _ in chain[-1:])]
        gaps = (Iter(room[0], 0),) if chain and room[0] > 1 else ()
        found += [*(Iter(n, it.stride) for n, it in zip(reversed(wide), iters, strict=True)), *gaps]
        offset += start
    return Layout(tuple(found), (), {MEMORY: offset})


def _digits(layout: Layout, several: bool = True) -> dict[str, list[Digit]]:
    """Axis -> its iters, by the size of the step, each with what a step of it adds to the number of the element."""
    ordered = layout_of(layout).canonicalize()
    if ordered.replicas or (not several and len({i.axis for i in ordered.iters} | ordered.offset.keys()) > 1):
        raise LayoutError(f"{layout} has copies{'' if several else ' or several axes'}", cure="a layout on one axis without replicas")
    found: dict[str, list[Digit]] = {}
    weight = 1
    for it in reversed(ordered.iters):
        found.setdefault(it.axis, []).append((it, weight))
        weight *= it.extent
    return {axis: sorted(ds, key=lambda d: abs(d[0].stride)) for axis, ds in found.items()}


def _chain(digits: list[Digit]) -> tuple[list[Digit], int]:
    """The digits whose strides follow one another from 1, and the stride that the next one would have."""
    block = 1
    for k, (it, _) in enumerate(digits):
        if abs(it.stride) != block:
            return digits[:k], block
        block *= it.extent
    return digits, block


def _low(chain: list[Digit]) -> int:
    return sum(min(0, it.stride * (it.extent - 1)) for it, _ in chain)


def _back(chain: list[Digit]) -> tuple[Iters, int]:
    """The iters from places to numbers, and the number at the least place: a digit that walks down is read from its end."""
    iters = tuple(Iter(it.extent, weight if it.stride > 0 else -weight) for it, weight in reversed(chain))
    return iters, sum((it.extent - 1) * weight for it, weight in chain if it.stride < 0)


def _read(axes: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    order = (axes,) if isinstance(axes, str) else elements(axes, "the axes", "each axis of the layout once")
    if not all(isinstance(a, str) for a in order) or len(set(order)) != len(order) or not set(own) <= set(order):
        raise LayoutError(f"the axes {shown(order)} are not those of the layout, {', '.join(own)}", cure="each axis of the layout once")
    return order

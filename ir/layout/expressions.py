"""Lists of iters and EqFuse's index expressions (``ir/index.py``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...errors import LayoutError
from ..index import Axis, FloorDiv, IndexExpr, Mod, index
from . import iters as basic
from .composition import LARGEST
from .digits import Floors, canonical, of_floors, recognised
from .iters import Iters, Vector, plus


def to_expressions(
    iters: Iters, offset: Mapping[str, int], shape: Sequence[int], positions: Sequence[IndexExpr | Axis | int]
) -> dict[str, IndexExpr]:
    """Axis -> the place of the element at these positions, one for each dimension."""
    if len(positions) != len(shape):
        raise LayoutError(f"{len(positions)} positions for the shape {tuple(shape)}", cure="a position for every dimension")
    flat = index(0)
    for position, step in zip(positions, basic.strides(shape), strict=True):
        flat = flat + index(position) * step
    out = {axis: index(value) for axis, value in offset.items()}
    below = 1
    for it in reversed(iters):
        digit = flat // below
        if below * it.extent != basic.size_of(iters):
            digit = digit % it.extent
        out[it.axis] = out.get(it.axis, index(0)) + digit * it.stride
        below *= it.extent
    return out


def from_expressions(places: Mapping[str, IndexExpr | Axis | int], axes: Sequence[Axis]) -> tuple[Iters, Vector]:
    """The list over the axes, the last being the fastest, and the offset; LayoutError if the expressions are no list.

    Where every atom is about one axis, ``floor(x/a) % b = floor(x/a) - b·floor(x/(ab))`` gives coefficients, which decide at any
    size."""
    exprs = {name: index(e) for name, e in places.items()}
    unknown = {a for e in exprs.values() for a in e.axes()} - set(axes)
    if unknown:
        raise LayoutError(
            f"the expressions mention {', '.join(sorted(a.name for a in unknown))}",
            cure="all axes, in the order of the dimensions",
        )
    shape = basic.read_shape([a.size for a in axes])
    start: Vector = {}
    blocks: dict[Axis, Floors] | None = {a: {} for a in axes}
    for name, e in exprs.items():
        start = plus(start, {name: int(e.evaluate(dict.fromkeys(axes, 0)))})
        for atom, c in e.terms:
            parts = _floors_of(atom)
            if parts is None or blocks is None:
                blocks = None
                break
            axis, sums = parts
            for p, k in sums.items():
                blocks[axis][p] = plus(blocks[axis].get(p, {}), {name: k * c})
    if blocks is not None:
        lists = [of_floors(a.size, blocks[a]) for a in axes]
        if all(found is not None for found in lists):
            return canonical(tuple(it for found in lists for it in found or ())), start
        wrong = axes[lists.index(None)].name
        raise LayoutError(
            f"in {_text(exprs)}, axis {wrong} is no list of digits",
            cure="divisors that divide each other in turn, and the size",
        )
    size = basic.size_of(basic.Iter(n, 0) for n in shape)
    if size > LARGEST:
        raise LayoutError(
            f"{_text(exprs)} mixes axes in a division, and {size} elements are too many to look at",
            cure=f"up to {LARGEST} elements",
        )

    def value(x: int) -> Vector:
        at: dict[Axis, int] = {}
        for a in reversed(axes):
            x, at[a] = divmod(x, a.size)
        return {name: int(e.evaluate(at)) for name, e in exprs.items()}

    found = recognised(size, value)
    if found is None:
        raise LayoutError(f"{_text(exprs)} is no list of iters over {shape}", cure="divisors that divide each other in turn, and the sizes")
    return found, start


def _floors_of(atom: Axis | FloorDiv | Mod) -> tuple[Axis, dict[int, int]] | None:
    """The axis, and p -> c of ``sum c·floor(x / p)``; None if the atom is no such sum."""
    if isinstance(atom, Axis):
        return atom, {1: 1}
    inner = atom.numerator
    if inner.const or len(inner.terms) != 1 or inner.terms[0][1] != 1:
        return None
    below = _floors_of(inner.terms[0][0])
    if below is None or len(below[1]) != 1 or set(below[1].values()) != {1}:
        return None
    ((p, _),) = below[1].items()
    if isinstance(atom, FloorDiv):
        return below[0], {p * atom.divisor: 1}
    return below[0], {p: 1, p * atom.divisor: -atom.divisor}


def _text(exprs: Mapping[str, IndexExpr]) -> str:
    return ", ".join(f"{name} = {e}" for name, e in exprs.items())

"""Layouts given by bits: for each bit of a hardware axis, the element that it adds.

Triton describes a tile so (Zhou et al., "Linear Layouts", arXiv:2505.23819): extents are powers of two, bit k of an axis has a basis,
a position in the tensor, and the element of a place is the XOR of the bases of the bits that are set.  A basis that is a power of two
in one dimension is a step of an iter, and one that is 0 makes copies.  Others are XORs of several steps: turned round they are a
layout behind a swizzle, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ...errors import LayoutError
from .iters import Iter, read_shape, strides
from .layout import Layout
from .swizzle import Swizzle, Swizzled

Basis: TypeAlias = tuple[int, ...]
Bit: TypeAlias = tuple[str, int]  # axis, number of the bit


@dataclass
class Bases:
    """Bits in the making: ``walk`` goes on where the last walk along an axis, and along a dimension, ended."""

    rank: int
    bits: dict[str, list[Basis]] = field(default_factory=dict)

    def walk(self, axis: str, extent: int, dim: int | None) -> Bases:
        """The next ``extent`` places of an axis are the next positions of a dimension; copies without one."""
        bits = self.bits.setdefault(axis, [])
        reached = 1 if dim is None else self.reached(dim)
        for k in range(_log2(extent, f"the extent {extent} on axis {axis}")):
            bits.append(tuple(reached << k if d == dim else 0 for d in range(self.rank)))
        return self

    def walks(self, axis: str, extents: Sequence[int], order: Sequence[int], copied: int | None = None) -> Bases:
        """A walk along each dimension, in this order; along dimension ``copied`` there are copies."""
        for dim in order:
            self.walk(axis, extents[dim], None if dim == copied else dim)
        return self

    def reached(self, dim: int) -> int:
        """How many positions of a dimension are walked."""
        return 1 << max((b[dim].bit_length() for bits in self.bits.values() for b in bits), default=0)

    def fit(self, shape: Sequence[int], axis: str, order: Sequence[int]) -> Bases:
        """For a tensor of this shape: what is beyond it are copies, what is left of it more places of an axis, dimensions in order."""
        for dim in order:
            self.walk(axis, max(1, shape[dim] // self.reached(dim)), dim)
        for name, bits in self.bits.items():
            self.bits[name] = [tuple(v if v < n else 0 for v, n in zip(b, shape, strict=True)) for b in bits]
        return self

    def without(self, dim: int, axis: str) -> Bases:
        """The dimension left out, and the copies on one axis."""
        kept = {name: [b[:dim] + b[dim + 1 :] for b in bits] for name, bits in self.bits.items()}
        return Bases(self.rank - 1, kept | {axis: [b for b in kept.get(axis, []) if any(b)]})

    def layout(self, shape: Sequence[int]) -> Layout | Swizzled:
        """The layout of a tensor of this shape."""
        return layout_of_bases(self.bits, shape)


def layout_of_bases(bases: Mapping[str, Sequence[Sequence[int]]], shape: Sequence[int]) -> Layout | Swizzled:
    """The layout of which these are the bits; LayoutError, which names a bit, if it is no list of iters, with or without a swizzle."""
    dims = read_shape(shape)
    steps = strides(dims)
    width = sum(_log2(n, f"dimension {d} of {dims}") for d, n in enumerate(dims))
    numbers: dict[Bit, int] = {}
    copies: list[Iter] = []
    for axis, bits in bases.items():
        for k, basis in enumerate(bits):
            if len(basis) != len(dims) or not all(0 <= v < n for v, n in zip(basis, dims, strict=False)):
                raise LayoutError(f"bit {k} of axis {axis} is at {tuple(basis)}, outside of {dims}", cure="a position in the shape")
            number = sum(v * s for v, s in zip(basis, steps, strict=True))
            if number:
                numbers[axis, k] = number
            else:
                copies.append(Iter(2, 1 << k, axis))
    columns = _columns(numbers, width, dims)
    homes, moves = _homes(columns, dims)
    layout = Layout(tuple(Iter(2, 1 << k, axis) for axis, k in reversed(homes)), tuple(copies)).canonicalize()
    return layout if not moves else Swizzled(layout, _swizzle(moves, dims))


def _log2(n: int, what: str) -> int:
    if n < 1 or n & (n - 1):
        raise LayoutError(f"{what} is no power of two", cure="powers of two, as all tiles of Triton have")
    return n.bit_length() - 1


def _columns(numbers: Mapping[Bit, int], width: int, dims: Sequence[int]) -> list[frozenset[Bit]]:
    """For each bit of an element's number the bits of its place: the inverse matrix over GF(2), by elimination."""
    rows: dict[int, tuple[int, frozenset[Bit]]] = {}  # leading bit -> a number, and the bits of places that make it
    for bit, number in numbers.items():
        made = frozenset({bit})
        while number and (lead := number.bit_length() - 1) in rows:
            number, made = number ^ rows[lead][0], made ^ rows[lead][1]
        if not number:
            raise LayoutError(
                f"bit {bit[1]} of axis {bit[0]} is the XOR of other bits: copies of an element of {tuple(dims)} are not all alike",
                cure="bits that are independent, or 0",
            )
        rows[number.bit_length() - 1] = number, made
    if len(rows) < width:
        missing = next(k for k in range(width) if k not in rows)
        raise LayoutError(f"bit {missing} of the elements of {tuple(dims)} is nowhere", cure="bits that reach every element")
    out: list[frozenset[Bit]] = []
    for k in range(width):  # rows are triangular: below the leading bit all columns are known
        number, made = rows[k]
        for low in range(k):
            if number >> low & 1:
                made ^= out[low]
        out.append(made)
    return out


def _homes(columns: Sequence[frozenset[Bit]], dims: Sequence[int]) -> tuple[list[Bit], list[tuple[Bit, Bit]]]:
    """The bit at which each bit of the number is, and those which it turns over besides, as (from, to)."""
    alone = {bit for column in columns if len(column) == 1 for bit in column}
    homes, moves = [], []
    for k, column in enumerate(columns):
        free = sorted(column - alone) if len(column) > 1 else sorted(column)
        if len(column) > 2 or len(free) != 1:
            places = ", ".join(f"bit {b} of {axis}" for axis, b in sorted(column))
            raise LayoutError(
                f"bit {k} of the elements of {tuple(dims)} turns over {places}: no one swizzle does", cure="bits that turn one other"
            )
        homes.append(free[0])
        moves += [(free[0], other) for other in column - {free[0]}]
    return homes, moves


def _swizzle(moves: Sequence[tuple[Bit, Bit]], dims: Sequence[int]) -> Swizzle:
    axes = {axis for move in moves for axis, _ in move}
    shifts = {source - target for (_, source), (_, target) in moves}
    targets = sorted(target for _, (_, target) in moves)
    runs = targets == list(range(targets[0], targets[0] + len(targets)))
    if len(axes) != 1 or len(shifts) != 1 or not runs or abs(min(shifts)) < len(targets):
        shown = ", ".join(f"{b}@{axis} by {a}@{other}" for (other, a), (axis, b) in sorted(moves))
        raise LayoutError(
            f"in {tuple(dims)}, bits are turned over that no one swizzle turns: {shown}", cure="a run of bits, by the run so far above it"
        )
    return Swizzle(len(targets), targets[0], shifts.pop(), axes.pop())

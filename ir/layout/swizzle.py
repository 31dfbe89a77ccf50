"""XOR swizzles: a bijection on the addresses of one axis, after a layout.

``Swizzle(bits, base, shift)`` is CuTe's ``Swizzle<B, M, S>``: bits [base, base + bits) of the address are XORed with those ``shift``
above them (below, if negative). The two fields must not overlap; then what decides is not changed, and the swizzle is its own
inverse.  The Axe paper models swizzles as something apart; here they are a composition, so a slice, a group and a permutation act on
the layout before the swizzle, exactly, and the swizzle stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import LayoutError, shown
from .composition import LARGEST
from .digits import recognised
from .inverses import inverse
from .iters import MEMORY, Iter, Iters, Place, plus, value_at, whole
from .layout import AfterLayout, Layout, layout_of
from .slicing import Region


@dataclass(frozen=True)
class Swizzle:
    """XOR of ``bits`` bits at ``base`` with the bits ``shift`` above, of addresses on ``axis``.  Of bf16, 128-byte rows of shared
    memory are ``Swizzle(3, 3, 3)``."""

    bits: int
    base: int
    shift: int
    axis: str = MEMORY

    def __post_init__(self) -> None:
        whole(self.bits, "the bits of a swizzle", 0)
        whole(self.base, "the base of a swizzle", 0)
        Iter(1, 0, self.axis)
        if abs(whole(self.shift, "the shift of a swizzle")) < self.bits:
            raise LayoutError(f"{self!r} changes bits that it reads", cure="a shift of at least as many bits, up or down")

    @property
    def period(self) -> int:
        """Adding a multiple of it before the swizzle is adding it after."""
        return 1 << (self.base + self.bits + abs(self.shift)) if self.bits else 1

    def __call__(self, address: Any) -> Any:
        """The swizzled address of one, or of an array of integers; the same again gives it back."""
        mask = ((1 << self.bits) - 1) << (self.base + max(self.shift, 0))
        return address ^ ((address & mask) >> self.shift if self.shift >= 0 else (address & mask) << -self.shift)


@dataclass(frozen=True)
class Swizzled(AfterLayout):
    """``x -> swizzle(layout(x))``."""

    layout: Layout
    swizzle: Swizzle

    def __str__(self) -> str:
        s = self.swizzle
        return f"Swizzle<{s.bits},{s.base},{s.shift}>{'' if s.axis == MEMORY else '@' + s.axis} o {self.layout}"

    @property
    def size(self) -> int:
        """How many indices there are."""
        return self.layout.size

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that are mentioned."""
        return self.layout.axes

    def __call__(self, index: int | Sequence[int], shape: Sequence[int] | None = None) -> tuple[dict[str, int], ...]:
        """The places of an element, ascending."""
        places = [Place(self._moved(p)) for p in self.layout(index, shape)]
        return tuple(sorted(places, key=lambda p: tuple(p.values())))

    def _moved(self, place: Mapping[str, Any]) -> dict[str, Any]:
        return {a: self.swizzle(v) if a == self.swizzle.axis else v for a, v in place.items()}

    def at(self, indices: Any) -> dict[str, Any]:
        """Axis -> int64 of shape [*indices.shape, copies], in the order of the copies before the swizzle."""
        return self._moved(self.layout.at(indices))

    def over(self, shape: Sequence[int] | None = None) -> dict[str, Any]:
        """The whole map: axis -> int64 of shape [*shape, copies]."""
        return self._moved(self.layout.over(shape))

    def canonicalize(self) -> Swizzled:
        """The swizzle after the one layout of the map before it.  Different swizzles may still make one map: :meth:`equivalent`."""
        return Swizzled(self.layout.canonicalize(), self.swizzle)

    def equivalent(self, other: Swizzled | Layout) -> bool:
        """Whether both map each index to the same set of places.  A swizzle is one to one, so equal ones leave the layouts to compare;
        for others the values decide, up to 65536 elements and copies: beyond them LayoutError."""
        theirs = Swizzled(other, Swizzle(0, 0, 0, self.swizzle.axis)) if isinstance(other, Layout) else other
        if not isinstance(theirs, Swizzled):
            raise LayoutError(f"{shown(other)} is no layout", cure="a Layout or a Swizzled one")
        if self.swizzle == theirs.swizzle or self.size != theirs.size:
            return self.layout.equivalent(theirs.layout)
        if self.size * max(self.layout.copies, theirs.layout.copies) > LARGEST:
            raise LayoutError(f"{self} and {theirs} have other swizzles and more than {LARGEST} elements", cure="slices of them")
        axes = {*self.axes, *theirs.axes}
        return all(
            {tuple(p[a] for a in sorted(axes)) for p in self(x)} == {tuple(p[a] for a in sorted(axes)) for p in theirs(x)}
            for x in range(self.size)
        )

    def blocks(self, shape: Sequence[int]) -> tuple[Iters, ...]:
        """The iters of each dimension, before the swizzle."""
        return self.layout.blocks(shape)

    def compose(self, inner: Layout) -> Swizzled:
        """``x -> self(inner(x))``."""
        return Swizzled(self.layout.compose(inner), self.swizzle)

    def slice(self, region: Region, shape: Sequence[int] | None = None) -> Swizzled:
        """A box of a shape.  Where it begins stays inside of the swizzle."""
        return Swizzled(self.layout.slice(region, shape), self.swizzle)

    def permute(self, order: Sequence[int], shape: Sequence[int]) -> Swizzled:
        """The dimensions in another order."""
        return Swizzled(self.layout.permute(order, shape), self.swizzle)

    def group(self, shape: Sequence[int]) -> Swizzled:
        """With iters that end where dimensions do."""
        return Swizzled(self.layout.group(shape), self.swizzle)

    def tiled(self, outer: Layout, shape: Sequence[int] | None = None, inner_shape: Sequence[int] | None = None) -> Swizzled:
        """``outer (x) self``: copies of a swizzled tile.  Exact where tiles are multiples of the swizzle's period apart; others are
        refused."""
        apart = outer.scale(self.layout.span())
        period, axis = self.swizzle.period, self.swizzle.axis
        steps = [i for i in (*apart.iters, *apart.replicas) if i.axis == axis and i.extent > 1] + [Iter(1, apart.offset.get(axis, 0), axis)]
        for it in steps:
            if it.stride % period:
                raise LayoutError(
                    f"iter {it} puts tiles where {self.swizzle!r} is another one: no multiple of {period}",
                    cure=f"tiles that span multiples of {period}",
                )
        return Swizzled(outer.tile(self.layout, shape, inner_shape), self.swizzle)

    def tile(self, inner: Layout, shape: Sequence[int] | None = None, inner_shape: Sequence[int] | None = None) -> Swizzled:
        """``self (x) inner``: each place holds a tile.  The bits of the tile stand below those that the swizzle moves, so on its axis the
        tile fills 2^k places from 0; others are refused."""
        axis = self.swizzle.axis
        width, (low, _) = layout_of(inner).span().get(axis, 1), inner.bounds().get(axis, (0, 0))
        if width & (width - 1) or low:
            raise LayoutError(
                f"{inner} spans {width} places of axis {axis} from {low}, which {self.swizzle!r} does not move as a whole",
                cure="a tile that spans a power of two from 0, or outer.tile(swizzled) for copies of a swizzled tile",
            )
        raised = replace(self.swizzle, base=self.swizzle.base + width.bit_length() - 1)
        return Swizzled(self.layout.tile(inner, shape, inner_shape), raised)

    def tile_of(self, inner: Swizzled, shape: Sequence[int] | None = None, inner_shape: Sequence[int] | None = None) -> Layout:
        """The layout C with ``C.tile(inner)`` equivalent to this one, for a tile with the same swizzle."""
        if not isinstance(inner, Swizzled) or inner.swizzle != self.swizzle:
            raise LayoutError(f"the tile {shown(inner)} has another swizzle than {self}", cure="a tile with the same swizzle")
        outer = self.layout.tile_of(inner.layout, shape, inner_shape)
        inner.tiled(outer, shape and [n // m for n, m in zip(shape, inner_shape or (), strict=True)], inner_shape)
        return outer

    def plain(self) -> Layout:
        """The layout without a swizzle that is the same map; LayoutError if there is none.  One row of a tile has one: there the XOR
        is with a constant."""
        if self.layout.replicas or self.size > LARGEST:
            raise LayoutError(f"{self} has replicas, or more than {LARGEST} elements", cure="one copy, or a slice")
        start = self._moved({self.swizzle.axis: 0} | value_at(self.layout.iters, 0) | dict(self.layout.offset))

        def value(x: int) -> dict[str, int]:
            return self._moved({self.swizzle.axis: 0} | plus(value_at(self.layout.iters, x), self.layout.offset))

        found = recognised(self.size, value)
        if found is None:
            raise LayoutError(f"{self} is no list of iters: the bits that it reads change", cure="a slice in which they are the same")
        return Layout(found, (), start)

    def index_at(self, address: int) -> int:
        """The element at an address, where the layout is one to one onto 0 .. size - 1."""
        (place,) = inverse(self.layout)(self.swizzle(address))
        return next(iter(place.values()), 0)

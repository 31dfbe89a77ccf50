"""``Layout``: where each element of a tensor is, on named axes of hardware.

A layout has sharded iters D (ordered, the last is the fastest), replica iters R and an offset O, and maps an index to a set of
places, ``L(x) = { D(x) + r + O : r in R }``.  The algebra is that of the Axe paper, where it holds; each operation says where it does
not.  Parts that hold for lists of iters alone are in modules of their own: ``digits`` (D), ``replicas`` (R), ``slicing``,
``composition``, ``tiling``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, overload

from ...errors import LayoutError
from ...errors import shown as shown_value
from . import composition, digits, notation, replicas, slicing, strides, tiling
from . import iters as basic
from .iters import MEMORY, Iter, Iters, Vector, plus, read, read_shape, shown, size_of, spans, value_at, whole

if TYPE_CHECKING:
    import numpy as np

    from ..index import Axis, IndexExpr


class AfterLayout:
    """A map of places after a layout (:class:`~eqfuse.ir.layout.Swizzled`)."""

    def tiled(self, outer: Layout, shape: Sequence[int] | None = None, inner_shape: Sequence[int] | None = None) -> AfterLayout:
        """``outer (x) self``."""
        raise NotImplementedError

    def equivalent(self, other: Any) -> bool:
        """Whether both map each index to the same set of places."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Layout:
    """``Layout([(8, 4, "lane"), (2, 1)], replicas=[(2, 4, "warp")], offset={"warp": 5})``.

    Iters are :class:`Iter` or tuples (extent, stride, axis); without an axis they are on ``m``, memory.  Extents are 1 or more;
    strides may be negative or 0.  Replicas and offsets have no order.  ``==`` compares what is written, :meth:`equivalent` the
    maps."""

    iters: Iters
    replicas: Iters = ()
    offset: Mapping[str, int] = ()  # type: ignore[assignment]

    def __post_init__(self) -> None:
        try:
            offset = dict(self.offset)
        except Exception:  # an object may raise anything when it is iterated
            raise LayoutError(f"the offset of a layout is {shown_value(self.offset)}", cure="axis -> integer: {'m': 3}") from None
        for axis, value in offset.items():
            Iter(1, value, axis)
        object.__setattr__(self, "iters", read(self.iters))
        object.__setattr__(self, "replicas", tuple(sorted(read(self.replicas, "the replicas of a layout"))))
        object.__setattr__(self, "offset", {a: value for a in sorted(offset) if (value := whole(offset[a], "an offset"))})

    def __hash__(self) -> int:
        return hash((self.iters, self.replicas, tuple(self.offset.items())))

    # ---- making and printing ---------------------------------------------------------------------------------------------------
    @staticmethod
    def parse(text: str) -> Layout:
        """The layout that prints so: ``Layout.parse("(8,2):(4@lane,1) + [2:4@warp] + 5@warp")``."""
        return Layout(*notation.parsed(text))

    @staticmethod
    def from_strides(shape: Sequence[int], steps: Sequence[int] | None = None, offset: int = 0, axis: str = MEMORY) -> Layout:
        """The layout of a strided tensor, in elements; without strides row-major."""
        return Layout(strides.of_strides(shape, steps, axis), (), {axis: offset})

    @staticmethod
    def of(tensor: Any) -> Layout:
        """The layout of a torch tensor in its storage, or of a numpy array from its first element, in elements."""
        return Layout.from_strides(*strides.of_tensor(tensor))

    @staticmethod
    def from_index(places: Mapping[str, IndexExpr | Axis | int], axes: Sequence[Axis]) -> Layout:
        """The layout over these axes (the last is the fastest) whose places the expressions are; LayoutError if there is none."""
        from .expressions import from_expressions

        return Layout(*_with_offset(*from_expressions(places, axes)))

    def __repr__(self) -> str:
        def tuples(of: Iters) -> str:
            return f"[{', '.join(f'({i.extent}, {i.stride}, {i.axis!r})' for i in of)}]"

        parts = [tuples(self.iters)]
        if self.replicas:
            parts.append(f"replicas={tuples(self.replicas)}")
        if self.offset:
            parts.append(f"offset={dict(self.offset)!r}")
        return f"Layout({', '.join(parts)})"

    def __str__(self) -> str:
        return notation.line(self.iters, self.replicas, self.offset)

    def matrix(self) -> str:
        """The paper's two lines: extents over strides."""
        return notation.matrix(self.iters, self.replicas, self.offset)

    # ---- the map ---------------------------------------------------------------------------------------------------------------
    @property
    def size(self) -> int:
        """How many indices there are."""
        return size_of(self.iters)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that are mentioned, in order."""
        return tuple(dict.fromkeys([*(i.axis for i in (*self.iters, *self.replicas)), *self.offset]))

    @property
    def copies(self) -> int:
        """At how many places each element is: overlapping replicas count once."""
        return math.prod(map(replicas.count, replicas.by_axis(self.replicas)[0].values()))

    def _copies(self) -> dict[str, list[int]]:
        """Axis -> the distinct values that replicas add to the offset."""
        steps, shift = replicas.by_axis(self.replicas)
        return {a: [self.offset.get(a, 0) + shift.get(a, 0) + v for v in replicas.values(steps.get(a, ()))] for a in self.axes}

    def __call__(self, index: int | Sequence[int], shape: Sequence[int] | None = None) -> tuple[dict[str, int], ...]:
        """The places of an element, ascending: of its number, or of its index in a shape.  A place has a value for each axis."""
        dims = read_shape(self.size if shape is None else shape)
        self._admit(dims)
        at = basic.elements(index, "the index", "a number for each dimension") if isinstance(index, Sequence) else (index,)
        if len(at) != len(dims) or not all(0 <= whole(i, "an index") < n for i, n in zip(at, dims, strict=False)):
            raise LayoutError(
                f"index {shown_value(index)} is not in the shape {dims}", cure="one number for each dimension, from 0 to its size less 1"
            )
        base, copies = value_at(self.iters, basic.flat(at, dims)), self._copies()
        return tuple(
            basic.Place((a, base.get(a, 0) + v) for a, v in zip(copies, place, strict=True)) for place in product(*copies.values())
        )

    def at(self, indices: Any) -> dict[str, np.ndarray]:
        """The places of an array of element numbers: axis -> int64 of shape [*indices.shape, copies]."""
        import numpy as np

        numbers = np.asarray(indices)
        if numbers.dtype.kind not in "iu" or (numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < self.size):
            raise LayoutError(
                f"not all of the array are numbers of elements, 0 to {self.size - 1}", cure="an array of integers in that range"
            )
        numbers = numbers.astype(np.int64)
        copies = self._copies()
        for axis, (low, high) in self.bounds().items():
            if not -(2**63) <= low <= high < 2**63:
                raise LayoutError(f"axis {axis} runs from {low} to {high}, beyond 64 bits", cure="single indices, which are exact")
        base = {a: np.zeros_like(numbers) for a in copies}
        for it in reversed(self.iters):
            numbers, digit = np.divmod(numbers, it.extent)
            base[it.axis] += digit * it.stride if it.stride and it.extent > 1 else 0
        places = list(product(*copies.values()))
        shifts = {a: np.array([p[k] for p in places], np.int64) for k, a in enumerate(copies)}
        return {a: base[a][..., None] + shifts[a] for a in copies}

    def over(self, shape: Sequence[int] | None = None) -> dict[str, np.ndarray]:
        """The whole map: axis -> int64 of shape [*shape, copies]."""
        import numpy as np

        dims = read_shape(self.size if shape is None else shape)
        self._admit(dims)
        return self.at(np.arange(self.size).reshape(dims))

    def _admit(self, shape: Sequence[int]) -> None:
        if math.prod(shape) != self.size:
            raise LayoutError(
                f"the shape {tuple(shape)} has {math.prod(shape)} elements, {self} has {self.size}",
                cure="a shape of as many elements",
            )

    def span(self) -> dict[str, int]:
        """Axis -> greatest value less least, plus 1.  Exact, overlap or not: digits are independent."""
        return {a: spans((*self.iters, *self.replicas)).get(a, 1) for a in self.axes}

    def bounds(self) -> dict[str, tuple[int, int]]:
        """Axis -> least and greatest value."""
        low = plus(self.offset, basic.least((*self.iters, *self.replicas)))
        return {a: (low.get(a, 0), low.get(a, 0) + n - 1) for a, n in self.span().items()}

    # ---- normal forms ----------------------------------------------------------------------------------------------------------
    def canonicalize(self) -> Layout:
        """The one layout of this map: two layouts have the same one exactly if they are equivalent."""
        copies, shift = replicas.canonical(self.replicas)
        return Layout(digits.canonical(self.iters), copies, plus(self.offset, shift))

    def equivalent(self, other: Layout | AfterLayout) -> bool:
        """Whether both map each index to the same set of places (an axis that is not mentioned has the value 0)."""
        if not isinstance(other, Layout):
            return _after_layout(other).equivalent(self)
        return self.canonicalize() == other.canonicalize()

    def group(self, shape: Sequence[int]) -> Layout:
        """The same map with iters that end where dimensions do, and as few as there can be; LayoutError if no list of iters does."""
        return Layout(tuple(it for block in self.blocks(shape) for it in block), self.replicas, self.offset)

    def blocks(self, shape: Sequence[int]) -> tuple[Iters, ...]:
        """The iters of each dimension of the grouped layout; none for a dimension of 1."""
        return digits.grouped(self.iters, read_shape(shape))

    # ---- operations ------------------------------------------------------------------------------------------------------------
    def scale(self, widths: Mapping[str, int]) -> Layout:
        """Every place times the width of its axis, offset and copies included."""
        offset = {a: v * widths.get(a, 1) for a, v in self.offset.items()}
        return Layout(tiling.scaled(self.iters, widths), tiling.scaled(self.replicas, widths), offset)

    def direct_sum(self, inner: Layout, shape: Sequence[int] | None = None, inner_shape: Sequence[int] | None = None) -> Layout:
        """``(x || y) -> self(x) + inner(y)``, dimension by dimension, the inner index being the faster one."""
        layout_of(inner)
        mine, its = (
            read_shape(self.size if shape is None else shape),
            read_shape(inner.size if inner_shape is None else inner_shape),
        )
        found = tiling.interleaved(self.iters, mine, inner.iters, its)
        return Layout(found, (*self.replicas, *inner.replicas), plus(self.offset, inner.offset))

    @overload
    def tile(self, inner: Layout, shape: Sequence[int] | None = None, inner_shape: Sequence[int] | None = None) -> Layout: ...

    @overload
    def tile(self, inner: AfterLayout, shape: Sequence[int] | None = None, inner_shape: Sequence[int] | None = None) -> AfterLayout: ...

    def tile(
        self, inner: Layout | AfterLayout, shape: Sequence[int] | None = None, inner_shape: Sequence[int] | None = None
    ) -> Layout | AfterLayout:
        """``self (x) inner``: ``(x || y) -> self(x)·span(inner) + inner(y)``; tiles laid out by ``inner``, and among each other by
        ``self``.  Tiles of a swizzled layout must be whole periods of its swizzle apart.

        The paper's ``(A·W) + B = A (x) B`` holds as ``A.scale(B.span()).direct_sum(B)``: offset and copies are scaled as well."""
        if not isinstance(inner, Layout):
            return _after_layout(inner).tiled(self, shape, inner_shape)
        return self.scale(inner.span()).direct_sum(inner, shape, inner_shape)

    def tile_of(self, inner: Layout, shape: Sequence[int] | None = None, inner_shape: Sequence[int] | None = None) -> Layout:
        """The layout C with ``C.tile(inner)`` equivalent to this one; LayoutError, which says what differs, if there is none."""
        layout_of(inner)
        mine, its = (
            read_shape(self.size if shape is None else shape),
            read_shape(inner.size if inner_shape is None else inner_shape),
        )
        widths = inner.span()
        outer = tiling.outer_of(self.iters, mine, inner.iters, its, widths)
        (all_steps, all_shift), (own_steps, own_shift) = (replicas.by_axis(of.replicas) for of in (self, inner))
        gap = plus(plus(self.offset, all_shift), plus(inner.offset, own_shift), -1)
        copies: list[Iter] = []
        for axis in sorted({*all_steps, *own_steps, *gap}):
            width = widths.get(axis, 1)
            found = replicas.quotient(all_steps.get(axis, ()), own_steps.get(axis, ()), width)
            if found is None or gap.get(axis, 0) % width:
                what = "replicas" if found is None else "offset"
                raise LayoutError(
                    f"on axis {axis} the {what} of {self} are not those of {inner} at multiples of its span {width}",
                    cure="direct_sum says sums that are no tiles",
                )
            copies += [Iter(e, s, axis) for s, e in found]
        return Layout(outer, tuple(copies), {a: v // widths.get(a, 1) for a, v in gap.items()})

    def slice(self, region: slicing.Region, shape: Sequence[int] | None = None) -> Layout:
        """The layout of a box of a shape: per dimension a number, a ``slice``, or (first, last + 1); dimensions keep their place.

        Where the shape groups the layout this decides at any size: LayoutError means that the box has no layout."""
        dims = read_shape(self.size if shape is None else shape)
        self._admit(dims)
        box = slicing.read_region(region, dims)
        start = basic.flat([b for b, _ in box], dims)
        origin = plus(self.offset, value_at(self.iters, start))
        joined, parts = slicing.contiguous(dims, box)
        try:
            blocks = digits.grouped(self.iters, joined)
        except LayoutError as error:
            sizes = tuple(n for _, n in box)

            def index(t: int) -> int:
                return start + basic.flat(slicing.unflat(t, sizes), dims)

            return Layout(self._reindexed(math.prod(sizes), index, error), self.replicas, origin)
        out: list[Iter] = []
        for block, (first, length) in zip(blocks, parts, strict=True):
            found = slicing.interval(block, first, length)
            if found is None:
                raise slicing.uncut(block, first, length)
            out += found
        return Layout(tuple(out), self.replicas, origin)

    def permute(self, order: Sequence[int], shape: Sequence[int]) -> Layout:
        """The dimensions of a shape in another order: dimension k of the result is dimension ``order[k]``."""
        given = basic.elements(order, "the order", "each dimension once")
        dims, turn = read_shape(shape), tuple(whole(k, "a dimension of the order") for k in given)
        self._admit(dims)
        if sorted(turn) != list(range(len(dims))):
            raise LayoutError(f"{turn} is no order of {len(dims)} dimensions", cure="each dimension once")
        try:
            blocks = digits.grouped(self.iters, dims)
        except LayoutError as error:
            steps = basic.strides(dims)
            sizes, jumps = [dims[k] for k in turn], [steps[k] for k in turn]

            def index(t: int) -> int:
                return sum(i * j for i, j in zip(slicing.unflat(t, sizes), jumps, strict=True))

            return Layout(self._reindexed(self.size, index, error), self.replicas, self.offset)
        return Layout(tuple(it for k in turn for it in blocks[k]), self.replicas, self.offset)

    def _reindexed(self, size: int, index: Callable[[int], int], ungrouped: LayoutError) -> Iters:
        """The list of ``t -> D(index(t)) - D(index(0))`` where the shape does not group: small ones are looked at, others refused."""
        if size > composition.LARGEST:
            raise ungrouped
        found = digits.recognised(size, lambda t: value_at(self.iters, index(t)))
        if found is None:
            raise ungrouped
        return found

    def compose(self, inner: Layout) -> Layout:
        """``x -> self(inner(x))``: the one axis of ``inner`` counts elements of this layout.  Replicas of ``inner`` stay replicas, where
        they and the elements of ``inner`` are different digits of this layout; else they are refused."""
        if len(layout_of(inner).axes) > 1:
            raise LayoutError(
                f"{inner} is on the axes {', '.join(inner.axes)}",
                cure="an inner layout on one axis, which counts elements of the outer one",
            )
        (low, high) = next(iter(inner.bounds().values()), (0, 0))
        if low < 0 or high >= self.size:
            raise LayoutError(
                f"{inner} runs from {low} to {high}, beyond the {self.size} elements of {self}",
                cure="an inner layout within the outer one",
            )
        start = sum(inner.offset.values())
        copies = size_of(inner.replicas)
        refusal = f"{shown(digits.canonical(self.iters))} at {inner} is no list of iters"
        try:
            found = composition.composed(self.iters, (*inner.replicas, *inner.iters), start)
        except composition.TooLarge:
            raise LayoutError(
                f"{refusal} that could be found without a look at {inner.size} elements", cure="strides that divide"
            ) from None
        if found is None:
            raise LayoutError(refusal, cure="inner strides and extents that divide those of the outer layout")
        apart, out = digits.grouped(found, (copies, inner.size))
        return Layout(out, (*self.replicas, *apart), plus(self.offset, value_at(self.iters, start)))

    def complement(self, size: int | Mapping[str, int]) -> Layout:
        """The layout C of what this one leaves out of ``size`` places (of its axis, or axis -> size): C ascends, and each place below
        some multiple is an image of this one plus a value of C in exactly one way.  CuTe's ``complement``, which takes the order of
        the indices as given."""
        sizes = size if isinstance(size, Mapping) else dict.fromkeys(self.axes or (MEMORY,), size)
        if not isinstance(size, Mapping) and len(sizes) > 1:
            raise LayoutError(f"{self} is on the axes {', '.join(sizes)}", cure="a size for each axis: {'lane': 32, 'reg': 8}")
        steps, _ = replicas.by_axis((*self.iters, *self.replicas))
        low = self.bounds()
        out: list[Iter] = []
        for axis in [*dict.fromkeys([*sorted(steps), *sizes])]:
            found = replicas.complement(steps.get(axis, ()), whole(sizes.get(axis, 1), f"the size of axis {axis}", 1))
            if found is None or low.get(axis, (0, 0))[0]:
                named = shown(i for i in (*self.iters, *self.replicas) if i.axis == axis)
                why = "starts" if found is not None else "is spread so"
                raise LayoutError(
                    f"on axis {axis}, {named} of {self} {why} that translates of it fill no interval from 0",
                    cure="each stride a multiple of extent times stride before it, no offset",
                )
            out += [Iter(e, s, axis) for s, e in reversed(found)]
        return Layout(tuple(out))

    # ---- other notations -------------------------------------------------------------------------------------------------------
    def to_strides(self, shape: Sequence[int], axis: str = MEMORY) -> tuple[tuple[int, ...], int]:
        """Strides and offset in elements; LayoutError names the iter for which a dimension has no one stride."""
        others = [self.replicas[0]] if self.replicas else [Iter(1, v, a) for a, v in self.offset.items() if a != axis]
        if others:
            raise LayoutError(f"iter {others[0]} of {self} is nothing that strides say", cure="a layout on one axis without replicas")
        return strides.strides_of(self.iters, read_shape(shape), axis), self.offset.get(axis, 0)

    def to_index(self, positions: Sequence[IndexExpr | Axis | int], shape: Sequence[int] | None = None) -> dict[str, IndexExpr]:
        """Axis -> the place, as an index expression, of the element at these positions in a shape."""
        if self.replicas:
            raise LayoutError(
                f"{shown(self.replicas)} puts elements at {self.copies} places",
                cure="Layout(l.iters, (), l.offset), one of the copies",
            )
        from .expressions import to_expressions

        dims = read_shape(self.size if shape is None else shape)
        self._admit(dims)
        return to_expressions(self.iters, self.offset, dims, positions)


def layout_of(value: Any) -> Layout:
    """An argument that has to be a layout."""
    if not isinstance(value, Layout):
        raise LayoutError(f"{shown_value(value)} is no layout", cure="Layout([(8, 4), (4, 1)])")
    return value


def _after_layout(value: Any) -> AfterLayout:
    if not isinstance(value, AfterLayout):
        raise LayoutError(f"{shown_value(value)} is no layout", cure="a Layout or a Swizzled one")
    return value


def _with_offset(iters: Iters, offset: Vector) -> tuple[Iters, Iters, Vector]:
    return iters, (), offset

"""Hypothesis strategies for tensors: named sizes, memory layouts, adversarial values, masks, ragged lengths.

A size with a name is drawn once for all arguments of one call (it is a shared strategy, so this holds in anybody's ``@given``, too).
A drawn tensor remembers how it was made; :func:`recipe_of` returns that, and its ``code`` rebuilds the tensor anywhere.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from hypothesis import strategies as st

from ..errors import OptionError, expect, shown
from .misuse import one_of, require, several, whole

Values = str | Sequence[str]
Types: TypeAlias = "torch.dtype | Sequence[torch.dtype]"

_FINITE_ROWS = ("normal", "ties", "zeros", "equal", "small", "tiny", "large", "offset", "wide", "denormal")
_MASKED_ROWS = (*_FINITE_ROWS, "-inf", "masked rows")
FINITE = (*_FINITE_ROWS, *["mixed"] * 3)
"""Kinds of finite floating-point values, simplest first.  In ``"mixed"`` each row is of a kind of its own; it is drawn more often."""
MASKED = (*_MASKED_ROWS, *["masked rows"] * 3, *["mixed masked"] * 3)
"""The same with minus infinity among them: single elements, first parts of rows, and whole rows."""
LAYOUTS = ("contiguous", "offset", "rows", "strided", "transposed", "expanded")
"""How the elements lie in memory, simplest first.  There is also ``"huge"``: see :func:`lay_out`."""
MASKS = ("random", "all", "none", "empty rows", "lengths", "causal")
"""Kinds of truth values; ``"empty rows"`` has rows without a true element."""
LENGTHS = ("zeros", "ones", "equal", "lengths", "skewed")
"""Kinds of lengths, simplest first.  ``"lengths"`` has empty and full rows; in ``"skewed"`` one row is full, and most are short."""
WILD_LENGTHS = (*LENGTHS, "beyond", "negative", "far")
"""The same with what a mask must stand: lengths beyond the buffer, below 0, and at the ends of their type."""
OFFSETS = ("offsets", "equal offsets", "skewed offsets")
"""Kinds of offsets, all ascending: with empty rows, with rows of equal lengths, with one row that has most of the elements."""
DOCUMENTS = ("documents", "shuffled documents")
"""Kinds of rows' numbers: ascending, as of packed rows, and in any order.  Some rows have no element."""
WINDOWS = ("windows", "sliding windows")
"""Kinds of windows: anywhere, empty ones among them, and around the diagonal."""
WILD_WINDOWS = (*WINDOWS, "wild windows")
"""The same with ends in any order, beyond the buffer and below 0."""

_OPEN = 100
_EDGES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025)


@dataclass(frozen=True)
class Size:
    """A size with a name: the same wherever the name stands among the arguments of one call.

    ``open``: no upper bound was stated, so it may be larger than ``high`` where that is of use.
    """

    name: str
    low: int = 1
    high: int = 100
    open: bool = field(default=False, compare=False)

    def strategy(self) -> st.SearchStrategy[int]:
        """Sizes around powers of two more often than others."""
        edges = sorted({n for n in (self.low, *_EDGES, self.high) if self.low <= n <= self.high})
        either = st.one_of(st.integers(self.low, self.high), st.sampled_from(edges))
        return st.shared(either, key=f"eqfuse size {self.name}")


def size(name: str, low: int = 1, high: int | None = None) -> Size:
    """A named size between ``low`` and ``high``, both included.  Give one name the same bounds everywhere (pass the object).

    Without ``high`` it is 100 at most (or ``low``), and more in a few examples where a loop of a kernel runs twice only then.
    """
    expect(isinstance(name, str) and bool(name), "the name of a size", name, 'a text, as in size("N", 1, 100)')
    whole(f"size {name!r}: low", low)
    if high is None:
        return Size(name, low, max(low, _OPEN), open=True)
    whole(f"size {name!r}: high", high, low)
    return Size(name, low, high)


Dim = int | str | Size
Shape = Sequence[Dim]


@dataclass(frozen=True)
class Recipe:
    """How a tensor is made: everything that :func:`sample` is told."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    values: str = "normal"
    seed: int = 0
    layout: str = "contiguous"
    below: int | None = None
    sizes: tuple[Size | None, ...] = field(default=(), compare=False)
    """The named sizes that the shape, and at last ``below``, were drawn from."""

    def named(self) -> dict[Size, int]:
        """What the named sizes are."""
        values = enumerate(zip(self.sizes, (*self.shape, self.below), strict=False))
        return {s: v - _one_more(self, k) for k, (s, v) in values if s is not None and v is not None}

    def resized(self, which: Size, value: int) -> Recipe:
        """The same with another value of one named size."""
        new = [value + _one_more(self, k) if s == which else None for k, s in enumerate(self.sizes)]
        if not any(v is not None for v in new):
            return self
        shape = tuple(old if v is None else v for old, v in zip(self.shape, new, strict=False))
        below = self.below if new[-1] is None or len(new) <= len(shape) else new[-1]
        return replace(self, shape=shape, below=below)

    def build(self, device: str | torch.device = "cpu") -> torch.Tensor:
        """The tensor.  Attribute ``eqfuse_recipe`` remembers this recipe."""
        generator = torch.Generator().manual_seed(self.seed)
        tensor = lay_out(_draw(self, generator).to(self.dtype), self.layout, device)
        tensor.eqfuse_recipe = self  # type: ignore[attr-defined,unused-ignore]
        return tensor

    def code(self) -> str:
        """A Python expression for it; ``torch`` and ``sample`` are imported."""
        options = "" if self.values == "normal" else f", values={self.values!r}"
        options += f", seed={self.seed}" if self.seed else ""
        options += "" if self.layout == "contiguous" else f", layout={self.layout!r}"
        options += "" if self.below is None else f", below={self.below}"
        return f"sample({self.dtype}, {self.shape}{options})"


def recipe_of(tensor: torch.Tensor) -> Recipe | None:
    """How a drawn tensor was made; None for any other."""
    expect(isinstance(tensor, torch.Tensor), "what recipe_of is given", tensor, "a tensor")
    return getattr(tensor, "eqfuse_recipe", None)


def sample(
    dtype: torch.dtype,
    shape: Sequence[int],
    *,
    values: str = "normal",
    seed: int = 0,
    layout: str = "contiguous",
    below: int | None = None,
    device: str | torch.device = "cpu",
) -> torch.Tensor:
    """One tensor of a kind of :data:`FINITE`, :data:`MASKED`, :data:`MASKS` or of integers, in one of :data:`LAYOUTS`.

    Integers are ``"below"`` (0 <= x < below), ``"same"`` (all alike), or of :data:`WILD_LENGTHS`, :data:`OFFSETS`, :data:`DOCUMENTS` or
    :data:`WILD_WINDOWS`, where ``below`` is the longest row, the end of the last one, how many rows there are, or how many columns.
    The same arguments give the same tensor on every machine.
    """
    _one_type(dtype)
    for n in several("shape", shape, "some sizes, as in (3, 40)"):
        whole("a size", n)
    whole("seed", seed)
    expect(isinstance(values, str), "values", values, f"one of {', '.join(_kinds(dtype))}")
    one_of("values", values, _kinds(dtype))
    _one_layout(layout)
    if below is not None:
        whole("below", below)
    return Recipe(dtype, tuple(shape), values, seed, layout, below).build(device)


def tensors(
    dtype: Types, shape: Shape, *, values: Values = FINITE, layouts: str | Sequence[str] = LAYOUTS
) -> st.SearchStrategy[torch.Tensor]:
    """Floating-point tensors.  Several types: one is drawn for all arguments that name the same ones.

    ``shape`` holds numbers, names and :func:`size` objects.  ``values`` and ``layouts`` are kinds to draw from.
    """
    types = (dtype,) if isinstance(dtype, torch.dtype) else several("dtype", dtype, "torch.float32, or several types in a list")
    require(bool(types), "dtype is empty", "torch.float32, or several types in a list")
    for t in types:
        _one_type(t)
        require(t.is_floating_point, f"tensors are of floating point, and {t} is not", "indices(...), lengths(...) or masks(...)")
    one_of("values", values, _VALUES)
    return _strategy(dtype, shape, values, layouts, None)


def masks(shape: Shape, *, kinds: Values = MASKS, layouts: str | Sequence[str] = LAYOUTS) -> st.SearchStrategy[torch.Tensor]:
    """Truth values; the kinds that leave whole rows without a true element are among them."""
    one_of("kinds", kinds, MASKS)
    return _strategy(torch.bool, shape, kinds, layouts, None)


def indices(
    shape: Shape, below: Dim, *, dtype: Types = torch.int64, layouts: str | Sequence[str] = "contiguous"
) -> st.SearchStrategy[torch.Tensor]:
    """Integers ``0 <= x < below``, such as labels and positions."""
    _integer_types(dtype)
    _one_size("below", below)
    low = below if isinstance(below, int) else getattr(below, "low", 1)
    require(low > 0, f"below is {shown(below)}: no integer is at least 0 and below 0", "a size of 1 or more")
    return _strategy(dtype, shape, ("below", "same"), layouts, below)


def lengths(count: Dim, longest: Dim, *, kinds: Values = LENGTHS, dtype: Types = torch.int64) -> st.SearchStrategy[torch.Tensor]:
    """Lengths of ``count`` ragged rows, ``0 <= x <= longest``; empty and full rows among them.

    ``kinds=WILD_LENGTHS``: lengths that are no lengths of rows, too, for functions that compare positions with them and do no more.
    """
    one_of("kinds", kinds, WILD_LENGTHS)
    return _whole(dtype, (count,), kinds, "longest", longest)


def offsets(count: Dim, total: Dim, *, kinds: Values = OFFSETS, dtype: Types = torch.int64) -> st.SearchStrategy[torch.Tensor]:
    """Where each of ``count`` ragged rows of ``total`` elements begins: ``count + 1`` ascending numbers from 0 to ``total``.

    Of an empty batch there is one number, 0.
    """
    one_of("kinds", kinds, OFFSETS)
    return _whole(dtype, (count,), kinds, "total", total)


def documents(total: Dim, count: Dim, *, kinds: Values = DOCUMENTS, dtype: Types = torch.int64) -> st.SearchStrategy[torch.Tensor]:
    """To which of ``count`` rows each of ``total`` elements belongs: ``0 <= x < count``, in ascending order or not."""
    one_of("kinds", kinds, DOCUMENTS)
    return _whole(dtype, (total,), kinds, "count", count)


def windows(rows: Dim, columns: Dim, *, kinds: Values = WINDOWS, dtype: Types = torch.int64) -> st.SearchStrategy[torch.Tensor]:
    """The columns that each row sees, ``low <= column < high``: two columns of a tensor, ``low, high = windows.unbind(-1)``.

    ``0 <= low <= high <= columns``, but for ``kinds=WILD_WINDOWS``.
    """
    one_of("kinds", kinds, WILD_WINDOWS)
    return _whole(dtype, (rows, 2), kinds, "columns", columns)


def arguments(*args: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    """Tuples of arguments: strategies are drawn from, everything else is itself."""
    return st.tuples(*[a if isinstance(a, st.SearchStrategy) else _itself(a) for a in args])


def _itself(value: Any) -> st.SearchStrategy[Any]:
    """A value of whatever kind; ``st.just`` asks for its hash."""
    return st.none().map(lambda _: value)


def _one_type(dtype: Any) -> None:
    """A type that tensors can be drawn in."""
    good = isinstance(dtype, torch.dtype) and not dtype.is_complex
    expect(good, "a type", dtype, "a type of torch, such as torch.float32, torch.bfloat16 or torch.int64")


def _integer_types(dtype: Any) -> None:
    cure = "a type of integers, such as torch.int64, or several of them"
    for t in (dtype,) if isinstance(dtype, torch.dtype) else several("dtype", dtype, cure):
        _one_type(t)
        expect(not t.is_floating_point and t != torch.bool, "dtype", t, cure)


def _whole(dtype: Types, shape: Shape, kinds: Values, name: str, below: Dim) -> st.SearchStrategy[torch.Tensor]:
    """Integers that have to do with a size of that name."""
    _integer_types(dtype)
    _one_size(name, below)
    return _strategy(dtype, shape, kinds, "contiguous", below)


def _one_size(name: str, dim: Any) -> None:
    """A number, a name or a :func:`size`."""
    cure = 'a whole number, a name such as "N", or size("N", 1, 100)'
    number = isinstance(dim, int) and not isinstance(dim, bool) and 0 <= dim < 2**63
    expect(number or (isinstance(dim, str) and dim != "") or isinstance(dim, Size), name, dim, cure)


def _one_layout(layout: Any) -> None:
    expect(isinstance(layout, str), "layout", layout, f"one of {', '.join((*LAYOUTS, 'huge'))}")
    one_of("layout", layout, (*LAYOUTS, "huge"))


def _kinds(dtype: torch.dtype) -> Sequence[str]:
    """Kinds of values of a type."""
    return MASKS if dtype == torch.bool else tuple(_VALUES) if dtype.is_floating_point else tuple(_INTEGERS)


def _several(x: str | Sequence[str]) -> tuple[str, ...]:
    return (x,) if isinstance(x, str) else tuple(x)


def _one_more(recipe: Recipe, dim: int) -> int:
    return int(recipe.values in OFFSETS and dim == 0)


def _named(dim: Dim | None) -> Size | None:
    return size(dim) if isinstance(dim, str) else dim if isinstance(dim, Size) else None


def _size(dim: Dim) -> st.SearchStrategy[int]:
    if isinstance(dim, int):
        return st.just(dim)
    return (size(dim) if isinstance(dim, str) else dim).strategy()


def _strategy(
    dtype: Types, shape: Shape, values: Values, layouts: str | Sequence[str], below: Dim | None
) -> st.SearchStrategy[torch.Tensor]:
    for dim in several("shape", shape, 'sizes, numbers or names, as in (size("rows", 1, 4), "columns")'):
        _one_size("a size", dim)
    one_of("layouts", layouts, (*LAYOUTS, "huge"))
    if isinstance(dtype, torch.dtype):
        types: st.SearchStrategy[torch.dtype] = st.just(dtype)
    else:
        types = st.shared(st.sampled_from(list(dtype)), key=f"eqfuse type {tuple(dtype)}")
    recipes = st.builds(
        Recipe,
        dtype=types,
        shape=st.tuples(*map(_size, shape)),
        values=st.sampled_from(_several(values)),
        seed=st.integers(0, 2**16 - 1),
        layout=st.sampled_from(_several(layouts)),
        below=st.none() if below is None else _size(below),
        sizes=st.just(tuple(_named(d) for d in (*shape, below))),
    )
    return recipes.map(_with_offsets).map(Recipe.build)


def _with_offsets(recipe: Recipe) -> Recipe:
    """There is one offset more than there are rows."""
    return replace(recipe, shape=(recipe.shape[0] + 1,)) if recipe.values in OFFSETS else recipe


# ---- values ------------------------------------------------------------------------------------------------------------------


def _draw(r: Recipe, g: torch.Generator) -> torch.Tensor:
    """Values of a recipe, in float64 or as integers, contiguous."""
    if r.dtype == torch.bool:
        return _truth(r, g)
    if not r.dtype.is_floating_point:
        limits = torch.iinfo(r.dtype)
        return _INTEGERS[r.values](r.shape, g, r.below if r.below is not None else 8, limits).clamp(limits.min, limits.max)
    limits = torch.finfo(r.dtype)
    drawn = _VALUES[r.values](r.shape, g, limits)
    return torch.where(drawn.isinf(), drawn, drawn.clamp(limits.min / 8, limits.max / 8))


def _normal(shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=g, dtype=torch.float64)


def _ties(shape: tuple[int, ...], g: torch.Generator, limits: Any) -> torch.Tensor:
    return torch.randint(-2, 3, shape, generator=g).double()


def _zeros(shape: tuple[int, ...], g: torch.Generator, limits: Any) -> torch.Tensor:
    return torch.randint(0, 2, shape, generator=g).double() * 0.0 * torch.where(_normal(shape, g) < 0, -1.0, 1.0)


def _equal(shape: tuple[int, ...], g: torch.Generator, limits: Any) -> torch.Tensor:
    """Rows without any variance."""
    return _normal((*shape[:-1], 1), g).expand(shape).clone() if shape else _normal(shape, g)


def _wide(shape: tuple[int, ...], g: torch.Generator, limits: Any) -> torch.Tensor:
    return _normal(shape, g) * torch.exp2(torch.randint(-12, 13, shape, generator=g).double())


def _minus_infinity(shape: tuple[int, ...], g: torch.Generator, limits: Any) -> torch.Tensor:
    return _normal(shape, g).masked_fill(torch.rand(shape, generator=g) < 0.3, -torch.inf)


def _masked_rows(shape: tuple[int, ...], g: torch.Generator, limits: Any) -> torch.Tensor:
    """A third of the rows is masked whole, a third in its first part (the first tiles of a loop), a third not at all."""
    if not shape:
        return _normal(shape, g)
    width, part = shape[-1], torch.randint(0, 3, (*shape[:-1], 1), generator=g)
    keep = (torch.rand((*shape[:-1], 1), generator=g) * width).long()
    first = torch.where(part == 2, width, torch.where(part == 1, torch.minimum(keep, torch.tensor(max(width - 1, 0))), 0))
    return _normal(shape, g).masked_fill(torch.arange(width) < first, -torch.inf)


def _mixed(kinds: Sequence[str]) -> Callable[[tuple[int, ...], torch.Generator, Any], torch.Tensor]:
    def draw(shape: tuple[int, ...], g: torch.Generator, limits: Any) -> torch.Tensor:
        which = torch.randint(0, len(kinds), (*shape[:-1], 1) if shape else (), generator=g)
        drawn = _normal(shape, g)
        for k, kind in enumerate(kinds):
            if bool((which == k).any()):
                drawn = torch.where(which == k, _VALUES[kind](shape, g, limits), drawn)
        return drawn

    return draw


_VALUES: dict[str, Callable[[tuple[int, ...], torch.Generator, Any], torch.Tensor]] = {
    "normal": lambda shape, g, limits: _normal(shape, g),
    "ties": _ties,
    "zeros": _zeros,
    "equal": _equal,
    "small": lambda shape, g, limits: _normal(shape, g) * 1e-2,
    "tiny": lambda shape, g, limits: _normal(shape, g) * 1e-4,
    "large": lambda shape, g, limits: _normal(shape, g) * 100,
    "offset": lambda shape, g, limits: _normal(shape, g) + 1000,
    "wide": _wide,
    "denormal": lambda shape, g, limits: _normal(shape, g) * limits.tiny / 4,
    "-inf": _minus_infinity,
    "masked rows": _masked_rows,
    "mixed": _mixed(_FINITE_ROWS),
    "mixed masked": _mixed(_MASKED_ROWS),
}


def _truth(r: Recipe, g: torch.Generator) -> torch.Tensor:
    drawn, rows = torch.rand(r.shape, generator=g), torch.rand((*r.shape[:-1], 1), generator=g)
    width = r.shape[-1] if r.shape else 1
    columns = torch.arange(width)
    if r.values == "random":
        return drawn < 0.5
    if r.values in ("all", "none"):
        return torch.full(r.shape, r.values == "all")
    if r.values == "empty rows":
        return (drawn < 0.7) & (rows < 0.5)
    if r.values == "lengths":
        return (columns < (rows * (width + 1)).long()).expand(r.shape)
    if r.values == "causal":
        count = r.shape[-2] if len(r.shape) > 1 else 1
        return (columns[None, :] <= torch.arange(count)[:, None]).expand(*r.shape[:-2], count, width).reshape(r.shape)
    raise AssertionError(r.values)


def _below(shape: tuple[int, ...], g: torch.Generator, below: int, limits: Any) -> torch.Tensor:
    if below < 1 and torch.Size(shape).numel():
        raise OptionError(f"no integer is at least 0 and below {below}", cure="a larger number for below")
    return torch.randint(0, max(below, 1), shape, generator=g)


def _same(shape: tuple[int, ...], g: torch.Generator, below: int, limits: Any) -> torch.Tensor:
    drawn = _below(shape, g, below, limits)
    return drawn.flatten()[:1].expand(drawn.numel()).reshape(shape)


def _lengths(shape: tuple[int, ...], g: torch.Generator, below: int, limits: Any) -> torch.Tensor:
    """A fifth is 0, a fifth full."""
    drawn, kind = torch.randint(0, below + 1, shape, generator=g), torch.rand(shape, generator=g)
    return drawn.masked_fill(kind < 0.2, 0).masked_fill(kind > 0.8, below)


def _skewed(shape: tuple[int, ...], g: torch.Generator, below: int, limits: Any) -> torch.Tensor:
    """One full row, and short ones."""
    drawn = torch.randint(0, below // 8 + 1, shape, generator=g)
    full = torch.randint(0, max(drawn.numel(), 1), (1,), generator=g)
    return torch.where(torch.arange(drawn.numel()).reshape(shape) == full, below, drawn)


def _with_some(extreme: Callable[[int, Any], Sequence[int]]) -> Callable[[tuple[int, ...], torch.Generator, int, Any], torch.Tensor]:
    """Lengths, of which a third are others."""

    def draw(shape: tuple[int, ...], g: torch.Generator, below: int, limits: Any) -> torch.Tensor:
        drawn, numbers = _lengths(shape, g, below, limits), torch.tensor(extreme(below, limits))
        which = torch.randint(0, len(numbers), shape, generator=g)
        return torch.where(torch.rand(shape, generator=g) < 1 / 3, numbers[which], drawn)

    return draw


def _offsets_of(lengths: Callable[[int, torch.Generator, int], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Offsets from the cuts inside, in any order."""

    def draw(shape: tuple[int, ...], g: torch.Generator, below: int, limits: Any) -> torch.Tensor:
        if shape[0] < 2:
            return torch.zeros(shape).long()
        cuts = lengths(shape[0] - 2, g, below)
        return torch.cat([torch.tensor([0]), cuts.sort().values, torch.tensor([below])])

    return draw


def _cuts(count: int, g: torch.Generator, below: int) -> torch.Tensor:
    """Where rows end, some of them empty."""
    cuts = torch.randint(0, below + 1, (count,), generator=g)
    repeated = torch.rand(cuts.shape, generator=g) < 0.3  # empty rows
    return torch.where(repeated, cuts[:1].expand(cuts.shape), cuts) if count else cuts


def _skewed_cuts(count: int, g: torch.Generator, below: int) -> torch.Tensor:
    """All near one end or the other."""
    near = torch.randint(0, below // 8 + 1, (count,), generator=g)
    return torch.where(torch.rand((count,), generator=g) < torch.rand((1,), generator=g), near, below - near)


def _windows(shape: tuple[int, ...], g: torch.Generator, below: int, limits: Any) -> torch.Tensor:
    return torch.randint(0, below + 1, shape, generator=g).sort(-1).values


def _sliding_windows(shape: tuple[int, ...], g: torch.Generator, below: int, limits: Any) -> torch.Tensor:
    """As many columns to either side of each row."""
    rows, reach = torch.arange(shape[0])[:, None], torch.randint(0, below // 4 + 2, (1,), generator=g)
    return (rows + torch.cat([-reach, reach])).clamp(0, below)


def _wild_windows(shape: tuple[int, ...], g: torch.Generator, below: int, limits: Any) -> torch.Tensor:
    return torch.randint(-3, below + 4, shape, generator=g)


_INTEGERS: dict[str, Callable[[tuple[int, ...], torch.Generator, int, Any], torch.Tensor]] = {
    "below": _below,
    "same": _same,
    "zeros": lambda shape, g, below, limits: torch.zeros(shape).long(),
    "ones": lambda shape, g, below, limits: torch.full(shape, min(1, below)),
    "equal": lambda shape, g, below, limits: torch.randint(0, below + 1, (1,), generator=g).expand(shape).clone(),
    "lengths": _lengths,
    "skewed": _skewed,
    "beyond": _with_some(lambda below, limits: (below + 1, below + 7, 2 * below + 1)),
    "negative": _with_some(lambda below, limits: (-1, -5, -below)),
    "far": _with_some(lambda below, limits: (limits.max, limits.min, limits.max - 1, 2**31 + 3, -(2**31))),
    "offsets": _offsets_of(_cuts),
    "equal offsets": _offsets_of(lambda count, g, below: torch.arange(1, count + 1) * below // (count + 1)),
    "skewed offsets": _offsets_of(_skewed_cuts),
    "documents": lambda shape, g, below, limits: _below(shape, g, below, limits).sort().values,
    "shuffled documents": _below,
    "windows": _windows,
    "sliding windows": _sliding_windows,
    "wild windows": _wild_windows,
}


# ---- layouts -----------------------------------------------------------------------------------------------------------------


def lay_out(x: torch.Tensor, layout: str, device: str | torch.device = "cpu") -> torch.Tensor:
    """The values of ``x`` in another layout.  What lies between its elements is NaN, or the largest integer.

    ``"offset"`` begins inside its storage; ``"rows"`` has memory between its rows; ``"strided"`` steps by two in the last
    dimension; ``"transposed"`` has its last two dimensions exchanged in memory; ``"expanded"`` repeats its first slice with stride
    0.  ``"huge"`` spans more than 2³¹ elements: the last slice of the first dimension lies beyond what a 32-bit offset reaches.  On
    the CPU that is address space without memory behind it; it needs two slices at least and is ``"rows"`` otherwise.
    """
    expect(isinstance(x, torch.Tensor), "what lay_out is given", x, "a tensor")
    _one_layout(layout)
    x = _on(x, device).contiguous()
    if layout == "contiguous" or x.numel() == 0 or x.ndim == 0:
        return x
    if layout == "huge" and x.ndim > 1 and x.shape[0] > 1:
        return _huge(x)
    if layout == "transposed" and x.ndim > 1:
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "expanded" and x.ndim > 1:
        return x[:1].clone().expand(x.shape)
    if layout in ("rows", "huge") and x.ndim > 1:
        wide = _filler((*x.shape[:-1], x.shape[-1] + 3), x)
        view = wide[..., 2:-1]
    elif layout in ("strided", "transposed"):
        view = _filler((*x.shape[:-1], 2 * x.shape[-1]), x)[..., ::2]
    else:  # "offset", and what a tensor of one dimension cannot be
        view = _filler((x.numel() + 8,), x)[5:-3].view(x.shape)
    return view.copy_(x)


def _on(x: torch.Tensor, device: Any) -> torch.Tensor:
    """The same values on a device, dense."""
    cure = 'a device of this machine, such as "cpu" or "cuda:0"'
    expect(isinstance(device, str | torch.device), "device", device, cure)
    try:
        moved = x.to(torch.device(device))
    except Exception as error:  # torch has no one class of errors for what it does not know or have
        raise OptionError(f"device is {shown(device)}: {str(error).splitlines()[0]}", cure=cure) from error
    dense = moved.layout == torch.strided and not moved.is_nested and not moved.is_quantized
    expect(dense, "what lay_out is given", x, "a dense tensor: x.to_dense(), x.dequantize(), x.to_padded_tensor(0.0)")
    return moved


def _filler(shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    kind = like.dtype
    fill: Any = torch.nan if kind.is_floating_point else (True if kind == torch.bool else torch.iinfo(kind).max)
    return torch.full(shape, fill, dtype=kind, device=like.device)


def _huge(x: torch.Tensor) -> torch.Tensor:
    rows, inner = x.shape[0], x[0].numel()
    stride = -(-(2**31) // (rows - 1))  # itself within 32 bits for three rows and more
    stride = max(-(-stride // 16) * 16, inner)
    elements = (rows - 1) * stride + inner
    if x.device.type == "cpu":
        if not sys.platform.startswith("linux"):
            raise OptionError("the layout 'huge' needs Linux, or a CUDA device")
        reserve = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Linux's value; only touched pages become memory
        memory = mmap.mmap(-1, elements * x.element_size(), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | reserve)
        flat = torch.frombuffer(memory, dtype=x.dtype)
    else:
        flat = torch.empty(elements, dtype=x.dtype, device=x.device)
    return flat.as_strided(x.shape, (stride, *x[0].stride())).copy_(x)

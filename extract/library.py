"""Matrix products and convolutions of the vendor's library, through torch: offers that no rule has to make.

A sum of a product whose sides have axes of their own *is* a matrix product: every such value of the program is offered as one, whatever
batches, rows, columns and contracted axes it has, alone and with what is added to all its rows.  So is every convolution, transposed ones
among them, without groups.  What this takes on a device says its
target file (``library_tflops``, ``library_us``); where that has no rate for a type, nothing is offered.  This is an equality
over the reals: libraries sum in an order of their own, and round products in 16-bit types at once, as eager code does.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from ..egraph.frozen import FrozenGraph
from ..ir.dtypes import DType
from ..ir.index import Axis
from ..ir.terms import Map, Reduce, Term, as_read
from .convolutions import Convolution, convolution
from .outside import Handed, Outside
from .targets import Target

NAME = "library_product"
CONVOLUTION = "library_convolution"
MADE_FOR_ALL = frozenset({NAME, CONVOLUTION})  # what is offered for many values of a program
SHARES = {False: 0.9, True: 0.4}  # of the library's rate of products, by whether it is transposed (measured on a CPU)
HALF_RATE = 12.0  # rows of a product, or columns, with which a library reaches half of its rate (measured: 2 to 1024 rows of 1024 columns)


@dataclass(frozen=True)
class Product:
    """``y[batches, rows, columns] = sum over contracted of a[batches, rows, contracted] * b[batches, contracted, columns]``, and to it
    ``added[columns]`` if there is any."""

    term: Term
    a: Term
    b: Term
    batches: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    contracted: tuple[Axis, ...]
    added: Term | None = None

    @property
    def plain(self) -> bool:
        """Whether ``torch.matmul`` takes it: matrices or batches of them, or several row axes against one matrix."""
        one = len(self.columns) == len(self.contracted) == 1
        return one and (len(self.rows) == 1 or not self.batches)

    @property
    def orders(self) -> tuple[tuple[Axis, ...], ...]:
        """The axes of the result and of the arguments, outermost first."""
        b, r, c, k = self.batches, self.rows, self.columns, self.contracted
        if self.added is not None:
            return (*r, *c), (*r, *k), (*c, *k), c
        return (*b, *r, *c), (*b, *r, *k), (*b, *k, *c)

    @property
    def function(self) -> tuple[tuple[str, str], tuple[str, ...]]:
        """The function, and what it takes before its arguments."""
        if self.added is not None:
            return ("torch.nn.functional", "linear"), ()
        if self.plain:
            return ("torch", "matmul"), ()
        letter = dict(zip((*self.batches, *self.rows, *self.columns, *self.contracted), string.ascii_letters, strict=False))
        result, a, b = ("".join(letter[x] for x in order) for order in self.orders)
        return ("torch", "einsum"), (f"{a},{b}->{result}",)

    def us(self, target: Target) -> float:
        """Microseconds: its arithmetic, at a rate that was measured with its traffic, or that alone if it takes longer."""
        assert self.term.dtype is not None
        m, n, *k = (math.prod(a.size for a in axes) for axes in (self.rows, self.columns, self.batches, self.contracted))
        moved = sum(math.prod(a.size for a in order) for order in self.orders)
        return _us(target, self.term.dtype, m, n, math.prod(k), moved)


def _us(target: Target, dtype: DType, m: int, n: int, k: int, moved: int, share: float = 1.0) -> float:
    """Microseconds of a product of matrices by the library, which moves so many elements, at a share of its rate."""
    rate = share * target.library_tflops[dtype.name] / (1 + HALF_RATE / max(min(m, n), 1))
    return target.library_us + max(moved * dtype.itemsize / (target.dram_gb_s * 1e3), 2.0 * m * n * k / (rate * 1e6))


def product(term: Term) -> Product | None:
    """A value as a matrix product, with what is added to its rows, if it is one of values of its own floating type."""
    if not isinstance(term, Map) or term.op != "add":
        return _contraction(term)
    for x, added in (term.args, reversed(term.args)):
        found = _contraction(x)
        if found is None or found.batches or {added.dtype, x.dtype} != {term.dtype}:
            continue
        for sides in (found, _turned(found)):
            if sides.plain and added.axes == {*sides.columns}:
                return replace(sides, term=term, added=added)
    return None


def _contraction(term: Term) -> Product | None:
    """A value as a matrix product with nothing added."""
    contracted: list[Axis] = []
    inner = term
    while isinstance(inner, Reduce) and inner.monoid == "sum":
        contracted.insert(0, inner.axis)
        inner = inner.args[0]
    if not contracted or not isinstance(inner, Map) or inner.op != "mul":
        return None
    a, b = map(as_read, inner.args)
    if {inner.dtype, a.dtype, b.dtype} != {term.dtype} or term.dtype is None or not term.dtype.is_float:
        return None
    both, k = a.axes & b.axes, frozenset(contracted)
    if len(k) < len(contracted) or not k <= both or not a.axes - b.axes or not b.axes - a.axes:
        return None
    batches, rows, columns = (tuple(sorted(axes)) for axes in (both - k, a.axes - b.axes, b.axes - a.axes))
    found = Product(term, a, b, batches, rows, columns, tuple(contracted))
    return found if len(found.columns) == 1 else _turned(found)  # several row axes are rows of one matrix


def _turned(p: Product) -> Product:
    """The product with its sides exchanged."""
    return replace(p, a=p.b, b=p.a, rows=p.columns, columns=p.rows)


def types(graph: FrozenGraph) -> dict[int, DType | None]:
    """The type that a program gives the value of a class."""
    return dict(zip(reversed(graph.original), (t.dtype for t in reversed(graph.program.terms())), strict=True))


def buffer_names(graph: FrozenGraph) -> dict[int, str]:
    """What the buffer of a class of a program is called."""
    temporaries = {c: graph.program.temporary(at) for at, c in reversed([*enumerate(graph.original)])}
    return temporaries | {c: name for name, c in graph.roots.items()}


def products(graph: FrozenGraph, target: Target) -> Iterator[Outside]:
    """An offer for every matrix product of a program of whose type the target has the library's rate."""
    classes = dict(zip(graph.program.terms(), graph.original, strict=True))
    names, done = buffer_names(graph), set[int]()
    for term, c in classes.items():
        p = product(term) if c not in done and term.dtype is not None and term.dtype.name in target.library_tflops else None
        if p is not None:
            done.add(c)
            yield _offered(p, c, tuple(classes[x] for x in (p.a, p.b, p.added) if x is not None), names[c])


def convolutions(graph: FrozenGraph, target: Target) -> Iterator[Outside]:
    """The same for every convolution with a window, or a stride."""
    classes = dict(zip(graph.program.terms(), graph.original, strict=True))
    names, done = buffer_names(graph), set[int]()
    for term, c in classes.items():
        dtype = term.dtype
        if c not in done and dtype is not None and dtype.name in target.library_tflops and (found := convolution(term)) is not None:
            done.add(c)
            reads = tuple(classes[x] for x in (found.x, found.weight, found.added) if x is not None)
            yield _convolved(found, dtype, c, reads, names[c])


def _convolved(found: Convolution, dtype: DType, cls: int, reads: tuple[int, ...], about: str) -> Outside:
    """A convolution as an offer."""
    made, *given = (
        Handed(c, name, tuple(a for axes in order for a in axes), dtype, tuple(map(len, order)))
        for c, name, order in zip((cls, *reads), ("y", "x", "weight", "bias"), found.orders, strict=False)
    )
    moved = sum(math.prod(a.size for a in v.order if a is not None) for v in (made, *given))

    def us(target: Target) -> float:
        return _us(target, dtype, *found.product, moved, SHARES[found.transposed])

    entry, named = found.function
    return Outside(CONVOLUTION, "extract/library.py", entry, made, tuple(given), us, (), named, about)


sources: list[Callable[[FrozenGraph, Target], Iterable[Outside]]] = [products, convolutions]
"""What makes the library's offers for a graph.  The face of the package adds to it."""


def library_offers(graph: FrozenGraph, target: Target) -> list[Outside]:
    """All that the library offers on a target."""
    return [o for source in sources for o in source(graph, target)] if target.library_tflops else []


def _offered(p: Product, cls: int, reads: tuple[int, ...], about: str) -> Outside:
    """A product as an offer."""
    made, *given = (
        Handed(c, name, order, p.term.dtype) for c, name, order in zip((cls, *reads), ("y", "a", "b", "c"), p.orders, strict=False)
    )
    entry, first = p.function
    return Outside(NAME, "extract/library.py", entry, made, tuple(given), p.us, first, about=about)

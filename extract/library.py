"""Matrix products of the vendor's library, through torch: offers that no rule has to make.

A sum of a product whose sides have axes of their own *is* a matrix product: every such value of the program is offered as one, whatever
batches, rows, columns and contracted axes it has.  What this takes on a device says its target file (``library_tflops``, ``library_us``);
where that gives no rate, nothing is offered.  An equality over the reals: libraries sum in an order of their own.
"""

from __future__ import annotations

import math
import string
from dataclasses import dataclass

from ..egraph.frozen import FrozenGraph
from ..ir.index import Axis
from ..ir.terms import Const, Map, Reduce, Term
from .outside import Handed, Outside
from .targets import Target

NAME = "library_product"
FULL_ROWS = 16  # of a product with fewer rows or columns than this, the library has the rate of that share (measured: 1 and 4 rows)


@dataclass(frozen=True)
class Product:
    """``y[batches, rows, columns] = sum over contracted of a[batches, rows, contracted] * b[batches, contracted, columns]``."""

    term: Term
    a: Term
    b: Term
    batches: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    contracted: tuple[Axis, ...]

    @property
    def plain(self) -> bool:
        """Whether ``torch.matmul`` takes it: matrices or batches of them, or several row axes against one matrix."""
        one = len(self.columns) == len(self.contracted) == 1
        return one and (len(self.rows) == 1 or not self.batches)

    @property
    def orders(self) -> tuple[tuple[Axis, ...], tuple[Axis, ...], tuple[Axis, ...]]:
        """The axes of the result and of the arguments, outermost first."""
        b, r, c, k = self.batches, self.rows, self.columns, self.contracted
        return (*b, *r, *c), (*b, *r, *k), (*b, *k, *c)

    @property
    def equation(self) -> str:
        """As ``torch.einsum`` writes it."""
        letter = dict(zip((*self.batches, *self.rows, *self.columns, *self.contracted), string.ascii_letters, strict=False))
        result, a, b = ("".join(letter[x] for x in order) for order in self.orders)
        return f"{a},{b}->{result}"

    def us(self, target: Target) -> float:
        """Microseconds: its traffic and its arithmetic, one after the other."""
        assert self.term.dtype is not None
        m, n = (math.prod(a.size for a in axes) for axes in (self.rows, self.columns))
        flops = 2.0 * m * n * math.prod(a.size for a in (*self.batches, *self.contracted))
        moved = sum(math.prod(a.size for a in order) for order in self.orders) * self.term.dtype.itemsize
        rate = target.library_tflops[self.term.dtype.name] * min(1.0, m / FULL_ROWS, n / FULL_ROWS)
        return target.library_us + moved / (target.dram_gb_s * 1e3) + (flops / (rate * 1e6) if flops else 0.0)


def product(term: Term) -> Product | None:
    """A value as a matrix product, if it is one of two values of its own floating type."""
    contracted: list[Axis] = []
    inner = term
    while isinstance(inner, Reduce) and inner.monoid == "sum":
        contracted.insert(0, inner.axis)
        inner = inner.args[0]
    if not contracted or not isinstance(inner, Map) or inner.op != "mul" or len(inner.args) != 2:
        return None
    a, b = inner.args
    types = {term.dtype, inner.dtype, a.dtype, b.dtype}
    if len(types) != 1 or term.dtype is None or not term.dtype.is_float or isinstance(a, Const) or isinstance(b, Const):
        return None
    both, k = a.axes & b.axes, frozenset(contracted)
    if len(k) < len(contracted) or not k <= both or not a.axes - b.axes or not b.axes - a.axes:
        return None

    def ordered(axes: frozenset[Axis]) -> tuple[Axis, ...]:
        return tuple(sorted(axes))

    return Product(term, a, b, ordered(both - k), ordered(a.axes - b.axes), ordered(b.axes - a.axes), tuple(contracted))


def products(graph: FrozenGraph, target: Target) -> list[Outside]:
    """An offer for every matrix product of a program of whose type the target has the library's rate."""
    program = graph.program
    classes = dict(zip(program.terms(), graph.original, strict=True))
    names = {c: program.temporary(at) for at, c in reversed([*enumerate(graph.original)])} | {c: name for name, c in graph.roots.items()}
    found: dict[int, Outside] = {}
    for term, c in classes.items():
        p = product(term)
        if p is None or term.dtype is None or term.dtype.name not in target.library_tflops or c in found:
            continue
        found[c] = _offered(p, c, (classes[p.a], classes[p.b]), names[c])
    return list(found.values())


def _offered(p: Product, cls: int, reads: tuple[int, int], about: str) -> Outside:
    """A product as an offer."""
    made, *given = (
        Handed(c, name, order, p.term.dtype) for c, name, order in zip((cls, *reads), ("y", "a", "b"), p.orders, strict=True)
    )
    entry, first = (("torch", "matmul"), ()) if p.plain else (("torch", "einsum"), (p.equation,))
    return Outside(NAME, "extract/library.py", entry, made, tuple(given), p.us, first, about)

"""Pairs that nobody thought of: a program drawn from a grammar of matrices, and the best order of it, found by trying.

The grammar has products of matrices and vectors, sums, differences, numbers and scalings of rows and columns between them, transposes,
sums along rows, columns and batches, functions of elements; leaves are used again, so that there is something to share.  A program is
kept if it takes :data:`LEAST` and by operations and bytes alone another order takes at most two thirds of its time.  The best form is
searched without the rewrite rules: orders by the enumeration in :mod:`.orders`, planned one by one with all rules off that change orders.
Left out are those whose arithmetic alone takes longer than the best plan.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from ..extract.targets import load_target
from .orders import FUNCTIONS, Applied, Leaf, Order, Orders, Poly, Term, TooMany

OFTEN = ("product",) * 8 + ("add",) * 2 + ("shared",) * 3
LENGTHS = (16, 64, 256, 1024, 4096)
BATCHES = (8, 16)
LEAST = 10.0  # microseconds that a drawn program takes by that price
WORTH = 1.5  # times the price of the best order, that of the drawn one has to be
TERMS, FACTORS = 4, 6  # of a polynomial that is searched
AS_WRITTEN = {"disable": ["order", "cancelling"]}
RATIO = 1.05
DRAWN = range(330)  # what is looked at for the benchmark; what is kept of it:
SEEDS = (
    5, 7, 9, 11, 12, 18, 29, 54, 55, 56, 57, 59, 72, 76, 78, 80, 91, 98, 115, 117, 120, 121, 133, 135, 137, 139, 142, 144, 146, 151, 166,
    173, 178, 184, 186, 187, 189, 190, 198, 202, 203, 219, 229, 233, 246, 252, 263, 266, 283, 285, 295, 296, 301, 303, 305, 315, 319, 320,
    322, 327,
)  # fmt: skip
EXCEPTIONS = {  # how much longer a plan may take, and what is missing
    76: (1.5, "three launches of a few microseconds each in place of two: a price without kernels does not know which sums share one"),
    327: (1.3, "two sums of one product bind axes of one name, where an exchange that is possible only after another one stops"),
}


# the grammar ----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matrix:
    """An expression: ``kind`` is leaf, or the name of an operation; ``text`` is how it is written in Python."""

    kind: str
    rows: int
    columns: int
    batch: int = 0
    args: tuple[Matrix, ...] = ()
    text: str = ""
    name: str = ""  # of a leaf, or a function
    number: float = 1.0

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor."""
        return (*((self.batch,) if self.batch else ()), self.rows, self.columns)

    @cached_property
    def adds(self) -> bool:
        """Whether terms are added below, seen from outside of functions."""
        return self.kind in ("+", "-") or (self.kind != "function" and any(a.adds for a in self.args))

    @cached_property
    def distributes(self) -> bool:
        """Whether something is a product with a sum, or a sum of sums."""
        product = self.kind in ("@", "*", "reduce", "batch") and any(a.adds for a in self.args)
        return product or any(a.distributes for a in self.args)


class Drawing:
    """Draws expressions over leaves that it shares among them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.leaves: list[Matrix] = []
        self.batch = self.rng.choice([0, 0, self.rng.choice(BATCHES)])

    def length(self) -> int:
        """Of an axis."""
        return self.rng.choice(LENGTHS)

    def program(self) -> Matrix:
        """A whole one."""
        rows, columns = self.length(), self.rng.choice([1, *LENGTHS, *LENGTHS])
        e = self.expression(rows, columns, self.rng.choice([2, 2, 3]))
        last = self.rng.choice(["", "", "", "", "sum", "sum", "sum all", "function", "batch"])
        if last == "function":
            return self.function(e)
        if last == "batch" and e.batch:
            return Matrix("batch", rows, columns, 0, (e,), f"{_bracket(e)}.sum(0)")
        return self.reduced(e, last) if last in ("sum", "sum all") else e

    def leaf(self, rows: int, columns: int) -> Matrix:
        """An input: one that is there, or a new one."""
        known = [x for x in self.leaves if (x.rows, x.columns) == (rows, columns)]
        turned = [x for x in self.leaves if (x.columns, x.rows) == (rows, columns) and 1 not in (rows, columns)]
        if known and self.rng.random() < 0.5:
            return self.rng.choice(known)
        if turned and self.rng.random() < 0.5:
            return self.turned(self.rng.choice(turned))
        name = "abcdefghijklmnop"[len(self.leaves)]
        batch = self.batch if self.rng.random() < 0.7 else 0
        made = Matrix("leaf", rows, columns, batch, text=name, name=name)
        self.leaves.append(made)
        return made

    def turned(self, x: Matrix) -> Matrix:
        """A transpose."""
        return Matrix("transpose", x.columns, x.rows, x.batch, (x,), f"{_bracket(x)}.mT")

    def function(self, x: Matrix) -> Matrix:
        """A function of each element."""
        name = self.rng.choice(sorted(FUNCTIONS))
        return Matrix("function", x.rows, x.columns, x.batch, (x,), f"{name}({x.text})", name)

    def reduced(self, x: Matrix, how: str) -> Matrix:
        """A sum along rows, columns, or both."""
        made = x
        for d in (-2, -1) if how == "sum all" else (self.rng.choice([-1, -2]),):
            rows, columns = (1, made.columns) if d == -2 else (made.rows, 1)
            made = Matrix("reduce", rows, columns, x.batch, (made,), f"{_bracket(made)}.sum({d}, keepdim=True)", name=str(d))
        return made

    def expression(self, rows: int, columns: int, depth: int) -> Matrix:
        """An expression of these lengths."""
        if depth == 0 or 1 in (rows, columns) and self.rng.random() < 0.5:
            found = self.leaf(rows, columns)
            return self.function(found) if self.rng.random() < 0.15 else found
        kind = self.rng.choice([*OFTEN, "scaled", "rows", "columns", "turned", "function", "reduced"])
        if kind == "product":
            inner = self.length()
            left = self.expression(rows, inner, depth - 1)
            return _product(left, self.expression(inner, columns, self.rng.randint(0, depth - 1)))
        if kind == "add":
            return self.sum(self.expression(rows, columns, depth - 1), self.expression(rows, columns, depth - 1))
        if kind == "shared":  # x @ a + x @ b, or a @ x + b @ x
            inner = self.length()
            first = self.rng.random() < 0.5
            x = self.leaf(*((rows, inner) if first else (inner, columns)))
            parts = [self.expression(*((inner, columns) if first else (rows, inner)), self.rng.randint(0, depth - 1)) for _ in range(2)]
            return self.sum(*(_product(x, p) if first else _product(p, x) for p in parts))
        x = self.expression(rows, columns, depth - 1)
        if kind == "scaled":
            number = self.rng.choice([0.5, 2.0, 0.125])
            return Matrix("number", rows, columns, x.batch, (x,), f"{number} * {_bracket(x)}", number=number)
        if kind == "rows":
            return _times(x, self.leaf(rows, 1))
        if kind == "columns":
            return _times(x, self.leaf(1, columns))
        if kind == "reduced" and depth > 1:
            y = self.expression(rows, self.length(), depth - 1)
            return _times(x, Matrix("reduce", rows, 1, y.batch, (y,), f"{_bracket(y)}.sum(-1, keepdim=True)", name="-1"))
        return self.turned(self.expression(columns, rows, depth - 1)) if kind == "turned" else x

    def sum(self, a: Matrix, b: Matrix) -> Matrix:
        """A sum or a difference; of one thing with itself only the thing."""
        if a.text == b.text:
            return a
        sign = self.rng.choice(["+", "+", "-"])
        text = f"{a.text} {sign} {_bracket(b) if b.kind in '+-' else b.text}"
        return Matrix(sign, a.rows, a.columns, max(a.batch, b.batch), (a, b), text)


def _bracket(x: Matrix) -> str:
    return f"({x.text})" if x.kind in ("+", "-", "@", "*", "number") else x.text


def _product(a: Matrix, b: Matrix) -> Matrix:
    left = a.text if a.kind == "@" else _bracket(a)
    return Matrix("@", a.rows, b.columns, max(a.batch, b.batch), (a, b), f"{left} @ {_bracket(b)}")


def _times(a: Matrix, b: Matrix) -> Matrix:
    return Matrix("*", a.rows, a.columns, max(a.batch, b.batch), (a, b), f"{_bracket(a)} * {_bracket(b)}")


class _Reader:
    """The polynomial of an expression."""

    def __init__(self, batch: int) -> None:
        self.sizes = {"b": batch}
        self.letters = itertools.chain("ijklmnopqrstuvwxyz", (f"z{k}" for k in itertools.count()))

    def axis(self, size: int) -> str | None:
        """A new axis; none of length 1."""
        if size == 1:
            return None
        name = next(self.letters)
        self.sizes[name] = size
        return name

    def terms(self, x: Matrix, row: str | None, column: str | None) -> tuple[Term, ...]:
        """The terms of an element."""
        if x.kind == "leaf":
            return (Term(1.0, (Leaf(x.name, (*(("b",) if x.batch else ()), row, column)),)),)
        if x.kind == "transpose":
            return self.terms(x.args[0], column, row)
        if x.kind == "number":
            return _scaled(self.terms(x.args[0], row, column), x.number)
        if x.kind == "function":
            inner = self.terms(x.args[0], row, column)
            axes = tuple(a for a in (("b" if x.batch else None), row, column) if a)
            return (Term(1.0, (Applied(x.name, Poly(axes, inner)),)),)
        if x.kind == "batch":  # the last operation
            every = self.terms(x.args[0], row, column)
            return tuple(Term(t.number * (1.0 if "b" in t.axes else x.args[0].batch), t.factors) for t in every)
        if x.kind == "reduce":
            (y,) = x.args
            new = self.axis(y.rows if x.name == "-2" else y.columns)
            return self.terms(y, *((new, column) if x.name == "-2" else (row, new)))
        a, b = x.args
        if x.kind in ("+", "-"):
            return (*self.terms(a, row, column), *_scaled(self.terms(b, row, column), 1.0 if x.kind == "+" else -1.0))
        if x.kind == "@":
            k = self.axis(a.columns)
            pairs = itertools.product(self.terms(a, row, k), self.terms(b, k, column))
        else:
            pairs = itertools.product(self.terms(a, row, column), self.terms(b, *((row, None) if b.columns == 1 else (None, column))))
        return tuple(self.fresh(Term(s.number * t.number, (*s.factors, *t.factors)), row, column) for s, t in pairs)

    def order(self, x: Matrix, row: str | None, column: str | None) -> Order:
        """The order that is written."""
        axes = tuple(sorted(a for a in (("b" if x.batch else None), row, column) if a))
        if x.kind == "leaf":
            return Order("leaf", axes, leaf=Leaf(x.name, (*(("b",) if x.batch else ()), row, column)))
        if x.kind == "transpose":
            return self.order(x.args[0], column, row)
        if x.kind == "number":
            return Order("add", axes, (self.order(x.args[0], row, column),), (x.number,))
        if x.kind == "function":
            return Order("apply", axes, (self.order(x.args[0], row, column),), function=x.name)
        if x.kind == "batch":
            return Order("multiply", axes, (self.order(x.args[0], row, column),))
        if x.kind == "reduce":
            new = self.axis(x.args[0].rows if x.name == "-2" else x.args[0].columns)
            return Order("multiply", axes, (self.order(x.args[0], *((new, column) if x.name == "-2" else (row, new))),))
        a, b = x.args
        if x.kind in ("+", "-"):
            parts = (self.order(a, row, column), self.order(b, row, column))
            return Order("add", axes, parts, (1.0, 1.0 if x.kind == "+" else -1.0))
        if x.kind == "@":
            k = self.axis(a.columns)
            return Order("multiply", axes, (self.order(a, row, k), self.order(b, k, column)))
        return Order("multiply", axes, (self.order(a, row, column), self.order(b, *((row, None) if b.columns == 1 else (None, column)))))

    def fresh(self, t: Term, row: str | None, column: str | None) -> Term:
        """A term with summed axes of its own."""
        return t.at({a: str(self.axis(self.sizes[a])) for a in sorted(t.axes - {"b", row, column})})


def _scaled(terms: Sequence[Term], number: float) -> tuple[Term, ...]:
    return tuple(Term(t.number * number, t.factors) for t in terms)


# pairs ----------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DrawnPair:
    """A drawn program, and the orders of it that may be the best, the most promising first."""

    seed: int
    matrix: Matrix
    leaves: tuple[Matrix, ...]
    dtype: str
    axes: tuple[str | None, ...]  # of the result
    orders: tuple[Order, ...] = field(repr=False)
    least: tuple[float, ...] = field(repr=False)  # microseconds of the arithmetic of each order

    @property
    def name(self) -> str:
        """It, in tables."""
        return f"drawn {self.seed}"

    @property
    def ratio(self) -> float:
        """What the plan of the program takes of that of the best order at most."""
        return EXCEPTIONS.get(self.seed, (RATIO, ""))[0]

    @property
    def why(self) -> str:
        """What is missing, where that is more than usual."""
        return EXCEPTIONS.get(self.seed, (RATIO, ""))[1]

    @property
    def licence(self) -> str:
        """Orders of what multiplies a sum may distribute, which cancels."""
        return "approx" if self.matrix.distributes else "real"

    @cached_property
    def written(self) -> Callable[..., Any]:
        """The program as it is written."""
        names = ", ".join(x.name for x in self.leaves)
        return eval(f"lambda {names}: {self.matrix.text}", {**FUNCTIONS})

    def form(self, order: Order) -> Callable[..., Any]:
        """The program in another order."""
        names = [x.name for x in self.leaves]

        def f(*tensors: torch.Tensor) -> torch.Tensor:
            found = order(dict(zip(names, tensors, strict=True)))
            wanted = [a for a in self.axes if a]
            missing = [a for a in wanted if a not in order.axes]
            assert not missing, "the result is the same along an axis"
            found = found if list(order.axes) == wanted else found.permute([order.axes.index(a) for a in wanted])
            return found[tuple(None if a is None else slice(None) for a in self.axes)]

        return f

    def args(self, small: bool = False, seed: int = 0) -> tuple[torch.Tensor, ...]:
        """Arguments: without data for the shapes, random ones of float64 for small shapes."""
        if not small:
            return tuple(torch.empty(x.shape, dtype=getattr(torch, self.dtype), device="meta") for x in self.leaves)
        generator = torch.Generator().manual_seed(seed)
        short = {1: 1} | {n: 2 + k for k, n in enumerate((*BATCHES, *LENGTHS))}
        return tuple(torch.randn([short[n] for n in x.shape], generator=generator, dtype=torch.float64) for x in self.leaves)


def drawn(seed: int, target: str = "h200") -> DrawnPair | None:
    """The pair of a seed; ``None`` if what is drawn has no order that matters, or too many."""
    drawing = Drawing(seed)
    matrix = drawing.program()
    dtype = drawing.rng.choice(["bfloat16", "bfloat16", "float32"])
    reader = _Reader(drawing.batch)
    row, column = reader.axis(matrix.rows), reader.axis(matrix.columns)
    terms = reader.terms(matrix, row, column)
    if len(terms) > TERMS or max(len(t.factors) for t in terms) > FACTORS:
        return None
    axes = (*(("b",) if matrix.batch else ()), row, column)
    asis = reader.order(matrix, row, column)
    orders = Orders(reader.sizes, dtype, getattr(torch, dtype).itemsize, load_target(target))
    out = frozenset(a for a in axes if a)
    try:
        found = orders.of(Poly(tuple(sorted(out)), terms), out)
    except TooMany:
        return None
    written = orders.least_price(asis)
    if any({*o.axes} != out for o in found) or written < max(LEAST, WORTH * min(map(orders.least_price, found))):
        return None
    cheapest = sorted(found, key=lambda o: (orders.least_price(o), o.text))
    return DrawnPair(seed, matrix, tuple(drawing.leaves), dtype, axes, tuple(cheapest), tuple(map(orders.least, cheapest)))


@dataclass(frozen=True)
class Best:
    """The best order that was found: microseconds as planned, which it is, and how many were planned of those that were enumerated."""

    us: float
    order: Order
    planned: int
    enumerated: int


def best(pair: DrawnPair, us: Callable[[Callable[..., Any]], float]) -> Best:
    """Plan the orders of a pair, one by one; ``us`` plans a function and says how long it takes."""
    found: list[tuple[float, Order]] = []
    for order, least in zip(pair.orders, pair.least, strict=True):
        if not found or least < min(us for us, _ in found):
            found.append((us(pair.form(order)), order))
    now, order = min(found, key=lambda f: f[0])
    return Best(now, order, len(found), len(pair.orders))

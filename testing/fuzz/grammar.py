"""Random programs over the whole language: every scalar op, every monoid, every kind of view, casts, masks, positions, several outputs.

The table of ops and the table of monoids are enumerated, so a new entry is drawn from the day it exists.  A program is built together with
its inputs, and every new value is evaluated at once: a step is taken back if its value is undefined, huge, or moves by whole steps under
rounding (a floor on its edge), because nothing can be asked of the plan of such a program.  Values at the border of a domain are wanted:
zeros and ties, masks of -inf, the root of 0, equal positions, rows of a length of their own (0 among them), an axis without elements.
What was taken back is counted.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ...codegen.limits import check_computable
from ...errors import UnsupportedOpError
from ...ir import build as b
from ...ir import dtypes, ops
from ...ir.bounds import wrapped
from ...ir.dtypes import DType
from ...ir.index import Axis, index
from ...ir.monoids import MONOIDS
from ...ir.program import Output, Program
from ...ir.reference import evaluate_terms, round_to
from ...ir.shrink import bound
from ...ir.terms import Cast, Const, Input, Map, Reduce, Scan, Term, View, postorder
from .conditioning import disturbed, relative_move

LARGEST = 1e4  # values beyond it say little about float32
STABLE = 1e-6  # how far a disturbance of 1e-12 may move a value
MOST_ELEMENTS = 6000
SIZES = (1, 2, 2, 3, 3, 4, 5, 5, 6, 7, 8, 11, 13, 17, 19, 33)
EMPTY = 0.06  # how many programs have an axis of length 0
SCANNED = 0.04  # of values: those whose prefixes are taken
CONSTANTS = (0.0, 1.0, -1.0, 0.5, 2.0, -1.5, 1e-3, 30.0, 0.1)
WHOLE = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.int32, dtypes.int64)
TYPES = (*(dtypes.float32,) * 12, *(dtypes.float16, dtypes.bfloat16, dtypes.bool_, dtypes.int32) * 2, *WHOLE)
INTEGERS = frozenset(m.integer for m in MONOIDS.values())  # monoids that are drawn where integers are
KINDS = ("normal", "normal", "normal", "whole", "positive", "zeros", "constant", "offset", "wide")
CASTS = (*(dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.int32) * 2, *WHOLE)


@dataclass(frozen=True)
class Span:
    """The columns that each row sees, for each draw of data: the first ones, and those behind the last."""

    rows: Axis
    columns: Axis
    ends: tuple[tuple[np.ndarray, np.ndarray], ...]


@dataclass
class Drawn:
    """A program with its inputs, what it uses, and the steps that were taken back, by reason.

    One that was read from torch (:mod:`.ragged`) has its source, and what torch computes; it may have other data, ``again``.
    """

    program: Program
    inputs: dict[str, np.ndarray]
    used: Counter[str]
    taken_back: Counter[str] = field(default_factory=Counter)
    again: tuple[dict[str, np.ndarray], ...] = ()
    source: str = ""
    meant: tuple[dict[str, np.ndarray], ...] = ()  # for each draw of data
    span: Span | None = None


def draw_program(seed: int) -> Drawn:
    """The program of a seed."""
    return _Drawer(seed).run()


def draw_data(rng: random.Random, numbers: np.random.Generator, shape: list[int], dtype: DType) -> np.ndarray:
    """An input's data, of one of several kinds, rounded to its type."""
    if dtype.kind == "bool":
        return (numbers.random(shape) < rng.choice((0.0, 0.3, 0.7, 1.0))).astype(float)
    if dtype.kind == "int":
        least, most = (int(dtype.number(s * math.inf)) for s in (-1, 1))
        if rng.random() < 0.3:  # all of them, and most of those that wrap
            return numbers.choice([least, most, least + 1, 0, *numbers.integers(least, most, size=12, endpoint=True)], size=shape)
        return numbers.integers(max(rng.choice((0, -3)), least), 6, size=shape)
    kind = rng.choice(KINDS)
    x = numbers.standard_normal(shape)
    if kind == "whole":  # ties, zeros, negative zeros
        x = np.round(x * 1.5)
    elif kind == "positive":
        x = np.abs(x) + 0.01
    elif kind == "zeros":
        x = np.where(numbers.random(shape) < 0.5, 0.0, x)
    elif kind == "constant":
        x = np.full(shape, rng.choice((0.0, 1.0, -2.0, 0.3)))
    elif kind == "offset":
        x = x + rng.choice((100.0, -100.0))
    elif kind == "wide":
        x = x * 10.0 ** numbers.uniform(-4, 2, size=shape)
    return round_to(np.asarray(x, float), dtype.name)


class _Drawer:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers, self.scans = np.random.default_rng(seed), random.Random(f"scans of {seed}")
        self.names: Counter[str] = Counter()
        self.used: Counter[str] = Counter()
        self.back: Counter[str] = Counter()
        self.inputs: dict[str, np.ndarray] = {}
        self.axes = [Axis(n, self.rng.choice(SIZES)) for n in "ijk"[: self.rng.choice((2, 3, 3))]]
        if self.rng.random() < EMPTY:
            at = self.rng.randrange(len(self.axes))
            self.axes[at] = Axis(self.axes[at].name, 0)
        self.floats: list[Term] = []
        self.bools: list[Term] = []
        self.ints: list[Term] = []
        self.data: dict[Term, np.ndarray] = {}

    # -- pieces ------------------------------------------------------------------------------------------------------------------

    def fresh(self, name: str) -> str:
        """A name that is new in the program."""
        self.names[name] += 1
        return f"{name}{self.names[name]}"

    def axis(self) -> Axis:
        """One of the axes."""
        return self.rng.choice(self.axes)

    def tensor(self, axes: tuple[Axis, ...], dtype: DType | None = None) -> Input:
        """A new input; axes of size 1 have no name, or now and then they do."""
        dtype = dtype or self.rng.choice(TYPES)
        layout: list[Axis | None] = [None if a.size == 1 and self.rng.random() < 0.8 else a for a in axes]
        self.rng.shuffle(layout)
        if self.rng.random() < 0.1:
            layout.insert(self.rng.randint(0, len(layout)), None)
        t = Input(self.fresh({"int": "n", "bool": "c"}.get(dtype.kind, "x")), tuple(layout), dtype)
        self.inputs[t.name] = draw_data(self.rng, self.numbers, [1 if a is None else a.size for a in layout], dtype)
        self.keep(t)
        return t

    def some_axes(self) -> tuple[Axis, ...]:
        """One to three axes."""
        return tuple(self.rng.sample(self.axes, self.rng.randint(1, min(3, len(self.axes)))))

    def keep(self, t: Term) -> None:
        """Put a value where arguments are drawn from."""
        kind = t.dtype.kind if t.dtype is not None else "float"
        {"float": self.floats, "bool": self.bools, "int": self.ints}[kind].append(t)

    def value(self) -> Term:
        """A float, late ones more often."""
        recent = self.floats[-5:] if self.rng.random() < 0.6 else self.floats
        return self.rng.choice(recent)

    def along(self) -> tuple[Term, Axis]:
        """A float and one of its axes."""
        users = [v for v in self.floats[-6:] if v.axes] or [v for v in self.floats if v.axes]
        if not users:  # every axis so far has length 1, and no name
            long = Axis(self.fresh("n"), 5)
            self.axes.append(long)
            users = [self.tensor((long,), dtypes.float32)]
        x = self.rng.choice(users)
        return x, self.rng.choice(sorted(x.axes))

    def condition(self) -> Term:
        """A truth value: an input, a comparison of values, or of positions."""
        if self.bools and self.rng.random() < 0.4:
            return self.rng.choice(self.bools)
        i, j = self.axis(), self.axis()
        if self.rng.random() < 0.5:
            return Map(self.rng.choice(("le", "lt", "ge", "gt", "ne", "eq")), (b.iota(i), b.iota(j) if i != j else Const(i.size // 2)))
        return Map(self.rng.choice(("le", "lt", "ge", "gt", "ne", "eq")), (self.value(), self.number()))

    def number(self) -> Term:
        """A float or a constant."""
        return Const(self.rng.choice(CONSTANTS)) if self.rng.random() < 0.4 else self.value()

    def inside(self, x: Term, domain: str) -> Term:
        """A value in the domain of an op, made of another; its border is included where the op is defined there."""
        if domain == "nonneg":
            return self.rng.choice((b.abs_, b.square, b.sigmoid, lambda v: b.maximum(v, 0.0), lambda v: v))(x)
        if domain == "positive":
            above = (lambda v: b.abs_(v) + 0.25, lambda v: b.square(v) + 1e-3, lambda v: b.maximum(v, 0.5))
            return self.rng.choice((*above, lambda v: b.exp(b.tanh(v)), lambda v: v))(x)
        if domain == "nonzero":
            return self.rng.choice((lambda v: v, lambda v: b.square(v) + 0.5, lambda v: -(b.abs_(v) + 0.5), lambda v: b.exp(b.tanh(v))))(x)
        return x

    # -- steps -------------------------------------------------------------------------------------------------------------------

    def scalar(self) -> Term:
        """A scalar op, drawn evenly from the table; a quotient stands in a quarter of the places of a reciprocal."""
        o = ops.OPS[self.rng.choice([n for n in ops.OPS if n != "div"])]
        if o.result == "int" or (o.result != "float" and self.ints and self.rng.random() < 0.15):
            return self.whole(o)
        if o.name == "recip" and len(self.floats) % 4 == 3:
            o = ops.OPS["div"]
        if o.name == "where":
            return Map("where", (self.condition(), self.number(), self.number()))
        if o.name in ("and", "or", "not"):
            return Map(o.name, tuple(self.condition() for _ in range(o.arity)))
        args = [self.value() for _ in range(o.arity)]
        if o.arity == 2 and self.rng.random() < 0.2:
            args[self.rng.randrange(2)] = Const(self.rng.choice(CONSTANTS))
        if o.name in ("floordiv", "remainder", "fmod"):
            args[1] = self.inside(args[1], o.domain)
        if o.name == "pow":
            args = [self.inside(args[0], o.domain), b.tanh(args[1])]
        if o.arity == 1:
            x = self.inside(args[0], o.domain)
            grows = ("add", "mul") in o.turns
            args = [self.rng.choice((lambda v: v, b.tanh, lambda v: v * 0.1))(x) if grows else x]
        return Map(o.name, tuple(args))

    def integer(self) -> Term:
        """An integer, late ones more often; a new input where there is none."""
        if not self.ints or self.rng.random() < 0.1:
            return self.tensor(self.some_axes(), self.rng.choice(WHOLE))
        return self.rng.choice(self.ints[-4:] if self.rng.random() < 0.6 else self.ints)

    def whole(self, o: ops.ScalarOp | None = None) -> Term:
        """An op, a conversion or a reduction of integers, in the type that torch gives it."""
        x = self.integer()
        kind = self.rng.random() if o is None else 0.0
        if kind > 0.8:
            return Cast(self.rng.choice(WHOLE), x)
        if kind > 0.6:
            k = self.rng.choice(sorted(x.axes)) if x.axes and self.rng.random() < 0.9 else self.axis()
            monoid = self.rng.choice(("sum", "sum", "max", "min"))
            if monoid == "sum" and kind > 0.72:
                monoid = "prod"
            if monoid in ("max", "min") and k.size == 0:
                return x
            grows = monoid in ("sum", "prod") and self.rng.random() < 0.7
            return wrapped(Reduce(monoid, k, Cast(dtypes.int64, x) if grows else x))
        if o is None:
            o = ops.OPS[self.rng.choice([n for n, found in ops.OPS.items() if found.result in ("same", "int", "bool")])]
        if o.name in ("and", "or", "not"):
            return Map(o.name, tuple(self.condition() for _ in range(o.arity)))
        args = [x, *(self.integer() for _ in range(o.arity - 1))]
        if o.arity == 2 and self.rng.random() < 0.4:
            args[self.rng.randrange(2)] = Const(self.rng.choice((0, 1, 2, 3, 4, 7, 8, 15, 31, 40, 85, 255, -1, -5, 2654435761)))
        if o.name == "where":
            args[0] = self.condition()
        return wrapped(Map(o.name, tuple(args))) if o.name != "round" else x

    def reduction(self) -> Term:
        """A monoid over an axis, which the value mostly has."""
        x, k = self.along()
        if self.rng.random() < 0.07:
            k = self.axis()
        return Reduce(self.rng.choice([m for m in MONOIDS if m not in INTEGERS]), k, x)

    def scanned(self, t: Term) -> Term:
        """Now and then the prefixes of a value.  Numbers of their own say when, so that other programs are as they were without scans."""
        if self.scans.random() >= SCANNED or not t.axes or t.dtype is None or not t.dtype.is_float:
            return t
        self.used["scan"] = 1
        return Scan(self.scans.choice(("sum", "sum", "max", "min")), self.scans.choice(sorted(t.axes)), t)

    def contraction(self) -> Term:
        """A sum of products; often of a matrix and another one."""
        if len(self.axes) > 2 and self.rng.random() < 0.6:
            i, j, k = self.rng.sample(self.axes, 3)
            kind = self.rng.choice((dtypes.float32, dtypes.float16, dtypes.bfloat16))
            lefts = [v for v in self.floats if {i, k} <= v.axes and j not in v.axes] or [self.tensor((i, k), kind)]
            rights = [v for v in self.floats if {k, j} <= v.axes and i not in v.axes] or [self.tensor((k, j), kind)]
            return b.sum_over(k, self.rng.choice(lefts) * self.rng.choice(rights))
        x, k = self.along()
        y = self.rng.choice([v for v in self.floats if k in v.axes])
        return b.sum_over(k, x * y)

    def dependent(self) -> Term:
        """A value relative to a reduction of itself, perhaps weighted and reduced over the same axis: what repair is for."""
        x, k = self.along()
        shift = b.exp(x - b.maximum_over(k, x))
        low = Map("exp", (Reduce("min", k, x) - x,))
        kinds: tuple[Callable[[], Term], ...] = (
            lambda: shift,
            lambda: shift / b.sum_over(k, shift),
            lambda: b.square(x - b.mean_over(k, x)),
            lambda: x * b.rsqrt(b.sum_over(k, b.square(x)) + 0.1),
            lambda: x * b.recip(b.sum_over(k, b.exp(b.tanh(x)))),
            lambda: x - (b.maximum_over(k, x) + b.log(b.sum_over(k, shift))),
            lambda: low,
            lambda: Map("exp2", (x - b.maximum_over(k, x),)),
            lambda: b.eq(x, b.maximum_over(k, x)),
            lambda: (x - b.mean_over(k, x)) * b.rsqrt(b.mean_over(k, b.square(x - b.mean_over(k, x))) + 1e-3),
        )
        t = self.rng.choice(kinds)()
        if t.dtype is dtypes.bool_:
            t = b.select(t, self.number(), 0.0)
        if self.rng.random() < 0.6:
            t = t * self.value()
        return Reduce(self.rng.choice(("sum", "sum", "sum", "mean", "max", "min")), k, t) if self.rng.random() < 0.8 else t

    def masked(self) -> Term:
        """A selection by positions or data; scores that are masked with -inf are used as softmaxes use them."""
        x, k = self.along()
        c = self.condition()
        if self.rng.random() < 0.5:
            return b.select(c, x, self.number())
        s = b.select(c, x, -math.inf)
        e = b.exp(s - b.maximum_over(k, s))
        kinds = (lambda: b.sum_over(k, e * self.value()), lambda: e / b.sum_over(k, e), lambda: b.exp(s), lambda: b.maximum_over(k, s))
        return self.rng.choice(kinds)()

    def ragged(self) -> Term:
        """Rows of a length of their own along an axis, given as data: sums, means, maxima and weights over what a row has."""
        x, k = self.along()
        rows = tuple(a for a in self.rng.sample(sorted(x.axes - {k}), min(len(x.axes) - 1, self.rng.randint(0, 2))) if a.size > 0)
        n = self.lengths(rows, k)
        inside = b.lt(b.iota(k), n)
        self.bools.append(inside)
        if self.rng.random() < 0.3:  # an offset, too: segments of a packed axis
            start = self.lengths(rows, k)
            inside = Map("and", (inside, b.le(start, b.iota(k))))
            self.bools.append(inside)
        s, zeroed = b.select(inside, x, -math.inf), b.select(inside, x, 0.0)
        top = b.maximum_over(k, s)
        e = b.exp(s - b.select(b.eq(top, -math.inf), 0.0, top))  # nothing but zeros in an empty row
        total = b.sum_over(k, e)
        v = self.value()
        kinds: tuple[Callable[[], Term], ...] = (
            lambda: zeroed,
            lambda: b.sum_over(k, zeroed),
            lambda: b.sum_over(k, zeroed) * b.recip(b.maximum(Cast(dtypes.float32, n), 1.0)),
            lambda: b.sum_over(k, zeroed) * b.recip(Cast(dtypes.float32, n)),  # not a number for an empty row
            lambda: b.select(b.eq(n, 0.0), self.number(), top),
            lambda: Map("exp", (top,)),
            lambda: b.sum_over(k, e * v),
            lambda: b.sum_over(k, e * v) * b.recip(b.maximum(total, 1e-20)),
            lambda: b.select(b.eq(total, 0.0), 0.0, b.sum_over(k, e * v) * b.recip(total)),
            lambda: b.sum_over(k, b.exp(s - top) * v),  # not a number for an empty row
            lambda: b.sum_over(k, b.exp(s - top)),
            lambda: b.sum_over(k, b.square(b.select(inside, x - b.sum_over(k, zeroed) * b.recip(b.maximum(n * 1.0, 1.0)), 0.0))),
            lambda: Reduce("min", k, b.select(inside, x, self.rng.choice((math.inf, 30.0)))),
        )
        t = self.rng.choice(kinds)()
        self.used["ragged rows"] += 1
        return t

    def lengths(self, rows: tuple[Axis, ...], k: Axis) -> Term:
        """An input of lengths from 0 to that of an axis, both ends among them where there are rows enough."""
        t = Input(self.fresh("n"), rows, dtypes.int32)
        x = self.numbers.integers(0, k.size + 1, size=[a.size for a in rows]).astype(float)
        if rows:
            ends = x.reshape(-1)  # a view
            ends[self.rng.randrange(x.size)] = k.size
            ends[self.rng.randrange(x.size)] = 0.0
        self.inputs[t.name] = x
        return t

    def gathered(self) -> Term:
        """One element by a position that is data: a sum over a one-hot row."""
        x, k = self.along()
        at = self.rng.choice(self.ints) if self.ints and self.rng.random() < 0.6 else self.tensor(self.some_axes()[:1], dtypes.int32)
        if k in at.axes:
            at = b.iota(self.axis())
        return b.sum_over(k, b.select(b.eq(b.iota(k), at), x, 0.0))

    def position(self) -> Term:
        """Positions and lengths as numbers."""
        i = self.axis()
        return self.rng.choice((lambda: Cast(dtypes.float32, b.iota(i)), lambda: b.iota(i) * 0.25, lambda: b.extent(i) * self.value()))()

    def cast(self) -> Term:
        """A rounding, or truth values and whole numbers as floats."""
        if self.bools and self.rng.random() < 0.3:
            return Cast(dtypes.float32, self.rng.choice(self.bools))
        if self.ints and self.rng.random() < 0.3:
            return Cast(dtypes.float32, self.rng.choice(self.ints))
        return Cast(self.rng.choice(CASTS), self.value())

    def view(self) -> Term:
        """One axis of a value, or of a new input, read at an index expression."""
        kind = self.rng.choice(("flip", "shift", "stride", "split", "merge", "diagonal", "groups", "one", "cycle", "band"))
        self.used[f"view {kind}"] += 1
        i, j = self.axis(), self.axis()
        others = tuple(a for a in self.axes if a not in (i, j))[:1]
        if kind in ("shift", "stride"):
            c, s = self.rng.randint(0, 3), 2 if kind == "stride" else 1
            long = Axis(self.fresh("long"), max(i.size - 1, 0) * s + 1 + c + self.rng.randint(0, 2))
            return View(self.of(long, *others), long, index(i) * s + c)
        if kind == "split" and i != j and i.size and j.size:
            flat = Axis(self.fresh("flat"), i.size * j.size)
            return View(self.of(flat, *others), flat, index(i) * j.size + index(j))
        if kind == "merge" and i != j and i.size and j.size:
            flat = Axis(self.fresh("flat"), i.size * j.size)
            t = View(View(self.of(i, j, *others), i, index(flat) // j.size), j, index(flat) % j.size)
            if self.rng.random() < 0.3:
                self.axes.append(flat)
            return t
        if kind == "groups" and i.size:
            size = self.rng.choice((2, 3))
            group = Axis(self.fresh("group"), -(-i.size // size))
            return View(self.of(group, *others), group, index(i) // size)
        if kind == "band" and i != j:
            line = Axis(self.fresh("line"), i.size + j.size - 1)
            return View(self.of(line, *others), line, index(i) + index(j))
        x, k = self.along()
        if not k.size:
            return View(x, k, index(k) * -1 + (k.size - 1))
        if kind == "diagonal":
            fits = [a for a in x.axes if a != k and a.size <= k.size]
            return View(x, k, index(self.rng.choice(sorted(fits)))) if fits else View(x, k, index(0))
        if kind == "one":
            return View(x, k, index(self.rng.randrange(k.size)))
        if kind == "cycle":
            return View(x, k, (index(k) + self.rng.randint(0, k.size)) % k.size)
        return View(x, k, index(k) * -1 + (k.size - 1))

    def of(self, *axes: Axis) -> Term:
        """A new input with these axes, perhaps under an operation or a reduction that a view has to sink through."""
        named = tuple(dict.fromkeys(axes))
        k = self.axis()
        if k not in named and self.rng.random() < 0.2:
            return Reduce(self.rng.choice(("sum", "max", "mean")), k, self.of(*named, k))
        t = Input(self.fresh("v"), named, self.rng.choice((dtypes.float32, dtypes.float32, dtypes.float16, dtypes.bfloat16)))
        self.inputs[t.name] = draw_data(self.rng, self.numbers, [a.size for a in named], t.dtype)
        over = (lambda: b.tanh(t), lambda: t * b.maximum_over(axes[-1], t), lambda: b.square(t) + 1.0)
        return self.rng.choice((lambda: t, lambda: t, *over))()

    # -- all of it ---------------------------------------------------------------------------------------------------------------

    def accept(self, t: Term) -> bool:
        """Whether a new value is one that a plan can be held to."""
        if isinstance(t, Input | Const) or not any(isinstance(x, Input) for x in postorder(t)):
            return False
        reason = self.reason(t)
        if reason:
            self.back[reason] += 1
        return reason is None

    def reason(self, t: Term) -> str | None:
        """Why a value is taken back."""
        for x in postorder(t):
            if math.prod(a.size for a in x.axes) > MOST_ELEMENTS:
                return "many elements"
            if isinstance(x, View) and (x.index.axes() - {x.axis}) & bound(x.args[0]):
                return "captured axis"
        try:
            check_computable(Program("p", (Output("o", t, tuple(sorted(t.axes)), t.dtype or dtypes.float32),), ()))
        except UnsupportedOpError:
            return "not computable"
        (value,) = evaluate_terms((t,), self.inputs)
        if np.isnan(value.array).any() and (self.rng.random() < 0.97 or np.isnan(value.array).all()):
            return "undefined"
        if not np.isfinite(value.array).any() and value.array.size:
            return "not finite"
        finite = value.array[np.isfinite(value.array)]
        if value.array.dtype.kind == "f" and np.abs(finite).max(initial=0.0) > LARGEST:
            return "large"
        if np.isposinf(value.array).any():
            return "infinite"
        alone = Program("p", (Output("o", t, value.axes, t.dtype or dtypes.float32),), ())
        for _ in range(2):
            if relative_move(disturbed(alone, self.inputs, 1e-12, self.numbers)["o"], value.array) > STABLE:
                return "ill-conditioned"
        return None

    def run(self) -> Drawn:
        """Steps until the program is long enough, then its outputs."""
        for _ in range(self.rng.randint(2, 5)):
            self.tensor(self.some_axes())
        if not self.floats:
            self.tensor(self.some_axes(), dtypes.float32)
        steps = (
            (self.scalar, 5), (self.reduction, 2), (self.contraction, 1.5), (self.dependent, 2.5), (self.masked, 1), (self.gathered, 0.4),
            (self.position, 0.4), (self.cast, 0.8), (self.view, 1.2), (self.ragged, 0.7), (self.whole, 1),
        )  # fmt: skip
        kinds, weights = zip(*steps, strict=True)
        made: list[Term] = []
        wanted = self.rng.randint(2, 12)
        for _ in range(40):
            t = self.scanned(self.rng.choices(kinds, weights)[0]())
            if self.accept(t):
                self.keep(t)
                made.append(t)
                if len(made) >= wanted:
                    break
        made = made or [self.value() + 1.0]
        floats = [t for t in made if t.dtype is None or t.dtype.is_float] or made
        roots = [floats[-1]]
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            roots.append(self.rng.choice(made))
        outputs = tuple(self.output(f"o{n}", t) for n, t in enumerate(dict.fromkeys(roots)))
        terms = postorder(*(o.term for o in outputs))
        program = Program("fuzz", outputs, tuple(t for t in terms if isinstance(t, Input)))
        used = coverage(program) + Counter(dict.fromkeys(self.used, 1))
        if any(a.size == 0 for t in terms for a in (*t.axes, *([t.axis] if isinstance(t, Reduce) else []))):
            used["axis of length 0"] = 1
        return Drawn(program, {i.name: self.inputs[i.name] for i in program.inputs}, used, self.back)

    def output(self, name: str, t: Term) -> Output:
        """An output with its dimensions in any order, perhaps one of size 1, in the value's type or a 16-bit one."""
        layout: list[Axis | None] = [*sorted(t.axes)]
        self.rng.shuffle(layout)
        if self.rng.random() < 0.1:
            layout.insert(self.rng.randint(0, len(layout)), None)
        dtype = t.dtype or dtypes.float32
        if dtype.is_float and self.rng.random() < 0.1:
            dtype = self.rng.choice((dtypes.float16, dtypes.bfloat16))
        return Output(name, t, tuple(layout), dtype)


def coverage(program: Program) -> Counter[str]:
    """What a program uses: ops, monoids, views, casts, types, outputs."""
    found: Counter[str] = Counter()
    for t in program.terms():
        if isinstance(t, Map):
            found[f"op {t.op}"] += 1
        elif isinstance(t, Reduce):
            found[f"monoid {t.monoid}"] += 1
        elif isinstance(t, View):
            found["term view"] += 1
        elif isinstance(t, Cast):
            found[f"cast {t.to.name}"] += 1
        elif isinstance(t, Input):
            found[f"input {t.dtype.name}"] += 1
        else:
            found[f"term {type(t).__name__.lower()}"] += 1
    found[f"outputs {len(program.outputs)}"] += 1
    return found

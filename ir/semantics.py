"""What the nodes of every level mean on arrays: one evaluator, whatever the arithmetic.

A value is an array with one dimension per axis of a small universe, of size 1 along the axes that it is free of.  :class:`Arrays` has
a method for every kind of node that means the same anywhere, by its name; it takes the attributes, where an axis is its dimension and an
index expression an array of positions, and then the values of the arguments.  Running values (``ref``, ``pre``, ``acc``, ``roll``) mean
something in a loop only, and whoever has loops says what.

Rules are checked in these arithmetics, the audit of e-graphs and the replay of rewrites use the plain one.  Two things stay apart on
purpose: :mod:`.reference`, the oracle of programs, and the simulator of tile programs, the oracle of kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import accumulate
from math import trunc
from typing import Any

import numpy as np

from . import dtypes
from .dtypes import DType
from .monoids import MONOIDS, Monoid
from .ops import OPS


class Undefined(ArithmeticError):
    """A value that exact arithmetic does not have: a division by zero, the maximum of nothing, a function that is not rational."""


WHOLE = ("floor", "round")  # ops of floats whose results are whole numbers


@dataclass(frozen=True)
class Noise:
    """Errors relative to each result, at random up to ``size``."""

    size: float
    rng: np.random.Generator

    def __call__(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(x * (1 + x.dtype.type(self.size) * self.rng.uniform(-1, 1, size=x.shape).astype(x.dtype)), dtype=x.dtype)


class Arrays:
    """An arithmetic, and how long each dimension is.

    ``dtype`` is a float type, or ``object`` for exact rationals.  A ``bitwise`` one rounds at casts, and reductions are left folds in the
    order of the axis, so that equal bits mean the same operations in the same order.  In a ``strict`` one, overflow and underflow raise
    FloatingPointError.  In a ``noisy`` one every operation that rounds errs at random, relative to its result: what that changes little
    is no rounding error.  ``sizes``, where it is a list, gets the largest magnitude of each result on the way.
    """

    extents: tuple[int, ...]
    dtype: Any = float
    bitwise: bool = False
    strict: bool = False
    noisy: Noise | None = None
    sizes: list[float] | None = None

    @property
    def rational(self) -> bool:
        """Whether numbers are exact."""
        return self.dtype is object

    def number(self, x: Any) -> Any:
        """A number in this world's arithmetic."""
        if not self.rational:
            return x if isinstance(x, np.floating) else float(x)
        if isinstance(x, Fraction):  # which may be more than any float
            return x
        if not np.isfinite(float(x)):
            raise Undefined("an infinite constant")
        return Fraction(x)

    def full(self, x: Any) -> np.ndarray:
        """A number as an array over all axes."""
        return np.full((1,) * len(self.extents), self.number(x), dtype=self.dtype)

    def numbers(self, x: Any) -> np.ndarray:
        """An array in this arithmetic."""
        return np.asarray(x, dtype=self.dtype)

    # the kinds of nodes --------------------------------------------------------------------------------------------------------
    def const(self, x: Any) -> np.ndarray:
        """A number; zero is positive."""
        return self.full(x if self.rational else x + 0.0)

    def extent(self, axis: int) -> np.ndarray:
        """The length of an axis."""
        return self.full(self.extents[axis])

    def index(self, axis: int) -> np.ndarray:
        """The position along an axis."""
        return self.numbers(self.along(axis))

    def along(self, axis: int) -> np.ndarray:
        """The same as integers."""
        shape = [1] * len(self.extents)
        shape[axis] = -1
        return np.arange(self.extents[axis]).reshape(shape)

    def map(self, op: str, *args: np.ndarray) -> np.ndarray:
        """A scalar op."""
        if self.rational:
            if op not in RATIONAL:
                raise Undefined(op)
            try:
                return self.numbers(RATIONAL[op](*args))
            except ZeroDivisionError as error:
                raise Undefined("a division by zero") from error
        if self.bitwise:  # one layout for all, since numpy's loops for other layouts may round transcendental functions otherwise
            args = tuple(np.ascontiguousarray(a) for a in args)
        out = self.numbers(OPS[op].numpy(*args))
        if self.strict and left_range(op, out, args):
            raise FloatingPointError(op)
        self._note(out)
        exact = OPS[op].selects or op in WHOLE or OPS[op].result in ("bool", "int")
        return np.where(rounds_nothing(op, out, args), out, self.noisy(out)) if self.noisy and not exact else out

    def _note(self, out: np.ndarray) -> None:
        if self.sizes is not None:
            self.sizes.append(largest(out))

    def cast(self, to: DType, x: np.ndarray) -> np.ndarray:
        """A cast (:func:`.dtypes.cast`): to a floating type the identity over the reals, done where bits count; to others always."""
        return x if to.is_float and not self.bitwise else self.numbers(dtypes.cast(x, to))

    def view(self, axis: int, at: np.ndarray, x: np.ndarray) -> np.ndarray:
        """``x`` with an axis read at positions."""
        return read_at(x, axis, at)

    def gather(self, axis: int, x: np.ndarray, at: np.ndarray) -> np.ndarray:
        """``x`` with an axis read at values, 0 where they are no positions."""
        return gathered(x, axis, at, self.extents[axis], self.number(0))

    def reduce(self, monoid: str, axis: int, x: np.ndarray, *more: np.ndarray) -> np.ndarray:
        """A reduction over a dimension that keeps it, with size 1; a value that is free of the axis is repeated."""
        extent = self.extents[axis]
        if MONOIDS[monoid].several:
            return np.expand_dims(self._states(MONOIDS[monoid], axis, (x, *more))[-1], axis)
        if self.rational:
            return _reduce_exactly(monoid, _repeated(x, axis, extent), axis)
        if self.bitwise:
            return _fold(monoid, _repeated(x, axis, extent), axis)
        if self.noisy and MONOIDS[monoid].combine == "add":
            x = self.noisy(_repeated(x, axis, extent))
        out = reduce_array(monoid, x, axis, extent)
        if self.strict and extent and np.isinf(out).any() and np.isfinite(x).all():
            raise FloatingPointError(monoid)
        self._note(out)
        return out

    def merge(self, monoid: str, *both: np.ndarray) -> np.ndarray:
        """A part of what two states are together."""
        m = MONOIDS[monoid]
        assert m.several is not None
        return self.numbers(m.several.combined(both[: m.parts], both[m.parts :], self.map, self.number, [m.part])[0])

    def _states(self, m: Monoid, axis: int, xs: tuple[np.ndarray, ...]) -> np.ndarray:
        """One part of a state, along a new first dimension: of nothing, and after each position along a dimension, which is left out."""
        assert m.several is not None
        steps = [np.moveaxis(x, axis, 0) for x in np.broadcast_arrays(*(_repeated(x, axis, self.extents[axis]) for x in xs))]
        rest = steps[0].shape[1:]
        now: list[np.ndarray] = []
        found = [np.full(rest, m.identity if not self.rational or np.isfinite(m.identity) else 0, self.dtype)]
        for k in range(self.extents[axis]):
            element = [x[k] for x in steps]
            now = m.several.combined(now, element, self.map, self.number) if k else element
            found.append(np.broadcast_to(now[m.part], rest))
        return self.numbers(np.stack(found))

    def scan(self, monoid: str, axis: int, x: np.ndarray, *more: np.ndarray) -> np.ndarray:
        """The reductions of all prefixes along a dimension; a value that is free of the axis is repeated."""
        if MONOIDS[monoid].several:
            return np.moveaxis(self._states(MONOIDS[monoid], axis, (x, *more))[1:], 0, axis)
        x, m = _repeated(x, axis, self.extents[axis]), MONOIDS[monoid]
        if self.rational or self.bitwise:
            combine = RATIONAL[m.combine] if self.rational else OPS[m.combine].numpy
            steps = list(np.ascontiguousarray(np.moveaxis(x, axis, 0)))
            if self.bitwise and steps:  # from the identity, as a reduction
                steps[0] = combine(np.full_like(steps[0], m.identity), steps[0])
            steps = list(accumulate(steps, combine))
            return np.moveaxis(np.asarray(steps, x.dtype).reshape(len(steps), *np.delete(x.shape, axis)), 0, axis)
        if self.noisy and m.combine == "add":
            x = self.noisy(x)
        assert m.prefixes is not None
        with np.errstate(all="ignore"):
            out = np.asarray(m.prefixes.numpy(x, axis=axis), dtype=x.dtype if x.dtype.kind == "f" else float)
        if self.strict and np.isinf(out).any() and np.isfinite(x).all():
            raise FloatingPointError(monoid)
        self._note(out)
        return out


def value(at: Any, kind: str, attrs: Sequence[Any], args: Sequence[Any]) -> Any:
    """A node of a kind in some domain, over the values of its arguments there."""
    return getattr(at, kind)(*attrs, *args)


def read_at(x: np.ndarray, axis: int, positions: np.ndarray) -> np.ndarray:
    """``x`` with dimension ``axis`` read at ``positions``, by the meaning of a view; positions past the end are clipped."""
    if x.shape[axis] == 1:
        return x
    kept = tuple(1 if k == axis else n for k, n in enumerate(x.shape))
    shape = np.broadcast_shapes(kept, positions.shape)
    grid = np.ogrid[tuple(slice(n) for n in shape)]
    picks = tuple(
        np.minimum(positions, x.shape[axis] - 1) if k == axis else grid[k] if x.shape[k] > 1 else np.zeros_like(grid[k])
        for k in range(x.ndim)
    )
    return x[picks]


def gathered(x: np.ndarray, axis: int, at: np.ndarray, extent: int, zero: Any) -> np.ndarray:
    """``x`` with dimension ``axis`` read at the values ``at``, which are free of it: ``zero`` where these are no whole numbers from 0 up to
    ``extent``."""
    with np.errstate(all="ignore"):
        inside = np.asarray((at >= 0) & (at < extent) & (at % 1 == 0), dtype=bool)
    found = read_at(x, axis, np.where(inside, at, 0).astype(np.int64)) if extent else np.full([1] * x.ndim, zero, x.dtype)
    return np.where(inside, found, np.asarray(zero, x.dtype))


def largest(x: np.ndarray) -> float:
    """The largest magnitude of the finite numbers of an array."""
    return np.max(np.abs(x[np.isfinite(x)]), initial=0.0)


def rounds_nothing(op: str, out: np.ndarray, args: tuple[np.ndarray, ...]) -> np.ndarray:
    """Where a result has no rounding error: sixteenths made of sixteenths, as e^0 = 1.  Of functions those of small numbers alone, since
    tanh 50 = 1 is rounded."""
    most = 2.0**20 if op in RATIONAL else 4.0
    sixteenths = [(x * 16 == np.rint(x * 16)) & (np.abs(x) <= m) for x, m in ((out, 2.0**20), *((a, most) for a in args))]
    return np.logical_and.reduce(np.broadcast_arrays(*sixteenths))


def left_range(op: str, out: np.ndarray, args: tuple[np.ndarray, ...]) -> bool:
    """Whether finite numbers became infinite other than at a pole, or a product or exponential became zero or subnormal."""
    finite = np.logical_and.reduce([np.isfinite(a) for a in np.broadcast_arrays(*args)])
    zero = np.logical_or.reduce([a == 0 for a in np.broadcast_arrays(*args)])
    over = np.isinf(out) & finite & ~(zero & (OPS[op].domain != "real"))
    if op != "mul" and not any(target == "mul" for _, target in OPS[op].turns):
        return bool(over.any())
    exponential = any(source == "add" for source, _ in OPS[op].turns)
    vanishing = np.abs(out) < np.finfo(out.dtype).tiny  # fewer digits than any error is measured by, or none
    return bool((over | (vanishing & finite & (exponential | ~zero))).any())


def _repeated(x: np.ndarray, axis: int, extent: int) -> np.ndarray:
    return x if x.shape[axis] == extent else np.repeat(x, extent, axis=axis)


def _fold(monoid: str, x: np.ndarray, axis: int) -> np.ndarray:
    """A left fold from the identity, in the type of ``x``: the meaning of a reduction down to its bits."""
    m = MONOIDS[monoid]
    steps = np.ascontiguousarray(np.moveaxis(x, axis, 0))
    total = np.expand_dims(reduce(OPS[m.combine].numpy, steps, np.full(steps.shape[1:], m.identity, x.dtype)), axis)
    return total if monoid == m.state else total / x.dtype.type(max(x.shape[axis], 1))


def _reduce_exactly(monoid: str, x: np.ndarray, axis: int) -> np.ndarray:
    """A reduction of rationals; those whose identity is infinite have no value on nothing."""
    m, n = MONOIDS[monoid], x.shape[axis]
    if n == 0 and not np.isfinite(m.identity):
        raise Undefined(f"{monoid} of nothing")
    steps = list(np.moveaxis(x, axis, 0))
    if np.isfinite(m.identity):
        steps.insert(0, np.full(np.delete(x.shape, axis), Fraction(m.identity), dtype=object))
    total = np.expand_dims(np.asarray(reduce(RATIONAL[m.combine], steps), dtype=object), axis)
    return total if monoid == m.state else np.asarray(total * Fraction(1, max(n, 1)), dtype=object)


RATIONAL: dict[str, Callable[..., Any]] = {  # the ops of an ordered field, on arrays of fractions
    "add": np.add,
    "mul": np.multiply,
    "neg": np.negative,
    "recip": lambda x: np.asarray(Fraction(1), dtype=object) / x,
    "square": lambda x: x * x,
    "abs": np.abs,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": lambda x, y: (x != 0) & (y != 0),
    "or": lambda x, y: (x != 0) | (y != 0),
    "not": lambda x: x == 0,
    "where": lambda c, x, y: np.where(c != 0, x, y),
    "floor": np.vectorize(lambda x: Fraction(x.__floor__()), otypes=[object]),
    "round": np.vectorize(lambda x: Fraction(round(x)), otypes=[object]),
    "floordiv": np.vectorize(lambda x, y: Fraction(x // Fraction(y)), otypes=[object]),
    "remainder": np.vectorize(lambda x, y: x % Fraction(y), otypes=[object]),
    "fmod": np.vectorize(lambda x, y: x - y * trunc(x / Fraction(y)), otypes=[object]),
    "div": np.vectorize(lambda x, y: x / Fraction(y), otypes=[object]),
}


def reduce_array(monoid: str, x: np.ndarray, axis: int, extent: int) -> np.ndarray:
    """A reduction that keeps the dimension (with size 1); a value that is free of the axis is repeated."""
    m = MONOIDS[monoid]
    if x.shape[axis] != extent:
        x = np.repeat(x, extent, axis=axis)
    with np.errstate(all="ignore"):
        if x.dtype.kind == "f" and m.combine in OPS and OPS[m.combine].result == "int":  # integers that floats stand for
            whole = (np.abs(x) < 2.0**63) & (x == np.rint(x))
            found = m.reduce(np.where(whole, x, 0).astype(np.int64), axis=axis, keepdims=True)
            return np.where(whole.all(axis, keepdims=True), found, np.nan).astype(x.dtype)
        return np.asarray(m.reduce(x, axis=axis, keepdims=True), dtype=x.dtype if x.dtype.kind == "f" else float)

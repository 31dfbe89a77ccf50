"""Reductions are monoids: an associative combination with an identity.

The identity is what padded lanes, empty segments and the first step of a loop hold.  ``mean`` is a primitive, not ``sum / N``:
rolled as a running sum over a running count it keeps all digits of data with a large offset, where ``sum * (1/N)`` loses them.

Everything else in EqFuse is generic over this table: to add a monoid, add one entry here.  What an entry lacks is an error of the level
that needs it (:mod:`.spec`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from . import ops, states


@dataclass(frozen=True)
class Prefixes:
    """The reductions of all prefixes along an axis: by numpy, and as a Triton format string over a tile and a dimension's
    number, which may call what the op that combines two states is spelled with.  ``numpy`` takes as many arrays as a state has parts."""

    numpy: Callable[..., np.ndarray]
    triton: str


PREFIXES = {  # by the op that combines two states
    "add": Prefixes(np.add.accumulate, "tl.cumsum({}, {})"),
    "mul": Prefixes(np.multiply.accumulate, "tl.cumprod({}, {})"),
    "maximum": Prefixes(np.maximum.accumulate, "tl.associative_scan({}, {}, _maximum)"),
    "minimum": Prefixes(np.minimum.accumulate, "tl.associative_scan({}, {}, _minimum)"),
}


@dataclass(frozen=True)
class Monoid:
    """``reduce`` is numpy's reduction; ``combine`` the scalar op that merges two states; ``state`` the monoid that carries it.

    ``triton`` is a format string over a tile and the number of one of its dimensions, ``prelude`` the source of a helper that it calls,
    which may itself call what ``combine`` is spelled with.  ``copies``: what n equal values make, n times one of them or one of them;
    without it a kernel lays a value that does not vary along the axis out over it, and combines that.
    """

    name: str
    identity: float
    combine: str  # a scalar op of ir.ops
    reduce: Callable[..., np.ndarray]
    state: str  # "sum" for mean: its state is a sum, divided by a count when read
    linear: bool  # reduce(c * x) == c * reduce(x) for every c
    idempotent: bool  # combine(x, x) == x

    integer: str = ""  # the monoid of integers with this name in torch
    copies: Literal["times", "one", ""] = ""
    triton: str = ""  # nothing for what another monoid carries
    prelude: str = ""
    several: states.State | None = None  # a state of several parts: a reduction has an argument for each, and its value is one of them
    part: int = 0

    @property
    def parts(self) -> int:
        """How many arguments a reduction has."""
        return 1 if self.several is None else len(self.several.formulas)

    @property
    def of_integers(self) -> bool:
        """Whether it reduces integers and nothing else: it combines by an op of integers, or another row names it as that of integers."""
        by_op = self.combine in ops.OPS and ops.OPS[self.combine].result == "int"
        return by_op or any(m.integer == self.name for m in MONOIDS.values())

    @property
    def prefixes(self) -> Prefixes | None:
        """What scans are; none where a state is no value."""
        if (of := self.several) is not None:
            return Prefixes(lambda *xs, axis: of.prefixes(xs, axis)[self.part], "")
        return PREFIXES.get(self.combine) if self.state == self.name else None

    def empty(self, like: np.ndarray) -> np.ndarray:
        """The identity, in the shape and type of an array."""
        return np.full_like(like, finite(self.identity, like.dtype))

    def __repr__(self) -> str:
        return f"monoid({self.name!r})"


def _mean(x: np.ndarray, axis: int, keepdims: bool = False) -> np.ndarray:
    """Mean with mean(empty) = 0, the identity."""
    return np.sum(x, axis=axis, keepdims=keepdims) / max(x.shape[axis], 1)


def _largest(x: np.ndarray, axis: int, keepdims: bool = False) -> np.ndarray:
    return np.max(x, axis=axis, keepdims=keepdims, initial=finite(-math.inf, x.dtype))


def _smallest(x: np.ndarray, axis: int, keepdims: bool = False) -> np.ndarray:
    return np.min(x, axis=axis, keepdims=keepdims, initial=finite(math.inf, x.dtype))


def finite(value: float, kind: np.dtype) -> float:
    """A number in a numpy type: of integers, which have no infinities, the least or the largest."""
    if kind.kind == "f" or not math.isinf(value):
        return value
    if kind.kind == "b":
        return value > 0
    return int(np.iinfo(kind).max if value > 0 else np.iinfo(kind).min)


_MAX = '''
@triton.jit
def _max(x, axis: tl.constexpr):
    """The largest along an axis; NaN if any is NaN, as in torch (tl.max alone ignores it)."""
    return tl.reduce(x, axis, _maximum)
'''

_MIN = '''
@triton.jit
def _min(x, axis: tl.constexpr):
    """The smallest along an axis; NaN if any is NaN, as in torch (tl.min alone ignores it)."""
    return tl.reduce(x, axis, _minimum)
'''

_PROD = '''
@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def _prod(x, axis: tl.constexpr):
    """The product along an axis."""
    return tl.reduce(x, axis, _times)
'''


class _Monoids(dict[str, Monoid]):
    """The table, which knows by its name the parts of any state as well (:mod:`.states`); these are not among its rows."""

    def __missing__(self, name: str) -> Monoid:
        found = states.part_of(name)
        if found is None:
            raise KeyError(name)
        state, part = found

        def reduced(*xs: np.ndarray, axis: int, keepdims: bool = False) -> np.ndarray:
            shape = np.broadcast_shapes(*(x.shape for x in xs))
            if shape[axis]:
                last = np.take(state.prefixes(xs, axis)[part], -1, axis=axis)
            else:
                kind = xs[part].dtype
                last = np.full(np.delete(shape, axis), finite(state.neutral[part], kind), kind)
            return np.expand_dims(last, axis) if keepdims else last

        self.parts[name] = Monoid(name, state.neutral[part], "", reduced, name, False, False, several=state, part=part)
        return self.parts[name]

    def __init__(self, rows: Iterable[Monoid]) -> None:
        super().__init__({m.name: m for m in rows})
        self.parts: dict[str, Monoid] = {}

    def __getitem__(self, name: str) -> Monoid:
        return self.parts[name] if name in self.parts else super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and states.part_of(name) is not None)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default


MONOIDS = _Monoids(
    (
        Monoid("sum", 0.0, "add", np.sum, "sum", True, False, "isum", "times", "tl.sum({}, axis={})"),
        Monoid("max", -math.inf, "maximum", _largest, "max", False, True, "imax", "one", "_max({}, axis={})", _MAX),
        Monoid("min", math.inf, "minimum", _smallest, "min", False, True, "imin", "one", "_min({}, axis={})", _MIN),
        Monoid("mean", 0.0, "add", _mean, "sum", True, False, copies="one"),
        Monoid("prod", 1.0, "mul", np.prod, "prod", False, False, "iprod", triton="_prod({}, axis={})", prelude=_PROD),
        # of integers: exact, modulo 2**64.  They have no traits: a law of real numbers, which a wrapped one may break, does not see them
        Monoid("isum", 0.0, "add", np.sum, "isum", False, False, "", "times", "tl.sum({}, axis={})"),
        Monoid("imax", -math.inf, "maximum", _largest, "imax", False, False, "", "one", "tl.max({}, axis={})"),
        Monoid("imin", math.inf, "minimum", _smallest, "imin", False, False, "", "one", "tl.min({}, axis={})"),
        Monoid("iprod", 1.0, "mul", np.prod, "iprod", False, False, triton="_prod({}, axis={})", prelude=_PROD),
    )
)


def monoid(name: str) -> Monoid:
    """Look a monoid up by name."""
    return MONOIDS[name]

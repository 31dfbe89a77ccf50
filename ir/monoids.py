"""Reductions are monoids: an associative combination with an identity.

The identity is what padded lanes, empty segments and the first step of a loop hold.  ``mean`` is a primitive, not ``sum / N``:
rolled as a running sum over a running count it keeps all digits of data with a large offset, where ``sum * (1/N)`` loses them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Monoid:
    """``reduce`` is numpy's reduction; ``combine`` the scalar op that merges two states; ``state`` the monoid that carries it."""

    name: str
    identity: float
    combine: str  # a scalar op of ir.ops
    reduce: Callable[..., np.ndarray]
    state: str  # "sum" for mean: its state is a sum, divided by a count when read
    linear: bool  # reduce(c * x) == c * reduce(x) for every c
    idempotent: bool  # combine(x, x) == x

    integer: str = ""  # the monoid of integers with this name in torch

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


MONOIDS = {
    m.name: m
    for m in (
        Monoid("sum", 0.0, "add", np.sum, "sum", True, False, "isum"),
        Monoid("max", -math.inf, "maximum", _largest, "max", False, True, "imax"),
        Monoid("min", math.inf, "minimum", _smallest, "min", False, True, "imin"),
        Monoid("mean", 0.0, "add", _mean, "sum", True, False),
        # of integers: exact, modulo 2**64.  They have no traits: a law of real numbers, which a wrapped one may break, does not see them
        Monoid("isum", 0.0, "add", np.sum, "isum", False, False),
        Monoid("imax", -math.inf, "maximum", _largest, "imax", False, False),
        Monoid("imin", math.inf, "minimum", _smallest, "imin", False, False),
    )
}


def monoid(name: str) -> Monoid:
    """Look a monoid up by name."""
    return MONOIDS[name]

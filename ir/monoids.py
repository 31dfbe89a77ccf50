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

    def __repr__(self) -> str:
        return f"monoid({self.name!r})"


def _mean(x: np.ndarray, axis: int, keepdims: bool = False) -> np.ndarray:
    """Mean with mean(empty) = 0, the identity."""
    return np.sum(x, axis=axis, keepdims=keepdims) / max(x.shape[axis], 1)


def _max(x: np.ndarray, axis: int, keepdims: bool = False) -> np.ndarray:
    return np.max(x, axis=axis, keepdims=keepdims, initial=-np.inf)


def _min(x: np.ndarray, axis: int, keepdims: bool = False) -> np.ndarray:
    return np.min(x, axis=axis, keepdims=keepdims, initial=np.inf)


MONOIDS = {
    m.name: m
    for m in (
        Monoid("sum", 0.0, "add", np.sum, "sum", True, False),
        Monoid("max", -math.inf, "maximum", _max, "max", False, True),
        Monoid("min", math.inf, "minimum", _min, "min", False, True),
        Monoid("mean", 0.0, "add", _mean, "sum", True, False),
    )
}


def monoid(name: str) -> Monoid:
    """Look a monoid up by name."""
    return MONOIDS[name]

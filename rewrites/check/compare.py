"""When two arrays are equal.

``exact``     the same bits: signed zeros count, NaN at the same places (its payload does not count).
``rational``  the same fractions.
``real``      wherever EITHER is finite, since uniting classes is symmetric.  Floats round, so a difference in float64, however small
              and be it one of 0 and 1e-300, is only a suspicion: the same numbers are computed again in longer floats.  Rounding
              shrinks with the precision and falsehood does not; where even the long floats over- or underflow, nothing is
              concluded.  A difference that stays may still be a rounding error, of a term that both precisions lose beside a
              larger one: so it is computed again with errors in every operation, thousands of times larger than its rounding.
              They move an error that comes from rounding by much more than its size, and falsehood hardly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.semantics import largest
from ..world import World

CLOSE = 1e-9  # relative difference of two values of one premise, and of two numbers that is too small to be certain at once
SUSPECT = 2.0**-46  # relative difference of two numbers that needs a second look: a hundred roundings
SHRINKS = 1 / 32  # of its float64 size: an error that does so in longer floats is rounding
ROUNDINGS = 1e4  # so many may add up
LONG = np.longdouble if np.finfo(np.longdouble).eps < np.finfo(float).eps / 100 else None
EPS = np.finfo(LONG or float).eps
NOISE = 2.0**14  # errors added on purpose, in roundings of the longer floats
NOISES = 3  # times that they are drawn
LOOKS = 40  # likewise, for a condition: so often has chance the same side
STAYS = 8.0  # a difference so many times larger than what errors do to it is none of rounding


@dataclass(frozen=True)
class Pair:
    """Two arrays that must agree; ``where`` restricts the claim."""

    left: np.ndarray
    right: np.ndarray
    names: tuple[str, str]
    where: np.ndarray | None = None


@dataclass(frozen=True)
class Truth:
    """A condition that must hold of ``count`` numbers; NaN are exempt, of which nothing is claimed.  ``bad`` is where it does not hold, if
    it is one on single numbers."""

    holds: bool
    text: str
    count: int
    bad: np.ndarray | None = None


Observation = Pair | Truth


def _pair(o: Pair) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b = np.broadcast_arrays(np.asarray(o.left), np.asarray(o.right))
    where = np.ones((), bool) if o.where is None else o.where
    a, b, where = np.broadcast_arrays(a, b, where)
    return a, b, where


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two float arrays agree down to signed zeros, with any NaN equal to any other."""
    nan = np.isnan(a) & np.isnan(b)
    return nan | ((a == b) & (np.signbit(a) == np.signbit(b)))


def _errors(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(difference, infinite where one is not finite; the larger magnitude) of float arrays."""
    with np.errstate(all="ignore"):
        both = np.isfinite(a) & np.isfinite(b)
        size = np.maximum(np.abs(np.where(np.isfinite(a), a, 0)), np.abs(np.where(np.isfinite(b), b, 0)))
        return np.where(both, np.abs(np.where(both, a, 0) - np.where(both, b, 0)), np.inf), size


def alike(a: np.ndarray, b: np.ndarray, world: World) -> bool:
    """Whether two values of one premise agree, as loosely as rounding needs."""
    a, b = np.broadcast_arrays(np.asarray(a), np.asarray(b))
    if world.rational:
        return bool(np.all(a == b))
    if world.bitwise:
        return bool(same_bits(a, b).all())
    where = np.isfinite(a) | np.isfinite(b) | (np.isinf(a) & np.isinf(b) & (a != b))
    error, size = _errors(a, b)
    return bool(np.all(error[where] <= CLOSE * np.maximum(size[where], 1.0)))


def compared(o: Observation, world: World) -> int:
    """How many numbers an observation speaks of."""
    if isinstance(o, Truth):
        return o.count
    a, b, where = _pair(o)
    if world.rational or world.bitwise:
        return int(where.sum())
    return int(np.sum(where & (np.isfinite(a) | np.isfinite(b))))


def suspicious(o: Observation, world: World) -> np.ndarray:
    """Where an observation looks false."""
    if isinstance(o, Truth):
        return np.array(not o.holds) if o.bad is None or o.holds else o.bad
    a, b, where = _pair(o)
    if world.rational:
        return where & np.asarray(a != b, bool)
    if world.bitwise:
        return where & ~same_bits(a, b)
    error, size = _errors(a, b)
    return where & (np.isfinite(a) | np.isfinite(b)) & ~(error <= SUSPECT * size)


def rounded_away(o: Truth, again: Truth, noisy: Callable[[int], Observation | None]) -> bool:
    """Whether rounding explains that a condition does not hold of numbers: each of them obeys it in one of several looks with errors in
    every operation.  ``noisy`` is the look of a number, if there is one."""
    if o.bad is None or again.bad is None or o.bad.shape != again.bad.shape:
        return False
    bad = o.bad & again.bad
    for seed in range(LOOKS):
        if not bad.any():
            return True
        seen = noisy(seed)
        if not isinstance(seen, Truth) or seen.bad is None or seen.bad.shape != bad.shape:
            return False
        bad = bad & seen.bad
    return False


def lasting(o: Pair, again: Pair, world: World) -> np.ndarray:
    """Where what looks false in float64 looks false in longer floats, too."""
    bad = suspicious(o, world)
    error, _ = _errors(*_pair(o)[:2])
    a, b, where = _pair(again)
    if a.shape != bad.shape:
        return np.array(True)
    error_again, size = _errors(a, b)
    bad = bad & where & (np.isfinite(a) | np.isfinite(b)) & ~(error_again <= SUSPECT * size)
    return bad & ~(np.isfinite(error) & (error_again <= SHRINKS * error)) if LONG is not None else bad


def certain(bad: np.ndarray, again: Pair, longer: World) -> bool:
    """Whether a lasting difference is so large that no rounding explains it."""
    a, b, _ = _pair(again)
    if a.shape != bad.shape:
        return True
    error, size = _errors(a, b)
    floats = [largest(v) for v in (*longer.values.values(), a, b) if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
    scale = max(1.0, *floats, *(longer.sizes or ()))  # of what may have been added on the way
    return bool(np.any(bad & ~(error <= np.maximum(CLOSE * size, ROUNDINGS * EPS * scale))))


def moved_little(bad: np.ndarray, again: Pair, noisy: list[Pair]) -> bool:
    """Whether a lasting difference stays what it is if every operation errs."""
    a, b, _ = _pair(again)
    if any(_pair(o)[0].shape != a.shape for o in noisy):
        return False
    with np.errstate(all="ignore"):
        differences = [x - y for x, y, _ in map(_pair, noisy)]
        moves = [np.abs(d - (a - b)) for d in differences]
        one_is_infinite = np.logical_and.reduce([~np.isfinite(d) for d in (a - b, *differences)])
        return bool(np.any(bad & (one_is_infinite | (np.abs(a - b) > STAYS * np.max(moves, axis=0)))))


def short(x: Any) -> str:
    """An array on one line."""
    x = np.asarray(x)
    if x.dtype == object:
        return " ".join(str(v) for v in x.reshape(-1)[:8]) + (" ..." if x.size > 8 else "")
    return np.array2string(np.squeeze(x), precision=6, threshold=8).replace("\n", " ")

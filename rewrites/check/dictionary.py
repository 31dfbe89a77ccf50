"""The numbers that a check tries because the rule, or an element type, names them.

A rule that is false at one number is false at one that it names, beside it, or at one that its functions make of it: thresholds, poles,
epsilons.  So what is drawn has a *dictionary*, as fuzzers have: the literals of the rule, their neighbours in the arithmetic of the
world, their negatives, multiples, reciprocals and images under the common functions, and the sums, differences, products and
quotients of pairs.  What every type names is beside it: the largest and smallest numbers, where rounding decides, and midpoints between
the numbers of narrower types, where rounding twice shows.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from ...ir.dtypes import DTYPES
from .. import patterns as P
from ..comparisons import LONGEST_AXIS
from ..facts import Fact

MOST_LITERALS = 8  # of which pairs are formed
LONGEST_INVERSE = 5000  # likewise, of one whose reciprocal it names: an epsilon is no length
USUAL = (0.0, 1.0, 2.0, 0.5, 3.0, 10.0, 100.0, 1000.0)  # what a rule without literals is tried with


def literals(facts: tuple[Fact, ...]) -> tuple[float, ...]:
    """The finite numbers that a rule names, each once, without signs."""
    found: dict[float, None] = {}
    for fact in facts:
        for part in fact.parts():
            for node in P.walk(part):
                if isinstance(node, P.NumberLiteral) and np.isfinite(node.number):
                    found[abs(float(node.number))] = None
    return tuple(found)


def lengths(named: tuple[float, ...]) -> tuple[int, ...]:
    """Lengths of axes at which a comparison with one of the numbers changes, or with what a quotient by it was written with."""
    inverse = [1 / x for x in named if 1 / LONGEST_INVERSE < x < 1]
    whole = {round(x) for x in named if x < LONGEST_AXIS} | {round(x) for x in inverse if abs(x - round(x)) < 1e-9 * x}
    return tuple(sorted({n + d for n in whole for d in (-1, 0, 1) if n > 1}))


def whole_numbers(name: str) -> float:
    """Up to which number a type has all whole ones, and one more; 0 for types that have all positions."""
    own = DTYPES[name]
    return 2 / own.epsilon + 1 if own.is_float and own.epsilon else 0.0


@lru_cache(maxsize=256)
def near(named: tuple[float, ...], dtype: Any) -> np.ndarray:
    """The named numbers and their neighbours in a floating type, as float64, of both signs."""
    return _signed([m for x in named for m in neighbours(x, dtype)])


@lru_cache(maxsize=256)
def derived(named: tuple[float, ...], dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """What arithmetic and the common functions make of the named numbers, as float64, of both signs, and the neighbours of these."""
    some = np.array(named or USUAL[1:4])
    few = some[:MOST_LITERALS]
    with np.errstate(all="ignore"):
        alone = [
            *(some * m for m in (2.0, 0.5, 3.0, 1 / 3, 10.0, 0.1, 1e3, 1e-3, 2.0**10, 2.0**-10, some)),
            some + 1, some - 1, 1 / some, np.sqrt(some), np.log(some), np.log2(some), np.exp(some), np.exp2(some), np.tan(some),
            np.arctanh(some), np.arcsin(some), np.arccos(some), np.log(some / (1 - some)), np.log(np.expm1(some)),
        ]  # fmt: skip
        pairs = [f(few[:, None], few).ravel() for f in (np.add, np.subtract, np.multiply, np.divide)]
    found = np.unique(np.concatenate([*alone, *pairs]))
    each = [neighbours(float(x), dtype) for x in found[np.isfinite(found)]]
    return _signed([e[0] for e in each]), _signed([m for e in each for m in e[1:]])


def neighbours(x: float, dtype: Any) -> list[float]:
    """A number in a floating type, and the numbers before and after it."""
    with np.errstate(all="ignore"):
        here = np.dtype(dtype).type(x)
        return [float(v) for v in (here, np.nextafter(here, np.inf, dtype=dtype), np.nextafter(here, -np.inf, dtype=dtype))]


def _signed(values: list[float]) -> np.ndarray:
    found = np.unique(np.array([*values, *(-v for v in values)] or [0.0]))
    return found[np.isfinite(found)]


@lru_cache(maxsize=8)
def extremes(dtype: Any) -> tuple[np.ndarray, ...]:
    """Where a floating type ends, where it begins, and where narrower ones do or digits end: positive numbers as float64."""
    own = np.finfo(dtype)
    most, least = float(own.max), float(own.smallest_subnormal)
    floats = [t for t in DTYPES.values() if t.is_float and t.largest <= most]
    large = [most, most / 2, most / 4]
    small = [float(own.tiny), 2 * float(own.tiny), 3 * least, 5 * least]
    others = [v for t in floats for v in (t.largest, 1 / t.largest, t.epsilon, 1 / t.epsilon)] + [1.0, np.sqrt(most), np.sqrt(own.tiny)]
    every = ([m for x in some for m in neighbours(float(x), dtype)] for some in (large, small, others))
    return tuple(np.unique([x for x in some if np.isfinite(x) and x > 0]) for some in every)


@cache
def ends(name: str) -> np.ndarray:
    """The first and last numbers of a type, and of an integer type the ones beside."""
    own = DTYPES[name]
    inner = [own.least + 1, own.largest - 1] if own.kind == "int" else []
    return np.array([own.least, *inner, own.largest])


def limits() -> np.ndarray:
    """Where integer types end."""
    infos = [np.iinfo(t.numpy) for t in DTYPES.values() if not t.is_float and t.kind != "bool"]
    found = [float(x) for i in infos for x in (i.min, i.max, 2 * i.max + 1) if abs(x) < 2**53]
    return np.array([0.0, 128.0, 255.0, 32767.0, 65535.0, *found])


def midpoints(shape: list[int], dtype: Any, rng: np.random.Generator) -> np.ndarray:
    """Positive numbers of a floating type half way between two neighbours of a narrower one, or one step beside."""
    steps = [t.epsilon for t in DTYPES.values() if t.is_float and t.epsilon > np.finfo(dtype).eps] or [2.0**-4]
    step = rng.choice(steps, size=shape)
    middle = 1.0 + (np.floor(rng.random(size=shape) / step) + 0.5) * step
    here = np.asarray(middle * 2.0 ** rng.integers(-3, 4, size=shape), dtype)
    beside = np.nextafter(here, np.where(rng.random(size=shape) < 0.5, np.inf, -np.inf).astype(dtype))
    return np.where(rng.random(size=shape) < 0.4, here, beside).astype(float)

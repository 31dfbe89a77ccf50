"""Samples: a summary of the integers in an example of a tensor.

A kernel whose loops end at lengths is right for all lengths, but how long it takes depends on them, and so does the best tile.  The price
of a plan assumes lengths like those of the example arguments.  A sample keeps their distribution, rounded, and whether they ascend.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .terms import Cast, Gather, Input, Map, Reduce, Scan, Term, View

POINTS = 65  # quantiles, the least and the largest number included
UNITS = 64  # steps up to the largest number, to which the quantiles are rounded
FARTHEST = 1 << 31  # what is beyond is beyond every axis
MOST = 1 << 16  # numbers that are looked at
COMPARISONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))


@dataclass(frozen=True)
class Sample:
    """``quantiles`` of the numbers, from the least on.  ``trend`` along the last dimension: 1 if no number is followed by a smaller one, -1
    if none is followed by a larger one, else 0.  Truth values are 0 and 1."""

    trend: int
    quantiles: tuple[int, ...]

    @staticmethod
    def of(numbers: np.ndarray) -> Sample | None:
        """The sample of an array of integers; ``None`` if the array is empty.  A large array is thinned out first."""
        if not numbers.size:
            return None
        rows = numbers.reshape(-1, numbers.shape[-1] if numbers.ndim else 1)
        few = max(MOST // rows.shape[1], 1)
        rows = rows[:: -(-len(rows) // few), :: -(-rows.shape[1] // MOST)].astype(np.int64)
        steps = np.diff(rows) if rows.shape[1] > 1 else np.array([-1, 1])
        trend = 1 if (steps >= 0).all() else -1 if (steps <= 0).all() else 0
        points = np.linspace(0.0, 1.0, POINTS)
        rows = np.clip(rows, -FARTHEST, FARTHEST)
        found = np.quantile(rows, points, axis=1).mean(axis=1) if trend else np.quantile(rows, points)
        unit = max(1, 1 << max(int(np.abs(found).max()) // UNITS, 1).bit_length() - 1)
        return Sample(trend, tuple(round(x / unit) * unit for x in found.tolist()))

    def numbers(self, shape: Sequence[int]) -> np.ndarray:
        """An array of a shape with this distribution, with its trend along the last dimension, or in a fixed random order."""
        if not shape:
            return np.asarray(self.quantiles[POINTS // 2])
        n = shape[-1] if self.trend else int(np.prod(shape))
        found = np.rint(np.interp(np.linspace(0.0, 1.0, n), np.linspace(0.0, 1.0, POINTS), self.quantiles)).astype(np.int64)
        if self.trend:
            return np.broadcast_to(found[:: self.trend], tuple(shape))
        return np.random.default_rng(0).permutation(found).reshape(tuple(shape))


def compared(terms: Iterable[Term]) -> set[Input]:
    """The integer inputs that are compared with values along other axes, as lengths are with positions.  Arguments come before users."""
    of: dict[Term, frozenset[Input]] = {}
    found: set[Input] = set()
    for t in terms:
        if t.dtype is not None and t.dtype.kind == "float":
            continue
        if isinstance(t, Input) and t.dtype.kind == "int":
            of[t] = frozenset((t,))
        elif isinstance(t, Map | Cast | View | Gather | Reduce | Scan):
            of[t] = frozenset().union(*(of.get(a, frozenset()) for a in t.args))
            if isinstance(t, Map) and t.op in COMPARISONS and t.args[0].axes and t.args[1].axes and t.args[0].axes != t.args[1].axes:
                found |= of[t]
    return found

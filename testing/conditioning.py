"""How much rounding moves the result of a program as it is written: what an honest tolerance is made of.

Every operation that rounds gets a random relative error, and the program is evaluated again, a few times.  How far the results spread
says what any other correct order of evaluation may do.  A sum is disturbed relative to the sum of absolute values, so cancellation inside
it counts; selections, views, positions and whole numbers are exact and are left alone.  Where a comparison or a floor sits on its edge, the
samples differ by whole steps: such a program has no stable result, and nothing can be asked of its plan.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import ops
from ..ir.monoids import MONOIDS
from ..ir.program import Program
from ..ir.reference import evaluate_terms
from ..ir.terms import Cast, Map, Reduce, Term

EXACT_OPS = frozenset(("neg", "abs", "maximum", "minimum", "where", "floor"))


def rounds(t: Term) -> bool:
    """Whether a term's own operation rounds."""
    if t.dtype is not None and not t.dtype.is_float:
        return False
    if isinstance(t, Map):
        return ops.op(t.op).result != "bool" and t.op not in EXACT_OPS
    return isinstance(t, Reduce) and not MONOIDS[t.monoid].idempotent


def disturbed(
    program: Program,
    inputs: Mapping[str, np.ndarray],
    epsilon: float,
    rng: np.random.Generator,
    *,
    narrow: bool = False,
    ties: bool | None = None,
) -> dict[str, np.ndarray]:
    """The outputs where every rounding operation is off by up to ``epsilon``; ``narrow``: values of 16-bit types by their own epsilon, and
    casts round.  Numbers that rounding makes equal, or unequal, are equal at random; or all of them are, or none (``ties``)."""
    roots = tuple(o.term for o in program.outputs)
    exact: dict[Term, np.ndarray] = {}
    if any(isinstance(t, Map) and t.op in ("eq", "ne") for t in program.terms()):
        evaluate_terms(roots, inputs, rounding=lambda t, value, _: exact.setdefault(t, value))

    def rounding(t: Term, value: np.ndarray, args: list[np.ndarray]) -> np.ndarray:
        if isinstance(t, Map) and t.op in ("eq", "ne"):
            x, y = (_aligned(a, of, t) for a, of in zip(args, t.args, strict=True))
            x0, y0 = (_aligned(exact[of], of, t) for of in t.args)
            with np.errstate(all="ignore"):
                moved = np.abs(x - x0) + np.abs(y - y0)
                near = (moved > 0) & (np.abs(x0 - y0) <= 4 * moved)
            equal = rng.integers(0, 2, size=np.shape(value)) if ties is None else ties if t.op == "eq" else not ties
            return np.where(near, equal, value)
        if isinstance(t, Cast) or not rounds(t):
            return value
        size = epsilon
        if narrow and t.dtype is not None and t.dtype.itemsize == 2:
            size = max(size, t.dtype.epsilon / 2)
        scale = np.abs(value)
        if isinstance(t, Reduce) and t.axis in t.args[0].axes:
            total = np.abs(np.where(np.isfinite(args[0]), args[0], 0.0)).sum(axis=sorted(t.args[0].axes).index(t.axis))
            scale = np.maximum(scale, total if t.monoid == "sum" else total / max(t.axis.size, 1))
        with np.errstate(all="ignore"):
            return np.where(np.isfinite(value), value + rng.uniform(-size, size, size=np.shape(value)) * scale, value)

    values = evaluate_terms(roots, inputs, casts=narrow, rounding=rounding)
    return {o.name: v.array for o, v in zip(program.outputs, values, strict=True)}


def _aligned(array: np.ndarray, of: Term, to: Term) -> np.ndarray:
    """An argument's array with a dimension for every axis of its user."""
    return array.reshape([array.shape[sorted(of.axes).index(a)] if a in of.axes else 1 for a in sorted(to.axes)])


def spread(
    program: Program, inputs: Mapping[str, np.ndarray], epsilon: float, *, samples: int = 4, narrow: bool = False
) -> dict[str, float]:
    """Per output, the largest move over the samples, relative to its largest finite element; infinite where a sample loses one."""
    rng = np.random.default_rng(0)
    exact = evaluate_terms(tuple(o.term for o in program.outputs), inputs)
    found = dict.fromkeys((o.name for o in program.outputs), 0.0)
    for k in range(samples):
        ties = (True, False)[k] if k < 2 else None  # five coins seldom fall alike, and a minimum over them needs that
        moved = disturbed(program, inputs, epsilon, rng, narrow=narrow, ties=ties)
        for o, value in zip(program.outputs, exact, strict=True):
            found[o.name] = max(found[o.name], relative_move(moved[o.name], value.array))
    return found


def relative_move(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the largest element, where the expected value is finite; infinite if one is not finite there."""
    finite = np.isfinite(expected)
    if not finite.any():
        return 0.0
    if not np.isfinite(found[finite]).all():
        return float("inf")
    scale = np.abs(expected[finite]).max()
    return float(np.abs(found[finite] - expected[finite]).max() / (scale + 1e-3))

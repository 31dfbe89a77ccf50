"""How much rounding moves the result of a program as it is written: what an honest tolerance is made of.

Every operation that rounds gets a random relative error, and the program is evaluated again, a few times.  How far the results spread
says what any other correct order of evaluation may do.  A sum is disturbed relative to the sum of absolute values, so cancellation inside
it counts; selections, views, positions and whole numbers are exact and are left alone.  Where a comparison or a floor sits on its edge, the
samples differ by whole steps: such a program has no stable result, and nothing can be asked of its plan.

A plan has another freedom.  It may compute a value more than once, in several loops or kernels, by an equal form of its own in each.  In
x - max x, as it is written, the errors of x are common to both and drop out; in the plan they need not be.  So every use of a value may
also be given a copy of its own, with errors of its own (:func:`recomputed`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import cycle

import numpy as np

from ...ir import ops
from ...ir.monoids import MONOIDS
from ...ir.program import Program
from ...ir.reference import evaluate_terms
from ...ir.shrink import with_args
from ...ir.terms import Cast, Input, Map, Reduce, Scan, Term

COMPARISONS = ("eq", "ne")
DIVISIONS = ("fmod", "remainder")  # what has no value beside the number 0, and small ones near it
COPIES = 16  # of a value, at most: the ways from a value to a result may be exponentially many


def rounds(t: Term) -> bool:
    """Whether a term's own operation rounds."""
    if t.dtype is not None and not t.dtype.is_float:
        return False
    if isinstance(t, Map):
        return ops.op(t.op).result != "bool" and not ops.op(t.op).selects and not ops.op(t.op).jumps
    return isinstance(t, Reduce | Scan) and not MONOIDS[t.monoid].idempotent


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
    if any(isinstance(t, Map) and t.op in (*COMPARISONS, *DIVISIONS) for t in program.terms()):
        evaluate_terms(roots, inputs, rounding=lambda t, value, _: exact.setdefault(t, value))

    def rounding(t: Term, value: np.ndarray, args: list[np.ndarray]) -> np.ndarray:
        if isinstance(t, Map) and t.op in (*COMPARISONS, *DIVISIONS) and t.args[0] is not t.args[1]:
            x, y = (_aligned(a, of, t) for a, of in zip(args, t.args, strict=True))
            x0, y0 = (_aligned(exact[of], of, t) for of in t.args)
            with np.errstate(all="ignore"):
                if t.op in DIVISIONS:  # by what is nothing but errors, and might be 0
                    return np.where((y != y0) & (np.abs(y0) <= 4 * np.abs(y - y0)), np.nan, value)
                moved = np.abs(x - x0) + np.abs(y - y0)
                near = (moved > 0) & (np.abs(x0 - y0) <= 4 * moved)
            equal = rng.integers(0, 2, size=np.shape(value)) if ties is None else ties if t.op != "ne" else not ties
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
        if isinstance(t, Scan) and t.axis in t.args[0].axes:
            scale = np.maximum(scale, np.abs(np.where(np.isfinite(args[0]), args[0], 0.0)).cumsum(sorted(t.axes).index(t.axis)))
        with np.errstate(all="ignore"):
            moved = rng.uniform(-size, size, size=np.shape(value))
            moved *= scale  # in place: whole products are large
            moved += value
        finite = np.isfinite(value)
        return moved if finite.all() else np.where(finite, moved, value)

    values = evaluate_terms(roots, inputs, casts=narrow, rounding=rounding)
    return {o.name: v.array for o, v in zip(program.outputs, values, strict=True)}


def _aligned(array: np.ndarray, of: Term, to: Term) -> np.ndarray:
    """An argument's array with a dimension for every axis of its user."""
    return array.reshape([array.shape[sorted(of.axes).index(a)] if a in of.axes else 1 for a in sorted(to.axes)])


def recomputed(program: Program, rng: np.random.Generator) -> tuple[Program, dict[str, str]]:
    """The same program with a copy of a value for every use of it by every copy of its users; and which input each of its inputs copies.

    More uses than :data:`COPIES` share them at random.  What decides (comparisons, floors, casts to whole numbers) is there once, as it
    is written, for the samples are to differ by errors and not by steps.
    """
    terms = program.terms()
    wanted = Counter(o.term for o in program.outputs)
    for t in reversed(terms):
        if not decides(t):
            for a in t.args:
                wanted[a] += min(wanted[t], COPIES)
    names = {i.name: i.name for i in program.inputs}
    inputs = list(program.inputs)
    copies: dict[Term, Iterator[Term]] = {}

    def copied(t: Term, k: int) -> Term:
        if not isinstance(t, Input):
            return with_args(t, tuple(next(copies[a]) for a in t.args))
        inputs.append(Input(f"{t.name} again {k}", t.layout, t.dtype))
        names[inputs[-1].name] = t.name
        return inputs[-1]

    for t in terms:
        own = [t] if decides(t) else [copied(t, k) for k in range(min(wanted[t], COPIES))]
        copies[t] = cycle([own[k] for k in rng.permutation(len(own))])
    outputs = tuple(replace(o, term=next(copies[o.term])) for o in program.outputs)
    return Program(program.name, outputs, tuple(inputs)), names


def decides(t: Term) -> bool:
    """Whether a term's own operation goes in whole steps."""
    return t.dtype is not None and not t.dtype.is_float or isinstance(t, Map) and ops.op(t.op).jumps


def spread(
    program: Program,
    inputs: Mapping[str, np.ndarray],
    epsilon: float,
    *,
    samples: int = 4,
    narrow: bool = False,
    again: bool = False,
) -> dict[str, float]:
    """Per output, the largest move over the samples, relative to its largest finite element; infinite where a sample loses one.

    ``again``: as many samples more in which values are computed more than once (:func:`recomputed`), as a plan may do.
    """
    exact = evaluate_terms(tuple(o.term for o in program.outputs), inputs)
    found = dict.fromkeys((o.name for o in program.outputs), 0.0)
    for anew in (False, True)[: 1 + again]:
        rng = np.random.default_rng(int(anew))
        for k in range(samples):
            ties = (True, False)[k] if k < 2 else None  # five coins seldom fall alike, and a minimum over them needs that
            p, names = recomputed(program, rng) if anew else (program, {name: name for name in inputs})
            moved = disturbed(p, {name: inputs[of] for name, of in names.items()}, epsilon, rng, narrow=narrow, ties=ties)
            for o, value in zip(program.outputs, exact, strict=True):
                found[o.name] = max(found[o.name], relative_move(moved[o.name], value.array))
    return found


def relative_move(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the largest element, where the expected value is finite; infinite if one is not finite there."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    finite = np.isfinite(expected)
    if not finite.any():
        return 0.0
    if not np.isfinite(found[finite]).all():
        return float("inf")
    scale = np.abs(expected[finite]).max()
    return float(np.abs(found[finite] - expected[finite]).max() / (scale + 1e-3))

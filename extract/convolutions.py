"""Convolutions among the values of a program, found by what they compute.

A sum of products of a value and a weight is a convolution if, dimension by dimension, the positions that meet are those for which
``longer = shorter * stride + window * dilation - padding``.  Which positions meet is a matter of whole numbers, so it is looked at: all
of one dimension, and of its window.  It does not matter how a program spells them, nor how many axes a dimension has.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from ..ir.index import Axis, IndexExpr, index
from ..ir.reference import evaluate_terms
from ..ir.terms import Const, Input, Map, Reduce, Term, View, as_read, postorder

MOST_MET = 2**21  # pairs of a position and one in its window that are looked at


@dataclass(frozen=True)
class Along:
    """One dimension: the axes of the result, outermost first, that of the input and that of the weight, and how windows lie."""

    out: tuple[Axis, ...]
    x: Axis | None
    window: Axis | None
    stride: int
    padding: int
    dilation: int
    more: int  # what is added at the end of a transposed one


@dataclass(frozen=True)
class Convolution:
    """``y[batch, channels, ..] = sum over inner and windows of x[batch, inner, ..] * weight[channels, inner, ..]``."""

    x: Term
    weight: Term
    batch: Axis | None
    channels: Axis | None
    inner: Axis | None
    along: tuple[Along, ...]
    transposed: bool
    added: Term | None = None

    @property
    def orders(self) -> tuple[tuple[tuple[Axis | None, ...], ...], ...]:
        """The axes in each dimension of the result and of the arguments."""
        sides = [(self.channels,), (self.inner,)][:: -1 if self.transposed else 1]
        return (
            ((self.batch,), (self.channels,), *(a.out or (None,) for a in self.along)),
            ((self.batch,), (self.inner,), *((a.x,) for a in self.along)),
            (*sides, *((a.window,) for a in self.along)),
            ((self.channels,),),
        )

    @property
    def function(self) -> tuple[tuple[str, str], tuple[tuple[str, tuple[int, ...]], ...]]:
        """The function, and what it takes by name."""
        how = ("stride", "padding", "dilation", *(("output_padding",) if self.transposed else ()))
        values = {k: tuple(getattr(a, {"output_padding": "more"}.get(k, k)) for a in self.along) for k in how}
        return ("torch.nn.functional", f"conv{'_transpose' if self.transposed else ''}{len(self.along)}d"), tuple(values.items())

    @property
    def product(self) -> tuple[int, int, int]:
        """Rows, columns and what is contracted of the product of matrices that it is at each position."""
        batch, channels, inner = (1 if a is None else a.size for a in (self.batch, self.channels, self.inner))
        window = math.prod(a.window.size for a in self.along if a.window is not None)
        if self.transposed:
            return batch * math.prod(a.x.size for a in self.along if a.x is not None), channels * window, inner
        return batch * math.prod(a.size for along in self.along for a in along.out), channels, inner * window


def convolution(term: Term) -> Convolution | None:
    """A value as a convolution of values of its own floating type, with what is added to its channels."""
    if isinstance(term, Map) and term.op == "add":
        for x, added in (term.args, reversed(term.args)):
            found = convolution(x) if isinstance(x, Reduce) and {added.dtype, x.dtype} == {term.dtype} else None
            if found is not None and added.axes == {found.channels}:
                return replace(found, added=added)
    contracted: list[Axis] = []
    inner = term
    while isinstance(inner, Reduce) and inner.monoid == "sum":
        contracted.append(inner.axis)
        inner = inner.args[0]
    if not contracted or not isinstance(inner, Map) or inner.op != "mul" or term.dtype is None or not term.dtype.is_float:
        return None
    sides = [_Side(x) for x in inner.args]
    if any(s.base.dtype != term.dtype for s in sides):
        return None
    for value, weight in (sides, sides[::-1]):
        found = _related(value, weight, term.axes, contracted)
        if found is not None:
            return found
    return None


class _Side:
    """A factor: a value that is read at ``places``, one for each of its axes, where all ``conditions`` hold, and elsewhere 0."""

    def __init__(self, x: Term) -> None:
        self.conditions: list[Term] = []
        x = as_read(x)
        if isinstance(x, Map) and x.op == "where" and isinstance(x.args[2], Const) and x.args[2].value == 0.0:
            todo = [x.args[0]]
            while todo:
                c = todo.pop()
                if isinstance(c, Map) and c.op == "and":
                    todo += c.args
                else:
                    self.conditions.append(c)
            x = x.args[1]
        x = as_read(x)
        places: dict[Axis, IndexExpr] = {a: index(a) for a in x.axes}
        while isinstance(x, View):
            moved, at = x.axis, x.index.substitute(places)
            x = as_read(x.args[0])
            places = {a: at if a == moved else places[a] for a in x.axes}
        self.base, self.places = x, places


def _related(x: _Side, weight: _Side, made: Collection[Axis], contracted: Sequence[Axis]) -> Convolution | None:
    conditions = [c for s in (x, weight) for c in s.conditions]
    if any(isinstance(t, Input) for t in postorder(*conditions)):  # what meets is data
        return None
    if not all(e.axes() for s in (x, weight) for e in s.places.values()):  # of some axis one position is read
        return None
    batches, inner, outer = [], [], []
    along: list[tuple[Axis | None, Axis | None, tuple[Axis, ...]]] = []
    together = [e.axes() for s in (x, weight) for e in s.places.values()] + [c.axes for c in conditions]
    if not {*contracted} <= frozenset().union(*together):
        return None
    for axes in _linked(together):
        seen, by = ([a for a, e in s.places.items() if e.axes() & axes] for s in (x, weight))
        plain = len(axes) == 1 and all(s.places[a].as_axis() == a for s, held in ((x, seen), (weight, by)) for a in held)
        if len(seen) > 1 or len(by) > 1 or not seen + by:
            return None
        if plain and not by and axes <= {*made}:
            batches += seen
        elif plain and not seen and axes <= {*made}:
            outer += by
        elif plain and seen and by and axes <= {*contracted}:
            inner += seen
        else:
            along.append((seen[0] if seen else None, by[0] if by else None, tuple(sorted(axes))))
    inner.sort(key=contracted.index)  # the innermost sum is that over channels
    along += [(a, a, (a,)) for a in inner[:-1]] + [(a, None, (a,)) for a in sorted(batches)[1:]]
    if len(outer) > 1 or not 1 <= len(along) <= 3:
        return None
    along.sort(key=lambda d: min(a for a in d[:2] if a is not None))
    for transposed in (False, True):
        found = [_along(x, weight, *d, made, transposed=transposed) for d in along]
        if None not in found:
            first = (sorted(batches)[0] if batches else None, outer[0] if outer else None, inner[-1] if inner else None)
            return Convolution(x.base, weight.base, *first, tuple(a for a in found if a is not None), transposed)
    return None


def _linked(groups: Sequence[Collection[Axis]]) -> Iterator[frozenset[Axis]]:
    """Axes that some group has together."""
    found: list[frozenset[Axis]] = []
    for axes in map(frozenset, groups):
        met = [f for f in found if f & axes]
        found = [f for f in found if not f & axes] + [axes.union(*met)] * bool(axes)
    yield from found


def _along(
    x: _Side, weight: _Side, seen: Axis | None, by: Axis | None, axes: tuple[Axis, ...], made: Collection[Axis], *, transposed: bool
) -> Along | None:
    """How windows lie along one dimension of a convolution, if these axes are one."""
    if math.prod(a.size for a in axes) > MOST_MET:
        return None
    grid = dict(zip(axes, np.indices([a.size for a in axes]), strict=True))
    zero = np.zeros([a.size for a in axes], int)
    met = zero == 0
    for c in (c for s in (x, weight) for c in s.conditions if c.axes & {*axes}):
        (value,) = evaluate_terms((c,), {})
        met &= value.aligned(axes) != 0
    at, step = (zero if a is None else zero + s.places[a].evaluate(grid) for s, a in ((x, seen), (weight, by)))
    n, window = (1 if a is None else a.size for a in (seen, by))
    for out in permutations([a for a in axes if a in made]):
        place = zero
        for a in out:
            place = place * a.size + grid[a]
        m = math.prod(a.size for a in out)
        longer, shorter = (place[met], at[met]) if transposed else (at[met], place[met])
        how = _steps(longer, shorter, step[met], *((m, n) if transposed else (n, m)), window)
        if how is None:
            continue
        stride, dilation, padding = how
        reach = dilation * (window - 1) + 1
        more = m - ((n - 1) * stride - 2 * padding + reach)
        fits = 0 <= more < max(stride, dilation) if transposed else (n + 2 * padding - reach) // stride + 1 == m
        if fits:
            return Along(out, seen, by, stride, padding, dilation, more if transposed else 0)
    return None


def _steps(longer: np.ndarray, shorter: np.ndarray, step: np.ndarray, most: int, others: int, window: int) -> tuple[int, int, int] | None:
    """Stride, dilation and padding with which these are all that meet, each once."""

    def slope(of: np.ndarray, fixed: np.ndarray) -> int:
        order = np.lexsort((of, fixed))
        a, b, same = of[order], longer[order], np.diff(fixed[order]) == 0
        apart = np.flatnonzero(same & (np.diff(a) > 0))
        return int((b[apart[0] + 1] - b[apart[0]]) // (a[apart[0] + 1] - a[apart[0]])) if len(apart) else 1

    if not len(longer):
        return None
    stride, dilation = slope(shorter, step), slope(step, shorter)
    padding = int(shorter[0] * stride + step[0] * dilation - longer[0])
    if stride < 1 or dilation < 1 or padding < 0 or (longer != shorter * stride + step * dilation - padding).any():
        return None
    places = np.arange(others)[:, None] * stride + np.arange(window) * dilation - padding
    pairs = shorter * window + step
    return (stride, dilation, padding) if len(pairs) == len(np.unique(pairs)) == ((places >= 0) & (places < most)).sum() else None

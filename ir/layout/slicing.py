"""Which intervals of the indices of a list of iters are lists of iters again.

On ``[b, b+T)`` the step from t-1 to t is the sum of the ``c_i`` whose ``p_i`` divides ``b + t``.  A list of iters has such steps at
``t`` instead (see ``digits``). There is one candidate for it; it is the slice exactly if, for every pair of levels (the largest
``p_i`` that divides ``b + t``, the largest ``q_j`` that divides ``t``) that occurs for 0 < t < T, both steps are equal.  How often a
pair occurs is counted by the Chinese remainder theorem: no index is visited.

So more can be sliced than by the two sufficient forms of the paper (no wrap, one wrap in the middle), such as an odd begin over
digits of extent 2, and what is refused has no list of iters on any account."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...errors import LayoutError
from ...errors import shown as shown_value
from .digits import candidate, floors
from .iters import Iter, Iters, Vector, elements, plus, shown, size_of, value_at, whole

Region = Sequence["tuple[int, int] | slice | int"]  # (first, last + 1), a slice without a step, or one number


def interval(iters: Iters, start: int, length: int) -> Iters | None:
    """``D(start + t) - D(start)`` for t < length, of a canonical list; None if that is no list."""
    inner: list[Iter] = []
    rest = list(iters)
    while length > 1:
        it = rest[-1]
        if start % it.extent == 0 and length % it.extent == 0:  # whole digits: what is left is a slice of the others
            inner.insert(0, rest.pop())
            start, length = start // it.extent, length // it.extent
        elif start % it.extent + length <= it.extent:
            return (Iter(length, it.stride, it.axis), *inner)
        else:
            wrapped = _across(tuple(rest), start, length)
            return None if wrapped is None else (*wrapped, *inner)
    return tuple(inner)


def _across(iters: Iters, start: int, length: int) -> Iters | None:
    def value(t: int) -> Vector:
        return value_at(iters, start + t)

    found = candidate(length, value)
    if found is None:
        return None
    ours, theirs = _levels(iters), _levels(found)
    counts = {(i, j): _count(p, q, start, length) for i, (p, _) in enumerate(ours) for j, (q, _) in enumerate(theirs)}
    for (i, j), n in counts.items():
        above = counts.get((i + 1, j), 0) + counts.get((i, j + 1), 0) - counts.get((i + 1, j + 1), 0)
        if n > above and ours[i][1] != theirs[j][1]:
            return None
    return found


def _levels(iters: Iters) -> list[tuple[int, Vector]]:
    """(p, the step where p is the largest that divides), ascending."""
    out: list[tuple[int, Vector]] = []
    step: Vector = {}
    coefficients = floors(iters)
    for p in sorted(coefficients.keys() | {1}):
        step = plus(step, coefficients.get(p, {}))
        out.append((p, step))
    return out


def _count(p: int, q: int, start: int, length: int) -> int:
    """How many t with 0 < t < length have ``p | start + t`` and ``q | t``."""
    g = math.gcd(p, q)
    if start % g:
        return 0
    period = p * q // g
    first = q * (-start // g * pow(q // g, -1, p // g) % (p // g)) or period
    return 0 if first >= length else (length - 1 - first) // period + 1


def contiguous(shape: Sequence[int], region: Sequence[tuple[int, int]]) -> tuple[list[int], list[tuple[int, int]]]:
    """The same elements in fewer dimensions: (start, length) pairs of neighbours that are one interval are joined."""
    dims, parts = [1], [(0, 1)]
    for n, (start, length) in zip(shape, region, strict=True):
        before, many = parts[-1]
        if many == 1:
            dims[-1], parts[-1] = dims[-1] * n, (before * n + start, length)
        elif length == n:
            dims[-1], parts[-1] = dims[-1] * n, (before * n, many * n)
        else:
            dims.append(n)
            parts.append((start, length))
    return dims, parts


def unflat(number: int, shape: Sequence[int]) -> list[int]:
    """The index of a row-major number."""
    out: list[int] = []
    for n in reversed(shape):
        number, i = divmod(number, n)
        out.insert(0, i)
    return out


def read_region(region: Region, shape: Sequence[int]) -> list[tuple[int, int]]:
    """(first, length) of each dimension."""
    cure = "(first, last + 1) for every dimension"
    parts = elements(region, "the parts of a region", cure)
    if len(parts) != len(shape):
        raise LayoutError(
            f"the region {shown_value(region)} is not for the shape {tuple(shape)}", cure="(first, last + 1) for every dimension"
        )
    out = []
    for place, (part, n) in enumerate(zip(parts, shape, strict=True)):
        if isinstance(part, slice):
            step = 1 if part.step is None else part.step
            first, last = 0 if part.start is None else part.start, n if part.stop is None else part.stop
        else:
            pair = isinstance(part, tuple) and len(part) == 2
            step, (first, last) = 1, part if pair else (part, whole(part, "an index") + 1)
        first, last = whole(first, "the begin of a region"), whole(last, "the end of a region")
        if step != 1 or not 0 <= first < last <= n:
            raise LayoutError(
                f"{shown_value(part)} is no part of dimension {place}, 0 to {n}, with an element in it and steps of 1",
                cure="0 <= first < end <= size; compose takes steps",
            )
        out.append((first, last - first))
    return out


def uncut(block: Iters, first: int, length: int) -> LayoutError:
    """Why [first, first + length) of a block has no layout: the iter that is left in the middle of a digit."""
    rest, start, many = list(block), first, length
    while start % rest[-1].extent == 0 and many % rest[-1].extent == 0:
        start, many = start // rest[-1].extent, many // rest[-1].extent
        rest.pop()
    it = rest[-1]
    unit = size_of(block[len(rest) :]) * it.extent
    return LayoutError(
        f"[{first}, {first + length}) of {shown(block)} crosses the end of iter {it} at a digit of {start % it.extent}, "
        "and is no list of iters",
        cure=f"begin and end at multiples of {unit}, or slice at each of them",
    )

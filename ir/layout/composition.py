"""A list of iters read at the values of another one: ``x -> A(start + B(x))``.

Iters of B are split where a stride of A's index reaches a boundary of A.  If then no digit of A is ever carried out of, each step of
B adds a fixed vector, and the result follows for any size.  With carries the result may be a list all the same; up to :data:`LARGEST`
indices the values decide, which is exact, and beyond them nothing is claimed."""

from __future__ import annotations

from .digits import canonical, recognised
from .iters import MEMORY, Iter, Iters, Vector, plus, size_of, value_at

LARGEST = 1 << 16  # indices that are visited


class TooLarge(Exception):
    """Nothing is known of a function, and it has too many indices to look."""


def composed(outer: Iters, inner: Iters, start: int) -> Iters | None:
    """The list of ``outer(start + inner(x)) - outer(start)``, None if it is none.  Values of ``start + inner`` are indices of
    ``outer``."""
    outer = canonical(outer)
    steps = [piece for it in canonical(inner) for piece in _split(it, outer)]
    digits = [_digits(abs(it.stride), outer) for it in steps]
    high = _digits(start, outer)
    low = list(high)
    for it, of_step in zip(steps, digits, strict=True):
        for k, d in enumerate(of_step):
            if it.stride > 0:
                high[k] += d * (it.extent - 1)
            else:
                low[k] -= d * (it.extent - 1)
    if all(a >= 0 and b < it.extent for a, b, it in zip(low, high, outer, strict=True)):
        out = []
        for it, of_step in zip(steps, digits, strict=True):
            vector: Vector = {}
            for d, target in zip(of_step, outer, strict=True):
                vector = plus(vector, {target.axis: target.stride}, d if it.stride > 0 else -d)
            if len(vector) > 1:
                return None  # one step moves on two axes: the list is unique, so there is no other
            axis, value = next(iter(vector.items()), (MEMORY, 0))
            out.append(Iter(it.extent, value, axis))
        return canonical(tuple(out))
    if size_of(inner) > LARGEST:
        raise TooLarge
    return recognised(size_of(inner), lambda x: value_at(outer, start + sum(value_at(inner, x).values())))


def _split(it: Iter, outer: Iters) -> list[Iter]:
    """Pieces of an iter over indices of ``outer``, each of which stays between two of its boundaries if it can."""
    extent, stride, product = it.extent, it.stride, 1
    pieces: list[Iter] = []
    for target in reversed(outer):
        product *= target.extent
        step = abs(stride)
        if extent > 1 and 0 < step < product and product % step == 0 and extent % (product // step) == 0:
            pieces.insert(0, Iter(product // step, stride, it.axis))
            extent, stride = extent // (product // step), stride * (product // step)
    return [Iter(extent, stride, it.axis), *pieces] if extent > 1 else pieces


def _digits(value: int, iters: Iters) -> list[int]:
    out: list[int] = []
    for it in reversed(iters):
        value, digit = divmod(value, it.extent)
        out.insert(0, digit)
    return out

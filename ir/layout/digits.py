"""Lists of sharded iters as functions: one normal form, groups of digits, and which functions are lists of iters at all.

A list with suffix products ``p_i`` (``p_{n-1} = 1``) is ``D(x) = sum_i c_i·floor(x / p_i)`` with ``c_i = s_i - e_{i+1}·s_{i+1}``,
vectors over the axes.  The functions ``floor(x / p)`` for 0 < p < N are independent on 0 <= x < N (the step from m-1 to m is the sum
of the ``c`` of divisors of m, and the divisors of m are m and smaller numbers).  So a function has one such sum or none, it is read
from the steps at the divisors of N, and a list of iters exists exactly if the ``p`` that occur divide each other in turn, and N, and
every stride that follows lies on one axis.  This is theorem A.8 of the paper, with strides of 0 and with the converse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...errors import LayoutError
from .iters import MEMORY, Iter, Iters, Vector, plus, shown, size_of, value_at

Floors = dict[int, Vector]  # p -> c


def canonical(iters: Iters) -> Iters:
    """D0 and D1: no extent 1, no neighbours that are one walk; a stride of 0 has no axis of its own.  Equal functions get equal
    lists."""
    out: list[Iter] = []
    for it in iters:
        if it.extent == 1:
            continue
        if it.stride == 0 and it.axis != MEMORY:
            it = Iter(it.extent, 0)
        if out and out[-1].axis == it.axis and out[-1].stride == it.extent * it.stride:
            it = Iter(out.pop().extent * it.extent, it.stride, it.axis)
        out.append(it)
    return tuple(out)


def grouped(iters: Iters, shape: Sequence[int]) -> tuple[Iters, ...]:
    """The iters of each dimension, with as few as there can be.  The boundaries of the normal form are in every list of the same
    function, so a list with the boundaries of the shape exists exactly if both sets together divide each other in turn."""
    size = 1
    for n in shape:
        size *= n
    if size != size_of(iters):
        raise LayoutError(
            f"the shape {tuple(shape)} has {size} elements, the layout {shown(iters)} {size_of(iters)}",
            cure="a shape of as many elements",
        )
    rest = list(reversed(canonical(iters)))
    blocks = []
    for place, need in enumerate(shape):
        block = []
        while need > 1:
            it = rest.pop()
            if need % it.extent == 0:
                block.append(it)
                need //= it.extent
            elif it.extent % need == 0:
                inner = it.extent // need
                block.append(Iter(need, it.stride * inner, it.axis))
                rest.append(Iter(inner, it.stride, it.axis))
                need = 1
            else:
                raise LayoutError(
                    f"iter {it} of {shown(canonical(iters))} cannot be shared between dimension {place} of {tuple(shape)} and the next: "
                    f"what is left of the dimension is {need}, and neither {need} nor {it.extent} divides the other",
                    cure="a shape whose dimensions end between iters, or at a divisor of one",
                )
        blocks.append(tuple(block))
    return tuple(blocks)


def floors(iters: Iters) -> Floors:
    """The coefficients of a list, those that are 0 left out."""
    out: Floors = {}
    below, product = Iter(1, 0), 1
    for it in reversed(iters):
        coefficient = plus({it.axis: it.stride} if it.stride else {}, {below.axis: below.stride * below.extent}, -1)
        if coefficient:
            out[product] = plus(out.get(product, {}), coefficient)
        product *= it.extent
        below = it
    return {p: c for p, c in out.items() if c}


def of_floors(size: int, coefficients: Mapping[int, Vector]) -> Iters | None:
    """The list with these coefficients on ``size`` indices, or None: a divisor that is out of turn, or a stride on two axes."""
    chain = sorted({p for p, c in coefficients.items() if c and p < size} | {1})
    if size == 1:
        return ()
    out: list[Iter] = []
    stride: Vector = {}
    for p, above in zip(chain, [*chain[1:], size], strict=True):
        if above % p:
            return None
        extent_below = out[0].extent if out else 0
        stride = plus(coefficients.get(p, {}), stride, extent_below)
        if len(stride) > 1:
            return None
        axis, value = next(iter(stride.items()), (MEMORY, 0))
        out.insert(0, Iter(above // p, value, axis))
    return canonical(tuple(out))


def divisors(n: int) -> list[int]:
    """Ascending, by factors: a size has small ones."""
    out, factor = [1], 2
    while n > 1:
        if factor * factor > n:
            factor = n
        if n % factor == 0:
            power, here = 1, list(out)
            while n % factor == 0:
                n, power = n // factor, power * factor
                out += [d * power for d in here]
        factor += 1
    return sorted(out)


def candidate(size: int, value: Callable[[int], Vector]) -> Iters | None:
    """The only list that ``value - value(0)`` can be on ``size`` indices, if any: its coefficients follow from steps at divisors."""
    found: Floors = {}
    for m in divisors(size)[:-1]:
        c = plus(value(m), value(m - 1), -1)
        for d, other in found.items():
            if m % d == 0:
                c = plus(c, other, -1)
        if c:
            found[m] = c
    return of_floors(size, found)


def recognised(size: int, value: Callable[[int], Vector]) -> Iters | None:
    """The list that ``value - value(0)`` is, or None if it is none: every index is compared."""
    found = candidate(size, value)
    if found is None:
        return None
    start = value(0)
    return found if all(plus(value(x), start, -1) == value_at(found, x) for x in range(size)) else None

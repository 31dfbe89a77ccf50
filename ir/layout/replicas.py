"""Replica iters as sets of integers, one axis at a time: one normal form for equal sets, sums, quotients and complements of sets.

The axes are independent, so the set of all copies is a product of one set per axis: ``{ sum_k r_k·s_k : 0 <= r_k < e_k }``.  The
paper absorbs multiples (C2) and calls the result canonical under a gap condition, each stride beyond the extent times the stride
before it.  With the gap the form is determined by the set (theorem A.12).  Without it rules are not confluent: {6:2, 2:3} and {3:2,
4:3} are one set.  Then the set itself is looked at, as the bits of an integer: if it has a form with gaps that is taken, else the
first of the fewest iters in a fixed order of search."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from ...errors import LayoutError
from .iters import Iter, Iters, shown

LARGEST = 1 << 16  # the greatest element of a set that is looked at element by element
STEPS = 20_000  # of the search for iters of a set that has no form with gaps

Steps = tuple[tuple[int, int], ...]  # (stride, extent), strides ascending and positive


def by_axis(iters: Iterable[Iter]) -> tuple[dict[str, list[tuple[int, int]]], dict[str, int]]:
    """C0 and C1: axis -> (positive stride, extent), and what the least copy is at (axis -> offset).  Strides of 0 make no copies."""
    steps: dict[str, list[tuple[int, int]]] = {}
    shift: dict[str, int] = {}
    for it in iters:
        if it.extent > 1 and it.stride:
            steps.setdefault(it.axis, []).append((abs(it.stride), it.extent))
            if it.stride < 0:
                shift[it.axis] = shift.get(it.axis, 0) + (it.extent - 1) * it.stride
    return steps, shift


def absorbed(steps: Iterable[tuple[int, int]]) -> Steps:
    """C2 until it ends: (s, e) and (q·s, f) are (s, e + q·(f - 1)) if q <= e, because blocks of e steps then leave no hole."""
    rest = sorted(steps)
    k = 0
    while k < len(rest):
        s, e = rest[k]
        for j, (t, f) in enumerate(rest):
            if j != k and t % s == 0 and 1 <= t // s <= e:
                del rest[max(j, k)], rest[min(j, k)]
                rest.append((s, e + t // s * (f - 1)))
                rest.sort()
                k = -1
                break
        k += 1
    return tuple(rest)


def has_gaps(steps: Steps) -> bool:
    """The gap condition, under which digits are unique and the form is that of its set."""
    return all(t > e * s for (s, e), (t, _) in pairwise(steps))


def bits_of(steps: Iterable[tuple[int, int]]) -> int:
    """The set, element x as bit x."""
    out = 1
    for s, e in steps:
        while e > 1:  # e copies at distances of s: halve
            half = e // 2
            out |= out << (s * half)
            e -= half
    return out


def normal_form(steps: Sequence[tuple[int, int]]) -> Steps:
    """The form of the set of these steps; equal sets, equal forms.  LayoutError where the set would have to be looked at and is too
    large."""
    found = absorbed(steps)
    return found if has_gaps(found) else _of_entangled(found)


@lru_cache(maxsize=1024)
def _of_entangled(steps: Steps) -> Steps:
    unit = math.gcd(*(s for s, _ in steps))
    small = tuple((s // unit, e) for s, e in steps)
    named = shown(Iter(e, s) for s, e in steps)
    _bounded(small, f"replica iters {named} overlap in a way that no gap separates, and their set")
    form = of_set(bits_of(small), len(steps))
    assert form is not None, "a set that was made of iters"
    return tuple((s * unit, e) for s, e in form)


def _bounded(steps: Iterable[tuple[int, int]], what: str) -> None:
    reach = sum(s * (e - 1) for s, e in steps)
    if reach > LARGEST:
        raise LayoutError(f"{what} reaches to {reach} strides; sets to {LARGEST} are looked at", cure="fewer or farther copies")


def of_set(bits: int, most: int | None = None) -> Steps | None:
    """The normal form of a set that has element 0, by at most so many iters; None if no iters make it."""
    return _peeled(bits) or _searched(bits, most)


def _peeled(bits: int) -> Steps | None:
    """The form with gaps: the least stride, the run along it, then the elements that begin such a run (theorem A.12)."""
    out, rest = [], bits
    while rest > 1:
        s = _lowest(rest & ~1)
        e = 1
        while rest >> (s * e) & 1:
            e += 1
        out.append((s, e))
        rest &= ~(rest << s)
    form = tuple(out)
    return form if has_gaps(form) and bits_of(form) == bits else None


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _searched(bits: int, most: int | None) -> Steps | None:
    """The first list of fewest iters, by ascending strides and descending extents.  The next stride is an element up to the least one
    that is missing: that one is a sum with one of the strides to come."""
    top, steps = bits.bit_length() - 1, 0

    def search(made: int, form: Steps, left: int) -> Steps | None:
        nonlocal steps
        steps += 1
        if steps > STEPS:
            raise LayoutError(
                f"a set of {bits.bit_count()} copies to {top} has no iters with gaps, and the search for others took {STEPS} steps",
                cure="write its replica iters so that each stride is beyond the extent times the stride before it",
            )
        if made == bits:
            return form
        reach = made.bit_length() - 1
        if left == 0 or reach >= top:
            return None
        least, last = _lowest(bits & ~made), form[-1][0] if form else 0
        for s in range(last + 1, least + 1):
            if not bits >> s & 1:
                continue
            fit, grown = [], made
            for e in range(2, (top - reach) // s + 2):
                grown |= made << (s * (e - 1))
                if grown & ~bits:
                    break
                fit.append((e, grown))
            for e, grown in reversed(fit):
                found = search(grown, (*form, (s, e)), left - 1)
                if found is not None:
                    return found
        return None

    for depth in range((most or bits.bit_count()) + 1):
        found = search(1, (), depth)
        if found is not None:
            return found
    return None


def canonical(iters: Iters) -> tuple[Iters, dict[str, int]]:
    """The normal form of all replicas, and what the offset grows by."""
    steps, shift = by_axis(iters)
    return tuple(Iter(e, s, axis) for axis in sorted(steps) for s, e in normal_form(steps[axis])), shift


def count(steps: Sequence[tuple[int, int]]) -> int:
    """How many elements the set has; those of a set with gaps are not looked at."""
    form = normal_form(steps)
    return math.prod(e for _, e in form) if has_gaps(form) else len(values(form))


def values(steps: Sequence[tuple[int, int]]) -> list[int]:
    """The elements, ascending."""
    out = {0}
    for s, e in steps:
        out = {x + s * d for x in out for d in range(e)}
    return sorted(out)


def quotient(whole: Sequence[tuple[int, int]], part: Sequence[tuple[int, int]], width: int) -> Steps | None:
    """Steps C with ``whole = width·C + part`` as sets, where part stays below ``width``; None if there are none.

    Blocks of part at multiples of the width cannot overlap, so C is determined: the numbers of the blocks that occur."""
    whole_form, part_form = normal_form(whole), normal_form(part)
    rest = [x for x in whole_form if x not in part_form]
    if all(s % width == 0 for s, _ in rest):
        guess = tuple((s // width, e) for s, e in rest)
        if normal_form([*part_form, *rest]) == whole_form and len(rest) + len(part_form) == len(whole_form):
            return normal_form(guess)
    _bounded(whole_form, f"the set of replica iters {shown(Iter(e, s) for s, e in whole_form)}")
    numbers = {x // width for x in values(whole_form)}
    inside = values(part_form)
    if {width * n + x for n in numbers for x in inside} != set(values(whole_form)):
        return None
    return of_set(sum(1 << n for n in numbers))


def complement(steps: Sequence[tuple[int, int]], size: int) -> Steps | None:
    """Steps C such that every number below a multiple of the largest block, ``size`` or more, is ``a + c`` in one way.

    By de Bruijn's theorem on factors of an interval, that needs each stride to be a multiple of extent times stride before it."""
    form, block, out = normal_form(steps), 1, []
    for s, e in form:
        if s % block:
            return None
        if s > block:
            out.append((block, s // block))
        block = s * e
    if size > block:
        out.append((block, -(-size // block)))
    return tuple(out)

"""Iters: strided walks along one named axis; and vectors of integers over axes, which is what a place is.

Source of the algebra: the Axe layout paper ("Axe: A Simple Unified Layout Abstraction for Machine Learning Compilers", section 2.3).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import LayoutError
from ...errors import shown as shown_value

MEMORY = "m"  # the axis of an iter that names none: the linear memory of a device
Vector = dict[str, int]  # axis -> integer, without zeros


class Place(dict[str, int]):
    """Axis -> integer.  An axis that is not mentioned has the value 0."""

    def __missing__(self, axis: str) -> int:
        return 0


def whole(value: Any, what: str, least: int | None = None) -> int:
    """An integer from anything that is one (numpy's too; no bool), at least ``least``; or a LayoutError that says ``what`` is none."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or (least is not None and number < least):
        raise LayoutError(f"{what} is {shown_value(value)}", cure=f"a whole number{'' if least is None else f' from {least}'}")
    return number


@dataclass(frozen=True, order=True, slots=True)
class Iter:
    """``extent`` steps of ``stride`` on ``axis``: 0, stride, 2·stride, ...  A stride may be negative, or 0 (a broadcast)."""

    extent: int
    stride: int
    axis: str = MEMORY

    def __post_init__(self) -> None:
        if type(self.extent) is not int or type(self.stride) is not int or self.extent < 1:
            object.__setattr__(self, "extent", whole(self.extent, "the extent of an iter", 1))
            object.__setattr__(self, "stride", whole(self.stride, "the stride of an iter"))
        if not isinstance(self.axis, str) or not re.fullmatch(r"[A-Za-z_]\w*", self.axis):
            raise LayoutError(f"the axis of an iter is {shown_value(self.axis)}", cure="a name such as 'm', 'lane', 'warp', 'reg', 'gpu'")

    def __str__(self) -> str:
        return f"{self.extent}:{on_axis(self.stride, self.axis)}"

    def intersection(self, other: Iter) -> Iter:
        """The iter of the values that both produce: ``6:4`` and ``5:6`` have ``2:12`` in common (section 3.4 of the paper).  Both begin at
        0, so there always is one; LayoutError for iters on different axes."""
        if not isinstance(other, Iter) or other.axis != self.axis:
            raise LayoutError(f"{shown_value(other)} is not on the axis of iter {self}", cure=f"an iter on {self.axis}")
        step = math.lcm(self.stride, other.stride)
        if not step or (self.stride < 0) != (other.stride < 0):
            return Iter(1, 0, self.axis)
        extent = 1 + min(abs(i.stride) * (i.extent - 1) for i in (self, other)) // step
        return Iter(extent, (-step if self.stride < 0 else step) if extent > 1 else 0, self.axis)


Iters = tuple[Iter, ...]


def on_axis(value: int, axis: str) -> str:
    """``4@lane``; the axis of memory is left out, as in the paper."""
    return str(value) if axis == MEMORY else f"{value}@{axis}"


def read(iters: Any, what: str = "the iters of a layout") -> Iters:
    """Iters from iters or from tuples (extent, stride) or (extent, stride, axis)."""
    cure = "a sequence of Iter, or of tuples (extent, stride, axis)"
    found = []
    for part in elements(iters, what, cure):
        words = () if isinstance(part, Iter) else elements(part, what, cure)
        if not isinstance(part, Iter) and len(words) not in (2, 3):
            raise LayoutError(f"{what} are {shown_value(iters)}", cure=cure)
        found.append(part if isinstance(part, Iter) else Iter(*words))
    return tuple(found)


def elements(value: Any, what: str, cure: str) -> tuple[Any, ...]:
    """What a sequence holds, or a LayoutError that says ``what`` is none."""
    try:
        return tuple(value)
    except Exception:  # an object may raise anything when it is iterated
        raise LayoutError(f"{what} are {shown_value(value)}", cure=cure) from None


def read_shape(shape: Any, what: str = "the shape") -> tuple[int, ...]:
    """A shape from a number or a sequence of numbers.  No dimension is empty: a tensor without elements has no places."""
    one = not isinstance(shape, Sequence) and not hasattr(shape, "__iter__")
    parts = (shape,) if one else elements(shape, f"the dimensions of {what}", "a whole number for each dimension")
    return tuple(whole(n, f"dimension {k} of {what}", 1) for k, n in enumerate(parts))


def size_of(iters: Iterable[Iter]) -> int:
    """How many indices a list of iters has."""
    return math.prod(i.extent for i in iters)


def shown(iters: Iterable[Iter]) -> str:
    """Iters in a message: ``(8:4@lane, 2:1)``."""
    return f"({', '.join(map(str, iters))})"


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """What one step of each dimension adds to the row-major index."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def flat(index: Sequence[int], shape: Sequence[int]) -> int:
    """The row-major number of an index."""
    return sum(map(operator.mul, index, strides(shape)))


# ---- vectors -----------------------------------------------------------------------------------------------------------------
def plus(a: Mapping[str, int], b: Mapping[str, int], factor: int = 1) -> Vector:
    """``a + factor·b``."""
    total = dict(a)
    for axis, value in b.items():
        total[axis] = total.get(axis, 0) + factor * value
    return {axis: value for axis, value in total.items() if value}


def value_at(iters: Iters, index: int) -> Vector:
    """D(index): each digit of the index times its stride, the last iter being the fastest."""
    out: Vector = {}
    for it in reversed(iters):
        index, digit = divmod(index, it.extent)
        out[it.axis] = out.get(it.axis, 0) + digit * it.stride
    return {axis: value for axis, value in out.items() if value}


def spans(iters: Iterable[Iter]) -> Vector:
    """Axis -> greatest value less least, plus 1: digits are independent, so each iter adds |stride|·(extent - 1)."""
    out: Vector = {}
    for it in iters:
        out[it.axis] = out.get(it.axis, 1) + abs(it.stride) * (it.extent - 1)
    return out


def least(iters: Iterable[Iter]) -> Vector:
    """Axis -> the least value, where it is not 0."""
    out: Vector = {}
    for it in iters:
        out = plus(out, {it.axis: min(0, it.stride * (it.extent - 1))})
    return out

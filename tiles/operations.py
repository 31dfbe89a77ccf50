"""The scalar operations of tile programs: those of terms, and four that a machine has.

A difference, a multiply-add and a quotient are no operations of terms, where equations would multiply with them; :mod:`.finish` makes
differences and multiply-adds of additions, lowering makes quotients of products with reciprocals (:mod:`.quotients`).  Each has its
``parts``: what it is in operations of terms, nested, with the positions of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from ..ir import ops, ranges
from ..ir.ops import ScalarOp, triton
from ..ir.ranges import Interval

Part = int | tuple[Any, ...]  # the position of an argument, or an operation and its arguments
T = TypeVar("T")


def _fused(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """``x * y + z``, of float32 rounded once; in float64 the arithmetic is the mathematics.

    A product of two float32 is exact in float64.  Its sum with z is rounded to odd (to the neighbour whose last digit is 1, where it is not
    exact), so that the second rounding finds on which side of a tie the sum lies.
    """
    with np.errstate(all="ignore"):
        if not all(np.asarray(v).dtype == np.float32 for v in (x, y, z)):
            return x * y + z
        product, other = np.multiply(x, y, dtype=np.float64), np.asarray(z, np.float64)
        total = np.asarray(product + other)
        back = total - product
        lost = (product - (total - back)) + (other - back)
        even = (total.view(np.int64) & 1) == 0
        inexact = np.isfinite(total) & (lost != 0) & even
        return np.where(inexact, np.nextafter(total, np.copysign(np.inf, lost)), total).astype(np.float32)


def _range(x: Interval, y: Interval, z: Interval) -> Interval:
    return ranges.add(ranges.mul(x, y), z)


_ALL = (
    ScalarOp("sub", 2, np.subtract, triton("{} - {}", c="{} - {}"), lambda x, y: ranges.add(x, ranges.neg(y)), "same"),
    ScalarOp("fma", 3, _fused, triton("tl.fma({}, {}, {})", c="EQ_FMA({}, {}, {})"), _range),
    ScalarOp(
        "fms",
        3,
        lambda x, y, z: _fused(x, y, -z),
        triton("tl.fma({}, {}, -{})", c="EQ_FMA({}, {}, -{})"),
        lambda x, y, z: _range(x, y, ranges.neg(z)),
    ),
    # as many instructions as 1 / x, and finite wherever the result is; rounded as fast as the device can, unlike ``div``
    ScalarOp(
        "quotient",
        2,
        ops.OPS["div"].numpy,
        triton("{} / {}", c="{} / {}"),
        ops.OPS["div"].range,
        domain="nonzero",
        cost=ops.OPS["recip"].cost,
        special=ops.OPS["recip"].special,
    ),
)
FINISHED: Mapping[str, ScalarOp] = {o.name: o for o in _ALL}
PARTS: Mapping[str, Part] = {
    "sub": ("add", 0, ("neg", 1)),
    "fma": ("add", ("mul", 0, 1), 2),
    "fms": ("add", ("mul", 0, 1), ("neg", 2)),
    "quotient": ("mul", 0, ("recip", 1)),
}


def operation(name: str) -> ScalarOp:
    """An operation of a tile program by its name."""
    return FINISHED.get(name) or ops.OPS[name]


def apply(name: str, *args: np.ndarray) -> np.ndarray:
    """An operation on arrays, as :func:`eqfuse.ir.ops.apply` does it; float32 multiply-adds are rounded once."""
    return ops.applied(operation(name), *args)


def by_parts(name: str, args: list[T], apply: Callable[[str, list[T]], T]) -> T:
    """An operation by what it is in operations of terms, each of which ``apply`` computes."""

    def value(part: Part) -> T:
        return args[part] if isinstance(part, int) else apply(part[0], [value(p) for p in part[1:]])

    return value(PARTS[name]) if name in PARTS else apply(name, args)

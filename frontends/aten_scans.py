"""ATen ops that scan: running sums, products and extrema along a dimension.

Where the dimension is read at an axis of its own length, the scan runs along that axis.  Anywhere else it runs along one of its own, and
is read there: at the end, backwards, or where a concatenation put it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import dtypes
from ..ir.index import Axis, index
from ..ir.states import NAMED, part_name
from ..ir.terms import Cast, Const, Index, Map, Scan, Term, View
from .aten import Call, dims_of, free_axes, register, replaced, shape_of
from .aten_reductions import _numeric


def _align(alignment: Any, node: Any, x: Any, dim: int, *_: Any) -> Any:
    """As the argument; where that joins several dimensions to one, the scan runs across."""
    dims = list(dims_of(x))
    if dims and (item := dims[dim % len(dims)]) is not None and alignment.joined(item):
        dims[dim % len(dims)] = alignment.fresh(shape_of(x)[dim % len(dims)])
    return tuple(dims)


def _align_pair(alignment: Any, node: Any, x: Any, dim: int, *_: Any) -> Any:
    return (_align(alignment, node, x, dim),) * 2


def scanned(call: Call, x: Any, dim: int, of: Callable[[Term, Axis | None], Term]) -> Term:
    """A function of an argument, and of the axis along a dimension, which its value has; ``None`` where there is one position."""
    shape, at = shape_of(x), call.at
    d = dim % len(shape) if shape else 0
    if not shape or shape[d] == 1:
        return of(call.read(x, at), None)
    axis = at[d].as_axis()
    if axis is not None and axis.size == shape[d] and axis not in free_axes(at[:d] + at[d + 1 :]):
        return of(call.read(x, at), axis)
    own = call.reader.bound(dims_of(x)[d], free_axes(at))
    assert own is not None
    return View(of(call.read(x, replaced(at, d, index(own))), own), own, at[d])


def prefixes(monoid: str, x: Term, axis: Axis | None) -> Term:
    """The prefixes of a value; of one element that element."""
    return x if axis is None else Scan(monoid, axis, x)


@register("aten.cumsum.default", align=_align)
def _cumsum(call: Call, x: Any, dim: int) -> Term:
    return scanned(call, x, dim, lambda x, k: prefixes("sum", _numeric(call, x), k))


@register("aten.cumprod.default", align=_align)
def _cumprod(call: Call, x: Any, dim: int) -> Term:
    return scanned(call, x, dim, lambda x, k: prefixes("prod", _numeric(call, x), k))


@register("aten.logcumsumexp.default", align=_align)
def _logcumsumexp(call: Call, x: Any, dim: int) -> Term:
    """m + log s, where the state (m, s) of an element is (x, 1)."""

    def of(x: Term, k: Axis | None) -> Term:
        if k is None:
            return x
        largest, sums = (Scan(part_name(NAMED["logsumexp"], part), k, x, Const(1.0)) for part in range(2))
        return largest + Map("log", (sums,))

    return scanned(call, x, dim, of)


def _extremum(monoid: str) -> Any:
    def position(x: Term, axis: Axis | None) -> Term:
        """The last position so far at which an element is the extremum so far, or NaN: after it there is no other extremum."""
        if axis is None:
            return Cast(dtypes.int64, Const(0.0))
        here = Map("or", (Map("eq", (x, Scan(monoid, axis, x))), Map("ne", (x, x))))
        return Scan("max", axis, Map("where", (here, Index(axis), Const(0.0))))

    def read(call: Call, x: Any, dim: int) -> Term:
        return scanned(call, x, dim, position if call.item else lambda x, k: prefixes(monoid, x, k))

    return read


register("aten.cummax.default", align=_align_pair)(_extremum("max"))
register("aten.cummin.default", align=_align_pair)(_extremum("min"))

"""ATen ops that write where data say: what stands at a position afterwards is a choice between what was written there and what was before.

Of one element for each row that is ``where(position == index, value, x)``: the gradients of a cross-entropy and of an extremum are
pointwise.  What several indices add to a position is a sum over them.
"""

from __future__ import annotations

from typing import Any

from ..ir import dtypes
from ..ir.index import Axis
from ..ir.terms import Cast, Const, Map, Reduce, Term, as_term, number_of
from .aten import At, Call, dims_of, free_axes, register, replaced, shape_of
from .spec import ir_dtype


def _align(alignment: Any, node: Any, x: Any, dim: int, index: Any, src: Any = None, *_: Any) -> Any:
    dims = dims_of(x)
    if not dims:
        return dims
    d = dim % len(dims)
    for other in (index, src):
        if hasattr(other, "meta"):
            alignment.broadcast((*dims[:d], None, *dims[d + 1 :]), (*dims_of(other)[:d], None, *dims_of(other)[d + 1 :]))
    return dims


def _places(call: Call, x: Any, dim: int, index: Any) -> list[tuple[list[Axis], At, Term]]:
    """For each range of indices its axes, where an index stands, and whether it is the position that is asked for."""
    shape, there = shape_of(x), shape_of(index)
    if not shape:
        raise call.unsupported("of a tensor without dimensions")
    d = dim % len(shape)
    if shape[:d] + shape[d + 1 :] != there[:d] + there[d + 1 :]:
        raise call.unsupported("with an index that is shorter than what it writes to")
    position = call.reader.position(call.at[d])
    found: list[tuple[list[Axis], At, Term]] = []
    for axes, k in call.reader.places(dims_of(index)[d], free_axes(call.at)):
        at = replaced(call.at, d, k)
        found.append((axes, at, Map("eq", (position, as_term(call.read(index, at))))))
    return found


def _typed(call: Call, value: Any) -> Term:
    """What is written, in the type of the result."""
    term, wanted = as_term(value), ir_dtype(call.node.meta["val"].dtype)
    return term if term.dtype in (None, wanted) and number_of(term) is None else Cast(wanted, term)


def _one(call: Call, x: Any, dim: int, index: Any) -> tuple[At, Term]:
    """The same of one index for each row."""
    if shape_of(index) and shape_of(index)[dim] != 1:
        raise call.unsupported("that writes more than one element per row")
    ((_, at, here),) = _places(call, x, dim, index)
    return at, here


@register("aten.scatter.value", align=_align)
def _scatter_value(call: Call, x: Any, dim: int, index: Any, value: float) -> Term:
    _, here = _one(call, x, dim, index)
    return Map("where", (here, _typed(call, value), as_term(call.read(x, call.at))))


@register("aten.scatter.src", align=_align)
def _scatter(call: Call, x: Any, dim: int, index: Any, src: Any) -> Term:
    at, here = _one(call, x, dim, index)
    return Map("where", (here, _typed(call, call.read(src, at)), as_term(call.read(x, call.at))))


@register("aten.scatter_add.default", align=_align)
def _scatter_add(call: Call, x: Any, dim: int, index: Any, src: Any) -> Term:
    found = as_term(call.read(x, call.at))
    for axes, at, here in _places(call, x, dim, index):
        value = as_term(call.read(src, at))
        if axes and value.dtype is not None and value.dtype.is_float:
            value = Cast(dtypes.float32, value)
        added: Term = Map("where", (here, value, Const(0.0)))
        for a in reversed(axes):
            added = Reduce("sum", a, added)
        found = _typed(call, added) if number_of(found) == 0 else found + _typed(call, added)
    return found

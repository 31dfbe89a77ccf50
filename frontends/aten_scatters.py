"""ATen ops that write at positions that are data, read from the other side: scatter, index_put, and what backward passes make of these.

An element of the result compares its own position with every position that is written: what is added to it is ``sum_j where(index(j) == v,
source(j), 0)``, and of what replaces it the last one counts, the source at ``max_j where(index(j) == v, j, -1)``.  That is deterministic,
whichever positions are equal, and takes one comparison for each element and position: :data:`MOST` of them, and more are refused.  Where
each row is written at one position, as in the gradient of a cross-entropy, it is a selection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from ..ir.index import Axis, IndexExpr, index
from ..ir.terms import Const, Gather, Index, Map, Reduce, Term, as_term
from .aten import ZERO, Call, broadcast_at, dims_of, free_axes, register, replaced, shape_of
from .aten_gathers import from_end, index_layout, wrapped
from .aten_ranges import within

MOST = 2**31  # comparisons of an element with a position: a tenth of a millisecond of a recent device, as long as it takes to read 400 MB
ENDS = {"amax": ("max", "maximum", -math.inf), "amin": ("min", "minimum", math.inf), "prod": ("prod", "mul", 1.0)}


def _affordable(call: Call, x: Any, positions: int) -> None:
    compared = math.prod(shape_of(x)) * positions
    if compared > MOST:
        raise call.unsupported(f"at positions that are data: {compared:,} comparisons of a position with an element, at most {MOST:,}")


def _both(conditions: Sequence[Term]) -> Term:
    found = conditions[0]
    for c in conditions[1:]:
        found = Map("and", (found, c))
    return found


def _added(x: Term, hit: Term, source: Term, over: Sequence[Axis]) -> Term:
    """x and all that is written to it."""
    found: Term = Map("where", (hit, source, Const(0.0)))
    for a in reversed(over):
        found = Reduce("sum", a, found)
    return x + found


def _last(hit: Term, axis: Axis) -> Term:
    """The last position that is written to an element; -1 for none."""
    return Reduce("max", axis, Map("where", (hit, Index(axis), Const(-1.0))))


def _replaced(call: Call, x: Term, hit: Term, source: Term, over: Sequence[Axis]) -> Term:
    """x, or the last of what is written to it."""
    if not over:
        return Map("where", (hit, source, x))
    if len(over) > 1:
        raise call.unsupported("at positions with several dimensions, unless it accumulates")
    last = _last(hit, over[0])
    written = Gather(source, over[0], last) if over[0] in source.axes else source
    return Map("where", (Map("ge", (last, Const(0.0))), written, x))


# scatter -------------------------------------------------------------------------------------------------------------------------------
def _align_scatter(alignment: Any, node: Any, x: Any, dim: int, positions: Any, source: Any, *_: Any) -> Any:
    rank = len(dims_of(x))
    for d in range(rank):
        if d != dim % rank and shape_of(x)[d] == shape_of(positions)[d]:
            alignment.unify(dims_of(x)[d], dims_of(positions)[d])
        if hasattr(source, "meta") and dims_of(source) and shape_of(positions)[d] == shape_of(source)[d]:
            alignment.unify(dims_of(positions)[d], dims_of(source)[d])
    return dims_of(x)


def _scattered(call: Call, x: Any, dim: int, positions: Any, source: Any) -> tuple[Term, Term, Term, list[Axis]]:
    """x, where an element of it is written, with what, and the axes of what is written.  Rows past those of the index have none."""
    shape, at = shape_of(x), call.at
    if not shape:
        raise call.unsupported("of a tensor without dimensions")
    d = dim % len(shape)
    if 0 in shape_of(positions):
        return call.read(x, at), Map("lt", (Const(0.0), Const(0.0))), as_term(0.0), []
    _affordable(call, x, shape_of(positions)[d])
    axes, place = call.reader.bind(dims_of(positions)[d], free_axes(at))
    there, conditions = replaced(at, d, place), list[Term]()
    for k, n in enumerate(shape_of(positions)):
        if k != d and n < shape[k]:
            there = replaced(there, k, ZERO) if n == 1 else there
            conditions += within(call, at[k], n)
    hit = _both([*conditions, Map("eq", (call.read(positions, there), call.reader.position(at[d])))])
    value = call.read(source, there) if hasattr(source, "meta") and shape_of(source) else call.read(source, ())
    return call.read(x, at), hit, value, axes


@register("aten.scatter.src", "aten.scatter.value", align=_align_scatter)
def _scatter(call: Call, x: Any, dim: int, positions: Any, source: Any, *_: Any) -> Term:
    return _replaced(call, *_scattered(call, x, dim, positions, source))


@register("aten.scatter_add.default", align=_align_scatter)
def _scatter_add(call: Call, x: Any, dim: int, positions: Any, source: Any) -> Term:
    return _added(*_scattered(call, x, dim, positions, source))


@register("aten.scatter_reduce.two", align=_align_scatter)
def _scatter_reduce(call: Call, x: Any, dim: int, positions: Any, source: Any, how: str, include_self: bool = True) -> Term:
    if how not in ("sum", *ENDS):
        raise call.unsupported(f"with {how}")
    own, hit, value, over = _scattered(call, x, dim, positions, source)
    if how == "sum":
        found = _added(own if include_self else as_term(0.0), hit, value, over)
    else:
        monoid, op, nothing = ENDS[how]
        body: Term = Map("where", (hit, value, Const(nothing)))
        for a in reversed(over):
            body = Reduce(monoid, a, body)
        found = Map(op, (own, body)) if include_self else body
    if include_self:
        return found
    if len(over) > 1:
        raise call.unsupported("at positions with several dimensions, unless it accumulates")
    any_: Term = Map("ge", (_last(hit, over[0]), Const(0.0))) if over else hit
    return Map("where", (any_, found, own))


# index_put -----------------------------------------------------------------------------------------------------------------------------
def _align_index_put(alignment: Any, node: Any, x: Any, indices: Any, values: Any, *_: Any) -> Any:
    return dims_of(x)


@register("aten.index_put.default", "aten._unsafe_index_put.default", align=_align_index_put)
def _index_put(call: Call, x: Any, indices: Any, values: Any, accumulate: bool = False, *_: Any) -> Term:
    """``x[i, labels] = values``.  Of an index that lists all positions in order, the element itself says which of them writes it."""
    at, shape = call.at, shape_of(x)
    if any(i is not None and not i.meta["val"].dtype.is_signed for i in indices):
        return _masked_put(call, x, indices, values, accumulate)
    indexed, start, rank = index_layout(x, indices)
    over, places = list[Axis](), list[IndexExpr]()
    for k in range(rank):
        axes, place = call.reader.bind(_common(indices, indexed, k - rank), free_axes(at) | frozenset(over))
        over += axes
        places.append(place)

    def known(d: int) -> IndexExpr | None:
        e = call.reader.integer(indices[d], broadcast_at(shape_of(indices[d]), tuple(places)))
        return None if e is None else from_end(e, shape[d])

    for d in indexed:
        own = e.as_axis() if (e := known(d)) is not None else None
        if own is not None and own in over and own.size == shape[d]:
            over.remove(own)
            places = [p.substitute({own: at[d]}) for p in places]
    _affordable(call, x, math.prod(a.size for a in over))
    conditions = []
    for d in indexed:
        e = known(d)
        if e is None:
            position = wrapped(call, call.read(indices[d], broadcast_at(shape_of(indices[d]), tuple(places))), x, d)
        elif e == at[d]:
            continue
        else:
            position = call.reader.position(e)
        conditions.append(Map("eq", (position, call.reader.position(at[d]))))
    rest = [e for d, e in enumerate(at) if d not in indexed]
    value = call.read(values, broadcast_at(shape_of(values), (*rest[:start], *places, *rest[start:])))
    old = call.read(x, at)
    if not conditions:
        return old + value if accumulate else value
    return (_added if accumulate else partial(_replaced, call))(old, _both(conditions), value, over)


def _common(indices: Any, indexed: list[int], k: int) -> int | None:
    """The item of a dimension that indices have in common, from the last one."""
    found = (dims_of(indices[d])[k] for d in indexed if len(dims_of(indices[d])) >= -k)
    return next((item for item in found if item is not None), None)


def _masked_put(call: Call, x: Any, indices: Any, values: Any, accumulate: bool) -> Term:
    """``x[mask] = value`` for a number."""
    mask, *others = indices
    boolean = mask is not None and mask.meta["val"].dtype == torch.bool
    if not boolean or any(i is not None for i in others) or math.prod(shape_of(values)) != 1:
        raise call.unsupported("with a boolean mask, but of a number")
    old, value = call.read(x, call.at), call.read(values, (index(0),) * len(shape_of(values)))
    chosen = call.read(mask, call.at[: len(shape_of(mask))])
    return Map("where", (chosen, old + value if accumulate else value, old))

"""ATen ops that make values from nothing (constants, positions) or pick them by position (gather, index)."""

from __future__ import annotations

from typing import Any

from ..ir.index import IndexExpr, index
from ..ir.terms import Const, Index, Map, Reduce, Term, as_term, whole_number
from .aten import At, Call, broadcast_at, dims_of, fresh_dims, register, replaced, shape_of


# constants and positions -------------------------------------------------------------------------------------------------------------
def _integer_constant(at: At, value: Any) -> IndexExpr | None:
    return index(value) if isinstance(value, int) else None


@register("aten.full.default", integer=lambda at, shape, value, *_: _integer_constant(at, value))
def _full(call: Call, shape: Any, value: float, *_: Any) -> Term:
    return as_term(whole_number(value))


@register("aten.full_like.default", integer=lambda at, x, value, *_: _integer_constant(at, value))
def _full_like(call: Call, x: Any, value: float, *_: Any) -> Term:
    return as_term(whole_number(value))


@register("aten.scalar_tensor.default", integer=lambda at, value, *_: _integer_constant(at, value))
def _scalar(call: Call, value: float, *_: Any) -> Term:
    return as_term(whole_number(value))


@register("aten.zeros.default", "aten.zeros_like.default", integer=lambda at, *_: index(0))
def _zeros(call: Call, *_: Any) -> Term:
    return Const(0.0)


@register("aten.ones.default", "aten.ones_like.default", integer=lambda at, *_: index(1))
def _ones(call: Call, *_: Any) -> Term:
    return Const(1.0)


def _integer_arange(at: At, start: Any, end: Any = None, step: Any = 1, *_: Any) -> IndexExpr | None:
    return at[0] * step + start if isinstance(start, int) and isinstance(step, int) else None


@register("aten.arange.start_step", integer=_integer_arange)
def _arange(call: Call, start: float, end: float, step: float, *_: Any) -> Term:
    position = call.reader.position(call.at[0])
    if step != 1:
        position = position * step
    return position + start if start else position


# picking by position -------------------------------------------------------------------------------------------------------------------
def pick(call: Call, x: Any, at: At, choices: dict[int, Term]) -> Term:
    """``x`` at ``at`` but for some dimensions, which are read where a term says: ``sum_v where(v == label, x[v], 0)``.

    One element of each sum is selected, so the sum is exact; it reads all of ``x``, which costs nothing where the sum meets
    another reduction over the same axis, as in a cross-entropy.
    """
    taken = frozenset().union(*(e.axes() for d, e in enumerate(at) if d not in choices))
    bound = []
    condition: Term | None = None
    for d, label in choices.items():
        taken |= label.axes
        v = call.reader.bound(dims_of(x)[d], taken)
        at = replaced(at, d, index(0) if v is None else index(v))
        if v is None:
            continue
        taken |= {v}
        bound.append(v)
        here = Map("eq", (Index(v), label))
        condition = here if condition is None else Map("and", (condition, here))
    value = call.read(x, at)
    if condition is not None:
        value = Map("where", (condition, value, Const(0.0)))
    for v in reversed(bound):
        value = Reduce("sum", v, value)
    return value


def _align_gather(alignment: Any, node: Any, x: Any, dim: int, labels: Any, *_: Any) -> Any:
    rank = len(dims_of(x))
    for d in range(rank):
        if rank and d != dim % rank:
            alignment.unify(dims_of(x)[d], dims_of(labels)[d])
    return dims_of(labels)


@register("aten.gather.default", align=_align_gather)
def _gather(call: Call, x: Any, dim: int, labels: Any, *_: Any) -> Term:
    if not shape_of(x):
        return call.read(x, ())
    d = dim % len(shape_of(x))
    known = call.reader.integer(labels, call.at)
    if known is not None:
        return call.read(x, replaced(call.at, d, known))
    if call.at and call.at[d].terms:
        raise call.unsupported("that picks more than one element per row")
    return pick(call, x, call.at, {d: call.read(labels, call.at)})


@register("aten.index_select.default")
def _index_select(call: Call, x: Any, dim: int, positions: Any) -> Term:
    if not shape_of(x):
        return call.read(x, ())
    d = dim % len(shape_of(x))
    where = broadcast_at(shape_of(positions), (call.at[d],))
    known = call.reader.integer(positions, where)
    if known is not None:
        return call.read(x, replaced(call.at, d, known))
    if len(shape_of(x)) > 1:
        raise call.unsupported("that looks rows up by data (an embedding)")
    return pick(call, x, call.at, {d: call.read(positions, where)})


def _index_layout(x: Any, indices: Any) -> tuple[list[int], int, int]:
    """Indexed dimensions, where their common dimensions stand in the result, and how many those are."""
    indexed = [d for d, i in enumerate(indices) if i is not None]
    rank = max(len(shape_of(indices[d])) for d in indexed)
    together = indexed == list(range(indexed[0], indexed[-1] + 1))
    return indexed, indexed[0] if together else 0, rank


def _align_index(alignment: Any, node: Any, x: Any, indices: Any) -> Any:
    indexed, place, _ = _index_layout(x, indices)
    rest = [a for d, a in enumerate(dims_of(x)) if d not in indexed]
    common = alignment.broadcast(*(dims_of(indices[d]) for d in indexed))
    out = (*rest[:place], *common, *rest[place:])
    return tuple(
        item if item is not None or n == 1 else alignment.fresh(n) for item, n in zip(out, shape_of(node), strict=True)
    ) if len(out) == len(shape_of(node)) else fresh_dims(alignment, node)  # fmt: skip


@register("aten.index.Tensor", align=_align_index)
def _index(call: Call, x: Any, indices: Any) -> Term:
    """``x[i, labels]``: an index known as an expression is followed, one that is data is picked."""
    shape = shape_of(x)
    indexed, place, rank = _index_layout(x, indices)
    common, rest = call.at[place : place + rank], iter((*call.at[:place], *call.at[place + rank :]))
    at = [index(0) if d in indexed else next(rest) for d in range(len(shape))]
    choices: dict[int, Term] = {}
    for d in indexed:
        here = broadcast_at(shape_of(indices[d]), common)
        known = call.reader.integer(indices[d], here)
        if known is not None:
            low, high = known.bounds()
            if high < 0:
                known = known + shape[d]
            elif low < 0:
                known = (known + shape[d]) % shape[d]
            at[d] = known
            continue
        label = call.read(indices[d], here)
        if label.dtype is not None and label.dtype.kind == "bool":
            raise call.unsupported("with a boolean mask (its result has a data-dependent shape)")
        choices[d] = Map("where", (Map("lt", (label, Const(0.0))), label + float(shape[d]), label))
    if choices and len(indexed) < len(shape):
        raise call.unsupported("that looks rows up by data (an embedding)")
    return pick(call, x, tuple(at), choices)

"""ATen ops that read a tensor where others say: gather, index, embedding, and what backward passes write by position.

A position that is known as an index expression is followed; one that is data is a :class:`~eqfuse.ir.terms.Gather`.  What is *written* at
positions that are data is read from the other side: an element of the result is the sum of what is written to it, or one that selects it.
"""

from __future__ import annotations

from typing import Any

from ..ir import dtypes
from ..ir.index import IndexExpr, index
from ..ir.terms import Cast, Const, Extent, Gather, Map, Term
from .aten import At, Call, broadcast_at, dims_of, fresh_dims, register, replaced, shape_of
from .spec import ir_dtype


def pick(call: Call, x: Any, at: At, choices: dict[int, Term]) -> Term:
    """``x`` at ``at`` but for some dimensions, which are read where a term says, and 0 where that is no position."""
    taken = frozenset().union(*(e.axes() for d, e in enumerate(at) if d not in choices), *(t.axes for t in choices.values()))
    bound = []
    for d, place in choices.items():
        v = call.reader.bound(dims_of(x)[d], taken)
        at = replaced(at, d, index(0) if v is None else index(v))
        if v is not None:
            taken |= {v}
            bound.append((v, place))
    value = call.read(x, at)
    for v, place in reversed(bound):
        value = Gather(value, v, _whole(place))
    return value


def _whole(place: Term) -> Term:
    return place if place.dtype is not None and place.dtype.kind == "int" else Cast(dtypes.int64, place)


def wrapped(call: Call, place: Term, x: Any, d: int) -> Term:
    """A position along a dimension, where negative ones count from its end."""
    if call.reader.interval(place).lo >= 0:
        return place
    v = call.reader.bound(dims_of(x)[d], frozenset())
    length: Term = Const(1.0) if v is None else Extent(v)
    return Map("where", (Map("lt", (place, Const(0.0))), place + length, place))


def _align_gather(alignment: Any, node: Any, x: Any, dim: int, labels: Any, *_: Any) -> Any:
    rank = len(dims_of(x))
    for d in range(rank):
        if rank == len(dims_of(labels)) and d != dim % rank:  # labels without elements may have any rank
            alignment.unify(dims_of(x)[d], dims_of(labels)[d])
    return dims_of(labels)


@register("aten.gather.default", align=_align_gather)
def _gather(call: Call, x: Any, dim: int, labels: Any, *_: Any) -> Term:
    if 0 in shape_of(labels):
        return Cast(ir_dtype(call.node.meta["val"].dtype), Const(0.0))  # an element that is not there
    d = dim % max(len(shape_of(x)), 1)
    known = call.reader.integer(labels, call.at)
    if known is not None and _inside(known, shape_of(x)[d] if shape_of(x) else 1):
        return call.read(x, replaced(call.at, d, known) if shape_of(x) else ())
    return pick(call, x, call.at, {d: call.read(labels, call.at)}) if shape_of(x) else call.read(x, ())


def _inside(e: IndexExpr, size: int) -> bool:
    low, high = e.bounds()
    return low >= 0 and high < size


def _align_select(alignment: Any, node: Any, x: Any, dim: int, positions: Any) -> Any:
    dims = dims_of(x)
    return (*dims[: dim % len(dims)], *(dims_of(positions) or (None,)), *dims[dim % len(dims) + 1 :]) if dims else ()


@register("aten.index_select.default", align=_align_select)
def _index_select(call: Call, x: Any, dim: int, positions: Any) -> Term:
    if not shape_of(x):
        return call.read(x, ())
    d = dim % len(shape_of(x))
    where = broadcast_at(shape_of(positions), (call.at[d],)) if shape_of(positions) else ()
    known = call.reader.integer(positions, where)
    if known is not None and _inside(known, shape_of(x)[d]):
        return call.read(x, replaced(call.at, d, known))
    return pick(call, x, call.at, {d: call.read(positions, where)})


def _align_embedding(alignment: Any, node: Any, table: Any, positions: Any, *_: Any) -> Any:
    return (*dims_of(positions), dims_of(table)[1])


@register("aten.embedding.default", align=_align_embedding)
def _embedding(call: Call, table: Any, positions: Any, *_: Any) -> Term:
    """Rows of a table; which of them is padding bears on gradients only."""
    where = call.at[:-1]
    known = call.reader.integer(positions, where)
    if known is not None and _inside(known, shape_of(table)[0]):
        return call.read(table, (known, call.at[-1]))
    return pick(call, table, (index(0), call.at[-1]), {0: call.read(positions, where)})


def index_layout(x: Any, indices: Any) -> tuple[list[int], int, int]:
    """Indexed dimensions, where their common dimensions stand in the result, and how many those are."""
    indexed = [d for d, i in enumerate(indices) if i is not None]
    rank = max(len(shape_of(indices[d])) for d in indexed)
    together = indexed == list(range(indexed[0], indexed[-1] + 1))
    return indexed, indexed[0] if together else 0, rank


def _align_index(alignment: Any, node: Any, x: Any, indices: Any) -> Any:
    indexed, place, _ = index_layout(x, indices)
    rest = [a for d, a in enumerate(dims_of(x)) if d not in indexed]
    common = alignment.broadcast(*(dims_of(indices[d]) for d in indexed))
    out = (*rest[:place], *common, *rest[place:])
    if len(out) != len(shape_of(node)):
        return fresh_dims(alignment, node)
    out = tuple(item if item is not None or n == 1 else alignment.fresh(n) for item, n in zip(out, shape_of(node), strict=True))
    if any(_is_data(indices[d]) for d in indexed):
        alignment.pages(out[place : place + len(common)], tuple(a for d, a in enumerate(dims_of(x)[:-1]) if d not in indexed))
    return out


def _is_data(node: Any) -> bool:
    """Whether a value depends on an argument, not on positions alone."""
    todo, seen = [node], set()
    while todo:
        n = todo.pop()
        if n.op in ("placeholder", "get_attr"):
            return True
        if n not in seen:
            seen.add(n)
            todo += n.all_input_nodes
    return False


@register("aten.index.Tensor", "aten._unsafe_index.Tensor", align=_align_index)
def _index(call: Call, x: Any, indices: Any) -> Term:
    """``x[i, labels]``: an index known as an expression is followed, one that is data is picked."""
    shape = shape_of(x)
    indexed, place, rank = index_layout(x, indices)
    common, rest = call.at[place : place + rank], iter((*call.at[:place], *call.at[place + rank :]))
    at = [index(0) if d in indexed else next(rest) for d in range(len(shape))]
    choices: dict[int, Term] = {}
    for d in indexed:
        here = broadcast_at(shape_of(indices[d]), common)
        known = call.reader.integer(indices[d], here)
        if known is not None:
            at[d] = from_end(known, shape[d])
            continue
        label = call.read(indices[d], here)
        if label.dtype is not None and label.dtype.kind == "bool":
            raise call.unsupported("with a boolean mask (its result has a data-dependent shape)")
        choices[d] = wrapped(call, label, x, d)
    return pick(call, x, tuple(at), choices)


def from_end(known: IndexExpr, size: int) -> IndexExpr:
    """A position that is known, where negative ones count from the end."""
    low, high = known.bounds()
    return known + size if high < 0 else (known + size) % size if low < 0 else known

"""ATen ops that put a value into ranges of positions of another one: ``pad``, ``slice_scatter`` and their kind.

Like :mod:`.aten_joins`, the result at a position is a choice between what stands there: ``where(2 <= i & i < 5, x[i - 2], 0)``.
What is not chosen is read at some position that it has, and conditions that an index fulfils anyway are left out, so that a reduction,
which the reader writes range by range, sees each part alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import dtypes
from ..ir.index import IndexExpr
from ..ir.terms import Cast, Const, Map, Term, as_term, number_of, whole_number
from .aten import OPS, ZERO, AtenOp, Call, dims_of, register, replaced, shape_of
from .spec import ir_dtype


def all_of(conditions: list[Term]) -> Term | None:
    """Their conjunction; ``None`` if there are none."""
    found: Term | None = None
    for c in conditions:
        found = c if found is None else Map("and", (found, c))
    return found


def inside(call: Call, e: IndexExpr, low: int, high: int) -> list[Term] | None:
    """What must hold for a position to be one of ``low`` to ``high - 1``; ``None`` where it never is."""
    first, last = e.bounds()
    if last < low or first >= high:
        return None
    value = call.reader.position(e - e.const)
    found: list[Term] = []
    if high == low + 1:
        return [Map("eq", (value, as_term(whole_number(low - e.const))))] if first < last else found
    if first < low:
        found.append(Map("ge", (value, as_term(whole_number(low - e.const)))))
    if last >= high:
        found.append(Map("lt", (value, as_term(whole_number(high - e.const)))))
    return found


def within(call: Call, e: IndexExpr, n: int) -> list[Term]:
    """What must hold for a position to be one of ``n``, as conditions of which one never holds if it never is."""
    found = inside(call, e, 0, n)
    return [Map("lt", (Const(0.0), Const(0.0)))] if found is None else found


def _read(call: Call, x: Any, at: Any) -> Term:
    """A part of the result, in its type."""
    wanted = ir_dtype(call.node.meta["val"].dtype)
    found: Term = as_term(call.read(x, at))
    return found if found.dtype in (None, wanted) and number_of(found) is None else Cast(wanted, found)


def chosen(conditions: list[Term] | None, here: Any, other: Any) -> Term:
    """``here()`` where the conditions hold, elsewhere ``other()``; what is never chosen is not read."""
    if conditions is None:
        return other()
    condition = all_of(conditions)
    return here() if condition is None else Map("where", (condition, here(), other()))


# padding ----------------------------------------------------------------------------------------------------------------------------
def _pads(rank: int, pad: Any) -> list[tuple[int, int]]:
    """How much is added before and after each dimension; torch lists them from the last one."""
    return [(0, 0)] * (rank - len(pad) // 2) + [(pad[k], pad[k + 1]) for k in range(len(pad) - 2, -1, -2)]


def _align_pad(alignment: Any, node: Any, x: Any, pad: Any, *_: Any) -> Any:
    found = []
    for item, n, (before, after) in zip(dims_of(x), shape_of(x), _pads(len(shape_of(x)), pad), strict=True):
        if not before and not after:
            found.append(item)
        elif before < 0 or after < 0 or not n:
            found.append(alignment.fresh(n + before + after))
        else:
            around = [[alignment.fresh(k)] if k else [] for k in (before, after)]
            found.append(alignment.join([*around[0], item, *around[1]]))
    return tuple(found)


def _pad(call: Call, x: Any, pad: Any, value: Any = 0) -> Term:
    shape = shape_of(x)
    conditions: list[Term] | None = []
    at = call.at
    for d, (n, (before, _)) in enumerate(zip(shape, _pads(len(shape), pad), strict=True)):
        e = at[d] - before
        here = inside(call, e, 0, n)
        conditions = None if here is None or conditions is None else conditions + here
        at = replaced(at, d, ZERO if n == 1 else e)
    return chosen(conditions, lambda: _read(call, x, at), lambda: _number(call, value))


def _number(call: Call, value: Any) -> Term:
    """A number in the type of the result; one of a floating type that has it needs no cast, and is folded into what is around it."""
    wanted, term = ir_dtype(call.node.meta["val"].dtype), as_term(whole_number(value))
    exact = wanted.is_float and dtypes.cast(np.asarray(float(value)), wanted) == value
    return term if exact else Cast(wanted, term)


OPS["aten.constant_pad_nd.default"] = AtenOp(_align_pad, _pad)


# writing into a copy ----------------------------------------------------------------------------------------------------------------
def _slice(x: Any, dim: int, start: Any, end: Any, step: int) -> tuple[int, range]:
    shape = shape_of(x)
    d = dim % len(shape)
    return d, range(shape[d])[slice(start, end, step)]


def _align_slice_scatter(
    alignment: Any, node: Any, x: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    d, there = _slice(x, dim, start, end, step)
    n = shape_of(x)[d]
    dims = list(alignment.broadcast(*((*dims_of(v)[:d], None, *dims_of(v)[d + 1 :]) for v in (x, src))))
    if there == range(n):
        dims[d] = dims_of(src)[d]
    elif step == 1 and there:
        before = [alignment.range(dims_of(x)[d], 0, there.start)] if there.start else []
        after = [alignment.range(dims_of(x)[d], there.stop, n - there.stop)] if there.stop < n else []
        dims[d] = alignment.join([*before, dims_of(src)[d], *after])
    else:
        dims[d] = dims_of(x)[d]
    return tuple(dims)


def _slice_scatter(call: Call, x: Any, src: Any, dim: int, start: Any, end: Any, step: int) -> Term:
    d, there = _slice(x, dim, start, end, step)
    if not there:
        return call.read(x, call.at)
    e = call.at[d] - there.start
    conditions = inside(call, e, 0, there[-1] + 1 - there.start)
    rest = e % step
    if conditions is not None and rest.terms:
        conditions.append(Map("eq", (call.reader.position(rest), Const(0.0))))
    elif rest.const:
        conditions = None
    position = ZERO if len(there) == 1 else e // step
    return chosen(conditions, lambda: _read(call, src, replaced(call.at, d, position)), lambda: _read(call, x, call.at))


OPS["aten.slice_scatter.default"] = AtenOp(_align_slice_scatter, _slice_scatter)


def _same(alignment: Any, node: Any, x: Any, *_: Any) -> Any:
    return dims_of(x)


def _align_select_scatter(alignment: Any, node: Any, x: Any, src: Any, dim: int, *_: Any) -> Any:
    d = dim % len(dims_of(x))
    around = (*dims_of(src)[:d], None, *dims_of(src)[d:])
    alignment.broadcast(dims_of(x), around)
    return dims_of(x)


def _select_scatter(call: Call, x: Any, src: Any, dim: int, position: int) -> Term:
    shape = shape_of(x)
    d = dim % len(shape)
    conditions = inside(call, call.at[d] - position % shape[d], 0, 1)
    return chosen(conditions, lambda: _read(call, src, (*call.at[:d], *call.at[d + 1 :])), lambda: _read(call, x, call.at))


OPS["aten.select_scatter.default"] = AtenOp(_align_select_scatter, _select_scatter)


def _diagonal_scatter(call: Call, x: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Term:
    rank = len(shape_of(x))
    one, two = dim1 % rank, dim2 % rank
    conditions = inside(call, call.at[two] - call.at[one] - offset, 0, 1)
    along = call.at[one] - max(-offset, 0)
    (length,) = shape_of(src)[-1:]
    if not length:
        return call.read(x, call.at)
    at = (*(e for d, e in enumerate(call.at) if d not in (one, two)), ZERO if length == 1 else along)
    return chosen(conditions, lambda: _read(call, src, at), lambda: _read(call, x, call.at))


OPS["aten.diagonal_scatter.default"] = AtenOp(_same, _diagonal_scatter)


# memory that nothing has been written to: whatever stands there, zeros are as good -----------------------------------------------------
@register(
    "aten.empty.memory_format", "aten.empty_permuted.default", "aten.empty_strided.default", "aten.new_empty_strided.default",
    "aten.empty_like.default",
)  # fmt: skip
def _empty(call: Call, *_: Any) -> Term:
    return Const(0.0)

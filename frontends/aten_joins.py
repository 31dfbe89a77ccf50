"""ATen ops that put values side by side: ``cat``, and so ``stack``.

The result at a position is the part that has it: ``where(i < 3, a[i], b[i - 3])``.  A part that is not chosen is read at some position
that it has (:class:`~.reader.Reader`), and where an index stays within one part nothing is chosen at all.  So a reduction along the
dimension, which the reader writes range by range (:meth:`~.aten.Reading.places`), sees each part alone.

The halves of one value, put together the other way round (rotary embedding), are no ranges that are better taken apart: together they are
that value read at other positions, ``x[(i + 3) % 6]``, and chosen is the sign.
"""

from __future__ import annotations

import operator
from itertools import accumulate
from typing import Any

from ..ir.index import IndexExpr
from ..ir.recursion import arguments_first
from ..ir.terms import Cast, Const, Map, Term, as_term, number_of, whole_number
from .aten import OPS, TURNED, ZERO, At, AtenOp, Call, broadcast_at, dims_of, fresh_dims, replaced, shape_of
from .spec import ir_dtype


def _present(parts: Any, dim: int) -> tuple[list[Any], int]:
    """The parts that have elements along the dimension, and the dimension; torch lets an empty vector stand among tensors of any rank."""
    d = dim % max((len(shape_of(p)) for p in parts), default=1)
    return [p for p in parts if shape_of(p) != (0,) and shape_of(p)[d]], d


def _sources(node: Any) -> list[Any]:
    """A value, and the values that it is but for its order and a function of each element."""
    found = [node]
    while node.op == "call_function" and len(node.all_input_nodes) == 1:
        (below,) = node.all_input_nodes
        op = OPS.get(str((below if node.target is operator.getitem else node).target))
        if op is None or (op.move is None and (op.whole or node.target is operator.getitem or shape_of(node) != shape_of(below))):
            break
        found.append(node := below)
    return [n for n in found if not isinstance(n.meta.get("val"), list | tuple)]  # what has several results is no value


def _one_source(parts: Any) -> Any:
    """The last value that all parts are made of so; ``None`` if there is none."""
    first, *others = map(_sources, parts)
    return next((x for x in first if others and all(x in o for o in others)), None)


def _align_cat(alignment: Any, node: Any, parts: Any, dim: int = 0) -> Any:
    parts, d = _present(parts, dim)
    if not parts:
        return fresh_dims(alignment, node)
    dims = list(alignment.broadcast(*((*dims_of(p)[:d], None, *dims_of(p)[d + 1 :]) for p in parts)))
    own = [dims_of(p)[d] for p in parts]
    source = _one_source(parts)
    if source is not None:
        source.meta[TURNED] = True
        dims[d] = alignment.turn(len(parts)) if own == [None] * len(parts) else alignment.fresh(shape_of(node)[d])
    else:
        dims[d] = alignment.join(own)
    return tuple(dims)


def _cat(call: Call, parts: Any, dim: int = 0) -> Term:
    wanted = ir_dtype(call.node.meta["val"].dtype)
    parts, d = _present(parts, dim)
    if not parts:
        return Cast(wanted, Const(0.0))  # an element that is not there
    e = call.at[d]
    low, high = e.bounds()
    sizes = [shape_of(p)[d] for p in parts]
    ranges = list(zip(parts, sizes, accumulate(sizes, initial=0), strict=False))
    seen = [(p, n, start) for p, n, start in ranges if start <= high and low < start + n] or ranges[:1]

    def part(p: Any, n: int, start: int) -> Term:
        found: Term = call.read(p, replaced(call.at, d, ZERO if n == 1 else e - start))
        return found if found.dtype in (None, wanted) and number_of(found) is None else Cast(wanted, found)

    values = [part(*s) for s in seen]
    source = _one_source(parts) if len(seen) == len(parts) > 1 and len(set(sizes)) == 1 else None
    if source is not None:
        at = [_at_source(call, p, replaced(call.at, d, ZERO if n == 1 else e - start), source) for p, n, start in seen]
        values = _read_as_one(call, source, at, e // sizes[0], values)
    found = values[-1]
    for (_, n, start), value in zip(reversed(seen[:-1]), reversed(values[:-1]), strict=True):
        here = Map("lt", (call.reader.position(e - e.const), as_term(whole_number(start + n - e.const))))
        found = Map("where", (here, value, found))
    return found


def _at_source(call: Call, node: Any, at: At, source: Any) -> At:
    """Where a source is read for a part of it."""
    item = None
    while node is not source:
        if node.target is operator.getitem:
            node, item = node.args
            continue
        op, (below,) = OPS[str(node.target)], node.all_input_nodes
        at = op.move(Call(call.reader, node, at, item), *call.reader.arguments(node)) if op.move else broadcast_at(shape_of(below), at)
        node, item = below, None
    return at


def _read_as_one(call: Call, source: Any, at: list[At], which: IndexExpr, values: list[Term]) -> list[Term]:
    """Values of parts that read their source at steps of one length: all read it once, at a step for each part that is chosen.

    ``where(i % 2 < 1, -x[i // 2 * 2 + 1], x[i // 2 * 2])`` reads ``x[i // 2 * 2 + 1 - i % 2]``.
    """
    steps = [b - a for a, b in zip(at[0], at[1], strict=True)]
    regular = all(b == a + s * k for k, found in enumerate(at) for a, b, s in zip(at[0], found, steps, strict=True))
    if not regular or any(s.terms for s in steps):
        return values
    reads = [call.read(source, found) for found in at]
    if len(set(reads)) == 1:  # as it is
        return values
    one = call.read(source, tuple(a + which * s.const for a, s in zip(at[0], steps, strict=True)))
    return [_with(value, read, one) for value, read in zip(values, reads, strict=True)]


def _with(t: Term, old: Term, new: Term) -> Term:
    """A term with another one in the place of a term in it."""
    made = {old: new}
    for x in arguments_first([t], lambda x: () if x is old else x.args):
        if x not in made:
            made[x] = x.over([made[a] for a in x.args])
    return made[t]


OPS["aten.cat.default"] = AtenOp(_align_cat, _cat)

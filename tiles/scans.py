"""Scans in a kernel: whole on chip, or in a loop, carried from step to step.

In a step the value is ``combine(carry, prefixes of the tile)``, and the next carry ``combine(carry, reduction of the tile)``.  What is past
the end of the axis is in no prefix before it, nor in a carry that is read, so no lane is masked.

Sums whose digits count (:func:`.compensation.worthwhile`) are made in float64 within a tile, as torch makes them: programs take differences
of them, as gates do, where a unit of the whole is large.  From step to step they carry what their additions lose.
"""

from __future__ import annotations

from ..errors import PlanError
from ..ir.dtypes import DType
from ..ir.index import index
from ..ir.monoids import MONOIDS
from ..ir.recursion import Steps
from . import compensation
from .blocks import Block, OpenAccumulator
from .builder import Builder, Mode
from .program import Operand, Reduce, Scan, Value


def emit(builder: Builder, node: int, kind: DType, where: Block, mode: Mode | None, *, digits: bool) -> Steps[Operand]:
    """The prefixes along an axis, in a type.  ``digits``: those of sums count.

    Raises PlanError where a program does not have what is before it: along a grid axis, or inside of a loop within the one that carries.
    """
    n = builder.nodes[node]
    monoid, axis = n.attrs
    m, body, streamed = MONOIDS[monoid], where.enclosing(axis), axis in builder.facts.streamed
    varies = axis in builder.nodes[n.args[0]].axes
    if m.copies and not varies:
        return (yield _repeated(builder, node, kind, where, mode))
    if builder.kernel.roles[axis].kind == "grid":
        raise PlanError(f"a scan along axis {axis.name} needs what is before it, so it cannot be a grid axis")
    if streamed and (mode is not None or body is not where):
        raise PlanError(f"a scan along axis {axis.name} is carried from step to step of its loop, not of one inside of it")
    v = yield builder.emit(n.args[0], where, mode)
    v = builder.as_float(v, where) if kind.is_float else builder.as_integer(builder.as_value(v, where), kind, where)
    if not varies:
        v = builder.laid_out(v, axis, m.identity, where)
    assert isinstance(v, Value)
    dim = builder.dim_of.get(axis)
    if dim is not None and len(dim.axes) > 1:
        raise PlanError(f"axis {axis.name} is packed, so it cannot be scanned")
    called, of = m.name.removeprefix("i"), None if kind.is_float else kind
    digits = digits and kind.is_float and m.combine == "add"
    upto = builder.value(f"{called}_upto_{axis.name}", v.dims, kind)
    here = v if dim is None else builder.put(where, Scan(upto, m.name, dim, v, wide=digits))
    if not streamed:
        return here
    assert body is not None
    assert body.loop is not None
    old = builder.value(f"{called}_before_{axis.name}", tuple(d for d in v.dims if d != dim), kind)
    state = body.states["scan", node] = OpenAccumulator(old, m.name, m.identity, node)
    body.loop.accumulators.append(state)
    builder.define(old, body)
    tile = v if dim is None else builder.put(where, Reduce(builder.value(f"tile_{called}", old.dims, kind), m.name, dim, v))
    if digits:
        rest, state.new = compensation.carried(builder, node, old, tile, where)
        return state.new if dim is None else builder.let(where, "add", (old, builder.let(where, "add", (here, rest))))
    new = builder.let(where, m.combine, (old, tile), hint=old.name + "_new", dtype=of)
    assert isinstance(new, Value)
    state.new = new
    return new if dim is None else builder.let(where, m.combine, (old, here), dtype=of)


def _repeated(builder: Builder, node: int, kind: DType, where: Block, mode: Mode | None) -> Steps[Operand]:
    """The prefixes of a value that does not vary along the axis: multiples of it for a sum, itself for a selection."""
    monoid, axis = builder.nodes[node].attrs
    v: Operand = yield builder.emit(builder.nodes[node].args[0], where, mode)
    if MONOIDS[monoid].copies == "one":
        return v
    position = builder.index(index(axis) + 1, where)
    if kind.is_float:
        return builder.let(where, "mul", (builder.as_float(v, where), builder.as_float(position, where)))
    return builder.let(where, "mul", (builder.as_integer(v, kind, where), builder.as_integer(position, kind, where)), dtype=kind)

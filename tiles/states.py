"""Reductions and scans of states of several parts in a kernel (:mod:`~eqfuse.ir.states`).

All parts are made together, by statements that stand beside each other and are printed as one; a node takes its own.  In a loop there is
an accumulator for each.  Nothing is combined with a state before the first element: what changes nothing behind a state may not do so
before it, so the first step of a loop takes its tile as it is.
"""

from __future__ import annotations

from ..errors import PlanError
from ..ir import dtypes
from ..ir.dtypes import DType
from ..ir.index import Axis, index
from ..ir.monoids import MONOIDS
from ..ir.recursion import Steps
from ..ir.states import State, part_name
from . import guards
from .blocks import Block, OpenAccumulator
from .builder import POSITIONS, Builder, Mode
from .masks import padded
from .program import Dim, Literal, Operand, Reduce, Scan, Value

Parts = list[Operand]


def emit(builder: Builder, node: int, where: Block, mode: Mode | None) -> Steps[Operand]:
    """A part of what a state is reduced to, or of its prefixes.

    Raises PlanError where a program does not have all elements, or not in order: along a grid axis, or of a running value.
    """
    n = builder.nodes[node]
    monoid, axis = n.attrs
    m = MONOIDS[monoid]
    assert m.several is not None
    if builder.kernel.roles[axis].kind == "grid":
        raise PlanError(f"axis {axis.name} is reduced or scanned by a state of several parts, so it cannot be a grid axis")
    key = (n.op, m.several.name, axis, n.args, mode and mode.key)
    if key not in where.several:
        where.several[key] = yield _made(builder, node, where, mode)
    return where.several[key][m.part]


def merged(builder: Builder, node: int, where: Block, mode: Mode | None) -> Steps[Operand]:
    """A part of what two states are together."""
    n = builder.nodes[node]
    m = MONOIDS[n.attrs[0]]
    assert m.several is not None
    both: Parts = []
    for k, x in enumerate(n.args):
        v: Operand = yield builder.emit(x, where, mode)
        kind = _kind(builder, m.several, k % m.parts, x)
        both.append(builder.as_float(v, where) if kind.is_float else builder.as_integer(v, kind, where))
    return m.several.combined(both[: m.parts], both[m.parts :], lambda op, *args: builder.let(where, op, args), Literal, [m.part])[0]


def _made(builder: Builder, node: int, where: Block, mode: Mode | None) -> Steps[Parts]:
    n = builder.nodes[node]
    monoid, axis = n.attrs
    state, streamed = MONOIDS[monoid].several, axis in builder.facts.streamed
    assert state is not None
    kinds = [_kind(builder, state, part, x) for part, x in enumerate(n.args)]
    if not streamed:
        return (yield _tile(builder, node, n.op, state, kinds, where, mode))
    if mode is not None:
        raise PlanError(f"the states along axis {axis.name} are carried from step to step of its loop, not read while another one runs")
    if n.op == "reduce":
        level = max(builder.facts.level(x, axis) for x in n.args)
        body = builder.loop(where, axis, level).body
        return _carried(builder, node, state, kinds, body, (yield _tile(builder, node, "reduce", state, kinds, body, None)))[0]
    if where.enclosing(axis) is not where:
        raise PlanError(f"a scan along axis {axis.name} is carried from step to step of its loop, not of one inside of it")
    here = yield _prefixes(builder, node, state, kinds, where, None)
    old, first = _carried(builder, node, state, kinds, where, (yield _tile(builder, node, "reduce", state, kinds, where, None)))
    return _behind(builder, node, state, kinds, where, first, old, here)


def _kind(builder: Builder, state: State, part: int, x: int) -> DType:
    """The type of a part."""
    found = builder.facts.dtype(x)
    if found is None or found.is_float:
        return dtypes.float32
    few = state.selects(part) and builder.facts.range(x).magnitude <= POSITIONS
    return dtypes.int64 if found == dtypes.int64 and not few else dtypes.int32


def _tile(builder: Builder, node: int, op: str, state: State, kinds: list[DType], where: Block, mode: Mode | None) -> Steps[Parts]:
    """All parts of one tile."""
    n = builder.nodes[node]
    axis, xs = n.attrs[1], list[Value]()
    for arg, kind in zip(n.args, kinds, strict=True):
        given = builder.as_value((yield builder.emit(arg, where, mode)), where)
        v = builder.as_float(given, where) if kind.is_float else builder.as_integer(given, kind, where)
        assert isinstance(v, Value)
        xs.append(v)
    dim = builder.dim_of.get(axis)
    if dim is None:
        return list(xs)
    if len(dim.axes) > 1:
        raise PlanError(f"axis {axis.name} is packed, so it cannot be reduced or scanned")
    if dim not in {d for x in xs for d in x.dims}:
        xs[0] = builder.laid_out(xs[0], axis, 0.0, where)
    if op == "reduce" and not state.commutative:
        return _last(builder, axis, dim, (yield _prefixes(builder, node, state, kinds, where, mode)), where)
    if op == "reduce":
        ends = padded((builder.binding(axis, where),))
        xs = [
            builder.masked(where, x, ends, neutral) if dim in x.dims or not ends else builder.laid_out(x, axis, neutral, where)
            for x, neutral in zip(xs, state.neutral, strict=True)
        ]
    found: Parts = []
    dims = tuple(d for d in builder.dims if any(d in x.dims for x in xs) and (op == "scan" or d != dim))
    for part, (x, kind) in enumerate(zip(xs, kinds, strict=True)):
        hint = f"{_called(state)}{part}_{'upto' if op == 'scan' else 'of'}_{axis.name}"
        made = (Scan if op == "scan" else Reduce)(builder.value(hint, dims, kind), part_name(state, part), dim, x, tuple(xs))
        found.append(builder.put(where, made))
    return found


def _prefixes(builder: Builder, node: int, state: State, kinds: list[DType], where: Block, mode: Mode | None) -> Steps[Parts]:
    """The prefixes in one tile, made once."""
    n = builder.nodes[node]
    key = ("prefixes", state.name, n.attrs[1], n.args, mode and mode.key)
    if key not in where.several:
        where.several[key] = yield _tile(builder, node, "scan", state, kinds, where, mode)
    return where.several[key]


def _last(builder: Builder, axis: Axis, dim: Dim, prefixes: Parts, where: Block) -> Parts:
    """What stands at the last position that there is: a reduction that keeps the order of its elements, which a compiler does not.  As a
    sum of it and of zeros it is exact, and nothing past the end of the axis is in it."""
    behind = builder.as_value(builder.index(index(axis) + 1, where), where)
    body = where.enclosing(axis)
    end = builder.extent(axis, behind.dtype) if body is None else builder.count(body, "new", behind.dtype)
    here = builder.let(where, "eq", (behind, end), hint="last")
    found: Parts = []
    for v in prefixes:
        assert isinstance(v, Value)
        kept = builder.let(where, "where", (here, v, Literal(0.0)), dtype=None if v.dtype.is_float else v.dtype)
        assert isinstance(kept, Value)
        dims = tuple(d for d in v.dims if d != dim)
        name = v.name.replace("_upto_", "_of_")
        found.append(builder.put(where, Reduce(builder.value(name, dims, v.dtype), "sum" if v.dtype.is_float else "isum", dim, kept)))
    return found


def _called(state: State) -> str:
    return state.name if state.name.isidentifier() else "state"


def _carried(builder: Builder, node: int, state: State, kinds: list[DType], body: Block, tile: Parts) -> tuple[Parts, Operand]:
    """The state before a step of a loop, which is also what it is after the loop; and whether the step is the first one.  ``tile``: what
    the step adds to it.  Parts that no node of the kernel asks for, nor what it asks for, are not carried."""
    n = builder.nodes[node]
    axis = n.attrs[1]
    assert body.loop is not None
    first = guards.first_step(builder, body)
    asked = _asked(builder, node)
    key = ("states", n.op, state.name, axis, n.args)
    old: Parts = list(tile)
    if (*key, asked[0]) not in body.states:
        dims = {d for t in tile if isinstance(t, Value) for d in t.dims}
        order = tuple(d for d in builder.dims if d in dims)
        for part in asked:
            value = builder.value(f"{_called(state)}{part}_before_{axis.name}", order, kinds[part])
            opened = body.states[*key, part] = OpenAccumulator(value, part_name(state, part), state.neutral[part], node)
            body.loop.accumulators.append(opened)
            builder.define(value, body)
            old[part] = value
        new = _behind(builder, node, state, kinds, body, first, old, tile)
        for part in asked:
            made = new[part]
            assert isinstance(made, Value)
            body.states[*key, part].new = made
    for part in asked:
        old[part] = body.states[*key, part].old
    return old, first


def _asked(builder: Builder, node: int) -> tuple[int, ...]:
    """The parts that nodes of the kernel take of what a node is a part of, and those that these are made of."""
    n = builder.nodes[node]
    state = MONOIDS[n.attrs[0]].several
    assert state is not None
    same = (m.attrs[0] for m in builder.nodes if m.op == n.op and m.attrs[1:] == n.attrs[1:] and m.args == n.args)
    return state.before(MONOIDS[name].part for name in same if MONOIDS[name].several == state)


def _behind(builder: Builder, node: int, state: State, kinds: list[DType], where: Block, first: Operand, old: Parts, tile: Parts) -> Parts:
    """A state, or each of several, behind one before; as it is where there is none before, and in the parts that nobody asks for."""
    asked, found = _asked(builder, node), list(tile)
    both = state.combined(old, tile, lambda op, *args: builder.let(where, op, args), Literal, asked)
    for part, made in zip(asked, both, strict=True):
        kind = kinds[part]
        v = builder.let(where, "where", (first, tile[part], made), dtype=None if kind.is_float else kind)
        found[part] = v if kind.is_float else builder.as_integer(v, kind, where)
    return found

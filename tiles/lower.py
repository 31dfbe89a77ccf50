"""Lowering: from a kernel (nodes and decisions) to its tile program, by demand-driven emission into blocks.

``emit(node, block, mode)`` returns the value of a node for use in a block.  Four rules make everything else fall out:

- A value lives in its *home*: the outermost block that is inside the innermost open loop of every axis it needs.  Hoisting is that.
- A reduction over a streamed axis gets or creates the loop (axis, level) in its home, and an accumulator in that loop.  Reductions at
  the same level share the loop; a reduction that needs the result of another is one level higher and gets a later loop.
- A *mode* says that running values are wanted: the value as of before (old) or after (new) the present step of one loop.  Reductions
  that accumulate in that loop are read from their accumulators; whatever was complete before the loop is just its value.
- Demand order is not program order: every block is sorted by dependency when it is closed.

Whoever asks for the value of another node is a generator that yields the request (:func:`eqfuse.ir.recursion.completed`): the way from
a root to a leaf is as long as the program.

If loops that were shared by axis turn out to need each other, the kernel is lowered again with one global reduction depth in place of
the levels per axis, which cannot be cyclic but may take more passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import PlanError
from ..ir import dtypes, ops
from ..ir.dtypes import DType
from ..ir.index import Axis, IndexExpr
from ..ir.monoids import MONOIDS
from ..ir.recursion import Steps, completed
from ..ir.spec import wanted
from . import compensation, dots, exponents, guards
from .blocks import Block, LoopCycle, OpenAccumulator, OpenLoop, close
from .facts import LARGEST_EXTENT, Facts
from .finish import PRICED
from .kernel import Kernel, Node
from .kernel_spec import check_kernel
from .masks import access, padded
from .names import Names
from .program import (
    Access,
    Binding,
    Cast,
    Count,
    Dim,
    ExtentValue,
    Fill,
    IndexValue,
    Let,
    Literal,
    Load,
    Mean,
    Operand,
    Permute,
    Reduce,
    Store,
    TileProgram,
    Value,
    Where,
)
from .skipping import skip
from .spec import check_tiles

INT32_MAX = 2**31 - 1
POSITIONS = 2 * LARGEST_EXTENT  # positions are kept in 32 bits, as if no axis were longer than 2**29: so are their sums and differences
RING = ("add", "mul", "neg", "square")  # what is the same modulo 2**32 whatever the digits above
INTEGERS = frozenset(m.integer for m in MONOIDS.values() if m.integer)


@dataclass(frozen=True, eq=False)
class Mode:
    """Running values wanted: ``kind`` of the loop whose body is ``block``; without a loop, the final value made safe."""

    kind: str  # "old" | "new"
    block: Block | None

    @property
    def key(self) -> tuple[str, int]:
        """For memoisation: modes of the same kind and loop are the same."""
        return self.kind, id(self.block)

    @property
    def axis(self) -> Axis | None:
        """The axis of the loop."""
        return None if self.block is None or self.block.loop is None else self.block.loop.binding.axis

    @property
    def level(self) -> int:
        """The level of the loop."""
        assert self.block is not None
        assert self.block.loop is not None
        return self.block.loop.level


def lower(kernel: Kernel, *, min_dot_k: int = dots.MIN_DOT_K) -> TileProgram:
    """Lower a kernel that is to be run.  ``min_dot_k``: the shortest contraction given to the matrix unit (smaller ones are products and
    sums).

    Raises :class:`~eqfuse.errors.PlanError` if the roles are illegal for the nodes: a grid axis that is reduced, a roll over an axis
    that is not streamed, a root without an axis it depends on.  With ``EQFUSE_SPEC=1``, SpecError for a kernel or a tile program that is
    not valid.
    """
    if not wanted():
        return lowered(kernel, min_dot_k=min_dot_k)
    check_kernel(kernel)
    program = lowered(kernel, min_dot_k=min_dot_k)
    check_tiles(program)
    return program


def lowered(kernel: Kernel, *, min_dot_k: int = dots.MIN_DOT_K, facts: Callable[[bool], Facts] | None = None) -> TileProgram:
    """As :func:`lower`, but unchecked: for candidates, which a search makes by the hundred.  ``facts``: what is known of its nodes
    already, with levels per axis (False) or by one global depth (True)."""
    facts = facts or (lambda split: Facts(kernel, split))
    try:
        return Lowering(kernel, facts(False), min_dot_k).program()
    except LoopCycle:
        return Lowering(kernel, facts(True), min_dot_k).program()


Emitter = Callable[["Lowering", int, Block, Mode | None, OpenAccumulator | None], Steps[Operand]]


class Lowering:
    """One lowering of one kernel."""

    def __init__(self, kernel: Kernel, facts: Facts, min_dot_k: int = dots.MIN_DOT_K) -> None:
        self.kernel, self.nodes, self.facts, self.min_dot_k = kernel, kernel.nodes, facts, min_dot_k
        self.names = Names(kernel)
        self.dims = tile_dims(kernel)
        self.dim_of = {a: d for d in self.dims for a in d.axes}
        self.fixed = _fixed_bindings(kernel)
        self._fixed_of = {b.axis: b for b in self.fixed}
        self._dims_of: dict[frozenset[Axis], tuple[Dim, ...]] = {}
        self._home_of: dict[str, Block] = {}  # value name -> block that defines it
        self.readers = Counter(a for n in self.nodes for a in n.args)
        self.readers.update(r.node for r in kernel.roots)
        self._negations: set[str] = set()  # values that are negations: sums with them are named differences
        self._narrow: dict[str, Value] = {}  # what wider values were before they were widened
        self.root = Block()
        self.compensates = compensation.worthwhile(self)
        self.stored_means = compensation.stored_means(self)
        self.precise_means = compensation.means_below(self, self.stored_means)
        self.sums: dict[str, tuple[Reduce, Binding]] = {}  # of tiles, by the name of what they give
        self.means: dict[str, Mean] = {}

    def program(self) -> TileProgram:
        """Emit all roots and close the blocks."""
        for i in range(len(self.kernel.roots)):
            self._store(i)
        body = close(self.root)
        if not self.kernel.exact:
            body = skip(body, {name for name, b in self.kernel.buffers.items() if b.role == "temporary"})
        made = TileProgram(self.kernel, self.dims, self.fixed, body, self.facts.split)
        for decide in PRICED:
            made = decide(made)
        return made

    # -- small services ------------------------------------------------------------------------------------------------------
    def dims_of(self, axes: frozenset[Axis]) -> tuple[Dim, ...]:
        """The tile dims of a value that depends on some axes, in the kernel's order."""
        found = self._dims_of.get(axes)
        if found is None:
            found = self._dims_of[axes] = tuple(d for d in self.dims if any(a in axes for a in d.axes))
        return found

    def value(self, hint: str, dims: tuple[Dim, ...], dtype: DType) -> Value:
        """A new value with a name like the hint."""
        return Value(self.names.fresh(hint), dims, dtype)

    def put(self, block: Block, statement: Any) -> Value:
        """Append a statement; returns its value."""
        block.statements.append(statement)
        dst: Value = statement.dst
        self.define(dst, block)
        return dst

    def mean(self, block: Block, m: Mean) -> Value:
        """Append a mean; what is made of it may be made of its sum instead."""
        self.means[m.dst.name] = m
        return self.put(block, m)

    def define(self, v: Value, block: Block) -> None:
        """Note which block defines a value."""
        self._home_of[v.name] = block

    def once(self, v: Value, key: tuple[Any, ...], make: Callable[[Value], Any], user: Block | None = None) -> Value:
        """A statement on one value, emitted where the value is defined and only once.

        An accumulator has one name for two values: in its loop the old state, after it the final one; ``user`` tells which.
        """
        block, full = self._home_of[v.name], (*key, v.name)
        if user is not None and block.parent is not None and all(b is not block for b in user.chain()):
            block = block.parent
        if full not in block.memo:
            block.memo[full] = self.put(block, make(v))
        found = block.memo[full]
        assert isinstance(found, Value)
        return found

    def binding(self, axis: Axis, block: Block) -> Binding:
        """The innermost binding of an axis that is open in a block."""
        if axis in self._fixed_of:
            return self._fixed_of[axis]
        body = block.enclosing(axis)
        if body is None or body.loop is None:
            raise PlanError(f"axis {axis.name} is streamed, but a value that depends on it is needed outside its loop")
        return body.loop.binding

    def bindings(self, axes: frozenset[Axis], block: Block) -> tuple[Binding, ...]:
        """The bindings of some axes, in a stable order."""
        return tuple(self.binding(a, block) for a in sorted(axes))

    def home(self, node: int, block: Block, mode: Mode | None) -> Block:
        """The outermost block in which everything that the node needs is bound."""
        target = self.root
        for axis in self.nodes[node].axes:
            if axis in self.facts.streamed:
                body = block.enclosing(axis)
                if body is None:
                    raise PlanError(f"axis {axis.name} is streamed, but a value that depends on it is needed outside its loop")
                if body.depth > target.depth:
                    target = body
        for axis in self.facts.running(node):
            body = block.enclosing(axis)
            if body is not None and body.depth > target.depth:
                target = body
        if mode is not None and mode.block is not None and mode.block.depth > target.depth:
            target = mode.block
        return target

    def loop(self, block: Block, axis: Axis, level: int) -> OpenLoop:
        """The loop over an axis at a level, directly inside a block."""
        found = block.loops.get((axis, level))
        if found is None:
            role = self.kernel.roles[axis]
            binding = Binding(self.names.binding(axis), axis, role.tile, "stream", axis.size % role.tile == 0)
            body = Block(block, depth=block.depth + 1)
            found = body.loop = block.loops[(axis, level)] = OpenLoop(binding, level, body)
            block.statements.append(found)
        return found

    def as_value(self, v: Operand, block: Block) -> Value:
        """The operand as a value; numbers become scalar values."""
        return v if isinstance(v, Value) else self.put(block, Fill(self.value("c", (), dtypes.float32), v.value))

    def as_float(self, v: Operand) -> Operand:
        """The operand in float32, the type of all arithmetic."""
        if isinstance(v, Literal) or v.dtype == dtypes.float32:
            return v
        return self.cast(v, dtypes.float32, hint=v.name + "_f")

    def as_bool(self, v: Operand) -> Operand:
        """The operand as a truth value."""
        if isinstance(v, Literal):
            return Literal(float(v.value != 0))
        if v.dtype == dtypes.bool_:
            return v
        return self.once(v, ("bool",), lambda s: Let(self.value("cond", s.dims, dtypes.bool_), "ne", (s, Literal(0.0))))

    def as_integer(self, v: Operand, dtype: DType) -> Operand:
        """The operand in an integer type of 32 or 64 bits; a number stays one."""
        if isinstance(v, Literal) or v.dtype == dtype:
            return v
        return self.cast(v, dtype)

    def let(
        self, block: Block, op: str, args: tuple[Operand, ...], hint: str | None = None, dtype: DType | None = None
    ) -> Operand:
        """A scalar op on operands: constants are folded, integers stay integers, everything else is float32.

        ``dtype``: the type that the program gives the result.
        """
        spec = ops.OPS[op]
        numbers = [a.value for a in args if isinstance(a, Literal)]
        if len(numbers) == len(args):
            return Literal(float(spec.numpy(*map(np.float64, numbers))))
        if op in ("and", "or") and numbers:  # printed, the number would be no truth value
            other = next(a for a in args if isinstance(a, Value))
            return self.as_bool(other) if (numbers[0] != 0) == (op == "and") else Literal(float(numbers[0] != 0))
        typed, dtype = self._operands(spec, args, dtype)
        if op == "where" and isinstance(args[0], Literal):
            return typed[1] if args[0].value else typed[2]
        dims = {d for a in typed if isinstance(a, Value) for d in a.dims}
        if op == "add" and hint is None and any(isinstance(a, Value) and a.name in self._negations for a in typed):
            hint = "diff"
        dst = self.value(hint or op.rstrip("_"), tuple(d for d in self.dims if d in dims), dtype)
        if op == "neg":
            self._negations.add(dst.name)
        return self.put(block, Let(dst, op, typed))

    def _operands(
        self, spec: ops.ScalarOp, args: tuple[Operand, ...], of: DType | None
    ) -> tuple[tuple[Operand, ...], DType]:
        """Arguments converted to the types that an op works in, and the type of its result."""
        if spec.name in ("and", "or", "not"):
            return tuple(self.as_bool(a) for a in args), dtypes.bool_
        lead: tuple[Operand, ...] = (self.as_bool(args[0]),) if spec.name == "where" else ()
        rest = args[len(lead) :]
        values = [a for a in rest if isinstance(a, Value)]
        whole = all(float(a.value).is_integer() for a in rest if isinstance(a, Literal))
        kinds = {v.dtype.kind for v in values}
        if whole and spec.result != "float" and "int" in kinds and "float" not in kinds:
            rest, wide = self._integers(spec, rest, of)
            return lead + rest, dtypes.bool_ if spec.result == "bool" else wide
        return lead + tuple(self.as_float(a) for a in rest), dtypes.bool_ if spec.result == "bool" else dtypes.float32

    def _integers(
        self, spec: ops.ScalarOp, args: tuple[Operand, ...], of: DType | None
    ) -> tuple[tuple[Operand, ...], DType]:
        """Integers and truth values in the type that an op computes them in: 64 bits if one of them has more than 32, else 32.

        What a sum, product or negation of 32 bits is modulo 2**32 does not depend on the digits above, nor one of 64 bits on those above
        these; numbers are cut to it.
        """
        values = [a for a in args if isinstance(a, Value)]
        numbers = [int(a.value) for a in args if isinstance(a, Literal)]
        narrow = all(v.dtype != dtypes.int64 for v in values)
        if narrow and spec.name in RING and of is not None and of.itemsize <= 4:
            args = _cut(args, 32)
        elif of == dtypes.int64 or not all(-(2**31) <= n < 2**31 for n in numbers):
            return tuple(self.as_integer(a, dtypes.int64) for a in (_cut(args, 64) if spec.name in RING else args)), dtypes.int64
        wide = dtypes.int32 if narrow else dtypes.int64
        # Triton widens a type of 32 bits beside one of 64 by itself
        keep = (dtypes.int32, dtypes.int64)
        return tuple(a if isinstance(a, Literal) or a.dtype in keep else self.as_integer(a, wide) for a in args), wide

    def masked(self, block: Block, v: Value, bindings: tuple[Binding, ...], fill: float) -> Value:
        """The value with its padded lanes along the bindings replaced."""
        if not bindings:
            return v
        key = ("where", v.name, bindings, fill)
        if key not in block.memo:
            block.memo[key] = self.put(block, Where(self.value(v.name + "_ok", v.dims, v.dtype), v, bindings, fill))
        found = block.memo[key]
        assert isinstance(found, Value)
        return found

    def state_of(self, node: int, body: Block) -> Value | None:
        """The accumulator of a reduction in a loop, if it is at its identity where the reduction is."""
        state = body.states.get((node, None))
        return None if state is None or self.nodes[node].attrs[0] == "mean" else state.old

    # -- emission ------------------------------------------------------------------------------------------------------------
    def emit(self, node: int, block: Block, mode: Mode | None = None, state: OpenAccumulator | None = None) -> Steps[Operand] | Operand:
        """The value of a node for use in a block.  ``state``: the accumulator that ``acc`` stands for."""
        if self.nodes[node].op == "acc":
            assert state is not None, "acc outside a roll"
            return state.old
        return self.placed("value", Lowering._emit, node, block, mode, state)

    def placed(
        self, form: str, make: Emitter, node: int, block: Block, mode: Mode | None, state: OpenAccumulator | None
    ) -> Steps[Operand] | Operand:
        """A node in some form, made once and in its home.  Modes and states that do not matter to it are dropped."""
        if mode is not None and not self._runs(node, mode):
            mode = None
        if state is not None and not self.facts.has_state(node):
            state = None
        where = block if state is not None else self.home(node, block, mode)
        key = (form, node, mode and mode.key, state and state.old.name)
        found = where.memo.get(key)
        return self._made(key, make, node, where, mode, state) if found is None else found

    def _made(
        self, key: Any, make: Emitter, node: int, where: Block, mode: Mode | None, state: OpenAccumulator | None
    ) -> Steps[Operand]:
        where.memo[key] = yield make(self, node, where, mode, state)
        return where.memo[key]

    def mode_of(self, ref: Node, where: Block) -> Mode:
        """The mode that a reference asks for."""
        return Mode(ref.attrs[0], where.enclosing(ref.attrs[1]))

    def _runs(self, node: int, mode: Mode) -> bool:
        """The mode matters to a node: it is not complete before the loop, or an empty reference in it must be made safe."""
        if mode.block is not None and mode.axis is not None and self.facts.level(node, mode.axis) > mode.level:
            return True
        return mode.kind == "new" and guards.needs_safe(self.facts, node)

    def _emit(self, node: int, where: Block, mode: Mode | None, state: OpenAccumulator | None) -> Steps[Operand]:
        n = self.nodes[node]
        if n.op == "const":
            return Literal(n.attrs[0])
        if n.op == "extent":
            return self.extent(n.attrs[0])
        if n.op == "index":
            return self._index(n.attrs[0], where)
        if n.op == "load":
            return self.load(node, where)
        if n.op == "ref":
            return (yield self.emit(n.args[0], where, self.mode_of(n, where)))
        if n.op == "pre":
            return (yield self._prefix(n.args[0], n.attrs[0], where))
        if n.op in ("reduce", "roll"):
            return (yield self._reduction(node, where, mode))
        if n.op == "map" and exponents.is_exponential(n.attrs[0]):
            return self.let(where, n.attrs[0], ((yield exponents.argument(self, n.args[0], where, mode, state)),))
        if n.op == "map" and mode is None and state is None:
            found = yield compensation.more_than_mean(self, node, where)
            if found is not None:
                return found
        args: list[Operand] = []
        for x in n.args:
            args.append((yield self.emit(x, where, mode, state)))
        if n.op == "map":
            dtype = self.facts.dtype(node)
            if dtype is not None and dtype.kind == "int":
                args = [
                    self.extent(self.nodes[x].attrs[0], dtypes.int64 if dtype == dtypes.int64 else dtypes.int32)
                    if self.nodes[x].op == "extent"
                    else a
                    for x, a in zip(n.args, args, strict=True)
                ]
            if dtype == dtypes.int64 and self.facts.range(node).magnitude <= POSITIONS:
                dtype = None  # 32 bits are enough where the operands have no more
            return self.let(where, n.attrs[0], tuple(args), dtype=dtype)
        assert n.op == "cast", f"unknown node op {n.op!r}"
        return self._cast(node, args[0], where)

    def _cast(self, node: int, v: Operand, where: Block) -> Operand:
        """A conversion as torch does it (:func:`~eqfuse.ir.dtypes.cast`)."""
        to = self.nodes[node].attrs[0]
        if to.is_float:
            v = self.as_value(v, where)
            if not v.dtype.is_float and to.itemsize == 2:  # by way of float32
                v = self.cast(v, dtypes.float32, where)
            return v if v.dtype == to else self.cast(v, to, where)
        if to.kind == "bool":
            return self.as_bool(v)
        if isinstance(v, Literal):
            return self.put(where, Fill(self.value("c", (), to), float(dtypes.cast(np.asarray(v.value), to))))
        if v.dtype.is_float and to.itemsize < 8:  # a device has no meaning for what the type does not hold; 64 bits wrap
            size = self.facts.range(self.nodes[node].args[0], finite_inputs=True)
            inside = size.lo >= -(2.0**31) and size.hi < 2.0**31
            v = self.cast(v, dtypes.int32 if inside else dtypes.int64, where)
        return v if v.dtype == to else self.cast(v, to, where)

    def cast(self, v: Value, to: DType, user: Block | None = None, hint: str = "") -> Value:
        """The value in another type, for use in a block; one that was widened from that type is what it was."""
        narrow = self._narrow.get(v.name)
        if narrow is not None and narrow.dtype == to:
            return narrow
        found = self.once(v, ("cast", to), lambda s: Cast(self.value(hint or f"{s.name}_{to.short}", s.dims, to), s), user)
        if v.dtype.is_float and to == dtypes.float32:
            self._narrow[found.name] = v
        return found

    def extent(self, axis: Axis, dtype: DType = dtypes.float32) -> Value:
        """The length of an axis as a scalar."""
        key = ("extent", axis, dtype)
        if key not in self.root.memo:
            dst = self.value(f"n_{axis.name}", (), dtype)
            self.root.memo[key] = self.put(self.root, ExtentValue(dst, axis))
        found = self.root.memo[key]
        assert isinstance(found, Value)
        return found

    def _index(self, expr: IndexExpr, where: Block) -> Operand:
        axes = expr.axes()
        if not axes:
            return Literal(float(expr.const))
        lo, hi = expr.bounds()
        dtype = dtypes.int32 if lo >= -INT32_MAX // 2 and hi <= INT32_MAX // 2 else dtypes.int64
        axis = expr.as_axis()
        dst = self.value(f"at_{axis.name}" if axis else "at", self.dims_of(axes), dtype)
        return self.put(where, IndexValue(dst, expr, self.bindings(axes, where)))

    def load(self, node: int, where: Block, dims: tuple[Dim, ...] | None = None) -> Value:
        """A loaded tile with its dims in the canonical or a given order."""
        n = self.nodes[node]
        name, index = n.attrs
        canonical = self.dims_of(n.axes)
        dims = dims or canonical
        key = ("load", node, dims)
        if key not in where.memo:
            other = where.memo.get(("load", node, canonical))
            if isinstance(other, Value):
                return self.once(other, ("permute", dims), lambda s: Permute(self.value(s.name + "_t", dims, s.dtype), s))
            buffer = self.kernel.buffers[name]
            at = access(name, buffer.shape, index, self.bindings(n.axes, where), dims)
            where.memo[key] = self.put(where, Load(self.value(name, dims, buffer.dtype), at))
        found = where.memo[key]
        assert isinstance(found, Value)
        return found

    # -- reductions ----------------------------------------------------------------------------------------------------------
    def _reduction(self, node: int, where: Block, mode: Mode | None) -> Steps[Operand]:
        n, facts = self.nodes[node], self.facts
        monoid, axis = n.attrs
        if n.op == "reduce" and not facts.runs_along(n.args[0], axis):
            return (yield self._repetition(node, where, mode))
        if axis not in facts.streamed:
            if self.kernel.roles[axis].kind == "grid":
                raise PlanError(f"axis {axis.name} is reduced, so it cannot be a grid axis")
            if n.op == "roll":
                raise PlanError(f"a rolling reduction over {axis.name} needs the axis to be streamed")
            v = yield self._tile(n.args[0], axis, monoid, where, mode, None, kind=self.state_type(node))
            if monoid == "mean":
                assert isinstance(v, Value)
                lost = compensation.lost_in(self, v, axis, where) if node in self.precise_means else None
                v = self.mean(where, Mean(self.value(f"mean_{axis.name}", v.dims, dtypes.float32), v, axis, None, "final", lost))
            return self._safe(node, v, where, mode)
        level = max(facts.level(x, axis) for x in n.args)
        if mode is not None and mode.block is not None and mode.axis == axis and level >= mode.level:
            if level > mode.level:
                raise PlanError(f"a reference over {axis.name} is to a reduction of a later loop")
            self._check_same_tile(node, where, mode.block)
            state = yield self._accumulator(node, mode.block, None)
            return self._safe(node, self._read(node, state, where, mode.kind, mode.block), where, mode)
        if mode is not None and mode.block is not None and facts.level(node, mode.axis) <= mode.level:  # type: ignore[arg-type]
            return self._safe(node, (yield self.emit(node, where)), where, mode)
        if mode is not None and mode.block is None:
            return self._safe(node, (yield self.emit(node, where)), where, mode)
        loop = self.loop(where, axis, level)
        state = yield self._accumulator(node, loop.body, mode)
        return self._safe(node, self._read(node, state, where, "final", loop.body), where, mode)

    def _safe(self, node: int, v: Operand, where: Block, mode: Mode | None) -> Operand:
        """A new reference that cannot be the identity: a harmless value where nothing contributes yet."""
        harmless = guards.safe_value(self.facts, node) if mode is not None and mode.kind == "new" else None
        if harmless is None:
            return v
        identity = MONOIDS[self.nodes[node].attrs[0]].identity
        empty = self.let(where, "eq", (v, Literal(identity)), hint="empty")
        return self.let(where, "where", (empty, Literal(harmless), v), hint="safe")

    def _repetition(self, node: int, where: Block, mode: Mode | None) -> Steps[Operand]:
        """A reduction of a value that does not depend on the axis: a multiple of it for a sum, itself otherwise."""
        n = self.nodes[node]
        monoid, axis = n.attrs
        times = self._copies(monoid, axis) == "times"
        v: Operand = yield self.emit(n.args[0], where, mode)
        if monoid in INTEGERS and mode is None:
            kind = self.state_type(node)
            return self.let(where, "mul", (self.as_integer(v, kind), self.extent(axis, kind)), dtype=kind) if times else v
        running = mode is not None and mode.block is not None and mode.axis == axis and self.facts.level(node, axis) > mode.level
        if not running:
            return self.let(where, "mul", (self.as_float(v), self.extent(axis))) if times else v
        assert mode is not None
        assert mode.block is not None
        if times:
            return self.let(where, "mul", (self.as_float(v), self._count(mode.block, mode.kind)))
        if mode.kind == "new":
            return v
        return self.let(where, "where", (guards.first_step(self, mode.block), Literal(MONOIDS[monoid].identity), self.as_float(v)))

    def _copies(self, monoid: str, axis: Axis) -> str:
        """What equal values along an axis make."""
        found = MONOIDS[monoid].copies
        if not found:
            raise PlanError(
                f"{monoid} over {axis.name} of a value that does not vary along it: monoid {monoid} does not say what copies make",
                cure="say so in its entry: copies=, in ir/monoids.py",
            )
        return found

    def state_type(self, node: int) -> DType:
        """The type that a reduction accumulates in."""
        if self.nodes[node].attrs[0] not in INTEGERS:
            return dtypes.float32
        return dtypes.int64 if self.facts.dtype(node) == dtypes.int64 else dtypes.int32

    def _count(self, body: Block, which: str, dtype: DType = dtypes.float32) -> Value:
        key = ("count", which, dtype)
        if key not in body.memo:
            assert body.loop is not None
            b = body.loop.binding
            dst = self.value({"old": "seen", "new": "seen_now", "tile": "here"}[which] + f"_{b.name}", (), dtype)
            body.memo[key] = self.put(body, Count(dst, b, which))  # type: ignore[arg-type]
        found = body.memo[key]
        assert isinstance(found, Value)
        return found

    def _prefix(self, reduction: int, axis: Axis, where: Block) -> Steps[Operand]:
        """The sum in this loop before the present step, whatever other loops have completed."""
        body = where.enclosing(axis)
        if body is None:
            raise PlanError(f"a prefix over {axis.name} is needed outside a loop over it")
        n = self.nodes[reduction]
        if n.op == "reduce" and n.attrs[0] == "sum" and not self.facts.runs_along(n.args[0], axis):
            return self.let(where, "mul", (self.as_float((yield self.emit(n.args[0], where))), self._count(body, "old")))
        self._check_same_tile(reduction, where, body)
        return self._read(reduction, (yield self._accumulator(reduction, body, None)), where, "old", body)

    def _check_same_tile(self, node: int, where: Block, body: Block) -> None:
        """A running value belongs to the tile that its own loop is at.  A loop in between that opens one of its axes a second time
        is at another tile, for which no running value exists."""
        for axis in self.nodes[node].axes & self.facts.streamed:
            if where.enclosing(axis) is not body.enclosing(axis):
                raise PlanError(f"a running value depends on {axis.name}, which a loop inside its own opens again")

    def _accumulator(self, node: int, body: Block, mode: Mode | None) -> Steps[OpenAccumulator]:
        """The accumulator of a reduction in a loop; ``mode`` if its elements are running values of an outer loop."""
        key = (node, mode and mode.key)
        if key in body.states:
            return body.states[key]
        assert body.loop is not None
        n = self.nodes[node]
        monoid, axis = n.attrs
        m = MONOIDS[monoid]
        old = self.value(f"{m.state.removeprefix('i')}_{axis.name}", self.dims_of(n.axes), self.state_type(node))
        state = body.states[key] = OpenAccumulator(old, m.state, m.identity, node)
        body.loop.accumulators.append(state)
        self.define(old, body)
        form = self._compensated(node)
        if form is not None:

            def tile() -> Steps[Operand]:
                return self._tile(n.args[0], axis, monoid, body, mode, None, hint="tile_sum")

            state.new = yield compensation.step(self, node, form, state, body, mode, tile)
            return state
        update: Operand = old
        if n.op == "roll":
            update = yield self.emit(n.args[1], body, mode, state)
            untouched = guards.untouched(self, node, state, body)
            if untouched is not None:
                update = self.let(body, "where", (untouched, old, update))
        new = yield self._tile(n.args[0], axis, monoid, body, mode, update, hint=old.name + "_new", kind=old.dtype)
        assert isinstance(new, Value)
        assert new.dims == old.dims, f"accumulator {old.name} has dims {old.dims}, its update {new.dims}"
        state.new = new
        return state

    def _compensated(self, node: int) -> compensation.Update | None:
        """How a sum continues that carries what its additions lose; ``None`` for other reductions."""
        n = self.nodes[node]
        if MONOIDS[n.attrs[0]].state != "sum" or not self.compensates or dots.match(self, n.args[0], n.attrs[1]) is not None:
            return None
        if self._goes_on(n.args[0], n.attrs[1]):
            return None
        return compensation.update_of(self.facts, node)

    def _read(self, node: int, state: OpenAccumulator, where: Block, which: str, body: Block) -> Operand:
        assert body.loop is not None
        v = state.old
        if which == "new":
            if state.new is None:
                raise PlanError("a rolling reduction refers to its own new value")
            v = state.new
        if self.nodes[node].attrs[0] != "mean":
            return v
        b = body.loop.binding
        key = ("mean", v.name, which)
        if key not in where.memo:
            dst = self.value(f"mean_{b.axis.name}", v.dims, dtypes.float32)
            kind = {"final": "final", "old": "old", "new": "new"}[which]
            lost = state.lost.old if which == "final" and state.lost is not None and not self.kernel.exact else None
            where.memo[key] = self.mean(where, Mean(dst, v, b.axis, None if which == "final" else b, kind, lost))  # type: ignore[arg-type]
        return where.memo[key]

    def _tile(
        self,
        body: int,
        axis: Axis,
        monoid: str,
        where: Block,
        mode: Mode | None,
        acc: Operand | None,
        hint: str | None = None,
        kind: DType = dtypes.float32,
    ) -> Steps[Operand]:
        """The reduction of one tile along an axis, in a type, combined with ``acc`` if there is one."""
        m = MONOIDS[MONOIDS[monoid].state]
        if m.name == "sum":
            found = dots.match(self, body, axis)
            if found is not None:
                accumulator = acc if isinstance(acc, Value) else None
                dot = yield dots.emit(self, found, axis, where, mode, accumulator, hint or f"dot_{axis.name}")
                return dot if acc is accumulator else self.let(where, "add", (acc, dot), hint=hint)  # type: ignore[arg-type]
            if mode is None and isinstance(acc, Value) and self._goes_on(body, axis):
                return (yield self._summed_on(body, where, acc, hint))
        dim = self.dim_of.get(axis)
        added = m.combine == "add"
        picked = (yield self._picked(body, axis, where, mode, kind)) if added and dim is not None and len(dim.axes) == 1 else None
        if picked is not None:
            return picked if acc is None else self.let(where, "add", (acc, picked), hint=hint)
        v = yield self.emit(body, where, mode)
        v = self.as_float(v) if kind.is_float else self.as_integer(self.as_value(v, where), kind)
        if axis not in self.nodes[body].axes:  # runs along the loop, but is one value per tile
            if self._copies(m.name, axis) == "times":
                loop_body = where.enclosing(axis)
                assert loop_body is not None
                v = self.let(where, "mul", (v, self._count(loop_body, "tile", kind)))
        elif dim is not None and isinstance(v, Value) and dim in v.dims:
            if len(dim.axes) > 1:
                raise PlanError(f"axis {axis.name} is packed, so it cannot be reduced")
            if not (added and self.facts.zero_padded(body, axis)):
                v = self.masked(where, v, padded((self.binding(axis, where),)), m.identity)
            dims = tuple(d for d in v.dims if d != dim)
            called = m.name.removeprefix("i") if m.name in INTEGERS else m.name
            name = f"tile_{called}" if acc is not None else hint or f"{called}_{axis.name}"
            reduction = Reduce(self.value(name, dims, kind), m.name, dim, v)
            if m.name == "sum":
                self.sums[reduction.dst.name] = reduction, self.binding(axis, where)
            v = self.put(where, reduction)
        return v if acc is None else self.let(where, m.combine, (acc, v), hint=hint)

    def _goes_on(self, node: int, axis: Axis) -> bool:
        """Whether a sum over an axis may add to its own state what the node sums: products on the matrix unit, over one axis or several,
        that nothing else reads."""
        n = self.nodes[node]
        if axis in self.dim_of or axis not in n.axes or n.op != "reduce" or n.attrs[0] != "sum" or self.readers[node] != 1:
            return False
        product = dots.match(self, n.args[0], n.attrs[1]) is not None
        return not self.kernel.exact and (product or self._goes_on(n.args[0], n.attrs[1]))

    def _summed_on(self, node: int, where: Block, acc: Value, hint: str | None) -> Steps[Value]:
        """A sum of products added to ``acc`` as it is summed: one accumulator for all axes of a matrix product whose rows have several."""
        n = self.nodes[node]
        axis = n.attrs[1]
        if axis not in self.facts.streamed:
            found = yield self._tile(n.args[0], axis, "sum", where, None, acc, hint=hint)
            assert isinstance(found, Value)
            return found
        loop = self.loop(where, axis, self.facts.level(n.args[0], axis))
        old = self.value(f"sum_{axis.name}", acc.dims, dtypes.float32)
        state = loop.body.states[(node, None)] = OpenAccumulator(old, "sum", 0.0, node, start=acc)
        loop.body.loop.accumulators.append(state)  # type: ignore[union-attr]
        self.define(old, loop.body)
        new = yield self._tile(n.args[0], axis, "sum", loop.body, None, old, hint=old.name + "_new")
        assert isinstance(new, Value)
        state.new = new
        return old

    def _picked(self, body: int, axis: Axis, where: Block, mode: Mode | None, kind: DType) -> Steps[Operand | None]:
        """sum_j where(j + c == y, x, 0) over one tile, for whole y, and x and c free of j: x if y is a position of this tile, else 0.

        One comparison for each y, in place of a tile of them (whose sum a compiler would lay out by itself, unlike the tiles beside it).
        """
        nodes = self.nodes
        n = nodes[body]
        if n.op != "map" or n.attrs[0] != "where":
            return None
        choice, x, zero = n.args
        c = nodes[choice]
        if c.op != "map" or c.attrs[0] != "eq" or nodes[zero].op != "const" or nodes[zero].attrs[0] != 0 or axis in nodes[x].axes:
            return None
        place, y = c.args if nodes[c.args[0]].op == "index" else c.args[::-1]
        if nodes[place].op != "index" or axis in nodes[y].axes or not _shifts(nodes[place].attrs[0], axis):
            return None
        wanted = yield self.emit(y, where, mode)
        if not isinstance(wanted, Value) or wanted.dtype.kind != "int":
            return None
        expr = nodes[place].attrs[0]
        axes = expr.axes()
        # without lanes for the axis, the position of the first element of the tile
        dst = self.value("first", self.dims_of(axes - {axis}), dtypes.int64)
        first = self.put(where, IndexValue(dst, expr, self.bindings(axes, where)))
        after = self.let(where, "add", (wanted, self.let(where, "neg", (first,))), hint="after")
        loop = where.enclosing(axis) if axis in self.facts.streamed else None
        count = self.extent(axis) if loop is None else self._count(loop, "tile")
        here = self.let(where, "and", (self.let(where, "ge", (after, Literal(0.0))), self.let(where, "lt", (after, count))), hint="here")
        found = self.let(where, "where", (here, (yield self.emit(x, where, mode)), Literal(0.0)))
        return self.as_float(found) if kind.is_float else self.as_integer(self.as_value(found, where), kind)

    # -- roots ---------------------------------------------------------------------------------------------------------------
    def _store(self, position: int) -> None:
        root, kernel = self.kernel.roots[position], self.kernel
        axes = frozenset(a for e in root.index for a in e.axes())
        missing = self.nodes[root.node].axes - axes
        if missing:
            raise PlanError(f"{root.buffer} lacks the axes {sorted(a.name for a in missing)} that its value depends on")
        block = self.root
        for axis in kernel.roles:
            if axis in axes and axis in self.facts.streamed:
                block = self.loop(block, axis, self.facts.level(root.node, axis)).body
        v = self.as_value(completed(self.emit(root.node, block)), block)  # type: ignore[arg-type]
        at: Access = access(
            root.buffer, kernel.buffers[root.buffer].shape, root.index, self.bindings(axes, block), self.dims_of(axes)
        )
        once = tuple(b for b in self.fixed if b.kind == "grid" and b.axis not in axes)
        block.statements.append(Store(v, at, once))


def _cut(args: tuple[Operand, ...], bits: int) -> tuple[Operand, ...]:
    """Operands with whole numbers modulo a power of two, as numbers with a sign."""
    half, all_ = 1 << bits - 1, 1 << bits
    return tuple(Literal(float((int(a.value) + half) % all_ - half)) if isinstance(a, Literal) else a for a in args)


def _shifts(expr: IndexExpr, axis: Axis) -> bool:
    """Whether an index expression is the position on an axis plus what is free of it."""
    own = [(atom, c) for atom, c in expr.terms if (atom == axis if isinstance(atom, Axis) else axis in atom.numerator.axes())]
    return own == [(axis, 1)]


def tile_dims(kernel: Kernel) -> tuple[Dim, ...]:
    """The tile dims in canonical order."""
    pack_of = {a: p for p in kernel.packs for a in p}
    dims: list[Dim] = []
    done: set[Axis] = set()
    for axis in (*kernel.order, *kernel.roles):
        if axis in done:
            continue
        pack = pack_of.get(axis, (axis,))
        done.update(pack)
        axes = tuple(a for a in pack if kernel.tile(a) > 1)
        if axes:
            tiles = tuple(kernel.tile(a) for a in axes)
            size = 1
            for t in tiles:
                size *= t
            dims.append(Dim("_".join(a.name for a in axes), axes, tiles, size))
    return tuple(dims)


def _fixed_bindings(kernel: Kernel) -> tuple[Binding, ...]:
    """Grid bindings in launch order, then resident ones."""
    grid = [a for a in kernel.grid if kernel.roles[a].kind == "grid"]
    grid += [a for a, r in kernel.roles.items() if r.kind == "grid" and a not in grid]
    resident = [a for a, r in kernel.roles.items() if r.kind == "resident"]
    for a in resident:
        if kernel.tile(a) < a.size:
            raise PlanError(f"axis {a.name} is resident but its tile {kernel.tile(a)} is smaller than its length {a.size}")
        if a.size == 0 and kernel.tile(a) < 2:
            raise PlanError(f"axis {a.name} is resident and has no elements: its tile must be 2 or more, so that its lanes are masked")
    return tuple(
        Binding(a.name, a, kernel.tile(a), "grid" if kernel.roles[a].kind == "grid" else "resident", kernel.even(a))
        for a in (*grid, *resident)
    )
